//! The balancer: one pointer that requests read, and the updates that replace it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use selection::{Build, BuildError, NodeSet, Selector};

use crate::board::{Board, Verdict};
use crate::clock::Clock;
use crate::contain::{contain, message};
use crate::health::{Active, Admin, Condition};
use crate::members::Policy;
use crate::snapshot::{Entry, Found, Maker, Snapshot, Tier};
use crate::state::Mode;
use crate::walk::{Accept, Walk};
use crate::{
    Address, Attempts, Backend, BackendStatus, Builder, ConfigError, Discovery, Drain, Handle,
    HealthCheck, Options, Part, Pick, Status, Update, UpdateError,
};

/// Backends from discovery, filtered by health, chosen among by `S`.
///
/// `S` is a concrete selector, or `dyn Selector` for one that is chosen at run time. Its config is
/// given once, here, and every rebuild uses it.
///
/// All that a request reads is one snapshot behind one atomic pointer: which backends there are,
/// how they are numbered, which are ready, and the selector built over exactly these.
/// [`select`](Self::select) loads it once, takes no lock and allocates nothing.
pub struct LoadBalancer<S: Selector + ?Sized> {
    pub(crate) snapshot: ArcSwap<Snapshot<S>>,
    pub(crate) board: Arc<Board>,
    pub(crate) discovery: Arc<dyn Discovery>,
    pub(crate) check: Option<Arc<dyn HealthCheck>>,
    pub(crate) options: Options,
    maker: Arc<Maker<S>>,
    /// Updates take turns: held from the discovery to the publication.
    turn: tokio::sync::Mutex<()>,
    history: Mutex<History>,
}

/// How the updates went.
#[derive(Debug, Default)]
struct History {
    updates: u64,
    failures: u64,
    last_error: Option<UpdateError>,
    last_good: Option<Duration>,
}

impl<S: Build> LoadBalancer<S> {
    /// With the default config of `S` and the default options.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new(discovery: impl Discovery + 'static) -> Result<Self, ConfigError> {
        Self::with_config(discovery, S::Config::default())
    }

    /// With this config of the selector and the default options.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn with_config(
        discovery: impl Discovery + 'static,
        config: S::Config,
    ) -> Result<Self, ConfigError> {
        Self::builder(discovery, config).build()
    }

    /// With this config of the selector, and whatever else is to be set.
    #[must_use]
    pub fn builder(discovery: impl Discovery + 'static, config: S::Config) -> Builder<S> {
        Builder::new(discovery, config)
    }
}

impl LoadBalancer<dyn Selector> {
    /// With a selector chosen at run time: see [`Builder::from_factory`].
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn from_factory(
        discovery: impl Discovery + 'static,
        build: impl Fn(&NodeSet, Option<&dyn Selector>) -> Result<Arc<dyn Selector>, BuildError>
        + Send
        + Sync
        + 'static,
    ) -> Result<Self, ConfigError> {
        Builder::from_factory(discovery, build).build()
    }
}

impl<S: Selector + ?Sized> LoadBalancer<S> {
    pub(crate) fn from_builder(builder: Builder<S>) -> Self {
        let options = &builder.options;
        let policy = Policy {
            initial: options.initial_health,
            passive: options.passive.clone(),
            panic_threshold: options.panic_threshold,
            slow_start: options.slow_start.clone(),
        };
        let board = Arc::new(Board::new(policy, Clock::start(), builder.listener));
        Self {
            snapshot: ArcSwap::from_pointee(Snapshot::empty(Arc::clone(&board))),
            board,
            discovery: builder.discovery,
            check: builder.check,
            options: builder.options,
            maker: Arc::new(builder.maker),
            turn: tokio::sync::Mutex::new(()),
            history: Mutex::default(),
        }
    }

    /// A backend for a request with this key, or `None` if none may be picked.
    ///
    /// The cost is that of the selector, one load of the snapshot, and two counters.
    pub fn select(&self, key: &[u8]) -> Option<Pick> {
        let found = self.snapshot.load().select(key);
        found.or_else(|| self.select_with_care(key, None))
    }

    /// As [`select`](Self::select), among the backends that meet a condition of the caller's own:
    /// a zone, a version, what is known of the request.
    ///
    /// The selector asks for the condition itself, so that among those that meet it all shares are
    /// as if there were no others.
    pub fn select_where(&self, key: &[u8], accept: impl Fn(&Backend) -> bool) -> Option<Pick> {
        self.select_with_care(key, Some(&accept))
    }

    /// Lets `look` see the backend for this key, without a request on it: no counter is touched.
    pub fn peek<R>(&self, key: &[u8], look: impl FnOnce(&Backend) -> R) -> Option<R> {
        self.snapshot.load().peek(key).map(look)
    }

    /// The backends for a request with this key, one after the other and none twice: for retries
    /// and hedges. The first is what [`select`](Self::select) returns.
    ///
    /// `key` may be borrowed, or owned where the cursor is to outlive it.
    pub fn attempts<K: AsRef<[u8]>>(&self, key: K) -> Attempts<S, K> {
        Attempts::new(self.snapshot.load_full(), key)
    }

    /// A handle for one worker, with cheaper picks.
    #[must_use]
    pub fn handle(self: &Arc<Self>) -> Handle<S> {
        Handle::new(Arc::clone(self))
    }

    /// Lets a backend serve or not, whatever its health, for as long as it is a member. Returns
    /// whether it is one. As [`set_admin`](Self::set_admin) with [`Admin::Enabled`] or
    /// [`Admin::Disabled`].
    pub fn set_enabled(&self, addr: &Address, enabled: bool) -> bool {
        let admin = if enabled {
            Admin::Enabled
        } else {
            Admin::Disabled
        };
        self.set_admin(addr, admin)
    }

    /// Sets what its operator wants of a backend, for as long as it is a member. Returns whether
    /// it is one.
    ///
    /// Requests in flight go on in any case.
    pub fn set_admin(&self, addr: &Address, admin: Admin) -> bool {
        self.board.set_admin(&addr.identity(), admin).is_some()
    }

    /// Lets a backend run empty: no new picks from now on. `None` if it is no member.
    ///
    /// [`Drain::drained`] returns once its last request has ended.
    pub fn drain(&self, addr: &Address) -> Option<Drain> {
        let state = self.board.set_admin(&addr.identity(), Admin::Drain);
        state.map(Drain::new)
    }

    /// Counts the changes of members, weights, tiers and ring names so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.snapshot.load().generation
    }

    /// Members, health, load, and how the updates went.
    #[must_use]
    pub fn status(&self) -> Status {
        let (verdicts, panicking) = self.board.verdicts();
        let snapshot = self.snapshot.load_full();
        let history = self.history();
        Status {
            generation: snapshot.generation,
            panicking,
            backends: snapshot
                .entries()
                .map(|entry| backend_status(entry, &verdicts))
                .collect(),
            updates: history.updates,
            failed_updates: history.failures,
            last_error: history.last_error.clone(),
            age: history
                .last_good
                .map(|then| self.board.clock.now().saturating_sub(then)),
        }
    }

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
        let _turn = self.turn.lock().await;
        let result = self.discover_and_publish().await;
        let mut history = self.history();
        match &result {
            Ok(_) => {
                history.updates += 1;
                history.last_error = None;
                history.last_good = Some(self.board.clock.now());
            }
            Err(error) => {
                history.failures += 1;
                history.last_error = Some(error.clone());
            }
        }
        drop(history);
        result
    }

    /// A pick with all that may stand in its way. If there is none and something has flipped
    /// meanwhile, it looks again: what was ready at every moment is found, whatever moved.
    #[cold]
    pub(crate) fn select_with_care(&self, key: &[u8], accept: Accept<'_>) -> Option<Pick> {
        for _ in 0..MAX_LOOKS {
            let turns = self.board.turns();
            let found = Walk::default().next(&self.snapshot.load(), key, accept);
            if found.is_some() || self.board.turns() == turns {
                return found;
            }
        }
        None
    }

    /// The snapshot, and which stint its members are in. What leaves or comes between the two
    /// looks has its own publication, and is seen by the next call.
    pub(crate) fn members(&self) -> (Arc<Snapshot<S>>, BTreeMap<selection::Identity, u64>) {
        let (verdicts, _) = self.board.verdicts();
        let stints = verdicts
            .into_iter()
            .map(|(identity, verdict)| (identity, verdict.stint));
        (self.snapshot.load_full(), stints.collect())
    }

    async fn discover_and_publish(&self) -> Result<Update, UpdateError> {
        let started = self.board.clock.now();
        let found = self.discover().await?;
        let discovered = self.board.clock.now();
        let previous = self.snapshot.load_full();
        let mut update = compare(&previous, &found);
        update.discovery = discovered.saturating_sub(started);
        // Values in `ext` cannot be compared: if there are any, the entries are made anew around
        // the same selectors, which is no new generation.
        if !update.is_unchanged() || found.has_ext() || had_ext(&previous) {
            update.generation += u64::from(!update.is_unchanged());
            self.publish(update.generation, self.build(found, previous).await?);
        }
        if !update.is_unchanged() {
            update.build = self.board.clock.now().saturating_sub(discovered);
        }
        Ok(update)
    }

    async fn discover(&self) -> Result<Found, UpdateError> {
        let answer = contain(self.discovery.discover()).await;
        let found = Found::new(answer.map_err(|message| UpdateError::Panicked {
            part: Part::Discovery,
            message,
        })??);
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
    ) -> Result<Box<[Tier<S>]>, UpdateError> {
        let states = self.board.states(found.iter().map(|(id, _)| id));
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

    fn publish(&self, generation: u64, tiers: Box<[Tier<S>]>) {
        let seats = tiers.iter().flat_map(Tier::seats).collect();
        let board = Arc::clone(&self.board);
        let next = Arc::new(Snapshot {
            generation,
            tiers,
            board,
        });
        let mut before = None;
        self.board
            .seat(seats, || before = Some(self.snapshot.swap(next)));
        drop(before); // Not under the lock: it may be large.
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Selector + ?Sized> fmt::Debug for LoadBalancer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBalancer")
            .field("snapshot", &self.snapshot.load())
            .field("options", &self.options)
            .finish_non_exhaustive()
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
    let is_new = |(identity, _): &(_, _)| !known.contains_key(identity);
    let added = found.iter().filter(is_new);
    update.added = added.map(|(_, backend)| backend.addr.clone()).collect();
    update
}

fn had_ext<S: Selector + ?Sized>(snapshot: &Snapshot<S>) -> bool {
    snapshot
        .entries()
        .any(|entry| !entry.backend.ext.is_empty())
}

fn backend_status(
    entry: &Entry,
    verdicts: &BTreeMap<selection::Identity, Verdict>,
) -> BackendStatus {
    // A member that left between the two reads is shown as it is now: not ready.
    let verdict = verdicts.get(&entry.state.identity);
    BackendStatus {
        addr: entry.backend.addr.clone(),
        weight: entry.backend.weight,
        tier: entry.backend.tier,
        ready: entry.state.mode() != Mode::Closed,
        admin: verdict.map_or(Admin::Enabled, |verdict| verdict.admin),
        condition: verdict.map_or(Condition::Unchecked, |verdict| verdict.condition),
        active: verdict.map_or(Active::Unknown, |verdict| verdict.active),
        in_flight: entry.state.load.in_flight(),
    }
}

/// Nothing flips that often between two looks.
const MAX_LOOKS: usize = 16;
