//! pingora-ketama and pingora-load-balancing 0.9.1; see `test-data/pingora/README.md`.

use selection::ketama::{Bucket, Continuum};

use crate::Error;
use crate::scenario::Scenario;
use crate::table::{Table, numbers, unhex};

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let mut scenarios = Vec::new();
    for (set, keys) in RECORDINGS {
        scenarios.push(ring_v1(set, *keys)?);
    }
    scenarios.push(collisions()?);
    Ok(scenarios)
}

/// How the column `key` is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Text,
    Hex,
}

impl Keys {
    fn file(self, table: &str) -> String {
        match self {
            Self::Text => format!("{table}.csv"),
            Self::Hex => format!("{table}_bin.csv"),
        }
    }

    fn bytes(self, key: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text => Ok(key.as_bytes().to_vec()),
            Self::Hex => unhex(key),
        }
    }
}

/// A pool of `backends.csv`.
struct Pool {
    addresses: Vec<String>,
    buckets: Vec<Bucket>,
}

impl Pool {
    fn read(set: &str) -> Result<Self, Error> {
        let table = Table::read("pingora/backends.csv")?;
        let mut pool = Self {
            addresses: Vec::new(),
            buckets: Vec::new(),
        };
        for [of, address, weight] in table.columns(["set", "addr", "weight"])? {
            if of == set {
                pool.addresses.push(address.to_owned());
                // pingora hashes IPv6 addresses without their brackets.
                let text = address.replace(['[', ']'], "");
                pool.buckets.push(Bucket::from_text(text, weight.parse()?));
            }
        }
        if pool.buckets.is_empty() {
            return Err(format!("no set {set:?} in backends.csv").into());
        }
        Ok(pool)
    }
}

/// The V1 ring: the first eight owners point by point, the first four distinct ones, and the steps
/// to the last of these.
fn ring_v1(set: &str, keys: Keys) -> Result<Scenario, Error> {
    let ring = Continuum::new(&Pool::read(set)?.buckets)?;
    let file = keys.file(&format!("ketama_{set}"));
    let table = Table::read(&format!("pingora/{file}"))?;
    let mut scenario = Scenario::new("pingora", format!("v1_{}", file.trim_end_matches(".csv")));
    for [key, raw, unique, steps] in table.columns(["key", "v1_raw8", "v1_uniq4", "v1_steps"])? {
        let hash = ring.hash(&keys.bytes(key)?);
        let (our_unique, our_steps) = distinct(ring.walk(hash), 4);
        let ours = (ring.walk(hash).take(8).collect(), our_unique, our_steps);
        let theirs = (numbers(raw)?, numbers(unique)?, steps.parse()?);
        scenario.decide(key, theirs, ours);
    }
    Ok(scenario)
}

/// The first `count` distinct nodes of `walk`, and how many steps they took.
fn distinct(walk: impl Iterator<Item = usize>, count: usize) -> (Vec<usize>, usize) {
    let mut nodes = Vec::new();
    for (steps, node) in (1..).zip(walk) {
        if !nodes.contains(&node) {
            nodes.push(node);
        }
        if nodes.len() == count {
            return (nodes, steps);
        }
    }
    (nodes, 0)
}

/// Points that two of 1,000 backends claim. pingora's V1 leaves the winner to an unstable sort; in
/// ours the first listed wins, which is the lowest address here, as in pingora's V2.
fn collisions() -> Result<Scenario, Error> {
    let pool = Pool::read("b1000")?;
    let ring = Continuum::new(&pool.buckets)?;
    let table = Table::read("pingora/collisions_1000x1.csv")?;
    let mut scenario = Scenario::new("pingora", "v1_tied_points_1000x1");
    let columns = ["hash", "key_hex_with_that_crc32", "v1_sorted", "v2"];
    for [hash, key, v1, lowest] in table.columns(columns)? {
        let ours = ring
            .node_idx(&unhex(key)?)
            .map(|index| &pool.addresses[index]);
        let ours = ours.map_or("none", String::as_str);
        scenario.decide_as(format!("tied point {hash}"), &v1, lowest, ours);
    }
    Ok(scenario)
}

const RECORDINGS: &[(&str, Keys)] = &[
    ("eq4", Keys::Text),
    ("eq4", Keys::Hex),
    ("w1234", Keys::Text),
    ("nine100", Keys::Text),
    ("nine100", Keys::Hex),
    ("ipv6", Keys::Text),
    ("ipv6", Keys::Hex),
    ("b100", Keys::Text),
    ("b100", Keys::Hex),
];
