//! A pick of every algorithm, from 4 to 10,000 nodes, with all of them up and with half.
//!
//! `cargo bench -p selection --bench pick -- p2c fair` runs some. Nanoseconds, the median of
//! eleven batches; beside them how a pick grows from 4 to 1,000 nodes. Every answer is checked
//! before it is timed.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use selection::{
    Algorithm, Eligible, KetamaConfig, Load, Node, NodeSet, P2cConfig, PeakEwmaConfig, ReadySet,
    Selector, WeightedConfig,
};

fn main() {
    let wanted: Vec<_> = std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with("--"))
        .collect();
    println!(
        "{:<20} {:<5} {}  x250 nodes",
        "ns a pick",
        "up",
        SIZES.map(|n| format!("{n:>9}")).concat()
    );
    for (name, algorithm) in algorithms() {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            continue;
        }
        for (up, step) in [("all", 1), ("half", 2)] {
            let times = SIZES.map(|len| time(&algorithm, len, step));
            let cells = times.map(|nanos| format!("{nanos:>9.1}")).concat();
            println!("{name:<20} {up:<5} {cells}  {:>10.1}", times[2] / times[0]);
        }
    }
}

fn algorithms() -> Vec<(&'static str, Algorithm)> {
    let by_name = |name: &'static str| (name, name.parse().unwrap());
    let mut algorithms: Vec<_> = Algorithm::NAMES.map(by_name).into();
    let peak_ewma = Load::PeakEwma(PeakEwmaConfig::default());
    let bounded = KetamaConfig::default().balance_factor(150);
    let uniform = WeightedConfig::default().fallback(selection::Fallback::Uniform);
    algorithms.extend([
        (
            "p2c peak_ewma",
            Algorithm::P2c(P2cConfig::default().load(peak_ewma)),
        ),
        ("consistent bounded", Algorithm::Consistent(bounded)),
        ("fnv uniform", Algorithm::Fnv(uniform)),
    ]);
    algorithms
}

/// Nanoseconds a pick with every `step`th of `len` nodes up, of weights 1 to 5.
fn time(algorithm: &Algorithm, len: u32, step: u32) -> f64 {
    let set = NodeSet::new((0..len).map(|i| {
        let address = (std::net::Ipv4Addr::from(0x0a00_0000 + i), 80);
        Node::new(std::net::SocketAddr::from(address), 1 + i % 5)
    }))
    .unwrap();
    let selector = algorithm.build(&set).unwrap();
    let ready = ReadySet::none(set.len());
    for index in (0..len).step_by(step as usize) {
        ready.set(index.into(), true);
    }
    let clock = || Duration::from_secs(1);
    let eligible = Eligible::new(&ready).at(&clock);
    let keys: Vec<_> = (0..1u32 << 10)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    for key in &keys {
        let picked = selector.pick(key, &eligible).unwrap();
        assert!(ready.is_ready(picked), "{picked:?}");
    }
    median(selector.as_ref(), &eligible, &keys)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn median(selector: &dyn Selector, eligible: &Eligible<'_>, keys: &[[u8; 4]]) -> f64 {
    let batch = |picks: u32| {
        let start = Instant::now();
        for key in keys.iter().cycle().take(picks as usize) {
            black_box(selector.pick(black_box(key), eligible));
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(picks)
    };
    // About two milliseconds a batch.
    let once = batch(64).max(1.0);
    let picks = [64u32, 256, 1024, 4096, 16384, 65536];
    let picks = picks
        .into_iter()
        .rfind(|&picks| f64::from(picks) * once < 2e6)
        .unwrap_or(64);
    let mut times = [0.0; 11].map(|_: f64| batch(picks));
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

const SIZES: [u32; 4] = [4, 100, 1_000, 10_000];
