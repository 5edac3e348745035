//! Where backends come from, against the real sources of them: files, and servers of its own on
//! loopback.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a surprise is a failure, services run beside them, and paused time is asked how much of it has passed"
)]

#[cfg(all(feature = "dns", feature = "etcd"))]
mod config;
#[cfg(feature = "dns")]
mod dns;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "file")]
mod file;
#[cfg(feature = "etcd")]
mod fleet;
#[cfg(any(feature = "dns", feature = "etcd", feature = "file"))]
mod folder;
#[cfg(any(feature = "dns", feature = "etcd"))]
mod observed;
#[cfg(any(feature = "dns", feature = "etcd"))]
mod server;
mod service;
mod support;
mod watch;
