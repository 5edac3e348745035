//! V1 is frozen: whole rings, byte for byte, whatever features are on.
//!
//! The digests are 64-bit FNV-1a over each point's hash and bucket index, both `u32` in little
//! endian, in ring order. They were computed by an independent program (Python, `zlib.crc32`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ketama::{Bucket, Continuum};

#[test]
fn v1_rings_are_frozen() {
    let mixed = [
        ("203.0.113.215:80", 3),
        ("203.0.113.210:80", 2), // Shares a point with the first.
        ("[2001:db8::1]:80", 1),
        ("192.0.2.1", 4),
        ("unix:/tmp/a.sock", 1),
        ("backend.test:8080", 0),
        ("192.0.2.7:443", 100),
        ("shard-17", 7),
    ];
    assert_eq!(digest(&mixed), (18_879, 0x8b7d_0200_71ee_949e));
    let weighted = [
        ("10.0.0.1:80", 1),
        ("10.0.0.2:80", 2),
        ("10.0.0.3:80", 3),
        ("10.0.0.4:80", 4),
    ];
    assert_eq!(digest(&weighted), (1_600, 0xf5ee_197f_7007_b2a4));
}

fn digest(pool: &[(&str, u32)]) -> (usize, u64) {
    let buckets: Vec<_> = pool
        .iter()
        .map(|&(text, weight)| Bucket::from_text(text, weight))
        .collect();
    let ring = Continuum::new(&buckets).unwrap();
    let digest = ring
        .points()
        .flat_map(|(hash, node)| [hash, u32::try_from(node).unwrap()])
        .flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |digest: u64, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (ring.len(), digest)
}
