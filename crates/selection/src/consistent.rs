//! The consistent-hash ring as a selector.

use std::collections::HashMap;
use std::net::SocketAddr;

use ketama::{Bucket, Continuum, RingConfig};

use crate::table::{Padded, Table};
use crate::{Build, BuildError, Eligible, Identity, Node, NodeId, NodeSet, Selector, Tried};

/// By the consistent-hash ring of nginx: a change of the set moves only the keys it must.
///
/// # Rule
///
/// A key belongs to the owner of the first point at or after its CRC-32. While that node is not
/// eligible the walk goes on along the points, without a limit: keys of a node that is down
/// spread over the others, and return when it does. Each node is asked at most once a pick.
/// nginx gives up after 20 points and takes turns, which loses the key's place while a node is up.
///
/// A node is known to the ring by its ring name, or else by its identity as text. Nodes of one
/// name share its points, which are those of the heaviest of them, and take turns by weight: the
/// addresses of one `server` line with a name.
///
/// An empty key is not hashed: such requests take turns by weight.
///
/// # Cost
///
/// A pick is O(1) expected, plus the points walked. Building is that of [`Continuum`].
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_hash_module.c`: `ngx_http_upstream_init_chash`,
/// `ngx_http_upstream_get_chash_peer`; pingora-load-balancing 0.9, `selection/consistent.rs`.
#[derive(Debug)]
pub struct Consistent {
    nodes: NodeSet,
    ring: Continuum,
    members: Members,
    /// The turns of requests without a key.
    turns: Turns,
}

/// What besides the nodes decides the choices of [`Consistent`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KetamaConfig {
    /// The layout and limits of the ring; nginx's by default.
    pub ring: RingConfig,
}

impl KetamaConfig {
    /// Sets the layout and limits of the ring.
    #[must_use]
    pub fn ring(self, ring: RingConfig) -> Self {
        Self { ring }
    }

    /// A ring of layout V2 with that many points per unit of weight: fewer than the 160 of nginx
    /// for less memory, more for more even shares.
    #[cfg(feature = "v2")]
    #[cfg_attr(docsrs, doc(cfg(feature = "v2")))]
    #[must_use]
    pub fn point_multiple(self, point_multiple: std::num::NonZeroU32) -> Self {
        let ring = self.ring.version(ketama::Version::V2 { point_multiple });
        Self { ring }
    }
}

/// Which nodes stand behind a bucket of the ring.
#[derive(Debug)]
enum Members {
    /// Bucket i is node i: no two nodes share a name.
    Same,
    /// Bucket i is a group of nodes of one name.
    Named(Box<[Turns]>),
}

/// Nodes that take turns by weight.
#[derive(Debug)]
struct Turns {
    table: Table,
    tickets: Padded,
}

/// One bucket to be: the nodes of one name.
struct Group {
    name: Box<str>,
    addr: Option<SocketAddr>,
    members: Vec<(NodeId, u32)>,
}

impl Consistent {
    /// The ring. Its buckets are the names of the nodes, in the order of their first nodes.
    #[must_use]
    pub fn ring(&self) -> &Continuum {
        &self.ring
    }

    /// The walk from the second point on, after the owner of the first, `bucket`, was refused.
    fn walk_on(
        &self,
        bucket: usize,
        walk: ketama::Walk<'_>,
        eligible: &Eligible<'_>,
    ) -> Option<NodeId> {
        let buckets = self.ring.buckets();
        let mut asked = Tried::new();
        asked.insert(NodeId::new(bucket)?);
        // One lap sees every bucket that owns a point; as a rule all are seen long before.
        for bucket in walk.take(self.ring.len()) {
            if asked.insert(NodeId::new(bucket)?) {
                if let Some(node) = self.member(bucket, eligible) {
                    return Some(node);
                }
                if asked.len() == buckets.len() {
                    return None;
                }
            }
        }
        // What is left is drained, or lost each of its points to a bucket listed before it.
        (0..buckets.len())
            .filter(|&bucket| !NodeId::new(bucket).is_none_or(|id| asked.contains(id)))
            .find_map(|bucket| self.member(bucket, eligible))
    }

    /// The node behind `bucket` whose turn it is.
    fn member(&self, bucket: usize, eligible: &Eligible<'_>) -> Option<NodeId> {
        match &self.members {
            Members::Same => {
                let id = NodeId::new(bucket)?;
                let drained = self.nodes.get(id)?.weight() == 0;
                (!drained && eligible.contains(id)).then_some(id)
            }
            Members::Named(groups) => groups.get(bucket)?.next(eligible),
        }
    }
}

impl Selector for Consistent {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn pick(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if eligible.is_nothing() {
            return None;
        }
        if key.is_empty() {
            return self.turns.next(eligible);
        }
        let mut walk = self.ring.walk(self.ring.hash(key));
        let bucket = walk.next()?;
        self.member(bucket, eligible)
            .or_else(|| self.walk_on(bucket, walk, eligible))
    }
}

impl Build for Consistent {
    type Config = KetamaConfig;

    fn build(nodes: &NodeSet, config: &KetamaConfig) -> Result<Self, BuildError> {
        Self::with_ring(nodes, |buckets| {
            Continuum::with_config(buckets, &config.ring)
        })
    }

    /// Takes over the points of the nodes that stay: one pass over the ring instead of a sort.
    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &KetamaConfig,
    ) -> Result<Self, BuildError> {
        if *previous.ring.config() != config.ring {
            return Self::build(nodes, config);
        }
        Self::with_ring(nodes, |buckets| previous.ring.rebuilt(buckets))
    }
}

impl Consistent {
    fn with_ring(
        nodes: &NodeSet,
        ring: impl FnOnce(&[Bucket]) -> Result<Continuum, ketama::BuildError>,
    ) -> Result<Self, BuildError> {
        let groups = group_by_name(nodes);
        let buckets: Vec<_> = groups.iter().map(Group::bucket).collect();
        let members = if groups.len() == nodes.len() {
            Members::Same
        } else {
            Members::Named(groups.into_iter().map(|g| Turns::of(g.members)).collect())
        };
        Ok(Self {
            nodes: nodes.clone(),
            ring: ring(&buckets)?,
            members,
            turns: Turns::of(nodes.ids().zip(nodes.iter().map(Node::weight))),
        })
    }
}

impl Turns {
    fn of(weights: impl IntoIterator<Item = (NodeId, u32)>) -> Self {
        Self {
            table: Table::of_weights(weights.into_iter()),
            tickets: Padded::default(),
        }
    }

    fn next(&self, eligible: &Eligible<'_>) -> Option<NodeId> {
        self.table.turn(&self.tickets.0, eligible)
    }
}

impl Group {
    fn bucket(&self) -> Bucket {
        let weights = self.members.iter().map(|&(_, weight)| weight);
        let weight = weights.max().unwrap_or(0);
        match self.addr {
            Some(addr) => Bucket::new(addr, weight).with_text(self.name.clone()),
            None => Bucket::from_text(self.name.clone(), weight),
        }
    }
}

/// The nodes by name, each group at the place of its first node.
fn group_by_name(nodes: &NodeSet) -> Vec<Group> {
    let mut places = HashMap::<String, usize>::with_capacity(nodes.len());
    let mut groups = Vec::<Group>::with_capacity(nodes.len());
    for (id, node) in nodes.ids().zip(nodes) {
        let name = match node.ring_name() {
            Some(name) => name.to_owned(),
            None => node.identity().to_string(),
        };
        let member = (id, node.weight());
        match places.get(&name) {
            Some(&place) => groups[place].members.push(member),
            None => {
                groups.push(Group {
                    name: name.as_str().into(),
                    addr: match node.identity() {
                        Identity::Inet(addr) => Some(*addr),
                        Identity::Name(_) => None,
                    },
                    members: vec![member],
                });
                places.insert(name, groups.len() - 1);
            }
        }
    }
    groups
}
