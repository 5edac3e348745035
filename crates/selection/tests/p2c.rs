//! Power of two choices against the exact odds of its draws.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use std::sync::Arc;
use std::time::Duration;

use every::{id, nodes};
use selection::{
    Build, BuildError, Eligible, FailureKind, InFlight, Load, NodeLoad, NodeSet, Outcome, P2c,
    P2cConfig, PeakEwmaConfig, ReadySet, Selector,
};

/// The probability of each node: over all ordered pairs of different nodes that are up, the odds
/// of drawing them, for the one that costs less.
fn odds(weights: &[u32], up: &[bool], cost: impl Fn(usize) -> f64) -> Vec<f64> {
    let weight = |node: usize| {
        if up[node] {
            f64::from(weights[node])
        } else {
            0.0
        }
    };
    let total: f64 = (0..weights.len()).map(weight).sum();
    let mut odds = vec![0.0; weights.len()];
    for first in 0..weights.len() {
        for second in (0..weights.len()).filter(|&second| second != first) {
            let drawn = weight(first) / total * weight(second) / (total - weight(first));
            let second_is_lighter = cost(second) < cost(first);
            odds[if second_is_lighter { second } else { first }] += drawn;
        }
    }
    odds
}

/// Each count is within six standard deviations: a seed in 10^8 would fail by chance.
fn check(selector: &P2c, down: &[usize], at: Duration, odds: &[f64]) {
    let ready = ReadySet::all(selector.len());
    for &node in down {
        ready.set(id(node), false);
    }
    let mut counts = vec![0u32; selector.len()];
    let clock = move || at;
    for _ in 0..PICKS {
        let picked = selector.pick(b"key", &Eligible::new(&ready).at(&clock));
        counts[picked.unwrap().index()] += 1;
    }
    for (&count, &odds) in counts.iter().zip(odds) {
        let expected = f64::from(PICKS) * odds;
        let off = (f64::from(count) - expected).abs();
        assert!(
            off <= 6.0 * (expected * (1.0 - odds)).max(0.0).sqrt(),
            "{counts:?}: {expected}"
        );
    }
}

fn in_flight(set: &NodeSet, requests: &[u32]) -> Vec<InFlight<Arc<NodeLoad>>> {
    let loads = set.iter().zip(requests);
    loads
        .flat_map(|(node, &count)| (0..count).map(|_| InFlight::new(Arc::clone(node.load()))))
        .collect()
}

fn by_requests(set: &NodeSet) -> P2c {
    P2c::build(set, &P2cConfig::default().seed(3)).unwrap()
}

fn by_latency(set: &NodeSet) -> P2c {
    let load = Load::PeakEwma(PeakEwmaConfig::default());
    P2c::build(set, &P2cConfig::default().seed(3).load(load)).unwrap()
}

#[test]
fn idle_nodes_are_chosen_by_weight() {
    for weights in [&[1, 2, 3, 4][..], &[99, 1], &[1, 1, 1], &[0, 5, 1]] {
        let total: u32 = weights.iter().sum();
        let shares = weights.iter().map(|&w| f64::from(w) / f64::from(total));
        let shares: Vec<_> = shares.collect();
        check(&by_requests(&nodes(weights)), &[], Duration::ZERO, &shares);
        check(&by_latency(&nodes(weights)), &[], Duration::ZERO, &shares);
    }
}

#[test]
fn of_two_the_one_with_less_in_flight_by_weight() {
    for (weights, requests, down) in [
        (vec![1, 1, 1, 1], vec![3, 0, 1, 2], vec![]),
        (vec![4, 2, 1, 1], vec![4, 2, 2, 0], vec![]),
        (vec![4, 2, 1, 1], vec![4, 0, 2, 0], vec![1]),
        (vec![1000, 1, 1, 0], vec![1, 1, 0, 0], vec![]),
        (vec![u32::MAX, u32::MAX, 1], vec![5, 5, 0], vec![2]),
    ] {
        let set = nodes(&weights);
        let _held = in_flight(&set, &requests);
        let up: Vec<_> = (0..weights.len())
            .map(|node| !down.contains(&node))
            .collect();
        let cost = |node: usize| f64::from(requests[node]) / f64::from(weights[node]);
        check(
            &by_requests(&set),
            &down,
            Duration::ZERO,
            &odds(&weights, &up, cost),
        );
    }
}

#[test]
fn with_one_left_it_is_that_one() {
    let selector = by_requests(&nodes(&[1; 1000]));
    let ready = ReadySet::none(1000);
    ready.set(id(617), true);
    for _ in 0..500 {
        assert_eq!(selector.pick(b"", &Eligible::new(&ready)), Some(id(617)));
    }
}

#[test]
fn latency_times_requests_decides() {
    let weights = [1, 2, 1, 1];
    let set = nodes(&weights);
    let selector = by_latency(&set);
    let at = Duration::from_secs(5);
    let latencies = [40, 10, 30, 20];
    for (node, &millis) in latencies.iter().enumerate() {
        let outcome = Outcome::success(Duration::from_millis(millis));
        selector.observe(id(node), &outcome, at);
    }
    let requests = [0, 5, 0, 1];
    let _held = in_flight(&set, &requests);
    // 40, 10 * 3.5 = 35, 30, 20 * 2 = 40: the first of two equals.
    let cost = |node: usize| [40.0, 35.0, 30.0, 40.0][node];
    check(&selector, &[], at, &odds(&weights, &[true; 4], cost));
}

#[test]
fn a_failure_counts_as_a_slow_answer_and_is_forgiven() {
    let set = nodes(&[1, 1, 1]);
    let selector = by_latency(&set);
    let at = |secs| Duration::from_secs(secs);
    for node in 0..3 {
        selector.observe(
            id(node),
            &Outcome::success(Duration::from_millis(50)),
            at(0),
        );
    }
    selector.observe(id(1), &Outcome::Cancelled, at(0));
    check(&selector, &[], at(0), &[1.0 / 3.0; 3]);
    selector.observe(id(1), &Outcome::Failure(FailureKind::Timeout), at(0));
    check(&selector, &[], at(0), &[0.5, 0.0, 0.5]);
    // A worse estimate is not improved by a failure.
    selector.observe(id(2), &Outcome::success(Duration::from_secs(60)), at(0));
    selector.observe(id(2), &Outcome::Failure(FailureKind::Connect), at(0));
    // Of each two the quicker: 50 ms, 5 s, 60 s.
    check(&selector, &[], at(0), &[2.0 / 3.0, 1.0 / 3.0, 0.0]);
    // After 50 s 5 s have faded to 34 ms; the first was quick again just now.
    selector.observe(id(0), &Outcome::success(Duration::from_millis(50)), at(50));
    check(&selector, &[], at(50), &[1.0 / 3.0, 2.0 / 3.0, 0.0]);
    // While one request tries it the estimate is 5 s again.
    let _probe = in_flight(&set, &[0, 1, 0]);
    check(&selector, &[2], at(50), &[1.0, 0.0, 0.0]);
}

#[test]
fn a_node_without_a_sample_is_compared_by_its_requests() {
    let set = nodes(&[1, 1]);
    let selector = by_latency(&set);
    selector.observe(
        id(0),
        &Outcome::success(Duration::from_millis(1)),
        Duration::ZERO,
    );
    check(&selector, &[], Duration::ZERO, &[0.5, 0.5]);
    let held = in_flight(&set, &[0, 1]);
    check(&selector, &[], Duration::ZERO, &[1.0, 0.0]);
    drop(held);
    let _held = in_flight(&set, &[1, 0]);
    check(&selector, &[], Duration::ZERO, &[0.0, 1.0]);
}

/// The estimate belongs to the node, so a new selector over it knows it.
#[test]
fn estimates_outlive_a_rebuild() {
    let set = nodes(&[1, 1]);
    let before = by_latency(&set);
    before.observe(
        id(0),
        &Outcome::success(Duration::from_secs(1)),
        Duration::ZERO,
    );
    before.observe(
        id(1),
        &Outcome::success(Duration::from_millis(1)),
        Duration::ZERO,
    );
    let config = P2cConfig::default().seed(3);
    let config = config.load(Load::PeakEwma(PeakEwmaConfig::default()));
    let after = P2c::rebuild(&before, &set, &config).unwrap();
    check(&after, &[], Duration::ZERO, &[0.0, 1.0]);
}

#[test]
fn a_tau_of_nothing_is_an_error() {
    let load = Load::PeakEwma(PeakEwmaConfig::default().tau(Duration::from_micros(999)));
    let error = P2c::build(&nodes(&[1]), &P2cConfig::default().load(load)).unwrap_err();
    assert!(matches!(error, BuildError::OutOfRange { field: "tau", .. }));
    assert_eq!(error.to_string(), "tau is 999µs, allowed is 1ms and more");
}

const PICKS: u32 = 20_000;
