//! What a pick costs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::counting::allocations;
use crate::engine::{Choice, Engine};
use crate::{Error, ours, pingora};

/// One line of the table.
#[derive(Clone, Copy)]
struct Case {
    choice: Choice,
    backends: usize,
    /// How many of ten are down.
    down: usize,
    threads: usize,
}

/// What must be reached: the engine, the case, and how many times faster than pingora.
const BUDGET: [(&str, Choice, usize, usize, f64); 3] = [
    ("ours, select", Choice::Ring, 100, 0, 4.0),
    ("ours, handle, borrowed", Choice::Ring, 100, 0, 8.0),
    ("ours, select", Choice::Ring, 1000, 9, 10.0),
];

pub(crate) fn run(quick: bool) -> Result<(Value, bool), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let (mut rows, mut kept) = (Vec::new(), true);
    println!("\nselect: nanoseconds of processor time a pick (times pingora's)\n");
    println!(
        "{:<11} {:>8} {:>5} {:>7} {:>16} {:>16} {:>16} {:>9} {:>6}",
        "selector",
        "backends",
        "down",
        "threads",
        "select",
        "handle",
        "borrowed",
        "pingora",
        "misses"
    );
    for choice in [Choice::Ring, Choice::RoundRobin] {
        for backends in [4, 100, 1000, 10_000] {
            let mut engines = ours::engines(choice, backends, &runtime)?;
            engines.push(pingora::engine(choice, backends, &runtime)?);
            compare(choice, backends, &engines)?;
            let mut already_down = 0;
            for down in [0, 5, 9] {
                let down_now = backends * down / 10;
                for index in already_down..down_now {
                    let scattered = scattered(index, backends);
                    engines.iter().for_each(|engine| engine.disable(scattered));
                }
                already_down = down_now;
                for threads in [1, 2] {
                    let case = Case {
                        choice,
                        backends,
                        down,
                        threads,
                    };
                    let row = measure(case, &engines, quick);
                    kept &= report(case, &row, &engines);
                    rows.push(to_json(case, &row, &engines));
                }
            }
        }
    }
    kept &= count_allocations(&runtime)?;
    Ok((Value::Array(rows), kept))
}

/// A permutation of the backends: 7919 is prime and divides none of the sizes.
fn scattered(index: usize, backends: usize) -> usize {
    index * 7919 % backends
}

fn keys() -> Vec<String> {
    (0..16_384)
        .map(|n| format!("/products/{n}/reviews"))
        .collect()
}

/// Ours against theirs, key by key, before anything is timed. Their ring decides tied points by
/// chance, so a few keys of a large one may differ.
fn compare(choice: Choice, backends: usize, engines: &[Box<dyn Engine>]) -> Result<(), Error> {
    if choice != Choice::Ring {
        return Ok(());
    }
    let (ours, theirs) = (&engines[..3], &engines[3]);
    for ours in ours {
        let differ = |key: &&String| ours.choose(key.as_bytes()) != theirs.choose(key.as_bytes());
        let differing = keys().iter().filter(differ).count();
        if differing > backends / 200 {
            let name = ours.name();
            return Err(format!("{name}: {differing} keys differ at {backends} backends").into());
        }
    }
    Ok(())
}

/// The nanoseconds of every round, and the picks that found nobody, by engine.
struct Row {
    nanos: Vec<Vec<f64>>,
    misses: Vec<usize>,
}

fn measure(case: Case, engines: &[Box<dyn Engine>], quick: bool) -> Row {
    let keys = keys();
    let rounds = if quick { 5 } else { 31 };
    let mut row = Row {
        nanos: vec![Vec::new(); engines.len()],
        misses: vec![0; engines.len()],
    };
    for _ in 0..rounds {
        for (index, engine) in engines.iter().enumerate() {
            let (took, misses) = on_threads(case.threads, || engine.pick_all(&keys));
            let picks = case.threads * keys.len();
            row.nanos[index].push(took.as_nanos() as f64 / picks as f64);
            row.misses[index] += misses;
        }
    }
    row
}

/// The processor time of all threads together, and the sum of what they return.
///
/// The work is done once before it is timed: whoever follows another engine would pay for the
/// caches that this has filled, and of three engines over one balancer only the first.
fn on_threads(threads: usize, work: impl Fn() -> usize + Sync) -> (Duration, usize) {
    let timed = || {
        work();
        let start = clock_gettime(ClockId::ThreadCPUTime);
        let result = work();
        let end = clock_gettime(ClockId::ThreadCPUTime);
        let nanos = (end.tv_sec - start.tv_sec) * 1_000_000_000 + (end.tv_nsec - start.tv_nsec);
        (
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)),
            result,
        )
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(timed)).collect();
        let mut sum = timed();
        for other in others {
            let (took, result) = other.join().expect("a pick does not panic");
            sum = (sum.0 + took, sum.1 + result);
        }
        sum
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many times the time of this engine pingora takes.
fn ratio(row: &Row, engine: usize) -> f64 {
    let theirs = row.nanos.last().expect("pingora is the last");
    let ratios = theirs.iter().zip(&row.nanos[engine]);
    median(ratios.map(|(theirs, ours)| theirs / ours).collect())
}

/// Prints the line; returns whether it keeps the budget.
fn report(case: Case, row: &Row, engines: &[Box<dyn Engine>]) -> bool {
    let cell = |engine: usize| {
        let nanos = median(row.nanos[engine].clone());
        format!("{nanos:.1} ({:.1}x)", ratio(row, engine))
    };
    println!(
        "{:<11} {:>8} {:>4}% {:>7} {:>16} {:>16} {:>16} {:>9.1} {:>6}",
        format!("{:?}", case.choice),
        case.backends,
        case.down * 10,
        case.threads,
        cell(0),
        cell(1),
        cell(2),
        median(row.nanos[3].clone()),
        format!(
            "{}/{}",
            row.misses[..3].iter().sum::<usize>(),
            row.misses[3]
        ),
    );
    let mut kept = row.misses[..3].iter().all(|&misses| misses == 0);
    for (name, choice, backends, down, least) in BUDGET {
        let engine = engines.iter().position(|engine| engine.name() == name);
        let here = (choice, backends, down, 1);
        if let Some(engine) = engine
            && (case.choice, case.backends, case.down, case.threads) == here
        {
            let ratio = ratio(row, engine);
            let verdict = if ratio >= least { "kept" } else { "MISSED" };
            println!("  budget {verdict}: {name}: {ratio:.1}x, at least {least}x");
            kept &= ratio >= least;
        }
    }
    kept
}

fn to_json(case: Case, row: &Row, engines: &[Box<dyn Engine>]) -> Value {
    let engines = engines.iter().enumerate().map(|(index, engine)| {
        json!({
            "engine": engine.name(),
            "nanoseconds": median(row.nanos[index].clone()),
            "times": ratio(row, index),
            "misses": row.misses[index],
        })
    });
    json!({
        "selector": format!("{:?}", case.choice),
        "backends": case.backends,
        "down_percent": case.down * 10,
        "threads": case.threads,
        "engines": engines.collect::<Vec<_>>(),
    })
}

/// Prints the allocations of 1,000 picks; returns whether ours has none.
fn count_allocations(runtime: &Runtime) -> Result<bool, Error> {
    let mut engines = ours::engines(Choice::Ring, 100, runtime)?;
    engines.push(pingora::engine(Choice::Ring, 100, runtime)?);
    let keys: Vec<_> = keys().into_iter().take(1000).collect();
    let mut kept = true;
    println!("\nallocations of 1,000 picks");
    for engine in &engines {
        engine.pick_all(&keys);
        let count = allocations(|| {
            std::hint::black_box(engine.pick_all(&keys));
        });
        println!("  {:<24} {count}", engine.name());
        kept &= count == 0 || engine.name() == "pingora";
    }
    Ok(kept)
}
