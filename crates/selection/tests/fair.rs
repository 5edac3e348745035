//! The `fair` balancer against a model written after its C source, and by hand.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;
#[path = "naive/fair.rs"]
mod naive;

use std::sync::Arc;
use std::time::Duration;

use every::{id, nodes};
use naive::Model;
use proptest::prelude::*;
use selection::{
    Build, Eligible, FailureKind, Fair, FairConfig, InFlight, NodeLoad, NodeSet, Outcome, ReadySet,
    Selector,
};

fn fair(set: &NodeSet, max_fails: u32) -> Fair {
    Fair::build(set, &FairConfig::default().max_fails(max_fails)).unwrap()
}

fn pick(selector: &Fair, ready: &ReadySet, secs: u64) -> Option<usize> {
    let clock = || Duration::from_secs(secs);
    let picked = selector.pick(b"", &Eligible::new(ready).at(&clock));
    picked.map(selection::NodeId::index)
}

fn held(set: &NodeSet, node: usize) -> InFlight<Arc<NodeLoad>> {
    InFlight::new(Arc::clone(set[id(node)].load()))
}

#[test]
fn idle_nodes_take_turns_whatever_their_weight() {
    let set = nodes(&[9, 1, 0, 1]);
    let (selector, ready) = (fair(&set, 1), ReadySet::all(4));
    let picked: Vec<_> = (0..6)
        .map(|_| pick(&selector, &ready, 0).unwrap())
        .collect();
    assert_eq!(picked, [0, 1, 3, 0, 1, 3]);
    let busy = held(&set, 0);
    let picked: Vec<_> = (0..3)
        .map(|_| pick(&selector, &ready, 0).unwrap())
        .collect();
    assert_eq!(picked, [1, 3, 1], "passes the busy one");
    drop(busy);
    ready.set(id(3), false);
    let picked: Vec<_> = (0..3)
        .map(|_| pick(&selector, &ready, 0).unwrap())
        .collect();
    assert_eq!(picked, [0, 1, 0]);
}

/// Everything stays in flight: 40 requests over weights 3, 1.
#[test]
fn busy_nodes_fill_up_by_weight() {
    let set = nodes(&[3, 1]);
    let (selector, ready) = (fair(&set, 1), ReadySet::all(2));
    let mut all = Vec::new();
    for _ in 0..40 {
        all.push(held(&set, pick(&selector, &ready, 0).unwrap()));
    }
    // Weights count down to 0, where they divide nothing, so 3 to 1 becomes less than that.
    let loads = [0, 1].map(|node| set[id(node)].load().in_flight());
    assert_eq!(loads.iter().sum::<u32>(), 40);
    assert!(loads[0] > loads[1], "{loads:?}");
}

#[test]
fn a_failed_node_is_the_last_choice_until_it_is_forgiven() {
    let set = nodes(&[1, 1, 1]);
    let (selector, ready) = (fair(&set, 1), ReadySet::all(3));
    let failed = Outcome::Failure(FailureKind::Connect);
    let picks = |secs| [0; 4].map(|_| pick(&selector, &ready, secs).unwrap());
    selector.observe(id(1), &failed, Duration::from_secs(100));
    assert_eq!(picks(100), [0, 2, 0, 2]);
    assert_eq!(picks(110), [0, 2, 0, 2], "10 s, and not more than 10");
    assert_eq!(picks(111), [0, 1, 2, 0]);
    selector.observe(id(0), &failed, Duration::from_secs(200));
    selector.observe(id(1), &failed, Duration::from_secs(200));
    selector.observe(id(2), &failed, Duration::from_secs(200));
    // All are out: one is chosen all the same, and everybody starts anew.
    let first = pick(&selector, &ready, 200).unwrap();
    assert_eq!(picks(200), [1, 2, 3, 4].map(|step| (first + step) % 3));
}

#[test]
fn with_max_fails_0_failures_do_not_count() {
    let set = nodes(&[1, 1]);
    let (selector, ready) = (fair(&set, 0), ReadySet::all(2));
    selector.observe(
        id(0),
        &Outcome::Failure(FailureKind::Status),
        Duration::ZERO,
    );
    assert_eq!(
        [0; 4].map(|_| pick(&selector, &ready, 0).unwrap()),
        [0, 1, 0, 1]
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pick { up: u8 },
    Done { nth: usize },
    Fail { node: usize },
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<u8>().prop_map(|up| Step::Pick { up: up | 1 }),
        3 => (0usize..64).prop_map(|nth| Step::Done { nth }),
        1 => (0usize..6).prop_map(|node| Step::Fail { node }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(31),
        ..ProptestConfig::default()
    })]

    #[test]
    fn equals_its_model(
        weights in prop::collection::vec(0u32..5, 1..7),
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let len = weights.len();
        let set = nodes(&weights);
        let selector = fair(&set, 100);
        let mut model = Model {
            current_weight: weights.clone(),
            last_request: vec![0; len],
            requests_in_flight: vec![0; len],
            fails: vec![0; len],
            max_fails: 100,
            total: 0,
            current: len - 1,
            weights,
        };
        let mut open = Vec::new();
        for step in steps {
            match step {
                Step::Pick { up } => {
                    let ready = ReadySet::none(len);
                    let up: Vec<_> = (0..len).map(|node| up >> node & 1 == 1).collect();
                    for (node, &is_up) in up.iter().enumerate() {
                        ready.set(id(node), is_up);
                    }
                    let expected = model.pick(&up);
                    prop_assert_eq!(pick(&selector, &ready, 0), expected);
                    if let Some(node) = expected {
                        model.requests_in_flight[node] += 1;
                        open.push((node, held(&set, node)));
                    }
                }
                Step::Done { nth } if nth < open.len() => {
                    let (node, request) = open.swap_remove(nth);
                    drop(request);
                    model.requests_in_flight[node] -= 1;
                }
                Step::Fail { node } if node < len => {
                    selector.observe(id(node), &Outcome::Failure(FailureKind::Status), Duration::ZERO);
                    model.fails[node] += 1;
                }
                Step::Done { .. } | Step::Fail { .. } => {}
            }
        }
    }
}
