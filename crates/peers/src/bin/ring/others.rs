//! Other rings of the registry, with as many points as ours and the hash they come with. Their
//! rings are 64 or 128 bits wide and their own: no answer of theirs can equal ours.

use std::net::SocketAddr;

use ::conhash::ConsistentHash;
use ::consistent_hash_ring::{Ring, RingBuilder};
use ::hashring::HashRing;

use crate::engine::{Engine, sum_of_owners};
use crate::pool::{Key, Pool};

pub(crate) fn hashring(pool: &Pool) -> Box<dyn Engine> {
    let points_each = pool.points_each();
    let mut ring = HashRing::new();
    ring.batch_add(
        pool.addresses
            .iter()
            .flat_map(|&address| virtual_nodes(address, points_each))
            .collect(),
    );
    Box::new(Flat { ring, points_each })
}

/// `hashring` has no virtual nodes of its own; its documentation shows these.
struct Flat {
    ring: HashRing<VirtualNode>,
    points_each: usize,
}

#[derive(Clone, Copy, Hash)]
struct VirtualNode {
    address: SocketAddr,
    id: usize,
}

fn virtual_nodes(address: SocketAddr, count: usize) -> impl Iterator<Item = VirtualNode> {
    (0..count).map(move |id| VirtualNode { address, id })
}

impl Flat {
    #[inline(always)]
    fn address(&self, key: &[u8]) -> SocketAddr {
        self.ring.get(&key).expect("the ring has points").address
    }
}

impl Engine for Flat {
    fn owner(&self, key: &[u8]) -> SocketAddr {
        self.address(key)
    }

    fn sum_of_owners(&self, keys: &[Key]) -> u64 {
        sum_of_owners(keys, |key| self.address(key))
    }

    fn remove(&mut self, address: SocketAddr) {
        for node in virtual_nodes(address, self.points_each) {
            self.ring.remove(&node);
        }
    }

    fn add(&mut self, address: SocketAddr) {
        self.ring
            .batch_add(virtual_nodes(address, self.points_each).collect());
    }
}

pub(crate) fn conhash(pool: &Pool) -> Box<dyn Engine> {
    let mut tree = Tree {
        ring: ConsistentHash::new(),
        points_each: pool.points_each(),
    };
    for &address in &pool.addresses {
        tree.add(address);
    }
    Box::new(tree)
}

struct Tree {
    ring: ConsistentHash<Named>,
    points_each: usize,
}

#[derive(Clone)]
struct Named(SocketAddr);

impl ::conhash::Node for Named {
    fn name(&self) -> String {
        self.0.to_string()
    }
}

impl Tree {
    #[inline(always)]
    fn address(&self, key: &[u8]) -> SocketAddr {
        self.ring.get(key).expect("the ring has points").0
    }
}

impl Engine for Tree {
    fn owner(&self, key: &[u8]) -> SocketAddr {
        self.address(key)
    }

    fn sum_of_owners(&self, keys: &[Key]) -> u64 {
        sum_of_owners(keys, |key| self.address(key))
    }

    fn remove(&mut self, address: SocketAddr) {
        self.ring.remove(&Named(address));
    }

    fn add(&mut self, address: SocketAddr) {
        self.ring.add(&Named(address), self.points_each);
    }
}

pub(crate) fn consistent_hash_ring(pool: &Pool) -> Box<dyn Engine> {
    let ring = RingBuilder::default()
        .vnodes(pool.points_each())
        .nodes(&pool.addresses)
        .build();
    Box::new(Chained { ring })
}

struct Chained {
    ring: Ring<SocketAddr>,
}

impl Engine for Chained {
    fn owner(&self, key: &[u8]) -> SocketAddr {
        *self.ring.get(key)
    }

    fn sum_of_owners(&self, keys: &[Key]) -> u64 {
        sum_of_owners(keys, |key| *self.ring.get(key))
    }

    fn remove(&mut self, address: SocketAddr) {
        self.ring.remove(&address);
    }

    fn add(&mut self, address: SocketAddr) {
        self.ring.insert(address);
    }
}
