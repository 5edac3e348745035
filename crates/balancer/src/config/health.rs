//! How it is known which backends are well.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::period;
use crate::{InitialHealth, Options, Passive, TcpCheck};

#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
pub use self::http::{HttpConfig, StatusRange};

/// How it is known which backends are well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HealthConfig {
    /// What a backend is taken for before its first check. Default: healthy.
    pub initial: InitialHealth,
    /// Checks. Default: none, and every backend is taken for well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveConfig>,
    /// How failed requests count. Default: not at all.
    pub passive: Passive,
}

/// How backends are checked: [`TcpCheck`], or `HttpCheck` if there is a table `http`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ActiveConfig {
    /// The time from the start of one check of a backend to the start of the next. Default: 5 s.
    #[serde(with = "period::positive")]
    pub interval: Duration,
    /// By how much of the interval, in percent, a wait is shortened or lengthened at random.
    /// Default: 10.
    #[serde(deserialize_with = "super::percent")]
    pub jitter: u8,
    /// The most checks under way at once; at least 1. Default: 64.
    #[serde(deserialize_with = "at_least_one")]
    pub parallel: usize,
    /// The time for a check as a whole; longer is a failure. Default: 1 s.
    #[serde(with = "period::positive")]
    pub timeout: Duration,
    /// Passes in a row that bring a backend up. Default: 2.
    pub rise: u32,
    /// Failures in a row that take a backend down. Default: 3.
    pub fall: u32,
    /// What to ask over HTTP. Default: nothing, a connection is enough.
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpConfig>,
    #[cfg(not(feature = "http"))]
    #[serde(skip_serializing)]
    http: Option<NoHttp>,
}

#[cfg(not(feature = "http"))]
super::source::missing!(NoHttp, "http");

impl Default for ActiveConfig {
    fn default() -> Self {
        let options = Options::default();
        let check = TcpCheck::default();
        Self {
            interval: options.check_interval,
            jitter: options.check_jitter,
            parallel: options.parallel_checks,
            timeout: check.timeout,
            rise: check.thresholds.rise,
            fall: check.thresholds.fall,
            http: None,
        }
    }
}

fn at_least_one<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = usize::deserialize(deserializer)?;
    if number == 0 {
        let zero = serde::de::Unexpected::Unsigned(0);
        return Err(serde::de::Error::invalid_value(zero, &"1 and more"));
    }
    Ok(number)
}
