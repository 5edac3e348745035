//! Buckets to ring points: nginx's chained CRC-32, and the limits.

use alloc::vec::Vec;
use core::ops::Range;

use crate::crc;
use crate::{Bucket, BuildError, RingConfig, Version};

/// A stretch of one bucket's point chain.
///
/// `ngx_http_upstream_init_chash`: `point = crc32(HOST, 0, PORT, previous point in little endian)`,
/// starting from a previous point of 0. The chain does not depend on the weight: a heavier bucket
/// has the points of a lighter one, and more.
///
/// A chain never meets a point twice. One step is `x -> A x + b` over the field of two elements,
/// where `A` is multiplication by x^32 modulo the CRC's primitive polynomial and has the order
/// 2^32 - 1; so the steps form one cycle of that length, which is longer than any chain, and one
/// fixed point. On the fixed point every step gives the same point, which counts once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// The CRC register after HOST, 0, PORT.
    register: u32,
    point: u32,
    left: usize,
    node: u32,
}

impl Chain {
    /// All points of `bucket`, which has the number `node`.
    pub(crate) fn new(bucket: &Bucket, node: u32, version: Version) -> Self {
        Self::between(bucket, node, version, 0..bucket.weight())
    }

    /// The points that `bucket` has with a weight of `weights.end` and not of `weights.start`.
    pub(crate) fn between(
        bucket: &Bucket,
        node: u32,
        version: Version,
        weights: Range<u32>,
    ) -> Self {
        let (host, port) = bucket.host_and_port();
        let mut text = crc32fast::Hasher::new();
        text.update(host.as_bytes());
        text.update(&[0]);
        text.update(port.as_bytes());
        let mut chain = Self {
            register: !text.finalize(),
            point: 0,
            left: 0,
            node,
        };
        let [skip, end] = [weights.start, weights.end].map(|weight| chain.len_at(weight, version));
        for _ in 0..skip {
            chain.advance();
        }
        chain.left = end.saturating_sub(skip);
        chain
    }

    /// The number of points left.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// The length of the chain, from its start, at `weight`.
    fn len_at(&self, weight: u32, version: Version) -> usize {
        // What does not fit has been refused by `total_points`.
        let points = usize::try_from(points_of(weight, version)).unwrap_or(usize::MAX);
        let stands_still = self.after(0) == 0;
        if stands_still { points.min(1) } else { points }
    }

    fn advance(&mut self) -> u32 {
        self.point = self.after(self.point);
        self.point
    }

    fn after(&self, point: u32) -> u32 {
        !crc::take(self.register, point.to_le_bytes())
    }
}

/// Hands every point of `chains` to `emit` as `(hash, node)`, in no particular order.
///
/// A step of one chain waits for the step before, about ten cycles; so several chains take turns.
pub(crate) fn for_each_point(
    mut chains: impl Iterator<Item = Chain>,
    mut emit: impl FnMut(u32, u32),
) {
    let mut lanes: Vec<Chain> = chains.by_ref().take(LANES).collect();
    while let Some(steps) = lanes.iter().map(Chain::len).min() {
        for _ in 0..steps {
            for lane in &mut lanes {
                emit(lane.advance(), lane.node);
            }
        }
        lanes.retain_mut(|lane| {
            lane.left -= steps;
            if lane.left == 0 {
                let Some(next) = chains.next() else {
                    return false;
                };
                *lane = next;
            }
            true
        });
    }
}

/// The points that `weight` asks for.
fn points_of(weight: u32, version: Version) -> u64 {
    u64::from(weight) * u64::from(version.points_per_weight())
}

/// The number of points, checked against the limits before anything is allocated.
pub(crate) fn total_points(buckets: &[Bucket], config: &RingConfig) -> Result<usize, BuildError> {
    let max = config.version.max_buckets();
    if buckets.len() > max {
        return Err(BuildError::TooManyBuckets {
            buckets: buckets.len(),
            max,
        });
    }
    // Each bucket asks for less than 2^64 points; saturation is beyond any limit.
    let points = buckets
        .iter()
        .map(|bucket| points_of(bucket.weight(), config.version))
        .fold(0, u64::saturating_add);
    let max = config.max_points.min(MAX_POINTS);
    match usize::try_from(points) {
        Ok(total) if points <= max => Ok(total),
        _ => Err(BuildError::TooManyPoints { points, max }),
    }
}

/// Enough chains to hide the latency of one; more gain nothing.
const LANES: usize = 8;

/// The circle has 2^32 places; a ring position must fit in a `u32`.
const MAX_POINTS: u64 = u32::MAX as u64;
