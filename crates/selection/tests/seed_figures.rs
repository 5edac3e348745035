//! Figures measured on pingora-load-balancing 0.9.1: 100,000 keys `key-0` to `key-99999`, backends
//! 10.0.0.1:80 upwards.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use every::nodes;
use selection::{
    Build, Consistent, Eligible, FNVHash, Fallback, KetamaConfig, NodeId, NodeSet, ReadySet,
    RoundRobin, Selector, WeightedConfig,
};

fn keys() -> impl Iterator<Item = String> {
    (0..100_000).map(|i| format!("key-{i}"))
}

fn fnv(weights: &[u32]) -> FNVHash {
    FNVHash::build(&nodes(weights), &WeightedConfig::default()).unwrap()
}

fn ring(weights: &[u32]) -> Consistent {
    Consistent::build(&nodes(weights), &KetamaConfig::default()).unwrap()
}

/// The choice of every key, as the number of the node counted from 1.
fn choices(selector: &dyn Selector) -> Vec<usize> {
    let ready = ReadySet::all(selector.len());
    keys()
        .map(|key| {
            let picked = selector.pick(key.as_bytes(), &Eligible::new(&ready));
            picked.unwrap().index() + 1
        })
        .collect()
}

fn counts(selector: &dyn Selector) -> Vec<u32> {
    let mut counts = vec![0; selector.len()];
    for choice in choices(selector) {
        counts[choice - 1] += 1;
    }
    counts
}

#[test]
fn first_choices_of_four_equal_backends() {
    assert_eq!(counts(&fnv(&[1; 4])), [24999, 25001, 25001, 24999]);
    assert_eq!(counts(&ring(&[1; 4])), [24178, 23419, 24535, 27868]);
    let turns = RoundRobin::build(&nodes(&[1; 4]), &WeightedConfig::default()).unwrap();
    assert_eq!(counts(&turns), [25000; 4]);
}

#[test]
fn first_choices_by_weight() {
    assert_eq!(counts(&fnv(&[1, 2, 3, 4])), [9925, 19982, 30105, 39988]);
    assert_eq!(counts(&ring(&[1, 2, 3, 4])), [10636, 20364, 30002, 38998]);
}

/// A drained backend gets nothing; pingora's hash agrees for the first choice.
#[test]
fn weight_zero_gets_no_first_choice() {
    assert_eq!(counts(&fnv(&[1, 0, 1])), [50000, 0, 50000]);
    assert_eq!(counts(&ring(&[1, 0, 1]))[1], 0);
}

/// How many keys change their backend, and those of them that neither go to `changed` nor come
/// from it.
fn moved(before: &dyn Selector, after: &dyn Selector, changed: usize) -> (usize, usize) {
    let (before, after) = (choices(before), choices(after));
    let pairs = before.iter().zip(&after);
    let moved: Vec<_> = pairs.filter(|(before, after)| before != after).collect();
    let strays = moved
        .iter()
        .filter(|&&(&before, &after)| before != changed && after != changed)
        .count();
    (moved.len(), strays)
}

#[test]
fn keys_that_move_when_a_backend_comes_or_goes() {
    assert_eq!(moved(&fnv(&[1; 4]), &fnv(&[1; 5]), 5).0, 80018);
    assert_eq!(moved(&fnv(&[1; 4]), &fnv(&[1; 3]), 4).0, 75037);
    assert_eq!(moved(&ring(&[1; 4]), &ring(&[1; 5]), 5), (20931, 0));
    assert_eq!(moved(&ring(&[1; 4]), &ring(&[1; 3]), 4), (27868, 0));
}

#[test]
fn raw_candidates_of_a_key() {
    let set = nodes(&[1; 4]);
    let number = |id: NodeId| id.index() + 1;
    let config = WeightedConfig::default().fallback(Fallback::Uniform);
    let uniform = FNVHash::build(&set, &config).unwrap();
    let raw: Vec<_> = uniform.candidates(b"user-42").take(8).map(number).collect();
    assert_eq!(raw, [4, 3, 2, 2, 4, 3, 2, 3]);
    let ring = ring(&[1; 4]);
    let walk = ring.ring().walk(ring.ring().hash(b"user-42"));
    let raw: Vec<_> = walk.take(8).map(|bucket| bucket + 1).collect();
    assert_eq!(raw, [4, 4, 1, 3, 4, 1, 2, 2]);
}

#[test]
fn round_robin_follows_the_weights() {
    let set = nodes(&[3, 1, 1]);
    let turns = RoundRobin::build(&set, &WeightedConfig::default()).unwrap();
    let ready = ReadySet::all(3);
    let picked: Vec<_> = (0..15)
        .map(|_| turns.pick(b"any", &Eligible::new(&ready)).unwrap().index() + 1)
        .collect();
    assert_eq!(picked, [1, 1, 1, 2, 3, 1, 1, 1, 2, 3, 1, 1, 1, 2, 3]);
}

/// With equal weights the unweighted list *is* the table, so the walks agree as well.
#[test]
fn equal_weights_make_the_fallbacks_agree() {
    let set: NodeSet = nodes(&[1; 7]);
    let config = WeightedConfig::default();
    let weighted = FNVHash::build(&set, &config).unwrap();
    let uniform = FNVHash::build(&set, &config.fallback(Fallback::Uniform)).unwrap();
    let mut further = 0;
    for key in keys().take(1000) {
        let both = weighted
            .candidates(key.as_bytes())
            .zip(uniform.candidates(key.as_bytes()));
        for (one, other) in both.take(12) {
            assert_eq!(one, other);
            further += 1;
        }
    }
    assert_eq!(further, 12_000);
}
