//! nginx's `ip_hash`: by the address of the client.

use std::time::Duration;

use crate::rehash::Rehash;
use crate::{Build, BuildError, Eligible, NodeId, NodeSet, Outcome, Selector};

/// By the address of the client: nginx's `ip_hash`.
///
/// The key is the octets of the address, 4 of IPv4 or 16 of IPv6: `&ip.octets()`. Any other key is
/// hashed as it is; nginx takes three zero bytes for a client on a unix socket.
///
/// # Rule
///
/// h starts at 89; an attempt sets h to (113 h + byte) mod 6271 for each byte in turn. h modulo the
/// total weight is a place in the list of all nodes, each as long as its weight. If that node is
/// not eligible, the next attempt follows, from the present h; it keeps its place meanwhile, so
/// that a node going down moves no clients but its own. After 20 misses smooth round robin among
/// the eligible nodes decides. A retry goes on where the try before stopped.
///
/// nginx takes the first 3 octets of an IPv4 address only, so all clients of a /24 share a node,
/// and all 16 of an IPv6 address, where an IPv4 client on a dual-stack socket is `::ffff:a.b.c.d`
/// and hashed as such. [`AddressPart::Full`] is the better choice unless nginx must be matched: all
/// octets, and those of the IPv4 address where one is mapped.
///
/// An empty key is not hashed: such requests take turns by smooth round robin.
///
/// h has 6271 values: with a total weight above that some nodes get no clients at all.
///
/// # Cost
///
/// As [`ModuloHash`](crate::ModuloHash).
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_ip_hash_module.c`: `ngx_http_upstream_get_ip_hash_peer`; every
/// pick is nginx's, except with [`AddressPart::Full`].
#[derive(Clone, Debug)]
pub struct IpHash {
    rehash: Rehash,
    address: AddressPart,
}

/// What besides the nodes decides the choices of [`IpHash`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct IpHashConfig {
    /// How much of the address counts.
    pub address: AddressPart,
    /// For the turns: how many failures take the whole weight of a node, as in
    /// [`SmoothConfig`](crate::SmoothConfig::max_fails).
    pub max_fails: u32,
}

/// How much of a client's address [`IpHash`] hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum AddressPart {
    /// nginx's: the first 3 octets of IPv4, all 16 of IPv6 also where that maps an IPv4 address.
    #[default]
    Nginx,
    /// All octets; an IPv4 address mapped into IPv6 counts as the IPv4 address.
    Full,
}

impl IpHash {
    /// By the full address of the client; see [`AddressPart::Full`].
    ///
    /// # Errors
    ///
    /// As [`Build::build`].
    pub fn full_address(nodes: &NodeSet) -> Result<Self, BuildError> {
        Self::build(nodes, &IpHashConfig::default().address(AddressPart::Full))
    }
}

impl IpHashConfig {
    /// Sets how much of the address counts.
    #[must_use]
    pub fn address(self, address: AddressPart) -> Self {
        Self { address, ..self }
    }

    /// Sets how many failures take the whole weight of a node.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }
}

impl Default for IpHashConfig {
    fn default() -> Self {
        Self {
            address: AddressPart::default(),
            max_fails: 1,
        }
    }
}

impl Selector for IpHash {
    fn len(&self) -> usize {
        self.rehash.wheel().nodes().len()
    }

    fn pick(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if key.is_empty() {
            return self.rehash.wheel().turn(eligible);
        }
        self.rehash.pick(hashes(self.address.of(key)), eligible)
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, _now: Duration) {
        if let Outcome::Failure(_) = outcome {
            self.rehash.wheel().failed(node);
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl Build for IpHash {
    type Config = IpHashConfig;

    fn build(nodes: &NodeSet, config: &IpHashConfig) -> Result<Self, BuildError> {
        Ok(Self {
            rehash: Rehash::new(nodes, config.max_fails)?,
            address: config.address,
        })
    }

    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &IpHashConfig,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            rehash: Rehash::carried(&previous.rehash, nodes, config.max_fails)?,
            address: config.address,
        })
    }
}

impl AddressPart {
    /// The octets of `key` that are hashed.
    fn of(self, key: &[u8]) -> &[u8] {
        match (self, key) {
            (Self::Nginx, [network @ .., _]) if key.len() == 4 => network,
            (Self::Full, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, v4 @ ..]) if v4.len() == 4 => {
                v4
            }
            _ => key,
        }
    }
}

/// h after each attempt.
fn hashes(octets: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut h = 89u32;
    std::iter::repeat_with(move || {
        h = octets
            .iter()
            .fold(h, |h, &octet| (113 * h + u32::from(octet)) % 6271);
        h.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_an_address_that_counts() {
        let (v4, other) = ([192, 0, 2, 7], [192, 0, 2, 8]);
        let mapped = std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets();
        let v6 = std::net::Ipv6Addr::LOCALHOST.octets();
        let (nginx, full) = (AddressPart::Nginx, AddressPart::Full);
        assert_eq!(nginx.of(&v4), nginx.of(&other));
        assert_eq!(nginx.of(&mapped), mapped);
        assert_ne!(full.of(&v4), full.of(&other));
        assert_eq!(full.of(&mapped), full.of(&v4));
        assert_eq!((nginx.of(&v6), full.of(&v6)), (&v6[..], &v6[..]));
        assert_eq!((nginx.of(&[0; 3]), full.of(b"x")), (&[0; 3][..], &b"x"[..]));
    }

    #[test]
    fn an_attempt_goes_on_from_the_one_before() {
        // 89 -> 113 * 89 + 1 = 10058 -> 3787; 113 * 3787 + 2 = 427933 -> 1505;
        // 113 * 1505 + 3 = 170068 -> 751; and the same bytes once more.
        let first: Vec<_> = hashes(&[1, 2, 3]).take(2).collect();
        let again = [1, 2, 3]
            .iter()
            .fold(751, |h, byte| (113 * h + byte) % 6271);
        assert_eq!(first, [751, again]);
    }
}
