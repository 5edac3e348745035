//! Sorted points. Knows hashes and node numbers, nothing of addresses.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Points sorted by hash, each hash once.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    hashes: Box<[u32]>,
    nodes: Box<[u32]>,
}

impl Ring {
    /// The ring of `points`; of several on one hash the first given stays.
    pub(crate) fn new(mut points: Vec<(u32, u32)>) -> Self {
        points.sort_by_key(|&(hash, _)| hash); // Stable: "first given" is the tie rule.
        points.dedup_by_key(|&mut (hash, _)| hash);
        let (hashes, nodes): (Vec<_>, Vec<_>) = points.into_iter().unzip();
        Self {
            hashes: hashes.into(),
            nodes: nodes.into(),
        }
    }

    /// The ring of `points`; of several on one hash the lowest in the total order `rank` stays.
    #[cfg(feature = "v2")]
    pub(crate) fn ranked(mut points: Vec<(u32, u32)>, rank: &[u32]) -> Self {
        use i_key_sort::sort::one_key_cmp::OneKeyAndCmpSort;
        points.sort_by_one_key_then_by(
            false,
            |&(hash, _)| hash,
            |&(_, a), &(_, b)| rank[a as usize].cmp(&rank[b as usize]),
        );
        Self::new(points)
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The first point at or after `hash`, wrapping to the first of all.
    pub(crate) fn position(&self, hash: u32) -> usize {
        let position = self.hashes.partition_point(|&point| point < hash);
        if position == self.hashes.len() {
            0
        } else {
            position
        }
    }

    /// The hash and node of the point at `position`.
    pub(crate) fn point(&self, position: usize) -> Option<(u32, u32)> {
        Some((*self.hashes.get(position)?, *self.nodes.get(position)?))
    }

    /// The position after `position`, wrapping.
    pub(crate) fn step(&self, position: usize) -> usize {
        let next = position + 1;
        if next >= self.hashes.len() { 0 } else { next }
    }
}
