//! Where backends come from, against the real sources of them: files, and servers of its own on
//! loopback.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a surprise is a failure, services run beside them, and paused time is asked how much of it has passed"
)]

#[cfg(feature = "file")]
mod file;
mod service;
mod support;
mod watch;
