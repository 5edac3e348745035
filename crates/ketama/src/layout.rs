//! One ring of either point size.

use alloc::vec::Vec;

use crate::points::{Chain, total_points};
#[cfg(feature = "v2")]
use crate::ring::Narrow;
use crate::ring::{Point, Ring, Wide};
use crate::update::Edit;
use crate::{Bucket, BuildError, RingConfig, Version, sort};

/// The ring of a [`Version`].
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    Wide(Ring<Wide>),
    #[cfg(feature = "v2")]
    Narrow(Ring<Narrow>),
}

/// Evaluates an expression on the ring, whichever it is.
macro_rules! each {
    ($layout:expr, $ring:ident => $body:expr) => {
        match $layout {
            $crate::layout::Layout::Wide($ring) => $body,
            #[cfg(feature = "v2")]
            $crate::layout::Layout::Narrow($ring) => $body,
        }
    };
}

impl Layout {
    /// The ring over `buckets`.
    pub(crate) fn build(buckets: &[Bucket], config: &RingConfig) -> Result<Self, BuildError> {
        let total = total_points(buckets, config)?;
        let version = config.version;
        let chains = || {
            (0..)
                .zip(buckets)
                .map(|(node, bucket)| Chain::new(bucket, node, version))
        };
        Ok(match version {
            Version::V1 => Self::Wide(Ring::from_sorted(sort::sorted(total, chains))),
            #[cfg(feature = "v2")]
            Version::V2 { .. } => {
                let ranks = precedence(buckets, version);
                let points = sort::sorted_by_rank(total, chains(), &ranks);
                Self::Narrow(Ring::from_sorted(points))
            }
        })
    }

    /// The ring after `edit`.
    pub(crate) fn edited(&self, edit: &Edit) -> Self {
        match self {
            Self::Wide(ring) => Self::Wide(ring.edited(edit)),
            #[cfg(feature = "v2")]
            Self::Narrow(ring) => Self::Narrow(ring.edited(edit)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        each!(self, ring => ring.len())
    }

    pub(crate) fn heap_size(&self) -> usize {
        each!(self, ring => ring.heap_size())
    }

    /// The node of the first point at or after `hash`, wrapping.
    #[inline]
    pub(crate) fn owner(&self, hash: u32) -> Option<usize> {
        each!(self, ring => ring.owner(hash).map(|node| node as usize))
    }

    pub(crate) fn position(&self, hash: u32) -> usize {
        each!(self, ring => ring.position(hash))
    }

    pub(crate) fn node(&self, position: usize) -> Option<usize> {
        each!(self, ring => ring.points().get(position).map(|point| point.node() as usize))
    }

    pub(crate) fn step(&self, position: usize) -> usize {
        each!(self, ring => ring.step(position))
    }

    /// The hash and node of the point at `position`.
    pub(crate) fn point(&self, position: usize) -> Option<(u32, usize)> {
        each!(self, ring => {
            let point = ring.points().get(position)?;
            Some((point.hash(), point.node() as usize))
        })
    }

    /// The nodes of the points that lost their place.
    pub(crate) fn shadowed(&self) -> Vec<u32> {
        each!(self, ring => ring.shadows().iter().map(|point| point.node()).collect())
    }
}

/// The rank of each bucket, by its index: of several on one point the lowest rank owns it.
///
/// In V2 buckets of one identity, which have the same points, follow one another from the heaviest
/// to the lightest, so that permutations differ in nothing but the numbers of equal buckets.
pub(crate) fn precedence(buckets: &[Bucket], version: Version) -> Vec<u32> {
    match version {
        Version::V1 => (0..).zip(buckets).map(|(index, _)| index).collect(),
        #[cfg(feature = "v2")]
        Version::V2 { .. } => {
            let mut order: Vec<(usize, &Bucket)> = buckets.iter().enumerate().collect();
            order.sort_by_key(|(_, bucket)| {
                let weight = core::cmp::Reverse(bucket.weight());
                (
                    bucket.addr().is_none(),
                    bucket.addr(),
                    bucket.text(),
                    weight,
                )
            });
            let mut ranks = alloc::vec![0; buckets.len()];
            for (rank, (index, _)) in (0..).zip(order) {
                ranks[index] = rank;
            }
            ranks
        }
    }
}
