//! What operators see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selection::{Identity, NodeSet, Selector};

use crate::board::Verdict;
use crate::health::{Active, Admin, Condition};
use crate::snapshot::Entry;
use crate::{Address, LoadBalancer, UpdateError};

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
    /// For how long.
    pub since: Duration,
    /// Why; `None` if it was so when it became a member.
    pub reason: Option<Arc<str>>,
    /// What its checks say.
    pub active: Active,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests it was picked for, those in flight included, since it is known. Looking without a
    /// request, as [`peek`](LoadBalancer::peek) does, does not count.
    pub picks: u64,
    /// Requests that ended in [`Outcome::Failure`](selection::Outcome::Failure), since it is known.
    pub failures: u64,
}

/// The selectors of one tier, and the nodes they were built over.
#[non_exhaustive]
pub struct Tier<S: ?Sized> {
    /// Its number: [`Backend::tier`](crate::Backend::tier).
    pub number: u8,
    /// The nodes, by the numbers that the selector knows them by.
    pub nodes: NodeSet,
    /// By lane; as a rule there is one. Picking with it goes past health and counts nothing.
    pub selectors: Box<[Arc<S>]>,
}

impl<S: ?Sized> Tier<S> {
    pub(crate) fn lane(&self, index: usize) -> Option<&Arc<S>> {
        self.selectors.get(index)
    }
}

impl<S: ?Sized> Clone for Tier<S> {
    fn clone(&self) -> Self {
        Self {
            number: self.number,
            nodes: self.nodes.clone(),
            selectors: self.selectors.clone(),
        }
    }
}

impl<S: Selector + ?Sized> fmt::Debug for Tier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier")
            .field("number", &self.number)
            .field("nodes", &self.nodes)
            .field("selectors", &self.selectors)
            .finish()
    }
}

impl<S: Selector + ?Sized> LoadBalancer<S> {
    /// Members, health, load, and how the updates went.
    #[must_use]
    pub fn status(&self) -> Status {
        let verdicts = self.pool.board.verdicts(self.pool.id);
        let snapshot = self.snapshot.load_full();
        let history = self.updates.history();
        Status {
            generation: snapshot.generation,
            panicking: self.pool.is_panicking(),
            backends: snapshot
                .entries()
                .map(|entry| backend_status(entry, &verdicts, self.pool.board.clock.now()))
                .collect(),
            updates: history.updates,
            failed_updates: history.failures,
            last_error: history.last_error.clone(),
            age: history
                .last_good
                .map(|then| self.pool.board.clock.now().saturating_sub(then)),
        }
    }
}

fn backend_status(
    entry: &Entry,
    verdicts: &BTreeMap<Identity, Verdict>,
    now: Duration,
) -> BackendStatus {
    // A member that left between the two reads is shown as it is now: not ready.
    let verdict = verdicts.get(&entry.state.identity);
    BackendStatus {
        addr: entry.backend.addr.clone(),
        weight: entry.backend.weight,
        tier: entry.backend.tier,
        ready: entry.is_open(),
        admin: verdict.map_or(Admin::Enabled, |verdict| verdict.admin),
        condition: verdict.map_or(Condition::Unchecked, |verdict| verdict.condition),
        active: verdict.map_or(Active::Unknown, |verdict| verdict.active),
        since: verdict.map_or(Duration::ZERO, |verdict| now.saturating_sub(verdict.since)),
        reason: verdict.and_then(|verdict| Some(verdict.why.clone()?.1)),
        in_flight: entry.state.load.in_flight(),
        picks: entry.state.load.picks(),
        failures: entry.state.failures(),
    }
}
