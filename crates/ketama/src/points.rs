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

#[cfg(test)]
mod tests {
    use super::*;

    fn points(chains: impl Iterator<Item = Chain>) -> Vec<(u32, u32)> {
        let mut points = Vec::new();
        for_each_point(chains, |hash, node| points.push((hash, node)));
        points
    }

    fn chains(pool: &[(&str, u32)]) -> Vec<Chain> {
        let buckets = pool
            .iter()
            .map(|&(text, weight)| Bucket::from_text(text, weight));
        (0..)
            .zip(buckets)
            .map(|(node, bucket)| Chain::new(&bucket, node, Version::V1))
            .collect()
    }

    #[test]
    fn chains_that_take_turns_have_the_points_of_each_alone() {
        // More chains than lanes, of different lengths, some empty.
        let texts = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let pool: Vec<_> = texts
            .into_iter()
            .zip([3, 0, 1, 1, 2, 7, 1, 0, 4, 1, 1])
            .collect();
        let chains = chains(&pool);
        let mut together = points(chains.iter().copied());
        assert_eq!(together.len(), 21 * 160);
        together.sort_by_key(|&(_, node)| node); // Stable: each chain in its order.
        let alone = chains.iter().flat_map(|&chain| points([chain].into_iter()));
        assert!(together.into_iter().eq(alone));
    }

    #[test]
    fn a_heavier_bucket_has_the_points_of_a_lighter_one_and_more() {
        let bucket = Bucket::from_text("192.0.2.1:80", 5);
        let part = |weights| points([Chain::between(&bucket, 0, Version::V1, weights)].into_iter());
        assert_eq!([part(0..2), part(2..5)].concat(), part(0..5));
        assert_eq!(part(5..5), []);
    }

    #[test]
    fn a_chain_on_its_fixed_point_has_one_point() {
        // A forged name: the CRC-32 of it, a zero byte and four zero bytes is 0.
        assert_eq!(points(chains(&[(FORGED, 3)]).into_iter()), [(0, 0)]);
        let bucket = Bucket::from_text(FORGED, 3);
        assert_eq!(Chain::between(&bucket, 0, Version::V1, 1..3).len(), 0);
    }

    const FORGED: &str = "shard-1155-xqvp";
}
