//! Buckets to ring points: nginx's chained CRC-32, and the limits.

use alloc::vec::Vec;

use crate::{Bucket, BuildError, RingConfig};

/// The points of all buckets as `(hash, bucket index)`, bucket by bucket, each in chain order.
///
/// `ngx_http_upstream_init_chash`: `point = crc32(HOST, 0, PORT, previous point in little endian)`,
/// starting from a previous point of 0. The chain does not depend on the weight: a heavier bucket
/// has the points of a lighter one, and more.
pub(crate) fn chained_crc32(
    buckets: &[Bucket],
    config: &RingConfig,
) -> Result<Vec<(u32, u32)>, BuildError> {
    let total = total_points(buckets, config)?;
    let mut points = Vec::with_capacity(total);
    for (index, bucket) in (0u32..).zip(buckets) {
        let (host, port) = bucket.host_and_port();
        let mut base = crc32fast::Hasher::new();
        base.update(host.as_bytes());
        base.update(&[0]);
        base.update(port.as_bytes());
        let mut previous = 0u32;
        for _ in 0..u64::from(bucket.weight()) * u64::from(config.version.points_per_weight()) {
            let mut hasher = base.clone();
            hasher.update(&previous.to_le_bytes());
            previous = hasher.finalize();
            points.push((previous, index));
        }
    }
    Ok(points)
}

/// The number of points, checked against the limits before anything is allocated.
fn total_points(buckets: &[Bucket], config: &RingConfig) -> Result<usize, BuildError> {
    let max = config.version.max_buckets();
    if buckets.len() > max {
        return Err(BuildError::TooManyBuckets {
            buckets: buckets.len(),
            max,
        });
    }
    // Fewer than 2^32 buckets, each below 2^32 * 2^32 points: saturation is beyond any limit.
    let per_weight = u64::from(config.version.points_per_weight());
    let points = buckets
        .iter()
        .map(|bucket| u64::from(bucket.weight()).saturating_mul(per_weight))
        .fold(0u64, u64::saturating_add);
    let max = config.max_points.min(MAX_POINTS);
    match usize::try_from(points) {
        Ok(total) if points <= max => Ok(total),
        _ => Err(BuildError::TooManyPoints { points, max }),
    }
}

/// The circle has 2^32 places; a ring position must fit in a `u32`.
const MAX_POINTS: u64 = u32::MAX as u64;
