//! The weighted table drawn from by hash, by chance or by turn: pingora's `Weighted` family.

use std::fmt::Debug;
use std::hash::Hasher;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use fnv::FnvHasher;

use crate::refused::Refused;
use crate::splitmix;
use crate::table::{Padded, Table};
use crate::{Build, BuildError, Eligible, NodeId, NodeSet, Selector, Start};

/// By the 64-bit FNV-1a hash of the key: a key keeps its node while the set does not change.
///
/// When the set changes nearly all keys move (4 to 5 nodes: 80 %); see
/// [`Consistent`](crate::Consistent) for a hash that moves few.
pub type FNVHash = Weighted<ByHash>;

/// At random by weight; the key does not matter. O(1), or O(log n) beyond 65,536 slots.
pub type Random = Weighted<ByChance>;

/// In turns, each node as often in a row as its weight says: 3, 1, 1 gives a a a b c.
///
/// `SmoothRoundRobin` spreads the turns of a heavy node instead.
pub type RoundRobin = Weighted<ByTurn>;

/// Draws from a table that holds every node as often as its weight says, in the order of the set.
///
/// # Rule
///
/// The node is `table[h mod total weight]`, where `h` is the FNV-1a hash of the key, a random
/// number or the next ticket. As long as that node is not eligible, the next `h` is drawn: the
/// FNV-1a hash of the eight little-endian bytes of the last one, a new random number, the next
/// ticket. Shares among the eligible nodes stay proportional to their weights.
///
/// Tickets that belong to nodes that are not eligible are passed in one step per node. Hashes and
/// random numbers are drawn at most 16 times; then one more decides among all that are eligible,
/// by weight. So an eligible node is always found, each node is asked at most once, and a pick is
/// O(1) as a rule and O(n) if hardly any node is eligible.
///
/// An empty key is not hashed: such requests take turns as in [`RoundRobin`].
///
/// # Source
///
/// pingora-load-balancing 0.9, `selection/weighted.rs` and `selection/algorithms.rs`, whose first
/// candidates are these. It draws every further one from the *unweighted* list, which distorts
/// the shares of what is left (weights 8, 1, 1 with the first down: 77 to 23); that walk is
/// [`Fallback::Uniform`].
#[derive(Debug)]
pub struct Weighted<A> {
    table: Table,
    nodes: NodeSet,
    fallback: Fallback,
    state: Padded,
    algorithm: PhantomData<fn() -> A>,
}

/// What besides the nodes decides the choices of a [`Weighted`] selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightedConfig {
    /// Where the random numbers start; `None`, the default, takes entropy of the system.
    pub seed: Option<u64>,
    /// Where the candidates after the first come from.
    pub fallback: Fallback,
    /// Where the turns start.
    pub start: Start,
}

impl WeightedConfig {
    /// Fixes the random numbers: two selectors of one seed draw alike.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        let seed = Some(seed);
        Self { seed, ..self }
    }

    /// Sets where the candidates after the first come from.
    #[must_use]
    pub fn fallback(self, fallback: Fallback) -> Self {
        Self { fallback, ..self }
    }

    /// Sets where the turns start.
    #[must_use]
    pub fn start(self, start: Start) -> Self {
        Self { start, ..self }
    }
}

/// Where a [`Weighted`] selector takes the candidates after the first from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Fallback {
    /// The weighted table, as the first one: shares stay proportional to the weights.
    #[default]
    Weighted,
    /// The list of all nodes, each as likely: pingora's walk, bit for bit, which also hashes an
    /// empty key. It meets drained nodes too; a pick passes them, pingora does not.
    ///
    /// After 1,024 candidates that may not be picked, one more number decides by weight among
    /// all that are eligible, where pingora goes on to its own limit of iterations.
    Uniform,
}

/// How a [`Weighted`] selector draws: [`ByHash`], [`ByChance`] or [`ByTurn`].
///
/// # Sealed
///
/// The three share one atomic as their state; what else a way to draw may need is not settled.
/// A selector of your own implements [`Selector`].
pub trait Draw: sealed::Sealed + Debug + Send + Sync + 'static {
    /// Whether the state is the number of the next ticket, rather than of a random stream.
    #[doc(hidden)]
    const COUNTS_TICKETS: bool;

    /// The first number for `key`.
    #[doc(hidden)]
    fn first(state: &AtomicU64, key: &[u8]) -> u64;

    /// The number after `last`.
    #[doc(hidden)]
    fn next(state: &AtomicU64, last: u64) -> u64;

    /// Whether requests with `key` take turns.
    #[doc(hidden)]
    fn takes_turns(key: &[u8]) -> bool;
}

/// See [`FNVHash`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ByHash {}

/// See [`Random`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ByChance {}

/// See [`RoundRobin`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ByTurn {}

// ===== impl Weighted =====

impl<A: Draw> Weighted<A> {
    /// The raw candidates for `key`, without end, whether they may be picked or not: what a pick
    /// walks along. Empty if no node has a weight.
    ///
    /// With [`Fallback::Uniform`] these are pingora's, drained nodes after the first included.
    /// Random numbers and tickets that it draws are gone for picks.
    pub fn candidates(&self, key: &[u8]) -> Candidates<'_, A> {
        let turns = self.takes_turns(key);
        Candidates {
            selector: self,
            drawn: if turns {
                0
            } else {
                A::first(&self.state.0, key)
            },
            turns,
            first: true,
        }
    }

    /// Turns are also what an empty key takes, unless it is hashed as in pingora.
    fn takes_turns(&self, key: &[u8]) -> bool {
        self.fallback == Fallback::Weighted && A::takes_turns(key)
    }

    fn further(&self, drawn: u64) -> Option<NodeId> {
        match self.fallback {
            Fallback::Weighted => self.table.node(drawn),
            Fallback::Uniform => {
                let nodes = u64::try_from(self.nodes.len()).ok()?;
                NodeId::new(usize::try_from(drawn.checked_rem(nodes)?).ok()?)
            }
        }
    }

    /// The walk by hash, chance or (with [`Fallback::Uniform`]) ticket.
    fn walk(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        let drawn = A::first(&self.state.0, key);
        let first = self.table.node(drawn)?;
        if eligible.contains(first) {
            return Some(first);
        }
        self.walk_on(drawn, first, eligible)
    }

    /// [`walk`](Self::walk) after `first` was refused. Apart, to keep the common case small.
    fn walk_on(&self, mut drawn: u64, first: NodeId, eligible: &Eligible<'_>) -> Option<NodeId> {
        let mut refused = Refused::new();
        refused.insert(first);
        let draws = match self.fallback {
            Fallback::Weighted => WEIGHTED_DRAWS,
            Fallback::Uniform => UNIFORM_DRAWS,
        };
        for _ in 1..draws {
            drawn = A::next(&self.state.0, drawn);
            let node = self.further(drawn)?;
            if refused.contains(node) {
                continue;
            }
            if !self.is_drained(node) && eligible.contains(node) {
                return Some(node);
            }
            refused.insert(node);
            if refused.len() == self.nodes.len() {
                return None;
            }
        }
        let mut refused = refused.into_set();
        self.table.refuse(eligible, &mut refused);
        self.table.choose(A::next(&self.state.0, drawn), &refused)
    }

    /// The weighted table has no drained nodes; the list of all nodes has.
    fn is_drained(&self, node: NodeId) -> bool {
        self.fallback == Fallback::Uniform
            && self.nodes.get(node).is_none_or(|node| node.weight() == 0)
    }
}

impl<A: Draw> Selector for Weighted<A> {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn pick(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if eligible.is_nothing() {
            return None;
        }
        if self.takes_turns(key) {
            self.table.turn(&self.state.0, eligible)
        } else {
            self.walk(key, eligible)
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl<A> Clone for Weighted<A> {
    /// With the position and the random stream of this moment, which then go their own ways.
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            nodes: self.nodes.clone(),
            fallback: self.fallback,
            state: self.state.clone(),
            algorithm: PhantomData,
        }
    }
}

impl<A: Draw> Build for Weighted<A> {
    type Config = WeightedConfig;

    /// O(n), plus one step per slot up to 65,536 slots. Cannot fail.
    fn build(nodes: &NodeSet, config: &WeightedConfig) -> Result<Self, BuildError> {
        let table = Table::new(nodes);
        let seed = splitmix::seed_or_entropy(config.seed);
        let state = match config.start {
            _ if !A::COUNTS_TICKETS => seed,
            Start::First => 0,
            Start::Random => splitmix::mix(seed).checked_rem(table.total()).unwrap_or(0),
        };
        Ok(Self {
            table,
            nodes: nodes.clone(),
            fallback: config.fallback,
            state: Padded::new(state),
            algorithm: PhantomData,
        })
    }

    /// Turns go on where they were: with the same node, as far into its turns, or with the next
    /// one that stays. Random numbers go on in the stream of `previous`, whatever the seed.
    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &WeightedConfig,
    ) -> Result<Self, BuildError> {
        let fresh = Self::build(nodes, config)?;
        let state = previous.state.0.load(Ordering::Relaxed);
        let state = if A::COUNTS_TICKETS {
            let before = (&previous.table, &previous.nodes);
            fresh.table.resume(nodes, before, state)
        } else {
            Some(state)
        };
        Ok(match state {
            Some(state) => Self {
                state: Padded::new(state),
                ..fresh
            },
            None => fresh,
        })
    }
}

// ===== impl Draw =====

impl Draw for ByHash {
    const COUNTS_TICKETS: bool = true;

    fn first(_state: &AtomicU64, key: &[u8]) -> u64 {
        fnv1a(key)
    }

    fn next(_state: &AtomicU64, last: u64) -> u64 {
        fnv1a(&last.to_le_bytes())
    }

    fn takes_turns(key: &[u8]) -> bool {
        key.is_empty()
    }
}

impl Draw for ByChance {
    const COUNTS_TICKETS: bool = false;

    fn first(state: &AtomicU64, _key: &[u8]) -> u64 {
        splitmix::draw(state)
    }

    fn next(state: &AtomicU64, _last: u64) -> u64 {
        splitmix::draw(state)
    }

    fn takes_turns(_key: &[u8]) -> bool {
        false
    }
}

impl Draw for ByTurn {
    const COUNTS_TICKETS: bool = true;

    fn first(state: &AtomicU64, _key: &[u8]) -> u64 {
        state.fetch_add(1, Ordering::Relaxed)
    }

    fn next(state: &AtomicU64, _last: u64) -> u64 {
        state.fetch_add(1, Ordering::Relaxed)
    }

    fn takes_turns(_key: &[u8]) -> bool {
        true
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "that nobody else can name it is its purpose"
    )]
    pub trait Sealed {}
    impl Sealed for super::ByHash {}
    impl Sealed for super::ByChance {}
    impl Sealed for super::ByTurn {}
}

// ===== impl Candidates =====

/// The endless iterator of [`Weighted::candidates`].
#[derive(Debug)]
pub struct Candidates<'a, A> {
    selector: &'a Weighted<A>,
    drawn: u64,
    turns: bool,
    first: bool,
}

impl<A: Draw> Iterator for Candidates<'_, A> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let Weighted { table, state, .. } = self.selector;
        if self.turns {
            return table.node(state.0.fetch_add(1, Ordering::Relaxed));
        }
        if std::mem::take(&mut self.first) {
            return table.node(self.drawn);
        }
        // Without weights there is no first candidate, and then no further one either.
        (table.total() > 0).then_some(())?;
        self.drawn = A::next(&state.0, self.drawn);
        self.selector.further(self.drawn)
    }
}

impl<A: Draw> FusedIterator for Candidates<'_, A> {}

/// With half the weight down 1 pick in 65,536 gets this far; a scan of few nodes costs less.
const WEIGHTED_DRAWS: usize = 16;

/// pingora has no limit of its own here. With 99 % down 1 pick in 30,000 gets this far.
const UNIFORM_DRAWS: usize = 1024;
