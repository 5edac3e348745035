//! The public ring.

use alloc::boxed::Box;
use alloc::vec;
#[cfg(feature = "v2")]
use alloc::vec::Vec;
use core::iter::FusedIterator;

use crate::points::chained_crc32;
use crate::ring::Ring;
use crate::{Bucket, BuildError, RingConfig, Version};

/// A consistent-hash ring over weighted buckets.
///
/// A key belongs to the first point at or after its CRC-32, wrapping to the first point
/// (`ngx_http_upstream_hash_module.c`, `ngx_http_upstream_find_chash_point`).
#[derive(Clone, Debug)]
pub struct Continuum {
    buckets: Box<[Bucket]>,
    ring: Ring,
    /// How many buckets own at least one point: where a walk over distinct nodes ends.
    owners: usize,
}

impl Continuum {
    /// nginx's ring over `buckets`.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the weights ask for more than 2^26 points.
    pub fn new(buckets: &[Bucket]) -> Result<Self, BuildError> {
        Self::with_config(buckets, &RingConfig::new())
    }

    /// The ring over `buckets` that `config` describes.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if a limit of `config` or of the layout is exceeded.
    pub fn with_config(buckets: &[Bucket], config: &RingConfig) -> Result<Self, BuildError> {
        let points = chained_crc32(buckets, config)?;
        let ring = match config.version {
            Version::V1 => Ring::new(points),
            #[cfg(feature = "v2")]
            Version::V2 { .. } => Ring::ranked(points, &by_address(buckets)),
        };
        let mut owns = vec![false; buckets.len()];
        for position in 0..ring.len() {
            if let Some((_, node)) = ring.point(position) {
                owns[node as usize] = true;
            }
        }
        let owners = owns.iter().filter(|&&owner| owner).count();
        Ok(Self {
            buckets: buckets.into(),
            ring,
            owners,
        })
    }

    /// The buckets, in the order given.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring has no points: no buckets, or all of weight 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    /// Where `key` falls on the circle: its CRC-32.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u32 {
        crc32fast::hash(key)
    }

    /// The bucket that owns `key`; `None` if the ring is empty.
    #[must_use]
    pub fn node(&self, key: &[u8]) -> Option<&Bucket> {
        self.buckets.get(self.node_idx(key)?)
    }

    /// The index in [`buckets`](Self::buckets) of the owner of `key`.
    ///
    /// Unlike the method of this name in pingora-ketama it is not a position on the ring.
    #[must_use]
    pub fn node_idx(&self, key: &[u8]) -> Option<usize> {
        self.walk(self.hash(key)).next()
    }

    /// The bucket that owns the place `hash` on the circle, for callers that hash by themselves.
    #[must_use]
    pub fn node_for_hash(&self, hash: u32) -> Option<&Bucket> {
        self.buckets.get(self.walk(hash).next()?)
    }

    /// The owners of the points from `key` on, point by point, round and round without end.
    ///
    /// This is pingora's order: a bucket comes as often as it has points. See
    /// [`nodes`](Self::nodes) for each bucket once.
    #[must_use]
    pub fn node_iter(&self, key: &[u8]) -> NodeIter<'_> {
        NodeIter {
            buckets: &self.buckets,
            walk: self.walk(self.hash(key)),
        }
    }

    /// Each bucket with points once, in ring order from `key` on: the failover order.
    ///
    /// Allocates one bit per bucket.
    #[must_use]
    pub fn nodes(&self, key: &[u8]) -> Nodes<'_> {
        Nodes {
            buckets: &self.buckets,
            walk: self.walk(self.hash(key)),
            seen: vec![false; self.buckets.len()].into(),
            left: self.owners,
        }
    }

    /// [`node_iter`](Self::node_iter) as bucket indexes, from a place on the circle.
    #[must_use]
    pub fn walk(&self, hash: u32) -> Walk<'_> {
        Walk {
            ring: &self.ring,
            position: self.ring.position(hash),
        }
    }

    /// All points in ring order, as (place on the circle, bucket index).
    pub fn points(&self) -> impl ExactSizeIterator<Item = (u32, usize)> + '_ {
        (0..self.ring.len()).map(|position| {
            let (hash, node) = self.ring.point(position).unwrap_or_default();
            (hash, node as usize)
        })
    }
}

/// The rank of each bucket in V2's order, by bucket index.
///
/// Buckets of one identity have the same points; among them the heaviest owns what they share, so
/// that permutations differ in nothing but the numbers of equal buckets.
#[cfg(feature = "v2")]
fn by_address(buckets: &[Bucket]) -> Vec<u32> {
    let mut order: Vec<(usize, &Bucket)> = buckets.iter().enumerate().collect();
    order.sort_by_key(|(_, bucket)| {
        let weight = core::cmp::Reverse(bucket.weight());
        (
            bucket.addr().is_none(),
            bucket.addr(),
            bucket.text(),
            weight,
        )
    });
    let mut rank = vec![0; buckets.len()];
    for (place, (index, _)) in (0..).zip(order) {
        rank[index] = place;
    }
    rank
}

/// The endless walk of [`Continuum::node_iter`].
#[derive(Clone, Debug)]
pub struct NodeIter<'a> {
    buckets: &'a [Bucket],
    walk: Walk<'a>,
}

impl<'a> Iterator for NodeIter<'a> {
    type Item = &'a Bucket;

    fn next(&mut self) -> Option<&'a Bucket> {
        self.buckets.get(self.walk.next()?)
    }
}

/// The distinct buckets of [`Continuum::nodes`].
#[derive(Clone, Debug)]
pub struct Nodes<'a> {
    buckets: &'a [Bucket],
    walk: Walk<'a>,
    seen: Box<[bool]>,
    left: usize,
}

impl<'a> Iterator for Nodes<'a> {
    type Item = &'a Bucket;

    fn next(&mut self) -> Option<&'a Bucket> {
        if self.left == 0 {
            return None;
        }
        let seen = &mut self.seen;
        let node = self
            .walk
            .find(|&node| !core::mem::replace(&mut seen[node], true))?;
        self.left -= 1;
        self.buckets.get(node)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Nodes<'_> {}
impl FusedIterator for Nodes<'_> {}

/// The endless walk of [`Continuum::walk`].
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    ring: &'a Ring,
    position: usize,
}

impl Iterator for Walk<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let (_, node) = self.ring.point(self.position)?;
        self.position = self.ring.step(self.position);
        Some(node as usize)
    }
}
