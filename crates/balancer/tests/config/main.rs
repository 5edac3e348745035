//! Pools from files: what is read, what is refused and where, and what comes of it.
#![cfg(feature = "serde")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a surprise is a failure, and services run beside them"
)]

mod algorithms;
mod behaviour;
mod errors;
mod page;
mod round_trip;
mod support;
