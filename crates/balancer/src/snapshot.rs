//! One generation: who the backends are, how they are numbered, and what picks among them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use selection::{BuildError, Eligible, Identity, Node, NodeId, NodeSet, ReadySet, Selector, Tried};

use crate::Backend;
use crate::board::{Seat, State};
use crate::clock::Clock;

/// Makes a selector over a set of nodes, with the config that was given once.
pub(crate) struct Maker<S: ?Sized> {
    pub(crate) build: Box<BuildFn<S>>,
    pub(crate) erase: fn(&Arc<S>) -> Arc<dyn Selector>,
    pub(crate) clock: Clock,
}

type BuildFn<S> =
    dyn Fn(&NodeSet, Option<&S>) -> Result<Arc<S>, BuildError> + Send + Sync + 'static;

/// Everything a request reads, of one generation.
pub(crate) struct Snapshot<S: ?Sized> {
    pub(crate) generation: u64,
    /// Ascending by number.
    pub(crate) tiers: Box<[Tier<S>]>,
}

/// The backends of one tier, with a selector of their own: those of the other tiers take no share.
pub(crate) struct Tier<S: ?Sized> {
    number: u8,
    nodes: NodeSet,
    /// By node number.
    pub(crate) entries: Box<[Arc<Entry>]>,
    ready: Arc<ReadySet>,
    selector: Arc<S>,
}

/// One backend in one generation.
pub(crate) struct Entry {
    pub(crate) backend: Backend,
    pub(crate) node: NodeId,
    pub(crate) state: Arc<State>,
    /// What picked it, to be told how the request ended.
    pub(crate) selector: Arc<dyn Selector>,
    pub(crate) clock: Clock,
}

// ===== impl Snapshot =====

impl<S: Selector + ?Sized> Snapshot<S> {
    pub(crate) fn empty() -> Self {
        Self {
            generation: 0,
            tiers: Box::default(),
        }
    }

    /// The backend for `key`, of the lowest tier that has one.
    pub(crate) fn pick(&self, key: &[u8], clock: Clock) -> Option<&Arc<Entry>> {
        let now = || clock.now();
        self.tiers
            .iter()
            .find_map(|tier| tier.pick(key, &Eligible::new(&tier.ready).at(&now)))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.tiers.iter().flat_map(|tier| &tier.entries)
    }

    fn tier(&self, number: u8) -> Option<&Tier<S>> {
        self.tiers.iter().find(|tier| tier.number == number)
    }
}

impl<S: Selector + ?Sized> Tier<S> {
    /// As [`Snapshot::pick`], in this tier and less the nodes tried before.
    pub(crate) fn pick_except(
        &self,
        key: &[u8],
        tried: &Tried,
        clock: Clock,
    ) -> Option<&Arc<Entry>> {
        let now = || clock.now();
        let eligible = Eligible::new(&self.ready).except(tried).at(&now);
        self.pick(key, &eligible)
    }

    pub(crate) fn seats(&self) -> impl Iterator<Item = Seat> {
        self.entries.iter().map(|entry| Seat {
            state: Arc::clone(&entry.state),
            ready: Arc::clone(&self.ready),
            node: entry.node,
        })
    }

    fn pick(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<&Arc<Entry>> {
        let node = self.selector.pick(key, eligible)?;
        self.entries.get(node.index())
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

// ===== impl Found =====

/// What discovery found, merged and in the order in which nodes are numbered.
#[derive(Debug)]
pub(crate) struct Found {
    backends: BTreeMap<Identity, Backend>,
}

impl Found {
    /// The same address twice is one backend: weights added, the rest is that of the first.
    pub(crate) fn new(discovered: Vec<Backend>) -> Self {
        let mut backends = BTreeMap::<Identity, Backend>::new();
        for backend in discovered {
            backends
                .entry(backend.addr.identity())
                .and_modify(|first| first.weight = first.weight.saturating_add(backend.weight))
                .or_insert(backend);
        }
        Self { backends }
    }

    pub(crate) fn len(&self) -> usize {
        self.backends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Identity, &Backend)> {
        self.backends.iter()
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Backend> {
        self.backends.get(identity)
    }

    pub(crate) fn has_ext(&self) -> bool {
        self.backends
            .values()
            .any(|backend| !backend.ext.is_empty())
    }

    /// The tiers that serve these backends. A tier whose backends are as they were keeps its
    /// numbering and its selector, with all the state in it.
    pub(crate) fn tiers<S: Selector + ?Sized>(
        self,
        states: &BTreeMap<Identity, Arc<State>>,
        previous: &Snapshot<S>,
        maker: &Maker<S>,
    ) -> Result<Box<[Tier<S>]>, BuildError> {
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
            .map(|(number, seats)| Tier::new(number, seats, previous.tier(number), maker))
            .collect()
    }
}

impl<S: Selector + ?Sized> Tier<S> {
    fn new(
        number: u8,
        seats: Vec<(Backend, Arc<State>)>,
        previous: Option<&Self>,
        maker: &Maker<S>,
    ) -> Result<Self, BuildError> {
        let (nodes, selector) = match previous {
            Some(tier) if tier.selects_like(&seats) => {
                (tier.nodes.clone(), Arc::clone(&tier.selector))
            }
            _ => {
                let nodes =
                    NodeSet::new(seats.iter().map(|(backend, state)| node(backend, state)))?;
                let previous = previous.map(|tier| &*tier.selector);
                let selector = (maker.build)(&nodes, previous)?;
                (nodes, selector)
            }
        };
        let told = (maker.erase)(&selector);
        let entries = nodes.ids().zip(seats).map(|(node, (backend, state))| {
            Arc::new(Entry {
                backend,
                node,
                state,
                selector: Arc::clone(&told),
                clock: maker.clock,
            })
        });
        Ok(Self {
            number,
            entries: entries.collect(),
            ready: Arc::new(ReadySet::none(nodes.len())),
            nodes,
            selector,
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
    match &backend.ring_name {
        Some(name) => node.with_ring_name(Arc::clone(name)),
        None => node,
    }
}
