//! Everything that can be wrong with a pool or a change of it.

use alloc::boxed::Box;
use core::fmt;

/// Why a ring could not be built.
///
/// The limits are checked before any memory is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The weights ask for more points than allowed.
    TooManyPoints {
        /// The points that the weights ask for.
        points: u64,
        /// The limit: [`RingConfig::max_points`](crate::RingConfig::max_points).
        max: u64,
    },
    /// More buckets than the layout can number.
    TooManyBuckets {
        /// The number of buckets given.
        buckets: usize,
        /// The most that the layout holds.
        max: usize,
    },
    /// A change means a bucket that is not in the list.
    UnknownBucket {
        /// The identity text that no bucket has.
        text: Box<str>,
    },
    /// A bRPC scheme with a number of points per server that it cannot have.
    #[cfg(feature = "schemes")]
    #[cfg_attr(docsrs, doc(cfg(feature = "schemes")))]
    Replicas {
        /// The number of points per server asked for.
        replicas: u32,
        /// What it must be a positive multiple of.
        multiple_of: u32,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPoints { points, max } => {
                write!(
                    f,
                    "the weights ask for {points} ring points, the limit is {max}"
                )
            }
            Self::TooManyBuckets { buckets, max } => {
                write!(
                    f,
                    "{buckets} buckets, the limit of this ring layout is {max}"
                )
            }
            Self::UnknownBucket { text } => write!(f, "no bucket has the text {text:?}"),
            #[cfg(feature = "schemes")]
            Self::Replicas {
                replicas,
                multiple_of,
            } => {
                write!(
                    f,
                    "{replicas} replicas, must be a positive multiple of {multiple_of}"
                )
            }
        }
    }
}

impl core::error::Error for BuildError {}
