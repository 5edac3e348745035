//! `pingora-ketama`. It has no updates: a change is a rebuild.

use std::net::SocketAddr;

use pingora_ketama::{Bucket, Continuum, Version};

use crate::engine::{Engine, sum_of_owners};
use crate::pool::{Key, POINTS_PER_WEIGHT, Pool};

pub(crate) fn v1(pool: &Pool) -> Box<dyn Engine> {
    Box::new(Pingora::build(pool, Version::V1))
}

pub(crate) fn v2(pool: &Pool) -> Box<dyn Engine> {
    let point_multiple = POINTS_PER_WEIGHT;
    Box::new(Pingora::build(pool, Version::V2 { point_multiple }))
}

struct Pingora {
    ring: Continuum,
    version: Version,
    addresses: Vec<SocketAddr>,
    weight: u32,
}

impl Pingora {
    fn build(pool: &Pool, version: Version) -> Self {
        Self {
            ring: ring(&pool.addresses, pool.weight, version),
            version,
            addresses: pool.addresses.clone(),
            weight: pool.weight,
        }
    }

    fn rebuild(&mut self) {
        self.ring = ring(&self.addresses, self.weight, self.version);
    }

    #[inline(always)]
    fn address(&self, key: &[u8]) -> SocketAddr {
        self.ring.node(key).expect("the ring has points")
    }
}

fn ring(addresses: &[SocketAddr], weight: u32, version: Version) -> Continuum {
    let buckets: Vec<_> = addresses
        .iter()
        .map(|&address| Bucket::new(address, weight))
        .collect();
    Continuum::new_with_version(&buckets, version)
}

impl Engine for Pingora {
    fn owner(&self, key: &[u8]) -> SocketAddr {
        self.address(key)
    }

    fn sum_of_owners(&self, keys: &[Key]) -> u64 {
        sum_of_owners(keys, |key| self.address(key))
    }

    fn remove(&mut self, address: SocketAddr) {
        self.addresses.retain(|&other| other != address);
        self.rebuild();
    }

    fn add(&mut self, address: SocketAddr) {
        self.addresses.push(address);
        self.rebuild();
    }
}
