//! twemproxy 0.5.0; see `test-data/twemproxy/README.md`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use selection::ketama::{Bucket, Continuum, KeyHash, Scheme, SchemeConfig};

use crate::Error;
use crate::scenario::Scenario;
use crate::table::{self, Table};

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let four = |port: u16, weight: fn(u32) -> u32| -> Vec<Bucket> {
        (1..=4)
            .map(|n| Bucket::from_text(format!("127.0.1.{n}:{port}"), weight(n)))
            .collect()
    };
    let single = [Bucket::from_text("127.0.1.1:11211", 1)];
    Ok(vec![
        choices("equal4_11211", &four(11211, |_| 1))?,
        choices("equal4_11212", &four(11212, |_| 1))?,
        choices("w1234_11211", &four(11211, |n| n))?,
        choices("w1234_11212", &four(11212, |n| n))?,
        choices("single", &single)?,
        tags()?,
    ])
}

/// A line a hash: the server of each key as one digit.
fn choices(name: &str, buckets: &[Bucket]) -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("twemproxy", name);
    let keys = table::text("keys/keys.txt")?;
    let table = Table::read(&format!("twemproxy/{name}.csv"))?;
    for [hash, servers] in table.columns(["hash", "servers"])? {
        let mut config = SchemeConfig::new(Scheme::Twemproxy { hash_tag: None });
        if hash != "default" {
            config = config.key_hash(key_hash(hash)?);
        }
        let ring = Continuum::with_scheme(buckets, &config)?;
        if servers.len() != keys.lines().count() {
            return Err(format!("{name}: {hash}: not one digit a key").into());
        }
        for (key, server) in keys.lines().zip(servers.chars()) {
            let theirs = server.to_digit(10).map(|digit| digit as usize);
            let ours = ring.node_idx(key.as_bytes());
            scenario.decide(format_args!("{hash} {key}"), theirs, ours);
        }
    }
    Ok(scenario)
}

/// What part of a key is hashed under `hash_tag`.
///
/// The names of the servers behind this recording are lost, so the owners cannot be computed.
/// What can be checked: whatever we say is hashed alike has gone to the same server.
fn tags() -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("twemproxy", "tag");
    let table = Table::read("twemproxy/tag.csv")?;
    let mut servers = HashMap::new();
    for (column, hash_tag) in [
        ("none", None),
        ("braces", Some(*b"{}")),
        ("dollars", Some(*b"$$")),
    ] {
        let config = SchemeConfig::new(Scheme::Twemproxy { hash_tag });
        let ring = Continuum::with_scheme(&[], &config)?;
        for [key, server] in table.columns(["key", column])? {
            match servers.entry(ring.hash(key.as_bytes())) {
                Entry::Vacant(entry) => {
                    entry.insert(server);
                }
                Entry::Occupied(entry) => {
                    scenario.decide(format_args!("{column} {key}"), server, *entry.get());
                }
            }
        }
    }
    Ok(scenario)
}

fn key_hash(name: &str) -> Result<KeyHash, Error> {
    Ok(match name {
        "one_at_a_time" => KeyHash::OneAtATime,
        "md5" => KeyHash::Md5,
        "crc16" => KeyHash::Crc16,
        "crc32" => KeyHash::Crc15,
        "crc32a" => KeyHash::Crc32,
        "fnv1_64" => KeyHash::Fnv1_64,
        "fnv1a_64" => KeyHash::Fnv1a64,
        "fnv1_32" => KeyHash::Fnv1_32,
        "fnv1a_32" => KeyHash::Fnv1a32,
        "hsieh" => KeyHash::Hsieh,
        "murmur" => KeyHash::Murmur2,
        "jenkins" => KeyHash::Jenkins,
        _ => return Err(format!("unknown hash {name:?}").into()),
    })
}
