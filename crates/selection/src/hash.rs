//! nginx's `hash`: the key modulo the weights.

use std::time::Duration;

use crc32fast::Hasher;

use crate::rehash::Rehash;
use crate::{Build, BuildError, Eligible, NodeId, NodeSet, Outcome, Selector};

/// By CRC-32 of the key modulo the total weight: nginx's `hash KEY`.
///
/// When the set changes nearly all keys move; see [`Consistent`](crate::Consistent) for a hash
/// that moves few.
///
/// # Rule
///
/// Attempt r hashes the decimal digits of r and then the key; attempt 0 the key alone. Bits 16 to
/// 30 of the CRC-32 are added to those of the attempts before. The sum modulo the total weight
/// is a place in the list of all nodes, each as long as its weight. If that node is not eligible,
/// the next attempt follows; it keeps its place meanwhile, so that a node going down moves no keys
/// but its own. After 20 misses smooth round robin among the eligible nodes decides.
///
/// A retry goes on where the try before stopped, as in nginx: its pick starts again from the key
/// and meets the nodes tried on the way.
///
/// An empty key is not hashed: such requests take turns by smooth round robin.
///
/// The first attempt has 32,768 values. With a total weight far above that some nodes get no keys
/// at all, and shares are coarse.
///
/// # Cost
///
/// O(1) for the first attempt, or O(log n) beyond a total weight of 65,536. Up to some 20 hashes
/// if few nodes are eligible, and then O(n) under a lock.
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_hash_module.c`: `ngx_http_upstream_get_hash_peer`; every pick is
/// nginx's.
#[derive(Clone, Debug)]
pub struct ModuloHash {
    rehash: Rehash,
}

/// What besides the nodes decides the choices of [`ModuloHash`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct ModuloHashConfig {
    /// For the turns: how many failures take the whole weight of a node, as in
    /// [`SmoothConfig`](crate::SmoothConfig::max_fails).
    pub max_fails: u32,
}

impl ModuloHashConfig {
    /// Sets how many failures take the whole weight of a node.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails }
    }
}

impl Default for ModuloHashConfig {
    fn default() -> Self {
        Self { max_fails: 1 }
    }
}

impl Selector for ModuloHash {
    fn len(&self) -> usize {
        self.rehash.wheel().nodes().len()
    }

    fn pick(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if key.is_empty() {
            return self.rehash.wheel().turn(eligible);
        }
        self.rehash.pick(sums(key), eligible)
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

impl Build for ModuloHash {
    type Config = ModuloHashConfig;

    fn build(nodes: &NodeSet, config: &ModuloHashConfig) -> Result<Self, BuildError> {
        let rehash = Rehash::new(nodes, config.max_fails)?;
        Ok(Self { rehash })
    }

    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &ModuloHashConfig,
    ) -> Result<Self, BuildError> {
        let rehash = Rehash::carried(&previous.rehash, nodes, config.max_fails)?;
        Ok(Self { rehash })
    }
}

/// The sum of the hashes after each attempt.
fn sums(key: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut sum = 0;
    (0u32..).map(move |attempt| {
        let mut hasher = Hasher::new();
        if attempt > 0 {
            with_decimal(attempt, |digits| hasher.update(digits));
        }
        hasher.update(key);
        sum += u64::from(hasher.finalize() >> 16 & 0x7fff);
        sum
    })
}

/// Calls `take` with `number` as text.
fn with_decimal(mut number: u32, take: impl FnOnce(&[u8])) {
    let mut digits = [b'0'; 10];
    let mut first = digits.len();
    while number > 0 && first > 0 {
        first -= 1;
        // A remainder below 10 fits.
        digits[first] += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    take(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_hash_their_number_and_the_key() {
        // By Python's zlib.crc32: "a" 0xe8b7be43, "1a" 0xbd314483, "2a" 0x961c1740.
        let first: Vec<_> = sums(b"a").take(3).collect();
        assert_eq!(first, [0x68b7, 0x68b7 + 0x3d31, 0x68b7 + 0x3d31 + 0x161c]);
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for (number, text) in [(1, "1"), (10, "10"), (203, "203"), (u32::MAX, "4294967295")] {
            with_decimal(number, |digits| assert_eq!(digits, text.as_bytes()));
        }
    }
}
