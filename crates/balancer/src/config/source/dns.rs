//! The addresses of a name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::{percent, period};
use crate::discovery::{Absent, Dns, DnsConfig, Family, Question};
use crate::{Backend, Discovery, DiscoveryError};

/// The addresses of a host, or the targets of a service: [`Dns`]. They are listed by address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DnsSource {
    /// What to ask for.
    pub question: Question,
    /// Whom to ask, how often, and what to make of the answer.
    pub config: DnsConfig,
    /// The weight of each address of a host. Default: 1. The records of a service have their own.
    pub weight: u32,
    /// The tier of the addresses of a host. Default: 0. The records of a service have their own.
    pub tier: u8,
    /// The limit of requests in flight of each address. Default: none.
    pub max_in_flight: Option<u32>,
    /// What is said of the failures of each address; see [`Backend::max_fails`]. Default: nothing.
    pub max_fails: Option<u32>,
    /// As [`max_fails`](Self::max_fails), of their time; see [`Backend::fail_timeout`].
    pub fail_timeout: Option<Duration>,
    /// The name on the ring of all addresses of a host, which then take turns on its points, as in
    /// nginx. Default: each has its own.
    pub ring_name: Option<Arc<str>>,
}

impl DnsSource {
    /// The answers to this question, from the name servers of the system.
    #[must_use]
    pub fn new(question: Question) -> Self {
        Self {
            question,
            config: DnsConfig::default(),
            weight: 1,
            tier: 0,
            max_in_flight: None,
            max_fails: None,
            fail_timeout: None,
            ring_name: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.config.check()
    }

    pub(super) fn discovery(self) -> Result<impl Discovery, String> {
        let dns = Dns::with_config(self.question.clone(), self.config.clone());
        Ok(Dressed {
            dns: dns.map_err(|error| error.to_string())?,
            source: self,
        })
    }

    fn dress(&self, mut backend: Backend) -> Backend {
        backend.max_in_flight = self.max_in_flight;
        backend.max_fails = self.max_fails;
        backend.fail_timeout = self.fail_timeout;
        if matches!(self.question, Question::Host { .. }) {
            backend.weight = self.weight;
            backend.tier = self.tier;
            backend.ring_name.clone_from(&self.ring_name);
        }
        backend
    }
}

/// What DNS does not know of a backend, added to it.
#[derive(Debug)]
struct Dressed {
    dns: Dns,
    source: DnsSource,
}

#[async_trait]
impl Discovery for Dressed {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        let mut found = self.dns.discover().await?;
        // Name servers turn their answers round, which is no change of the pool.
        found.sort_by(|a, b| a.addr.cmp(&b.addr));
        let found = found.into_iter();
        Ok(found.map(|backend| self.source.dress(backend)).collect())
    }

    fn valid_for(&self) -> Option<Duration> {
        self.dns.valid_for()
    }
}

// ===== written form =====

/// A [`DnsSource`], flat. Which of the first seven there may be depends on what is asked for.
#[derive(Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename = "dns")]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fails: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", with = "period::maybe")]
    fail_timeout: Option<Duration>,
    servers: Vec<SocketAddr>,
    family: Family,
    #[serde(with = "period::positive")]
    timeout: Duration,
    retries: usize,
    #[serde(with = "period::positive")]
    min_ttl: Duration,
    #[serde(with = "period::positive")]
    max_ttl: Duration,
    #[serde(deserialize_with = "percent")]
    jitter: u8,
    absent: Absent,
}

impl Default for Written {
    fn default() -> Self {
        Self::of(DnsConfig::default())
    }
}

impl Written {
    /// Without a question as yet.
    fn of(config: DnsConfig) -> Self {
        Self {
            host: None,
            port: None,
            service: None,
            weight: None,
            tier: None,
            ring_name: None,
            max_in_flight: None,
            max_fails: None,
            fail_timeout: None,
            servers: config.servers,
            family: config.family,
            timeout: config.timeout,
            retries: config.retries,
            min_ttl: config.min_ttl,
            max_ttl: config.max_ttl,
            jitter: config.jitter,
            absent: config.absent,
        }
    }

    fn question(&self) -> Result<Question, &'static str> {
        match (&self.host, self.port, &self.service) {
            (Some(host), Some(port), None) => Ok(Question::host(host, port)),
            (Some(_), None, None) => Err("`host` needs `port` beside it"),
            (None, None, Some(service)) => {
                let fields = [
                    ("`weight` applies only with `host`", self.weight.is_some()),
                    ("`tier` applies only with `host`", self.tier.is_some()),
                    (
                        "`ring_name` applies only with `host`",
                        self.ring_name.is_some(),
                    ),
                ];
                match fields.iter().find(|(_, is_there)| *is_there) {
                    Some((message, _)) => Err(message),
                    None => Ok(Question::service(service)),
                }
            }
            (None, Some(_), Some(_)) => Err("`port` applies only with `host`"),
            (Some(_), _, Some(_)) => Err("`service` does not apply beside `host`"),
            (None, _, None) => Err("neither `host` nor `service` is given"),
        }
    }
}

impl<'de> Deserialize<'de> for DnsSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let question = written.question().map_err(D::Error::custom)?;
        Ok(Self {
            question,
            config: DnsConfig {
                servers: written.servers,
                family: written.family,
                timeout: written.timeout,
                retries: written.retries,
                min_ttl: written.min_ttl,
                max_ttl: written.max_ttl,
                jitter: written.jitter,
                absent: written.absent,
            },
            weight: written.weight.unwrap_or(1),
            tier: written.tier.unwrap_or_default(),
            max_in_flight: written.max_in_flight,
            max_fails: written.max_fails,
            fail_timeout: written.fail_timeout,
            ring_name: written.ring_name.map(Into::into),
        })
    }
}

impl Serialize for DnsSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = Written::of(self.config.clone());
        written.max_in_flight = self.max_in_flight;
        written.max_fails = self.max_fails;
        written.fail_timeout = self.fail_timeout;
        match &self.question {
            Question::Host { name, port } => {
                written.host = Some(name.clone());
                written.port = Some(*port);
                written.weight = (self.weight != 1).then_some(self.weight);
                written.tier = (self.tier != 0).then_some(self.tier);
                written.ring_name = self.ring_name.as_deref().map(str::to_owned);
            }
            Question::Service { name } => written.service = Some(name.clone()),
        }
        written.serialize(serializer)
    }
}
