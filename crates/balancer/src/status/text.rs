//! A status for a terminal.

use std::fmt;
use std::time::Duration;

use super::{BackendStatus, Status};
use crate::error::Chain;

/// A few lines about the balancer, then a table of its backends. For people: its form may change.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            generation,
            ready,
            backends,
            ..
        } = self;
        write!(
            f,
            "{name}: generation {generation}, {ready} of {} ready",
            backends.len()
        )?;
        if self.panicking {
            let threshold = self.panic_threshold;
            write!(
                f,
                "; below {threshold} % of the weight, so health is ignored"
            )?;
        }
        let (good, failed) = (self.updates, self.failed_updates);
        write!(f, "\nupdates: {good}, and {failed} failed")?;
        if let Some(last) = &self.last_update {
            write!(f, "; the last one {}, {} ago", last.result, Brief(last.age))?;
        }
        if let Some(age) = self.age {
            write!(f, "; what serves is {} old", Brief(age))?;
        }
        if let Some(error) = &self.last_error {
            write!(f, "\nlast error: {}", Chain(error))?;
        }
        table(backends, f)
    }
}

fn table(backends: &[BackendStatus], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rows: Vec<_> = backends.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEAD[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    for row in [HEAD.map(str::to_owned)].iter().chain(&rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            line += &match ALIGNED_LEFT.contains(&column) {
                true => format!("{cell:<width$}  "),
                false => format!("{cell:>width$}  "),
            };
        }
        write!(f, "\n{}", line.trim_end())?;
    }
    Ok(())
}

fn row(backend: &BackendStatus) -> [String; COLUMNS] {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    [
        backend.addr.to_string(),
        backend.tier.to_string(),
        backend.weight.to_string(),
        backend.condition.to_string(),
        Brief(backend.since).to_string(),
        backend.in_flight.to_string(),
        backend.picks.to_string(),
        backend.failures.to_string(),
        or_dash(backend.latency.map(|latency| Brief(latency).to_string())),
        or_dash(
            backend
                .ring_share
                .map(|share| format!("{:.2} %", share * 100.0)),
        ),
        why(backend),
    ]
}

/// Such as `active: connection refused`.
fn why(backend: &BackendStatus) -> String {
    match (backend.cause, &backend.reason) {
        (Some(cause), Some(reason)) => format!("{cause}: {reason}"),
        _ => String::new(),
    }
}

/// A time in at most three digits and a unit.
struct Brief(Duration);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0 => write!(f, "{:.0} ms", seconds * 1e3),
            1..=9 => write!(f, "{seconds:.1} s"),
            10..=599 => write!(f, "{seconds:.0} s"),
            600..=35_999 => write!(f, "{:.0} min", seconds / 60.0),
            36_000..=863_999 => write!(f, "{:.0} h", seconds / 3600.0),
            _ => write!(f, "{:.0} d", seconds / 86_400.0),
        }
    }
}

const COLUMNS: usize = 11;

const HEAD: [&str; COLUMNS] = [
    "backend",
    "tier",
    "weight",
    "state",
    "for",
    "in flight",
    "picks",
    "failures",
    "latency",
    "ring share",
    "why",
];

/// Texts; the rest are numbers.
const ALIGNED_LEFT: [usize; 3] = [0, 3, 10];
