//! Whom to ask, how often, and what to make of the answer.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// Whom to ask, how often, and what to make of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DnsConfig {
    /// The name servers. Default: empty, which means those of the system and its search list,
    /// read once. The hosts file is not looked at in either case.
    pub servers: Vec<SocketAddr>,
    /// The addresses that are wanted. Default: both.
    pub family: Family,
    /// How long to wait for a server. Default: 2 s.
    pub timeout: Duration,
    /// How often a question is repeated that had no answer in time. Default: 1.
    pub retries: usize,
    /// An answer holds at least so long, whatever its records say; at least a second. Default:
    /// 1 s.
    pub min_ttl: Duration,
    /// An answer holds at most so long, whatever its records say. Default: 5 minutes.
    pub max_ttl: Duration,
    /// By how much of that time, in percent, it is lengthened at random, so that a fleet does not
    /// ask in step. It is not shortened: a caching name server would answer with the same records.
    /// 0 to 100; default: 10.
    pub jitter: u8,
    /// What to make of it if a name server says that there is nothing. Default: an error.
    pub absent: Absent,
}

/// Kinds of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Family {
    /// A and AAAA records. Both questions must be answered; that there are no records of one kind
    /// is an answer.
    #[default]
    Both,
    /// A records.
    V4,
    /// AAAA records.
    V6,
}

/// What the word of a name server means that a name does not exist, or has no such records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Absent {
    /// An error: the last good set serves on. A mistake in a zone does not empty the pool.
    #[default]
    Refuse,
    /// There are no backends.
    Empty,
}

impl Default for DnsConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            family: Family::default(),
            timeout: Duration::from_secs(2),
            retries: 1,
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(300),
            jitter: 10,
            absent: Absent::default(),
        }
    }
}

impl DnsConfig {
    /// With these [`servers`](Self::servers).
    #[must_use]
    pub fn servers(self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        let servers = servers.into_iter().collect();
        Self { servers, ..self }
    }

    /// With this [`family`](Self::family).
    #[must_use]
    pub fn family(self, family: Family) -> Self {
        Self { family, ..self }
    }

    /// With this [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// With this many [`retries`](Self::retries).
    #[must_use]
    pub fn retries(self, retries: usize) -> Self {
        Self { retries, ..self }
    }

    /// With this [`min_ttl`](Self::min_ttl).
    #[must_use]
    pub fn min_ttl(self, min_ttl: Duration) -> Self {
        Self { min_ttl, ..self }
    }

    /// With this [`max_ttl`](Self::max_ttl).
    #[must_use]
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        Self { max_ttl, ..self }
    }

    /// With this [`jitter`](Self::jitter).
    #[must_use]
    pub fn jitter(self, jitter: u8) -> Self {
        Self { jitter, ..self }
    }

    /// With this rule for [`absent`](Self::absent) names.
    #[must_use]
    pub fn absent(self, absent: Absent) -> Self {
        Self { absent, ..self }
    }

    /// How long an answer of this time to live holds; `chance` is from 0 to 1.
    pub(super) fn holds(&self, ttl: Duration, chance: f64) -> Duration {
        let ttl = ttl.clamp(self.min_ttl, self.max_ttl);
        let factor = 1.0 + f64::from(self.jitter) / 100.0 * chance;
        Duration::try_from_secs_f64(ttl.as_secs_f64() * factor).unwrap_or(ttl)
    }

    pub(super) fn resolver(&self) -> Result<TokioResolver, String> {
        self.check()?;
        let mut builder = if self.servers.is_empty() {
            TokioResolver::builder_tokio().map_err(|cause| cause.to_string())?
        } else {
            let servers = self.servers.iter().map(name_server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = self.timeout;
        options.attempts = self.retries;
        // When to ask is decided here, and the answer is to be that of the server.
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        builder.build().map_err(|cause| cause.to_string())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.timeout.is_zero() {
            return Err("timeout is 0, it must be longer".to_owned());
        }
        if self.min_ttl < SECOND {
            return Err(format!("min_ttl is {:?}, the least is 1s", self.min_ttl));
        }
        if self.max_ttl < self.min_ttl {
            let Self {
                min_ttl, max_ttl, ..
            } = self;
            return Err(format!(
                "max_ttl is {max_ttl:?}, less than min_ttl, {min_ttl:?}"
            ));
        }
        if self.jitter > 100 {
            return Err(format!(
                "jitter is {}, the limits are 0 to 100",
                self.jitter
            ));
        }
        Ok(())
    }
}

fn name_server(addr: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = addr.port();
        connection
    });
    NameServerConfig::new(addr.ip(), true, connections.into())
}

/// As often as the service asks at most.
const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_hold_for_their_time_to_live_within_limits_and_no_shorter() {
        let config = DnsConfig::default()
            .min_ttl(5 * SECOND)
            .max_ttl(60 * SECOND);
        for (ttl, chance, expected) in [
            (30, 0.0, 30.0),
            (30, 0.5, 31.5),
            (30, 1.0, 33.0),
            (0, 0.0, 5.0),
            (86400, 0.0, 60.0),
        ] {
            let holds = config.holds(Duration::from_secs(ttl), chance);
            assert_eq!(holds, Duration::from_secs_f64(expected));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_value() {
        let config = DnsConfig::default;
        for (config, expected) in [
            (config().timeout(Duration::ZERO), "timeout is 0"),
            (config().min_ttl(SECOND / 2), "min_ttl is 500ms"),
            (
                config().max_ttl(SECOND).min_ttl(2 * SECOND),
                "max_ttl is 1s",
            ),
            (config().jitter(101), "jitter is 101"),
        ] {
            let message = config.resolver().unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
