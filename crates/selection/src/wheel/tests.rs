use proptest::prelude::*;

use super::*;
use crate::ReadySet;
use crate::splitmix::mix;

/// nginx's rule, word for word; see the head of the file.
struct Naive {
    weight: Vec<i64>,
    effective: Vec<i64>,
    current: Vec<i64>,
}

impl Naive {
    fn new(weights: &[u32]) -> Self {
        let weight: Vec<_> = weights.iter().copied().map(i64::from).collect();
        Self {
            effective: weight.clone(),
            current: vec![0; weight.len()],
            weight,
        }
    }

    fn round(&mut self, takes_part: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best = None::<usize>;
        let mut total = 0;
        for i in (0..self.weight.len()).filter(|&i| takes_part(i) && self.weight[i] > 0) {
            self.current[i] += self.effective[i];
            total += self.effective[i];
            self.effective[i] = (self.effective[i] + 1).min(self.weight[i]);
            if best.is_none_or(|best| self.current[i] > self.current[best]) {
                best = Some(i);
            }
        }
        self.current[best?] -= total;
        best
    }

    fn failed(&mut self, i: usize, max_fails: i64) {
        self.effective[i] = (self.effective[i] - self.weight[i] / max_fails).max(0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Picks(usize),
    Retry,
    Flip(usize),
    Fail(usize),
}

fn set(weights: &[u32]) -> NodeSet {
    let names = weights.iter().enumerate();
    let nodes = names.map(|(i, &weight)| Node::new(format!("n{i}").as_str(), weight));
    NodeSet::in_order(nodes).unwrap()
}

fn id(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

fn currents(wheel: &Wheel) -> Vec<i64> {
    let mut state = wheel.lock();
    state.leave_lanes();
    state.slots.iter().map(|slot| slot.current).collect()
}

/// The picks of a wheel of `weights` while all are up, as indexes.
fn picks(wheel: &Wheel, n: usize) -> Vec<usize> {
    let ready = ReadySet::all(wheel.nodes().len());
    let eligible = Eligible::new(&ready);
    let picks = std::iter::repeat_with(|| wheel.turn(&eligible).unwrap().index());
    picks.take(n).collect()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..120).prop_map(Step::Picks),
        2 => Just(Step::Retry),
        2 => (0usize..64).prop_map(Step::Flip),
        1 => (0usize..64).prop_map(Step::Fail),
    ]
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    let weight = prop_oneof![
        4 => 1u32..4,
        2 => 0u32..40,
        1 => Just(u32::MAX),
        1 => any::<u32>(),
    ];
    prop_oneof![
        1 => prop::collection::vec(weight, 1..50),
        1 => (1u32..9, 1usize..50).prop_map(|(weight, n)| vec![weight; n]),
        1 => prop::collection::vec(1u32..1000, 40..50),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(4), ..ProptestConfig::with_cases(400) })]

    #[test]
    fn equals_the_rule_through_every_transition(
        weights in weights(),
        steps in prop::collection::vec(step(), 1..24),
        max_fails in 1u32..4,
    ) {
        let n = weights.len();
        let wheel = Wheel::new(&set(&weights), max_fails);
        let mut naive = Naive::new(&weights);
        let ready = ReadySet::all(n);
        for step in steps {
            match step {
                Step::Picks(picks) => for _ in 0..picks {
                    let ours = wheel.turn(&Eligible::new(&ready)).map(NodeId::index);
                    let rule = naive.round(|i| ready.is_ready(id(i)));
                    prop_assert_eq!(ours, rule);
                },
                Step::Retry => {
                    let mut tried = Tried::new();
                    loop {
                        let ours = wheel.turn(&Eligible::new(&ready).except(&tried));
                        let rule = naive.round(|i| ready.is_ready(id(i)) && !tried.contains(id(i)));
                        prop_assert_eq!(ours.map(NodeId::index), rule);
                        match ours {
                            Some(node) if tried.len() < 3 => tried.insert(node),
                            _ => break,
                        };
                    }
                }
                Step::Flip(node) => {
                    let node = id(node % n);
                    ready.set(node, !ready.is_ready(node));
                }
                Step::Fail(node) => {
                    wheel.failed(id(node % n));
                    naive.failed(node % n, max_fails.into());
                }
            }
        }
        prop_assert_eq!(currents(&wheel), naive.current);
    }
}

#[test]
fn lanes_are_in_use_while_nothing_changes_and_only_then() {
    let wheel = Wheel::new(&set(&[3; 20]), 1);
    let in_lanes = |wheel: &Wheel| wheel.lock().in_lanes;
    picks(&wheel, 16);
    assert!(!in_lanes(&wheel));
    picks(&wheel, 1);
    assert!(in_lanes(&wheel));
    wheel.failed(id(0));
    assert!(!in_lanes(&wheel));
    // Three rounds to recover, then patience.
    picks(&wheel, 3 + 16);
    assert!(!in_lanes(&wheel));
    picks(&wheel, 1);
    assert!(in_lanes(&wheel));
}

#[test]
fn the_ground_moves_up_unseen() {
    let weights: Vec<_> = (0..30).map(|i| 1 + i % 7).collect();
    let wheel = Wheel::new(&set(&weights), 1);
    let mut naive = Naive::new(&weights);
    let mut compare = |n| {
        for pick in picks(&wheel, n) {
            assert_eq!(Some(pick), naive.round(|_| true));
        }
    };
    compare(50);
    {
        let mut state = wheel.lock();
        assert!(state.in_lanes);
        state.lanes.rise_to_the_limit();
    }
    compare(200);
}

#[test]
fn the_heaviest_weights_neither_overflow_nor_drift() {
    let wheel = Wheel::new(&set(&[u32::MAX, u32::MAX, 1]), 1);
    let mut counts = [0u32; 3];
    for pick in picks(&wheel, 1000) {
        counts[pick] += 1;
        assert!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
    }
    assert_eq!(counts[2], 0);
}

#[test]
fn a_rebuild_without_a_change_goes_on_where_it_was() {
    let weights = [5, 1, 1, 0, 2, 2, 2, 2, 2, 2];
    let whole = Wheel::new(&set(&weights), 1);
    let expected = picks(&whole, 60);
    for cut in [0, 7, 40] {
        let first = Wheel::new(&set(&weights), 1);
        let mut both = picks(&first, cut);
        both.extend(picks(&Wheel::carried(&first, &set(&weights), 1), 60 - cut));
        assert_eq!(both, expected, "cut at {cut}");
    }
}

#[test]
fn a_change_of_weights_reaches_every_node_within_a_cycle() {
    // From 1000 : 1, halfway to the turn of the light node, to 1 : 1.
    let old = Wheel::new(&set(&[1000, 1]), 1);
    picks(&old, 499);
    let new = Wheel::carried(&old, &set(&[1, 1]), 1);
    assert_eq!(currents(&new).iter().sum::<i64>(), 0);
    let mut first = picks(&new, 2);
    first.sort_unstable();
    assert_eq!(first, [0, 1]);
}

#[test]
fn a_node_that_leaves_takes_its_debt_along() {
    let old = Wheel::new(&set(&[4, 3, 2]), 1);
    picks(&old, 1);
    assert_eq!(currents(&old), [-5, 3, 2]);
    let nodes = NodeSet::in_order(["n1", "n2", "new"].map(|name| Node::new(name, 3))).unwrap();
    // The total stays 9, and 3 + 2 + 0 is levelled.
    assert_eq!(currents(&Wheel::carried(&old, &nodes, 1)), [2, 0, -2]);
}

/// 400 processes that start at once, with 19 to 1: one in 20 starts with the light node. Six
/// standard deviations of 4.4 are allowed for.
#[test]
fn a_start_anywhere_is_a_place_in_the_sequence() {
    let weights = [19, 1, 0];
    let whole = picks(&Wheel::new(&set(&weights), 1), 60);
    let mut light = 0u32;
    for seed in 0..400 {
        let first = picks(&Wheel::anywhere(&set(&weights), 1, mix(seed)), 40);
        assert!(whole.windows(40).any(|part| part == first), "seed {seed}");
        light += u32::from(first[0] == 1);
    }
    assert!(light.abs_diff(20) < 27, "{light}");
    let nobody = Wheel::anywhere(&set(&[0, 0]), 1, 5);
    assert_eq!(currents(&nobody), [0, 0]);
}

#[test]
fn threads_get_exact_shares_together() {
    let weights: Vec<_> = (0..40).map(|i| 1 + i % 9).collect();
    let wheel = Wheel::new(&set(&weights), 1);
    assert_eq!(weights.iter().sum::<u32>(), 190);
    // 4 threads, 5 cycles each.
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| picks(&wheel, 5 * 190)))
            .collect();
        let mut counts = vec![0; 40];
        for pick in threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
        {
            counts[pick] += 1;
        }
        counts
    });
    let expected: Vec<_> = weights.iter().map(|weight| 4 * 5 * weight).collect();
    assert_eq!(counts, expected);
}

#[test]
fn a_small_wheel_may_turn_for_ever() {
    let wheel = Wheel::new(&set(&[1, 1]), 1);
    wheel.lock().calm = u32::MAX;
    assert_eq!(picks(&wheel, 4), [0, 1, 0, 1]);
}
