//! Random numbers without a lock: SplitMix64 over one atomic counter.
//!
//! Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014). The
//! state of the generator is a counter and the output a bijection of it, so concurrent draws are
//! one `fetch_add` each and never the same number twice within 2^64 draws. Not for secrets.

use std::sync::atomic::{AtomicU64, Ordering};

/// The start of a stream: `seed`, or entropy of the operating system.
pub(crate) fn seed_or_entropy(seed: Option<u64>) -> u64 {
    seed.unwrap_or_else(rand::random)
}

/// The next number of the stream that `state` counts.
pub(crate) fn draw(state: &AtomicU64) -> u64 {
    // Relaxed: only the atomicity of the count matters; it orders no other memory.
    mix(state.fetch_add(GAMMA, Ordering::Relaxed))
}

/// The number of the stream at `state`.
pub(crate) fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(GAMMA);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_published_vectors() {
        // The first outputs for seed 1234567 of the reference program of Sebastiano Vigna.
        let state = AtomicU64::new(1_234_567);
        let drawn: Vec<_> = std::iter::repeat_with(|| draw(&state)).take(5).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }
}
