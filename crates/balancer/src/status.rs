//! What operators see.

use std::time::Duration;

use crate::health::{Active, Admin, Condition};
use crate::{Address, UpdateError};

/// What an update changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Update {
    /// The generation that serves now. It grows with every change of members, weights, tiers,
    /// ring names or limits, and with nothing else.
    pub generation: u64,
    /// Backends that were not members before, in the order of their identities.
    pub added: Vec<Address>,
    /// Backends that are no members any more.
    pub removed: Vec<Address>,
    /// Members whose weight, tier, ring name or limit is another.
    pub changed: Vec<Address>,
    /// How long discovery took.
    pub discovery: Duration,
    /// How long the selectors took to build; zero if none was built.
    pub build: Duration,
}

impl Update {
    /// Whether nothing changed that a selector sees.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// A balancer at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The generation that serves.
    pub generation: u64,
    /// Whether too little is ready and health is ignored:
    /// [`Options::panic_threshold`](crate::Options::panic_threshold).
    pub panicking: bool,
    /// Its backends, tier by tier, in the order of their identities.
    pub backends: Vec<BackendStatus>,
    /// Updates that succeeded, whether or not they changed anything.
    pub updates: u64,
    /// Updates that failed.
    pub failed_updates: u64,
    /// Why the latest update failed; `None` if it succeeded.
    pub last_error: Option<UpdateError>,
    /// The time since the last update that succeeded; `None` before the first.
    pub age: Option<Duration>,
}

/// One backend at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendStatus {
    /// Its address.
    pub addr: Address,
    /// Its weight; 0 = drained.
    pub weight: u32,
    /// Its tier.
    pub tier: u8,
    /// Whether it may be picked, weight aside.
    pub ready: bool,
    /// What its operator wants of it.
    pub admin: Admin,
    /// What it is fit for, all in all.
    pub condition: Condition,
    /// What its checks say.
    pub active: Active,
    /// Requests in flight.
    pub in_flight: u32,
}
