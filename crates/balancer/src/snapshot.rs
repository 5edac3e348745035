//! One generation: who the backends are, how they are numbered, and what picks among them.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use selection::{
    BuildError, Consistent, Eligible, Identity, Node, NodeId, NodeLoad, NodeSet, ReadySet, Selector,
};

use crate::member::Seat;
use crate::passive::Fails;
use crate::pool::{Pool, Stay};
use crate::state::{Mode, State, mode_of};
use crate::walk::{Query, Walk};
use crate::{Backend, Order, Pick, Tier};

/// Makes a selector over a set of nodes, with the config that was given once.
pub(crate) struct Maker<S: ?Sized> {
    /// One for each lane; at least one.
    pub(crate) builds: Vec<Box<BuildFn<S>>>,
    pub(crate) erase: fn(&Arc<S>) -> Arc<dyn Selector>,
}

pub(crate) type BuildFn<S> =
    dyn Fn(&NodeSet, Option<&S>) -> Result<Arc<S>, BuildError> + Send + Sync + 'static;

/// Everything a request reads, of one generation.
pub(crate) struct Snapshot<S: ?Sized> {
    pub(crate) generation: u64,
    /// Ascending by number.
    pub(crate) tiers: Box<[TierSnapshot<S>]>,
    pub(crate) pool: Arc<Pool>,
}

/// The backends of one tier, with a selector of their own: those of the other tiers take no share.
pub(crate) struct TierSnapshot<S: ?Sized> {
    pub(crate) public: Tier<S>,
    /// By node number.
    pub(crate) entries: Box<[Arc<Entry>]>,
    pub(crate) ready: Arc<ReadySet>,
    /// Whether any of them has a limit of requests in flight.
    pub(crate) is_limited: bool,
    /// Of each node on the first ring among its selectors; for operators, made when one asks.
    shares: OnceLock<Option<Box<[f64]>>>,
}

/// One backend in one generation. What every pick looks at comes first, and `load` stands here as
/// well as in `state`: of a pool that is not in the cache, a pick then waits for this and for the
/// load, and for nothing else.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) load: Arc<NodeLoad>,
    pub(crate) node: NodeId,
    /// The most requests in flight; `u32::MAX` if there is no limit.
    pub(crate) max_in_flight: u32,
    /// If others share its health: its mode may be open for them while it has left this balancer.
    pub(crate) stay: Option<Arc<Stay>>,
    pub(crate) backend: Backend,
    pub(crate) state: Arc<State>,
    /// By lane: whichever picked it is told how the request ended.
    pub(crate) selectors: Arc<[Arc<dyn Selector>]>,
    pub(crate) pool: Arc<Pool>,
}

/// What a selector has picked.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'s> {
    pub(crate) entry: &'s Arc<Entry>,
    pub(crate) lane: usize,
    /// Whether the selector waits to be told what becomes of it. Asked of the selector itself,
    /// which knows the answer when it is compiled, and not of the `dyn` in the entry.
    pub(crate) tracked: bool,
}

type Stays = BTreeMap<Identity, Arc<Stay>>;

// ===== impl Maker =====

impl<S: Selector + ?Sized> Maker<S> {
    /// The selectors of all lanes over these nodes.
    pub(crate) fn tier(
        &self,
        number: u8,
        nodes: NodeSet,
        previous: Option<&Tier<S>>,
    ) -> Result<Tier<S>, BuildError> {
        let lanes = self.builds.iter().enumerate();
        let selectors = lanes.map(|(lane, build)| {
            let previous = previous.and_then(|tier| tier.lane(lane));
            build(&nodes, previous.map(|selector| &**selector))
        });
        Ok(Tier {
            number,
            selectors: selectors.collect::<Result<_, _>>()?,
            nodes,
        })
    }
}

// ===== impl Snapshot =====

impl<S: Selector + ?Sized> Snapshot<S> {
    pub(crate) fn empty(pool: Arc<Pool>) -> Self {
        Self {
            generation: 0,
            tiers: Box::default(),
            pool,
        }
    }

    /// A request on the backend for `key`, as long as everything is plain: nothing is due, no
    /// limits, and the backend is not just being closed. `None` may mean that it is not.
    pub(crate) fn select(&self, query: Query<'_>) -> Option<Pick> {
        Pick::claim(self.pick_plainly(query)?)
    }

    /// As [`select`](Self::select), without a request, and certain.
    pub(crate) fn peek(&self, query: Query<'_>) -> Option<&Backend> {
        if let Some(choice) = self.pick_plainly(query) {
            choice.cancel();
            if mode_of(&choice.entry.load) == Mode::Open && !choice.entry.has_left() {
                return Some(&choice.entry.backend);
            }
        }
        Walk::default().peek(self, query)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.tiers.iter().flat_map(|tier| &tier.entries)
    }

    fn pick_plainly(&self, query: Query<'_>) -> Option<Choice<'_>> {
        if !self.pool.board.is_quiet() {
            return None;
        }
        let now = || self.pool.board.clock.now();
        let tier = self.tiers.first().filter(|tier| !tier.is_limited)?;
        tier.pick(query, &Eligible::new(&tier.ready).at(&now))
    }

    /// The stays of its backends, which go on with them.
    fn stays(&self) -> Stays {
        let entries = self.entries();
        let stays = entries.filter_map(|entry| {
            let stay = entry.stay.as_ref()?;
            Some((entry.state.identity.clone(), Arc::clone(stay)))
        });
        stays.collect()
    }

    fn tier(&self, number: u8) -> Option<&TierSnapshot<S>> {
        self.tiers.iter().find(|tier| tier.public.number == number)
    }
}

impl<S: Selector + ?Sized> TierSnapshot<S> {
    pub(crate) fn seats(&self) -> impl Iterator<Item = Seat> {
        self.entries.iter().map(|entry| Seat {
            state: Arc::clone(&entry.state),
            ready: Arc::clone(&self.ready),
            node: entry.node,
            tier: self.public.number,
            weight: entry.backend.weight,
            fails: Fails {
                max_fails: entry.backend.max_fails,
                fail_timeout: entry.backend.fail_timeout,
            },
            stay: entry.stay.clone(),
        })
    }

    /// The share of all keys that the ring gives to each node; `None` if there is no ring.
    pub(crate) fn shares(&self) -> Option<&[f64]> {
        let shares = self.shares.get_or_init(|| {
            let mut selectors = self.entries.first()?.selectors.iter();
            Some(selectors.find_map(as_ring)?.shares().into())
        });
        shares.as_deref()
    }

    pub(crate) fn pick(&self, query: Query<'_>, eligible: &Eligible<'_>) -> Option<Choice<'_>> {
        let selector = self.public.lane(query.lane)?;
        let node = selector.pick(query.key, eligible)?;
        Some(Choice {
            entry: self.entries.get(node.index())?,
            lane: query.lane,
            tracked: selector.tracks_picks(),
        })
    }
}

impl<S: ?Sized> fmt::Debug for Snapshot<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backends = self.tiers.iter().flat_map(|tier| &tier.entries);
        f.debug_struct("Snapshot")
            .field("generation", &self.generation)
            .field(
                "backends",
                &backends.map(|e| &e.backend.addr).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("backend", &self.backend)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// The selector as a ring, if it is one.
pub(crate) fn as_ring(selector: &Arc<dyn Selector>) -> Option<&Consistent> {
    let selector: &dyn Any = &**selector;
    selector.downcast_ref()
}

// ===== impl Found =====

/// What discovery found, merged and in the order in which nodes are numbered.
#[derive(Debug)]
pub(crate) struct Found {
    backends: Vec<(Identity, Backend)>,
    places: BTreeMap<Identity, usize>,
}

impl Found {
    /// The same address twice is one backend: weights added, the rest is that of the first.
    pub(crate) fn new(discovered: Vec<Backend>, order: Order) -> Self {
        let mut backends = Vec::<(Identity, Backend)>::with_capacity(discovered.len());
        let mut places = BTreeMap::new();
        for backend in discovered {
            let identity = backend.addr.identity();
            let place = *places.entry(identity.clone()).or_insert(backends.len());
            match backends.get_mut(place) {
                Some((_, first)) => first.weight = first.weight.saturating_add(backend.weight),
                None => backends.push((identity, backend)),
            }
        }
        if order == Order::Address {
            backends.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            for (place, (identity, _)) in backends.iter().enumerate() {
                places.insert(identity.clone(), place);
            }
        }
        Self { backends, places }
    }

    pub(crate) fn len(&self) -> usize {
        self.backends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Identity, Backend)> {
        self.backends.iter()
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Backend> {
        let (_, backend) = self.backends.get(*self.places.get(identity)?)?;
        Some(backend)
    }

    /// In the order of the entries of a snapshot.
    pub(crate) fn by_tier(&self) -> Vec<&(Identity, Backend)> {
        let mut sorted: Vec<_> = self.iter().collect();
        sorted.sort_by_key(|(_, backend)| backend.tier);
        sorted
    }

    /// The tiers that serve these backends. A tier whose backends are as they were keeps its
    /// numbering and its selector, with all the state in it.
    pub(crate) fn tiers<S: Selector + ?Sized>(
        self,
        states: &BTreeMap<Identity, Arc<State>>,
        previous: &Snapshot<S>,
        maker: &Maker<S>,
    ) -> Result<Box<[TierSnapshot<S>]>, BuildError> {
        let stays = previous.stays();
        let mut tiers = BTreeMap::<u8, Vec<(Backend, Arc<State>)>>::new();
        for (identity, backend) in self.backends {
            let Some(state) = states.get(&identity) else {
                continue;
            };
            let tier = tiers.entry(backend.tier).or_default();
            tier.push((backend, Arc::clone(state)));
        }
        tiers
            .into_iter()
            .map(|(number, seats)| TierSnapshot::new(number, seats, (previous, &stays), maker))
            .collect()
    }
}

impl<S: Selector + ?Sized> TierSnapshot<S> {
    fn new(
        number: u8,
        seats: Vec<(Backend, Arc<State>)>,
        (snapshot, stays): (&Snapshot<S>, &Stays),
        maker: &Maker<S>,
    ) -> Result<Self, BuildError> {
        let previous = snapshot.tier(number);
        let public = match previous {
            Some(tier) if tier.selects_like(&seats) => tier.public.clone(),
            _ => {
                // Merged and sorted before, if they were to be.
                let nodes = seats.iter().map(|(backend, state)| node(backend, state));
                let nodes = NodeSet::in_order(nodes)?;
                let previous = previous.map(|tier| &tier.public);
                maker.tier(number, nodes, previous)?
            }
        };
        let is_limited = seats
            .iter()
            .any(|(backend, _)| backend.max_in_flight.is_some());
        let selectors: Arc<[_]> = public.selectors.iter().map(maker.erase).collect();
        let ids = public.nodes.ids();
        let entries = ids.zip(seats).map(|(node, (backend, state))| {
            Arc::new(Entry {
                load: Arc::clone(&state.load),
                node,
                max_in_flight: backend.max_in_flight.unwrap_or(u32::MAX),
                stay: match stays.get(&state.identity) {
                    Some(stay) => Some(Arc::clone(stay)),
                    None => snapshot.pool.stay(),
                },
                backend,
                state,
                selectors: Arc::clone(&selectors),
                pool: Arc::clone(&snapshot.pool),
            })
        });
        Ok(Self {
            entries: entries.collect(),
            ready: Arc::new(ReadySet::none(public.nodes.len())),
            public,
            is_limited,
            shares: OnceLock::new(),
        })
    }

    fn selects_like(&self, seats: &[(Backend, Arc<State>)]) -> bool {
        let same = |(entry, (backend, state)): (&Arc<Entry>, &(Backend, Arc<State>))| {
            entry.backend.selects_like(backend) && Arc::ptr_eq(&entry.state, state)
        };
        self.entries.len() == seats.len() && self.entries.iter().zip(seats).all(same)
    }
}

fn node(backend: &Backend, state: &State) -> Node {
    let node = Node::new(state.identity.clone(), backend.weight).with_load(Arc::clone(&state.load));
    let node = match &backend.ring_name {
        Some(name) => node.with_ring_name(Arc::clone(name)),
        None => node,
    };
    match backend.max_fails {
        Some(max_fails) => node.with_max_fails(max_fails),
        None => node,
    }
}
