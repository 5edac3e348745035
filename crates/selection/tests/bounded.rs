//! Bounded load on the ring, against HAProxy's rule as its source writes it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;
#[path = "naive/bounded.rs"]
mod naive;

use std::sync::Arc;

use every::{id, nodes};
use naive::has_room;
use proptest::prelude::*;
use selection::{
    Build, BuildError, Consistent, Eligible, InFlight, KetamaConfig, Node, NodeId, NodeLoad,
    NodeSet, ReadySet, Selector,
};

fn bounded(set: &NodeSet, percent: u32) -> Consistent {
    Consistent::build(set, &KetamaConfig::default().balance_factor(percent)).unwrap()
}

fn held(set: &NodeSet, node: NodeId) -> InFlight<Arc<NodeLoad>> {
    InFlight::new(Arc::clone(set[node].load()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(41),
        ..ProptestConfig::default()
    })]

    /// Over the nodes that are up, the first with room on the ring of all.
    #[test]
    fn equals_its_model(
        members in prop::collection::vec((1u32..5, 0u32..12, any::<bool>()), 1..9),
        percent in 101u32..400,
        keys in prop::collection::vec(any::<u32>(), 8),
    ) {
        let weights: Vec<_> = members.iter().map(|m| m.0).collect();
        let set = nodes(&weights);
        let selector = bounded(&set, percent);
        let ready = ReadySet::none(set.len());
        let mut all = Vec::new();
        for (node, &(_, load, up)) in set.ids().zip(&members) {
            all.extend((0..load).map(|_| held(&set, node)));
            ready.set(node, up);
        }
        let up: Vec<_> = (0..set.len()).filter(|&node| members[node].2).collect();
        let of_up = |value: fn(&(u32, u32, bool)) -> u32| -> Vec<u64> {
            up.iter().map(|&node| value(&members[node]).into()).collect()
        };
        let (weights, loads) = (of_up(|m| m.0), of_up(|m| m.1));
        let may = |node: usize| up.iter().position(|&is| is == node)
            .is_some_and(|place| has_room(&weights, &loads, percent.into(), place));
        for key in keys {
            let key = key.to_string();
            let ring = selector.ring();
            let mut lap = ring.walk(ring.hash(key.as_bytes())).take(ring.len());
            let picked = selector.pick(key.as_bytes(), &Eligible::new(&ready));
            prop_assert_eq!(picked.map(NodeId::index), lap.find(|&node| may(node)));
            prop_assert_eq!(picked.is_some(), !up.is_empty());
        }
    }
}

/// One key, nothing ends: no node ever exceeds its share of what is in flight.
#[test]
fn a_hot_key_overflows_to_the_next_node() {
    let weights = [1, 2, 3, 4];
    let set = nodes(&weights);
    let selector = bounded(&set, 150);
    let ready = ReadySet::all(4);
    let mut all = Vec::new();
    for served in 0..400u32 {
        let node = selector.pick(b"hot", &Eligible::new(&ready)).unwrap();
        all.push(held(&set, node));
        let load = set[node].load().in_flight();
        // ceil(150 % of all that is in flight) slots, shared by weight out of 10, and rounded.
        let slots = ((served + 1) * 3).div_ceil(2);
        assert!(
            load <= (slots * weights[node.index()]).div_ceil(10),
            "{load} of {served}"
        );
    }
    let order: Vec<_> = {
        let ring = selector.ring();
        let mut seen = Vec::new();
        for node in ring.walk(ring.hash(b"hot")).take(ring.len()) {
            if !seen.contains(&node) {
                seen.push(node);
            }
        }
        seen
    };
    let loads: Vec<_> = order
        .iter()
        .map(|&node| set[id(node)].load().in_flight())
        .collect();
    // The walk is full up to the node that takes what is left.
    let full: Vec<_> = order.iter().map(|&node| 60 * weights[node]).collect();
    let taken = loads
        .iter()
        .zip(&full)
        .take_while(|(load, full)| load.abs_diff(**full) <= 1);
    assert!(taken.count() >= 2, "{loads:?} of {full:?}");
}

/// HAProxy 2.6 with factor 200 and four equal servers: two of them took all, one half each.
#[test]
fn twice_the_mean_of_four_is_two_nodes() {
    let set = nodes(&[1; 4]);
    let selector = bounded(&set, 200);
    let ready = ReadySet::all(4);
    let mut all = Vec::new();
    for _ in 0..60 {
        let node = selector.pick(b"hot", &Eligible::new(&ready)).unwrap();
        all.push(held(&set, node));
    }
    let mut loads: Vec<_> = set.iter().map(|node| node.load().in_flight()).collect();
    loads.sort_unstable();
    assert_eq!(loads, [0, 0, 30, 30]);
    all.clear();
    let idle = Consistent::build(&set, &KetamaConfig::default()).unwrap();
    for key in (0..200).map(|i| format!("key-{i}")) {
        let eligible = Eligible::new(&ready);
        let expected = idle.pick(key.as_bytes(), &eligible);
        assert_eq!(
            selector.pick(key.as_bytes(), &eligible),
            expected,
            "idle again"
        );
    }
}

/// Nodes of one name have slots of their own; the name is passed when all of them are full.
#[test]
fn each_node_of_a_name_has_its_own_bound() {
    let named = |text: &str| Node::new(text, 1).with_ring_name("shared.test");
    let set = NodeSet::in_order([named("10.0.0.1:80"), named("10.0.0.2:80")]).unwrap();
    let selector = bounded(&set, 101);
    let ready = ReadySet::all(2);
    let mut all = Vec::new();
    for served in 1..=40 {
        let node = selector.pick(b"key", &Eligible::new(&ready)).unwrap();
        all.push(held(&set, node));
        let loads = set.iter().map(|node| node.load().in_flight());
        assert!(loads.max().unwrap() <= served / 2 + 1);
    }
}

#[test]
fn a_bound_of_the_mean_or_less_is_an_error() {
    for percent in [0, 1, 100] {
        let config = KetamaConfig::default().balance_factor(percent);
        let error = Consistent::build(&nodes(&[1]), &config).unwrap_err();
        assert!(matches!(
            error,
            BuildError::OutOfRange {
                field: "balance_factor",
                ..
            }
        ));
        assert!(
            error
                .to_string()
                .contains(&format!("is {percent}, allowed is 101")),
            "{error}"
        );
    }
}
