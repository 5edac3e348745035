//! The written form of algorithms and configs, for configuration files.

mod ring;

use std::fmt;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Algorithm;
use crate::{
    FairConfig, Fallback, IpHashConfig, KetamaConfig, LeastConnConfig, LeastTimeConfig, Load,
    ModuloHashConfig, P2cConfig, PeakEwmaConfig, RandomTwoConfig, SmoothConfig, Start,
    WeightedConfig,
};

#[derive(Deserialize, Serialize)]
#[serde(tag = "algorithm", rename_all = "snake_case")]
enum Written {
    RoundRobin(Turns),
    SmoothRoundRobin(SmoothTurns),
    Random(Draws),
    Fnv(Turns),
    Hash(ModuloHashConfig),
    IpHash(IpHashConfig),
    Consistent(KetamaConfig),
    LeastConn(LeastConnConfig),
    RandomTwo(RandomTwoConfig),
    LeastTime(LeastTimeConfig),
    P2c(P2cConfig),
    Fair(FairConfig),
}

/// [`WeightedConfig`] where turns are taken.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Turns {
    start: Start,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    fallback: Fallback,
}

/// [`SmoothConfig`].
#[derive(Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct SmoothTurns {
    max_fails: u32,
    start: Start,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

/// [`WeightedConfig`] where random numbers are drawn.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Draws {
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    fallback: Fallback,
}

/// [`P2cConfig`], flat.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Pairs {
    load: LoadName,
    #[serde(skip_serializing_if = "Option::is_none")]
    tau_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum LoadName {
    #[default]
    InFlight,
    PeakEwma,
}

/// Why fields that are known each by itself mean nothing together.
enum Inapplicable {
    /// A field that has a meaning only if another is there, or is such.
    Without(&'static str, &'static str),
    /// Two fields that exclude each other.
    Beside(&'static str, &'static str),
    /// A field that needs a Cargo feature.
    #[cfg(not(all(feature = "schemes", feature = "v2")))]
    Feature(&'static str, &'static str),
    /// A value that is out of range.
    #[cfg(feature = "v2")]
    Zero(&'static str),
}

impl fmt::Display for Inapplicable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Without(field, other) => write!(f, "field `{field}` applies only with {other}"),
            Self::Beside(field, other) => {
                write!(f, "field `{field}` does not apply beside `{other}`")
            }
            #[cfg(not(all(feature = "schemes", feature = "v2")))]
            Self::Feature(field, feature) => write!(
                f,
                "field `{field}` needs the Cargo feature `{feature}` of the crate `selection`"
            ),
            #[cfg(feature = "v2")]
            Self::Zero(field) => write!(f, "field `{field}` is 0, allowed is 1 and more"),
        }
    }
}

// ===== impl Algorithm =====

impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrMap)
    }
}

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::from(self.clone()).serialize(serializer)
    }
}

struct NameOrMap;

impl<'de> Visitor<'de> for NameOrMap {
    type Value = Algorithm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an algorithm, or a map with its name under `algorithm`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Algorithm, E> {
        let map = MapDeserializer::new([("algorithm", name)].into_iter());
        Written::deserialize(map)?.try_into().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Algorithm, A::Error> {
        let written = Written::deserialize(MapAccessDeserializer::new(map))?;
        written.try_into().map_err(A::Error::custom)
    }
}

impl TryFrom<Written> for Algorithm {
    type Error = Inapplicable;

    fn try_from(written: Written) -> Result<Self, Inapplicable> {
        Ok(match written {
            Written::RoundRobin(turns) => Self::RoundRobin(turns.try_into()?),
            Written::SmoothRoundRobin(turns) => Self::SmoothRoundRobin(turns.try_into()?),
            Written::Random(draws) => Self::Random(draws.into()),
            Written::Fnv(turns) => Self::Fnv(turns.try_into()?),
            Written::Hash(config) => Self::Hash(config),
            Written::IpHash(config) => Self::IpHash(config),
            Written::Consistent(config) => Self::Consistent(config),
            Written::LeastConn(config) => Self::LeastConn(config),
            Written::RandomTwo(config) => Self::RandomTwo(config),
            Written::LeastTime(config) => Self::LeastTime(config),
            Written::P2c(config) => Self::P2c(config),
            Written::Fair(config) => Self::Fair(config),
        })
    }
}

impl From<Algorithm> for Written {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::RoundRobin(config) => Self::RoundRobin(config.into()),
            Algorithm::SmoothRoundRobin(config) => Self::SmoothRoundRobin(config.into()),
            Algorithm::Random(config) => Self::Random(config.into()),
            Algorithm::Fnv(config) => Self::Fnv(config.into()),
            Algorithm::Hash(config) => Self::Hash(config),
            Algorithm::IpHash(config) => Self::IpHash(config),
            Algorithm::Consistent(config) => Self::Consistent(config),
            Algorithm::LeastConn(config) => Self::LeastConn(config),
            Algorithm::RandomTwo(config) => Self::RandomTwo(config),
            Algorithm::LeastTime(config) => Self::LeastTime(config),
            Algorithm::P2c(config) => Self::P2c(config),
            Algorithm::Fair(config) => Self::Fair(config),
        }
    }
}

// ===== impl WeightedConfig, SmoothConfig =====

/// Without a random start the seed has no effect.
fn check_seed(seed: Option<u64>, start: Start) -> Result<(), Inapplicable> {
    match (seed, start) {
        (Some(_), Start::First) => Err(Inapplicable::Without("seed", "`start` = `random`")),
        _ => Ok(()),
    }
}

impl TryFrom<Turns> for WeightedConfig {
    type Error = Inapplicable;

    fn try_from(turns: Turns) -> Result<Self, Inapplicable> {
        let Turns {
            start,
            seed,
            fallback,
        } = turns;
        check_seed(seed, start)?;
        Ok(Self {
            seed,
            fallback,
            start,
        })
    }
}

impl From<WeightedConfig> for Turns {
    fn from(config: WeightedConfig) -> Self {
        let WeightedConfig {
            seed,
            fallback,
            start,
        } = config;
        let seed = seed.filter(|_| start == Start::Random);
        Self {
            start,
            seed,
            fallback,
        }
    }
}

impl Default for SmoothTurns {
    fn default() -> Self {
        SmoothConfig::default().into()
    }
}

impl TryFrom<SmoothTurns> for SmoothConfig {
    type Error = Inapplicable;

    fn try_from(turns: SmoothTurns) -> Result<Self, Inapplicable> {
        let SmoothTurns {
            max_fails,
            start,
            seed,
        } = turns;
        check_seed(seed, start)?;
        Ok(Self {
            max_fails,
            start,
            seed,
        })
    }
}

impl From<SmoothConfig> for SmoothTurns {
    fn from(config: SmoothConfig) -> Self {
        let SmoothConfig {
            max_fails,
            start,
            seed,
        } = config;
        let seed = seed.filter(|_| start == Start::Random);
        Self {
            max_fails,
            start,
            seed,
        }
    }
}

impl From<Draws> for WeightedConfig {
    fn from(Draws { seed, fallback }: Draws) -> Self {
        Self {
            seed,
            fallback,
            ..Self::default()
        }
    }
}

impl From<WeightedConfig> for Draws {
    fn from(WeightedConfig { seed, fallback, .. }: WeightedConfig) -> Self {
        Self { seed, fallback }
    }
}

// ===== impl P2cConfig =====

impl<'de> Deserialize<'de> for P2cConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pairs::deserialize(deserializer)?
            .try_into()
            .map_err(D::Error::custom)
    }
}

impl Serialize for P2cConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Pairs::from(self).serialize(serializer)
    }
}

impl TryFrom<Pairs> for P2cConfig {
    type Error = Inapplicable;

    fn try_from(pairs: Pairs) -> Result<Self, Inapplicable> {
        let load = match pairs.load {
            LoadName::InFlight => {
                for (field, value) in [("tau_ms", pairs.tau_ms), ("failure_ms", pairs.failure_ms)] {
                    if value.is_some() {
                        return Err(Inapplicable::Without(field, "`load` = `peak_ewma`"));
                    }
                }
                Load::InFlight
            }
            LoadName::PeakEwma => {
                let PeakEwmaConfig { tau, failure } = PeakEwmaConfig::default();
                Load::PeakEwma(PeakEwmaConfig {
                    tau: pairs.tau_ms.map_or(tau, Duration::from_millis),
                    failure: pairs.failure_ms.map_or(failure, Duration::from_millis),
                })
            }
        };
        Ok(Self {
            load,
            seed: pairs.seed,
        })
    }
}

impl From<&P2cConfig> for Pairs {
    fn from(config: &P2cConfig) -> Self {
        let seed = config.seed;
        match config.load {
            Load::InFlight => Self {
                seed,
                ..Self::default()
            },
            Load::PeakEwma(PeakEwmaConfig { tau, failure }) => Self {
                load: LoadName::PeakEwma,
                tau_ms: Some(millis::of(tau)),
                failure_ms: Some(millis::of(failure)),
                seed,
            },
        }
    }
}

/// Durations as whole milliseconds.
pub(crate) mod millis {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(crate) fn of(duration: Duration) -> u64 {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(of(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
