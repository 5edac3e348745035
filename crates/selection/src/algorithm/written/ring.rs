//! The written form of the config of the ring.

#[cfg(feature = "schemes")]
use ketama::{KeyHash, Scheme};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
#[cfg(not(feature = "schemes"))]
use {Unusable as KeyHash, Unusable as Scheme};

use super::Inapplicable;
use crate::KetamaConfig;

/// [`KetamaConfig`], flat. Fields that need a feature are known without it, so that its lack is an
/// error that says so.
#[derive(Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Ring {
    #[serde(skip_serializing_if = "Option::is_none")]
    point_multiple: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<Scheme>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hash: Option<KeyHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_points: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    balance_factor: Option<u32>,
    max_fails: u32,
}

/// Stands for whatever is written in a field that needs a feature which is not there.
#[cfg(not(feature = "schemes"))]
#[derive(Serialize)]
struct Unusable;

#[cfg(not(feature = "schemes"))]
impl<'de> Deserialize<'de> for Unusable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            point_multiple: None,
            scheme: None,
            key_hash: None,
            max_points: None,
            balance_factor: None,
            max_fails: KetamaConfig::default().max_fails,
        }
    }
}

impl<'de> Deserialize<'de> for KetamaConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ring::deserialize(deserializer)?
            .try_into()
            .map_err(D::Error::custom)
    }
}

impl Serialize for KetamaConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Ring::from(self).serialize(serializer)
    }
}

impl TryFrom<Ring> for KetamaConfig {
    type Error = Inapplicable;

    fn try_from(ring: Ring) -> Result<Self, Inapplicable> {
        let mut config = Self::default().max_fails(ring.max_fails);
        config.balance_factor = ring.balance_factor;
        if let (Some(max_points), None) = (ring.max_points, &ring.scheme) {
            config.ring.max_points = max_points;
        }
        match (&ring.scheme, ring.point_multiple, &ring.key_hash) {
            (Some(_), Some(_), _) => Err(Inapplicable::Beside("point_multiple", "scheme")),
            (None, _, Some(_)) => Err(Inapplicable::Without("key_hash", "`scheme`")),
            (Some(_), None, _) => with_scheme(config, ring),
            (None, Some(multiple), None) => with_multiple(config, multiple),
            (None, None, None) => Ok(config),
        }
    }
}

#[cfg(feature = "v2")]
fn with_multiple(config: KetamaConfig, multiple: u32) -> Result<KetamaConfig, Inapplicable> {
    let multiple = std::num::NonZeroU32::new(multiple);
    let multiple = multiple.ok_or(Inapplicable::Zero("point_multiple"))?;
    Ok(config.point_multiple(multiple))
}

#[cfg(not(feature = "v2"))]
fn with_multiple(_config: KetamaConfig, _multiple: u32) -> Result<KetamaConfig, Inapplicable> {
    Err(Inapplicable::Feature("point_multiple", "v2"))
}

#[cfg(feature = "schemes")]
fn with_scheme(config: KetamaConfig, ring: Ring) -> Result<KetamaConfig, Inapplicable> {
    let Some(scheme) = ring.scheme else {
        return Ok(config);
    };
    let mut scheme = ketama::SchemeConfig::new(scheme);
    if let Some(key_hash) = ring.key_hash {
        scheme.key_hash = key_hash;
    }
    if let Some(max_points) = ring.max_points {
        scheme.max_points = max_points;
    }
    Ok(config.scheme(scheme))
}

#[cfg(not(feature = "schemes"))]
fn with_scheme(_config: KetamaConfig, _ring: Ring) -> Result<KetamaConfig, Inapplicable> {
    Err(Inapplicable::Feature("scheme", "schemes"))
}

impl From<&KetamaConfig> for Ring {
    fn from(config: &KetamaConfig) -> Self {
        let defaults = KetamaConfig::default();
        let written = |points| (points != defaults.ring.max_points).then_some(points);
        let ring = Self {
            point_multiple: match config.ring.version {
                #[cfg(feature = "v2")]
                ketama::Version::V2 { point_multiple } => Some(point_multiple.get()),
                _ => None,
            },
            max_points: written(config.ring.max_points),
            balance_factor: config.balance_factor,
            max_fails: config.max_fails,
            ..Self::default()
        };
        #[cfg(feature = "schemes")]
        if let Some(scheme) = config.scheme {
            return Self {
                point_multiple: None,
                scheme: Some(scheme.scheme),
                key_hash: Some(scheme.key_hash),
                max_points: written(scheme.max_points),
                ..ring
            };
        }
        ring
    }
}
