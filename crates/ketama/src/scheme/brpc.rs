//! bRPC: `consistent_hashing_load_balancer.cpp`.
//!
//! The three balancers differ in the hash of the string `ENDPOINT-i` only. Weights are ignored:
//! the tag of a server is no weight here. The tagged strings of the flag
//! `consistent_hashing_enable_server_tag`, off by default, are not covered.
//!
//! bRPC's caller brings the 32-bit request code ([`Continuum::node_for_hash`]); the key hashes of
//! the schemes are those that bRPC offers to make one.
//!
//! [`Continuum::node_for_hash`]: crate::Continuum::node_for_hash

use core::cmp::Ordering;
use core::net::SocketAddrV4;

use super::Scheme;
use crate::{Bucket, BuildError};

pub(super) fn check_replicas(scheme: Scheme) -> Result<(), BuildError> {
    let (replicas, multiple_of) = match scheme {
        Scheme::BrpcMurmurHash { replicas } | Scheme::BrpcMd5 { replicas } => (replicas, 1),
        Scheme::BrpcKetama { replicas } => (replicas, 4),
        _ => return Ok(()),
    };
    if replicas > 0 && replicas.is_multiple_of(multiple_of) {
        Ok(())
    } else {
        Err(BuildError::Replicas {
            replicas,
            multiple_of,
        })
    }
}

/// The order of the server list, in which `Describe` prints it too: by the address as the
/// little-endian number that `s_addr` holds (so the *last* octet counts most), then by port.
///
/// IPv6 addresses and unix sockets have small numbers that bRPC hands out at run time: they come
/// first, in an order that differs from process to process. Here they are ordered by text.
pub(super) fn compare(a: &Bucket, b: &Bucket) -> Ordering {
    let number = |bucket: &Bucket| {
        let address: SocketAddrV4 = bucket.text().parse().ok()?;
        Some((u32::from_le_bytes(address.ip().octets()), address.port()))
    };
    number(a)
        .cmp(&number(b)) // `None`, which is no IPv4 address, is the least.
        .then_with(|| a.text().cmp(b.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn replicas_out_of_range_are_named() {
        let error = |scheme| check_replicas(scheme).unwrap_err().to_string();
        assert_eq!(
            error(Scheme::BrpcKetama { replicas: 102 }),
            "102 replicas, must be a positive multiple of 4"
        );
        for scheme in [
            Scheme::BrpcKetama { replicas: 0 },
            Scheme::BrpcMd5 { replicas: 0 },
            Scheme::BrpcMurmurHash { replicas: 0 },
        ] {
            assert!(error(scheme).starts_with("0 replicas"));
        }
        assert_eq!(check_replicas(Scheme::BrpcKetama { replicas: 4 }), Ok(()));
        assert_eq!(check_replicas(Scheme::BrpcMd5 { replicas: 1 }), Ok(()));
    }

    /// The order in which the real library lists servers.
    #[test]
    fn last_octet_counts_most() {
        let listed = [
            "[::1]:80",
            "unix:test.sock",
            "10.1.0.1:8000",
            "10.1.9.1:8006",
            "10.1.0.2:8001",
            "10.92.115.19:8833",
            "10.42.108.25:8833",
            "10.42.108.25:9000",
            "10.36.150.32:8833",
        ];
        let buckets = listed.map(|text| Bucket::from_text(text, 1));
        assert!(buckets.is_sorted_by(|a, b| compare(a, b) == Ordering::Less));
    }
}
