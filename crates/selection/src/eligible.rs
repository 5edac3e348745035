//! What may be picked now: readiness, what was tried before, and the caller's own condition.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::{NodeId, Verdict};

/// One readiness bit per node of a set, flipped in place while requests read it.
#[derive(Debug)]
pub struct ReadySet {
    /// Relaxed throughout: a bit orders no other memory, and a request that misses a flip by a
    /// nanosecond is the request that came a nanosecond earlier. Read-mostly, so the words share
    /// cache lines on purpose.
    words: Box<[AtomicU64]>,
    /// How many bits are set: lets a selector skip all filtering while everything is ready.
    /// Follows the bits; a reader may see it lag by a flip that is just under way.
    ready: AtomicUsize,
    len: usize,
}

impl ReadySet {
    /// `len` nodes, all ready.
    #[must_use]
    pub fn all(len: usize) -> Self {
        let set = Self::none(len);
        for index in 0..len {
            set.words[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
        }
        set.ready.store(len, Ordering::Relaxed);
        set
    }

    /// `len` nodes, none ready.
    #[must_use]
    pub fn none(len: usize) -> Self {
        let words = std::iter::repeat_with(AtomicU64::default)
            .take(len.div_ceil(64))
            .collect();
        Self {
            words,
            ready: AtomicUsize::new(0),
            len,
        }
    }

    /// How many nodes it covers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it covers no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many nodes are ready.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether `node` is ready; a node of another set is not.
    #[must_use]
    pub fn is_ready(&self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, node.index() % 64);
        self.words
            .get(word)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> bit & 1 == 1)
    }

    /// Sets the bit of `node`; returns whether that changed it. Concurrent calls are fine.
    pub fn set(&self, node: NodeId, ready: bool) -> bool {
        let bit = 1u64 << (node.index() % 64);
        if node.index() >= self.len {
            return false;
        }
        let word = &self.words[node.index() / 64];
        let before = if ready {
            word.fetch_or(bit, Ordering::Relaxed)
        } else {
            word.fetch_and(!bit, Ordering::Relaxed)
        };
        let changed = (before & bit != 0) != ready;
        match (changed, ready) {
            (false, _) => {}
            (true, true) => drop(self.ready.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.ready.fetch_sub(1, Ordering::Relaxed)),
        }
        changed
    }
}

impl Clone for ReadySet {
    /// The bits of this moment.
    fn clone(&self) -> Self {
        let words: Box<[_]> = self
            .words
            .iter()
            .map(|word| AtomicU64::new(word.load(Ordering::Relaxed)))
            .collect();
        let ready = words
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones() as usize);
        Self {
            ready: AtomicUsize::new(ready.sum()),
            len: self.len,
            words,
        }
    }
}

/// A growing set of node numbers: the nodes a request has tried, or a walk has passed.
///
/// Up to 256 nodes it lives on the stack.
#[derive(Debug, Default)]
pub struct Tried {
    inline: [u64; INLINE_WORDS],
    spilled: Vec<u64>,
    len: usize,
}

impl Clone for Tried {
    fn clone(&self) -> Self {
        Self {
            inline: self.inline,
            spilled: self.spilled.clone(),
            len: self.len,
        }
    }

    /// Reuses the memory.
    fn clone_from(&mut self, other: &Self) {
        self.inline = other.inline;
        self.spilled.clone_from(&other.spilled);
        self.len = other.len;
    }
}

impl Tried {
    /// Nothing tried yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `node`; returns whether it was new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, 1u64 << (node.index() % 64));
        let slot = match word.checked_sub(INLINE_WORDS) {
            None => &mut self.inline[word],
            Some(word) => {
                if self.spilled.len() <= word {
                    self.spilled.resize(word + 1, 0);
                }
                &mut self.spilled[word]
            }
        };
        let new = *slot & bit == 0;
        *slot |= bit;
        self.len += usize::from(new);
        new
    }

    /// Whether `node` is in it.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.word(node.index() / 64) >> (node.index() % 64) & 1 == 1
    }

    /// How many nodes are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The nodes in it, by number, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0u32..)
            .zip(self.inline.iter().chain(&self.spilled))
            .flat_map(|(word, &bits)| {
                set_bits(bits).map(move |bit| NodeId::from(word * u64::BITS + bit))
            })
    }

    /// Whether the same nodes are in both, asked of two sets of as many words.
    ///
    /// By words and not by slices: for those the compiler calls `memcmp`, whose start-up cost
    /// (90 ns where it was measured) is several picks.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let words = |set: &Self| (set.len, set.spilled.len());
        let pairs = self.inline.iter().zip(&other.inline);
        let spilled = self.spilled.iter().zip(&other.spilled);
        words(self) == words(other) && pairs.chain(spilled).fold(0, |d, (a, b)| d | (a ^ b)) == 0
    }

    fn word(&self, word: usize) -> u64 {
        let slot = match word.checked_sub(INLINE_WORDS) {
            None => self.inline.get(word),
            Some(word) => self.spilled.get(word),
        };
        slot.copied().unwrap_or(0)
    }
}

/// The nodes that one pick may return, and the time at which it is made.
///
/// A node is eligible if it is ready, was not tried before by this request, and passes the
/// caller's condition if there is one. That a node of weight 0 is never picked is the selectors'
/// business; it needs no bit here.
#[derive(Clone, Copy)]
pub struct Eligible<'a> {
    ready: &'a ReadySet,
    tried: Option<&'a Tried>,
    accept: Option<&'a dyn Fn(NodeId) -> bool>,
    clock: Option<&'a dyn Fn() -> Duration>,
    /// Told of every question and its answer; `None` on the request path.
    watch: Option<&'a dyn Fn(NodeId, Verdict)>,
}

impl<'a> Eligible<'a> {
    /// All nodes that are ready.
    #[must_use]
    pub fn new(ready: &'a ReadySet) -> Self {
        Self {
            ready,
            tried: None,
            accept: None,
            clock: None,
            watch: None,
        }
    }

    /// Less the nodes that this request has tried.
    #[must_use]
    pub fn except(self, tried: &'a Tried) -> Self {
        Self {
            tried: Some(tried),
            ..self
        }
    }

    /// Less the nodes that `accept` refuses. It is asked last, and once per node and pick.
    #[must_use]
    pub fn only_if(self, accept: &'a dyn Fn(NodeId) -> bool) -> Self {
        Self {
            accept: Some(accept),
            ..self
        }
    }

    /// With a clock: monotonic time since an epoch of the caller's choice. Only selectors that
    /// need the time call it.
    #[must_use]
    pub fn at(self, clock: &'a dyn Fn() -> Duration) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// With somebody to tell of every question and its answer, where "may be picked" is told as
    /// [`Verdict::Outranked`].
    pub(crate) fn watched<'b>(self, watch: &'b dyn Fn(NodeId, Verdict)) -> Eligible<'b>
    where
        'a: 'b,
    {
        Eligible {
            watch: Some(watch),
            ..self
        }
    }

    /// Whether `node` may be picked.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        let may = self.ready.is_ready(node)
            && !self.was_tried(node)
            && self.accept.is_none_or(|accept| accept(node));
        if let Some(watch) = self.watch
            && node.index() < self.ready.len()
        {
            watch(node, self.verdict(node, may));
        }
        may
    }

    fn verdict(&self, node: NodeId, may: bool) -> Verdict {
        if may {
            Verdict::Outranked
        } else if !self.ready.is_ready(node) {
            Verdict::NotReady
        } else if self.was_tried(node) {
            Verdict::Tried
        } else {
            Verdict::Refused
        }
    }

    /// Whether every node may be picked, as far as one can tell without asking each: `true` is
    /// certain, `false` means "ask".
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.ready.ready() == self.ready.len()
            && self.tried.is_none_or(Tried::is_empty)
            && self.accept.is_none()
            && self.watch.is_none()
    }

    /// Whether a question is no more than a look at some bits, which nobody minds twice.
    pub(crate) fn is_only_bits(&self) -> bool {
        self.accept.is_none() && self.watch.is_none()
    }

    /// Whether all of `len` nodes may be picked, as [`is_everything`](Self::is_everything) tells.
    pub(crate) fn is_all_of(&self, len: usize) -> bool {
        self.is_everything() && self.ready.len() == len
    }

    /// All nodes that may be picked, each asked once.
    pub(crate) fn members(&self) -> Tried {
        self.members_besides(&Tried::new())
    }

    /// All nodes that may be picked and are not in `asked`; those are not asked again.
    pub(crate) fn members_besides(&self, asked: &Tried) -> Tried {
        if self.watch.is_some() {
            return self.members_one_by_one(asked);
        }
        let words = self.ready.words.len();
        let mut members = Tried {
            spilled: Vec::with_capacity(words.saturating_sub(INLINE_WORDS)),
            ..Tried::default()
        };
        for (index, word) in self.ready.words.iter().enumerate() {
            let tried = self.tried.map_or(0, |tried| tried.word(index));
            let ready = word.load(Ordering::Relaxed);
            let bits = self.accepted(index, ready & !tried & !asked.word(index));
            match members.inline.get_mut(index) {
                Some(slot) => *slot = bits,
                None => members.spilled.push(bits),
            }
            members.len += bits.count_ones() as usize;
        }
        members
    }

    /// Whether exactly `members` may be picked, if that shows without asking the caller.
    pub(crate) fn are_surely(&self, members: &Tried) -> bool {
        if self.accept.is_some() || self.watch.is_some() {
            return false;
        }
        let words = self.ready.words.len();
        let bits = |index: usize| {
            let ready = self.ready.words.get(index);
            let tried = self.tried.map_or(0, |tried| tried.word(index));
            ready.map_or(0, |word| word.load(Ordering::Relaxed)) & !tried
        };
        let differ = (0..words.max(INLINE_WORDS + members.spilled.len()))
            .fold(0, |differ, index| {
                differ | (bits(index) ^ members.word(index))
            });
        differ == 0
    }

    fn members_one_by_one(&self, asked: &Tried) -> Tried {
        let mut members = Tried::new();
        for node in (0..self.ready.len()).filter_map(NodeId::new) {
            if !asked.contains(node) && self.contains(node) {
                members.insert(node);
            }
        }
        members
    }

    /// Those of the nodes `bits` of word `word` that the caller's condition accepts.
    fn accepted(&self, word: usize, bits: u64) -> u64 {
        let Some(accept) = self.accept else {
            return bits;
        };
        let is_accepted = |bit: &u32| NodeId::new(word * 64 + *bit as usize).is_some_and(accept);
        set_bits(bits)
            .filter(is_accepted)
            .fold(0, |bits, bit| bits | 1 << bit)
    }

    /// Whether certainly no node may be picked; `false` means "ask".
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.ready.ready() == 0 && self.watch.is_none()
    }

    /// Whether this request has tried `node` before.
    #[must_use]
    pub fn was_tried(&self, node: NodeId) -> bool {
        self.tried.is_some_and(|tried| tried.contains(node))
    }

    /// The time of the pick; zero without a clock.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.clock.map_or(Duration::ZERO, |clock| clock())
    }
}

impl fmt::Debug for Eligible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eligible")
            .field("ready", &self.ready)
            .field("tried", &self.tried)
            .field("conditional", &self.accept.is_some())
            .finish_non_exhaustive()
    }
}

/// The numbers of the bits that are set, ascending.
fn set_bits(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

/// 256 nodes: four in five pools, and 32 bytes to clear.
const INLINE_WORDS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    #[test]
    fn ready_counts_flips_once() {
        let ready = ReadySet::all(65);
        assert_eq!((ready.len(), ready.ready()), (65, 65));
        assert!(ready.set(id(64), false));
        assert!(!ready.set(id(64), false));
        assert!(!ready.is_ready(id(64)) && ready.is_ready(id(63)));
        assert!(!ready.set(id(65), true), "a node of another set");
        assert!(!ready.is_ready(id(65)));
        assert_eq!(ready.ready(), 64);
        assert!(ready.set(id(64), true));
        assert!(Eligible::new(&ready).is_everything());
    }

    #[test]
    fn tried_spills_beyond_256() {
        let mut tried = Tried::new();
        for index in [0, 63, 64, 255, 256, 1000] {
            assert!(!tried.contains(id(index)));
            assert!(tried.insert(id(index)));
            assert!(!tried.insert(id(index)));
            assert!(tried.contains(id(index)));
        }
        assert_eq!(tried.len(), 6);
        let numbers: Vec<_> = tried.iter().map(NodeId::index).collect();
        assert_eq!(numbers, [0, 63, 64, 255, 256, 1000]);
        assert!(!tried.contains(id(999)) && !tried.contains(id(100_000)));
    }

    #[test]
    fn members_are_the_eligible_nodes_also_beyond_256() {
        let ready = ReadySet::all(700);
        ready.set(id(300), false);
        let mut tried = Tried::new();
        tried.insert(id(10));
        tried.insert(id(640));
        let accept = |node: NodeId| node.index().is_multiple_of(5);
        let eligible = Eligible::new(&ready).except(&tried).only_if(&accept);
        let members = eligible.members();
        let expected: Vec<_> = (0..800)
            .filter(|&index| eligible.contains(id(index)))
            .collect();
        assert_eq!(members.len(), 140 - 3);
        assert!(
            !eligible.are_surely(&members),
            "the caller's condition is not asked"
        );
        let unconditional = Eligible::new(&ready).except(&tried);
        assert!(unconditional.are_surely(&unconditional.members()));
        assert!(!unconditional.are_surely(&members));
        assert!(!Eligible::new(&ReadySet::none(3)).are_surely(&members));
        assert!(members.iter().map(NodeId::index).eq(expected));
        assert!(!members.contains(id(640)) && members.contains(id(645)));
    }

    #[test]
    fn eligible_is_ready_and_not_tried_and_accepted() {
        let ready = ReadySet::all(4);
        ready.set(id(0), false);
        let mut tried = Tried::new();
        tried.insert(id(1));
        let accept = |node: NodeId| node.index() != 2;
        let eligible = Eligible::new(&ready).except(&tried).only_if(&accept);
        let picked: Vec<_> = (0..5)
            .filter(|&index| eligible.contains(id(index)))
            .collect();
        assert_eq!(picked, [3]);
        assert!(eligible.members().iter().eq([id(3)]));
        assert!(!eligible.is_everything() && !eligible.is_nothing());
    }
}
