//! The pools and the keys.

use std::net::{Ipv4Addr, SocketAddr};

use crate::Error;

/// Backends of one weight.
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) weight: u32,
}

/// (name, backends, weight)
pub(crate) const POOLS: [(&str, u32, u32); 5] = [
    ("4x1", 4, 1),
    ("9x100", 9, 100),
    ("1000x1", 1_000, 1),
    ("1000x10", 1_000, 10),
    ("10000x10", 10_000, 10),
];

/// nginx's; the V2 layouts are compared at the same number.
pub(crate) const POINTS_PER_WEIGHT: u32 = 160;

impl Pool {
    pub(crate) fn new(&(name, backends, weight): &(&'static str, u32, u32)) -> Result<Self, Error> {
        if backends > NUMBERS {
            return Err(format!("{name}: more than {NUMBERS} backends").into());
        }
        Ok(Self {
            name,
            addresses: (0..backends).map(address).collect(),
            weight,
        })
    }

    pub(crate) fn points(&self) -> usize {
        self.addresses.len() * self.points_each()
    }

    pub(crate) fn points_each(&self) -> usize {
        (self.weight * POINTS_PER_WEIGHT) as usize
    }

    /// The backend that leaves and comes back: one in the middle.
    pub(crate) fn changing(&self) -> SocketAddr {
        self.addresses[self.addresses.len() / 2]
    }

    /// The list after the change: the changing backend has moved to the end.
    pub(crate) fn changed(&self) -> Vec<SocketAddr> {
        let changing = self.changing();
        let others = self.addresses.iter().copied().filter(|&a| a != changing);
        others.chain([changing]).collect()
    }
}

/// Backend `number` of every pool.
fn address(number: u32) -> SocketAddr {
    let ip = Ipv4Addr::from(0x0a00_0000 + number);
    SocketAddr::from((ip, 8080))
}

/// The number of a backend, from its address: cheap, and it has to be loaded to know it.
pub(crate) fn number(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(address) => u32::from(*address.ip()) & (NUMBERS - 1),
        SocketAddr::V6(_) => NUMBERS,
    }
}

const NUMBERS: u32 = 1 << 24;

/// Such as `/asset/0123456789abcdef.jpg`.
pub(crate) type Key = [u8; 27];

/// The first `count` keys, in one piece of memory.
pub(crate) fn keys(count: u64) -> Vec<Key> {
    (1..=count).map(key).collect()
}

/// The keys to time, in the portions that a round takes.
///
/// One portion for a small ring, so that both stay in the cache as they do in a busy process; for a
/// large one so many that what they touch of it does not stay from one round to the next. A portion
/// takes about a millisecond, less than a slice of the scheduler.
pub(crate) fn portions(keys: &[Key], points: usize) -> Vec<&[Key]> {
    let fits_the_cache = points < 200_000;
    let count = if fits_the_cache { 1 } else { usize::MAX };
    keys.chunks(1 << 14).take(count).collect()
}

fn key(number: u64) -> Key {
    let mut key = *b"/asset/0000000000000000.jpg";
    // The finaliser of SplitMix64, so that the digits are spread.
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    for digit in key[7..23].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(bits & 15) as usize];
        bits >>= 4;
    }
    key
}
