//! A whole pool from a file: the algorithm, the backends or where they are found, health, limits.

mod algorithm;
mod build;
mod error;
mod health;
mod joint;
pub(crate) mod period;
mod source;

use std::collections::BTreeMap;
use std::time::Duration;

use selection::{Algorithm, SmoothConfig};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

pub use self::error::{ParseError, WriteError};
pub use self::health::ActiveConfig;
pub use self::health::HealthConfig;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub use self::health::{HttpConfig, StatusRange};
#[cfg(feature = "dns")]
#[cfg_attr(docsrs, doc(cfg(feature = "dns")))]
pub use self::source::DnsSource;
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub use self::source::EtcdSource;
#[cfg(feature = "file")]
#[cfg_attr(docsrs, doc(cfg(feature = "file")))]
pub use self::source::FileSource;
pub use self::source::Source;
use crate::schema;
use crate::{Address, Admin, Backend, Options, Order, SlowStart};

/// A pool as it is written in a file, in TOML or JSON.
///
/// [`LoadBalancer::from_config`](crate::LoadBalancer::from_config) makes the balancer of it, and
/// [`run`](crate::LoadBalancer::run) then drives discovery and checks at the intervals that are
/// written here.
///
/// ```
/// use balancer::selection::Selector;
/// use balancer::{LoadBalancer, PoolConfig};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let config = PoolConfig::from_toml(
///     r#"
///     algorithm = "least_conn"
///     panic_threshold = 30
///
///     [[backends]]
///     addr = "10.0.0.1:80"
///     weight = 2
///
///     [[backends]]
///     addr = "10.0.0.2:80"
///     max_in_flight = 100
///
///     [[backends]]
///     addr = "unix:/run/spare.sock"
///     tier = 1 # while none of tier 0 can serve
///
///     [slow_start]
///     window = "30s"
///
///     [health.active] # connects; with a table `health.active.http` it asks over HTTP
///     interval = "2s"
///     rise = 2
///     fall = 3
///
///     [health.passive.max_fails] # nginx's rules
///     max_fails = 3
///     fail_timeout = "10s"
///     "#,
/// )?;
/// let balancer = LoadBalancer::<dyn Selector>::from_config(config)?;
/// balancer.update().await?; // or leave it to `balancer.run(...)`
/// assert_eq!(balancer.select(b"").ok_or("no backend")?.addr.to_string(), "10.0.0.1:80");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// The same in JSON, with all the keys in the same places:
///
/// ```
/// # use balancer::PoolConfig;
/// let config = PoolConfig::from_json(
///     r#"{
///         "algorithm": {"algorithm": "consistent", "balance_factor": 150},
///         "backends": [
///             {"addr": "10.0.0.1:80", "weight": 2},
///             {"addr": "10.0.0.2:80", "ring_name": "cache-2"}
///         ],
///         "admin": {"10.0.0.2:80": "drain"},
///         "min_backends": 1,
///         "health": {
///             "active": {"interval": "2s", "jitter": 20, "timeout": "500ms"},
///             "passive": {"consecutive": {"failures": 5, "max_ejection_percent": 30}}
///         }
///     }"#,
/// )?;
/// assert_eq!(config.algorithm.name(), "consistent");
/// # Ok::<_, balancer::config::ParseError>(())
/// ```
///
/// Every key, with its meaning, unit, range and default, is in `docs/configuration.md`. A key that
/// is not known, that needs a Cargo feature which is not there, or whose value is out of range is
/// an error that says where it is.
///
/// A time is a text of numbers with units, such as `"500ms"`, `"10s"` or `"1h 30m"`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PoolConfig {
    /// What the pool is called in status, logs and metrics; see
    /// [`Builder::name`](crate::Builder::name). Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What picks. Default: [`Algorithm::SmoothRoundRobin`], as nginx.
    #[serde(deserialize_with = "algorithm::deserialize")]
    pub algorithm: Algorithm,
    /// How the backends are numbered, which decides ties. Default: by address.
    pub order: Order,
    /// The time between two discoveries; see [`Options::update_interval`]. Default: 30 s.
    #[serde(with = "period::positive")]
    pub update_interval: Duration,
    /// An update that finds fewer backends is refused. Default: 0.
    pub min_backends: usize,
    /// The share of the weight that must be ready for health to count, in percent; see
    /// [`Options::panic_threshold`]. Default: 0.
    #[serde(deserialize_with = "percent")]
    pub panic_threshold: u8,
    /// Backends that are always members, before those of [`discovery`](field@Self::discovery).
    pub backends: Vec<Backend>,
    /// Where further backends are found. All sources together are the pool; an answer that one of
    /// them cannot give is an answer that none gives, and the last good set serves on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discovery: Vec<Source>,
    /// What the operator wants of a backend from the moment it joins; see [`Options::admin`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub admin: BTreeMap<Address, Admin>,
    /// How a backend that comes, or comes back, is eased in. Default: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStart>,
    /// How it is known which backends are well.
    pub health: HealthConfig,
}

impl Default for PoolConfig {
    fn default() -> Self {
        let options = Options::default();
        Self {
            name: None,
            algorithm: Algorithm::SmoothRoundRobin(SmoothConfig::default()),
            order: options.order,
            update_interval: options.update_interval,
            min_backends: options.min_backends,
            panic_threshold: options.panic_threshold,
            backends: Vec::new(),
            discovery: Vec::new(),
            admin: BTreeMap::new(),
            slow_start: None,
            health: HealthConfig::default(),
        }
    }
}

/// Everything but the [`ext`](Backend::ext) of the backends, which is not written.
impl PartialEq for PoolConfig {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |config: &Self| {
            (
                config.order,
                config.update_interval,
                config.min_backends,
                config.panic_threshold,
            )
        };
        numbers(self) == numbers(other)
            && self.name == other.name
            && self.algorithm == other.algorithm
            && source::are_like(&self.backends, &other.backends)
            && self.discovery == other.discovery
            && self.admin == other.admin
            && self.slow_start == other.slow_start
            && self.health == other.health
    }
}

impl PoolConfig {
    /// Reads TOML.
    ///
    /// # Errors
    ///
    /// [`ParseError`] at the first key that is wrong.
    pub fn from_toml(text: &str) -> Result<Self, ParseError> {
        Self::read(schema::from_toml(text.as_bytes()))
    }

    /// Reads JSON.
    ///
    /// # Errors
    ///
    /// [`ParseError`] at the first key that is wrong.
    pub fn from_json(text: &str) -> Result<Self, ParseError> {
        Self::read(schema::from_json(text.as_bytes()))
    }

    /// Writes TOML, which [`from_toml`](Self::from_toml) reads back.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if it holds what cannot be written, such as a path that is not UTF-8.
    pub fn to_toml(&self) -> Result<String, WriteError> {
        toml::to_string_pretty(self).map_err(|error| WriteError::new(&error))
    }

    /// Writes JSON, which [`from_json`](Self::from_json) reads back.
    ///
    /// # Errors
    ///
    /// As [`to_toml`](Self::to_toml).
    pub fn to_json(&self) -> Result<String, WriteError> {
        serde_json::to_string_pretty(self).map_err(|error| WriteError::new(&error))
    }

    fn read(read: Result<Self, schema::Fault>) -> Result<Self, ParseError> {
        let config = read.map_err(ParseError::from)?;
        config.check().map_err(ParseError::from)?;
        Ok(config)
    }
}

/// Percents from 0.
pub(crate) fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    percent_from(0, deserializer)
}

/// Percents from 1.
pub(crate) fn percent_from_one<'de, D: Deserializer<'de>>(d: D) -> Result<u8, D::Error> {
    percent_from(1, d)
}

fn percent_from<'de, D: Deserializer<'de>>(min: u8, deserializer: D) -> Result<u8, D::Error> {
    let value = i64::deserialize(deserializer)?;
    let percent = u8::try_from(value).ok();
    percent
        .filter(|percent| (min..=100).contains(percent))
        .ok_or_else(|| {
            let limits = format!("a percentage, {min} to 100");
            D::Error::invalid_value(Unexpected::Signed(value), &limits.as_str())
        })
}
