//! CRC-32 (IEEE 802.3, as in zlib), four or eight bytes a step.
//!
//! The CRC is linear: taking in some bytes is the same as taking in as many zeros from a register
//! that differs by these bytes. What zeros do to each byte of the register is looked up.

/// The CRC-32 of `key`.
///
/// Keys are short. `crc32fast` asks for the CPU's features first and takes in what is left over
/// from 16 bytes one by one, which here is most of a key; long ones are its own.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u32 {
    if key.len() >= LONG {
        return crc32fast::hash(key);
    }
    let (eights, mut rest) = key.as_chunks::<8>();
    let mut register = !0;
    for &[a, b, c, d, e, f, g, h] in eights {
        let [low, high] = [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes);
        register = shift::<4>(register ^ low) ^ shift::<0>(high);
    }
    if let Some((&four, behind)) = rest.split_first_chunk() {
        register = shift4(register ^ u32::from_le_bytes(four));
        rest = behind;
    }
    for &byte in rest {
        let [low, ..] = register.to_le_bytes();
        register = register >> 8 ^ TABLES[0][usize::from(low ^ byte)];
    }
    !register
}

/// The CRC register after it has taken in four zero bytes, starting from `register`.
#[inline]
pub(crate) fn shift4(register: u32) -> u32 {
    shift::<0>(register)
}

/// The same for `MORE` further zero bytes, at most four.
#[inline]
fn shift<const MORE: usize>(register: u32) -> u32 {
    let [a, b, c, d] = register.to_le_bytes();
    TABLES[3 + MORE][usize::from(a)]
        ^ TABLES[2 + MORE][usize::from(b)]
        ^ TABLES[1 + MORE][usize::from(c)]
        ^ TABLES[MORE][usize::from(d)]
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

/// From here on the carry-less multiplication of `crc32fast` is the faster.
const LONG: usize = 64;

/// The polynomial of IEEE 802.3, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn keys_of_every_length_have_their_crc() {
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 0..=2 * LONG {
            for start in [0, 1, 77] {
                let key = &bytes[start..start + len];
                assert_eq!(hash(key), crc32fast::hash(key), "{start} {len}");
            }
        }
        assert_eq!(hash(b"123456789"), 0xcbf4_3926); // The check value of CRC-32.
    }

    #[test]
    fn four_bytes_at_once_are_the_crc_of_four_bytes() {
        for (prefix, value) in [
            (&b""[..], 0u32),
            (b"", u32::MAX),
            (b"127.0.0.1\x007777", 0),
            (b"127.0.0.1\x007777", 0x1234_5678),
        ] {
            let register = !crc32fast::hash(prefix);
            let whole = [prefix, &value.to_le_bytes()].concat();
            assert_eq!(!shift4(register ^ value), crc32fast::hash(&whole));
        }
    }
}
