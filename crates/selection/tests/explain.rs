//! Whom a selector asks for, and that asking why changes nothing.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use every::{id, nodes, selectors};
use selection::{
    Build, Consistent, Eligible, KetamaConfig, NodeId, ReadySet, RoundRobin, Selector, Tried,
    Verdict, WeightedConfig,
};

fn rows(explanation: &selection::Explanation) -> Vec<(usize, Verdict)> {
    let candidates = explanation.candidates.iter();
    candidates.map(|c| (c.node.index(), c.verdict)).collect()
}

/// Along the ring: key `user-42` meets 4, 1, 3, 2 of four equal nodes, counted from 1.
#[test]
fn a_walk_tells_why_it_passed_each_node() {
    let ring = Consistent::build(&nodes(&[1; 4]), &KetamaConfig::default()).unwrap();
    let ready = ReadySet::all(4);
    ready.set(id(3), false);
    let mut tried = Tried::new();
    tried.insert(id(0));
    let accept = |node: NodeId| node != id(2);
    let eligible = Eligible::new(&ready).except(&tried).only_if(&accept);
    let explanation = ring.explain(b"user-42", &eligible);
    let expected = [
        (3, Verdict::NotReady),
        (0, Verdict::Tried),
        (2, Verdict::Refused),
        (1, Verdict::Chosen),
    ];
    assert_eq!(rows(&explanation), expected);
    assert_eq!(explanation.chosen, Some(id(1)));
    assert_eq!(Verdict::NotReady.to_string(), "not ready");
}

#[test]
fn nobody_left_is_explained_as_well() {
    let turns = RoundRobin::build(&nodes(&[2, 1]), &WeightedConfig::default()).unwrap();
    let ready = ReadySet::none(2);
    let explanation = turns.explain(b"", &Eligible::new(&ready));
    assert_eq!(
        rows(&explanation),
        [(0, Verdict::NotReady), (1, Verdict::NotReady)]
    );
    assert_eq!(explanation.chosen, None);
}

/// For every selector: what is explained is what is then picked, and explaining, however often,
/// leaves the sequence of picks as it would have been.
#[test]
fn explaining_foretells_the_pick_and_changes_nothing() {
    let set = nodes(&[3, 1, 0, 2, 5, 1, 1]);
    let ready = ReadySet::all(7);
    ready.set(id(4), false);
    let eligible = Eligible::new(&ready);
    for case in selectors() {
        let (asked, silent) = ((case.build)(&set), (case.build)(&set));
        for round in 0..60 {
            let key = match round % 3 {
                0 => String::new(),
                _ => format!("key-{round}"),
            };
            let explanation = asked.explain(key.as_bytes(), &eligible);
            assert_eq!(
                asked.explain(key.as_bytes(), &eligible),
                explanation,
                "{}",
                case.name
            );
            let picked = asked.pick(key.as_bytes(), &eligible);
            assert_eq!(explanation.chosen, picked, "{}", case.name);
            assert_eq!(
                silent.pick(key.as_bytes(), &eligible),
                picked,
                "{}",
                case.name
            );
            check(&explanation, &ready, case.name);
        }
    }
}

fn check(explanation: &selection::Explanation, ready: &ReadySet, name: &str) {
    let mut seen = Tried::new();
    for candidate in &explanation.candidates {
        assert!(seen.insert(candidate.node), "{name}: {candidate:?} twice");
        let expected = match (Some(candidate.node) == explanation.chosen, candidate.node) {
            (true, _) => Verdict::Chosen,
            (_, node) if !ready.is_ready(node) => Verdict::NotReady,
            _ => Verdict::Outranked,
        };
        assert_eq!(candidate.verdict, expected, "{name}");
    }
    assert!(
        seen.contains(explanation.chosen.unwrap()),
        "{name}: the chosen one was asked"
    );
}
