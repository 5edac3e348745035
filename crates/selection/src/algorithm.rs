//! Every algorithm by the name its users know: chosen at run time, from a file or a command line.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::{
    Build, BuildError, Consistent, FNVHash, Fair, FairConfig, IpHash, IpHashConfig, KetamaConfig,
    LeastConn, LeastConnConfig, LeastTime, LeastTimeConfig, ModuloHash, ModuloHashConfig, NodeSet,
    P2c, P2cConfig, Random, RandomTwo, RandomTwoConfig, RoundRobin, Selector, SmoothConfig,
    SmoothRoundRobin, WeightedConfig,
};

#[cfg(feature = "serde")]
mod written;

#[cfg(feature = "serde")]
pub(crate) use written::millis;

/// An algorithm and its config.
///
/// ```
/// use selection::{Algorithm, Eligible, Node, NodeSet, ReadySet};
///
/// let nodes = NodeSet::new([Node::new("10.0.0.1:80", 5), Node::new("10.0.0.2:80", 1)])?;
/// let algorithm: Algorithm = "smooth_round_robin".parse()?;
/// let selector = algorithm.build(&nodes)?;
/// let ready = ReadySet::all(nodes.len());
/// let node = selector.pick(b"", &Eligible::new(&ready)).unwrap();
/// assert_eq!(nodes[node].identity().to_string(), "10.0.0.1:80");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Written form
///
/// With the feature `serde` an algorithm is its name, or a map with its name under `algorithm` and
/// the fields of its config beside it. An unknown field, and a field that has no meaning beside
/// the others, is an error that names it.
///
/// | name | selector | fields |
/// |---|---|---|
/// | `round_robin` | [`RoundRobin`] | `start` (`first`, `random`), `seed`, `fallback` (`weighted`, `uniform`) |
/// | `smooth_round_robin` | [`SmoothRoundRobin`] | `max_fails`, `start`, `seed` |
/// | `random` | [`Random`] | `seed`, `fallback` |
/// | `fnv` | [`FNVHash`] | as `round_robin` |
/// | `hash` | [`ModuloHash`] | `max_fails` |
/// | `ip_hash` | [`IpHash`] | `address` (`nginx`, `full`), `max_fails` |
/// | `consistent` | [`Consistent`] | `point_multiple` (feature `v2`), `scheme` and `key_hash` (feature `schemes`), `max_points`, `balance_factor`, `max_fails` |
/// | `least_conn` | [`LeastConn`] | `max_fails` |
/// | `random_two` | [`RandomTwo`] | `seed`, `max_fails` |
/// | `least_time` | [`LeastTime`] | `time` (`header`, `last_byte`), `inflight`, `fail_timeout_ms`, `max_fails` |
/// | `p2c` | [`P2c`] | `load` (`in_flight`, `peak_ewma`), `tau_ms`, `failure_ms`, `seed` |
/// | `fair` | [`Fair`] | `max_fails`, `fail_timeout_ms` |
///
/// ```
/// # #[cfg(feature = "serde")] {
/// use selection::Algorithm;
///
/// let text = r#"{"algorithm": "consistent", "balance_factor": 150}"#;
/// let algorithm: Algorithm = serde_json::from_str(text).unwrap();
/// assert_eq!(algorithm.name(), "consistent");
///
/// let text = r#"{"algorithm": "least_conn", "balance_factor": 150}"#;
/// let error = serde_json::from_str::<Algorithm>(text).unwrap_err();
/// assert!(error.to_string().contains("unknown field `balance_factor`"));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// `round_robin`
    RoundRobin(WeightedConfig),
    /// `smooth_round_robin`: nginx's default.
    SmoothRoundRobin(SmoothConfig),
    /// `random`
    Random(WeightedConfig),
    /// `fnv`
    Fnv(WeightedConfig),
    /// `hash`: nginx's `hash KEY`.
    Hash(ModuloHashConfig),
    /// `ip_hash`
    IpHash(IpHashConfig),
    /// `consistent`: nginx's `hash KEY consistent`.
    Consistent(KetamaConfig),
    /// `least_conn`
    LeastConn(LeastConnConfig),
    /// `random_two`: nginx's `random two least_conn`.
    RandomTwo(RandomTwoConfig),
    /// `least_time`
    LeastTime(LeastTimeConfig),
    /// `p2c`
    P2c(P2cConfig),
    /// `fair`
    Fair(FairConfig),
}

impl Algorithm {
    /// The names of all algorithms.
    pub const NAMES: [&'static str; 12] = [
        "round_robin",
        "smooth_round_robin",
        "random",
        "fnv",
        "hash",
        "ip_hash",
        "consistent",
        "least_conn",
        "random_two",
        "least_time",
        "p2c",
        "fair",
    ];

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RoundRobin(_) => "round_robin",
            Self::SmoothRoundRobin(_) => "smooth_round_robin",
            Self::Random(_) => "random",
            Self::Fnv(_) => "fnv",
            Self::Hash(_) => "hash",
            Self::IpHash(_) => "ip_hash",
            Self::Consistent(_) => "consistent",
            Self::LeastConn(_) => "least_conn",
            Self::RandomTwo(_) => "random_two",
            Self::LeastTime(_) => "least_time",
            Self::P2c(_) => "p2c",
            Self::Fair(_) => "fair",
        }
    }

    /// Its selector over `nodes`.
    ///
    /// # Errors
    ///
    /// Those of the [`Build::build`] of that selector.
    pub fn build(&self, nodes: &NodeSet) -> Result<Box<dyn Selector>, BuildError> {
        self.make(None, nodes)
    }

    /// Its selector over `nodes`, carrying over what `previous` holds if that is of the same
    /// algorithm; see [`Build::rebuild`].
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn rebuild(
        &self,
        previous: &dyn Selector,
        nodes: &NodeSet,
    ) -> Result<Box<dyn Selector>, BuildError> {
        self.make(Some(previous), nodes)
    }

    fn make(
        &self,
        previous: Option<&dyn Selector>,
        nodes: &NodeSet,
    ) -> Result<Box<dyn Selector>, BuildError> {
        match self {
            Self::RoundRobin(config) => made::<RoundRobin>(previous, nodes, config),
            Self::SmoothRoundRobin(config) => made::<SmoothRoundRobin>(previous, nodes, config),
            Self::Random(config) => made::<Random>(previous, nodes, config),
            Self::Fnv(config) => made::<FNVHash>(previous, nodes, config),
            Self::Hash(config) => made::<ModuloHash>(previous, nodes, config),
            Self::IpHash(config) => made::<IpHash>(previous, nodes, config),
            Self::Consistent(config) => made::<Consistent>(previous, nodes, config),
            Self::LeastConn(config) => made::<LeastConn>(previous, nodes, config),
            Self::RandomTwo(config) => made::<RandomTwo>(previous, nodes, config),
            Self::LeastTime(config) => made::<LeastTime>(previous, nodes, config),
            Self::P2c(config) => made::<P2c>(previous, nodes, config),
            Self::Fair(config) => made::<Fair>(previous, nodes, config),
        }
    }
}

fn made<S: Build>(
    previous: Option<&dyn Selector>,
    nodes: &NodeSet,
    config: &S::Config,
) -> Result<Box<dyn Selector>, BuildError> {
    let previous = previous.and_then(|selector| (selector as &dyn Any).downcast_ref::<S>());
    Ok(Box::new(match previous {
        Some(previous) => S::rebuild(previous, nodes, config)?,
        None => S::build(nodes, config)?,
    }))
}

/// The name alone; its config is the default one.
impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Ok(match name {
            "round_robin" => Self::RoundRobin(WeightedConfig::default()),
            "smooth_round_robin" => Self::SmoothRoundRobin(SmoothConfig::default()),
            "random" => Self::Random(WeightedConfig::default()),
            "fnv" => Self::Fnv(WeightedConfig::default()),
            "hash" => Self::Hash(ModuloHashConfig::default()),
            "ip_hash" => Self::IpHash(IpHashConfig::default()),
            "consistent" => Self::Consistent(KetamaConfig::default()),
            "least_conn" => Self::LeastConn(LeastConnConfig::default()),
            "random_two" => Self::RandomTwo(RandomTwoConfig::default()),
            "least_time" => Self::LeastTime(LeastTimeConfig::default()),
            "p2c" => Self::P2c(P2cConfig::default()),
            "fair" => Self::Fair(FairConfig::default()),
            _ => {
                let name = name.to_owned();
                return Err(UnknownAlgorithm { name });
            }
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No algorithm has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm {
    name: String,
}

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Algorithm::NAMES.join(", ");
        write!(
            f,
            "unknown algorithm `{}`, expected one of {names}",
            self.name
        )
    }
}

impl Error for UnknownAlgorithm {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in Algorithm::NAMES {
            let algorithm: Algorithm = name.parse().unwrap();
            assert_eq!(
                (algorithm.name(), algorithm.to_string().as_str()),
                (name, name)
            );
        }
        let error = "swrr".parse::<Algorithm>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown algorithm `swrr`, expected one of round_robin, smooth_")
        );
        assert!(error.ends_with(", p2c, fair"), "{error}");
    }
}
