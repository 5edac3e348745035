//! Ten points instead of 160 place other keys; 160 of them are the ring of V1.

use std::num::NonZeroU32;

use ketama::{Bucket, Continuum, RingConfig, Version};

fn main() {
    let buckets = [1, 2, 3, 4].map(|n| Bucket::new(format!("10.0.0.{n}:80").parse().unwrap(), 1));
    let v1 = Continuum::new(&buckets).unwrap();
    let moved = |points| {
        let point_multiple = NonZeroU32::new(points).unwrap();
        let config = RingConfig::new().version(Version::V2 { point_multiple });
        let v2 = Continuum::with_config(&buckets, &config).unwrap();
        let keys = (0..10_000).map(|n| format!("key-{n}"));
        keys.filter(|key| v1.node(key.as_bytes()) != v2.node(key.as_bytes()))
            .count()
    };
    assert!(moved(10) > 1_000, "only {} keys moved", moved(10));
    assert_eq!(moved(160), 0);
}
