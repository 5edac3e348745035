//! Everything that is logged. Nothing is on the way of a request that goes well; a flip is logged by
//! whoever caused it.
//!
//! The names of events and fields are part of the interface: `docs/observability.md` lists them, and
//! a test compares. A field means the same in every event:
//!
//! | field | what it holds |
//! |---|---|
//! | `pool` | the balancer's name; of a flip that several share, all of their names |
//! | `backend` | the identity of a backend |
//! | `error` | an error with all that it came from, or what a panic said |

use std::fmt::Display;

use tracing::{debug, error, info, warn};

use crate::error::Chain;
use crate::{Backend, Event, Update, UpdateError};

const HEALTH: &str = "balancer::health";
const UPDATE: &str = "balancer::update";
const DISCOVERY: &str = "balancer::discovery";

/// A backend has become fit, or unfit, for requests.
pub(crate) fn backend_changed(pool: &str, event: &Event) {
    info!(
        name: "backend_changed",
        target: HEALTH,
        pool,
        backend = %event.backend,
        from = %event.from,
        to = %event.to,
        cause = %event.cause,
        reason = %event.reason,
        "backend changed",
    );
}

/// So little is ready that health is ignored from now on.
pub(crate) fn panic_began(pool: &str) {
    warn!(
        name: "panic_began",
        target: HEALTH,
        pool,
        "too little is ready, health is ignored",
    );
}

/// Enough is ready again.
pub(crate) fn panic_ended(pool: &str) {
    info!(name: "panic_ended", target: HEALTH, pool, "enough is ready again");
}

/// A listener of the user's fell over.
pub(crate) fn listener_panicked(pool: &str, event: &Event, message: &str) {
    error!(
        name: "listener_panicked",
        target: HEALTH,
        pool,
        backend = %event.backend,
        error = message,
        "an event listener panicked",
    );
}

/// A health check of the user's fell over.
pub(crate) fn check_panicked(pool: &str, backend: &Backend, message: &str) {
    error!(
        name: "check_panicked",
        target: HEALTH,
        pool,
        backend = %backend.addr,
        error = message,
        "a health check panicked, which counts as no result",
    );
}

/// The future of a check fell over as it was dropped.
pub(crate) fn check_drop_panicked(pool: &str, message: &dyn Display) {
    error!(
        name: "check_drop_panicked",
        target: HEALTH,
        pool,
        error = %message,
        "a health check panicked while it was dropped, all are checked again",
    );
}

/// What is called for a backend that has left fell over.
pub(crate) fn forget_panicked(pool: &str, backend: &Backend, message: &str) {
    error!(
        name: "forget_panicked",
        target: HEALTH,
        pool,
        backend = %backend.addr,
        error = message,
        "HealthCheck::forget panicked",
    );
}

/// What was kept for the backends that have left fell over.
#[cfg(any(feature = "tower", test))]
pub(crate) fn follower_panicked(message: &str) {
    error!(
        name: "follower_panicked",
        target: UPDATE,
        error = message,
        "what was kept for a backend that has left panicked",
    );
}

/// The recorder of metrics fell over.
#[cfg(any(test, feature = "metrics"))]
pub(crate) fn recorder_panicked(pool: &str, message: &str) {
    error!(
        name: "recorder_panicked",
        target: UPDATE,
        pool,
        error = message,
        "the recorder of metrics panicked",
    );
}

/// The service has found another set.
pub(crate) fn members_changed(pool: &str, update: &Update) {
    info!(
        name: "members_changed",
        target: UPDATE,
        pool,
        generation = update.generation,
        added = update.added.len(),
        removed = update.removed.len(),
        changed = update.changed.len(),
        discovery_seconds = update.discovery.as_secs_f64(),
        build_seconds = update.build.as_secs_f64(),
        "members changed",
    );
}

/// The service has found the same set.
pub(crate) fn members_unchanged(pool: &str, update: &Update) {
    debug!(
        name: "members_unchanged",
        target: UPDATE,
        pool,
        generation = update.generation,
        discovery_seconds = update.discovery.as_secs_f64(),
        "nothing new discovered",
    );
}

/// An update of the service has failed, for the n-th time in a row.
pub(crate) fn update_failed(pool: &str, cause: &UpdateError, failures: u32) {
    warn!(
        name: "update_failed",
        target: UPDATE,
        pool,
        error = %Chain(cause),
        failures,
        "update failed, the last good set serves on",
    );
}

/// A discovery of the user's fell over while it was to tell of changes.
pub(crate) fn changed_panicked(pool: &str, message: &str) {
    error!(
        name: "changed_panicked",
        target: DISCOVERY,
        pool,
        error = message,
        "Discovery::changed panicked, waiting for the interval instead",
    );
}

/// A discovery of the user's fell over when it was asked how long its answer holds.
pub(crate) fn valid_for_panicked(pool: &str, message: &str) {
    error!(
        name: "valid_for_panicked",
        target: DISCOVERY,
        pool,
        error = message,
        "Discovery::valid_for panicked, waiting for the interval instead",
    );
}

/// A target of an SRV record has no address, while others have.
#[cfg(feature = "dns")]
pub(crate) fn target_absent(service: &dyn Display, cause: &crate::discovery::DnsError) {
    debug!(
        name: "target_absent",
        target: DISCOVERY,
        service = %service,
        error = %Chain(cause),
        "a target without an address is passed over",
    );
}

/// The kernel does not tell of changes of a file.
#[cfg(feature = "file")]
pub(crate) fn file_unwatched(file: &std::path::Path, cause: &dyn std::error::Error) {
    warn!(
        name: "file_unwatched",
        target: DISCOVERY,
        file = %file.display(),
        error = %Chain(cause),
        "changes of the file are not told, it is read now and then",
    );
}

#[cfg(test)]
mod tests;
