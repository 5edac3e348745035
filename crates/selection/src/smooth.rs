//! nginx's default: smooth weighted round robin.

use std::time::Duration;

use crate::splitmix;
use crate::wheel::Wheel;
use crate::{Build, BuildError, Eligible, NodeId, NodeSet, Outcome, Selector, Start};

/// In turns by weight, those of a heavy node spread out: 5, 1, 1 gives a a b a c a a.
///
/// # Rule
///
/// Each node has a current weight, at first 0. At every pick all eligible nodes gain their weight;
/// the node with the largest current weight is chosen, the first of equals, and pays what all
/// gained together. A node that is not eligible neither gains nor counts, so shares among the
/// others stay proportional to their weights. A retry is one more such round among what is left.
///
/// A failure told to [`observe`](Selector::observe) takes the `max_fails`th part of its weight off
/// what the node gains, down to nothing; each round that it takes part in gives 1 back. So a node
/// that comes back after its failures does not get its full share at once.
///
/// A [`rebuild`](Build::rebuild) carries the current and effective weights of the nodes that stay.
///
/// # Cost
///
/// While the same nodes are eligible at their full weight, a pick costs the same whatever n is: it
/// looks at the one node of each weight whose turn it may be, and beyond 16 different weights only
/// at those of them that can be next (O(sqrt(weights)) on average). After every change of the
/// eligible nodes, O(n) for 17 picks. If some but not all nodes are eligible, n/64 steps more to
/// see that they are still the same. One lock, held for that long. 48 bytes a node.
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_round_robin.c`: `ngx_http_upstream_get_peer`; every pick is
/// nginx's.
#[derive(Clone, Debug)]
pub struct SmoothRoundRobin {
    wheel: Wheel,
}

/// What besides the nodes decides the choices of [`SmoothRoundRobin`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SmoothConfig {
    /// How many failures take the whole weight of a node, for the nodes that do not say so
    /// themselves ([`Node::with_max_fails`](crate::Node::with_max_fails)). 1 by default, as in
    /// nginx; 0 for no effect of failures.
    pub max_fails: u32,
    /// Where the turns start; anywhere means in the first 65,536 picks of a cycle of all weights.
    pub start: Start,
    /// Decides where [`Start::Random`] is; `None`, the default, takes entropy of the system.
    pub seed: Option<u64>,
}

impl SmoothConfig {
    /// Sets how many failures take the whole weight of a node.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }

    /// Sets where the turns start.
    #[must_use]
    pub fn start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// Fixes where [`Start::Random`] is.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        let seed = Some(seed);
        Self { seed, ..self }
    }
}

impl Default for SmoothConfig {
    fn default() -> Self {
        Self {
            max_fails: 1,
            start: Start::First,
            seed: None,
        }
    }
}

impl Selector for SmoothRoundRobin {
    fn len(&self) -> usize {
        self.wheel.nodes().len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        self.wheel.turn(eligible)
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

impl Build for SmoothRoundRobin {
    type Config = SmoothConfig;

    fn build(nodes: &NodeSet, config: &SmoothConfig) -> Result<Self, BuildError> {
        let wheel = match config.start {
            Start::First => Wheel::new(nodes, config.max_fails),
            Start::Random => {
                let random = splitmix::mix(splitmix::seed_or_entropy(config.seed));
                Wheel::anywhere(nodes, config.max_fails, random)
            }
        };
        Ok(Self { wheel })
    }

    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &SmoothConfig,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            wheel: Wheel::carried(&previous.wheel, nodes, config.max_fails),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailureKind, Node, ReadySet};

    fn build(weights: &[u32]) -> SmoothRoundRobin {
        let names = "abcdefgh".chars().zip(weights);
        let nodes = names.map(|(name, &weight)| Node::new(name.to_string().as_str(), weight));
        let nodes = NodeSet::in_order(nodes).unwrap();
        SmoothRoundRobin::build(&nodes, &SmoothConfig::default()).unwrap()
    }

    fn sequence(selector: &SmoothRoundRobin, down: &[u32], n: usize) -> String {
        let ready = ReadySet::all(selector.len());
        for &node in down {
            ready.set(node.into(), false);
        }
        let letter = |_| match selector.pick(b"", &Eligible::new(&ready)) {
            Some(node) => char::from(b'a' + u8::try_from(node.index()).unwrap()),
            None => '-',
        };
        (0..n).map(letter).collect()
    }

    #[test]
    fn nginx_sequences() {
        assert_eq!(sequence(&build(&[5, 1, 1]), &[], 14), "aabacaaaabacaa");
        assert_eq!(sequence(&build(&[21, 11]), &[], 11), "abaabaabaab");
        assert_eq!(sequence(&build(&[1, 1, 1, 1]), &[], 8), "abcdabcd");
    }

    #[test]
    fn shares_stay_proportional_without_a_node() {
        assert_eq!(sequence(&build(&[5, 2, 1]), &[0], 9), "bcbbcbbcb");
        for (weights, shares) in [
            ([8, 1, 1, 0], [0, 20_000, 20_000, 0]),
            ([1, 3, 1, 0], [0, 30_000, 10_000, 0]),
            ([10, 8, 1, 1], [0, 32_000, 4_000, 4_000]),
        ] {
            let sequence = sequence(&build(&weights), &[0], 40_000);
            let counts = ['a', 'b', 'c', 'd'].map(|name| sequence.matches(name).count());
            assert_eq!(counts, shares, "{weights:?}");
        }
    }

    #[test]
    fn drained_nodes_never_come_up() {
        let selector = build(&[1, 0]);
        assert_eq!(sequence(&selector, &[], 10_000), "a".repeat(10_000));
        assert_eq!(sequence(&selector, &[0], 2), "--");
        assert_eq!(sequence(&build(&[0, 0]), &[], 2), "--");
        assert_eq!(sequence(&build(&[]), &[], 1), "-");
    }

    #[test]
    fn a_failed_node_recovers_by_one_a_round() {
        let selector = build(&[2, 2]);
        let failure = Outcome::Failure(FailureKind::Connect);
        assert_eq!(sequence(&selector, &[], 1), "a");
        selector.observe(NodeId::from(0), &failure, Duration::ZERO);
        // Current weights after each round, a gaining 0, 1, 2, 2: -2 2, -1 1, 1 -1, -1 1.
        assert_eq!(sequence(&selector, &[], 4), "bbba");
    }
}
