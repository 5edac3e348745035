//! libmemcached: `hosts.cc`, `update_continuum`.
//!
//! Two rings hide behind one option name. `MEMCACHED_BEHAVIOR_KETAMA` is the plain one, which no
//! other client builds; "ketama as everyone means it" is `MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, for
//! equal weights too. Unix sockets are not covered by the recordings.

use alloc::string::String;

use super::{Pool, STRINGS_PER_SERVER};
use crate::Bucket;

/// How libmemcached writes a server in the strings that it hashes.
///
/// Host and port are those of [`Bucket::host_and_port`]. `memcached_server_add` takes an IPv6
/// host without brackets: give such a bucket the text `2001:db8::1:11212`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PointNames {
    /// `host-0` for the port 11211 or no port, else `host:port-0`.
    #[default]
    Libmemcached,
    /// `/host:port-0`, the port always: the distribution `CONSISTENT_KETAMA_SPY`, after the Java
    /// client spymemcached.
    Spy,
}

pub(super) fn write_name(bucket: &Bucket, names: PointNames, string: &mut String) {
    let (host, port) = bucket.host_and_port();
    let port = if port.is_empty() { DEFAULT_PORT } else { port };
    let parts: &[&str] = match names {
        PointNames::Libmemcached if port == DEFAULT_PORT => &[host],
        PointNames::Libmemcached => &[host, ":", port],
        PointNames::Spy => &["/", host, ":", port],
    };
    string.extend(parts.iter().copied());
}

/// `floor((float)(pct * 160 / 4 * (float)live_servers + 0.0000000001))`, all in `float`.
///
/// The summand, meant to save a product that rounded down, is too small to: next to any product
/// that matters it vanishes in the rounding to `float`. twemproxy has the same line.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the rounding of C's float is part of the ring; the last cast is the floor"
)]
pub(super) fn weighted_strings(weight: u32, pool: &Pool) -> u32 {
    let share = weight as f32 / pool.weight as f32;
    let product = share * f32::from(4 * STRINGS_PER_SERVER) / 4.0 * pool.servers as f32;
    (f64::from(product) + 1e-10) as f32 as u32
}

/// `MEMCACHED_POINTS_PER_SERVER`.
pub(super) const PLAIN_POINTS: u32 = 100;

/// `MEMCACHED_DEFAULT_PORT`: left out of the hashed string.
const DEFAULT_PORT: &str = "11211";

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str, names: PointNames) -> String {
        let mut string = String::new();
        write_name(&Bucket::from_text(text, 1), names, &mut string);
        string
    }

    #[test]
    fn default_port_is_dropped() {
        for (text, libmemcached, spy) in [
            ("10.0.0.1:11211", "10.0.0.1", "/10.0.0.1:11211"),
            ("10.0.0.1:11212", "10.0.0.1:11212", "/10.0.0.1:11212"),
            ("cache.test", "cache.test", "/cache.test:11211"),
            (
                "2001:db8::1:11212",
                "2001:db8::1:11212",
                "/2001:db8::1:11212",
            ),
        ] {
            assert_eq!(name(text, PointNames::Libmemcached), libmemcached);
            assert_eq!(name(text, PointNames::Spy), spy);
        }
    }

    /// Recorded: 1,104 points instead of 1,120, and none at all for the small shares.
    #[test]
    fn flooring_loses_points() {
        let weights = [7, 1, 3, 11, 2, 600, 300];
        let pool = Pool {
            servers: 7,
            weight: weights.iter().map(|&weight| u64::from(weight)).sum(),
        };
        let strings = weights.map(|weight| weighted_strings(weight, &pool));
        assert_eq!(strings, [2, 0, 0, 3, 0, 181, 90]);
        assert_eq!(strings.iter().sum::<u32>() * 4, 1_104);
    }
}
