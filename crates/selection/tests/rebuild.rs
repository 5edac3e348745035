//! What a rebuild carries over.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use proptest::prelude::*;
use selection::ketama::RingConfig;
use selection::{
    Build, Consistent, Eligible, FNVHash, FailureKind, Fair, FairConfig, KetamaConfig, LeastTime,
    LeastTimeConfig, Node, NodeSet, Outcome, Random, ReadySet, RoundRobin, Selector, SmoothConfig,
    SmoothRoundRobin, Start, WeightedConfig,
};

fn set(members: &[(&str, u32)]) -> NodeSet {
    NodeSet::new(
        members
            .iter()
            .map(|&(name, weight)| Node::new(name, weight)),
    )
    .unwrap()
}

fn pick(selector: &dyn Selector, set: &NodeSet, key: &str) -> String {
    let ready = ReadySet::all(set.len());
    let picked = selector.pick(key.as_bytes(), &Eligible::new(&ready));
    set[picked.unwrap()].identity().to_string()
}

fn turns(selector: &RoundRobin, set: &NodeSet, count: usize) -> String {
    (0..count).map(|_| pick(selector, set, "")).collect()
}

#[test]
fn turns_go_on_with_the_same_node() {
    let config = WeightedConfig::default();
    let abc = set(&[("a", 3), ("b", 2), ("c", 1)]);
    let after = |picks: usize, next: &NodeSet| {
        let before = RoundRobin::build(&abc, &config).unwrap();
        turns(&before, &abc, picks);
        turns(
            &RoundRobin::rebuild(&before, next, &config).unwrap(),
            next,
            6,
        )
    };
    // Nothing changes: also a rebuild after every pick is one rotation.
    assert_eq!(after(2, &abc), "abbcaa");
    // One comes in front; one goes that was behind.
    assert_eq!(after(4, &set(&[("A", 2), ("a", 3), ("b", 2)])), "bAAaaa");
    // The one whose turn it was goes: the next that stays.
    assert_eq!(after(4, &set(&[("a", 3), ("c", 1)])), "caaaca");
    assert_eq!(after(5, &set(&[("a", 3), ("b", 2)])), "aaabba");
    // It has fewer turns now than it has had, more, or none.
    assert_eq!(after(2, &set(&[("a", 1), ("b", 2)])), "bbabba");
    assert_eq!(after(2, &set(&[("a", 4), ("b", 1)])), "aabaaa");
    assert_eq!(after(1, &set(&[("a", 0), ("b", 2), ("c", 1)])), "bbcbbc");
    // Everybody is new.
    assert_eq!(after(4, &set(&[("x", 1), ("y", 1)])), "xyxyxy");
}

#[test]
fn a_rebuild_after_every_pick_is_one_rotation() {
    let config = WeightedConfig::default();
    let abc = set(&[("a", 3), ("b", 2), ("c", 1)]);
    let mut selector = RoundRobin::build(&abc, &config).unwrap();
    let mut picked = String::new();
    for _ in 0..12 {
        picked += &pick(&selector, &abc, "");
        selector = RoundRobin::rebuild(&selector, &abc, &config).unwrap();
    }
    assert_eq!(picked, "aaabbcaaabbc");
}

/// Also the turns of requests without a key.
#[test]
fn turns_without_a_key_go_on() {
    let ab = set(&[("a", 1), ("b", 1)]);
    let before = FNVHash::build(&ab, &WeightedConfig::default()).unwrap();
    assert_eq!(pick(&before, &ab, ""), "a");
    let after = FNVHash::rebuild(&before, &ab, &WeightedConfig::default()).unwrap();
    assert_eq!(pick(&after, &ab, ""), "b");
}

#[test]
fn random_numbers_do_not_start_again() {
    let config = WeightedConfig::default().seed(5);
    let pool = set(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    let picks = |selector: &Random, count| -> String {
        (0..count).map(|_| pick(selector, &pool, "")).collect()
    };
    let whole = picks(&Random::build(&pool, &config).unwrap(), 40);
    let before = Random::build(&pool, &config).unwrap();
    let first = picks(&before, 20);
    let after = Random::rebuild(&before, &pool, &config).unwrap();
    assert_eq!(first + &picks(&after, 20), whole);
}

/// 1,000 processes that start at once: 1 in 100 starts with the light node, not one in two. Six
/// standard deviations of 3.2 are allowed for.
#[test]
fn fresh_turns_start_anywhere_in_the_cycle_of_weights() {
    let pool = set(&[("a", 99), ("b", 1)]);
    let first = |seed| {
        let config = WeightedConfig::default().start(Start::Random).seed(seed);
        pick(&RoundRobin::build(&pool, &config).unwrap(), &pool, "")
    };
    let light = (0..1000).filter(|&seed| first(seed) == "b").count();
    assert!(light.abs_diff(10) < 20, "{light}");
    assert_eq!(first(4), first(4));
    let equal = set(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    let config = WeightedConfig::default().start(Start::Random);
    let mut firsts: Vec<_> = (0..64)
        .map(|seed| {
            let selector = RoundRobin::build(&equal, &config.clone().seed(seed)).unwrap();
            turns(&selector, &equal, 4)
        })
        .collect();
    firsts.sort();
    firsts.dedup();
    assert_eq!(firsts, ["abcd", "bcda", "cdab", "dabc"]);
}

#[test]
fn fair_keeps_its_rotation_and_its_accounts() {
    let config = FairConfig::default();
    let abc = set(&[("a", 1), ("b", 1), ("c", 1)]);
    let before = Fair::build(&abc, &config).unwrap();
    assert_eq!(pick(&before, &abc, ""), "a");
    let failure = Outcome::Failure(FailureKind::Connect);
    before.observe(abc.find(&"b".into()).unwrap(), &failure, Duration::ZERO);
    let next = set(&[("0", 1), ("a", 1), ("b", 1), ("c", 1)]);
    let after = Fair::rebuild(&before, &next, &config).unwrap();
    let picked: String = (0..4).map(|_| pick(&after, &next, "")).collect();
    assert_eq!(picked, "c0ac", "behind a, and past b, which failed");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(21),
        ..ProptestConfig::default()
    })]

    /// A chain of changes of members, weights and shared names against fresh builds.
    #[test]
    fn a_rebuilt_ring_is_a_fresh_ring(
        steps in prop::collection::vec(prop::collection::vec((0u32..9, 0u32..4, any::<bool>()), 0..8), 1..5),
    ) {
        let config = KetamaConfig::default();
        let mut ring = Consistent::build(&NodeSet::default(), &config).unwrap();
        for step in steps {
            let members = step.into_iter().map(|(name, weight, shared)| {
                let node = Node::new(format!("10.0.0.{name}:80").as_str(), weight);
                if shared { node.with_ring_name("shared:80") } else { node }
            });
            let nodes = NodeSet::new(members).unwrap();
            ring = Consistent::rebuild(&ring, &nodes, &config).unwrap();
            let fresh = Consistent::build(&nodes, &config).unwrap();
            prop_assert_eq!(ring.ring().buckets(), fresh.ring().buckets());
            prop_assert!(ring.ring().points().eq(fresh.ring().points()));
            let ready = ReadySet::all(nodes.len());
            for key in 0..20 {
                let key = format!("key-{key}");
                let eligible = Eligible::new(&ready);
                let (one, other) = (ring.pick(key.as_bytes(), &eligible), fresh.pick(key.as_bytes(), &eligible));
                prop_assert_eq!(one.is_some(), nodes.total_weight() > 0);
                let name = |id| nodes[id].ring_name().map(str::to_owned).ok_or(id);
                prop_assert_eq!(one.map(name), other.map(name));
            }
        }
    }
}

/// Another layout or limit is not the previous ring's, and nothing is taken over from it.
#[test]
fn another_ring_config_builds_afresh() {
    let pool = set(&[("a", 1)]);
    let config = KetamaConfig::default();
    let before = Consistent::build(&pool, &config).unwrap();
    let narrow = config.ring(RingConfig::new().max_points(100));
    assert!(Consistent::rebuild(&before, &pool, &narrow).is_err());
}

/// nginx's family keeps what its turns owe, and least_time what it measured.
#[test]
fn smooth_turns_and_times_go_on_with_the_nodes_that_stay() {
    let (ab, abc) = (
        set(&[("a", 1), ("b", 1)]),
        set(&[("a", 1), ("b", 1), ("c", 1)]),
    );
    let before = SmoothRoundRobin::build(&ab, &SmoothConfig::default()).unwrap();
    assert_eq!(pick(&before, &ab, ""), "a");
    let after = SmoothRoundRobin::rebuild(&before, &abc, &SmoothConfig::default()).unwrap();
    let cycle: String = (0..3).map(|_| pick(&after, &abc, "")).collect();
    assert_eq!(cycle, "bca");

    let config = LeastTimeConfig::default();
    let before = LeastTime::build(&ab, &config).unwrap();
    let answer = |millis| Outcome::success(Duration::from_millis(millis));
    for (node, millis) in [(0u32, 90), (1, 30)] {
        pick(&before, &ab, "");
        before.observe(node.into(), &answer(millis), Duration::ZERO);
    }
    let after = LeastTime::rebuild(&before, &abc, &config).unwrap();
    // c has no time yet; then b is the fastest.
    assert_eq!(pick(&after, &abc, ""), "c");
    after.observe(2u32.into(), &answer(500), Duration::ZERO);
    assert_eq!(pick(&after, &abc, ""), "b");
    // A request that began before the rebuild and is told to the old selector counts.
    before.observe(1u32.into(), &answer(100_000), Duration::ZERO);
    assert_eq!(pick(&after, &abc, ""), "a");
}
