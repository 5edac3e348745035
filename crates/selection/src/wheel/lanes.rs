//! The current weights of nodes that all take part in every round, so that a round need not visit
//! them all.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::watch::Watch;
use crate::NodeId;

/// Nodes by weight; those of one weight rise alike.
///
/// A node's current weight is its height plus `rounds` times its weight. Of each lane only the
/// first node can be the next one chosen. All memory is taken when the wheel is made: 16 bytes a
/// node and about 100 a lane.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// One per distinct weight.
    lanes: Box<[Lane]>,
    /// The first of each lane that is not empty, apart from the rest: a round reads only these.
    heads: Vec<Head>,
    watch: Watch,
    /// What all of them gain together in a round.
    total: i64,
    rounds: i64,
}

#[derive(Clone, Debug)]
struct Lane {
    weight: i64,
    /// All but the first: highest first, of equals the one with the lowest number.
    tail: VecDeque<Perch>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    perch: Perch,
    weight: i64,
    lane: usize,
}

#[derive(Clone, Copy, Debug)]
struct Perch {
    height: i64,
    node: NodeId,
}

impl Lanes {
    /// Empty, with room for nodes of the given weights, which are in ascending order.
    pub(super) fn new(sorted_weights: &[u32]) -> Self {
        let lanes: Box<[_]> = sorted_weights
            .chunk_by(|a, b| a == b)
            .map(|nodes| Lane {
                weight: nodes[0].into(),
                tail: VecDeque::with_capacity(nodes.len()),
            })
            .collect();
        Self {
            heads: Vec::with_capacity(lanes.len()),
            watch: Watch::new(lanes.len()),
            lanes,
            total: 0,
            rounds: 0,
        }
    }

    /// Takes in (node, weight, current weight); nodes of other weights than `new` knew are left
    /// out.
    pub(super) fn fill(&mut self, members: impl Iterator<Item = (NodeId, u32, i64)>) {
        (self.total, self.rounds) = (0, 0);
        self.heads.clear();
        for (node, weight, height) in members {
            let weight = i64::from(weight);
            // Fewer than 2^31 nodes of weights below 2^32: see `Slot::current`.
            self.total = self.total.saturating_add(weight);
            if let Ok(lane) = self.lanes.binary_search_by_key(&weight, |lane| lane.weight) {
                self.lanes[lane].tail.push_back(Perch { height, node });
            }
        }
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            let tail = lane.tail.make_contiguous();
            tail.sort_unstable_by_key(|perch| (Reverse(perch.height), perch.node));
            if let Some(perch) = lane.tail.pop_front() {
                self.heads.push(Head {
                    perch,
                    weight: lane.weight,
                    lane: i,
                });
            }
        }
        self.watch.reset();
    }

    /// Gives out the nodes with their current weights, and is empty then.
    pub(super) fn drain(&mut self, mut each: impl FnMut(NodeId, i64)) {
        for head in self.heads.drain(..) {
            let risen = head.risen(self.rounds);
            let tail = self.lanes[head.lane].tail.drain(..);
            for perch in std::iter::once(head.perch).chain(tail) {
                each(perch.node, perch.height.wrapping_add(risen));
            }
        }
    }

    /// One round: the same choice, and the same current weights after it, as a scan.
    ///
    /// O(lanes) up to a few lanes, else O(1) on average; plus O(log n) where a node that paid is
    /// not the lowest of its lane, which takes a state that came about while other nodes were
    /// members.
    pub(super) fn round(&mut self) -> Option<NodeId> {
        if self.rounds == MAX_ROUNDS {
            self.rebase();
        }
        self.rounds += 1;
        let place = self.watch.highest(&self.heads, self.rounds)?;
        let head = &mut self.heads[place];
        let chosen = head.perch.node;
        head.pay(self.total, &mut self.lanes[head.lane].tail);
        self.watch.paid(&self.heads, self.rounds);
        Some(chosen)
    }

    /// Moves the ground up to the present, before `rounds` times a weight could overflow.
    fn rebase(&mut self) {
        for head in &mut self.heads {
            let risen = head.risen(self.rounds);
            let tail = &mut self.lanes[head.lane].tail;
            for perch in std::iter::once(&mut head.perch).chain(tail) {
                perch.height = perch.height.wrapping_add(risen);
            }
        }
        self.rounds = 0;
        self.watch.reset();
    }
}

impl Head {
    pub(super) fn node(&self) -> NodeId {
        self.perch.node
    }

    pub(super) fn weight(&self) -> i64 {
        self.weight
    }

    /// The current weight after so many rounds.
    pub(super) fn current(&self, rounds: i64) -> i64 {
        self.perch.height.wrapping_add(self.risen(rounds))
    }

    fn risen(&self, rounds: i64) -> i64 {
        self.weight.wrapping_mul(rounds)
    }

    /// Pays for the round and takes its new place in the lane.
    fn pay(&mut self, total: i64, tail: &mut VecDeque<Perch>) {
        let mut paid = self.perch;
        paid.height = paid.height.wrapping_sub(total);
        if tail.back().is_none_or(|last| last.is_before(&paid)) {
            tail.push_back(paid);
        } else {
            let place = tail.partition_point(|perch| perch.is_before(&paid));
            tail.insert(place, paid);
        }
        self.perch = tail.pop_front().unwrap_or(paid);
    }
}

impl Perch {
    fn is_before(&self, other: &Self) -> bool {
        (self.height, other.node) > (other.height, self.node)
    }
}

/// Times a weight below 2^32 this stays below 2^62.
const MAX_ROUNDS: i64 = 1 << 30;

#[cfg(test)]
impl Lanes {
    /// As many rounds on as there may be, with every current weight as it was.
    pub(super) fn rise_to_the_limit(&mut self) {
        self.rebase();
        self.rounds = MAX_ROUNDS;
        for head in &mut self.heads {
            let risen = head.risen(MAX_ROUNDS);
            let tail = &mut self.lanes[head.lane].tail;
            for perch in std::iter::once(&mut head.perch).chain(tail) {
                perch.height -= risen;
            }
        }
    }
}
