//! The page that lists the metrics, against the metrics.

use std::collections::BTreeSet;

use super::*;
use crate::page;

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
    assert_eq!(page::rows("Metrics").collect::<Vec<_>>(), rows);
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
