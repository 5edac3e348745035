//! The tables, and the JSON document.

use std::{env, fs};

use serde_json::{Value, json};

use crate::Error;
use crate::budget::Verdict;
use crate::engine::ALL;
use crate::measure::{Cell, Kind, Row, Spread};

/// One table for each kind: a line a pool, a column an engine, the ratio to ours in brackets.
pub(crate) fn table(rows: &[Row], hash: Option<Spread>) {
    println!("In brackets how many times ours: V2 against V2, all others against V1.");
    println!("Lookups: medians. Build, remove, add: the least disturbed round.");
    if let Some(hash) = hash {
        let nanoseconds = three_digits(hash.median);
        println!("The CRC-32 of a key by crc32fast::hash, as pingora takes it: {nanoseconds} ns.");
    }
    if let Some(tunables) = tunables() {
        println!("The allocator: GLIBC_TUNABLES={tunables}");
    }
    let measured = |kind| rows.iter().any(|row| row.kind == kind);
    for (kind, title) in TITLES.into_iter().filter(|&(kind, _)| measured(kind)) {
        println!("\n{title}\n");
        print!("| pool |");
        ALL.iter().for_each(|layout| print!(" {} |", layout.name));
        println!("\n|---|{}", "---:|".repeat(ALL.len()));
        for row in rows.iter().filter(|row| row.kind == kind) {
            print!("| {} |", row.pool);
            for (layout, cell) in ALL.iter().zip(&row.cells) {
                let is_ours = ALL[layout.against].name == layout.name;
                print!(" {} |", text(kind, cell.as_ref(), is_ours));
            }
            println!();
        }
    }
}

fn text(kind: Kind, cell: Option<&Cell>, is_ours: bool) -> String {
    let Some(cell) = cell else {
        return "-".to_owned();
    };
    let value = cell.figure;
    let value = match kind {
        Kind::Remove | Kind::Add => format!("{} µs", three_digits(value / 1_000.0)),
        _ => three_digits(value),
    };
    if is_ours {
        value
    } else {
        format!("{value} ({}x)", three_digits(cell.times_ours))
    }
}

fn three_digits(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

pub(crate) fn budget(verdicts: &[Verdict]) {
    println!("\nBudget\n\n| what | limit | measured | |\n|---|---:|---:|---|");
    for verdict in verdicts {
        let kept = if verdict.kept { "kept" } else { "MISSED" };
        let (limit, measured) = (verdict.limit, verdict.measured);
        println!("| {} | {limit:.1} | {measured:.2} | {kept} |", verdict.what);
    }
}

pub(crate) fn json(
    rows: &[Row],
    hash: Option<Spread>,
    verdicts: &[Verdict],
) -> Result<String, Error> {
    let cells = rows.iter().flat_map(|row| {
        let cells = ALL.iter().zip(&row.cells);
        cells.filter_map(|(layout, cell)| {
            let cell = cell.as_ref()?;
            Some(json!({
                "what": format!("{:?}", row.kind).to_lowercase(),
                "pool": row.pool,
                "engine": layout.name,
                "against": ALL[layout.against].name,
                "figure": cell.figure,
                "times_ours": cell.times_ours,
                "value": spread(cell.value),
                "ratio": spread(cell.ratio),
            }))
        })
    });
    let budget = verdicts.iter().map(|verdict| {
        json!({
            "what": verdict.what,
            "limit": verdict.limit,
            "measured": verdict.measured,
            "kept": verdict.kept,
        })
    });
    let document = json!({
        "machine": machine(),
        "hash_alone": hash.map(spread),
        "cells": cells.collect::<Vec<_>>(),
        "budget": budget.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn spread(spread: Spread) -> Value {
    json!({
        "least": spread.least,
        "low": spread.low,
        "median": spread.median,
        "high": spread.high,
        "rounds": spread.rounds,
    })
}

/// The model of the processor and the number of cores, where the system tells, and the settings of
/// the allocator.
fn machine() -> Value {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models = processors
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, model)| model.trim());
    json!({
        "processor": models.clone().next(),
        "cores": models.count(),
        "glibc_tunables": tunables(),
    })
}

/// What the user has told the C library's allocator, such as to ask for huge pages.
fn tunables() -> Option<String> {
    env::var("GLIBC_TUNABLES").ok()
}

const TITLES: [(Kind, &str); 6] = [
    (Kind::Lookup, "Lookup: key to address, ns"),
    (Kind::Build, "Build: ns a point"),
    (Kind::Remove, "Remove one backend"),
    (Kind::Add, "Add one backend"),
    (
        Kind::Memory,
        "Memory: bytes a point, with the list of backends",
    ),
    (
        Kind::Points,
        "Memory: bytes a point, without it where the engine tells them apart",
    ),
];
