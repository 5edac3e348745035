//! What is printed: a line per scenario, or one JSON document.

use std::io::{self, Write};

use serde_json::json;

use crate::Error;
use crate::scenario::Scenario;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Prints the scenarios of one system as soon as they have run.
pub(crate) fn scenarios(format: Format, scenarios: &[Scenario]) -> Result<(), Error> {
    if format == Format::Json {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    for scenario in scenarios {
        writeln!(
            out,
            "{} {} {}/{}",
            scenario.system, scenario.name, scenario.agreed, scenario.decisions
        )?;
        for difference in &scenario.differences {
            writeln!(out, "    differs: {difference}")?;
        }
        for deviation in &scenario.deviations {
            writeln!(out, "    deviates: {deviation}")?;
        }
    }
    Ok(())
}

/// Prints the sum, or the whole JSON document; returns how many decisions differ.
pub(crate) fn total(format: Format, scenarios: &[Scenario]) -> Result<usize, Error> {
    let decisions: usize = scenarios.iter().map(|s| s.decisions).sum();
    let differ: usize = scenarios.iter().map(Scenario::differing).sum();
    let mut out = io::stdout().lock();
    match format {
        Format::Text => writeln!(
            out,
            "{} scenarios, {decisions} decisions, {differ} differ",
            scenarios.len()
        )?,
        Format::Json => {
            let rows: Vec<_> = scenarios.iter().map(row).collect();
            let document = json!({ "scenarios": rows, "decisions": decisions, "differ": differ });
            writeln!(out, "{document:#}")?;
        }
    }
    Ok(differ)
}

fn row(scenario: &Scenario) -> serde_json::Value {
    json!({
        "system": scenario.system,
        "name": scenario.name,
        "decisions": scenario.decisions,
        "agreed": scenario.agreed,
        "differences": scenario.differences,
        "deviations": scenario.deviations,
    })
}
