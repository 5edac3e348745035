//! CRC-32 (IEEE 802.3, as in zlib), four bytes a step.

/// The CRC register after it has taken in four zero bytes, starting from `register`.
///
/// The CRC is linear: taking in the four bytes of `x` is the same as taking in zeros from
/// `register ^ x`. So a step of nginx's point chain is four table look-ups.
pub(crate) fn shift4(register: u32) -> u32 {
    let [a, b, c, d] = register.to_le_bytes();
    TABLES[3][usize::from(a)]
        ^ TABLES[2][usize::from(b)]
        ^ TABLES[1][usize::from(c)]
        ^ TABLES[0][usize::from(d)]
}

/// `TABLES[n][byte]`: what `byte` has become of after `n` further zero bytes.
static TABLES: [[u32; 256]; 4] = tables();

const fn tables() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0u32;
    while byte < 256 {
        let mut register = byte;
        let mut row = 0;
        while row < 4 {
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

/// The polynomial of IEEE 802.3, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

#[cfg(test)]
mod tests {
    use super::*;

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
