//! The page that lists the metrics, against the metrics.

use std::collections::BTreeSet;

use super::*;

/// The rows of the table of the page: name, kind, unit and labels.
fn documented() -> Vec<[String; 4]> {
    let page = include_str!("../../../../docs/observability.md");
    let section = page.split("\n## ").find(|part| part.starts_with("Metrics"));
    let rows = section
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(|cell| cell.replace('`', "")).collect();
        [1, 2, 3, 4].map(|cell: usize| cells[cell].trim().to_owned())
    })
    .collect()
}

#[test]
fn the_page_lists_every_metric_with_its_unit_and_labels() {
    let rows: Vec<_> = ALL
        .iter()
        .map(|metric| {
            let labels: BTreeSet<_> = metric.labels.iter().copied().chain(["pool"]).collect();
            let labels: Vec<_> = labels.into_iter().collect();
            [
                metric.name.to_owned(),
                format!("{:?}", metric.kind).to_lowercase(),
                metric.unit.as_str().to_owned(),
                labels.join(", "),
            ]
        })
        .collect();
    assert_eq!(documented(), rows);
    let constants = include_str!("names.rs")
        .matches(": Metric = Metric {")
        .count();
    assert_eq!(constants, ALL.len(), "each of them is in the list");
}

#[test]
fn the_number_of_each_state_is_the_one_in_the_help() {
    for condition in CONDITIONS {
        let text = format!("{} {condition}", number(condition));
        assert!(STATE.help.contains(&text), "{text}");
    }
}
