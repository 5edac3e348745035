//! What came of asking: a table, and every difference with all that is needed to repeat it.

use std::fmt::{self, Display};
use std::time::Duration;

/// One scenario of one system.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) system: &'static str,
    pub(crate) version: String,
    pub(crate) scenario: String,
    pub(crate) result: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Asked {
        tally: Tally,
        took: Duration,
    },
    /// Why nobody was asked: what is not installed.
    Missing(&'static str),
    /// Why nobody was asked: what this machine does not let us do.
    Skipped(&'static str),
}

/// Decisions of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) decisions: usize,
    /// Those on which we answer otherwise by mistake.
    pub(crate) differ: usize,
    /// Those on which we answer otherwise on purpose.
    pub(crate) deviate: usize,
    /// The first of those that differ, in full.
    pub(crate) differences: Vec<String>,
}

impl Tally {
    /// Counts one decision; `tell` writes the difference down.
    pub(crate) fn decide(&mut self, agree: bool, tell: impl FnOnce() -> String) {
        self.decisions += 1;
        if agree {
            return;
        }
        self.differ += 1;
        if self.differences.len() < SHOWN {
            self.differences.push(tell());
        }
    }

    /// Counts one decision that may be another on purpose.
    pub(crate) fn deviate(&mut self, agree: bool) {
        self.decisions += 1;
        self.deviate += usize::from(!agree);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.decisions += other.decisions;
        self.differ += other.differ;
        self.deviate += other.deviate;
        let room = SHOWN.saturating_sub(self.differences.len());
        let shown = other.differences.into_iter().take(room);
        self.differences.extend(shown);
    }
}

/// A pool by the words after `--only`, and the command that asks it again.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) seed: u64,
    pub(crate) system: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) pool: usize,
}

impl Place {
    /// The name of the random stream that this pool is made from.
    pub(crate) fn stream(&self) -> String {
        format!("{}/{}/{}", self.system, self.scenario, self.pool)
    }

    /// A difference at this place: what was asked, both answers, and how to see it again.
    pub(crate) fn difference(
        &self,
        what: impl Display,
        theirs: impl Display,
        ours: impl Display,
        pool: &str,
    ) -> String {
        let pool = pool.trim_end().replace('\n', "\n    ");
        format!(
            "{} (seed {}): {what}\n    theirs {theirs}\n    ours   {ours}\n    {pool}\n    \
             repeat: cargo xtask compat --live --seed {} --only {}",
            self.stream(),
            self.seed,
            self.seed,
            self.stream()
        )
    }
}

/// The table of all rows, and what differs below it.
pub(crate) struct Table<'a>(pub(crate) &'a [Row]);

impl Table<'_> {
    /// All decisions together.
    pub(crate) fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.tallies() {
            total.decisions += tally.decisions;
            total.differ += tally.differ;
            total.deviate += tally.deviate;
        }
        total
    }

    fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.0.iter().filter_map(|row| match &row.result {
            Outcome::Asked { tally, .. } => Some(tally),
            Outcome::Missing(_) | Outcome::Skipped(_) => None,
        })
    }
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in self.tallies().flat_map(|tally| &tally.differences) {
            writeln!(f, "differs: {difference}\n")?;
        }
        writeln!(
            f,
            "{:<13} {:<8} {:<22} {:>9} {:>7} {:>8} {:>8}",
            "system", "version", "scenario", "decisions", "differ", "deviate", "seconds"
        )?;
        for row in self.0 {
            write!(
                f,
                "{:<13} {:<8} {:<22} ",
                row.system, row.version, row.scenario
            )?;
            match &row.result {
                Outcome::Asked { tally, took } => writeln!(
                    f,
                    "{:>9} {:>7} {:>8} {:>8.1}",
                    tally.decisions,
                    tally.differ,
                    tally.deviate,
                    took.as_secs_f64()
                )?,
                Outcome::Missing(what) => writeln!(f, "skipped: {what} is not installed")?,
                Outcome::Skipped(why) => writeln!(f, "skipped: {why}")?,
            }
        }
        let Tally {
            decisions,
            differ,
            deviate,
            ..
        } = self.total();
        write!(f, "{:<45} {decisions:>9} {differ:>7} {deviate:>8}", "total")
    }
}

/// Enough to see the pattern.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_counted_and_the_first_of_it_told() {
        let mut tally = Tally::default();
        tally.decide(true, || unreachable!());
        for n in 0..5 {
            tally.decide(false, || format!("request {n}"));
        }
        tally.deviate(false);
        tally.deviate(true);
        assert_eq!((tally.decisions, tally.differ, tally.deviate), (8, 5, 1));
        let mut sum = Tally::default();
        sum.decide(false, || "first".to_owned());
        sum.add(tally);
        assert_eq!((sum.decisions, sum.differ, sum.deviate), (9, 6, 1));
        assert_eq!(sum.differences, ["first", "request 0", "request 1"]);
    }

    #[test]
    fn the_table_shows_sums_skips_and_how_to_repeat() {
        let place = Place {
            seed: 7,
            system: "nginx",
            scenario: "hash",
            pool: 3,
        };
        let mut tally = Tally::default();
        tally.decide(false, || {
            place.difference("request 1", "a", "b", "upstream {\n}\n")
        });
        let row = |scenario: &str, result| Row {
            system: "nginx",
            version: "1.22.1".to_owned(),
            scenario: scenario.to_owned(),
            result,
        };
        let took = Duration::from_millis(1500);
        let rows = [
            row("hash", Outcome::Asked { tally, took }),
            row("all", Outcome::Missing("gcc")),
            row("names", Outcome::Skipped("no namespace")),
        ];
        let text = Table(&rows).to_string();
        let repeat = "    repeat: cargo xtask compat --live --seed 7 --only nginx/hash/3\n";
        assert!(text.contains(repeat), "{text}");
        assert!(text.contains("    theirs a\n    ours   b\n    upstream {\n    }\n"));
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let lines: Vec<_> = text.lines().map(words).collect();
        assert!(lines.contains(&words("nginx 1.22.1 hash 1 1 0 1.5")));
        assert!(lines.contains(&words("nginx 1.22.1 names skipped: no namespace")));
        assert!(lines.contains(&words("nginx 1.22.1 all skipped: gcc is not installed")));
        assert_eq!(lines.last(), Some(&words("total 1 1 0")));
    }
}
