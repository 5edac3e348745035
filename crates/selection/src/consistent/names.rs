//! Nodes to buckets: which nodes the ring knows by one name.

use std::collections::HashMap;
use std::net::SocketAddr;

use ketama::Bucket;

use crate::{Identity, NodeId, NodeSet};

/// Which nodes stand behind each bucket of the ring.
#[derive(Clone, Debug)]
pub(super) enum Members {
    /// Bucket i is node i: no two nodes have the same name.
    Same,
    /// The nodes of each bucket that are not drained.
    Named(Box<[Box<[NodeId]>]>),
}

/// One bucket to be.
struct Group {
    name: Box<str>,
    /// Of the first node of this name.
    addr: Option<SocketAddr>,
    weight: u32,
    members: Vec<NodeId>,
}

/// The buckets for `nodes`, each name at the place of its first node, and who stands behind them.
///
/// A name has the weight of the heaviest of its nodes: their chains of points are the same as far
/// as they go.
pub(super) fn buckets(nodes: &NodeSet) -> (Vec<Bucket>, Members) {
    let mut places = HashMap::<String, usize>::with_capacity(nodes.len());
    let mut groups = Vec::<Group>::with_capacity(nodes.len());
    for (id, node) in nodes.ids().zip(nodes) {
        let name = match node.ring_name() {
            Some(name) => name.to_owned(),
            None => node.identity().to_string(),
        };
        let place = *places.entry(name).or_insert_with_key(|name| {
            groups.push(Group {
                name: name.as_str().into(),
                addr: match node.identity() {
                    Identity::Inet(addr) => Some(*addr),
                    Identity::Name(_) => None,
                },
                weight: 0,
                members: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.weight = group.weight.max(node.weight());
        if node.weight() > 0 {
            group.members.push(id);
        }
    }
    let buckets = groups.iter().map(Group::bucket).collect();
    let members = if groups.len() == nodes.len() {
        Members::Same
    } else {
        Members::Named(groups.into_iter().map(|g| g.members.into()).collect())
    };
    (buckets, members)
}

impl Group {
    fn bucket(&self) -> Bucket {
        match self.addr {
            Some(addr) => Bucket::new(addr, self.weight).with_text(self.name.clone()),
            None => Bucket::from_text(self.name.clone(), self.weight),
        }
    }
}
