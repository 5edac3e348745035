//! What operators see.

mod text;
#[cfg(feature = "serde")]
mod written;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use selection::{LeastTime, Selector};

use crate::board::Verdict;
use crate::health::{Active, Admin, Cause, Condition};
use crate::snapshot::{Entry, Snapshot};
use crate::update::{History, Last};
use crate::{Address, LoadBalancer, UpdateError, UpdateResult};

/// A balancer at one moment.
///
/// It can be printed, for a terminal, and with the feature `serde` written: every field by its
/// name, times in seconds with names that end in `_seconds`, addresses and errors as texts, and
/// `null` for what there is none of. Later versions may add fields, and rename none.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Status {
    /// What it is called: [`Builder::name`](crate::Builder::name).
    #[cfg_attr(feature = "serde", serde(serialize_with = "written::text"))]
    pub name: Arc<str>,
    /// The generation that serves.
    pub generation: u64,
    /// How many of its backends may be picked.
    pub ready: usize,
    /// [`Options::panic_threshold`](crate::Options::panic_threshold).
    pub panic_threshold: u8,
    /// Whether too little is ready and health is ignored.
    pub panicking: bool,
    /// Changes of the condition of its backends.
    pub flips: Flips,
    /// Updates that succeeded, whether or not they changed anything.
    pub updates: u64,
    /// Updates that failed.
    pub failed_updates: u64,
    /// The latest update, if there was one.
    pub last_update: Option<LastUpdate>,
    /// Why the latest update failed; `None` if it succeeded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "written::maybe_error"))]
    pub last_error: Option<UpdateError>,
    /// The age of what serves: the time since the last update that succeeded; `None` before the
    /// first.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "age_seconds", serialize_with = "written::maybe_seconds")
    )]
    pub age: Option<Duration>,
    /// Its backends, tier by tier, in the order of their identities, or as they are
    /// [listed](crate::Order::Listed).
    pub backends: Vec<BackendStatus>,
}

/// How often something has happened, by what made it so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Flips {
    /// [`Cause::Admin`].
    pub admin: u64,
    /// [`Cause::Active`].
    pub active: u64,
    /// [`Cause::Passive`].
    pub passive: u64,
}

impl Flips {
    pub(crate) fn count(&mut self, cause: Cause) {
        match cause {
            Cause::Admin => self.admin += 1,
            Cause::Active => self.active += 1,
            Cause::Passive => self.passive += 1,
        }
    }

    /// Of this cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        match cause {
            Cause::Admin => self.admin,
            Cause::Active => self.active,
            Cause::Passive => self.passive,
        }
    }
}

/// The latest update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastUpdate {
    /// How long ago it ended.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "age_seconds", serialize_with = "written::seconds")
    )]
    pub age: Duration,
    /// What became of it.
    pub result: UpdateResult,
    /// How long its discovery took.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "discovery_seconds", serialize_with = "written::seconds")
    )]
    pub discovery: Duration,
    /// How long it took to build what was to serve; zero if nothing had to be built.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "build_seconds", serialize_with = "written::seconds")
    )]
    pub build: Duration,
}

/// One backend at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BackendStatus {
    /// Its address.
    #[cfg_attr(feature = "serde", serde(serialize_with = "written::text"))]
    pub addr: Address,
    /// The text by which the ring knows it, where that is not the address.
    #[cfg_attr(feature = "serde", serde(serialize_with = "written::maybe_text"))]
    pub ring_name: Option<Arc<str>>,
    /// Its weight; 0 = drained.
    pub weight: u32,
    /// Its tier.
    pub tier: u8,
    /// Whether it may be picked, weight aside.
    pub ready: bool,
    /// What it is fit for, all in all.
    pub condition: Condition,
    /// What made it so: `None` if it was so when it became a member.
    pub cause: Option<Cause>,
    /// The same in words.
    #[cfg_attr(feature = "serde", serde(serialize_with = "written::maybe_text"))]
    pub reason: Option<Arc<str>>,
    /// For how long it is so.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "since_seconds", serialize_with = "written::seconds")
    )]
    pub since: Duration,
    /// What its operator wants of it.
    pub admin: Admin,
    /// What its checks say.
    pub active: Active,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests it was picked for, those in flight included, since it is known: also over its
    /// removal and return, if a request was in flight meanwhile. Looking without a request, as
    /// [`peek`](LoadBalancer::peek) does, does not count.
    pub picks: u64,
    /// Requests that ended in [`Outcome::Failure`](selection::Outcome::Failure), since it is known.
    pub failures: u64,
    /// The average latency of its answers, where a selector keeps one: the peak-sensitive estimate
    /// of [`P2c`](selection::P2c) as it was made last, or that of [`LeastTime`].
    #[cfg_attr(
        feature = "serde",
        serde(rename = "latency_seconds", serialize_with = "written::maybe_seconds")
    )]
    pub latency: Option<Duration>,
    /// The share of all keys that the ring of its tier gives to it while all of that tier are
    /// ready, 0 to 1, exactly; `None` if no selector is a ring. It is counted at the first status
    /// of a generation, in time linear in the points of the ring.
    pub ring_share: Option<f64>,
}

impl<S: Selector + ?Sized> LoadBalancer<S> {
    /// Members, health, load, and how the updates went.
    ///
    /// With [shared health](crate::SharedHealth) the counts of a backend are those of all
    /// balancers that have it.
    #[must_use]
    pub fn status(&self) -> Status {
        let snapshot = self.snapshot.load_full();
        let mut status = self.status_of(&snapshot);
        let shares = snapshot.tiers.iter().flat_map(|tier| {
            let shares = tier.shares();
            (0..tier.entries.len()).map(move |node| shares.and_then(|s| s.get(node).copied()))
        });
        for (backend, share) in status.backends.iter_mut().zip(shares) {
            backend.ring_share = share;
        }
        status
    }

    /// All but the shares of the ring.
    pub(crate) fn status_of(&self, snapshot: &Snapshot<S>) -> Status {
        let (verdicts, flips) = self.pool.board.verdicts(self.pool.id);
        let now = self.pool.board.clock.now();
        let status = |entry: &Arc<Entry>| of_entry(entry, verdicts.get(&entry.state.identity), now);
        let backends: Vec<_> = snapshot.entries().map(status).collect();
        let is_ready = |backend: &&BackendStatus| backend.ready && backend.weight > 0;
        let history = self.updates.history();
        Status {
            name: Arc::clone(&self.pool.name),
            generation: snapshot.generation,
            ready: backends.iter().filter(is_ready).count(),
            panic_threshold: self.options.panic_threshold,
            panicking: self.pool.is_panicking(),
            flips,
            updates: history.updates,
            failed_updates: history.failures,
            last_update: last_update(&history, now),
            last_error: history.last_error.clone(),
            age: history.last_good.map(|then| now.saturating_sub(then)),
            backends,
        }
    }
}

fn last_update(history: &History, now: Duration) -> Option<LastUpdate> {
    let Last {
        ended,
        result,
        discovery,
        build,
    } = history.last?;
    Some(LastUpdate {
        age: now.saturating_sub(ended),
        result,
        discovery,
        build,
    })
}

/// A member that left between the two reads has no verdict, and is shown as it is now: not ready.
fn of_entry(entry: &Entry, verdict: Option<&Verdict>, now: Duration) -> BackendStatus {
    let why = verdict.and_then(|verdict| verdict.why.clone());
    let (cause, reason) = why.unzip();
    BackendStatus {
        addr: entry.backend.addr.clone(),
        ring_name: entry.backend.ring_name.clone(),
        weight: entry.backend.weight,
        tier: entry.backend.tier,
        ready: entry.is_open(),
        condition: verdict.map_or(Condition::Unchecked, |verdict| verdict.condition),
        cause,
        reason,
        since: verdict.map_or(Duration::ZERO, |verdict| now.saturating_sub(verdict.since)),
        admin: verdict.map_or(Admin::Enabled, |verdict| verdict.admin),
        active: verdict.map_or(Active::Unknown, |verdict| verdict.active),
        in_flight: entry.load.in_flight(),
        picks: entry.load.picks(),
        failures: entry.state.failures(),
        latency: latency(entry),
        ring_share: None,
    }
}

fn latency(entry: &Entry) -> Option<Duration> {
    let of_selector = |selector: &Arc<dyn Selector>| {
        let selector: &LeastTime = (&**selector as &dyn Any).downcast_ref()?;
        selector.average(entry.node)
    };
    let of_selectors = || entry.selectors.iter().find_map(of_selector);
    entry.load.latency().or_else(of_selectors)
}
