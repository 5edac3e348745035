//! The wheel: smooth weighted round robin, by which nginx's algorithms take turns.
//!
//! # Rule
//!
//! Every node has a weight, an effective weight (at first its weight) and a current weight (at
//! first 0). A round over some of the nodes: each of them gains its effective weight; the one with
//! the largest current weight is chosen, the first of equals; it pays what all of them gained
//! together. A node that takes no part neither gains nor counts. In the same round an effective
//! weight below the weight recovers by 1, after it was added. A failure takes the `max_fails`th
//! part of the weight off the effective weight, down to 0.
//!
//! nginx 1.31, `ngx_http_upstream_round_robin.c`: `ngx_http_upstream_get_peer` and
//! `ngx_http_upstream_free_round_robin_peer`.
//!
//! # Two forms of one state
//!
//! A round as written visits all of its nodes. While the same nodes take part at their full
//! weight, the state is kept as [`Lanes`] instead: the nodes of one weight in a queue, highest
//! first. They rise alike, so their order only changes when one of them is chosen, and the next
//! one is at the head of some lane. The lanes hold the same current weights, only written
//! relative to a rising ground; on any change of the members or of an effective weight they are
//! written back, and the round is scanned. So the sequence is nginx's whatever happens.
//!
//! Building the lanes costs about as much as a few scans, so that they are built only after
//! [`PATIENCE`] rounds without a change: a wheel on which requests fail all the time scans, as
//! nginx does, and pays little more than that. Their memory is taken when the wheel is made.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Eligible, Node, NodeId, NodeSet, Tried};

mod lanes;
mod watch;

use lanes::Lanes;

/// The current weights of a set of nodes, and the lock around them.
///
/// The lock is held for one round; no code of the caller runs under it.
#[derive(Debug)]
pub(crate) struct Wheel {
    nodes: NodeSet,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    slots: Box<[Slot]>,
    /// Who took part in the last round.
    members: Members,
    /// The rounds in a row that the same members took part in, all with their full weight.
    calm: u32,
    /// While in use, in place of the current weights of the members.
    lanes: Lanes,
    in_lanes: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Sums to 0 over all slots, and stays near the total weight, which is below 2^63 up to 2^31
    /// nodes of the heaviest weight. Beyond that the sums saturate rather than panic.
    current: i64,
    weight: u32,
    effective: u32,
    /// What a failure takes off the effective weight.
    loss: u32,
}

#[derive(Clone, Debug)]
enum Members {
    All,
    Only(Tried),
}

impl Wheel {
    /// At rest. `max_fails` is that of the nodes that have none of their own; 0 for no effect of
    /// failures.
    pub(crate) fn new(nodes: &NodeSet, max_fails: u32) -> Self {
        let slots = nodes
            .iter()
            .map(|node| Slot::new(node, max_fails))
            .collect();
        Self::with_slots(nodes, slots)
    }

    /// As if some picks were over, so that a fleet that starts at one time does not start at one
    /// node: any number that is less than a cycle of all weights, and at most [`LONGEST_START`].
    pub(crate) fn anywhere(nodes: &NodeSet, max_fails: u32, random: u64) -> Self {
        let wheel = Self::new(nodes, max_fails);
        let weights = nodes.iter().map(|node| u64::from(node.weight()));
        let divisor = weights.fold(0, gcd);
        let cycle = nodes.total_weight().checked_div(divisor).unwrap_or(0);
        let picks = random.checked_rem(cycle.min(LONGEST_START)).unwrap_or(0);
        {
            let mut state = wheel.lock();
            for _ in 0..picks {
                state.round(None);
            }
        }
        wheel
    }

    /// With the current and effective weights of the nodes that stay, by identity.
    ///
    /// Where weights or members changed, current weights are scaled to the new total and shifted
    /// to sum to 0 again: what a node is owed stays the same fraction of a cycle.
    pub(crate) fn carried(previous: &Self, nodes: &NodeSet, max_fails: u32) -> Self {
        let mut slots: Box<[_]> = nodes
            .iter()
            .map(|node| Slot::new(node, max_fails))
            .collect();
        let was = {
            let mut state = previous.lock();
            state.leave_lanes();
            state.slots.clone()
        };
        let (total, total_was) = (nodes.total_weight(), previous.nodes.total_weight());
        for (slot, id) in slots.iter_mut().zip(nodes.matched(&previous.nodes)) {
            if let Some(was) = id.and_then(|id| was.get(id.index())) {
                slot.carry(was, total, total_was);
            }
        }
        level(&mut slots);
        Self::with_slots(nodes, slots)
    }

    fn with_slots(nodes: &NodeSet, slots: Box<[Slot]>) -> Self {
        let mut weights: Vec<_> = slots.iter().map(|slot| slot.weight).collect();
        weights.sort_unstable();
        Self {
            nodes: nodes.clone(),
            state: Mutex::new(State {
                lanes: Lanes::new(&weights),
                in_lanes: false,
                members: Members::All,
                calm: 0,
                slots,
            }),
        }
    }

    pub(crate) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// One round over the eligible nodes. O(n), or less while nothing changes.
    pub(crate) fn turn(&self, eligible: &Eligible<'_>) -> Option<NodeId> {
        if eligible.is_all_of(self.nodes.len()) {
            return self.lock().round(None);
        }
        if self.nodes.len() > FEW {
            // As a rule it is the nodes of the last round: seen without writing them down.
            let mut state = self.lock();
            if state.in_lanes && state.members.are_surely(eligible) {
                return state.lanes.round();
            }
        }
        self.turn_among(&eligible.members())
    }

    /// One round over `members`.
    pub(crate) fn turn_among(&self, members: &Tried) -> Option<NodeId> {
        self.lock().round(Some(members))
    }

    /// One round over those of `members` that `joins` lets in, asked in the order of their numbers
    /// with each node and the best of those that joined before it, if any.
    ///
    /// `joins` runs under the lock, so it must be arithmetic and nothing else.
    pub(crate) fn turn_where(
        &self,
        members: &Tried,
        joins: impl FnMut(NodeId, Option<NodeId>) -> bool,
    ) -> Option<NodeId> {
        self.lock().scan_where(members, joins)
    }

    /// One round over `node` alone: its current weight stays, its effective weight recovers.
    /// Returns whether it has its full weight again.
    pub(crate) fn recover(&self, node: NodeId) -> bool {
        let mut state = self.lock();
        state.slots.get_mut(node.index()).is_none_or(|slot| {
            slot.effective = slot.weight.min(slot.effective.saturating_add(1));
            slot.effective == slot.weight
        })
    }

    /// A request to `node` failed.
    pub(crate) fn failed(&self, node: NodeId) {
        self.lock().failed(node);
    }

    /// A panic cannot leave a state behind that breaks later picks, so poison is no error.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Wheel {
    fn clone(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            state: Mutex::new(self.lock().clone()),
        }
    }
}

impl State {
    /// One round over `members`, or over all nodes.
    fn round(&mut self, members: Option<&Tried>) -> Option<NodeId> {
        if !self.members.are(members) {
            self.leave_lanes();
            self.members.set_to(members);
        }
        if self.in_lanes {
            return self.lanes.round();
        }
        let chosen = self.scan();
        if self.calm > PATIENCE && self.slots.len() > FEW {
            self.enter_lanes();
        }
        chosen
    }

    fn scan(&mut self) -> Option<NodeId> {
        let mut round = Round::default();
        match &self.members {
            Members::All => {
                for (node, slot) in (0u32..).zip(&mut self.slots) {
                    round.join(node.into(), slot);
                }
            }
            Members::Only(members) => {
                for node in members.iter() {
                    if let Some(slot) = self.slots.get_mut(node.index()) {
                        round.join(node, slot);
                    }
                }
            }
        }
        self.calm = if round.weakened {
            0
        } else {
            self.calm.saturating_add(1)
        };
        self.end(&round)
    }

    fn scan_where(
        &mut self,
        members: &Tried,
        mut joins: impl FnMut(NodeId, Option<NodeId>) -> bool,
    ) -> Option<NodeId> {
        self.leave_lanes();
        let mut round = Round::default();
        for node in members.iter() {
            if let Some(slot) = self.slots.get_mut(node.index())
                && joins(node, round.best.map(|(best, _)| best))
            {
                round.join(node, slot);
            }
        }
        self.end(&round)
    }

    /// The best of `round` pays for it.
    fn end(&mut self, round: &Round) -> Option<NodeId> {
        let (chosen, _) = round.best?;
        let slot = self.slots.get_mut(chosen.index())?;
        slot.current = slot.current.saturating_sub(round.total);
        Some(chosen)
    }

    fn failed(&mut self, node: NodeId) {
        let Some(slot) = self.slots.get_mut(node.index()) else {
            return;
        };
        if slot.loss > 0 {
            slot.effective = slot.effective.saturating_sub(slot.loss);
            self.leave_lanes();
        }
    }

    fn enter_lanes(&mut self) {
        let takes_part = |node: NodeId| match &self.members {
            Members::All => true,
            Members::Only(members) => members.contains(node),
        };
        let members = (0u32..)
            .map(NodeId::from)
            .zip(&self.slots)
            .filter(|&(node, slot)| takes_part(node) && slot.weight > 0)
            .map(|(node, slot)| (node, slot.weight, slot.current));
        self.lanes.fill(members);
        self.in_lanes = true;
    }

    /// Back to current weights that are written out, and to patience.
    fn leave_lanes(&mut self) {
        self.calm = 0;
        self.in_lanes = false;
        let slots = &mut self.slots;
        self.lanes.drain(|node, current| {
            if let Some(slot) = slots.get_mut(node.index()) {
                slot.current = current;
            }
        });
    }
}

impl Members {
    fn are(&self, members: Option<&Tried>) -> bool {
        match self {
            Self::All => members.is_none(),
            Self::Only(these) => members.is_some_and(|members| members.is_same(these)),
        }
    }

    fn are_surely(&self, eligible: &Eligible<'_>) -> bool {
        match self {
            Self::All => false,
            Self::Only(these) => eligible.are_surely(these),
        }
    }

    fn set_to(&mut self, members: Option<&Tried>) {
        match (self, members) {
            (Self::Only(these), Some(members)) => these.clone_from(members),
            (all, None) => *all = Self::All,
            (all, Some(members)) => *all = Self::Only(members.clone()),
        }
    }
}

impl Slot {
    fn new(node: &Node, max_fails: u32) -> Self {
        let weight = node.weight();
        let max_fails = node.max_fails().unwrap_or(max_fails);
        Self {
            current: 0,
            weight,
            effective: weight,
            loss: weight.checked_div(max_fails).unwrap_or(0),
        }
    }

    /// Takes over what the same node was owed when the weights summed to `total_was`.
    fn carry(&mut self, was: &Self, total: u64, total_was: u64) {
        let scaled = i128::from(was.current) * i128::from(total);
        let scaled = scaled.checked_div(total_was.into()).unwrap_or(0);
        self.current = i64::try_from(scaled).unwrap_or(0);
        if was.effective < was.weight {
            self.effective = was.effective.min(self.weight);
        }
    }
}

/// One pass over the members.
#[derive(Default)]
struct Round {
    best: Option<(NodeId, i64)>,
    total: i64,
    /// Whether some member has not its full weight yet.
    weakened: bool,
}

impl Round {
    fn join(&mut self, node: NodeId, slot: &mut Slot) {
        if slot.weight == 0 {
            return;
        }
        slot.current = slot.current.saturating_add(i64::from(slot.effective));
        self.total = self.total.saturating_add(i64::from(slot.effective));
        if slot.effective < slot.weight {
            slot.effective += 1;
            self.weakened = true;
        }
        if self.best.is_none_or(|(_, most)| slot.current > most) {
            self.best = Some((node, slot.current));
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match a.checked_rem(b) {
        Some(rest) => gcd(b, rest),
        None => a,
    }
}

/// Shifts the current weights of the nodes that are not drained so that they sum to 0.
fn level(slots: &mut [Slot]) {
    let (members, mut left) = slots
        .iter()
        .filter(|slot| slot.weight > 0)
        .fold((0i128, 0i128), |(members, sum), slot| {
            (members + 1, sum + i128::from(slot.current))
        });
    let mut shares = (1..=members).rev();
    for slot in slots {
        let share = match slot.weight {
            0 => i128::from(slot.current),
            _ => left / shares.next().unwrap_or(1),
        };
        if slot.weight > 0 {
            left -= share;
        }
        let levelled = i128::from(slot.current) - share;
        slot.current = i64::try_from(levelled).unwrap_or(0);
    }
}

/// Rounds to scan before the lanes are built: a sort of n nodes costs about log2(n) scans.
const PATIENCE: u32 = 16;

/// So many picks from the start each node has had its share to within one or two: further on there
/// is nothing that is not to be found here, and these take no more than milliseconds to run.
const LONGEST_START: u64 = 1 << 16;

/// Up to so many nodes a scan is as fast as anything.
const FEW: usize = 8;

#[cfg(test)]
mod tests;
