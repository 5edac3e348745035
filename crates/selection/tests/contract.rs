//! The contract of `Selector`, for every selector of the crate through `&dyn Selector`.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod every;

use std::cell::RefCell;

use every::{Case, id, nodes, selectors};
use proptest::prelude::*;
use selection::{Eligible, NodeId, NodeSet, ReadySet, Selector, Tried};

/// Both sides of a word of 64 bits, of the 256 nodes that fit on the stack, and the ends.
const SIZES: [usize; 8] = [0, 1, 2, 3, 64, 65, 257, 1000];

/// Weights with drained nodes first, last and between.
fn mixed_weights(len: usize) -> Vec<u32> {
    [0, 1, 3, 0, 2, 1].into_iter().cycle().take(len).collect()
}

fn keys() -> impl Iterator<Item = Vec<u8>> {
    let some = (0..12).map(|i| format!("key-{i}").into_bytes());
    some.chain([vec![], vec![0], vec![0xff; 300]])
}

/// Which of `len` nodes are ready, by name.
fn patterns(len: usize) -> Vec<(&'static str, Vec<bool>)> {
    let only = |wanted: usize| (0..len).map(|index| index == wanted).collect();
    vec![
        ("all", vec![true; len]),
        ("none", vec![false; len]),
        (
            "every third",
            (0..len).map(|index| index % 3 == 1).collect(),
        ),
        ("only the last", only(len.saturating_sub(1))),
        ("only the second", only(1)),
        ("only the first", only(0)),
    ]
}

fn ready_set(pattern: &[bool]) -> ReadySet {
    let ready = ReadySet::none(pattern.len());
    for (index, &is) in pattern.iter().enumerate() {
        ready.set(id(index), is);
    }
    ready
}

/// One pick, checked: `None` exactly if nobody may be picked, else somebody who may.
fn checked_pick(
    selector: &dyn Selector,
    set: &NodeSet,
    key: &[u8],
    eligible: &Eligible<'_>,
    context: &dyn std::fmt::Debug,
) -> Option<NodeId> {
    let may = |node: NodeId| set[node].weight() > 0 && eligible.contains(node);
    let picked = selector.pick(key, eligible);
    match picked {
        Some(node) => assert!(may(node), "{context:?}: {node:?} may not be picked"),
        None => assert!(!set.ids().any(may), "{context:?}: nobody, but one may be"),
    }
    picked
}

fn for_each_set(mut check: impl FnMut(&Case, usize, &NodeSet)) {
    for case in selectors() {
        for len in SIZES {
            for weights in [vec![1; len], mixed_weights(len), vec![0; len]] {
                check(&case, len, &nodes(&weights));
            }
        }
    }
}

#[test]
fn picks_an_eligible_node_whenever_there_is_one() {
    for_each_set(|case, len, set| {
        let selector = (case.build)(set);
        assert_eq!(selector.len(), len, "{}", case.name);
        assert_eq!(selector.is_empty(), len == 0, "{}", case.name);
        for (pattern, bits) in patterns(len) {
            let ready = ready_set(&bits);
            for key in keys() {
                let context = (case.name, len, pattern, &key);
                let eligible = Eligible::new(&ready);
                checked_pick(selector.as_ref(), set, &key, &eligible, &context);
            }
        }
    });
}

#[test]
fn retries_visit_every_node_once_and_end() {
    for_each_set(|case, len, set| {
        let selector = (case.build)(set);
        let ready = ReadySet::all(len);
        for key in [&b"key-0"[..], b"key-1", b""] {
            let mut tried = Tried::new();
            while let Some(node) = {
                let eligible = Eligible::new(&ready).except(&tried);
                checked_pick(selector.as_ref(), set, key, &eligible, &(case.name, len))
            } {
                assert!(tried.insert(node), "{}: {node:?} twice", case.name);
            }
            let undrained = set.iter().filter(|node| node.weight() > 0).count();
            assert_eq!(tried.len(), undrained, "{} {len}", case.name);
        }
    });
}

#[test]
fn the_condition_is_asked_at_most_once_per_node() {
    for_each_set(|case, len, set| {
        let selector = (case.build)(set);
        let ready = ReadySet::all(len);
        for (pattern, bits) in patterns(len) {
            for key in keys() {
                let asked = RefCell::new(vec![0u32; len]);
                let accept = |node: NodeId| {
                    asked.borrow_mut()[node.index()] += 1;
                    bits[node.index()]
                };
                let picked = selector.pick(&key, &Eligible::new(&ready).only_if(&accept));
                assert!(picked.is_none_or(|node| bits[node.index()]));
                let most = asked.borrow().iter().copied().max().unwrap_or(0);
                assert!(most <= 1, "{} {len} {pattern}: {most} times", case.name);
            }
        }
    });
}

#[test]
fn a_hash_is_a_pure_function() {
    for case in selectors().iter().filter(|case| case.pure) {
        for len in SIZES {
            let set = nodes(&mixed_weights(len));
            let (one, two) = ((case.build)(&set), (case.build)(&set));
            for (pattern, bits) in patterns(len) {
                let ready = ready_set(&bits);
                let eligible = Eligible::new(&ready);
                for key in keys().filter(|key| !key.is_empty()) {
                    let first = one.pick(&key, &eligible);
                    one.pick(b"another", &eligible);
                    one.pick(b"", &eligible);
                    assert_eq!(one.pick(&key, &eligible), first, "{} {pattern}", case.name);
                    assert_eq!(two.pick(&key, &eligible), first, "{} {pattern}", case.name);
                }
            }
        }
    }
}

#[test]
fn a_hash_returns_to_a_node_that_returns() {
    let set = nodes(&[1, 2, 3, 4, 1, 2]);
    for case in selectors().iter().filter(|case| case.pure) {
        let selector = (case.build)(&set);
        let ready = ReadySet::all(set.len());
        let choose = |key: &[u8]| selector.pick(key, &Eligible::new(&ready)).unwrap();
        let mut moved = 0;
        for key in keys().filter(|key| !key.is_empty()) {
            let before = choose(&key);
            for down in set.ids() {
                ready.set(down, false);
                let during = choose(&key);
                // Only the keys of the node that is down move.
                assert_eq!(during == before, down != before, "{}", case.name);
                moved += u32::from(during != before);
                ready.set(down, true);
                assert_eq!(choose(&key), before, "{}", case.name);
            }
        }
        assert_eq!(moved, 14, "{}: each key once", case.name);
    }
}

/// An empty key is not hashed: the turns reach everybody. pingora's walk is asked for by name.
#[test]
fn requests_without_a_key_are_spread() {
    for case in selectors() {
        if case.name == "fnv uniform" {
            continue;
        }
        for len in [1, 2, 3, 64, 65] {
            let set = nodes(&vec![1; len]);
            let selector = (case.build)(&set);
            let ready = ReadySet::all(len);
            let mut seen = Tried::new();
            for _ in 0..20 * len {
                seen.insert(selector.pick(b"", &Eligible::new(&ready)).unwrap());
            }
            assert_eq!(seen.len(), len, "{}", case.name);
        }
    }
}

#[test]
fn a_readiness_set_of_another_size_does_no_harm() {
    for case in selectors() {
        let set = nodes(&[1, 2, 0, 3]);
        let selector = (case.build)(&set);
        for len in [0, 1, 3, 5, 200] {
            let ready = ReadySet::all(len);
            for key in keys() {
                let eligible = Eligible::new(&ready);
                checked_pick(selector.as_ref(), &set, &key, &eligible, &(case.name, len));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(4),
        ..ProptestConfig::default()
    })]

    #[test]
    fn holds_for_any_weights_and_readiness(
        members in prop::collection::vec((0u32..6, any::<bool>(), any::<bool>()), 0..80),
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..6),
    ) {
        let set = nodes(&members.iter().map(|m| m.0).collect::<Vec<_>>());
        let ready = ready_set(&members.iter().map(|m| m.1).collect::<Vec<_>>());
        let accept = |node: NodeId| members[node.index()].2;
        for case in selectors() {
            let selector = (case.build)(&set);
            for key in &keys {
                let eligible = Eligible::new(&ready).only_if(&accept);
                checked_pick(selector.as_ref(), &set, key, &eligible, &case.name);
            }
        }
    }
}

#[test]
fn everything_may_cross_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<selection::FNVHash>();
    check::<selection::Random>();
    check::<selection::RoundRobin>();
    check::<selection::Consistent>();
    check::<NodeSet>();
    check::<ReadySet>();
    check::<selection::NodeLoad>();
    check::<Box<dyn Selector>>();
    check::<selection::BuildError>();
    check::<selection::KetamaConfig>();
    check::<selection::WeightedConfig>();
    let case: fn() -> Vec<Case> = selectors;
    std::thread::spawn(move || assert!(!case().is_empty()))
        .join()
        .unwrap();
}
