//! Updates: from what was discovered to what serves, one at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selection::ketama::Continuum;
use selection::{Consistent, Selector};

use crate::contain::{contain, message};
use crate::snapshot::{Found, Snapshot, TierSnapshot, as_ring};
use crate::{Address, Backend, LoadBalancer, Part, UpdateError};

/// What an update changed.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Update {
    /// The generation that serves now. It grows with every change of members, weights, tiers,
    /// ring names or limits, and with nothing else.
    pub generation: u64,
    /// Backends that were not members before, in the order of their identities.
    pub added: Vec<Address>,
    /// Backends that are no members any more.
    pub removed: Vec<Address>,
    /// Members whose weight, tier, ring name or limit is another; or whose number, where
    /// [`Order::Listed`](crate::Order::Listed) is all that an update changes.
    pub changed: Vec<Address>,
    /// How long discovery took.
    pub discovery: Duration,
    /// How long it took to build what serves now; zero if nothing had to be built.
    pub build: Duration,
    /// The lowest tier's selectors before and after.
    selectors: Option<[Arc<dyn Selector>; 2]>,
}

impl Update {
    /// Whether nothing changed that a selector sees.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    pub(crate) fn result(&self) -> UpdateResult {
        if self.is_unchanged() {
            UpdateResult::Unchanged
        } else {
            UpdateResult::Changed
        }
    }

    /// The share of all keys that have another backend now, as far as the ring decides: exactly
    /// that part of its circle. `None` if the first selector of the lowest tier was or is no
    /// ring, or that tier did not exist before.
    ///
    /// It is counted when it is asked for, in time linear in the points of both rings; until the
    /// report is dropped it keeps the ring of before in memory.
    #[must_use]
    pub fn moved(&self) -> Option<f64> {
        let [before, after] = self.selectors.as_ref()?;
        let [before, after] = [as_ring(before)?, as_ring(after)?].map(Consistent::ring);
        let moves = before.diff(after);
        let places: u64 = moves.iter().map(|part| part.length).sum();
        // Both below 2^53.
        Some(places as f64 / Continuum::CIRCLE as f64)
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update")
            .field("generation", &self.generation)
            .field("added", &self.added)
            .field("removed", &self.removed)
            .field("changed", &self.changed)
            .field("discovery", &self.discovery)
            .field("build", &self.build)
            .finish_non_exhaustive()
    }
}

/// The turns that updates take, and how they went.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    /// Held from the discovery until the update is published and in the history.
    turn: tokio::sync::Mutex<()>,
    history: Mutex<History>,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) updates: u64,
    pub(crate) failures: u64,
    pub(crate) last_error: Option<UpdateError>,
    pub(crate) last_good: Option<Duration>,
    pub(crate) last: Option<Last>,
}

/// The latest update, whatever became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) ended: Duration,
    pub(crate) result: UpdateResult,
    pub(crate) discovery: Duration,
    pub(crate) build: Duration,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum UpdateResult {
    /// What it found is another set, and serves.
    Changed,
    /// What it found is what served.
    Unchanged,
    /// It failed, and what served serves on.
    Failed,
}

impl fmt::Display for UpdateResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
        })
    }
}

/// How long the parts of an update took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) discovery: Duration,
    /// If there was one.
    pub(crate) build: Option<Duration>,
}

impl History {
    fn record(&mut self, result: &Result<Update, UpdateError>, times: Times, now: Duration) {
        let kind = match result {
            Ok(update) => {
                self.updates += 1;
                self.last_error = None;
                self.last_good = Some(now);
                update.result()
            }
            Err(error) => {
                self.failures += 1;
                self.last_error = Some(error.clone());
                UpdateResult::Failed
            }
        };
        self.last = Some(Last {
            ended: now,
            result: kind,
            discovery: times.discovery,
            build: times.build.unwrap_or_default(),
        });
    }
}

impl Updates {
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Selector + ?Sized> LoadBalancer<S> {
    /// Discovers, and serves what was found from the next pick on. Updates take turns.
    ///
    /// Selectors are built on tokio's blocking threads; what served before serves meanwhile, and
    /// serves on if anything fails. Health, the administrative state and the requests in flight
    /// stay with every address that stays. The same set in another order changes nothing.
    ///
    /// # Errors
    ///
    /// [`UpdateError`]; [`status`](Self::status) shows the latest.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn update(&self) -> Result<Update, UpdateError> {
        let turn = self.updates.turn.lock().await;
        let mut times = Times::default();
        let result = self.discover_and_publish(&mut times).await;
        let now = self.pool.board.clock.now();
        self.updates.history().record(&result, times, now);
        // What follows goes along every point of two rings; the next update need not wait for that.
        drop(turn);
        #[cfg(feature = "metrics")]
        self.record_update(&result, times).await;
        result
    }

    async fn discover_and_publish(&self, times: &mut Times) -> Result<Update, UpdateError> {
        let clock = self.pool.board.clock;
        let started = clock.now();
        let found = self.discover().await;
        let discovered = clock.now();
        times.discovery = discovered.saturating_sub(started);
        let found = found?;
        let previous = self.snapshot.load_full();
        let mut update = compare(&previous, &found);
        update.discovery = times.discovery;
        // With other values in `ext` the entries are made anew around the same selectors, which is
        // no new generation.
        if !update.is_unchanged() || !has_ext_of(&previous, &found) {
            update.generation += u64::from(!update.is_unchanged());
            let tiers = self.build(found, Arc::clone(&previous)).await;
            let took = clock.now().saturating_sub(discovered);
            times.build = Some(took);
            let tiers = tiers?;
            update.build = took;
            update.selectors = self.lowest_selectors(&previous.tiers, &tiers);
            self.publish(update.generation, tiers);
        }
        Ok(update)
    }

    async fn discover(&self) -> Result<Found, UpdateError> {
        let answer = contain(self.discovery.discover()).await;
        let answer = answer.map_err(|message| UpdateError::Panicked {
            part: Part::Discovery,
            message,
        })??;
        let found = Found::new(answer, self.options.order);
        let min = self.options.min_backends;
        if found.len() < min {
            let found = found.len();
            return Err(UpdateError::TooFewBackends { found, min });
        }
        Ok(found)
    }

    /// The tiers over what was found, built where blocking is allowed. Health and enabling may
    /// change meanwhile: they are looked at when the tiers are published.
    async fn build(
        &self,
        found: Found,
        previous: Arc<Snapshot<S>>,
    ) -> Result<Box<[TierSnapshot<S>]>, UpdateError> {
        let states = self.pool.board.states(found.iter().map(|(id, _)| id));
        let maker = Arc::clone(&self.maker);
        let built =
            tokio::task::spawn_blocking(move || found.tiers(&states, &previous, &maker)).await;
        match built {
            Ok(tiers) => Ok(tiers?),
            Err(failed) => Err(match failed.try_into_panic() {
                Ok(payload) => UpdateError::Panicked {
                    part: Part::Selector,
                    message: message(&*payload),
                },
                Err(_) => UpdateError::Stopped,
            }),
        }
    }

    fn lowest_selectors(
        &self,
        before: &[TierSnapshot<S>],
        after: &[TierSnapshot<S>],
    ) -> Option<[Arc<dyn Selector>; 2]> {
        let [before, after] = [before.first()?, after.first()?];
        if before.public.number != after.public.number {
            return None;
        }
        let [before, after] = [before.public.lane(0)?, after.public.lane(0)?];
        Some([before, after].map(self.maker.erase))
    }

    fn publish(&self, generation: u64, tiers: Box<[TierSnapshot<S>]>) {
        let seats = tiers.iter().flat_map(TierSnapshot::seats).collect();
        let pool = Arc::clone(&self.pool);
        let next = Arc::new(Snapshot {
            generation,
            tiers,
            pool,
        });
        let mut before = None;
        let publish = || before = Some(self.snapshot.swap(next));
        self.pool.board.seat(self.pool.id, seats, publish);
        drop(before); // Not under the lock: it may be large.
        #[cfg(feature = "tower")]
        self.followers.tell();
    }
}

/// What serving `found` after `previous` would change.
fn compare<S: Selector + ?Sized>(previous: &Snapshot<S>, found: &Found) -> Update {
    let mut update = Update {
        generation: previous.generation,
        ..Update::default()
    };
    let mut known = BTreeMap::new();
    for entry in previous.entries() {
        known.insert(&entry.state.identity, &entry.backend);
        match found.get(&entry.state.identity) {
            None => update.removed.push(entry.backend.addr.clone()),
            Some(backend) if !backend.is_like(&entry.backend) => {
                update.changed.push(backend.addr.clone());
            }
            Some(_) => {}
        }
    }
    let is_new = |(identity, _): &&(_, Backend)| !known.contains_key(identity);
    let added = found.iter().filter(is_new);
    update.added = added.map(|(_, backend)| backend.addr.clone()).collect();
    if update.is_unchanged() {
        update.changed = moved(previous, found);
    }
    update
}

/// Whether these members have the values in `ext` that were found; values that cannot be compared
/// are taken for new ones.
fn has_ext_of<S: Selector + ?Sized>(snapshot: &Snapshot<S>, found: &Found) -> bool {
    snapshot.entries().all(|entry| {
        let found = found.get(&entry.state.identity);
        found.is_some_and(|backend| backend.has_ext_of(&entry.backend))
    })
}

/// Those that have another number than before; of a set that is sorted, none.
fn moved<S: Selector + ?Sized>(previous: &Snapshot<S>, found: &Found) -> Vec<Address> {
    let found = found.by_tier().into_iter();
    found
        .zip(previous.entries())
        .filter(|((identity, _), entry)| *identity != entry.state.identity)
        .map(|((_, backend), _)| backend.addr.clone())
        .collect()
}
