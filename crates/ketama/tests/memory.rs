//! What a ring takes on the heap.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ketama::{Bucket, Continuum, RingConfig};

fn pool(buckets: u32, weight: u32) -> Vec<Bucket> {
    (0..buckets)
        .map(|i| Bucket::from_text(format!("10.0.{}.{}:80", i / 256, i % 256), weight))
        .collect()
}

/// Bytes for each point, and the points.
fn bytes(buckets: &[Bucket], config: &RingConfig) -> (f64, usize) {
    let ring = Continuum::with_config(buckets, config).unwrap();
    let points = u32::try_from(ring.len()).unwrap();
    let heap = u32::try_from(ring.heap_size()).unwrap();
    (f64::from(heap) / f64::from(points), ring.len())
}

#[test]
fn v1_takes_at_most_nine_bytes_a_point() {
    for (buckets, weight) in [(1, 1), (4, 1), (9, 100), (1_000, 1), (1_000, 10)] {
        let (bytes, points) = bytes(&pool(buckets, weight), &RingConfig::new());
        assert!((8.0..=9.0).contains(&bytes), "{bytes} for {points} points");
    }
}

#[cfg(feature = "v2")]
#[test]
fn v2_takes_at_most_seven_bytes_a_point() {
    for (buckets, weight, multiple) in [(4, 1, 160), (9, 100, 160), (1_000, 1, 40), (1_000, 10, 10)]
    {
        let point_multiple = std::num::NonZeroU32::new(multiple).unwrap();
        let config = RingConfig::new().version(ketama::Version::V2 { point_multiple });
        let (bytes, points) = bytes(&pool(buckets, weight), &config);
        assert!((6.0..=7.0).contains(&bytes), "{bytes} for {points} points");
    }
}
