//! A backend that comes, or comes back, takes its share step by step.

use std::time::Duration;

/// How a backend is eased in.
///
/// It begins when a backend joins a pool that already serves, and when one becomes ready again
/// after it was down, ejected or disabled; not for those that are there at the start. The share
/// grows evenly from `start_percent` of what its weight says to all of it, and is exactly that
/// once `window` is over.
///
/// Which requests it gets is decided by the key, so that a key which it has taken over stays with
/// it; requests without a key are drawn at random. A request that no other backend can take is
/// never refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct SlowStart {
    /// How long it takes; longer than zero.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::period::positive"))]
    pub window: Duration,
    /// The share to begin with, in percent; 1 to 100. Default: 10 (Envoy).
    #[cfg_attr(
        feature = "serde",
        serde(
            default = "start_percent",
            deserialize_with = "crate::config::percent_from_one"
        )
    )]
    pub start_percent: u8,
}

impl SlowStart {
    /// Over this long, from 10 percent.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self {
            window,
            start_percent: START_PERCENT,
        }
    }

    /// With this share to begin with.
    #[must_use]
    pub fn start_percent(self, start_percent: u8) -> Self {
        Self {
            start_percent,
            ..self
        }
    }

    /// Whether a request that drew `draw` goes to a backend that began at `from`.
    pub(crate) fn admits(&self, from: Duration, now: Duration, draw: u32) -> bool {
        // In microseconds, products stay below 2^128 whatever the window.
        let window = self.window.as_micros();
        let elapsed = now.saturating_sub(from).as_micros();
        if elapsed >= window {
            return true;
        }
        let start = u128::from(self.start_percent);
        // share = start + (100 - start) * elapsed / window; admitted if draw < share * 2^32.
        let share = start * window + (100 - start.min(100)) * elapsed;
        u128::from(draw) * 100 * window < share << 32
    }
}

/// What a request draws at a backend: by its key, or at random without one.
///
/// With the key's hash alone the same tenth of all keys would be the first to move to whatever
/// backend, and several that start together would ask for the same ones.
pub(crate) fn draw(key: &[u8], salt: u64) -> u32 {
    if key.is_empty() {
        return rand::random();
    }
    let [a, b, c, d, ..] = hash(salt, key).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// FNV-1a from a salt, with SplitMix64's finaliser: FNV's high bits know little of the last bytes.
pub(crate) fn hash(salt: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    let hash = bytes.iter().fold(salt ^ FNV_OFFSET, step);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(feature = "serde")]
fn start_percent() -> u8 {
    START_PERCENT
}

/// As Envoy's `min_weight_percent`.
const START_PERCENT: u8 = 10;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn admitted(slow: &SlowStart, elapsed: u64) -> usize {
        let now = Duration::from_secs(1000 + elapsed);
        let admits = |n: &u32| {
            let draw = draw(format!("key-{n}").as_bytes(), 7);
            slow.admits(Duration::from_secs(1000), now, draw)
        };
        (0..10_000).filter(admits).count()
    }

    #[test]
    fn the_share_grows_evenly_and_ends_whole() {
        let slow = SlowStart::new(MINUTE);
        // 10,000 draws of probability p: six standard deviations are below 300.
        for (elapsed, expected) in [(0, 1000), (20, 4000), (40, 7000)] {
            let admitted = admitted(&slow, elapsed);
            assert!(admitted.abs_diff(expected) < 300, "{elapsed} s: {admitted}");
        }
        assert_eq!(admitted(&slow, 60), 10_000);
        assert!(slow.admits(Duration::ZERO, MINUTE, u32::MAX));
        let for_ever = SlowStart::new(Duration::MAX).start_percent(100);
        assert!(for_ever.admits(Duration::ZERO, MINUTE, u32::MAX));
        assert!(!slow.admits(Duration::ZERO, MINUTE - Duration::from_millis(1), u32::MAX));
    }

    #[test]
    fn a_key_that_came_stays() {
        let slow = SlowStart::new(MINUTE).start_percent(1);
        for n in 0..1000 {
            let draw = draw(format!("key-{n}").as_bytes(), 1);
            let admits = |second| slow.admits(Duration::ZERO, Duration::from_secs(second), draw);
            let steps: Vec<_> = (0..=60).map(admits).collect();
            assert!(steps.is_sorted(), "key-{n}");
        }
    }
}
