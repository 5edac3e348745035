//! Points in ring order, in time linear in their number.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

#[cfg(feature = "v2")]
use i_key_sort::sort::one_key::OneKeySort;

use crate::points::{Chain, for_each_point};
#[cfg(feature = "v2")]
use crate::ring::Narrow;
use crate::ring::{Point, Wide};

/// The points of all chains, ordered by hash, then by node.
///
/// The chains run twice, once to count the points in each 256th of the circle and once to put
/// them there: that is cheaper than a second array of all points, whose fresh pages would cost
/// more than the arithmetic. Each part is then sorted while it is in the cache.
pub(crate) fn sorted<C>(total: usize, chains: impl Fn() -> C) -> Vec<Wide>
where
    C: Iterator<Item = Chain>,
{
    if total < SMALL {
        let mut points = Vec::with_capacity(total);
        for_each_point(chains(), |hash, node| points.push(Wide::new(hash, node)));
        points.sort_unstable();
        return points;
    }
    let mut ends = [0usize; PARTS];
    for_each_point(chains(), |hash, _| ends[part_of(hash)] += 1);
    let total = starts_of(&mut ends);
    let mut points = vec![0; total];
    for_each_point(chains(), |hash, node| {
        let next = &mut ends[part_of(hash)];
        points[*next] = Wide::new(hash, node);
        *next += 1;
    });
    let mut scratch = Vec::new();
    let mut start = 0;
    for end in ends {
        sort_part(&mut points[start..end], &mut scratch);
        start = end;
    }
    points
}

/// The points of all chains, ordered by hash, then by the rank of their node.
///
/// By `i_key_sort`, as in pingora, whose layout this is; as one number, since by two keys it takes
/// a third longer. The sort above would build in a little more than half the time: 9 against 16 ns
/// a point for 1.6 million points on an EPYC of 2023.
#[cfg(feature = "v2")]
pub(crate) fn sorted_by_rank(
    total: usize,
    chains: impl Iterator<Item = Chain>,
    ranks: &[u32],
) -> Vec<Narrow> {
    let mut points = Vec::with_capacity(total);
    for_each_point(chains, |hash, node| {
        points.push(Wide::new(hash, ranks[node as usize]));
    });
    points.sort_by_one_key(false, |&point| point);
    let mut nodes = vec![0; ranks.len()];
    for (node, &rank) in (0..).zip(ranks) {
        nodes[rank as usize] = node;
    }
    points
        .into_iter()
        .map(|point| Narrow::new(point.hash(), nodes[point.node() as usize]))
        .collect()
}

/// Sorts points whose hashes share the top eight bits.
///
/// Counting passes from the lowest of the bits that matter to the highest, then one insertion pass
/// for what the bits below have left.
fn sort_part(part: &mut [Wide], scratch: &mut Vec<Wide>) {
    scratch.resize(part.len().max(scratch.len()), 0);
    // As many bits as tell all but a few of the points apart.
    let shifts: &[u32] = match part.len() {
        len if len <= PARTS => &[48],
        len if len <= TWO_PASSES => &[40, 48],
        _ => &[32, 40, 48],
    };
    let mut to = &mut scratch[..part.len()];
    let mut from = &mut *part;
    for &shift in shifts {
        counting_pass(from, to, shift);
        mem::swap(&mut from, &mut to);
    }
    if shifts.len() % 2 == 1 {
        to.copy_from_slice(from);
    }
    insertion_pass(part);
}

/// Moves `from` to `to`, ordered by the eight bits from `shift` on, else in the order it had.
fn counting_pass(from: &[Wide], to: &mut [Wide], shift: u32) {
    let digit = |point: Wide| usize::from((point >> shift).to_le_bytes()[0]);
    let mut next = [0usize; PARTS];
    for &point in from {
        next[digit(point)] += 1;
    }
    starts_of(&mut next);
    for &point in from {
        let next = &mut next[digit(point)];
        to[*next] = point;
        *next += 1;
    }
}

/// Sorts points that are all but sorted; others too, but by other means.
fn insertion_pass(part: &mut [Wide]) {
    let mut budget = 8 * part.len();
    for sorted in 1..part.len() {
        let point = part[sorted];
        let mut place = sorted;
        while place > 0 && part[place - 1] > point {
            part[place] = part[place - 1];
            place -= 1;
        }
        part[place] = point;
        let moves = sorted - place;
        if moves > budget {
            return part.sort_unstable();
        }
        budget -= moves;
    }
}

/// Turns counts into the positions where each part starts; returns their sum.
fn starts_of(counts: &mut [usize; PARTS]) -> usize {
    let mut start = 0;
    for count in counts {
        start += mem::replace(count, start);
    }
    start
}

fn part_of(hash: u32) -> usize {
    usize::from(hash.to_be_bytes()[0])
}

/// More streams to write to than this cost more in TLB misses than they save in passes.
const PARTS: usize = 256;

/// Beyond this, two points or more share their sixteen bits on average.
const TWO_PASSES: usize = 2 * PARTS * PARTS;

/// Below this the standard sort is as fast.
const SMALL: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers with the bits of `mask`, from Knuth's 64-bit linear congruential generator.
    fn scattered(len: usize, mask: u64) -> Vec<Wide> {
        let mut state = 1u64;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 31) & mask
        };
        core::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn a_part_is_sorted_whatever_its_size_and_spread() {
        let masks = [
            u64::MAX >> 8,         // As the points of a pool are spread.
            0x00ff_0000_0000_ffff, // A few places, many nodes on each.
            0x0000_00ff_0000_ffff, // The counting passes see all points as one.
            0x0000_0000_0000_0003, // All on one place.
        ];
        for mask in masks {
            for len in [0, 1, 2, 3, PARTS, PARTS + 1, 5_000] {
                let mut part = scattered(len, mask);
                let mut expected = part.clone();
                expected.sort_unstable();
                sort_part(&mut part, &mut Vec::new());
                assert_eq!(part, expected, "{len} points under {mask:x}");
            }
        }
    }

    #[test]
    fn a_large_part_takes_three_passes() {
        let mut part = scattered(TWO_PASSES + 1, u64::MAX >> 8);
        let mut expected = part.clone();
        expected.sort_unstable();
        sort_part(&mut part, &mut Vec::new());
        assert!(part == expected);
    }
}
