//! bRPC 1.17.0: the three consistent-hashing balancers; see `test-data/brpc/README.md`.

use std::fmt::Write;
use std::net::SocketAddrV4;

use selection::ketama::{Bucket, Continuum, KeyHash, Scheme, SchemeConfig};

use crate::Error;
use crate::scenario::Scenario;
use crate::table::{self, Table};

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let mut scenarios = vec![hash_values()?];
    for balancer in BALANCERS {
        scenarios.push(whole_ring(balancer)?);
        for set in ["four", "hundred"] {
            for replicas in [100, 160] {
                scenarios.push(choices(set, balancer, replicas)?);
            }
        }
        scenarios.push(exclusions(balancer)?);
    }
    scenarios.push(failures()?);
    scenarios.push(shares()?);
    scenarios.push(descriptions()?);
    Ok(scenarios)
}

fn ring(set: &str, balancer: &str, replicas: u32) -> Result<Continuum, Error> {
    let scheme = match balancer {
        "c_murmurhash" => Scheme::BrpcMurmurHash { replicas },
        "c_md5" => Scheme::BrpcMd5 { replicas },
        "c_ketama" => Scheme::BrpcKetama { replicas },
        _ => return Err(format!("unknown balancer {balancer:?}").into()),
    };
    let servers: Vec<_> = match set {
        "four" => (1..=4).map(|n| format!("10.0.0.{n}:8000")).collect(),
        "hundred" => (0..100)
            .map(|n| format!("10.1.{}.{}:{}", n / 10, n % 10 + 1, 8000 + n % 7))
            .collect(),
        "mixed" => MIXED.iter().map(|&server| server.to_owned()).collect(),
        _ => return Err(format!("unknown set {set:?}").into()),
    };
    // Weights that differ, since these balancers must ignore them.
    let weights = [3, 1, 2].into_iter().cycle();
    let buckets: Vec<_> = servers
        .into_iter()
        .zip(weights)
        .map(|(server, weight)| Bucket::from_text(server, weight))
        .collect();
    Ok(Continuum::with_scheme(
        &buckets,
        &SchemeConfig::new(scheme),
    )?)
}

fn hash_values() -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("brpc", "hash_values");
    let keys = table::text("keys/keys.txt")?;
    let table = Table::read("brpc/hash_values.csv")?;
    let rows = table.columns(["murmurhash32", "md5hash32", "crchash32"])?;
    for (key, theirs) in keys.lines().zip(rows) {
        let hashes = [KeyHash::Murmur3, KeyHash::Md5, KeyHash::Crc15];
        let ours = hashes.map(|hash| hash.hash(key.as_bytes()).to_string());
        scenario.decide(key, theirs, ours.each_ref().map(String::as_str));
    }
    Ok(scenario)
}

/// Every point and its server, in order.
fn whole_ring(balancer: &str) -> Result<Scenario, Error> {
    let name = format!("ring_four_{balancer}_100");
    let mut scenario = Scenario::new("brpc", &*name);
    let ring = ring("four", balancer, 100)?;
    let mut ours = ring.points();
    for [hash, server] in Table::read(&format!("brpc/{name}.csv"))?.columns(["hash", "server"])? {
        let ours = ours
            .next()
            .map(|(hash, node)| (hash, ring.buckets()[node].text()));
        scenario.decide(hash, Some((hash.parse()?, server)), ours);
    }
    scenario.decide("points behind the last", None, ours.next());
    Ok(scenario)
}

fn choices(set: &str, balancer: &str, replicas: u32) -> Result<Scenario, Error> {
    let column = format!("{balancer}_{replicas}");
    let mut scenario = Scenario::new("brpc", format!("select_{set}_{column}"));
    let ring = ring(set, balancer, replicas)?;
    let table = Table::read(&format!("brpc/select_{set}.csv"))?;
    for [code, server] in table.columns(["request_code", &column])? {
        let ours = ring.node_for_hash(code.parse()?).map(Bucket::text);
        scenario.decide(code, Some(server), ours);
    }
    Ok(scenario)
}

/// With the first 0 to 4 of the four servers excluded.
///
/// bRPC goes round the ring once. On the last step it takes what it finds: with all excluded that
/// is the owner of the point before the first choice.
fn exclusions(balancer: &str) -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("brpc", format!("excluded_four_{balancer}"));
    let ring = ring("four", balancer, 100)?;
    let table = Table::read("brpc/excluded_four.csv")?;
    for excluded in 0..=4 {
        let column = format!("{balancer}_excl{excluded}");
        for [code, server] in table.columns(["request_code", &column])? {
            let once_round = || ring.walk(code.parse().unwrap_or(0)).take(ring.len());
            let ours = once_round()
                .find(|&node| node >= excluded)
                .or_else(|| once_round().last());
            let ours = ours.map(|node| ring.buckets()[node].text());
            scenario.decide(format_args!("{column} {code}"), Some(server), ours);
        }
    }
    Ok(scenario)
}

/// With the first server failed: the next in failover order.
fn failures() -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("brpc", "failed_four_c_murmurhash");
    let ring = ring("four", "c_murmurhash", 100)?;
    let table = Table::read("brpc/failed_four_c_murmurhash.csv")?;
    for [code, before, after] in
        table.columns(["request_code", "before", "after_10.0.0.1_failed"])?
    {
        let mut nodes = ring
            .walk(code.parse()?)
            .map(|node| ring.buckets()[node].text());
        let first = nodes.clone().next();
        let left = nodes.find(|&node| node != "10.0.0.1:8000");
        scenario.decide(code, (Some(before), Some(after)), (first, left));
    }
    Ok(scenario)
}

/// The part of the circle of each server, to the last bit, and its number of points.
fn shares() -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("brpc", "shares");
    let table = Table::read("brpc/shares.csv")?;
    for [set, balancer, replicas, server, share, points] in
        table.columns(["set", "lb", "replicas", "server", "share", "points"])?
    {
        let ring = ring(set, balancer, replicas.parse()?)?;
        let ours = load(&ring)
            .into_iter()
            .find(|load| load.server == server)
            .map(|load| (load.share, load.points));
        let theirs = Some((share.parse()?, points.parse()?));
        let row = format_args!("{set} {balancer} {replicas} {server}");
        scenario.decide(row, theirs, ours);
    }
    Ok(scenario)
}

/// The text of `Describe(verbose)`, line by line.
fn descriptions() -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("brpc", "describe");
    let theirs = table::text("brpc/describe.txt")?;
    let mut ours = String::new();
    for set in ["four", "hundred", "mixed"] {
        for balancer in BALANCERS {
            for replicas in [100, 160] {
                let ring = ring(set, balancer, replicas)?;
                writeln!(ours, "### set {set} {balancer}_{replicas}")?;
                describe(&mut ours, balancer, replicas, &ring)?;
            }
        }
    }
    let mut ours = ours.lines();
    for (number, line) in (1..).zip(theirs.lines()) {
        scenario.decide(format_args!("line {number}"), Some(line), ours.next());
    }
    scenario.decide("lines behind the last", None, ours.next());
    Ok(scenario)
}

fn describe(
    out: &mut String,
    balancer: &str,
    replicas: u32,
    ring: &Continuum,
) -> Result<(), Error> {
    let hash = match balancer {
        "c_murmurhash" => "murmurhash3",
        "c_md5" => "md5",
        other => other.trim_start_matches("c_"),
    };
    let mut loads = load(ring);
    loads.sort_by_key(|load| s_addr(load.server));
    writeln!(out, "ConsistentHashingLoadBalancer {{")?;
    writeln!(out, "  hash function: {hash}")?;
    writeln!(out, "  replica per host: {replicas}")?;
    writeln!(out, "  number of hosts: {}", loads.len())?;
    writeln!(out, "  load of hosts: {{")?;
    for load in &loads {
        writeln!(out, "    {}: {}", load.server, six_digits(load.share))?;
    }
    writeln!(out, "  }}")?;
    let mean = 1.0 / loads.len() as f64;
    let squares: f64 = loads.iter().map(|load| (load.share - mean).powi(2)).sum();
    let deviation = (squares * mean).sqrt() / mean;
    writeln!(out, "deviation: {}}}", six_digits(deviation))?;
    writeln!(out)?;
    Ok(())
}

/// What bRPC sorts servers by: the address as a little-endian number. Others come first.
fn s_addr(server: &str) -> Option<u32> {
    let address: SocketAddrV4 = server.parse().ok()?;
    Some(u32::from_le_bytes(address.ip().octets()))
}

struct Load<'a> {
    server: &'a str,
    share: f64,
    points: u32,
}

/// The shares as bRPC computes them: arcs end at their point, and the circle is one short.
fn load(ring: &Continuum) -> Vec<Load<'_>> {
    let mut arcs = vec![(0u32, 0u32); ring.buckets().len()];
    let last = ring.points().last().map_or(0, |(hash, _)| hash);
    let mut previous = None;
    for (hash, node) in ring.points() {
        let arc = match previous {
            None => hash + (u32::MAX - last),
            Some(previous) => hash - previous,
        };
        previous = Some(hash);
        arcs[node].0 += arc;
        arcs[node].1 += 1;
    }
    ring.buckets()
        .iter()
        .zip(arcs)
        .map(|(bucket, (arc, points))| Load {
            server: bucket.text(),
            share: f64::from(arc) / f64::from(u32::MAX),
            points,
        })
        .collect()
}

/// A number below 1 as C++ streams print it: six significant digits, no zeros at the end.
fn six_digits(number: f64) -> String {
    let leading_zeros = (1..6)
        .take_while(|&digits| number < 0.1f64.powi(digits))
        .count();
    let text = format!("{number:.*}", 6 + leading_zeros);
    text.trim_end_matches('0').to_owned()
}

const BALANCERS: [&str; 3] = ["c_murmurhash", "c_md5", "c_ketama"];

const MIXED: &[&str] = &[
    "[2408:871a:2100:3:0:ff:b025:348d]:8833",
    "[::1]:80",
    "unix:test.sock",
    "10.92.115.19:8833",
    "10.42.108.25:8833",
    "10.36.150.32:8833",
];
