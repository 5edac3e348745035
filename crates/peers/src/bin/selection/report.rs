//! The table, the budget, and the JSON document.

use serde_json::json;

use crate::{Line, SIZES};

pub(crate) fn print(line: &Line) {
    let is_ours = line.engine == OURS;
    let cells = line.cells.map(|cell| match cell {
        Some((nanos, _)) if is_ours => format!("{nanos:>10.1}"),
        Some((nanos, ratio)) => format!("{:>10}", format!("{nanos:.0} x{ratio:.1}")),
        None => format!("{:>10}", "-"),
    });
    let growth = growth(line).map_or(String::new(), |growth| format!("x{growth:.1}"));
    let name = format!("{} {}", line.algorithm, line.up);
    println!(
        "{name:<26}{:<18}{}   {growth:>10}",
        line.engine,
        cells.concat()
    );
}

/// Prints what grows and should not; returns whether nothing does.
///
/// Those that promise O(1) may take longer for 1,000 nodes than for 4 only because of the caches.
pub(crate) fn budget(lines: &[Line]) -> bool {
    let constant = |line: &&Line| line.engine == OURS && CONSTANT.contains(&line.algorithm);
    let mut kept = true;
    for line in lines
        .iter()
        .filter(constant)
        .filter(|line| line.up == "all")
    {
        let Some(growth) = growth(line) else {
            continue;
        };
        if growth > MOST_GROWTH {
            let name = line.algorithm;
            println!("budget MISSED: {name}: x{growth:.1} from 4 to 1,000, at most x{MOST_GROWTH}");
            kept = false;
        }
    }
    kept
}

pub(crate) fn json(lines: &[Line]) -> serde_json::Result<String> {
    let cells = lines.iter().flat_map(|line| {
        SIZES.iter().zip(line.cells).filter_map(|(nodes, cell)| {
            let (nanoseconds, times_ours) = cell?;
            Some(json!({
                "algorithm": line.algorithm,
                "up": line.up,
                "engine": line.engine,
                "nodes": nodes,
                "nanoseconds": nanoseconds,
                "times_ours": times_ours,
            }))
        })
    });
    let document = json!({ "cells": cells.collect::<Vec<_>>() });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// From 4 to 1,000 nodes.
fn growth(line: &Line) -> Option<f64> {
    let [Some((few, _)), _, Some((many, _)), _] = line.cells else {
        return None;
    };
    Some(many / few)
}

const OURS: &str = "ours";

const CONSTANT: [&str; 10] = [
    "round_robin",
    "random",
    "fnv",
    "consistent",
    "smooth_round_robin",
    "hash",
    "ip_hash",
    "random_two",
    "p2c",
    "fair",
];

const MOST_GROWTH: f64 = 3.0;
