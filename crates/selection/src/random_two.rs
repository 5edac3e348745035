//! nginx's `random two least_conn`: the less loaded of two drawn at random.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::splitmix;
use crate::table::{Padded, Table};
use crate::wheel::Wheel;
use crate::{
    Build, BuildError, Eligible, Node, NodeId, NodeLoad, NodeSet, Outcome, Selector, Tried,
};

/// Two nodes at random by weight, and of these the one with fewer requests in flight for its
/// weight.
///
/// # Rule
///
/// Nodes are drawn by weight until two different eligible ones are found. The second is chosen
/// unless its ratio of requests in flight ([`NodeLoad::in_flight`]) to weight is larger than that
/// of the first. So at equal load the *second* is, which evens out the weights: of 1, 2, 3, 4 the
/// shares are 13.5, 24.1, 30.8 and 31.6 %. [`P2c`](crate::P2c) keeps to the weights.
///
/// After 21 draws without two such nodes one round of smooth round robin among the eligible ones
/// decides ([`SmoothRoundRobin`](crate::SmoothRoundRobin)); with only one it always comes to that.
/// nginx counts the draws of all tries of a request together, a pick here only its own.
///
/// # Cost
///
/// O(1) while most of the weight is eligible, or O(log n) beyond a total weight of 65,536;
/// otherwise up to 21 draws, and then O(n) under a lock.
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_random_module.c`: `ngx_http_upstream_get_random2_peer`.
#[derive(Clone, Debug)]
pub struct RandomTwo {
    table: Table,
    peers: Box<[Peer]>,
    wheel: Wheel,
    random: Padded,
}

/// What besides the nodes decides the choices of [`RandomTwo`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct RandomTwoConfig {
    /// Where the random numbers start; `None`, the default, takes entropy of the system.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub seed: Option<u64>,
    /// For the turns: how many failures take the whole weight of a node, as in
    /// [`SmoothConfig`](crate::SmoothConfig::max_fails).
    pub max_fails: u32,
}

/// What a pick reads of a node.
#[derive(Clone, Debug)]
struct Peer {
    load: Arc<NodeLoad>,
    weight: u32,
}

impl RandomTwoConfig {
    /// Fixes the random numbers: two selectors of one seed draw alike.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        let seed = Some(seed);
        Self { seed, ..self }
    }

    /// Sets how many failures take the whole weight of a node.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }
}

impl Default for RandomTwoConfig {
    fn default() -> Self {
        Self {
            seed: None,
            max_fails: 1,
        }
    }
}

impl RandomTwo {
    fn with_state(nodes: &NodeSet, wheel: Wheel, random: u64) -> Self {
        let peer = |node: &Node| Peer {
            load: Arc::clone(node.load()),
            weight: node.weight(),
        };
        Self {
            table: Table::new(nodes),
            peers: nodes.iter().map(peer).collect(),
            wheel,
            random: Padded::new(random),
        }
    }

    fn draw(&self) -> Option<NodeId> {
        self.table.node(splitmix::draw(&self.random.0))
    }

    fn choose(&self, first: NodeId, second: NodeId) -> NodeId {
        let read = |node: NodeId| match self.peers.get(node.index()) {
            Some(peer) => (u64::from(peer.load.in_flight()), u64::from(peer.weight)),
            None => (0, 0),
        };
        let ((load, weight), (other_load, other_weight)) = (read(first), read(second));
        // Products of two u32 fit in a u64.
        if other_load * weight > load * other_weight {
            first
        } else {
            second
        }
    }
}

impl Selector for RandomTwo {
    fn len(&self) -> usize {
        self.peers.len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if eligible.is_nothing() {
            return None;
        }
        let mut first = None;
        let mut refused = Tried::new();
        for _ in 0..DRAWS {
            let node = self.draw()?;
            if first == Some(node) || refused.contains(node) {
                continue;
            }
            match first {
                _ if !eligible.contains(node) => drop(refused.insert(node)),
                None => first = Some(node),
                Some(first) => return Some(self.choose(first, node)),
            }
        }
        // `first` was asked, and may be picked.
        first.map(|node| refused.insert(node));
        let mut members = eligible.members_besides(&refused);
        first.map(|node| members.insert(node));
        self.wheel.turn_among(&members)
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

impl Build for RandomTwo {
    type Config = RandomTwoConfig;

    fn build(nodes: &NodeSet, config: &RandomTwoConfig) -> Result<Self, BuildError> {
        let wheel = Wheel::new(nodes, config.max_fails);
        let random = splitmix::seed_or_entropy(config.seed);
        Ok(Self::with_state(nodes, wheel, random))
    }

    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &RandomTwoConfig,
    ) -> Result<Self, BuildError> {
        let wheel = Wheel::carried(&previous.wheel, nodes, config.max_fails);
        let random = previous.random.0.load(Ordering::Relaxed);
        Ok(Self::with_state(nodes, wheel, random))
    }
}

/// nginx gives up after more than 20 draws that did not complete a pair.
const DRAWS: u32 = 21;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::{InFlight, ReadySet};

    fn nodes(weights: &[u32]) -> NodeSet {
        let names = weights.iter().enumerate();
        let nodes = names.map(|(i, &weight)| Node::new(format!("n{i}").as_str(), weight));
        NodeSet::in_order(nodes).unwrap()
    }

    /// The rule over a list of slots; `None` where it comes to turns.
    fn model(
        slots: &[usize],
        random: &AtomicU64,
        may: impl Fn(usize) -> bool,
        load: impl Fn(usize) -> u32,
    ) -> Option<usize> {
        let mut pair = None;
        for _ in 0..21 {
            let drawn = splitmix::draw(random) % slots.len() as u64;
            let node = slots[usize::try_from(drawn).unwrap()];
            match pair {
                _ if !may(node) || pair == Some(node) => {}
                None => pair = Some(node),
                Some(first) => {
                    let weight = |node| slots.iter().filter(|&&slot| slot == node).count();
                    let ratio = |node| f64::from(load(node)) / weight(node) as f64;
                    let is_worse = ratio(node) > ratio(first);
                    return Some(if is_worse { first } else { node });
                }
            }
        }
        None
    }

    #[test]
    fn equals_the_model() {
        let weights = [1, 2, 0, 4, 8];
        let slots: Vec<_> = [(0, 1), (1, 2), (3, 4), (4, 8)]
            .into_iter()
            .flat_map(|(node, weight)| vec![node; weight])
            .collect();
        let set = nodes(&weights);
        let selector = RandomTwo::build(&set, &RandomTwoConfig::default().seed(3)).unwrap();
        let random = AtomicU64::new(3);
        let mut held = Vec::new();
        let mut turns = 0;
        for round in 0..3000u32 {
            let ready = ReadySet::all(5);
            // All up, one down, only one up in turn.
            for node in 0..5 {
                let down = (round / 500) % 2 == 1 && node == 4 || round >= 2500 && node != 1;
                ready.set(NodeId::from(node), !down);
            }
            let may = |node: usize| ready.is_ready(NodeId::new(node).unwrap());
            let load = |node: usize| set[NodeId::new(node).unwrap()].load().in_flight();
            let theirs = model(&slots, &random, may, load);
            let ours = selector.pick(b"", &Eligible::new(&ready)).unwrap();
            match theirs {
                Some(theirs) => assert_eq!(ours.index(), theirs, "round {round}"),
                None => turns += 1,
            }
            held.push(InFlight::new(Arc::clone(set[ours].load())));
            if held.len() > 20 {
                drop(held.swap_remove(round as usize % 20));
            }
        }
        assert!(turns >= 500, "{turns}");
    }

    #[test]
    fn a_rebuild_goes_on_with_the_random_numbers() {
        let set = nodes(&[1, 2, 3]);
        let config = RandomTwoConfig::default().seed(5);
        let ready = ReadySet::all(3);
        let picks = |selector: &RandomTwo, n| -> Vec<_> {
            let pick = || selector.pick(b"", &Eligible::new(&ready));
            std::iter::repeat_with(pick).take(n).collect()
        };
        let whole = picks(&RandomTwo::build(&set, &config).unwrap(), 40);
        let first = RandomTwo::build(&set, &config).unwrap();
        let mut both = picks(&first, 15);
        let second = RandomTwo::rebuild(&first, &set, &config).unwrap();
        both.extend(picks(&second, 25));
        assert_eq!(both, whole);
    }
}
