//! Random weights for the rings of memcached clients.

use crate::random::Random;

/// The weights of `servers` servers, of which there is at least one.
///
/// Such a ring has 40 groups of points a server, dealt out by weight and rounded down in C's
/// `float`. Of plainly random weights hardly any makes that rounding matter. So every other time
/// each share comes out as a whole number, which `float` now and then just misses.
pub(crate) fn weights(random: &mut Random, servers: u32) -> Vec<u32> {
    if random.percent(50) {
        let most = random.one_of(&[1, 1, 2, 5, 50, 600]);
        return (0..servers).map(|_| random.between(1, most)).collect();
    }
    let groups = GROUPS * servers;
    let parts: Vec<_> = (1..=GROUPS)
        .filter(|part| groups.is_multiple_of(*part))
        .collect();
    // Every server has a group for each unit of its weight, or several.
    let mut left = groups / random.one_of(&parts);
    let mut weights = Vec::new();
    for others in (0..servers).rev() {
        let weight = match others {
            0 => left,
            _ => random.between(1, (left - others).min(2 * left / (others + 1))),
        };
        weights.push(weight);
        left -= weight;
    }
    random.shuffle(&mut weights);
    weights
}

/// Of four points each.
const GROUPS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_a_weight_and_shares_are_often_whole() {
        let mut whole = 0;
        for seed in 0..200 {
            let mut random = Random::new(seed, "");
            let servers = random.between(2, 12);
            let weights = weights(&mut random, servers);
            assert_eq!(weights.len(), servers as usize);
            assert!(weights.iter().all(|&weight| weight > 0));
            let total: u32 = weights.iter().sum();
            let is_whole = |weight: &u32| (weight * GROUPS * servers).is_multiple_of(total);
            whole += u32::from(weights.iter().all(is_whole));
        }
        assert!(whole >= 90, "{whole} of 200");
    }
}
