//! The hash functions that memcached clients, twemproxy and bRPC offer for keys.
//!
//! They are named after the option that selects them, and they do what that option really does:
//! several are not the function of their name. Each is checked against recorded values.

use md5::{Digest, Md5};
use murmur3_32::Murmur3;

/// A hash function from a key to a place on the circle.
///
/// "Signed bytes" means that a byte from 0x80 up is sign-extended to 32 or 64 bits before it is
/// mixed in, which the C code does where `char` is signed. ASCII keys are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum KeyHash {
    /// Jenkins' one-at-a-time over signed bytes: libmemcached's default, twemproxy's
    /// `one_at_a_time`.
    OneAtATime,
    /// The first four bytes of the MD5 digest, little endian: libketama, libmemcached and
    /// twemproxy `md5`, bRPC `MD5Hash32`.
    Md5,
    /// **15 bits** of CRC-32 (`crc >> 16 & 0x7fff`): libmemcached `crc`, twemproxy `crc32`, bRPC
    /// `CRCHash32`.
    ///
    /// On a ring of 32-bit points (all but libmemcached's plain ring under the same hash) every
    /// key falls below 0x8000, so practically **all keys belong to one server**. That is what
    /// these programs do, and it is reproduced.
    Crc15,
    /// CRC-32 (IEEE, reflected): twemproxy `crc32a`; the key hash of nginx.
    Crc32,
    /// CRC-16 (polynomial 0x1021, most significant bit first) **never cut to 16 bits**: the
    /// running value shifts on in 32 bits. twemproxy `crc16`.
    Crc16,
    /// The low 32 bits of 64-bit FNV-1 over signed bytes: `fnv1_64`.
    Fnv1_64,
    /// FNV-1a in 32-bit arithmetic with the *truncated 64-bit constants* (0x84222325, 0x1b3) over
    /// signed bytes: `fnv1a_64`, twemproxy's default. Not the low half of 64-bit FNV-1a.
    Fnv1a64,
    /// 32-bit FNV-1 over signed bytes: `fnv1_32`.
    Fnv1_32,
    /// 32-bit FNV-1a over signed bytes: `fnv1a_32`.
    Fnv1a32,
    /// Hsieh's SuperFastHash started at 0: twemproxy `hsieh`. The last byte of a key of length
    /// 4k + 3 is signed. (libmemcached is built without it.)
    Hsieh,
    /// MurmurHash2 with the seed `0xdeadbeef * length`: `murmur`.
    Murmur2,
    /// MurmurHash3 (x86, 32 bits) with seed 0: bRPC `MurmurHash32`.
    Murmur3,
    /// MurmurHash3 (x86, 32 bits) with the seed `0xdeadbeef * length`: libmemcached `murmur3`.
    Murmur3Length,
    /// Jenkins' lookup3 `hashlittle` with the initial value 13: `jenkins`.
    Jenkins,
}

impl KeyHash {
    /// The place of `key` on the circle. O(length), no allocation.
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            Self::OneAtATime => one_at_a_time(key),
            Self::Md5 => md5_words(key)[0],
            Self::Crc15 => crc32fast::hash(key) >> 16 & 0x7fff,
            Self::Crc32 => crc32fast::hash(key),
            Self::Crc16 => crc16(key),
            Self::Fnv1_64 => fnv1_64(key),
            Self::Fnv1a64 => fnv1a(FNV_64_OFFSET_LOW, FNV_64_PRIME_LOW, key),
            Self::Fnv1_32 => fnv1_32(key),
            Self::Fnv1a32 => fnv1a(FNV_32_OFFSET, FNV_32_PRIME, key),
            Self::Hsieh => hsieh(key),
            Self::Murmur2 => murmur2(key),
            Self::Murmur3 => Murmur3::hash(0, key),
            Self::Murmur3Length => Murmur3::hash(MURMUR_SEED.wrapping_mul(length(key)), key),
            Self::Jenkins => lookup3(key),
        }
    }
}

/// The MD5 digest as four little-endian words: the four points of a ketama group.
pub(super) fn md5_words(text: &[u8]) -> [u32; 4] {
    let digest: [u8; 16] = Md5::digest(text).into();
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(digest.chunks_exact(4)) {
        *word = little_endian(bytes);
    }
    words
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mixed = key.iter().fold(0u32, |hash, &byte| {
        let hash = hash.wrapping_add(signed(byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    let hash = mixed.wrapping_add(mixed << 3);
    let hash = hash ^ (hash >> 11);
    hash.wrapping_add(hash << 15)
}

fn fnv1_64(key: &[u8]) -> u32 {
    // Multiplication and exclusive or carry nothing from the upper half to the lower, so the low
    // 32 bits of the 64-bit function need the low halves of its constants only.
    fnv1(FNV_64_OFFSET_LOW, FNV_64_PRIME_LOW, key)
}

fn fnv1_32(key: &[u8]) -> u32 {
    fnv1(FNV_32_OFFSET, FNV_32_PRIME, key)
}

fn fnv1(offset: u32, prime: u32, key: &[u8]) -> u32 {
    key.iter().fold(offset, |hash, &byte| {
        hash.wrapping_mul(prime) ^ signed(byte)
    })
}

fn fnv1a(offset: u32, prime: u32, key: &[u8]) -> u32 {
    key.iter().fold(offset, |hash, &byte| {
        (hash ^ signed(byte)).wrapping_mul(prime)
    })
}

fn crc16(key: &[u8]) -> u32 {
    key.iter().fold(0u32, |crc, &byte| {
        let [_, _, second, _] = crc.to_be_bytes();
        (crc << 8) ^ CRC16_TABLE[usize::from(second ^ byte)]
    })
}

fn hsieh(key: &[u8]) -> u32 {
    let low_half = |bytes: &[u8]| little_endian(&bytes[..2]);
    let mut chunks = key.chunks_exact(4);
    let mut hash = 0u32;
    for chunk in &mut chunks {
        hash = hash.wrapping_add(low_half(chunk));
        hash = (hash << 16) ^ (low_half(&chunk[2..]) << 11) ^ hash;
        hash = hash.wrapping_add(hash >> 11);
    }
    match *chunks.remainder() {
        [a, b, c] => {
            hash = hash.wrapping_add(low_half(&[a, b]));
            hash ^= hash << 16;
            hash ^= signed(c) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [a, b] => {
            hash = hash.wrapping_add(low_half(&[a, b]));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [a] => {
            hash = hash.wrapping_add(u32::from(a));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    for (left, right) in [(3, 5), (4, 17), (25, 6)] {
        hash ^= hash << left;
        hash = hash.wrapping_add(hash >> right);
    }
    hash
}

fn murmur2(key: &[u8]) -> u32 {
    let mut hash = MURMUR_SEED.wrapping_mul(length(key)) ^ length(key);
    let mut chunks = key.chunks_exact(4);
    for chunk in &mut chunks {
        let word = little_endian(chunk).wrapping_mul(MURMUR2_M);
        let word = (word ^ (word >> 24)).wrapping_mul(MURMUR2_M);
        hash = hash.wrapping_mul(MURMUR2_M) ^ word;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        hash = (hash ^ little_endian(rest)).wrapping_mul(MURMUR2_M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MURMUR2_M);
    hash ^ (hash >> 15)
}

/// Bob Jenkins' lookup3, `hashlittle`; a key of length 0 is not mixed.
fn lookup3(key: &[u8]) -> u32 {
    let start = MURMUR_SEED
        .wrapping_add(length(key))
        .wrapping_add(LOOKUP3_INITIAL);
    // The last block, even a full one, is finished instead of mixed.
    let mut rest = key;
    let mut state = [start; 3];
    while rest.len() > 12 {
        let (block, behind) = rest.split_at(12);
        add_words(&mut state, block);
        mix(&mut state);
        rest = behind;
    }
    if !rest.is_empty() {
        add_words(&mut state, rest);
        finish(&mut state);
    }
    state[2]
}

/// Adds up to twelve bytes to the state as little-endian words, padded with zeros.
fn add_words(state: &mut [u32; 3], bytes: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(bytes.chunks(4)) {
        *word = word.wrapping_add(little_endian(bytes));
    }
}

/// lookup3's `mix`: six rounds, each on the next of the three words in turn.
fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    for rotations in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(rotations[0]);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(rotations[1]);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(rotations[2]);
        b = b.wrapping_add(a);
    }
    *state = [a, b, c];
}

/// lookup3's `final`.
fn finish(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    *state = [a, b, c];
}

/// A byte as C's signed `char`, widened to 32 bits.
fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

/// Up to four bytes as a little-endian word, padded with zeros.
fn little_endian(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    for (to, &from) in word.iter_mut().zip(bytes) {
        *to = from;
    }
    u32::from_le_bytes(word)
}

/// The length as C's `uint32_t` sees it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the C functions cut the length of a key to 32 bits"
)]
fn length(key: &[u8]) -> u32 {
    key.len() as u32
}

const fn crc16_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut value = 0u16;
    while value < 256 {
        let mut crc = value << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ (if crc & 0x8000 == 0 { 0 } else { 0x1021 });
            bit += 1;
        }
        table[value as usize] = crc as u32;
        value += 1;
    }
    table
}

const CRC16_TABLE: [u32; 256] = crc16_table();

const FNV_32_OFFSET: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;
/// The low halves of FNV's 64-bit offset basis and prime.
const FNV_64_OFFSET_LOW: u32 = 0x8422_2325;
const FNV_64_PRIME_LOW: u32 = 0x0000_01b3;

/// libmemcached's and twemproxy's seed of MurmurHash (times the length), and lookup3's constant.
const MURMUR_SEED: u32 = 0xdead_beef;
const MURMUR2_M: u32 = 0x5bd1_e995;
const LOOKUP3_INITIAL: u32 = 13;

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of libmemcached and bRPC; the bytes from 0x80 up are where they leave the textbook.
    #[test]
    fn hashes_are_those_of_the_programs() {
        for (hash, of_text, of_high_bytes) in [
            (KeyHash::OneAtATime, 3_974_405_836, 4_156_692_870),
            (KeyHash::Md5, 2_123_055_796, 1_090_539_429),
            (KeyHash::Crc15, 31_211, 32_767),
            (KeyHash::Fnv1_64, 4_257_814_113, 2_729_652_521),
            (KeyHash::Fnv1a64, 2_515_697_753, 4_011_766_609),
            (KeyHash::Fnv1_32, 2_019_876_065, 1_702_506_377),
            (KeyHash::Fnv1a32, 1_491_088_857, 2_178_808_241),
            (KeyHash::Murmur2, 2_213_605_144, 97_985_163),
            (KeyHash::Jenkins, 2_260_814_615, 1_116_397_369),
            (KeyHash::Murmur3Length, 2_629_751_400, 1_089_722_945),
        ] {
            assert_eq!(hash.hash(b"key-0"), of_text, "{hash:?}");
            assert_eq!(hash.hash(b"\xff\xff\xff\xff"), of_high_bytes, "{hash:?}");
        }
        assert_eq!(KeyHash::Murmur3.hash(b"key-0"), 3_812_096_191);
    }

    #[test]
    fn hashes_of_the_empty_key() {
        for (hash, value) in [
            (KeyHash::OneAtATime, 0),
            (KeyHash::Md5, 3_649_838_548),
            (KeyHash::Crc15, 0),
            (KeyHash::Fnv1_64, 2_216_829_733),
            (KeyHash::Fnv1a64, 2_216_829_733),
            (KeyHash::Fnv1_32, 2_166_136_261),
            (KeyHash::Murmur2, 0),
            (KeyHash::Jenkins, 3_735_928_572),
            (KeyHash::Murmur3Length, 0),
        ] {
            assert_eq!(hash.hash(b""), value, "{hash:?}");
        }
    }

    #[test]
    fn crc16_keeps_what_it_shifts_out() {
        // The low half is the CRC-16/XMODEM check value; the rest is the running value of before.
        assert_eq!(KeyHash::Crc16.hash(b"123456789") & 0xffff, 0x31c3);
        assert!(KeyHash::Crc16.hash(b"123456789") > 0xffff);
    }
}
