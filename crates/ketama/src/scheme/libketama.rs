//! RJ's libketama: `ketama.c`, `ketama_create_continuum`.
//!
//! The server is written as in the server file, with its port, 11211 too. That alone makes it
//! another ring than libmemcached's for servers on the default port. The program keeps 22 bytes
//! of an address (no IPv6) and drops the last character of a weight that no newline follows; both
//! are left out here.

use super::{Pool, STRINGS_PER_SERVER};

/// `floorf(pct * 40.0 * (float)numservers)`: the share in `float`, the products in `double`, the
/// floor of the result in `float` again.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the rounding of C's float is part of the ring; the last cast is the floor"
)]
pub(super) fn strings(weight: u32, pool: &Pool) -> u32 {
    let share = weight as f32 / pool.weight as f32;
    let product = f64::from(share) * f64::from(STRINGS_PER_SERVER) * f64::from(pool.servers as f32);
    product as f32 as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The project's sample list: 1,264 points of 1,280.
    #[test]
    fn flooring_loses_points() {
        let weights = [600, 300, 200, 350, 1000, 800, 950, 100];
        let pool = Pool {
            servers: 8,
            weight: weights.iter().map(|&weight| u64::from(weight)).sum(),
        };
        let strings = weights.map(|weight| strings(weight, &pool));
        assert_eq!(strings, [44, 22, 14, 26, 74, 59, 70, 7]);
        assert_eq!(strings.iter().sum::<u32>() * 4, 1_264);
    }
}
