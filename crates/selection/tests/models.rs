//! Each selector against a naive model of it: lists instead of tables, no shortcut, no atomics.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use every::{id, nodes};
use proptest::prelude::*;
use selection::{
    Build, Consistent, Eligible, FNVHash, Fallback, KetamaConfig, ReadySet, RoundRobin, Selector,
    WeightedConfig,
};

/// Every node as often as its weight says.
fn slots(weights: &[u32]) -> Vec<usize> {
    let runs = weights.iter().enumerate();
    runs.flat_map(|(node, &weight)| vec![node; weight as usize])
        .collect()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn modulo(hash: u64, len: usize) -> usize {
    usize::try_from(hash % len as u64).unwrap()
}

/// 16 draws from the table, then one over the slots of all that may be picked.
fn fnv_model(weights: &[u32], ready: &[bool], key: &[u8]) -> Option<usize> {
    let slots = slots(weights);
    let left: Vec<_> = slots.iter().copied().filter(|&node| ready[node]).collect();
    if left.is_empty() {
        return None;
    }
    let mut hash = fnv1a(key);
    for _ in 0..16 {
        let node = slots[modulo(hash, slots.len())];
        if ready[node] {
            return Some(node);
        }
        hash = fnv1a(&hash.to_le_bytes());
    }
    Some(left[modulo(hash, left.len())])
}

/// pingora's walk: the table, then the plain list of nodes.
fn uniform_model(weights: &[u32], ready: &[bool], key: &[u8]) -> Option<usize> {
    let slots = slots(weights);
    let may = |node: usize| ready[node] && weights[node] > 0;
    (0..weights.len()).find(|&node| may(node))?;
    let mut hash = fnv1a(key);
    let mut node = slots[modulo(hash, slots.len())];
    while !may(node) {
        hash = fnv1a(&hash.to_le_bytes());
        node = modulo(hash, weights.len());
    }
    Some(node)
}

/// Tickets drawn one by one.
fn turn_model(weights: &[u32], ready: &[bool], ticket: &mut usize) -> Option<usize> {
    let slots = slots(weights);
    // A pick that finds nobody uses up one ticket.
    let found = (0..slots.len()).find(|ahead| ready[slots[(*ticket + ahead) % slots.len()]]);
    *ticket += found.unwrap_or(0) + 1;
    Some(slots[(*ticket - 1 + slots.len()) % slots.len()]).filter(|_| found.is_some())
}

/// A bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// All points of all nodes that may be picked in one list; the nearest at or after the key.
fn ring_model(weights: &[u32], ready: &[bool], key: &[u8]) -> Option<usize> {
    let mut points = Vec::new();
    for (node, &weight) in weights.iter().enumerate() {
        let mut previous = 0u32;
        for _ in 0..160 * weight {
            let mut text = format!("10.0.0.{}\x0080", node + 1).into_bytes();
            text.extend(previous.to_le_bytes());
            previous = crc32(&text);
            points.push((previous, node));
        }
    }
    points.sort_by_key(|&(point, _)| point);
    points.dedup_by_key(|&mut (point, _)| point);
    let hash = crc32(key);
    let (before, after): (Vec<_>, Vec<_>) = points.iter().partition(|&&(point, _)| point < hash);
    let mut owners = after.iter().chain(&before).map(|&&(_, node)| node);
    owners.find(|&node| ready[node])
}

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
        for key in &keys {
            prop_assert_eq!(pick(&ring, &ready, key), ring_model(&weights, &ready, key));
        }
    }
}
