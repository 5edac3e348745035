//! Bounded load: how many requests a node may have at once.

use crate::{NodeId, NodeSet, Tried};

/// HAProxy's `hash-balance-factor`, over the nodes that may be picked.
///
/// `ceil((requests in flight + 1) * factor / 100)` slots are shared by weight: node i gets
/// `floor(c * slots / W) - floor(b * slots / W)`, where b is the weight of the nodes before it,
/// c that and its own, and W the weight of all; so the shares sum to `slots`. At least 1 each.
/// A node has room while it has fewer requests than slots. As there are more slots than requests,
/// somebody has room.
///
/// `lb_chash.c`, `chash_server_is_eligible`. HAProxy multiplies weights by 16, which changes none
/// of these figures. The idea is from Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with
/// bounded loads" (2016).
pub(super) struct Bound<'a> {
    nodes: &'a NodeSet,
    members: &'a Tried,
    weight: u128,
    /// Slots for each unit of weight, and how many are left over.
    each: u128,
    rest: u128,
}

impl<'a> Bound<'a> {
    /// `None` if no member has a weight. O(members).
    pub(super) fn new(nodes: &'a NodeSet, members: &'a Tried, factor: u32) -> Option<Self> {
        let of_members = || members.iter().filter_map(|id| nodes.get(id));
        let weight: u128 = of_members().map(|node| u128::from(node.weight())).sum();
        let in_flight: u128 = of_members()
            .filter(|node| node.weight() > 0)
            .map(|node| u128::from(node.load().in_flight()))
            .sum();
        // Below 2^32 nodes * 2^32 requests * 2^32.
        let slots = ((in_flight + 1) * u128::from(factor)).div_ceil(100);
        Some(Self {
            nodes,
            members,
            weight,
            each: slots.checked_div(weight)?,
            rest: slots.checked_rem(weight)?,
        })
    }

    /// Whether `node`, one of the members, has room for one more request. O(members before it).
    pub(super) fn has_room(&self, node: NodeId) -> bool {
        let weight = |id| {
            self.nodes
                .get(id)
                .map_or(0, |node| u128::from(node.weight()))
        };
        let Some(in_flight) = self.nodes.get(node).map(|node| node.load().in_flight()) else {
            return false;
        };
        if in_flight == 0 {
            return true;
        }
        let members = self.members.iter();
        let before: u128 = members.take_while(|&id| id < node).map(weight).sum();
        // Weights sum to less than 2^64 and the rest is less than that.
        let share = |upto: u128| upto * self.rest / self.weight;
        let own = weight(node);
        let slots = own.saturating_mul(self.each) + share(before + own) - share(before);
        u128::from(in_flight) < slots
    }
}
