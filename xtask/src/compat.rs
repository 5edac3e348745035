//! `cargo xtask compat`: our choices against the recorded choices of other systems.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document::Document;
use crate::live;
use crate::process::{Cargo, Failure, rest};

pub(crate) fn run(arguments: lexopt::Parser) -> Result<(), Failure> {
    let mut arguments = rest(arguments)?;
    if let Some(place) = arguments.iter().position(|argument| argument == "--live") {
        arguments.remove(place);
        return live::run(arguments);
    }
    if arguments == ["--write"] {
        return matrix(Document::Write);
    }
    recorded().arguments(arguments).run()
}

/// The replay, and whether the matrix in the documents is that of this replay.
pub(crate) fn check() -> Result<(), Failure> {
    recorded().run()?;
    matrix(Document::Compare)
}

/// The replay; further arguments go to the example.
fn recorded() -> Cargo {
    Cargo::new(["run", "--release", "-p", "selection"]).arguments([
        "--example",
        "compat",
        "--features",
        FEATURES,
        "--",
    ])
}

/// The matrix in `docs/compatibility.md`.
fn matrix(document: Document) -> Result<(), Failure> {
    let replay = recorded().arguments(["--json"]).output()?;
    if !replay.success {
        return Err(format!("{}{}", replay.stdout, replay.stderr).into());
    }
    let replay: Value = serde_json::from_str(&replay.stdout)
        .map_err(|error| format!("the replay's --json: {error}"))?;
    document.place("compatibility.md", "compat", &table(&replay))
}

/// A summary by system, then every scenario.
fn table(replay: &Value) -> String {
    let scenarios: Vec<_> = replay["scenarios"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let mut systems = BTreeMap::<&str, Vec<&Value>>::new();
    for scenario in &scenarios {
        let system = scenario["system"].as_str().unwrap_or_default();
        systems.entry(system).or_default().push(scenario);
    }
    let mut table = "| system | scenarios | decisions | differ |\n|---|---|---|---|\n".to_owned();
    for (system, scenarios) in &systems {
        let (decisions, differ) = sums(scenarios);
        let count = scenarios.len();
        table += &format!("| {system} | {count} | {decisions} | {differ} |\n");
    }
    let (decisions, differ) = sums(&scenarios);
    table += &format!("| all | {} | {decisions} | {differ} |\n", scenarios.len());
    for (system, scenarios) in &systems {
        table += &format!("\n### {system}\n\n| scenario | decisions | agreed |\n|---|---|---|\n");
        for scenario in scenarios {
            let name = scenario["name"].as_str().unwrap_or_default();
            let (decisions, agreed) = (&scenario["decisions"], &scenario["agreed"]);
            table += &format!("| `{name}` | {decisions} | {agreed} |\n");
        }
        table += &deviations(scenarios);
    }
    table + "\n"
}

/// On how many decisions of `scenarios` we differ, of how many.
fn sums(scenarios: &[&Value]) -> (u64, u64) {
    let sum = |field| -> u64 { scenarios.iter().filter_map(|s| s[field].as_u64()).sum() };
    let decisions = sum("decisions");
    (decisions, decisions - sum("agreed"))
}

fn deviations(scenarios: &[&Value]) -> String {
    let mut text = String::new();
    for scenario in scenarios {
        let name = scenario["name"].as_str().unwrap_or_default();
        let deviations = scenario["deviations"].as_array().into_iter().flatten();
        for deviation in deviations.filter_map(Value::as_str) {
            text += &format!("- `{name}`: {deviation}\n");
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\nOn purpose otherwise:\n\n{text}")
    }
}

/// `required-features` of the example.
const FEATURES: &str = "v2,schemes";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_matrix_counts_what_differs_and_names_what_deviates() {
        let row = |system, name, agreed, deviations: &[&str]| {
            json!({
                "system": system, "name": name, "decisions": 10, "agreed": agreed,
                "deviations": deviations,
            })
        };
        let replay = json!({ "scenarios": [
            row("nginx", "a", 10, &[]),
            row("nginx", "b", 7, &["row 1: on purpose"]),
            row("brpc", "c", 10, &[]),
        ]});
        let table = table(&replay);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines[2], "| brpc | 1 | 10 | 0 |");
        assert_eq!(lines[3], "| nginx | 2 | 20 | 3 |");
        assert_eq!(lines[4], "| all | 3 | 30 | 3 |");
        assert!(lines.contains(&"| `b` | 10 | 7 |"));
        assert!(lines.contains(&"- `b`: row 1: on purpose"));
        assert_eq!(table.matches("On purpose otherwise").count(), 1);
    }
}
