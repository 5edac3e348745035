//! What an act came to: the table, the verdict, and both as text and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::Algorithm;
use crate::moves::{PHASES, Routes, STAGES, Violation};
use crate::record::Sample;
use crate::shown::{Broken, Shown};

/// Everything that one act came to.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) algorithm: Algorithm,
    /// By index.
    pub(crate) backends: Vec<Line>,
    pub(crate) columns: Columns,
    pub(crate) keys: usize,
    /// A change each, for algorithms that give keys owners.
    pub(crate) routes: Vec<Routes>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) shown: Shown,
    pub(crate) broken: Vec<Broken>,
    pub(crate) failed: u64,
    pub(crate) first_failures: Vec<String>,
    pub(crate) clients: usize,
    pub(crate) connections: usize,
    pub(crate) took: Duration,
}

/// One backend.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) addr: String,
    /// What becomes of it.
    pub(crate) role: &'static str,
    /// Requests that it did not finish.
    pub(crate) cut: u64,
}

/// The figures per settled phase, and in the last column those of all changes together.
#[derive(Debug)]
pub(crate) struct Columns(Vec<Column>);

#[derive(Clone, Debug, Default)]
struct Column {
    /// By backend.
    answered: Vec<u64>,
    retries: u64,
    /// Sorted.
    latencies: Vec<Duration>,
}

impl Columns {
    /// `retries` by stage.
    pub(crate) fn new(backends: usize, samples: &[Sample], retries: [u64; STAGES]) -> Self {
        let empty = Column {
            answered: vec![0; backends],
            ..Column::default()
        };
        let mut columns = vec![empty; PHASES.len() + 1];
        for sample in samples {
            let column = &mut columns[column(sample.stage)];
            column.answered[sample.backend] += 1;
            column.latencies.push(sample.latency);
        }
        for (stage, retries) in retries.into_iter().enumerate() {
            columns[column(stage)].retries += retries;
        }
        for column in &mut columns {
            column.latencies.sort_unstable();
        }
        Self(columns)
    }

    /// The answers of a backend in a settled phase, and those of all.
    pub(crate) fn share(&self, backend: usize, phase: usize) -> (u64, u64) {
        let answered = &self.0[phase].answered;
        (answered[backend], answered.iter().sum())
    }

    fn answered(&self) -> u64 {
        self.0.iter().flat_map(|column| &column.answered).sum()
    }

    fn retries(&self) -> u64 {
        self.0.iter().map(|column| column.retries).sum()
    }
}

impl Report {
    /// Whether all held that must hold.
    pub(crate) fn is_good(&self) -> bool {
        self.failed == 0 && self.violations.is_empty() && self.broken.is_empty()
    }

    pub(crate) fn to_json(&self) -> Value {
        let backends = self.backends.iter().enumerate().map(|(index, backend)| {
            let answered = self.columns.0.iter().map(|column| column.answered[index]);
            json!({
                "index": index,
                "addr": backend.addr,
                "role": backend.role,
                "cut": backend.cut,
                "answered": by_name(answered.map(Value::from)),
            })
        });
        let columns = &self.columns.0;
        let moved = self.routes.iter().enumerate().map(|(change, routes)| {
            let routes = routes
                .iter()
                .map(|((from, to), keys)| json!({ "from": from, "to": to, "keys": keys }));
            json!({
                "from_phase": PHASES[change],
                "to_phase": PHASES[change + 1],
                "routes": routes.collect::<Vec<_>>(),
            })
        });
        json!({
            "report": self.algorithm.name(),
            "good": self.is_good(),
            "seconds": self.took.as_secs_f64(),
            "clients": self.clients,
            "connections": self.connections,
            "answered": self.columns.answered(),
            "failed": self.failed,
            "first_failures": self.first_failures,
            "backends": backends.collect::<Vec<_>>(),
            "retries": by_name(columns.iter().map(|column| column.retries.into())),
            "p50_ms": by_name(columns.iter().map(|column| json_ms(&column.latencies, 50))),
            "p99_ms": by_name(columns.iter().map(|column| json_ms(&column.latencies, 99))),
            "keys": self.keys,
            "moved": self.algorithm.hashes().then(|| moved.collect::<Vec<_>>()),
            "shown": self.shown.to_json(),
            "broken": self.broken.iter().map(Broken::to_string).collect::<Vec<_>>(),
            "violations": self.violations.iter().map(Violation::to_string).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_table(f)?;
        self.write_moves(f)?;
        self.write_verdict(f)
    }
}

impl Report {
    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<36}", "requests answered by")?;
        for name in names() {
            write!(f, "{name:>8}")?;
        }
        writeln!(f)?;
        let columns = &self.columns.0;
        for (index, Line { addr, role, .. }) in self.backends.iter().enumerate() {
            let name = format!("#{index} {addr} {role}");
            let answered = columns
                .iter()
                .map(|column| column.answered[index].to_string());
            write_row(f, &name, answered)?;
        }
        write_row(
            f,
            "retried on another backend",
            columns.iter().map(|column| column.retries.to_string()),
        )?;
        for percent in [50, 99] {
            let cells = columns.iter().map(|column| {
                ms(&column.latencies, percent).map_or_else(|| "-".into(), |ms| format!("{ms:.2}"))
            });
            write_row(f, &format!("latency p{percent}, ms"), cells)?;
        }
        writeln!(f)
    }

    fn write_moves(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.algorithm.hashes() {
            return writeln!(f, "  keys: {} does not look at them", self.algorithm);
        }
        writeln!(f, "  keys that moved, of {}", self.keys)?;
        for (change, routes) in self.routes.iter().enumerate() {
            let name = format!("{} to {}", PHASES[change], PHASES[change + 1]);
            let moved: usize = routes.values().sum();
            write!(f, "    {name:<18}{moved:>5}")?;
            for ((from, to), keys) in routes.iter().take(ROUTES_SHOWN) {
                write!(f, "  #{from} to #{to}: {keys}")?;
            }
            if let Some(others @ 1..) = routes.len().checked_sub(ROUTES_SHOWN) {
                write!(f, "  and {others} other ways")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn write_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        writeln!(
            f,
            "\n  {} requests in {seconds:.1} s over {} connections of {} clients, {} retries",
            self.columns.answered(),
            self.connections,
            self.clients,
            self.columns.retries(),
        )?;
        let cut: u64 = self.backends.iter().map(|backend| backend.cut).sum();
        writeln!(f, "  {cut} requests cut by the death of their backend")?;
        writeln!(f, "  {} failed requests", self.failed)?;
        for failure in &self.first_failures {
            writeln!(f, "    {failure}")?;
        }
        let moves = self
            .violations
            .iter()
            .filter(|broken| broken.is_move())
            .count();
        if self.algorithm == Algorithm::Consistent {
            writeln!(f, "  {moves} keys moved between backends that stayed")?;
        }
        let out = self.violations.len() - moves;
        writeln!(f, "  {out} keys answered by a backend that was out")?;
        for violation in self.violations.iter().take(VIOLATIONS_SHOWN) {
            writeln!(f, "    {violation}")?;
        }
        writeln!(f, "  {} other promises broken", self.broken.len())?;
        for broken in &self.broken {
            writeln!(f, "    {broken}")?;
        }
        Ok(())
    }
}

fn write_row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    cells: impl Iterator<Item = String>,
) -> fmt::Result {
    write!(f, "  {name:<36}")?;
    for cell in cells {
        write!(f, "{cell:>8}")?;
    }
    writeln!(f)
}

/// The column of a stage: a phase has its own, the changes share the last.
fn column(stage: usize) -> usize {
    if stage.is_multiple_of(2) {
        stage / 2
    } else {
        PHASES.len()
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    PHASES.into_iter().chain(["between"])
}

fn by_name(values: impl Iterator<Item = Value>) -> Value {
    names().map(str::to_owned).zip(values).collect()
}

fn json_ms(sorted: &[Duration], percent: usize) -> Value {
    ms(sorted, percent).map_or(Value::Null, Value::from)
}

fn ms(sorted: &[Duration], percent: usize) -> Option<f64> {
    percentile(sorted, percent).map(|latency| latency.as_secs_f64() * 1e3)
}

/// The least of `sorted` that at least `percent` of them do not exceed (nearest rank).
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

const ROUTES_SHOWN: usize = 5;
const VIOLATIONS_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(ms: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        ms.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        for (sorted, percent, expected) in [
            (durations([]), 50, None),
            (durations([7]), 50, Some(7)),
            (durations([7]), 99, Some(7)),
            (durations([1, 2]), 50, Some(1)),
            (durations([1, 2, 3]), 50, Some(2)),
            (durations(1..=100), 99, Some(99)),
            (durations(1..=200), 99, Some(198)),
            (durations(1..=101), 99, Some(100)),
            (durations(1..=100), 100, Some(100)),
        ] {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(
                percentile(&sorted, percent),
                expected,
                "p{percent} of {sorted:?}"
            );
        }
    }

    fn report() -> Report {
        let sample = |stage, backend, ms| Sample {
            stage,
            backend,
            latency: Duration::from_millis(ms),
        };
        let samples = [
            sample(0, 0, 3),
            sample(0, 0, 1),
            sample(1, 1, 9),
            sample(12, 1, 2),
        ];
        let line = |addr: &str| Line {
            addr: addr.into(),
            role: "",
            cut: 0,
        };
        Report {
            algorithm: Algorithm::Consistent,
            backends: vec![line("127.0.0.1:1"), line("127.0.0.1:2")],
            columns: Columns::new(2, &samples, [0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
            keys: 4,
            routes: vec![Routes::from([((0, 1), 3)])],
            violations: Vec::new(),
            shown: Shown::default(),
            broken: Vec::new(),
            failed: 0,
            first_failures: Vec::new(),
            clients: 1,
            connections: 1,
            took: Duration::from_secs(1),
        }
    }

    #[test]
    fn the_columns_are_the_phases_and_what_lies_between() {
        let json = report().to_json();
        let before = json!({
            "before": 2, "dead": 0, "back": 0, "failing": 0, "well": 0, "added": 0, "drained": 0,
            "between": 0,
        });
        assert_eq!(json["backends"][0]["answered"], before);
        let retries = json!({
            "before": 0, "dead": 0, "back": 0, "failing": 0, "well": 0, "added": 0, "drained": 2,
            "between": 6,
        });
        assert_eq!(json["retries"], retries);
        assert_eq!(json["p99_ms"]["before"], 3.0);
        assert_eq!(json["p99_ms"]["dead"], Value::Null);
        assert_eq!(json["answered"], 4);
    }

    #[test]
    fn one_failure_or_violation_is_enough() {
        assert!(report().is_good());
        let failed = Report {
            failed: 1,
            ..report()
        };
        assert!(!failed.is_good());
        let moved = Report {
            violations: vec![Violation::TwoOwners { key: 0, phase: 0 }],
            ..report()
        };
        assert!(!moved.is_good());
        let broken = Report {
            broken: vec![Broken::AskedWhileStarting { requests: 1 }],
            ..report()
        };
        assert!(!broken.is_good());
    }
}
