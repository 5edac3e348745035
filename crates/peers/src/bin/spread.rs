//! How evenly keys are spread, and how many move when one backend joins: `cargo xtask bench spread`.
//!
//! `cargo run --release --bin spread -- [--json FILE]`
//!
//! No timings, and the same figures on every machine. A ring is asked for its exact shares of the
//! circle, and for the exact part of it that two rings map to different backends; FNV, which has no
//! circle, for the owners of a million keys. Backends have weight 1, so with V2 a point multiple is
//! the number of points of each (of 160 it is V1, point by point); a ring of other addresses is another ring, so each figure is the
//! mean over a hundred pools, and the worst of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::process::ExitCode;

use ketama::{Bucket, Continuum, RingConfig, Version};
use selection::{Build, Eligible, FNVHash, Node, NodeSet, ReadySet, Selector, WeightedConfig};
use serde_json::json;

type Error = Box<dyn std::error::Error>;

/// What is found of one pool: the heaviest share in fair shares, and the part of the keys that move.
struct Figures {
    heaviest: f64,
    moved: f64,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spread: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Error> {
    let file = match arguments.next().as_deref() {
        Some("--json") => Some(arguments.next().ok_or("--json needs a value")?),
        Some(other) => return Err(format!("no argument {other:?}").into()),
        None => None,
    };
    let mut cells = Vec::new();
    println!("| method | backends | heaviest, mean | worst | moved by one more, mean | worst |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (method, version) in methods() {
        for backends in BACKENDS {
            let pools: Vec<_> = match version {
                Some(version) => (0..POOLS)
                    .map(|pool| ring(version, pool, backends))
                    .collect::<Result<_, _>>()?,
                None => vec![fnv(backends)?],
            };
            let (heaviest, most) = mean_and_worst(pools.iter().map(|pool| pool.heaviest));
            let (moved, most_moved) = mean_and_worst(pools.iter().map(|pool| pool.moved));
            println!(
                "| {method} | {backends} | {heaviest:.3} | {most:.3} | {:.2} % | {:.2} % |",
                moved * 100.0,
                most_moved * 100.0
            );
            cells.push(json!({
                "method": method,
                "backends": backends,
                "heaviest": heaviest,
                "worst_heaviest": most,
                "moved": moved,
                "worst_moved": most_moved,
            }));
        }
    }
    if let Some(file) = file {
        let document = json!({ "pools": POOLS, "cells": cells });
        std::fs::write(file, serde_json::to_string_pretty(&document)? + "\n")?;
    }
    Ok(())
}

/// By name; FNV is no ring.
fn methods() -> Vec<(String, Option<Version>)> {
    let mut methods = vec![
        ("FNV".to_owned(), None),
        ("ring V1 (160)".to_owned(), Some(Version::V1)),
    ];
    for multiple in [10, 40, 640] {
        let point_multiple = NonZeroU32::MIN.saturating_add(multiple - 1);
        let version = Version::V2 { point_multiple };
        methods.push((format!("ring V2 x {multiple}"), Some(version)));
    }
    methods
}

fn ring(version: Version, pool: u8, backends: u8) -> Result<Figures, Error> {
    let config = RingConfig::new().version(version);
    let buckets: Vec<_> = (0..=backends)
        .map(|index| Bucket::new(address(pool, index), 1))
        .collect();
    let (_, before) = buckets.split_last().ok_or("no backends")?;
    let before = Continuum::with_config(before, &config)?;
    let after = Continuum::with_config(&buckets, &config)?;
    let heaviest = before.shares().into_iter().max().unwrap_or_default();
    let moved: u64 = before.diff(&after).iter().map(|step| step.length).sum();
    let circle = Continuum::CIRCLE as f64;
    Ok(Figures {
        heaviest: heaviest as f64 * f64::from(backends) / circle,
        moved: moved as f64 / circle,
    })
}

fn fnv(backends: u8) -> Result<Figures, Error> {
    let owners = |backends: u8| -> Result<Vec<usize>, Error> {
        let nodes = (0..backends).map(|index| Node::new(address(0, index), 1));
        let nodes = NodeSet::new(nodes)?;
        let selector = FNVHash::build(&nodes, &WeightedConfig::default())?;
        let ready = ReadySet::all(nodes.len());
        let owner = |key: u32| {
            let key = format!("/asset/{key}.jpg");
            let picked = selector.pick(key.as_bytes(), &Eligible::new(&ready));
            picked.map_or(usize::MAX, selection::NodeId::index)
        };
        Ok((0..KEYS).map(owner).collect())
    };
    let (before, after) = (owners(backends)?, owners(backends + 1)?);
    let count = |node| before.iter().filter(|&&owner| owner == node).count();
    let heaviest = (0..backends.into()).map(count).max().unwrap_or_default();
    let moved = before
        .iter()
        .zip(&after)
        .filter(|(one, other)| one != other);
    Ok(Figures {
        heaviest: heaviest as f64 * f64::from(backends) / f64::from(KEYS),
        moved: moved.count() as f64 / f64::from(KEYS),
    })
}

fn mean_and_worst(values: impl ExactSizeIterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.len() as f64;
    (
        values.clone().sum::<f64>() / count,
        values.fold(0.0, f64::max),
    )
}

fn address(pool: u8, index: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, pool, 0, index), 8080))
}

const BACKENDS: [u8; 3] = [4, 10, 50];
const POOLS: u8 = 100;
const KEYS: u32 = 1_000_000;
