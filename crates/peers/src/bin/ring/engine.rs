//! What is compared: a ring that is built, asked and changed.

use std::hint::black_box;
use std::net::SocketAddr;

use crate::pool::{Key, Pool, number};
use crate::{others, ours, pingora};

/// A ring over some pool.
pub(crate) trait Engine {
    /// The owner of `key`.
    fn owner(&self, key: &[u8]) -> SocketAddr;

    /// The sum of the owners' numbers, so that each address is read. The timed loop: it is a
    /// method, so that the loop and the lookup are compiled together for each engine.
    fn sum_of_owners(&self, keys: &[Key]) -> u64;

    /// Takes a backend out.
    fn remove(&mut self, address: SocketAddr);

    /// Puts a backend in, at the end of the list.
    fn add(&mut self, address: SocketAddr);

    /// All points and their owners, if the engine shows them.
    fn points(&self) -> Option<Vec<(u32, SocketAddr)>> {
        None
    }

    /// What the engine says that its points take, if it says so.
    fn bytes_of_points(&self) -> Option<usize> {
        None
    }
}

/// The loop of [`Engine::sum_of_owners`].
///
/// The length of a key is hidden from the compiler, as that of a real key would be.
#[inline(always)]
pub(crate) fn sum_of_owners(keys: &[Key], owner: impl Fn(&[u8]) -> SocketAddr) -> u64 {
    keys.iter()
        .map(|key| u64::from(number(owner(black_box(key)))))
        .sum()
}

/// One way to build a ring.
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    /// The index in [`ALL`] of ours that it is compared with.
    pub(crate) against: usize,
    /// The largest ring that is built in reasonable time.
    pub(crate) most_points: usize,
    /// The largest ring that is changed in reasonable time.
    pub(crate) most_points_to_change: usize,
    pub(crate) build: fn(&Pool) -> Box<dyn Engine>,
}

pub(crate) const OURS_V1: usize = 0;
pub(crate) const OURS_V2: usize = 1;
pub(crate) const PINGORA_V1: usize = 2;
pub(crate) const PINGORA_V2: usize = 3;

pub(crate) const ALL: [Layout; 7] = [
    Layout {
        name: "ketama V1",
        against: OURS_V1,
        most_points: usize::MAX,
        most_points_to_change: usize::MAX,
        build: ours::v1,
    },
    Layout {
        name: "ketama V2",
        against: OURS_V2,
        most_points: usize::MAX,
        most_points_to_change: usize::MAX,
        build: ours::v2,
    },
    Layout {
        name: "pingora V1",
        against: OURS_V1,
        most_points: usize::MAX,
        most_points_to_change: usize::MAX,
        build: pingora::v1,
    },
    Layout {
        name: "pingora V2",
        against: OURS_V2,
        most_points: usize::MAX,
        most_points_to_change: usize::MAX,
        build: pingora::v2,
    },
    Layout {
        name: "hashring",
        against: OURS_V1,
        most_points: 2_000_000,
        // Each point is taken out by itself, moving all behind it.
        most_points_to_change: 200_000,
        build: others::hashring,
    },
    Layout {
        name: "conhash",
        against: OURS_V1,
        // A tree node and two allocations a point.
        most_points: 2_000_000,
        most_points_to_change: 2_000_000,
        build: others::conhash,
    },
    Layout {
        name: "consistent_hash_ring",
        against: OURS_V1,
        // Each point is inserted by itself, moving all behind it.
        most_points: 20_000,
        most_points_to_change: 20_000,
        build: others::consistent_hash_ring,
    },
];
