//! The consistent-hash ring as a selector.

use std::sync::Arc;
use std::time::Duration;

use ketama::{Bucket, Continuum, RingConfig, Walk};

use crate::refused::Refused;
use crate::wheel::Wheel;
use crate::{Build, BuildError, Eligible, NodeId, NodeSet, Outcome, ReadySet, Selector, Tried};

mod bound;
mod names;

use bound::Bound;
use names::Members;

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
/// name share its points, which are those of the heaviest of them, and take turns by smooth round
/// robin: what nginx does with the addresses of a name, and with two lines for one server.
///
/// An empty key is not hashed: such requests take turns by smooth round robin, as in nginx.
///
/// Nodes of one name, and bounded load, are the exceptions to the contract's rule that the same
/// key and eligible nodes give the same node.
///
/// # Bounded load
///
/// With [`KetamaConfig::balance_factor`] a node whose share of the requests in flight is used up
/// is passed on the walk like one that is not eligible, so that a hot key overflows to the next
/// node of its walk.
///
/// # Cost
///
/// A pick is O(1) expected, plus the points walked; with bounded load O(n), unless the key's node
/// is idle and everything is up. Taking turns costs what a pick of
/// [`SmoothRoundRobin`](crate::SmoothRoundRobin) does. Building is that of [`Continuum`].
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_hash_module.c`: `ngx_http_upstream_init_chash`,
/// `ngx_http_upstream_get_chash_peer`; pingora-load-balancing 0.9, `selection/consistent.rs`;
/// HAProxy 3.5, `lb_chash.c`.
#[derive(Clone, Debug)]
pub struct Consistent {
    nodes: NodeSet,
    config: KetamaConfig,
    /// Shared by forks, and by rebuilds that leave it as it is.
    ring: Arc<Continuum>,
    members: Members,
    /// The turns of nodes of one name, and of requests without a key.
    wheel: Wheel,
    /// The nodes whose effective weight may be below their weight.
    weakened: ReadySet,
}

/// What besides the nodes decides the choices of [`Consistent`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KetamaConfig {
    /// The layout and limits of the ring; nginx's by default.
    pub ring: RingConfig,
    /// Another program's ring and key hash, in place of [`ring`](Self::ring).
    #[cfg(feature = "schemes")]
    #[cfg_attr(docsrs, doc(cfg(feature = "schemes")))]
    pub scheme: Option<ketama::SchemeConfig>,
    /// How much of the mean load by weight a node may have, in percent: 101 and more, as HAProxy's
    /// `hash-balance-factor`. `None`, the default, sets no bound.
    pub balance_factor: Option<u32>,
    /// How many failures take the whole weight of a node out of the turns it has a part in, for
    /// the nodes that do not say so themselves. 1 by default, as in nginx; 0 for no effect.
    pub max_fails: u32,
}

impl KetamaConfig {
    /// Sets the layout and limits of the ring.
    #[must_use]
    pub fn ring(self, ring: RingConfig) -> Self {
        Self { ring, ..self }
    }

    /// A ring of layout V2 with that many points per unit of weight: fewer than the 160 of nginx
    /// for less memory, more for more even shares.
    #[cfg(feature = "v2")]
    #[cfg_attr(docsrs, doc(cfg(feature = "v2")))]
    #[must_use]
    pub fn point_multiple(self, point_multiple: std::num::NonZeroU32) -> Self {
        let version = ketama::Version::V2 { point_multiple };
        Self {
            ring: self.ring.clone().version(version),
            ..self
        }
    }

    /// Builds another program's ring and hashes keys as it does.
    #[cfg(feature = "schemes")]
    #[cfg_attr(docsrs, doc(cfg(feature = "schemes")))]
    #[must_use]
    pub fn scheme(self, scheme: ketama::SchemeConfig) -> Self {
        let scheme = Some(scheme);
        Self { scheme, ..self }
    }

    /// Bounds the load of a node to that percentage of the mean.
    #[must_use]
    pub fn balance_factor(self, percent: u32) -> Self {
        let balance_factor = Some(percent);
        Self {
            balance_factor,
            ..self
        }
    }

    /// Sets how many failures take the whole weight of a node out of its turns.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }

    fn check(&self) -> Result<(), BuildError> {
        match self.balance_factor {
            Some(percent @ 0..=100) => Err(BuildError::OutOfRange {
                field: "balance_factor",
                value: percent.to_string(),
                allowed: "101 and more",
            }),
            _ => Ok(()),
        }
    }

    fn build_ring(&self, buckets: &[Bucket]) -> Result<Continuum, ketama::BuildError> {
        #[cfg(feature = "schemes")]
        if let Some(scheme) = &self.scheme {
            return Continuum::with_scheme(buckets, scheme);
        }
        Continuum::with_config(buckets, &self.ring)
    }

    fn is_same_ring(&self, other: &Self) -> bool {
        #[cfg(feature = "schemes")]
        if self.scheme != other.scheme {
            return false;
        }
        self.ring == other.ring
    }
}

impl Default for KetamaConfig {
    fn default() -> Self {
        Self {
            ring: RingConfig::new(),
            #[cfg(feature = "schemes")]
            scheme: None,
            balance_factor: None,
            max_fails: 1,
        }
    }
}

impl Consistent {
    /// The ring. Its buckets are the names of the nodes, in the order of their first nodes.
    #[must_use]
    pub fn ring(&self) -> &Continuum {
        &self.ring
    }

    /// The share of all keys that belongs to each node while all of them are eligible, by node:
    /// exactly its part of the circle. Nodes of one ring name divide theirs by weight.
    ///
    /// O(points).
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.nodes.len()];
        for (bucket, places) in self.ring.shares().into_iter().enumerate() {
            // Both below 2^53.
            let share = places as f64 / Continuum::CIRCLE as f64;
            let members = self.members_of(bucket);
            let weight = |node: &NodeId| f64::from(self.nodes[*node].weight());
            let sum: f64 = members.iter().map(weight).sum();
            for node in members {
                shares[node.index()] = share * weight(&node) / sum;
            }
        }
        shares
    }

    /// The nodes behind `bucket` that are not drained.
    fn members_of(&self, bucket: usize) -> Vec<NodeId> {
        match &self.members {
            Members::Same => {
                let node = NodeId::new(bucket);
                let weighs = |node: &NodeId| self.nodes[*node].weight() > 0;
                node.filter(weighs).into_iter().collect()
            }
            Members::Named(groups) => groups
                .get(bucket)
                .map(|group| group.to_vec())
                .unwrap_or_default(),
        }
    }

    /// The first node on `walk` that may be picked. Up to `repeats` nodes may be asked twice.
    fn first(
        &self,
        mut walk: Walk<'_>,
        repeats: usize,
        may: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let bucket = walk.next()?;
        self.member(bucket, &may)
            .or_else(|| self.first_behind(bucket, walk, repeats, &may))
    }

    /// [`first`](Self::first) from the second point on, the owner of the first having been
    /// refused. Apart, to keep the common case small.
    fn first_behind(
        &self,
        bucket: usize,
        mut walk: Walk<'_>,
        repeats: usize,
        may: &impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let mut nearby = walk.by_ref().take(repeats);
        if let Some(node) = nearby.find_map(|bucket| self.member(bucket, may)) {
            return Some(node);
        }
        let buckets = self.ring.buckets();
        let mut asked = Refused::new();
        if repeats == 0 {
            asked.insert(NodeId::new(bucket)?);
        }
        // One lap meets every bucket that owns a point; as a rule all are met long before its end,
        // and then the rest of the lap is spared: it may be a million points.
        for bucket in walk.take(self.ring.len()) {
            if asked.len() >= self.ring.owners() {
                break;
            }
            if asked.insert(NodeId::new(bucket)?)
                && let Some(node) = self.member(bucket, may)
            {
                return Some(node);
            }
        }
        // What is left is drained, or has no point: its share was rounded to none, or each of its
        // points is another's.
        let is_asked = |bucket| NodeId::new(bucket).is_none_or(|id| asked.contains(id));
        (0..buckets.len())
            .filter(|&bucket| buckets[bucket].weight() > 0 && !is_asked(bucket))
            .find_map(|bucket| self.member(bucket, may))
    }

    /// The node behind `bucket` whose turn it is.
    fn member(&self, bucket: usize, may: &impl Fn(NodeId) -> bool) -> Option<NodeId> {
        match &self.members {
            Members::Same => self.only(NodeId::new(bucket)?, may),
            Members::Named(groups) => match &**groups.get(bucket)? {
                &[node] => self.only(node, may),
                group => {
                    let mut members = Tried::new();
                    for &node in group.iter().filter(|&&node| may(node)) {
                        members.insert(node);
                    }
                    self.wheel.turn_among(&members)
                }
            },
        }
    }

    /// A node that shares its points with nobody: its round changes nothing, except that a
    /// weakened node recovers.
    fn only(&self, node: NodeId, may: &impl Fn(NodeId) -> bool) -> Option<NodeId> {
        may(node).then(|| {
            if self.weakened.ready() > 0 && self.weakened.is_ready(node) && self.wheel.recover(node)
            {
                self.weakened.set(node, false);
            }
            node
        })
    }

    /// The first node on the walk that has room.
    fn bounded(&self, factor: u32, walk: Walk<'_>, eligible: &Eligible<'_>) -> Option<NodeId> {
        // An idle node has room whatever the others do; they need not be looked at.
        if eligible.is_all_of(self.nodes.len())
            && let Some(node) = self.sole(walk.clone().next()?)
            && self.nodes.get(node)?.load().in_flight() == 0
        {
            return self.only(node, &|_| true);
        }
        let members = eligible.members();
        let bound = Bound::new(&self.nodes, &members, factor)?;
        let may = |node| members.contains(node) && bound.has_room(node);
        // Loads move while they are read; if that hides all room, the key's own node takes it.
        self.first(walk.clone(), REPEATS, may)
            .or_else(|| self.first(walk, REPEATS, |node| members.contains(node)))
    }

    /// The node behind `bucket`, if it shares its points with nobody.
    fn sole(&self, bucket: usize) -> Option<NodeId> {
        match &self.members {
            Members::Same => NodeId::new(bucket),
            Members::Named(groups) => match **groups.get(bucket)? {
                [node] => Some(node),
                _ => None,
            },
        }
    }

    fn with_ring(
        nodes: &NodeSet,
        config: &KetamaConfig,
        ring: impl FnOnce(&[Bucket]) -> Result<Arc<Continuum>, ketama::BuildError>,
        wheel: Wheel,
    ) -> Result<Self, BuildError> {
        config.check()?;
        let (buckets, members) = names::buckets(nodes);
        Ok(Self {
            nodes: nodes.clone(),
            config: config.clone(),
            ring: ring(&buckets)?,
            members,
            wheel,
            weakened: ReadySet::none(nodes.len()),
        })
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
            return self.wheel.turn(eligible);
        }
        let walk = self.ring.walk(self.ring.hash(key));
        match self.config.balance_factor {
            None => {
                let repeats = if eligible.is_only_bits() { REPEATS } else { 0 };
                self.first(walk, repeats, |node| eligible.contains(node))
            }
            Some(factor) => self.bounded(factor, walk, eligible),
        }
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, _now: Duration) {
        if let Outcome::Failure(_) = outcome {
            self.wheel.failed(node);
            self.weakened.set(node, true);
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl Build for Consistent {
    type Config = KetamaConfig;

    fn build(nodes: &NodeSet, config: &KetamaConfig) -> Result<Self, BuildError> {
        let wheel = Wheel::new(nodes, config.max_fails);
        let ring = |buckets: &[_]| config.build_ring(buckets).map(Arc::new);
        Self::with_ring(nodes, config, ring, wheel)
    }

    /// Takes over the points of the nodes that stay, in one pass over the ring instead of a sort,
    /// and what the nodes are owed in their turns.
    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &KetamaConfig,
    ) -> Result<Self, BuildError> {
        let ring = |buckets: &[_]| {
            if !previous.config.is_same_ring(config) {
                return config.build_ring(buckets).map(Arc::new);
            }
            if previous.ring.buckets() == buckets {
                return Ok(Arc::clone(&previous.ring));
            }
            previous.ring.rebuilt(buckets).map(Arc::new)
        };
        let wheel = Wheel::carried(&previous.wheel, nodes, config.max_fails);
        let next = Self::with_ring(nodes, config, ring, wheel)?;
        for (id, was) in nodes.ids().zip(nodes.matched(&previous.nodes)) {
            if was.is_some_and(|was| previous.weakened.is_ready(was)) {
                next.weakened.set(id, true);
            }
        }
        Ok(next)
    }
}

/// To look at a readiness bit twice costs less than to remember that it was looked at. With nine
/// nodes in ten down one walk in a thousand passes more points than this.
const REPEATS: usize = 64;
