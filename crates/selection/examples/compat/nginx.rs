//! nginx: decisions of real servers, 1.22.1 and 1.31.5 alike; see `test-data/nginx/README.md`.

use selection::{Build, Consistent, Eligible, KetamaConfig, ReadySet, Selector};

use crate::Error;
use crate::nginx_trace;
use crate::scenario::Scenario;
use crate::table::Table;
use crate::upstream::Upstream;

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let first_choices: Result<Vec<_>, _> =
        CONSISTENT_HASH.iter().copied().map(first_choices).collect();
    let mut scenarios = first_choices?;
    scenarios.extend(nginx_trace::scenarios()?);
    Ok(scenarios)
}

/// `hash KEY consistent` while every server is up: one key, one server.
fn first_choices(name: &'static str) -> Result<Scenario, Error> {
    let nodes = Upstream::read(name)?.nodes()?;
    let selector = Consistent::build(&nodes, &KetamaConfig::default())?;
    let ready = ReadySet::all(nodes.len());
    let table = Table::read(&format!("nginx/{name}.csv"))?;
    let mut scenario = Scenario::new("nginx", name);
    for [key, upstream] in table.columns(["key", "upstream"])? {
        let node = selector.pick(key.as_bytes(), &Eligible::new(&ready));
        let ours = node.map(|node| nodes[node].identity().to_string());
        scenario.decide(key, Some(upstream.to_owned()), ours);
    }
    Ok(scenario)
}

const CONSISTENT_HASH: &[&str] = &[
    "a_chash_uri_9x443_w100",
    "a2_chash_uri_9x443_w1",
    "a3_chash_ring_collisions",
    "a4_chash_ring_collisions_reversed",
    "a5_chash_exact_points_and_wrap",
    "b_chash_w1234_10k",
    "b5_chash_single_server",
    "c_chash_ipv6",
    "d_chash_unix",
    "d3_chash_no_port",
];
