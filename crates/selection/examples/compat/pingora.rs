//! pingora-ketama and pingora-load-balancing 0.9.1; see `test-data/pingora/README.md`.

use std::num::NonZeroU32;

use selection::{
    Build, Consistent, Eligible, FNVHash, Fallback, KetamaConfig, Node, NodeId, NodeSet, ReadySet,
    RoundRobin, Selector, Tried, WeightedConfig,
};

use crate::Error;
use crate::scenario::Scenario;
use crate::table::{Table, numbers, unhex};

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let mut scenarios = Vec::new();
    for (set, keys) in RECORDINGS {
        scenarios.push(ring(set, *keys, "v1", &KetamaConfig::default())?);
    }
    scenarios.push(tied_points("v1_sorted", &KetamaConfig::default())?);
    for point_multiple in V2_POINT_MULTIPLES
        .iter()
        .copied()
        .filter_map(NonZeroU32::new)
    {
        let config = KetamaConfig::default().point_multiple(point_multiple);
        for (set, keys) in RECORDINGS {
            let layout = format!("v2m{point_multiple}");
            scenarios.push(ring(set, *keys, &layout, &config)?);
        }
        if point_multiple.get() == 160 {
            scenarios.push(tied_points("v2", &config)?);
        }
    }
    for (set, keys) in RECORDINGS {
        scenarios.push(fnv(set, *keys)?);
    }
    scenarios.push(round_robin()?);
    Ok(scenarios)
}

/// The first eight candidates as they come, the first four distinct ones, and how many
/// candidates these four took.
type Candidates = (Vec<usize>, Vec<usize>, usize);

/// The ring of one layout, `v1` or `v2m` and the point multiple.
fn ring(set: &str, keys: Keys, layout: &str, config: &KetamaConfig) -> Result<Scenario, Error> {
    let selector = Consistent::build(&pool(set)?, config)?;
    let file = keys.file(&format!("ketama_{set}"));
    candidates(&file, layout, keys, |key| {
        let walk = || selector.ring().walk(selector.ring().hash(key));
        let distinct = if key.is_empty() {
            // pingora hashes an empty key; a selector of ours takes turns, its ring does not.
            distinct(walk())
        } else {
            picks(&selector, key)
        };
        let steps = steps(walk(), &distinct);
        (walk().take(RAW).collect(), distinct, steps)
    })
}

/// The table drawn from by FNV-1a, with the unweighted fallback.
fn fnv(set: &str, keys: Keys) -> Result<Scenario, Error> {
    let config = WeightedConfig::default().fallback(Fallback::Uniform);
    let selector = FNVHash::build(&pool(set)?, &config)?;
    let file = keys.file(&format!("fnv_{set}"));
    candidates(&file, "fnv", keys, |key| {
        let walk = || selector.candidates(key).map(NodeId::index);
        let distinct = picks(&selector, key);
        let steps = steps(walk(), &distinct);
        (walk().take(RAW).collect(), distinct, steps)
    })
}

/// Compares the columns `LAYOUT_raw8`, `LAYOUT_uniq4` and `LAYOUT_steps` of one file.
fn candidates(
    file: &str,
    layout: &str,
    keys: Keys,
    ours: impl Fn(&[u8]) -> Candidates,
) -> Result<Scenario, Error> {
    let table = Table::read(&format!("pingora/{file}.csv"))?;
    let columns = ["raw8", "uniq4", "steps"].map(|column| format!("{layout}_{column}"));
    let [raw, unique, steps] = columns.each_ref().map(String::as_str);
    let mut scenario = match file.strip_prefix(layout) {
        Some(_) => Scenario::new("pingora", file),
        None => Scenario::new("pingora", format!("{file}_{layout}")),
    };
    for [key, raw, unique, steps] in table.columns(["key", raw, unique, steps])? {
        let theirs = (numbers(raw)?, numbers(unique)?, steps.parse()?);
        scenario.decide(key, theirs, ours(&keys.bytes(key)?));
    }
    Ok(scenario)
}

/// Points that two of 1,000 backends claim. pingora's V1 leaves the winner to an unstable sort; in
/// ours the first listed wins, which is the lowest address here, as in pingora's V2.
fn tied_points(winners: &str, config: &KetamaConfig) -> Result<Scenario, Error> {
    let nodes = pool("b1000")?;
    let selector = Consistent::build(&nodes, config)?;
    let ready = ReadySet::all(nodes.len());
    let table = Table::read("pingora/collisions_1000x1.csv")?;
    let mut scenario = Scenario::new("pingora", format!("collisions_1000x1_{winners}"));
    let columns = ["hash", "key_hex_with_that_crc32", winners, "v2"];
    for [hash, key, theirs, lowest] in table.columns(columns)? {
        let node = selector.pick(&unhex(key)?, &Eligible::new(&ready));
        let ours = node.map_or_else(String::new, |node| nodes[node].identity().to_string());
        scenario.decide_as(format!("tied point {hash}"), theirs, lowest, &ours);
    }
    Ok(scenario)
}

/// Successive picks while everything is up.
fn round_robin() -> Result<Scenario, Error> {
    let table = Table::read("pingora/round_robin.csv")?;
    let mut scenario = Scenario::new("pingora", "round_robin");
    for [weights, theirs] in table.columns(["weights", "picks"])? {
        let weights = numbers(weights)?.into_iter().enumerate();
        let nodes = weights.map(|(index, weight)| {
            let weight = u32::try_from(weight)?;
            Ok(Node::new(
                format!("10.0.0.{}:80", index + 1).as_str(),
                weight,
            ))
        });
        let nodes = NodeSet::new(nodes.collect::<Result<Vec<_>, Error>>()?)?;
        let selector = RoundRobin::build(&nodes, &WeightedConfig::default())?;
        let ready = ReadySet::all(nodes.len());
        let theirs = numbers(theirs)?;
        let ours = theirs
            .iter()
            .map_while(|_| selector.pick(b"", &Eligible::new(&ready)))
            .map(NodeId::index)
            .collect();
        scenario.decide(format!("{nodes:?}"), theirs, ours);
    }
    Ok(scenario)
}

/// A pool of `backends.csv`. pingora hashes IPv6 addresses without their brackets.
fn pool(set: &str) -> Result<NodeSet, Error> {
    let table = Table::read("pingora/backends.csv")?;
    let mut nodes = Vec::new();
    for [of, address, weight] in table.columns(["set", "addr", "weight"])? {
        if of == set {
            let node = Node::new(address, weight.parse()?);
            nodes.push(node.with_ring_name(address.replace(['[', ']'], "")));
        }
    }
    if nodes.is_empty() {
        return Err(format!("no set {set:?} in backends.csv").into());
    }
    Ok(NodeSet::in_order(nodes)?)
}

/// Four picks for `key`, each with the nodes of the ones before taken out.
fn picks(selector: &dyn Selector, key: &[u8]) -> Vec<usize> {
    let ready = ReadySet::all(selector.len());
    let mut tried = Tried::new();
    let mut nodes = Vec::new();
    while nodes.len() < DISTINCT
        && let Some(node) = selector.pick(key, &Eligible::new(&ready).except(&tried))
    {
        tried.insert(node);
        nodes.push(node.index());
    }
    nodes
}

/// The first four distinct nodes of `walk`.
fn distinct(walk: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut nodes = Vec::new();
    for node in walk {
        if !nodes.contains(&node) {
            nodes.push(node);
        }
        if nodes.len() == DISTINCT {
            break;
        }
    }
    nodes
}

/// How far `walk` goes until it has met the last of `nodes`; 0 if it does not.
fn steps(walk: impl Iterator<Item = usize>, nodes: &[usize]) -> usize {
    let last = nodes.last();
    let mut walk = walk.take(MAX_STEPS);
    walk.position(|node| Some(&node) == last)
        .map_or(0, |position| position + 1)
}

/// How the column `key` is written.
#[derive(Clone, Copy)]
enum Keys {
    Text,
    Hex,
}

impl Keys {
    fn file(self, table: &str) -> String {
        match self {
            Self::Text => table.to_owned(),
            Self::Hex => format!("{table}_bin"),
        }
    }

    fn bytes(self, key: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text => Ok(key.as_bytes().to_vec()),
            Self::Hex => unhex(key),
        }
    }
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

/// Points per unit of weight of the V2 rings recorded.
const V2_POINT_MULTIPLES: &[u32] = &[10, 40, 160];

/// How many raw and how many distinct candidates are recorded of a key.
const RAW: usize = 8;
const DISTINCT: usize = 4;

/// The walks do not end by themselves; this is the limit that pingora was recorded with.
const MAX_STEPS: usize = 1_000_000;
