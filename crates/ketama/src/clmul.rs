//! CRC-32 by carry-less multiplication, for x86-64: the one place of this crate with unsafe code.
//!
//! `crc32fast` multiplies as well, but is made for long buffers; a key has a block or four. Here
//! a key is a polynomial with zeros in front, which do not count, so that it ends with a block; one
//! block is folded into the next until one is left, and that is reduced in three multiplications
//! (Gopal et al., Fast CRC computation for generic polynomials using PCLMULQDQ instruction, 2009).
//!
//! In every register the bits are reflected: the highest bit has the lowest power. A product of two
//! reflected 64-bit halves is therefore one power too low, which the constants make up for.

use core::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_extract_epi32, _mm_set_epi64x,
    _mm_shuffle_epi8, _mm_srli_si128, _mm_xor_si128,
};

use crate::crc::POLYNOMIAL;

/// The proof that this CPU multiplies without carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clmul(());

impl Clmul {
    /// `None` if the CPU lacks an instruction. To Miri it has those that the compiler was told of,
    /// so `cargo xtask miri` sees both paths.
    pub(crate) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let present = std::arch::is_x86_feature_detected!("pclmulqdq")
            && std::arch::is_x86_feature_detected!("sse4.1");
        #[cfg(not(feature = "std"))]
        let present = cfg!(all(target_feature = "pclmulqdq", target_feature = "sse4.1"));
        present.then_some(Self(()))
    }

    /// The CRC-32 of `key`; the shorter, the better.
    #[inline]
    #[expect(unsafe_code, reason = "a call of a function for some CPUs only")]
    pub(crate) fn hash(self, key: &[u8]) -> u32 {
        // SAFETY: `hash` asks for nothing but its two CPU features, and is safe otherwise. There is
        // no other way to a `Clmul` than `detect`, which has found both.
        unsafe { hash(key) }
    }
}

type Block = [u8; 16];

/// The CRC-32 of `key`.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn hash(key: &[u8]) -> u32 {
    let head = key.len() % 16;
    let fresh = _mm_cvtsi32_si128(FRESH[head].cast_signed());
    let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) else {
        return reduce(_mm_xor_si128(halves(halves_of(key)), fresh));
    };
    let zeros_and_head = _mm_shuffle_epi8(load(first), load(&HEADS[head]));
    let mut block = _mm_xor_si128(zeros_and_head, fresh);
    if key.len() >= 32 {
        for next in key[head..key.len() - 16].as_chunks().0 {
            block = fold(block, next);
        }
    }
    reduce(fold(block, last))
}

/// The block with zeros in front of a `key` that is shorter, as two halves.
///
/// The first and the last bytes may be the same ones in part: they are put where they belong.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "sixteen bytes at most")]
fn halves_of(key: &[u8]) -> [u64; 2] {
    let zeros = |bytes: usize| 8 * (bytes - key.len()) as u32;
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        let first = u64::from_le_bytes(*first).unbounded_shl(zeros(16));
        return [first, u64::from_le_bytes(*last)];
    }
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        let [first, last] = [first, last].map(|&bytes| u64::from(u32::from_le_bytes(bytes)));
        return [0, first << zeros(8) | last << 32];
    }
    let (Some(&first), Some(&last)) = (key.first(), key.last()) else {
        return [0, 0];
    };
    let middle = key.len() / 2;
    let [first, last, center] = [first, last, key[middle]].map(u64::from);
    [0, (first | center << (8 * middle)) << zeros(8) | last << 56]
}

/// A block that stands for `block` and `next` behind it: `block` times x^128, plus `next`.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold(block: __m128i, next: &Block) -> __m128i {
    let front = _mm_clmulepi64_si128::<FRONT>(block, constant(X191));
    let back = _mm_clmulepi64_si128::<BACK>(block, constant(X127));
    _mm_xor_si128(_mm_xor_si128(front, load(next)), back)
}

/// The CRC of a block: its remainder when it is multiplied by x^32 and divided, negated.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn reduce(block: __m128i) -> u32 {
    // From 128 + 32 powers to 64 + 32: the front half becomes a multiple of 32 powers less.
    let front = _mm_clmulepi64_si128::<FRONT>(block, constant(X95));
    // The upper 64 of these powers in the front half, the lower 32 in the back half.
    let rest = _mm_xor_si128(_mm_srli_si128::<4>(front), _mm_srli_si128::<8>(block));
    // Barrett: how often the polynomial is in the upper ones, and what that leaves of the lower.
    let quotient = _mm_clmulepi64_si128::<FRONT>(rest, constant(QUOTIENT));
    let multiple = _mm_clmulepi64_si128::<FRONT>(quotient, constant(DIVISOR));
    !_mm_extract_epi32::<2>(_mm_xor_si128(rest, multiple)).cast_unsigned()
}

/// By way of a `u128`, which the compiler loads at once; of two halves it makes two loads.
#[inline]
#[target_feature(enable = "sse2")]
#[expect(clippy::cast_possible_truncation, reason = "the halves are asked for")]
fn load(block: &Block) -> __m128i {
    let bits = u128::from_le_bytes(*block);
    halves([bits as u64, (bits >> 64) as u64])
}

#[inline]
#[target_feature(enable = "sse2")]
fn halves([front, back]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(back.cast_signed(), front.cast_signed())
}

/// A factor, in the half where it is used from memory without a move.
#[inline]
#[target_feature(enable = "sse2")]
fn constant(factor: u64) -> __m128i {
    halves([0, factor])
}

/// The halves to multiply: the front one of a block, which is the lower one of the register, and
/// the upper one of a [`constant`].
const FRONT: i32 = 0x10;

/// The back half of a block, and the upper one of a [`constant`].
const BACK: i32 = 0x11;

/// `HEADS[n]` moves the first `n` bytes of a block to its end and puts zeros in front.
#[expect(clippy::cast_possible_truncation, reason = "below 16")]
const HEADS: [Block; 16] = {
    let mut heads = [[0x80; 16]; 16];
    let mut n = 1;
    while n < 16 {
        let mut byte = 0;
        while byte < n {
            heads[n][16 - n + byte] = byte as u8;
            byte += 1;
        }
        n += 1;
    }
    heads
};

/// `FRESH[n]` is what becomes of the fresh register by `16 - n` zero bytes backwards: a block that
/// has zeros in front of `n` bytes starts from it.
const FRESH: [u32; 16] = {
    let mut fresh = [0; 16];
    let mut register: u32 = !0;
    let mut n = 16;
    while n > 0 {
        n -= 1;
        let mut bit = 0;
        while bit < 8 {
            let carry = register >> 31;
            register = (register ^ (POLYNOMIAL & carry.wrapping_neg())) << 1 | carry;
            bit += 1;
        }
        fresh[n] = register;
    }
    fresh
};

const X191: u64 = power(64 + 128 - 1);
const X127: u64 = power(128 - 1);
const X95: u64 = power(64 + 32 - 1);

/// The remainder of x^`exponent`, in the upper half.
const fn power(exponent: u32) -> u64 {
    let mut remainder = 1 << 31;
    let mut power = 0;
    while power < exponent {
        remainder = times_x(remainder);
        power += 1;
    }
    (remainder as u64) << 32
}

/// The quotient of x^95 and the polynomial.
const QUOTIENT: u64 = {
    let mut quotient = 0;
    let mut remainder: u32 = 1; // x^31
    let mut bit = 0;
    while bit < 64 {
        quotient |= ((remainder & 1) as u64) << bit;
        remainder = times_x(remainder);
        bit += 1;
    }
    quotient
};

/// The polynomial, so that the lower 32 powers of a product are in the lower half of the back half.
const DIVISOR: u64 = (POLYNOMIAL as u64) << 1 | 1;

const fn times_x(remainder: u32) -> u32 {
    (remainder >> 1) ^ (POLYNOMIAL & (remainder & 1).wrapping_neg())
}
