//! Nodes, their identity and numbering. WEIGHT SEMANTICS live here.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Index;
use std::str::FromStr;
use std::sync::Arc;

use crate::{BuildError, NodeLoad};

/// What a node *is*. Weight, ring name and load are attributes; changing them leaves it the node
/// it was.
///
/// The order is the one [`NodeSet::new`] numbers by: addresses first (IPv4 before IPv6, then by
/// address, then by port), names after them, bytewise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// An internet address and port.
    Inet(SocketAddr),
    /// Anything else: a stable name, or a path written `unix:/run/a.sock`.
    Name(Arc<str>),
}

impl From<SocketAddr> for Identity {
    fn from(addr: SocketAddr) -> Self {
        Self::Inet(addr)
    }
}

impl From<&str> for Identity {
    /// An address if the text is one, a name otherwise.
    fn from(text: &str) -> Self {
        SocketAddr::from_str(text).map_or_else(|_| Self::Name(text.into()), Self::Inet)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(addr) => addr.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// The number of a node within one [`NodeSet`]. It means nothing in any other set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The node number `index`, or `None` where a set cannot be that large.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }

    /// The number as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u32> for NodeId {
    fn from(index: u32) -> Self {
        Self(index)
    }
}

/// One node: identity, weight, ring name and the load it is under.
#[derive(Clone, Debug)]
pub struct Node {
    identity: Identity,
    weight: u32,
    ring_name: Option<Arc<str>>,
    max_fails: Option<u32>,
    load: Arc<NodeLoad>,
}

impl Node {
    /// A node of the given weight, with a load of its own.
    ///
    /// The weight is a share relative to the other nodes. **0 means drained**: a member of the
    /// set that no algorithm ever returns, not as a fallback either.
    #[must_use]
    pub fn new(identity: impl Into<Identity>, weight: u32) -> Self {
        Self {
            identity: identity.into(),
            weight,
            ring_name: None,
            max_fails: None,
            load: Arc::default(),
        }
    }

    /// The text by which the ring knows this node, in place of its identity.
    #[must_use]
    pub fn with_ring_name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            ring_name: Some(name.into()),
            ..self
        }
    }

    /// `max_fails` of nginx's `server` line, in place of the selector's: the algorithms that take
    /// turns by smooth round robin lower the weight of the node by its `max_fails`th part on each
    /// failure. 0 leaves the weight alone.
    #[must_use]
    pub fn with_max_fails(self, max_fails: u32) -> Self {
        Self {
            max_fails: Some(max_fails),
            ..self
        }
    }

    /// The load that this node shares with its earlier selves: what keeps counters over updates.
    #[must_use]
    pub fn with_load(self, load: Arc<NodeLoad>) -> Self {
        Self { load, ..self }
    }

    /// What this node is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its share; 0 = drained.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The ring name, if it differs from the identity.
    #[must_use]
    pub fn ring_name(&self) -> Option<&str> {
        self.ring_name.as_deref()
    }

    /// How many failures take its whole weight, if it differs from what the selector says.
    #[must_use]
    pub fn max_fails(&self) -> Option<u32> {
        self.max_fails
    }

    /// The requests in flight and what else is measured of the node.
    #[must_use]
    pub fn load(&self) -> &Arc<NodeLoad> {
        &self.load
    }
}

/// The nodes a selector chooses from, numbered. Cloning it is one reference count.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    nodes: Arc<[Node]>,
    total_weight: u64,
}

impl NodeSet {
    /// The nodes sorted by identity, so that discovery may answer in any order and two processes
    /// agree on every number.
    ///
    /// The same identity twice is one node: the weights are added, saturating at `u32::MAX`; ring
    /// name and load are those of the first.
    ///
    /// # Errors
    ///
    /// [`BuildError::TooManyNodes`] beyond 2^32 - 1 nodes.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Result<Self, BuildError> {
        let mut merged = BTreeMap::<Identity, Node>::new();
        for node in nodes {
            merged
                .entry(node.identity.clone())
                .and_modify(|first| first.weight = first.weight.saturating_add(node.weight))
                .or_insert(node);
        }
        Self::in_order(merged.into_values())
    }

    /// The nodes in the caller's order, doubles kept apart: the peers of an nginx upstream block,
    /// where the order decides ties.
    ///
    /// # Errors
    ///
    /// [`BuildError::TooManyNodes`] beyond 2^32 - 1 nodes.
    pub fn in_order(nodes: impl IntoIterator<Item = Node>) -> Result<Self, BuildError> {
        let nodes: Arc<[Node]> = nodes.into_iter().collect();
        if u32::try_from(nodes.len()).is_err() {
            return Err(BuildError::TooManyNodes {
                nodes: nodes.len(),
                max: u32::MAX as usize,
            });
        }
        // Fewer than 2^32 weights below 2^32: the sum fits in a u64.
        let total_weight = nodes.iter().map(|node| u64::from(node.weight)).sum();
        Ok(Self {
            nodes,
            total_weight,
        })
    }

    /// How many nodes there are, drained ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The sum of the weights.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// The node `id`, or `None` if `id` is of another set.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// The number of the (first) node with this identity. Linear.
    #[must_use]
    pub fn find(&self, identity: &Identity) -> Option<NodeId> {
        self.ids()
            .zip(self.iter())
            .find(|(_, node)| node.identity == *identity)
            .map(|(id, _)| id)
    }

    /// For each node the one that it was in `previous`, by identity; of doubles the first takes
    /// the place of the first, and so on. O(n log n).
    pub(crate) fn matched<'a>(
        &'a self,
        previous: &'a Self,
    ) -> impl Iterator<Item = Option<NodeId>> + 'a {
        let mut places = BTreeMap::<&Identity, VecDeque<NodeId>>::new();
        for (id, node) in previous.ids().zip(previous) {
            places.entry(&node.identity).or_default().push_back(id);
        }
        self.iter()
            .map(move |node| places.get_mut(&node.identity)?.pop_front())
    }

    /// The nodes in the order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.nodes.iter()
    }

    /// The numbers of all nodes, ascending.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0u32..).take(self.nodes.len()).map(NodeId)
    }
}

impl<'a> IntoIterator for &'a NodeSet {
    type Item = &'a Node;
    type IntoIter = std::slice::Iter<'a, Node>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Index<NodeId> for NodeSet {
    type Output = Node;

    /// # Panics
    ///
    /// If `id` is a number of another, larger set; see [`NodeSet::get`].
    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_by_address_not_by_text_and_merged() {
        let set = NodeSet::new([
            Node::new("shard-1", 1),
            Node::new("[::1]:80", 1),
            Node::new("10.0.0.10:80", u32::MAX),
            Node::new("10.0.0.9:80", 2),
            Node::new("10.0.0.10:80", 7),
        ])
        .unwrap();
        let rows: Vec<_> = set
            .iter()
            .map(|n| (n.identity().to_string(), n.weight()))
            .collect();
        let expected = [
            ("10.0.0.9:80", 2),
            ("10.0.0.10:80", u32::MAX),
            ("[::1]:80", 1),
        ];
        assert_eq!(
            rows[..3],
            expected.map(|(text, weight)| (text.to_owned(), weight))
        );
        assert_eq!(rows[3].0, "shard-1");
        assert_eq!(set.total_weight(), u64::from(u32::MAX) + 4);
        assert_eq!(set.find(&"[::1]:80".into()).unwrap().index(), 2);
    }

    #[test]
    fn in_order_keeps_order_and_doubles() {
        let set = NodeSet::in_order(["b", "a", "b"].map(|name| Node::new(name, 1))).unwrap();
        let names: Vec<_> = set.iter().map(|n| n.identity().to_string()).collect();
        assert_eq!(names, ["b", "a", "b"]);
    }

    #[test]
    fn doubles_match_in_order() {
        let set = |names: &[&str]| {
            NodeSet::in_order(names.iter().map(|&name| Node::new(name, 1))).unwrap()
        };
        let (old, new) = (set(&["b", "a", "b"]), set(&["c", "b", "b", "b", "a"]));
        let matched: Vec<_> = new.matched(&old).map(|id| id.map(NodeId::index)).collect();
        assert_eq!(matched, [None, Some(0), Some(2), None, Some(1)]);
    }
}
