//! Random numbers that a seed and a name repeat, whatever else was drawn.

/// SplitMix64 (Steele, Lea and Flood 2014): small, and good enough to make up pools.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The stream of this name. One pool of a run can be repeated alone, because no other pool
    /// draws from its stream.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut random = Self { state: seed };
        for byte in name.bytes() {
            random.state = random.next() ^ u64::from(byte);
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of the numbers below `n`, which is not 0. The bias is below `n` in 2^32.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        let wide = (self.next() >> 32) * u64::from(n);
        u32::try_from(wide >> 32).unwrap_or(0)
    }

    /// One of the numbers from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn octet(&mut self, low: u8, high: u8) -> u8 {
        u8::try_from(self.between(low.into(), high.into())).unwrap_or(high)
    }

    pub(crate) fn port(&mut self) -> u16 {
        u16::try_from(self.between(1024, 65535)).unwrap_or(u16::MAX)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        u32::try_from(len).map_or(0, |len| self.below(len) as usize)
    }

    /// True this often of a hundred times.
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Up to `most` of the numbers below `n`, ascending.
    pub(crate) fn some_of(&mut self, n: usize, most: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..n).collect();
        self.shuffle(&mut all);
        all.truncate(self.index(most + 1));
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_and_on_nothing_else() {
        let draws = |seed, name| {
            let mut random = Random::new(seed, name);
            [random.next(), random.next()]
        };
        assert_eq!(draws(1, "nginx/hash/3"), draws(1, "nginx/hash/3"));
        assert_ne!(draws(1, "nginx/hash/3"), draws(2, "nginx/hash/3"));
        assert_ne!(draws(1, "nginx/hash/3"), draws(1, "nginx/hash/4"));
        assert_ne!(draws(1, "ab"), draws(1, "ba"));
    }

    #[test]
    fn numbers_keep_their_limits_and_reach_them() {
        let mut random = Random::new(7, "");
        let draws: Vec<_> = (0..1000).map(|_| random.between(3, 6)).collect();
        for number in 3..=6 {
            assert!(draws.contains(&number));
        }
        assert!(draws.iter().all(|number| (3..=6).contains(number)));
        let mut sizes: Vec<_> = (0..200).map(|_| random.some_of(5, 3).len()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes, [0, 1, 2, 3]);
        let mut shuffled = [1, 2, 3, 4, 5, 6, 7, 8];
        random.shuffle(&mut shuffled);
        assert_ne!(shuffled, [1, 2, 3, 4, 5, 6, 7, 8]);
        shuffled.sort_unstable();
        assert_eq!(shuffled, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
