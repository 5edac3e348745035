//! Each selector against a naive model of it: lists instead of tables, no shortcut, no atomics.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;
#[path = "naive/weighted.rs"]
mod weighted;

use every::{id, nodes};
use proptest::prelude::*;
use selection::{
    Build, Consistent, Eligible, FNVHash, Fallback, KetamaConfig, ReadySet, RoundRobin, Selector,
    WeightedConfig,
};
use weighted::{fnv_model, ring_model, ring_points, turn_model, uniform_model};

/// Weights and readiness of up to 12 nodes.
fn pools() -> impl Strategy<Value = (Vec<u32>, Vec<bool>)> {
    prop::collection::vec((0u32..5, any::<bool>()), 0..12)
        .prop_map(|members| members.into_iter().unzip())
}

fn ready_set(ready: &[bool]) -> ReadySet {
    let set = ReadySet::none(ready.len());
    for (index, &is) in ready.iter().enumerate() {
        set.set(id(index), is);
    }
    set
}

fn pick(selector: &dyn Selector, ready: &[bool], key: &[u8]) -> Option<usize> {
    let set = ready_set(ready);
    let picked = selector.pick(key, &Eligible::new(&set));
    picked.map(selection::NodeId::index)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(11),
        ..ProptestConfig::default()
    })]

    #[test]
    fn hashes_equal_their_models(
        (weights, ready) in pools(),
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 20),
    ) {
        let set = nodes(&weights);
        let config = WeightedConfig::default();
        let fnv = FNVHash::build(&set, &config).unwrap();
        let uniform = FNVHash::build(&set, &config.fallback(Fallback::Uniform)).unwrap();
        for key in &keys {
            prop_assert_eq!(pick(&fnv, &ready, key), fnv_model(&weights, &ready, key));
            prop_assert_eq!(pick(&uniform, &ready, key), uniform_model(&weights, &ready, key));
        }
    }

    #[test]
    fn turns_equal_their_model(
        weights in prop::collection::vec(0u32..5, 1..12),
        masks in prop::collection::vec(any::<u16>(), 40),
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        let turns = RoundRobin::build(&nodes(&weights), &WeightedConfig::default()).unwrap();
        let mut ticket = 0;
        for mask in masks {
            let ready: Vec<_> = (0..weights.len()).map(|i| mask >> i & 1 == 1).collect();
            // With nobody ready at all a pick leaves the tickets alone.
            if ready.contains(&true) {
                let expected = turn_model(&weights, &ready, &mut ticket);
                prop_assert_eq!(pick(&turns, &ready, b""), expected);
            } else {
                prop_assert_eq!(pick(&turns, &ready, b""), None);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(12),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_ring_equals_its_model(
        (weights, ready) in pools(),
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 10),
    ) {
        let ring = Consistent::build(&nodes(&weights), &KetamaConfig::default()).unwrap();
        let points = ring_points(&weights);
        for key in &keys {
            prop_assert_eq!(pick(&ring, &ready, key), ring_model(&points, &ready, key));
        }
    }
}
