//! The balancer: one pointer that requests read, and the updates that replace it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use selection::{Build, BuildError, NodeSet, Selector};

use crate::board::Board;
use crate::clock::Clock;
use crate::health::Admin;
use crate::members::Own;
use crate::pool::Pool;
use crate::snapshot::{Maker, Snapshot};
use crate::state::State;
use crate::update::Updates;
use crate::walk::{Query, Walk};
use crate::{
    Address, Attempts, Backend, Builder, ConfigError, Discovery, Drain, Handle, HealthCheck, Lane,
    Options, Pick, SharedHealth, Tier,
};

/// Backends from discovery, filtered by health, chosen among by `S`.
///
/// `S` is a concrete selector, or `dyn Selector` for one that is chosen at run time. Its config is
/// given once, here, and every rebuild uses it.
///
/// All that a request reads is one snapshot behind one atomic pointer: which backends there are,
/// how they are numbered, which are ready, and the selector built over exactly these.
/// [`select`](Self::select) loads it once and allocates nothing. It takes no lock, apart from
/// nginx's smooth round robin, whose turns are one shared state, and what rests on it.
pub struct LoadBalancer<S: Selector + ?Sized> {
    pub(crate) snapshot: ArcSwap<Snapshot<S>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) discovery: Arc<dyn Discovery>,
    pub(crate) check: Option<Arc<dyn HealthCheck>>,
    pub(crate) options: Options,
    pub(crate) maker: Arc<Maker<S>>,
    pub(crate) updates: Updates,
    #[cfg(feature = "metrics")]
    pub(crate) meter: Option<crate::meter::Meter>,
    #[cfg(feature = "tower")]
    pub(crate) followers: crate::follow::Followers,
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
        let board = match builder.shared_health {
            Some(SharedHealth { board }) => board,
            None => Arc::new(Board::new(options.policy(), Clock::start())),
        };
        let admin = options.admin.iter();
        let pool = board.join(Own {
            name: builder.name,
            panic_threshold: options.panic_threshold,
            admin: admin
                .map(|(addr, admin)| (addr.identity(), *admin))
                .collect(),
            listener: builder.listener,
        });
        #[cfg(feature = "metrics")]
        let meter = builder
            .metrics
            .map(|metrics| crate::meter::Meter::new(metrics, Arc::clone(&pool.name)));
        Self {
            snapshot: ArcSwap::from_pointee(Snapshot::empty(Arc::clone(&pool))),
            pool,
            discovery: builder.discovery,
            check: builder.check,
            options: builder.options,
            maker: Arc::new(builder.maker),
            updates: Updates::default(),
            #[cfg(feature = "metrics")]
            meter,
            #[cfg(feature = "tower")]
            followers: Default::default(),
        }
    }

    /// A backend for a request with this key, or `None` if none may be picked.
    ///
    /// The cost is that of the selector, one load of the snapshot, and two counters.
    pub fn select(&self, key: &[u8]) -> Option<Pick> {
        self.select_plainly(Query::new(0, key))
    }

    /// As [`select`](Self::select), among the backends that meet a condition of the caller's own:
    /// a zone, a version, what is known of the request.
    ///
    /// The selector asks for the condition itself, so that among those that meet it all shares are
    /// as if there were no others.
    pub fn select_where(&self, key: &[u8], accept: impl Fn(&Backend) -> bool) -> Option<Pick> {
        self.select_with_care(Query::new(0, key).only_if(&accept))
    }

    /// Lets `look` see the backend for this key, without a request on it: no counter is touched.
    pub fn peek<R>(&self, key: &[u8], look: impl FnOnce(&Backend) -> R) -> Option<R> {
        self.snapshot.load().peek(Query::new(0, key)).map(look)
    }

    /// The backends for a request with this key, one after the other and none twice: for retries
    /// and hedges. The first is what [`select`](Self::select) returns.
    ///
    /// `key` may be borrowed, or owned where the cursor is to outlive it.
    pub fn attempts<K: AsRef<[u8]>>(&self, key: K) -> Attempts<S, K> {
        Attempts::new(self.snapshot.load_full(), 0, key)
    }

    /// The selector of this index, if it has several: see [`Builder::and`]. The first, 0, is the
    /// one that [`select`](Self::select) uses.
    #[must_use]
    pub fn lane(&self, index: usize) -> Option<Lane<'_, S>> {
        (index < self.maker.builds.len()).then(|| Lane::new(self, index))
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
        self.set_state(addr, admin).is_some()
    }

    /// Lets a backend run empty: no new picks from now on. `None` if it is no member.
    ///
    /// [`Drain::drained`] returns once its last request has ended.
    pub fn drain(&self, addr: &Address) -> Option<Drain> {
        self.set_state(addr, Admin::Drain).map(Drain::new)
    }

    /// What it is called: [`Builder::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.pool.name
    }

    /// Counts the changes of members, weights, tiers and ring names so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.snapshot.load().generation
    }

    /// Waits until another [`generation`](Self::generation) than `seen` serves, and returns it.
    ///
    /// For those who follow the members. Of several changes in a row only the last may be seen.
    pub async fn generation_after(&self, seen: u64) -> u64 {
        let mut publications = self.pool.board.publications();
        loop {
            let generation = self.generation();
            if generation != seen {
                return generation;
            }
            // The sender is in `self`.
            drop(publications.changed().await);
        }
    }

    /// The selectors that serve, tier by tier, with the nodes that each was built over.
    ///
    /// For what a selector can tell of itself, such as the shares and the fingerprint of a ring.
    #[must_use]
    pub fn tiers(&self) -> Vec<Tier<S>> {
        let snapshot = self.snapshot.load();
        snapshot
            .tiers
            .iter()
            .map(|tier| tier.public.clone())
            .collect()
    }

    #[inline]
    pub(crate) fn select_plainly(&self, query: Query<'_>) -> Option<Pick> {
        let found = self.snapshot.load().select(query);
        found.or_else(|| self.select_with_care(query))
    }

    /// A pick with all that may stand in its way. If there is none and something has flipped
    /// meanwhile, it looks again: what was ready at every moment is found, whatever moved.
    #[cold]
    pub(crate) fn select_with_care(&self, query: Query<'_>) -> Option<Pick> {
        for _ in 0..MAX_LOOKS {
            let turns = self.pool.board.turns();
            let found = Walk::default().next(&self.snapshot.load(), query);
            if found.is_some() || self.pool.board.turns() == turns {
                return found;
            }
        }
        None
    }

    /// The snapshot, and which of its members this balancer is to check, in which stint of theirs.
    /// What leaves or comes between the two looks has its own publication, and is seen by the next
    /// call.
    pub(crate) fn targets(&self) -> (Arc<Snapshot<S>>, BTreeMap<selection::Identity, u64>) {
        let stints = self.pool.board.take_checks(self.pool.id);
        (self.snapshot.load_full(), stints)
    }

    fn set_state(&self, addr: &Address, admin: Admin) -> Option<Arc<State>> {
        let Pool { id, board, .. } = &*self.pool;
        board.set_admin(*id, &addr.identity(), admin)
    }
}

impl<S: Selector + ?Sized> Drop for LoadBalancer<S> {
    /// Those that share the health of its backends have them for themselves now.
    fn drop(&mut self) {
        if self.pool.board.is_shared {
            self.pool.board.leave(self.pool.id);
        }
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

/// Nothing flips that often between two looks.
const MAX_LOOKS: usize = 16;
