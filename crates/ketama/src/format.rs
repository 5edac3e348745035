//! The written form of buckets and layouts, for configuration files.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{Bucket, Version};

/// `v1`, or `v2` with its points per weight.
///
/// Both can be read without the feature `v2`, so that its lack is an error that says what is
/// missing.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum WrittenVersion {
    V1,
    V2 { point_multiple: NonZeroU32 },
}

impl TryFrom<WrittenVersion> for Version {
    type Error = Unreadable;

    fn try_from(written: WrittenVersion) -> Result<Self, Unreadable> {
        match written {
            WrittenVersion::V1 => Ok(Self::V1),
            #[cfg(feature = "v2")]
            WrittenVersion::V2 { point_multiple } => Ok(Self::V2 { point_multiple }),
            #[cfg(not(feature = "v2"))]
            WrittenVersion::V2 { .. } => Err(Unreadable::FeatureV2),
        }
    }
}

impl From<Version> for WrittenVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::V1 => Self::V1,
            #[cfg(feature = "v2")]
            Version::V2 { point_multiple } => Self::V2 { point_multiple },
        }
    }
}

/// An address, a text, or both, and a weight, which is 1 unless given.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenBucket {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    addr: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Box<str>>,
    #[serde(default = "one")]
    weight: u32,
}

impl TryFrom<WrittenBucket> for Bucket {
    type Error = Unreadable;

    fn try_from(written: WrittenBucket) -> Result<Self, Unreadable> {
        let WrittenBucket { addr, text, weight } = written;
        match (addr, text) {
            (Some(addr), None) => Ok(Self::new(addr, weight)),
            (Some(addr), Some(text)) => Ok(Self::new(addr, weight).with_text(text)),
            (None, Some(text)) => Ok(Self::from_text(text, weight)),
            (None, None) => Err(Unreadable::NamelessBucket),
        }
    }
}

impl From<Bucket> for WrittenBucket {
    fn from(bucket: Bucket) -> Self {
        let addr = bucket.addr();
        let implied = addr.is_some_and(|addr| addr.to_string() == bucket.text());
        Self {
            addr,
            text: (!implied).then(|| bucket.text().into()),
            weight: bucket.weight(),
        }
    }
}

/// Why a written form does not mean anything.
pub(crate) enum Unreadable {
    #[cfg(not(feature = "v2"))]
    FeatureV2,
    NamelessBucket,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(not(feature = "v2"))]
            Self::FeatureV2 => "the layout `v2` needs the Cargo feature `v2` of the crate `ketama`",
            Self::NamelessBucket => "a bucket needs an `addr`, a `text` or both",
        })
    }
}

fn one() -> u32 {
    1
}
