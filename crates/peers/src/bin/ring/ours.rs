//! `ketama`.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use ketama::{Bucket, Continuum, RingConfig, Version};

use crate::engine::{Engine, sum_of_owners};
use crate::pool::{Key, POINTS_PER_WEIGHT, Pool};

pub(crate) fn v1(pool: &Pool) -> Box<dyn Engine> {
    Box::new(Ours::build(pool, Version::V1))
}

pub(crate) fn v2(pool: &Pool) -> Box<dyn Engine> {
    let point_multiple = NonZeroU32::new(POINTS_PER_WEIGHT).expect("160 is not zero");
    Box::new(Ours::build(pool, Version::V2 { point_multiple }))
}

struct Ours {
    ring: Continuum,
    weight: u32,
}

impl Ours {
    fn build(pool: &Pool, version: Version) -> Self {
        let buckets: Vec<_> = pool
            .addresses
            .iter()
            .map(|&address| Bucket::new(address, pool.weight))
            .collect();
        let config = RingConfig::new().version(version);
        Self {
            ring: Continuum::with_config(&buckets, &config).expect("the pool is within limits"),
            weight: pool.weight,
        }
    }

    #[inline(always)]
    fn address(&self, key: &[u8]) -> SocketAddr {
        let bucket = self.ring.node(key).expect("the ring has points");
        bucket.addr().expect("every bucket has an address")
    }
}

impl Engine for Ours {
    fn owner(&self, key: &[u8]) -> SocketAddr {
        self.address(key)
    }

    fn sum_of_owners(&self, keys: &[Key]) -> u64 {
        sum_of_owners(keys, |key| self.address(key))
    }

    fn remove(&mut self, address: SocketAddr) {
        let text = address.to_string();
        self.ring.remove(&text).expect("the bucket is in the list");
    }

    fn add(&mut self, address: SocketAddr) {
        let bucket = Bucket::new(address, self.weight);
        self.ring.add(bucket).expect("the pool is within limits");
    }

    fn points(&self) -> Option<Vec<(u32, SocketAddr)>> {
        let buckets = self.ring.buckets();
        self.ring
            .points()
            .map(|(hash, node)| Some((hash, buckets[node].addr()?)))
            .collect()
    }

    fn bytes_of_points(&self) -> Option<usize> {
        Some(self.ring.heap_size())
    }
}
