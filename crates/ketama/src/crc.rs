//! CRC-32 (IEEE 802.3, as in zlib): of keys, and step by step for points.
//!
//! Here by tables, up to eight bytes a step. The CRC is linear: taking in some bytes is the same as
//! taking in as many zeros from a register that differs by these bytes. What zeros do to each byte
//! of the register is looked up.

#[cfg(target_arch = "x86_64")]
use crate::clmul::Clmul;

/// The CRC-32 of keys.
///
/// Made once and kept, because the CPU is asked for its features when it is made.
#[derive(Clone, Debug)]
pub(crate) struct KeyCrc {
    #[cfg(target_arch = "x86_64")]
    clmul: Option<Clmul>,
    fresh: crc32fast::Hasher,
}

impl KeyCrc {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            clmul: Clmul::detect(),
            fresh: crc32fast::Hasher::new(),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if key.len() < LONG
            && let Some(clmul) = self.clmul
        {
            return clmul.hash(key);
        }
        self.hash_otherwise(key)
    }

    /// Out of the way of the lookup, which is shorter and saves fewer registers without it.
    #[inline(never)]
    fn hash_otherwise(&self, key: &[u8]) -> u32 {
        if key.len() < SHORT {
            return hash_short(key);
        }
        let mut hasher = self.fresh.clone();
        hasher.update(key);
        hasher.finalize()
    }
}

/// The CRC-32 of a key without a whole block of the carry-less multiplication.
#[inline]
fn hash_short(key: &[u8]) -> u32 {
    let (eights, mut rest) = key.as_chunks::<8>();
    let mut register = eights
        .iter()
        .fold(!0, |register, &eight| take(register, eight));
    if let Some((&four, behind)) = rest.split_first_chunk::<4>() {
        register = take(register, four);
        rest = behind;
    }
    // Without a loop: its end would be guessed wrong for every other key.
    !match *rest {
        [a] => take(register, [a]),
        [a, b] => take(register, [a, b]),
        [a, b, c] => take(register, [a, b, c]),
        _ => register,
    }
}

/// The CRC register after it has taken in up to eight `bytes`, all at once.
#[inline]
pub(crate) fn take<const N: usize>(register: u32, bytes: [u8; N]) -> u32 {
    let old = u64::from(register).to_le_bytes();
    let mut new = if N < 4 { register >> (8 * N) } else { 0 };
    for i in 0..N {
        new ^= TABLES[N - 1 - i][usize::from(old[i] ^ bytes[i])];
    }
    new
}

/// `TABLES[n][byte]`: what `byte` has become of after `n` further zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0u32;
    while byte < 256 {
        let mut register = byte;
        let mut row = 0;
        while row < 8 {
            let mut bit = 0;
            while bit < 8 {
                register = (register >> 1) ^ (POLYNOMIAL & (register & 1).wrapping_neg());
                bit += 1;
            }
            tables[row][byte as usize] = register;
            row += 1;
        }
        byte += 1;
    }
    tables
}

/// `crc32fast` multiplies 16 bytes at a time. From there on it is the faster where keys differ in
/// length, as the number of steps of a loop here would be guessed wrong for every other key.
const SHORT: usize = 16;

/// `crc32fast` has four multiplications at a time under way from here on.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 128;

/// The polynomial of IEEE 802.3, lowest power in the highest bit.
pub(crate) const POLYNOMIAL: u32 = 0xedb8_8320;

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn keys_of_every_length_have_their_crc() {
        let crc = KeyCrc::new();
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 0..=160 {
            for start in [0, 1, 77] {
                let key = &bytes[start..start + len];
                let expected = crc32fast::hash(key);
                assert_eq!(crc.hash(key), expected, "{start} {len}");
                assert_eq!(crc.hash_otherwise(key), expected, "{start} {len}");
            }
        }
        assert_eq!(crc.hash(b"123456789"), 0xcbf4_3926); // The check value of CRC-32.
    }

    #[test]
    fn each_bit_of_a_key_counts() {
        let crc = KeyCrc::new();
        for len in [
            1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 27, 31, 32, 33, 47, 48, 127,
        ] {
            for bit in 0..8 * len {
                let mut key = vec![0; len];
                key[bit / 8] = 1 << (bit % 8);
                assert_eq!(crc.hash(&key), crc32fast::hash(&key), "{len} {bit}");
            }
        }
    }
}
