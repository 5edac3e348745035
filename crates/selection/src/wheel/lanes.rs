//! The current weights of nodes that all take part in every round, so that a round need not visit
//! them all.

use std::collections::VecDeque;

use crate::NodeId;

/// Nodes by weight; those of one weight rise alike.
///
/// A node's current weight is its height plus `rounds` times its weight. Memory: 16 bytes a node
/// and 40 a lane. A round is O(lanes) as a rule, plus O(log n) where a node that paid is not the
/// lowest of its lane (which takes a state that came about while other nodes were members).
#[derive(Debug)]
pub(super) struct Lanes {
    /// The first of each lane, apart from the rest: a round reads them all.
    heads: Vec<Head>,
    /// The rest of each lane, highest first, of equals the one with the lowest number.
    tails: Vec<VecDeque<Perch>>,
    /// What all of them gain together in a round.
    total: i64,
    rounds: i64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    perch: Perch,
    weight: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Perch {
    height: i64,
    node: NodeId,
}

impl Lanes {
    /// Of (node, weight, current weight).
    pub(super) fn new(members: impl Iterator<Item = (NodeId, u32, i64)>) -> Self {
        let mut members: Vec<_> = members.collect();
        members.sort_unstable_by_key(|&(node, weight, current)| {
            (weight, std::cmp::Reverse(current), node)
        });
        let mut lanes = Self {
            heads: Vec::new(),
            tails: Vec::new(),
            // Fewer than 2^31 nodes of weights below 2^32: see `Slot::current`.
            total: members
                .iter()
                .fold(0, |sum, member| sum.saturating_add(i64::from(member.1))),
            rounds: 0,
        };
        for lane in members.chunk_by(|a, b| a.1 == b.1) {
            let mut perches = lane.iter().map(|&(node, _, height)| Perch { height, node });
            if let Some(perch) = perches.next() {
                let weight = i64::from(lane[0].1);
                lanes.heads.push(Head { perch, weight });
                lanes.tails.push(perches.collect());
            }
        }
        lanes
    }

    /// One round: the same choice, and the same current weights after it, as a scan.
    pub(super) fn round(&mut self) -> Option<NodeId> {
        if self.rounds == MAX_ROUNDS {
            self.rebase();
        }
        self.rounds += 1;
        let (lane, chosen) = self.highest()?;
        self.pay(lane);
        Some(chosen)
    }

    /// The nodes with their current weights.
    pub(super) fn currents(&self) -> impl Iterator<Item = (NodeId, i64)> + '_ {
        self.heads.iter().zip(&self.tails).flat_map(|(head, tail)| {
            let risen = head.risen(self.rounds);
            let perches = std::iter::once(&head.perch).chain(tail);
            perches.map(move |perch| (perch.node, perch.height.wrapping_add(risen)))
        })
    }

    fn highest(&self) -> Option<(usize, NodeId)> {
        let (mut lane, mut best) = (0, *self.heads.first()?);
        let mut most = best.current(self.rounds);
        for (i, head) in self.heads.iter().enumerate().skip(1) {
            let current = head.current(self.rounds);
            if current > most || current == most && head.perch.node < best.perch.node {
                (lane, best, most) = (i, *head, current);
            }
        }
        Some((lane, best.perch.node))
    }

    /// The head of `lane` pays for the round and takes its new place.
    fn pay(&mut self, lane: usize) {
        let (head, tail) = (&mut self.heads[lane], &mut self.tails[lane]);
        let mut paid = head.perch;
        paid.height = paid.height.wrapping_sub(self.total);
        match tail.back() {
            None => head.perch = paid,
            Some(last) => {
                if last.is_before(&paid) {
                    tail.push_back(paid);
                } else {
                    let place = tail.partition_point(|perch| perch.is_before(&paid));
                    tail.insert(place, paid);
                }
                head.perch = tail.pop_front().unwrap_or(paid);
            }
        }
    }

    /// Moves the ground up to the present, before `rounds` times a weight could overflow.
    fn rebase(&mut self) {
        for (head, tail) in self.heads.iter_mut().zip(&mut self.tails) {
            let risen = head.risen(self.rounds);
            for perch in std::iter::once(&mut head.perch).chain(tail) {
                perch.height = perch.height.wrapping_add(risen);
            }
        }
        self.rounds = 0;
    }
}

impl Head {
    fn risen(&self, rounds: i64) -> i64 {
        self.weight.wrapping_mul(rounds)
    }

    fn current(&self, rounds: i64) -> i64 {
        self.perch.height.wrapping_add(self.risen(rounds))
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
        for (head, tail) in self.heads.iter_mut().zip(&mut self.tails) {
            let risen = head.risen(MAX_ROUNDS);
            for perch in std::iter::once(&mut head.perch).chain(tail) {
                perch.height -= risen;
            }
        }
    }
}
