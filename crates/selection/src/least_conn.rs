//! nginx's `least_conn`: the fewest requests in flight for its weight.

use std::sync::Arc;
use std::time::Duration;

use crate::wheel::Wheel;
use crate::{Build, BuildError, Eligible, NodeId, NodeLoad, NodeSet, Outcome, Selector};

/// The node with the fewest requests in flight for its weight.
///
/// # Rule
///
/// Of all eligible nodes the one with the least ratio of requests in flight
/// ([`NodeLoad::in_flight`], before this one) to weight, compared by cross multiplication. If only
/// one has it, it is chosen. If several have it, one round of smooth round robin among them
/// decides ([`SmoothRoundRobin`](crate::SmoothRoundRobin)): with one request at a time that is
/// smooth round robin over all.
///
/// The counts are the caller's, by [`InFlight`](crate::InFlight). They are read without a lock, so
/// picks at one time may see the same counts and choose the same node;
/// [`P2c`](crate::P2c) suffers less from that where many callers share nothing but the counts.
///
/// # Cost
///
/// O(n) a pick: it looks at every eligible node. [`RandomTwo`](crate::RandomTwo) and
/// [`P2c`](crate::P2c) are O(1). A lock for the round, if there is one.
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_least_conn_module.c`: `ngx_http_upstream_get_least_conn_peer`;
/// every pick is nginx's.
#[derive(Clone, Debug)]
pub struct LeastConn {
    peers: Box<[Peer]>,
    wheel: Wheel,
}

/// What besides the nodes decides the choices of [`LeastConn`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct LeastConnConfig {
    /// For the turns: how many failures take the whole weight of a node, as in
    /// [`SmoothConfig`](crate::SmoothConfig::max_fails).
    pub max_fails: u32,
}

/// What a pick reads of a node, side by side.
#[derive(Clone, Debug)]
struct Peer {
    load: Arc<NodeLoad>,
    weight: u32,
}

/// Requests in flight for a weight. The products of two u32 fit in a u64.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    in_flight: u64,
    weight: u64,
}

impl LeastConnConfig {
    /// Sets how many failures take the whole weight of a node.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails }
    }
}

impl Default for LeastConnConfig {
    fn default() -> Self {
        Self { max_fails: 1 }
    }
}

impl LeastConn {
    fn with_wheel(nodes: &NodeSet, wheel: Wheel) -> Self {
        let peer = |node: &crate::Node| Peer {
            load: Arc::clone(node.load()),
            weight: node.weight(),
        };
        Self {
            peers: nodes.iter().map(peer).collect(),
            wheel,
        }
    }

    /// `None` for a drained node.
    fn ratio(&self, node: NodeId) -> Option<Ratio> {
        let peer = self.peers.get(node.index())?;
        (peer.weight > 0).then(|| Ratio {
            in_flight: peer.load.in_flight().into(),
            weight: peer.weight.into(),
        })
    }
}

impl Selector for LeastConn {
    fn len(&self) -> usize {
        self.peers.len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        let members = eligible.members();
        let mut best = None::<(NodeId, Ratio)>;
        let mut several = false;
        for node in members.iter() {
            let Some(ratio) = self.ratio(node) else {
                continue;
            };
            match best {
                Some((_, least)) if least.is_less_than(ratio) => {}
                Some((_, least)) if !ratio.is_less_than(least) => several = true,
                _ => (best, several) = (Some((node, ratio)), false),
            }
        }
        let (first, least) = best?;
        if !several {
            return Some(first);
        }
        // Counts may change meanwhile; `first` takes part in any case.
        self.wheel.turn_where(&members, |node, _| {
            node == first || node > first && self.ratio(node).is_some_and(|r| r.equals(least))
        })
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, _now: Duration) {
        if let Outcome::Failure(_) = outcome {
            self.wheel.failed(node);
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl Build for LeastConn {
    type Config = LeastConnConfig;

    fn build(nodes: &NodeSet, config: &LeastConnConfig) -> Result<Self, BuildError> {
        let wheel = Wheel::new(nodes, config.max_fails);
        Ok(Self::with_wheel(nodes, wheel))
    }

    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &LeastConnConfig,
    ) -> Result<Self, BuildError> {
        let wheel = Wheel::carried(&previous.wheel, nodes, config.max_fails);
        Ok(Self::with_wheel(nodes, wheel))
    }
}

impl Ratio {
    fn is_less_than(self, other: Self) -> bool {
        self.in_flight * other.weight < other.in_flight * self.weight
    }

    fn equals(self, other: Self) -> bool {
        self.in_flight * other.weight == other.in_flight * self.weight
    }
}
