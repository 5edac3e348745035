//! RJ's libketama; see `test-data/rj-ketama/README.md`.

use md5::{Digest, Md5};
use selection::ketama::{Bucket, Continuum, Scheme, SchemeConfig};

use crate::Error;
use crate::scenario::Scenario;
use crate::table::{self, Table};

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let mut scenarios = Vec::new();
    for set in ["equal4", "w1234", "ketama"] {
        let ring = ring(set)?;
        scenarios.push(whole_ring(set, &ring)?);
        scenarios.push(choices(set, &ring)?);
    }
    scenarios.push(own_test()?);
    Ok(scenarios)
}

/// The servers of a list in the program's own format.
fn ring(set: &str) -> Result<Continuum, Error> {
    let mut buckets = Vec::new();
    let list = table::text(&format!("rj-ketama/{set}.servers"))?;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (address, weight) = line.split_once('\t').ok_or("a server without a weight")?;
        buckets.push(Bucket::from_text(address, weight.trim().parse()?));
    }
    let config = SchemeConfig::new(Scheme::LibKetama);
    Ok(Continuum::with_scheme(&buckets, &config)?)
}

/// Every point and its server, in order.
fn whole_ring(set: &str, ring: &Continuum) -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("rj-ketama", format!("ring_{set}"));
    let table = Table::read(&format!("rj-ketama/ring_{set}.csv"))?;
    let mut ours = ring.points();
    for [point, server] in table.columns(["point", "server"])? {
        let ours = ours
            .next()
            .map(|(hash, node)| (hash, ring.buckets()[node].text()));
        scenario.decide(point, Some((point.parse()?, server)), ours);
    }
    scenario.decide("points behind the last", None, ours.next());
    Ok(scenario)
}

/// The hash of each key, the point it falls to and its server.
fn choices(set: &str, ring: &Continuum) -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("rj-ketama", set);
    let keys = table::text("keys/keys.txt")?;
    let points: Vec<_> = ring.points().map(|(hash, _)| hash).collect();
    let table = Table::read(&format!("rj-ketama/{set}.csv"))?;
    let rows = table.columns(["key_hash", "point", "server"])?;
    for (key, [hash, point, server]) in keys.lines().zip(rows) {
        let our_hash = ring.hash(key.as_bytes());
        let at = points.partition_point(|&point| point < our_hash) % points.len();
        let owner = ring.node(key.as_bytes()).map(Bucket::text);
        let theirs = (hash.parse()?, point.parse()?, Some(server));
        scenario.decide(key, theirs, (our_hash, points[at], owner));
    }
    Ok(scenario)
}

/// The library's own test: a line `hash point server` for each of the keys 0 to 999,999. One
/// decision, since only the MD5 of all lines is recorded.
fn own_test() -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("rj-ketama", "own_test");
    let ring = ring("ketama")?;
    let points: Vec<_> = ring.points().map(|(hash, _)| hash).collect();
    let mut digest = Md5::new_with_prefix("\n");
    for key in 0..1_000_000 {
        let key = key.to_string();
        let hash = ring.hash(key.as_bytes());
        let point = points[points.partition_point(|&point| point < hash) % points.len()];
        let server = ring.node(key.as_bytes()).map_or("none", Bucket::text);
        digest.update(format!("{hash} {point} {server}\n"));
    }
    let ours = u128::from_be_bytes(digest.finalize().into());
    scenario.decide("MD5 of a million lines", OWN_TEST, ours);
    Ok(scenario)
}

const OWN_TEST: u128 = 0x5672_b131_391f_5aa2_b280_936a_ec1e_ea74;
