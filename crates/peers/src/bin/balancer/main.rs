//! Our balancer against pingora-load-balancing, in one process: `cargo xtask bench balancer`.
//!
//! `cargo run --release --bin balancer -- [--only select|update|flips] [--quick] [--json FILE] [--check]`
//!
//! - select: nanoseconds of processor time for a pick, by selector, pool, how much of it is down,
//!   and threads; and how many picks found nobody.
//! - update: milliseconds until one backend of 1,000 is added or removed, on the clock.
//! - flips: picks that found nobody, or a backend of neither set, while single backends change.
//!
//! All engines of a row take turns in every round; a ratio is the median over the rounds of
//! theirs / ours within a round. Choices are compared before anything is timed. `--check` exits
//! with 1 if a ratio is below its budget or a pick went wrong.

mod counting;
mod engine;
mod flips;
mod ours;
mod pingora;
mod select;
mod update;

use std::process::ExitCode;

use crate::counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("balancer: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all is as it must be, or nobody asked.
fn run(arguments: impl Iterator<Item = String>) -> Result<bool, Error> {
    let arguments = Arguments::parse(arguments)?;
    let mut report = serde_json::Map::new();
    let mut kept = true;
    if arguments.wants("flips") {
        let (rows, good) = flips::run(arguments.quick)?;
        report.insert("flips".into(), rows);
        kept &= good;
    }
    if arguments.wants("update") {
        report.insert("update".into(), update::run(arguments.quick)?);
    }
    if arguments.wants("select") {
        let (rows, good) = select::run(arguments.quick)?;
        report.insert("select".into(), rows);
        kept &= good;
    }
    if let Some(file) = arguments.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(!arguments.check || kept)
}

#[derive(Default)]
struct Arguments {
    only: Option<String>,
    json: Option<String>,
    quick: bool,
    check: bool,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut parsed = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" => parsed.only = arguments.next(),
                "--json" => parsed.json = arguments.next(),
                "--quick" => parsed.quick = true,
                "--check" => parsed.check = true,
                _ => return Err(format!("no argument {argument:?}").into()),
            }
        }
        let known = |part: &String| ["select", "update", "flips"].contains(&part.as_str());
        match parsed.only.as_ref().filter(|part| !known(part)) {
            Some(part) => Err(format!("no part {part:?}").into()),
            None => Ok(parsed),
        }
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == part)
    }
}
