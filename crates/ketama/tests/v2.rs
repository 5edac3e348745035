//! The smaller layout: one ring for every order of the buckets.
#![cfg(feature = "v2")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ketama::{Bucket, Continuum, RingConfig, Version};

fn v2(buckets: &[Bucket], point_multiple: u32) -> Continuum {
    let point_multiple = point_multiple.try_into().unwrap();
    let config = RingConfig::new().version(Version::V2 { point_multiple });
    Continuum::with_config(buckets, &config).unwrap()
}

/// All points with their owner's text and weight, which no order may change.
fn owners(ring: &Continuum) -> Vec<(u32, &str, u32)> {
    ring.points()
        .map(|(hash, node)| {
            (
                hash,
                ring.buckets()[node].text(),
                ring.buckets()[node].weight(),
            )
        })
        .collect()
}

#[test]
fn ties_go_to_the_lowest_address_as_in_pingora() {
    // The 1,000 servers and the owners that pingora-ketama 0.9.1 gives their six shared points.
    let mut buckets: Vec<Bucket> = (0..1_000u32)
        .map(|i| format!("10.2.{}.{}:{}", i / 250, i % 250 + 1, 8000 + i % 3))
        .map(|addr| Bucket::new(addr.parse().unwrap(), 1))
        .collect();
    let pingora = [
        (282_950_968, "10.2.0.25:8000"),
        (1_055_587_801, "10.2.2.15:8001"),
        (1_106_240_027, "10.2.2.18:8001"),
        (1_108_928_135, "10.2.0.206:8001"),
        (2_607_126_866, "10.2.1.211:8001"),
        (3_859_849_552, "10.2.1.38:8002"),
    ];
    let forward = v2(&buckets, 160);
    assert_eq!(forward.len(), 159_994);
    for (hash, owner) in pingora {
        assert_eq!(forward.node_for_hash(hash).unwrap().text(), owner, "{hash}");
    }
    buckets.reverse();
    assert_eq!(owners(&v2(&buckets, 160)), owners(&forward));
}

#[test]
fn every_order_gives_the_same_ring() {
    let addr = |text: &str, weight| Bucket::new(text.parse().unwrap(), weight);
    let mut pool = vec![
        addr("203.0.113.210:80", 2),
        addr("203.0.113.215:80", 2),
        addr("203.0.113.215:80", 5), // The same server twice, with two weights.
        Bucket::from_text("203.0.113.210:80", 1), // Its points again, without an address.
        Bucket::from_text("unix:/tmp/a.sock", 1),
    ];
    let expected = v2(&pool, 160);
    assert_eq!(expected.len(), 320 + 800 - 1 + 160);
    // Every rotation of every reversal of a prefix: 50 orders.
    for turn in 0..pool.len() {
        pool.rotate_left(1);
        for prefix in 0..=pool.len() {
            let mut order = pool.clone();
            order[..prefix].reverse();
            assert_eq!(
                owners(&v2(&order, 160)),
                owners(&expected),
                "{turn} {prefix}"
            );
        }
    }
}

#[test]
fn an_address_comes_before_a_text() {
    let text = Bucket::from_text("203.0.113.210:80", 1);
    let addr = Bucket::new("203.0.113.210:80".parse().unwrap(), 1);
    let ring = v2(&[text, addr], 10);
    assert_eq!(ring.len(), 10);
    assert!(ring.points().all(|(_, node)| node == 1));
}

#[test]
fn the_multiple_scales_the_points() {
    let buckets = [Bucket::from_text("a", 3), Bucket::from_text("b", 1)];
    for multiple in [1, 10, 40, 160] {
        assert_eq!(v2(&buckets, multiple).len(), 4 * multiple as usize);
    }
    let v1 = Continuum::new(&buckets).unwrap();
    assert!(v2(&buckets, 160).points().eq(v1.points()));
}
