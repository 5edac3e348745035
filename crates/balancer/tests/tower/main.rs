//! `tower::Balance`, over services that can be steered and over real servers.
#![cfg(feature = "tower")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts its own servers and tasks"
)]

mod outcomes;
mod services;
mod sockets;
mod support;
mod unready;
