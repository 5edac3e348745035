//! libmemcached 1.1.4; see `test-data/libmemcached/README.md`.

use selection::ketama::{Bucket, Continuum, KeyHash, PointNames, Scheme, SchemeConfig};

use crate::Error;
use crate::scenario::Scenario;
use crate::table::{self, Table, unhex};

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let mut scenarios = hash_values()?;
    for set in ["equal4", "w1234"] {
        for port in [11211, 11212] {
            let pool = Pool::new(set, port);
            scenarios.push(distributions(&pool)?);
            scenarios.push(call_orders(&pool)?);
        }
    }
    Ok(scenarios)
}

/// Four servers, with the weights 1 to 4 or without weights.
struct Pool {
    name: String,
    buckets: Vec<Bucket>,
    weighted: bool,
}

impl Pool {
    fn new(set: &str, port: u16) -> Self {
        let weighted = set == "w1234";
        let weight = |n| if weighted { n } else { 1 };
        Self {
            name: format!("{set}_{port}"),
            buckets: (1..=4)
                .map(|n| Bucket::from_text(format!("10.0.0.{n}:{port}"), weight(n)))
                .collect(),
            weighted,
        }
    }

    /// What "consistent" builds: a server of weight > 1 turns the weighted ring on.
    fn consistent(&self, names: PointNames, point_hash: KeyHash) -> Scheme {
        if self.weighted {
            Scheme::LibmemcachedWeighted { names }
        } else {
            Scheme::LibmemcachedPlain { names, point_hash }
        }
    }

    /// Compares one column: the server of each key as one digit.
    fn compare(
        &self,
        scenario: &mut Scenario,
        column: &str,
        servers: &str,
        scheme: Scheme,
        key_hash: KeyHash,
    ) -> Result<(), Error> {
        let config = SchemeConfig::new(scheme).key_hash(key_hash);
        let ring = Continuum::with_scheme(&self.buckets, &config)?;
        let keys = table::text("keys/keys.txt")?;
        if servers.len() != keys.lines().count() {
            return Err(format!("{}: {column}: not one digit a key", self.name).into());
        }
        for (key, server) in keys.lines().zip(servers.chars()) {
            let theirs = server.to_digit(10).map(|digit| digit as usize);
            scenario.decide(
                format_args!("{column} {key}"),
                theirs,
                ring.node_idx(key.as_bytes()),
            );
        }
        Ok(())
    }
}

fn distributions(pool: &Pool) -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("libmemcached", &*pool.name);
    let table = Table::read(&format!("libmemcached/{}.csv", pool.name))?;
    for [distribution, hash, servers] in table.columns(["distribution", "hash", "servers"])? {
        let key_hash = key_hash(hash)?;
        let scheme = match distribution {
            "consistent" | "ketama" => pool.consistent(PointNames::Libmemcached, key_hash),
            "spy" => pool.consistent(PointNames::Spy, key_hash),
            "weighted" => WEIGHTED,
            _ => return Err(format!("unknown distribution {distribution:?}").into()),
        };
        let column = format!("{distribution}_{hash}");
        pool.compare(&mut scenario, &column, servers, scheme, key_hash)?;
    }
    Ok(scenario)
}

/// What the order of the calls does; the name of a column is that order.
fn call_orders(pool: &Pool) -> Result<Scenario, Error> {
    let mut scenario = Scenario::new("libmemcached", format!("behaviors_{}", pool.name));
    let table = Table::read(&format!("libmemcached/behaviors_{}.csv", pool.name))?;
    for [calls, servers] in table.columns(["calls", "servers"])? {
        let by = |point_hash| pool.consistent(PointNames::Libmemcached, point_hash);
        let (scheme, key_hash) = match calls {
            // A hash of the ring's own has no effect, and switching the weights off afterwards
            // does not survive the first weighted server.
            "KETAMA_then_add"
            | "KETAMA_WEIGHTED_false_then_add"
            | "KETAMA_HASHmd5_KETAMA_add"
            | "KETAMA_HASHcrc_KETAMA_add" => (by(KeyHash::OneAtATime), KeyHash::OneAtATime),
            // Naming the distribution last switches the weights off again.
            "add_then_KETAMA" => (PLAIN, KeyHash::OneAtATime),
            "KETAMA_WEIGHTED_then_add"
            | "add_then_KETAMA_WEIGHTED"
            | "KETAMA_HASHfnv_KETAMA_WEIGHTED_add"
            | "KETAMA_WEIGHTED_KETAMA_HASHfnv_add"
            | "SORT_HOSTS_KETAMA_WEIGHTED_add" => (WEIGHTED, KeyHash::Md5),
            // The ring stays that of the old hash.
            "KETAMA_add_HASHmd5" => (by(KeyHash::OneAtATime), KeyHash::Md5),
            "HASHmd5_KETAMA_add" => (by(KeyHash::Md5), KeyHash::Md5),
            "KETAMA_WEIGHTED_HASHcrc_add" => (WEIGHTED, KeyHash::Crc15),
            "KETAMA_WEIGHTED_SPY_add" => {
                let names = PointNames::Spy;
                (Scheme::LibmemcachedWeighted { names }, KeyHash::Md5)
            }
            _ => return Err(format!("unknown calls {calls:?}").into()),
        };
        pool.compare(&mut scenario, calls, servers, scheme, key_hash)?;
    }
    Ok(scenario)
}

/// Every hash function on printable and on binary keys.
fn hash_values() -> Result<Vec<Scenario>, Error> {
    let mut printable = Scenario::new("libmemcached", "hash_values");
    let mut binary = Scenario::new("libmemcached", "hash_values_bin");
    let keys = table::text("keys/keys.txt")?;
    let values = Table::read("libmemcached/hash_values.csv")?;
    let binary_values = Table::read("libmemcached/hash_values_bin.csv")?;
    for (name, hash) in KEY_HASHES {
        for (key, [value]) in keys.lines().zip(values.columns([name])?) {
            let row = format_args!("{name} {key}");
            printable.decide(row, value.parse()?, hash.hash(key.as_bytes()));
        }
        for [key, value] in binary_values.columns(["key_hex", name])? {
            let row = format_args!("{name} {key}");
            binary.decide(row, value.parse()?, hash.hash(&unhex(key)?));
        }
    }
    Ok(vec![printable, binary])
}

fn key_hash(name: &str) -> Result<KeyHash, Error> {
    KEY_HASHES
        .iter()
        .find_map(|&(known, hash)| (known == name).then_some(hash))
        .ok_or_else(|| format!("unknown hash {name:?}").into())
}

const KEY_HASHES: &[(&str, KeyHash)] = &[
    ("default", KeyHash::OneAtATime),
    ("md5", KeyHash::Md5),
    ("crc", KeyHash::Crc15),
    ("fnv1_64", KeyHash::Fnv1_64),
    ("fnv1a_64", KeyHash::Fnv1a64),
    ("fnv1_32", KeyHash::Fnv1_32),
    ("fnv1a_32", KeyHash::Fnv1a32),
    ("murmur", KeyHash::Murmur2),
    ("jenkins", KeyHash::Jenkins),
    ("murmur3", KeyHash::Murmur3Length),
];

const WEIGHTED: Scheme = Scheme::LibmemcachedWeighted {
    names: PointNames::Libmemcached,
};

const PLAIN: Scheme = Scheme::LibmemcachedPlain {
    names: PointNames::Libmemcached,
    point_hash: KeyHash::OneAtATime,
};
