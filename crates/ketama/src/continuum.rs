//! The public ring.

use alloc::boxed::Box;
use alloc::vec;
use core::iter::{FusedIterator, Take};
use core::mem;

use crate::crc::KeyCrc;
use crate::layout::Layout;
use crate::points::Chain;
use crate::{Bucket, BuildError, RingConfig, Version};

/// A consistent-hash ring over weighted buckets.
///
/// A key belongs to the first point at or after its CRC-32, wrapping to the first point
/// (`ngx_http_upstream_hash_module.c`, `ngx_http_upstream_find_chash_point`).
#[derive(Clone, Debug)]
pub struct Continuum {
    buckets: Box<[Bucket]>,
    ring: Layout,
    config: RingConfig,
    /// How many buckets own at least one point: where a walk over distinct nodes ends.
    owners: usize,
    crc: KeyCrc,
    /// The scheme that the ring was built by and hashes keys by, if it is not a [`Version`].
    #[cfg(feature = "schemes")]
    scheme: Option<crate::SchemeConfig>,
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
        let ring = Layout::build(buckets, config)?;
        Ok(Self::from_parts(buckets.into(), ring, config))
    }

    pub(crate) fn from_parts(buckets: Box<[Bucket]>, ring: Layout, config: &RingConfig) -> Self {
        Self {
            owners: owners(&buckets, &ring, config.version),
            buckets,
            ring,
            config: config.clone(),
            crc: KeyCrc::new(),
            #[cfg(feature = "schemes")]
            scheme: None,
        }
    }

    /// The ring of another program, over the points that `scheme` gave.
    #[cfg(feature = "schemes")]
    pub(crate) fn from_scheme(
        buckets: &[Bucket],
        ring: Layout,
        owners: usize,
        scheme: crate::SchemeConfig,
    ) -> Self {
        Self {
            buckets: buckets.into(),
            ring,
            config: RingConfig::new().max_points(scheme.max_points),
            owners,
            crc: KeyCrc::new(),
            scheme: Some(scheme),
        }
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

    /// How many buckets own at least one point: a walk has seen all it can see when it has seen
    /// so many.
    #[must_use]
    pub fn owners(&self) -> usize {
        self.owners
    }

    /// The bytes on the heap that points and index take; the bucket list is not counted.
    ///
    /// At most 9 bytes a point in V1 and 7 in V2, for rings of 100 points and more of which few
    /// are tied.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.ring.heap_size()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.ring
    }

    /// The configuration that the ring was built with.
    #[must_use]
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// How the ring was built if it is another program's: then of [`config`](Self::config) only
    /// the limit counts.
    #[cfg(feature = "schemes")]
    #[cfg_attr(docsrs, doc(cfg(feature = "schemes")))]
    #[must_use]
    pub fn scheme(&self) -> Option<&crate::SchemeConfig> {
        self.scheme.as_ref()
    }

    /// Where `key` falls on the circle: its CRC-32, or the key hash of the scheme.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u32 {
        #[cfg(feature = "schemes")]
        if let Some(scheme) = &self.scheme {
            return scheme.hash(key);
        }
        self.crc.hash(key)
    }

    /// The bucket that owns `key`; `None` if the ring is empty.
    #[must_use]
    #[inline]
    pub fn node(&self, key: &[u8]) -> Option<&Bucket> {
        self.buckets.get(self.node_idx(key)?)
    }

    /// The index in [`buckets`](Self::buckets) of the owner of `key`.
    ///
    /// Unlike the method of this name in pingora-ketama it is not a position on the ring.
    #[must_use]
    #[inline]
    pub fn node_idx(&self, key: &[u8]) -> Option<usize> {
        self.ring.owner(self.hash(key))
    }

    /// The bucket that owns the place `hash` on the circle, for callers that hash by themselves.
    #[must_use]
    #[inline]
    pub fn node_for_hash(&self, hash: u32) -> Option<&Bucket> {
        self.buckets.get(self.ring.owner(hash)?)
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
    /// Allocates one byte per bucket.
    #[must_use]
    pub fn nodes(&self, key: &[u8]) -> Nodes<'_> {
        Nodes {
            buckets: &self.buckets,
            walk: self.walk(self.hash(key)).take(self.len()),
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
        (0..self.ring.len()).map(|position| self.ring.point(position).unwrap_or_default())
    }
}

/// How many buckets own at least one point: all that have some, unless they lost every one of them.
fn owners(buckets: &[Bucket], ring: &Layout, version: Version) -> usize {
    let mut lost = vec![0usize; buckets.len()];
    for node in ring.shadowed() {
        lost[node as usize] += 1;
    }
    (0..)
        .zip(buckets)
        .zip(lost)
        .filter(|&((node, bucket), lost)| {
            bucket.weight() > 0 && (lost == 0 || Chain::new(bucket, node, version).len() > lost)
        })
        .count()
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
    /// Once around at most.
    walk: Take<Walk<'a>>,
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
        let node = self.walk.find(|&node| {
            seen.get_mut(node)
                .is_some_and(|seen| !mem::replace(seen, true))
        })?;
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
    ring: &'a Layout,
    position: usize,
}

impl Iterator for Walk<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let node = self.ring.node(self.position)?;
        self.position = self.ring.step(self.position);
        Some(node)
    }
}
