//! A ring in the fewest words, and pools to compare on.

use std::collections::{BTreeMap, BTreeSet};

use ketama::Bucket;
use proptest::prelude::*;

/// Every point with its owner: of several claimants the one with the lowest `rank`.
pub(crate) fn ring<R: Ord>(
    buckets: &[Bucket],
    points_per_weight: u32,
    rank: impl Fn(usize) -> R,
) -> BTreeMap<u32, usize> {
    let mut ring = BTreeMap::new();
    for (node, bucket) in buckets.iter().enumerate() {
        let (host, port) = bucket.host_and_port();
        let mut previous = 0;
        for _ in 0..bucket.weight() * points_per_weight {
            let text = [
                host.as_bytes(),
                &[0],
                port.as_bytes(),
                &u32::to_le_bytes(previous),
            ];
            previous = crc32(&text.concat());
            let owner = ring.entry(previous).or_insert(node);
            if rank(node) < rank(*owner) {
                *owner = node;
            }
        }
    }
    ring
}

/// The owners of all points from `key` on.
pub(crate) fn walk(ring: &BTreeMap<u32, usize>, key: &[u8]) -> Vec<usize> {
    let hash = crc32(key);
    ring.range(hash..)
        .chain(ring.range(..hash))
        .map(|(_, &node)| node)
        .collect()
}

/// How much of the circle moves from which text to which, cut at every point of both rings.
pub(crate) fn diff<'a>(
    (before, old): (&BTreeMap<u32, usize>, &'a [Bucket]),
    (after, new): (&BTreeMap<u32, usize>, &'a [Bucket]),
) -> BTreeMap<(Option<&'a str>, Option<&'a str>), u64> {
    let ends = before
        .keys()
        .chain(after.keys())
        .map(|&point| u64::from(point) + 1);
    let ends: BTreeSet<u64> = ends.chain([1 << 32]).collect();
    let owner = |ring: &BTreeMap<u32, usize>, buckets: &'a [Bucket], start: u64| {
        let start = u32::try_from(start).unwrap();
        let behind = ring.range(start..).next().or_else(|| ring.iter().next());
        behind.map(|(_, &node)| buckets[node].text())
    };
    let mut moved = BTreeMap::new();
    let mut start = 0;
    for end in ends {
        let (from, to) = (owner(before, old, start), owner(after, new, start));
        if from != to {
            *moved.entry((from, to)).or_default() += end - start;
        }
        start = end;
    }
    moved
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// Text and weight; among the texts are addresses whose points collide, and few others.
pub(crate) fn bucket() -> impl Strategy<Value = (String, u32)> {
    let text = prop_oneof![
        (0..8u8).prop_map(|i| format!("192.0.2.{i}:80")),
        Just("203.0.113.210:80".to_owned()),
        Just("203.0.113.215:80".to_owned()),
        (0..4u8).prop_map(|i| format!("[2001:db8::{i}]:443")),
        (0..4u8).prop_map(|i| format!("unix:/run/{i}.sock")),
        // Every one of its points is 0.
        Just("shard-1155-xqvp".to_owned()),
        "[a-z:0-9]{0,6}",
    ];
    (text, 0..4u32)
}

pub(crate) fn pool() -> impl Strategy<Value = Vec<(String, u32)>> {
    proptest::collection::vec(bucket(), 0..8)
}

/// Buckets with an address where the text is one.
pub(crate) fn buckets(pool: &[(String, u32)]) -> Vec<Bucket> {
    pool.iter()
        .map(|(text, weight)| match text.parse() {
            Ok(addr) => Bucket::new(addr, *weight),
            Err(_) => Bucket::from_text(text.as_str(), *weight),
        })
        .collect()
}

pub(crate) fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..24), 16)
}
