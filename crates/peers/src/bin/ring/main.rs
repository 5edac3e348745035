//! The ring against other rings, in one process: `cargo xtask bench ring`.
//!
//! `cargo run --release --bin ring -- [--json FILE] [--check] [--only PART] [--pool NAME]`
//!
//! Lookup, build, change and memory, on pools from 640 to 16 million points. All engines of a row
//! take turns in every round, so what else the machine does hits them alike; a ratio is the median
//! over the rounds of theirs / ours within a round. Answers are compared before anything is timed.
//! With `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` in the environment the large rings of all engines
//! are on huge pages, where Linux has them by `madvise`.
//! `--check` exits with 1 if a ratio is below its budget.

mod answers;
mod budget;
mod counting;
mod engine;
mod measure;
mod others;
mod ours;
mod pingora;
mod pool;
mod report;

use std::process::ExitCode;

use crate::counting::Counting;
use crate::engine::Layout;
use crate::measure::Row;
use crate::pool::{POOLS, Pool};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ring: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all is within the budget, or nobody asked.
fn run(arguments: impl Iterator<Item = String>) -> Result<bool, Error> {
    let arguments = Arguments::parse(arguments)?;
    let mut rows = Vec::new();
    for pool in POOLS.iter().filter(|(name, ..)| arguments.wants_pool(name)) {
        let pool = Pool::new(pool)?;
        eprintln!("{}: {} points", pool.name, pool.points());
        answers::check(&pool)?;
        rows.extend(bench(&pool, &arguments)?);
    }
    let hash = measure::hash_alone().filter(|_| arguments.wants("lookup"));
    report::table(&rows, hash);
    let verdicts = budget::verdicts(&rows);
    report::budget(&verdicts);
    if let Some(file) = arguments.json {
        std::fs::write(file, report::json(&rows, hash, &verdicts)?)?;
    }
    Ok(!arguments.check || verdicts.iter().all(|verdict| verdict.kept))
}

fn bench(pool: &Pool, arguments: &Arguments) -> Result<Vec<Row>, Error> {
    let layouts: Vec<&'static Layout> = engine::ALL
        .iter()
        .filter(|layout| pool.points() <= layout.most_points)
        .collect();
    let mut rows = Vec::new();
    if arguments.wants("build") {
        rows.push(measure::build(pool, &layouts));
    }
    let (mut engines, memory) = measure::memory(pool, &layouts);
    if arguments.wants("memory") {
        rows.extend(memory);
    }
    if arguments.wants("lookup") {
        rows.push(measure::lookup(pool, &mut engines));
    }
    if arguments.wants("change") {
        engines.retain(|(layout, _)| pool.points() <= layout.most_points_to_change);
        rows.extend(measure::change(pool, &mut engines));
        answers::check_changed(pool, &engines)?;
    }
    Ok(rows)
}

#[derive(Default)]
struct Arguments {
    json: Option<String>,
    check: bool,
    only: Option<String>,
    pool: Option<String>,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut parsed = Self::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => parsed.json = Some(value()?),
                "--only" => parsed.only = Some(value()?),
                "--pool" => parsed.pool = Some(value()?),
                "--check" => parsed.check = true,
                _ => return Err(format!("unknown argument {argument:?}").into()),
            }
        }
        let known = |name: &String| PARTS.contains(&name.as_str());
        if let Some(part) = parsed.only.as_ref().filter(|&part| !known(part)) {
            return Err(format!("--only {part:?}: not one of {}", PARTS.join(", ")).into());
        }
        let known = |name: &String| POOLS.iter().any(|(pool, ..)| pool == name);
        if let Some(pool) = parsed.pool.as_ref().filter(|&pool| !known(pool)) {
            let pools = POOLS.map(|(name, ..)| name).join(", ");
            return Err(format!("--pool {pool:?}: not one of {pools}").into());
        }
        Ok(parsed)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    fn wants_pool(&self, name: &str) -> bool {
        self.pool.as_deref().is_none_or(|pool| pool == name)
    }
}

const PARTS: [&str; 4] = ["lookup", "build", "change", "memory"];
