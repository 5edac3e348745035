//! What the balancer does, seen from outside.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a surprise is a failure, and paused time is asked how much of it has passed"
)]

#[cfg(feature = "http")]
mod http;
mod lanes;
mod leases;
mod logs;
mod passive;
mod pool;
mod ring;
mod service;
mod shared;
mod status;
mod support;
mod threads;
mod update;
