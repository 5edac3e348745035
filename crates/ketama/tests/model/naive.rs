//! A ring in the fewest words. Also what the fuzz target `ring` compares with.

use std::collections::{BTreeMap, BTreeSet};

use ketama::Bucket;

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

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
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
