//! What nginx's `hash` and `ip_hash` share: hash, and hash again while that meets nobody.

use crate::table::Table;
use crate::wheel::Wheel;
use crate::{BuildError, Eligible, NodeId, NodeSet, Tried};

/// The nodes by weight, and the wheel to fall back to.
#[derive(Clone, Debug)]
pub(crate) struct Rehash {
    /// All nodes that are not drained: one that is down keeps its share of the hash space.
    table: Table,
    wheel: Wheel,
}

impl Rehash {
    pub(crate) fn new(nodes: &NodeSet, max_fails: u32) -> Result<Self, BuildError> {
        Ok(Self {
            table: Table::new(nodes),
            wheel: Wheel::new(nodes, max_fails),
        })
    }

    /// With the wheel of `previous`, which is all the state there is.
    pub(crate) fn carried(
        previous: &Self,
        nodes: &NodeSet,
        max_fails: u32,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            table: Table::new(nodes),
            wheel: Wheel::carried(&previous.wheel, nodes, max_fails),
        })
    }

    pub(crate) fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    /// The node of the first hash of `hashes` that belongs to an eligible one; after
    /// [`MOST_MISSES`] that do not, one round of the wheel over all that are eligible.
    pub(crate) fn pick(
        &self,
        mut hashes: impl Iterator<Item = u64>,
        eligible: &Eligible<'_>,
    ) -> Option<NodeId> {
        let node = self.table.node(hashes.next()?)?;
        if eligible.contains(node) {
            return Some(node);
        }
        if eligible.is_nothing() {
            return None;
        }
        self.pick_again(node, hashes, eligible)
    }

    /// [`pick`](Self::pick) after the first hash met `refused`.
    ///
    /// nginx goes on with the hashes, and with its count of misses, over all tries of a request. A
    /// pick here starts again from the key instead, and comes to the same: where it meets a node
    /// that the request has tried for the first time, that is where nginx chose it, which was no
    /// miss.
    fn pick_again(
        &self,
        refused: NodeId,
        hashes: impl Iterator<Item = u64>,
        eligible: &Eligible<'_>,
    ) -> Option<NodeId> {
        let mut asked = Tried::new();
        asked.insert(refused);
        let mut misses = u32::from(!eligible.was_tried(refused));
        for hash in hashes {
            let node = self.table.node(hash)?;
            let is_new = asked.insert(node);
            if is_new && eligible.contains(node) {
                return Some(node);
            }
            if !(is_new && eligible.was_tried(node)) {
                misses += 1;
            }
            if misses > MOST_MISSES {
                break;
            }
        }
        self.wheel.turn_among(&eligible.members_besides(&asked))
    }
}

/// nginx's, in `ngx_http_upstream_get_hash_peer` and `ngx_http_upstream_get_ip_hash_peer`.
const MOST_MISSES: u32 = 20;
