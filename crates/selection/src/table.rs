//! The weighted table: every node as often as its weight says, in the order of the node set.
//!
//! Shared arithmetic of the selectors that draw by weight or go round by weight.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Eligible, NodeId, NodeSet, Tried};

/// Slots 0 to total weight - 1; node i owns a run of as many as its weight says.
///
/// Up to [`MAX_SLOTS`] the owner of a slot is looked up in O(1), beyond it in O(log n) among the
/// ends of the runs, with the same answers: a weight in the millions costs no memory.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The nodes that own slots, in the order of their numbers.
    nodes: Box<[NodeId]>,
    /// For each of them, the slot after its last.
    ends: Box<[u64]>,
    /// Index in `nodes` per slot; empty beyond [`MAX_SLOTS`].
    slots: Box<[u16]>,
    total: u64,
}

/// One counter on a cache line of its own: every pick may write it, while the rest of the
/// selector is only read. Relaxed throughout: it orders no other memory.
#[derive(Debug, Default)]
#[repr(align(128))] // Two lines: Intel's prefetcher fetches them in pairs (crossbeam, `CachePadded`).
pub(crate) struct Padded(pub(crate) AtomicU64);

impl Clone for Padded {
    fn clone(&self) -> Self {
        Self::new(self.0.load(Ordering::Relaxed))
    }
}

impl Padded {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
}

impl Table {
    pub(crate) fn new(nodes: &NodeSet) -> Self {
        let weights = nodes.ids().zip(nodes.iter().map(crate::Node::weight));
        Self::of_weights(weights)
    }

    /// Without the memory of [`MAX_SLOTS`]: a look-up is O(log n).
    pub(crate) fn without_slots(nodes: &NodeSet) -> Self {
        let weights = nodes.ids().zip(nodes.iter().map(crate::Node::weight));
        Self::runs_of(weights)
    }

    /// The table of the given nodes with the given weights.
    pub(crate) fn of_weights(weights: impl Iterator<Item = (NodeId, u32)>) -> Self {
        let table = Self::runs_of(weights);
        let slots = match table.total {
            0..=MAX_SLOTS => spread(&table.ends),
            _ => Box::default(),
        };
        Self { slots, ..table }
    }

    fn runs_of(weights: impl Iterator<Item = (NodeId, u32)>) -> Self {
        let mut total = 0;
        // Fewer than 2^32 weights below 2^32: the sum fits in a u64.
        let (nodes, ends): (Vec<_>, Vec<_>) = weights
            .filter(|&(_, weight)| weight > 0)
            .map(|(node, weight)| {
                total += u64::from(weight);
                (node, total)
            })
            .unzip();
        Self {
            nodes: nodes.into(),
            ends: ends.into(),
            slots: Box::default(),
            total,
        }
    }

    /// The number of slots: the total weight.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The node of slot `drawn` modulo the total weight; `None` if there is none.
    pub(crate) fn node(&self, drawn: u64) -> Option<NodeId> {
        let slot = drawn.checked_rem(self.total)?;
        self.nodes.get(self.run_of(slot)).copied()
    }

    /// Adds to `out` every other node that is not eligible. Each is asked once.
    pub(crate) fn refuse(&self, eligible: &Eligible<'_>, out: &mut Tried) {
        for &node in &self.nodes {
            if !out.contains(node) && !eligible.contains(node) {
                out.insert(node);
            }
        }
    }

    /// The node of slot `drawn` modulo the number of slots, among those of the nodes that are not
    /// in `out`: a choice by weight, exact, in O(n).
    pub(crate) fn choose(&self, drawn: u64, out: &Tried) -> Option<NodeId> {
        let left = || self.runs().filter(|&(node, _)| !out.contains(node));
        let total = left().map(|(_, weight)| weight).sum();
        let mut slot = drawn.checked_rem(total)?;
        left().find_map(|(node, weight)| match slot.checked_sub(weight) {
            Some(rest) => {
                slot = rest;
                None
            }
            None => Some(node),
        })
    }

    /// The node of the next ticket; those of nodes that are not eligible are passed.
    ///
    /// The result, and the ticket that comes next, are those of drawing ticket by ticket, but a
    /// whole run is passed in one step. Each node is asked at most once. O(1) while the node
    /// whose turn it is may be picked, else O(nodes passed).
    pub(crate) fn turn(&self, tickets: &AtomicU64, eligible: &Eligible<'_>) -> Option<NodeId> {
        // Relaxed throughout: a ticket orders no other memory.
        let ticket = tickets.fetch_add(1, Ordering::Relaxed);
        let slot = ticket.checked_rem(self.total)?;
        let first = self.run_of(slot);
        let node = *self.nodes.get(first)?;
        if eligible.contains(node) {
            return Some(node);
        }
        self.pass_on(tickets, ticket, (slot, first), eligible)
    }

    /// [`turn`](Self::turn) after the owner of `ticket` was refused.
    fn pass_on(
        &self,
        tickets: &AtomicU64,
        ticket: u64,
        (slot, first): (u64, usize),
        eligible: &Eligible<'_>,
    ) -> Option<NodeId> {
        let mut fallback = None;
        let runs = self.nodes.len();
        for run in (first + 1..runs).chain(0..first) {
            let node = self.nodes[run];
            if !eligible.contains(node) {
                continue;
            }
            // Tickets from ours to the start and to the end of this run.
            let lap = if run < first { self.total } else { 0 };
            let end = self.ends[run] + lap - slot;
            let start = end - self.weight(run);
            let claimed = tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                // Wrapping, so that the end of u64 is a jump in the order and nothing worse.
                let ahead = next.wrapping_sub(ticket).max(start);
                (ahead < end).then(|| ticket.wrapping_add(ahead + 1))
            });
            if claimed.is_ok() {
                return Some(node);
            }
            // Other threads used up this whole run meanwhile: go on behind it.
            fallback.get_or_insert(node);
        }
        fallback
    }

    /// The ticket at which the turns of `previous` go on, which had come to `ticket`: as far into
    /// the run of the same node, or at the start of the next one that stays. `None` if none does.
    pub(crate) fn resume(
        &self,
        nodes: &NodeSet,
        (previous, nodes_before): (&Self, &NodeSet),
        ticket: u64,
    ) -> Option<u64> {
        let slot = ticket.checked_rem(previous.total)?;
        let current = previous.run_of(slot);
        let now: Vec<_> = nodes_before.matched(nodes).collect();
        let before = previous.nodes.len();
        (current..before).chain(0..current).find_map(|run| {
            let node = (*now.get(previous.nodes[run].index())?)?;
            // In the order of their numbers, and without the drained ones.
            let mine = self.nodes.binary_search(&node).ok()?;
            let into = match run == current {
                true => slot - previous.start(run),
                false => 0,
            };
            Some(self.start(mine) + into.min(self.weight(mine)))
        })
    }

    /// The run that owns `slot`.
    fn run_of(&self, slot: u64) -> usize {
        match usize::try_from(slot).ok().and_then(|i| self.slots.get(i)) {
            Some(&run) => usize::from(run),
            None => self.ends.partition_point(|&end| end <= slot),
        }
    }

    fn start(&self, run: usize) -> u64 {
        run.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn weight(&self, run: usize) -> u64 {
        self.ends[run] - self.start(run)
    }

    fn runs(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        (0..self.nodes.len()).map(|run| (self.nodes[run], self.weight(run)))
    }
}

/// The owner of each slot. At most 2^16 slots and no empty run: a run's number fits in 16 bits.
fn spread(ends: &[u64]) -> Box<[u16]> {
    let mut start = 0;
    (0u16..=u16::MAX)
        .zip(ends)
        .flat_map(|(run, &end)| {
            let slots = start..end;
            start = end;
            slots.map(move |_| run)
        })
        .collect()
}

/// 128 KiB at two bytes a slot: what still lives in a second-level cache.
const MAX_SLOTS: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, ReadySet};

    fn table(weights: &[u32]) -> Table {
        let ids = (0u32..).map(NodeId::from);
        Table::of_weights(ids.zip(weights.iter().copied()))
    }

    #[test]
    fn slots_and_prefix_sums_answer_alike() {
        let small = table(&[3, 0, 1, 65_532]);
        let large = table(&[3, 0, 1, 65_533]);
        assert_eq!((small.slots.len(), large.slots.len()), (65_536, 0));
        for (slot, node) in [(0, 0), (2, 0), (3, 2), (4, 3), (65_535, 3), (65_536, 0)] {
            assert_eq!(small.node(slot), Some(NodeId::from(node)), "slot {slot}");
            let wrapped = if slot == 65_536 { slot + 1 } else { slot };
            assert_eq!(large.node(wrapped), Some(NodeId::from(node)), "slot {slot}");
        }
        assert_eq!(table(&[0, 0]).node(7), None);
    }

    #[test]
    fn heavy_weights_cost_no_memory() {
        let heavy = table(&[u32::MAX, u32::MAX, 1]);
        assert_eq!(heavy.total(), 2 * u64::from(u32::MAX) + 1);
        assert!(heavy.slots.is_empty());
        assert_eq!(heavy.node(heavy.total() - 1), Some(NodeId::from(2)));
    }

    #[test]
    fn the_end_of_the_tickets_is_no_trap() {
        let nodes = NodeSet::new((1u32..4).map(|i| Node::new(format!("n{i}").as_str(), 1 << i)));
        let nodes = nodes.unwrap();
        let ready = ReadySet::all(3);
        ready.set(NodeId::from(2), false);
        let tickets = AtomicU64::new(u64::MAX - 20);
        let table = Table::new(&nodes);
        let mut counts = [0u32; 3];
        for _ in 0..600 {
            let node = table.turn(&tickets, &Eligible::new(&ready)).unwrap();
            counts[node.index()] += 1;
        }
        // 100 cycles of 2 + 4; one cycle is cut where the count starts anew.
        assert!(counts[2] == 0 && counts[0].abs_diff(200) <= 4, "{counts:?}");
    }
}
