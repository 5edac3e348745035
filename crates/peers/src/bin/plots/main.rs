//! The figures of the benches as pictures: `cargo xtask bench plots`.
//!
//! `cargo run --release --bin plots -- FILE FOLDER`
//!
//! FILE holds what the benches found, by their names, as `cargo xtask bench all --json FILE` writes
//! it; a bench that is absent has no pictures. The same file gives the same pictures, byte for byte.

mod chart;
mod figures;

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::chart::{Bars, Lines, Ranking, Scale};

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [file, folder] => draw(Path::new(file), Path::new(folder)),
        _ => Err("give the file with the figures, and the folder for the pictures".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plots: {error}");
            ExitCode::from(2)
        }
    }
}

fn draw(file: &Path, folder: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file:?}: {error}"))?;
    let found: Value = serde_json::from_str(&text)?;
    std::fs::create_dir_all(folder)?;
    let of = |bench: &str| found.get(bench).filter(|found| !found.is_null());
    if let Some(ring) = of("ring") {
        draw_ring(ring, folder)?;
    }
    if let Some(selection) = of("selection") {
        draw_selection(selection, folder)?;
    }
    if let Some(balancer) = of("balancer") {
        draw_balancer(balancer, folder)?;
    }
    if let Some(spread) = of("spread") {
        draw_spread(spread, folder)?;
    }
    Ok(())
}

fn draw_ring(ring: &Value, folder: &Path) -> Result<(), Error> {
    Lines {
        title: "Look-up: from the key to its backend",
        x: "points on the ring",
        y: "nanoseconds",
        scale: Scale::Decades,
        series: figures::by_points(ring, "lookup", 1.0)?,
    }
    .draw(&folder.join("ring-lookup.svg"))?;
    Lines {
        title: "Build of a ring",
        x: "points on the ring",
        y: "nanoseconds a point",
        scale: Scale::Even,
        series: figures::by_points(ring, "build", 1.0)?,
    }
    .draw(&folder.join("ring-build.svg"))?;
    Lines {
        title: "Update: one backend leaves the ring",
        x: "points on the ring",
        y: "microseconds",
        scale: Scale::Decades,
        series: figures::by_points(ring, "remove", 1e-3)?,
    }
    .draw(&folder.join("ring-update.svg"))
}

fn draw_selection(selection: &Value, folder: &Path) -> Result<(), Error> {
    Ranking {
        title: "A pick by each algorithm, everything up",
        x: "nanoseconds",
        rows: figures::by_algorithm(selection)?,
        series: &figures::SIZES.map(|size| format!("{size} nodes")),
    }
    .draw(&folder.join("selection-pick.svg"))
}

fn draw_balancer(balancer: &Value, folder: &Path) -> Result<(), Error> {
    Lines {
        title: "A pick of the balancer on the ring, one thread",
        x: "backends",
        y: "nanoseconds",
        scale: Scale::Decades,
        series: figures::by_backends(balancer)?,
    }
    .draw(&folder.join("balancer-select.svg"))
}

fn draw_spread(spread: &Value, folder: &Path) -> Result<(), Error> {
    let (series, groups) = figures::by_method(spread, "heaviest", 1.0)?;
    Bars {
        title: "Load of the heaviest of n equal backends",
        y: "fair shares (1 is even)",
        from: 0.0,
        groups: groups.iter().map(|n| format!("{n} backends")).collect(),
        series,
    }
    .draw(&folder.join("spread.svg"))?;
    let (series, groups) = figures::by_method(spread, "moved", 100.0)?;
    Bars {
        title: "Keys that move when one backend joins",
        y: "percent of all keys",
        from: 0.0,
        groups: groups.iter().map(|n| format!("{n} to {}", n + 1)).collect(),
        series,
    }
    .draw(&folder.join("moved.svg"))
}
