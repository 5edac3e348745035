//! Exact answers about a ring, in integers over the 2^32 places of the circle.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::{Bucket, Continuum, Version};

/// A part of the circle that has another owner on another ring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Move<'a> {
    /// The text of the owner before; `None` if that ring is empty.
    pub from: Option<&'a str>,
    /// The text of the owner after; `None` if that ring is empty.
    pub to: Option<&'a str>,
    /// How many of the 2^32 places move from one to the other.
    pub length: u64,
}

impl Continuum {
    /// The number of places on the circle: the sum of all shares of a ring that is not empty.
    pub const CIRCLE: u64 = 1 << 32;

    /// How many of the 2^32 places the bucket of this index owns.
    ///
    /// O(points); [`shares`](Self::shares) answers for all buckets at that price.
    #[must_use]
    pub fn share(&self, index: usize) -> u64 {
        self.shares().get(index).copied().unwrap_or_default()
    }

    /// How many of the 2^32 places each bucket owns, by bucket index.
    ///
    /// A key with an even hash falls to a bucket with a probability of `share / 2^32`.
    #[must_use]
    pub fn shares(&self) -> Vec<u64> {
        let mut shares = vec![0; self.buckets().len()];
        let mut start = 0;
        for (end, owner) in self.stretches() {
            if let Some(owner) = owner {
                shares[owner] += end - start;
            }
            start = end;
        }
        shares
    }

    /// What moves if `other` takes the place of this ring: every part of the circle whose owner
    /// has another identity text there, summed up for each pair of owners, ordered by `from`,
    /// then `to`.
    ///
    /// O(points of both), and not an estimate: the lengths are exact, and an empty answer means
    /// that every key stays where it is.
    #[must_use]
    pub fn diff<'a>(&'a self, other: &'a Self) -> Vec<Move<'a>> {
        let mut moves: BTreeMap<_, u64> = BTreeMap::new();
        let (mut before, mut after) = (self.stretches(), other.stretches());
        let (mut old, mut new) = (before.next(), after.next());
        let mut start = 0;
        while let (Some((old_end, from)), Some((new_end, to))) = (old, new) {
            let end = old_end.min(new_end);
            let pair = (text_at(self, from), text_at(other, to));
            if end > start && pair.0 != pair.1 {
                *moves.entry(pair).or_default() += end - start;
            }
            start = end;
            if old_end == end {
                old = before.next();
            }
            if new_end == end {
                new = after.next();
            }
        }
        moves
            .into_iter()
            .map(|((from, to), length)| Move { from, to, length })
            .collect()
    }

    /// A digest of everything that decides where a key goes, for two processes to compare.
    ///
    /// It is 64-bit FNV-1a over these bytes: the layout (`v1`, `v2` or, for the ring of a scheme,
    /// `scheme`); the points per weight (0 for a scheme), as a `u32` in little endian; then, for
    /// each point in ring order, its hash as a `u32` in little endian, and the 64-bit FNV-1a of its
    /// owner's identity text in little endian. It does not depend on the machine, on the order of
    /// the buckets where that decides no tie, or on buckets without points; the definition will not
    /// change. The key hash of a scheme is not part of it.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let (layout, points_per_weight) = self.layout_name();
        let texts: Vec<u64> = self
            .buckets()
            .iter()
            .map(|bucket| fnv1a(FNV_OFFSET, bucket.text().as_bytes()))
            .collect();
        let digest = fnv1a(FNV_OFFSET, layout.as_bytes());
        let digest = fnv1a(digest, &points_per_weight.to_le_bytes());
        self.points().fold(digest, |digest, (hash, owner)| {
            let digest = fnv1a(digest, &hash.to_le_bytes());
            fnv1a(digest, &texts[owner].to_le_bytes())
        })
    }

    /// What stands for the layout in a fingerprint.
    fn layout_name(&self) -> (&'static str, u32) {
        #[cfg(feature = "schemes")]
        if self.scheme().is_some() {
            return ("scheme", 0);
        }
        let version = self.config().version;
        let name = match version {
            Version::V1 => "v1",
            #[cfg(feature = "v2")]
            Version::V2 { .. } => "v2",
        };
        (name, version.points_per_weight())
    }

    /// The circle from 0 to 2^32 as stretches `(end, owner)`, each from the end of the one before.
    ///
    /// A point owns what lies between the point before and itself, itself included; the first
    /// point owns what lies behind the last as well.
    fn stretches(&self) -> impl Iterator<Item = (u64, Option<usize>)> + '_ {
        let first = self.points().next().map(|(_, owner)| owner);
        self.points()
            .map(|(hash, owner)| (u64::from(hash) + 1, Some(owner)))
            .chain([(Self::CIRCLE, first)])
    }
}

/// The size of the ring, and how far the shares are from the weights:
/// `4 buckets, 640 points; share to weight 0.937 (10.0.0.2:80) to 1.115 (10.0.0.4:80)`.
///
/// 1.000 is a bucket whose share of the circle is its share of the weight.
impl fmt::Display for Continuum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} buckets, {} points", self.buckets().len(), self.len())?;
        let total: u128 = self
            .buckets()
            .iter()
            .map(|bucket| u128::from(bucket.weight()))
            .sum();
        let thousandths = |(bucket, share): (&Bucket, u64)| {
            let fair = u128::from(bucket.weight()) * u128::from(Self::CIRCLE);
            (u128::from(share) * total * 1000).checked_div(fair)
        };
        let shares = self.shares();
        let ratios = self
            .buckets()
            .iter()
            .zip(shares)
            .filter_map(|(bucket, share)| Some((thousandths((bucket, share))?, bucket.text())));
        let Some((min, low)) = ratios.clone().min_by_key(|&(ratio, _)| ratio) else {
            return Ok(());
        };
        let (max, high) = ratios.max_by_key(|&(ratio, _)| ratio).unwrap_or((min, low));
        let [min, max] = [min, max].map(Thousandths);
        write!(f, "; share to weight {min} ({low}) to {max} ({high})")
    }
}

/// A number of thousandths, written with three decimals.
struct Thousandths(u128);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

fn text_at(ring: &Continuum, owner: Option<usize>) -> Option<&str> {
    owner.map(|owner| ring.buckets()[owner].text())
}

/// 64-bit FNV-1a over `bytes`, going on from `digest`.
fn fnv1a(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
