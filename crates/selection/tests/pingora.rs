//! Candidates recorded from pingora-load-balancing 0.9.1: `test-data/pingora`.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashSet;
use std::fs;

use selection::{Build, FNVHash, Fallback, Node, NodeSet, WeightedConfig};

fn rows(file: &str) -> Vec<Vec<String>> {
    let path = format!(
        "{}/../../test-data/pingora/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(cells).collect()
}

fn pool(name: &str) -> NodeSet {
    let rows = rows("backends.csv");
    let members = rows.iter().filter(|row| row[0] == name);
    NodeSet::new(members.map(|row| Node::new(row[2].as_str(), row[3].parse().unwrap()))).unwrap()
}

fn numbers(cell: &str) -> Vec<usize> {
    cell.split(' ')
        .map(|number| number.parse().unwrap())
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2).map(|i| &text[i..i + 2]);
    digits
        .map(|two| u8::from_str_radix(two, 16).unwrap())
        .collect()
}

/// The first eight candidates, the first four distinct ones, and the steps to the last of these.
fn check(file: &str, set: &str, bytes: fn(&str) -> Vec<u8>) -> usize {
    let config = WeightedConfig::default().fallback(Fallback::Uniform);
    let fnv = FNVHash::build(&pool(set), &config).unwrap();
    let rows = rows(file);
    for row in &rows {
        let candidates = || {
            fnv.candidates(&bytes(&row[0]))
                .map(selection::NodeId::index)
        };
        assert_eq!(
            candidates().take(8).collect::<Vec<_>>(),
            numbers(&row[1]),
            "{row:?}"
        );
        let (mut seen, mut steps) = (HashSet::new(), 0);
        let unique: Vec<_> = candidates()
            .inspect(|_| steps += 1)
            .filter(|&node| seen.insert(node))
            .take(4)
            .collect();
        assert_eq!(
            (unique, steps),
            (numbers(&row[2]), row[3].parse().unwrap()),
            "{row:?}"
        );
    }
    rows.len()
}

#[test]
fn the_uniform_walk_is_pingoras() {
    let mut decisions = 0;
    for set in ["eq4", "w1234", "nine100", "ipv6", "b100"] {
        decisions += check(&format!("fnv_{set}.csv"), set, |text| {
            text.as_bytes().to_vec()
        });
    }
    for set in ["eq4", "nine100", "ipv6", "b100"] {
        decisions += check(&format!("fnv_{set}_bin.csv"), set, unhex);
    }
    assert_eq!(decisions, 10_800);
}
