//! The pools that are measured.

use ketama::{Bucket, RingConfig};

/// Name, number of buckets, weight of each.
pub(crate) const POOLS: [(&str, u32, u32); 5] = [
    ("4x1", 4, 1),
    ("9x100", 9, 100),
    ("1000x1", 1_000, 1),
    ("1000x10", 1_000, 10),
    ("10000x10", 10_000, 10),
];

pub(crate) fn pool(buckets: u32, weight: u32) -> Vec<Bucket> {
    (0..buckets)
        .map(|i| Bucket::from_text(format!("10.0.{}.{}:80", i / 256, i % 256), weight))
        .collect()
}

/// Every layout that the features give, with 160 points per weight.
pub(crate) fn configs() -> Vec<(&'static str, RingConfig)> {
    let v1 = ("v1", RingConfig::new());
    #[cfg(feature = "v2")]
    {
        let point_multiple = std::num::NonZeroU32::new(160).unwrap();
        let version = ketama::Version::V2 { point_multiple };
        vec![v1, ("v2", RingConfig::new().version(version))]
    }
    #[cfg(not(feature = "v2"))]
    vec![v1]
}
