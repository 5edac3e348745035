//! Which ring is built: points per weight unit, and who owns a shared point.

#[cfg(feature = "v2")]
use core::num::NonZeroU32;

#[cfg(feature = "serde")]
use crate::format::WrittenVersion;

/// The layout of a ring. V1 is frozen; no feature changes what it answers.
///
/// With the feature `serde` it is written as `"v1"` or `{"v2": {"point_multiple": 40}}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "WrittenVersion", into = "WrittenVersion")
)]
#[non_exhaustive]
pub enum Version {
    /// nginx's ring: 160 points per unit of weight; of several servers on one point, the first
    /// listed owns it (the stable sort of nginx on glibc).
    #[default]
    V1,
    /// pingora's smaller ring: as many points per unit of weight as asked for, up to 65,536
    /// buckets, and one ring for every order of the buckets.
    ///
    /// Of several servers on one point the lowest address owns it: IPv4 before IPv6, then by
    /// address and port. Buckets without an address come after those with one, by text.
    #[cfg(feature = "v2")]
    #[cfg_attr(docsrs, doc(cfg(feature = "v2")))]
    V2 {
        /// Points per unit of weight; nginx and V1 have 160.
        point_multiple: NonZeroU32,
    },
}

impl Version {
    /// Points on the ring for each unit of weight.
    #[must_use]
    pub fn points_per_weight(self) -> u32 {
        match self {
            Self::V1 => V1_POINTS,
            #[cfg(feature = "v2")]
            Self::V2 { point_multiple } => point_multiple.get(),
        }
    }

    /// The most buckets that the layout can number: 2^32 - 1 in V1, 65,536 in V2.
    #[must_use]
    pub fn max_buckets(self) -> usize {
        match self {
            Self::V1 => u32::MAX as usize,
            #[cfg(feature = "v2")]
            Self::V2 { .. } => 1 << 16,
        }
    }
}

/// How to build a ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct RingConfig {
    /// The layout; [`Version::V1`] by default.
    pub version: Version,
    /// The most points a ring may have; 2^26 (half a gigabyte) by default.
    ///
    /// Checked before anything is allocated: `weight=1000000` means 160 million points in nginx
    /// as well, and there it is the kernel that says no.
    pub max_points: u64,
}

impl RingConfig {
    /// nginx's ring with the default limit.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: Version::V1,
            max_points: DEFAULT_MAX_POINTS,
        }
    }

    /// Sets the layout.
    #[must_use]
    pub fn version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Sets the most points the ring may have.
    #[must_use]
    pub fn max_points(self, max_points: u64) -> Self {
        Self { max_points, ..self }
    }
}

impl Default for RingConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// `ngx_http_upstream_init_chash`: `npoints = peers->total_weight * 160`.
const V1_POINTS: u32 = 160;

/// 2^26 points are 512 MiB of ring: far above any sane pool, far below an OOM kill.
const DEFAULT_MAX_POINTS: u64 = 1 << 26;

/// ```compile_fail,E0599
/// let _ = ketama::Version::V2 { point_multiple: core::num::NonZeroU32::MIN };
/// ```
#[cfg(all(doctest, not(feature = "v2")))]
struct WithoutItsFeatureV2HasNoName;
