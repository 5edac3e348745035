//! Random pools of twemproxy, as it reads them and as rings of ours.

use std::collections::HashSet;
use std::net::SocketAddr;

use balancer::selection::ketama::{Bucket, Continuum, KeyHash, Scheme, SchemeConfig};

use crate::Error;
use crate::random::Random;
use crate::weights::weights;

/// One pool of a configuration, and the keys that it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) servers: Vec<Server>,
    hash: (&'static str, KeyHash),
    distribution: Distribution,
    hash_tag: Option<&'static str>,
    pub(crate) keys: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    weight: u32,
    alias: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    Ketama,
    /// The hash modulo the number of servers, each as often as its weight is.
    Modula,
}

impl Pool {
    /// What of ours gives a key its server.
    pub(crate) fn ours(&self) -> Result<Ours<'_>, Error> {
        let hash = self.hash.1;
        if self.distribution == Distribution::Modula {
            return Ok(Ours::Modula(self.table(), hash));
        }
        let hash_tag = self.hash_tag.and_then(|tag| tag.as_bytes().try_into().ok());
        let config = SchemeConfig::new(Scheme::Twemproxy { hash_tag }).key_hash(hash);
        let buckets = self.servers.iter();
        let buckets = buckets.map(|server| Bucket::from_text(server.text(), server.weight));
        let ring = Continuum::with_scheme(&buckets.collect::<Vec<_>>(), &config)?;
        Ok(Ours::Ring(&self.servers, Box::new(ring)))
    }

    /// The servers by the length of their names, then by the names, each by its weight. No part of
    /// ours: what `modula` checks is the hash.
    fn table<'a>(&'a self) -> Vec<&'a Server> {
        let mut servers: Vec<_> = self.servers.iter().collect();
        servers.sort_by_cached_key(|server| {
            let name = server.name();
            (name.len(), name)
        });
        let repeated = |server: &'a Server| std::iter::repeat_n(server, server.weight as usize);
        servers.into_iter().flat_map(repeated).collect()
    }

    /// Its part of the configuration file.
    pub(crate) fn configuration(&self, name: &str, socket: &str) -> String {
        let (hash, _) = self.hash;
        let distribution = match self.distribution {
            Distribution::Ketama => "ketama",
            Distribution::Modula => "modula",
        };
        let mut text = format!(
            "{name}:\n  listen: {socket}\n  hash: {hash}\n  distribution: {distribution}\n"
        );
        if let Some(tag) = self.hash_tag {
            text += &format!("  hash_tag: \"{tag}\"\n");
        }
        text += "  servers:\n";
        for server in &self.servers {
            let alias = server
                .alias
                .as_ref()
                .map_or(String::new(), |a| format!(" {a}"));
            text += &format!("   - {}:{}{alias}\n", server.address, server.weight);
        }
        text
    }
}

/// What answers in place of twemproxy.
pub(crate) enum Ours<'a> {
    Ring(&'a [Server], Box<Continuum>),
    Modula(Vec<&'a Server>, KeyHash),
}

impl Ours<'_> {
    /// The server of `key`.
    pub(crate) fn server(&self, key: &[u8]) -> Option<&Server> {
        match self {
            Self::Ring(servers, ring) => servers.get(ring.node_idx(key)?),
            Self::Modula(table, hash) => {
                let slot = (hash.hash(key) as usize).checked_rem(table.len())?;
                table.get(slot).copied()
            }
        }
    }
}

impl Server {
    /// What our ring is told.
    fn text(&self) -> String {
        let alias = self.alias.clone();
        alias.unwrap_or_else(|| self.address.to_string())
    }

    /// What twemproxy sorts by: the port 11211 is left out.
    fn name(&self) -> String {
        match &self.alias {
            Some(alias) => alias.clone(),
            None if self.address.port() == DEFAULT_PORT => self.address.ip().to_string(),
            None => self.address.to_string(),
        }
    }
}

pub(crate) fn ketama(random: &mut Random) -> Pool {
    pool(random, Distribution::Ketama, None)
}

pub(crate) fn modula(random: &mut Random) -> Pool {
    pool(random, Distribution::Modula, None)
}

pub(crate) fn tags(random: &mut Random) -> Pool {
    let tag = random.one_of(&["{}", "$$", "[]", "<>"]);
    pool(random, Distribution::Ketama, Some(tag))
}

fn pool(random: &mut Random, distribution: Distribution, tag: Option<&'static str>) -> Pool {
    let aliases = random.percent(40);
    let server = |random: &mut Random, weight| {
        let [b, c] = [(); 2].map(|()| random.octet(0, 255));
        let ip = [127, b, c, random.octet(1, 254)];
        let port = if random.percent(40) {
            DEFAULT_PORT
        } else {
            random.port()
        };
        let alias = format!("cache{}", random.next() >> random.between(40, 60));
        Server {
            address: (ip, port).into(),
            weight,
            alias: (aliases && random.percent(80)).then_some(alias),
        }
    };
    let count = random.between(1, 10);
    let weights = weights(random, count);
    let servers = weights.into_iter().map(|weight| server(random, weight));
    let mut servers: Vec<_> = servers.collect();
    // Names must not repeat.
    let mut names = HashSet::new();
    servers.retain(|server| names.insert(server.name()));
    Pool {
        servers,
        hash: random.one_of(HASHES),
        distribution,
        hash_tag: tag,
        keys: (0..KEYS).map(|_| key(random, tag)).collect(),
    }
}

/// Whatever memcached's protocol lets through, with the characters of a tag here and there.
fn key(random: &mut Random, tag: Option<&str>) -> Vec<u8> {
    let length = match random.below(4) {
        0 => random.between(1, 4),
        1 => random.between(100, 240),
        _ => random.between(5, 40),
    };
    let high = if random.percent(50) { b'~' } else { 0xff };
    let byte = |random: &mut Random| match tag {
        Some(tag) if random.percent(20) => random.one_of(tag.as_bytes()),
        // Neither control characters nor the blank, and no DEL.
        _ => match random.octet(b'!', high) {
            0x7f => b'.',
            byte => byte,
        },
    };
    (0..length).map(|_| byte(random)).collect()
}

const DEFAULT_PORT: u16 = 11211;

const KEYS: usize = 150;

const HASHES: &[(&str, KeyHash)] = &[
    ("one_at_a_time", KeyHash::OneAtATime),
    ("md5", KeyHash::Md5),
    ("crc16", KeyHash::Crc16),
    ("crc32", KeyHash::Crc15),
    ("crc32a", KeyHash::Crc32),
    ("fnv1_64", KeyHash::Fnv1_64),
    ("fnv1a_64", KeyHash::Fnv1a64),
    ("fnv1_32", KeyHash::Fnv1_32),
    ("fnv1a_32", KeyHash::Fnv1a32),
    ("hsieh", KeyHash::Hsieh),
    ("murmur", KeyHash::Murmur2),
    ("jenkins", KeyHash::Jenkins),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16, weight: u32, alias: Option<&str>) -> Server {
        Server {
            address: ([127, 1, 2, 3], port).into(),
            weight,
            alias: alias.map(str::to_owned),
        }
    }

    fn pool(servers: Vec<Server>) -> Pool {
        Pool {
            servers,
            hash: ("md5", KeyHash::Md5),
            distribution: Distribution::Modula,
            hash_tag: Some("{}"),
            keys: Vec::new(),
        }
    }

    #[test]
    fn the_configuration_names_every_server() {
        let pool = pool(vec![server(11211, 2, None), server(7000, 1, Some("a"))]);
        let expected = "\
p:
  listen: /x.sock
  hash: md5
  distribution: modula
  hash_tag: \"{}\"
  servers:
   - 127.1.2.3:11211:2
   - 127.1.2.3:7000:1 a
";
        assert_eq!(pool.configuration("p", "/x.sock"), expected);
    }

    #[test]
    fn modula_is_by_length_of_name_and_then_by_name_and_weight() {
        let servers = vec![
            server(7000, 1, None),
            server(11211, 2, None),
            server(1, 1, Some("b")),
            server(2, 1, Some("a")),
        ];
        let pool = pool(servers);
        let ports: Vec<_> = pool.table().iter().map(|s| s.address.port()).collect();
        assert_eq!(ports, [2, 1, 11211, 11211, 7000]);
    }

    #[test]
    fn keys_fit_the_protocol() {
        let mut random = Random::new(1, "");
        for tag in [None, Some("{}")] {
            for _ in 0..200 {
                let key = key(&mut random, tag);
                assert!((1..=250).contains(&key.len()));
                assert!(key.iter().all(|&byte| byte > b' ' && byte != 0x7f));
            }
        }
    }
}
