//! A pick of every algorithm against other crates, in one process: `cargo xtask bench selection`.
//!
//! `cargo run --release --bin selection -- [NAME...] [--json FILE] [--check]`
//!
//! From 4 to 10,000 nodes of weights 1 to 5, with all of them up and with every second. The engines
//! of a row take turns in every round, so what else the machine does hits them alike; the figures
//! are medians of the rounds, the ratio is the median of theirs / ours within a round. Each answer
//! is checked to be up before anything is timed.
//!
//! What is timed: ours asks readiness bits, and so finds a node that is up. pingora's selectors know
//! nothing of readiness; its candidates are taken until one is up by the same bits, without the
//! `HashSet` that its `LoadBalancer` adds. tower's balancer is polled until it is ready and called,
//! with services that answer at once; it has no weights and no keys.
//!
//! `--check` exits with 1 if an algorithm grows with the number of nodes that should not.

mod others;
mod ours;
mod report;

use std::hint::black_box;
use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};

/// Something that picks one of n nodes for a key; the number of the node.
type Pick = Box<dyn FnMut(&[u8; 4]) -> usize>;

/// How the pick of one crate is made, for n nodes of which every `step`th is up.
struct Engine {
    name: &'static str,
    make: fn(u32, u32) -> Option<Pick>,
}

/// One line of the table.
struct Line {
    algorithm: &'static str,
    up: &'static str,
    engine: &'static str,
    /// By size: the nanoseconds, and how many times ours they are.
    cells: [Option<(f64, f64)>; SIZES.len()],
}

/// The nodes of a row: their number, and every how manieth is up.
const UP: [(&str, u32); 2] = [("all", 1), ("half", 2)];
const SIZES: [u32; 4] = [4, 100, 1_000, 10_000];
const ROUNDS: usize = 15;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("selection: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all is within the budget, or nobody asked.
fn run(arguments: impl Iterator<Item = String>) -> Result<bool, Box<dyn std::error::Error>> {
    let arguments = Arguments::parse(arguments)?;
    let sizes = SIZES.map(|n| format!("{n:>10}")).concat();
    println!("{:<44}{sizes}   4 to 1,000", "ns a pick (theirs / ours)");
    let mut lines = Vec::new();
    for (algorithm, engines) in rows() {
        if !arguments.wants(algorithm) {
            continue;
        }
        for (up, step) in UP {
            let columns = SIZES.map(|len| column(&engines, len, step));
            for (index, engine) in engines.iter().enumerate() {
                let line = Line {
                    algorithm,
                    up,
                    engine: engine.name,
                    cells: columns.each_ref().map(|column| column[index]),
                };
                report::print(&line);
                lines.push(line);
            }
        }
    }
    let kept = report::budget(&lines);
    if let Some(file) = arguments.json {
        std::fs::write(file, report::json(&lines)?)?;
    }
    Ok(!arguments.check || kept)
}

#[derive(Default)]
struct Arguments {
    /// Parts of the names of the algorithms to time; all of them if there are none.
    names: Vec<String>,
    json: Option<String>,
    check: bool,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => parsed.json = Some(arguments.next().ok_or("--json needs a value")?),
                "--check" => parsed.check = true,
                flag if flag.starts_with('-') => return Err(format!("no argument {flag:?}")),
                _ => parsed.names.push(argument),
            }
        }
        Ok(parsed)
    }

    fn wants(&self, algorithm: &str) -> bool {
        let names = &self.names;
        names.is_empty() || names.iter().any(|name| algorithm.contains(name.as_str()))
    }
}

fn rows() -> Vec<(&'static str, Vec<Engine>)> {
    let peers = others::all();
    let with_peers = |(algorithm, make)| {
        let ours = Engine { name: "ours", make };
        let theirs = peers.iter().filter(|(of, ..)| *of == algorithm);
        let theirs = theirs.map(|&(_, name, make)| Engine { name, make });
        (algorithm, std::iter::once(ours).chain(theirs).collect())
    };
    ours::all().into_iter().map(with_peers).collect()
}

/// Per engine the nanoseconds and the ratio to the first.
fn column(engines: &[Engine], len: u32, step: u32) -> Vec<Option<(f64, f64)>> {
    let keys: Vec<[u8; 4]> = (0..1u32 << 10)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    let mut picks: Vec<_> = engines
        .iter()
        .map(|engine| (engine.make)(len, step))
        .collect();
    for pick in picks.iter_mut().flatten() {
        for key in &keys {
            let node = pick(key);
            assert!(
                node < len as usize && node % step as usize == 0,
                "{node} is down"
            );
        }
    }
    let mut times = vec![Vec::with_capacity(ROUNDS); picks.len()];
    for _ in 0..ROUNDS {
        for (pick, times) in picks.iter_mut().zip(&mut times) {
            times.extend(pick.as_mut().map(|pick| time(pick, &keys)));
        }
    }
    let ours = times[0].clone();
    times
        .iter()
        .map(|times| {
            let ratios = times.iter().zip(&ours).map(|(theirs, ours)| theirs / ours);
            Some((median(times.iter().copied())?, median(ratios)?))
        })
        .collect()
}

/// Nanoseconds of this thread's processor time a pick, over a millisecond or so.
fn time(pick: &mut Pick, keys: &[[u8; 4]]) -> f64 {
    let mut picks = 0u32;
    let start = processor_time();
    loop {
        for key in keys
            .iter()
            .cycle()
            .skip(picks as usize % keys.len())
            .take(1024)
        {
            black_box(pick(black_box(key)));
        }
        picks += 1024;
        let took = processor_time() - start;
        if took > 1e6 {
            return took / f64::from(picks);
        }
    }
}

/// Of this thread, in nanoseconds: what others do to the machine does not count.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
