//! Backends from DNS, asked again when the records run out.

mod config;
mod error;
mod question;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, RecordType};

pub use self::config::{Absent, DnsConfig, Family};
pub use self::error::{DnsError, DnsErrorKind};
pub use self::question::{HostName, Question};
use super::Discovery;
use crate::{Backend, DiscoveryError, log};

/// The addresses or the services that a name stands for.
///
/// Every answer is taken from the name servers and not from a cache of this process, and holds for
/// the shortest time to live of its records, within the limits of [`DnsConfig`]: then the service
/// asks again. A question that is answered in part, such as A but not AAAA, has no answer.
///
/// The name that an address was found under is in the extensions of its backend, as [`HostName`].
#[derive(Debug)]
pub struct Dns {
    question: Question,
    name: Name,
    config: DnsConfig,
    resolver: TokioResolver,
    holds: Mutex<Option<Duration>>,
}

// ===== impl Dns =====

impl Dns {
    /// Asks the name servers of the system. Nothing is asked as yet.
    ///
    /// # Errors
    ///
    /// As [`with_config`](Self::with_config).
    pub fn new(question: Question) -> Result<Self, DnsError> {
        Self::with_config(question, DnsConfig::default())
    }

    /// With this config.
    ///
    /// # Errors
    ///
    /// [`DnsErrorKind::InvalidName`], [`DnsErrorKind::InvalidConfig`].
    pub fn with_config(question: Question, config: DnsConfig) -> Result<Self, DnsError> {
        let text = question.name();
        let name = Name::from_utf8(text)
            .map_err(|cause| DnsError::new(text, DnsErrorKind::InvalidName(cause.to_string())))?;
        let resolver = config
            .resolver()
            .map_err(|message| DnsError::new(text, DnsErrorKind::InvalidConfig(message)))?;
        Ok(Self {
            question,
            name,
            config,
            resolver,
            holds: Mutex::new(None),
        })
    }

    async fn ask(&self) -> Result<Answer<Backend>, DnsError> {
        match &self.question {
            Question::Host { port, .. } => {
                let addresses = self.addresses(&self.name).await?;
                let host = HostName::new(&self.name);
                Ok(addresses.map(|ip| backend(ip, *port, &host)))
            }
            Question::Service { .. } => self.targets().await,
        }
    }

    /// The addresses of the targets of the service.
    async fn targets(&self) -> Result<Answer<Backend>, DnsError> {
        let services = self.lookup(&self.name, RecordType::SRV, service).await?;
        let tiers = tiers(&self.name, &services.found)?;
        let mut answer = Answer {
            found: Vec::new(),
            ttl: services.ttl,
        };
        let mut absence = None;
        let mut resolved = stream::iter(services.found)
            .map(async |service| (self.addresses(&service.target).await, service))
            .buffered(TARGETS_AT_ONCE);
        while let Some((addresses, service)) = resolved.next().await {
            match addresses {
                Ok(addresses) => {
                    let host = HostName::new(&service.target);
                    let tier = tiers.binary_search(&service.priority).unwrap_or_default();
                    answer.extend(addresses.map(|ip| {
                        backend(ip, service.port, &host)
                            .with_weight(u32::from(service.weight.max(1)))
                            .with_tier(u8::try_from(tier).unwrap_or(u8::MAX))
                    }));
                }
                Err(error) if error.is_absence() => {
                    log::target_absent(&self.name, &error);
                    absence = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match absence {
            Some(error) if answer.found.is_empty() => Err(error),
            _ => Ok(answer),
        }
    }

    /// The addresses of a host, of the families that are wanted.
    async fn addresses(&self, host: &Name) -> Result<Answer<IpAddr>, DnsError> {
        let v4 = self.lookup(host, RecordType::A, address);
        let v6 = self.lookup(host, RecordType::AAAA, address);
        match self.config.family {
            Family::V4 => v4.await,
            Family::V6 => v6.await,
            Family::Both => match tokio::join!(v4, v6) {
                (Ok(mut v4), Ok(v6)) => {
                    v4.extend(v6);
                    Ok(v4)
                }
                // One family is enough, if the other is said to be absent and not merely missing.
                (Ok(found), Err(error)) | (Err(error), Ok(found)) if error.is_absence() => {
                    Ok(found)
                }
                (Err(v4), Err(v6)) if v4.is_absence() => Err(v6),
                (Err(error), _) | (_, Err(error)) => Err(error),
            },
        }
    }

    async fn lookup<T>(
        &self,
        name: &Name,
        records: RecordType,
        read: fn(&RData) -> Option<T>,
    ) -> Result<Answer<T>, DnsError> {
        let fail = |kind| DnsError::new(&name.to_utf8(), kind);
        let lookup = self.resolver.lookup(name.clone(), records).await;
        let lookup = lookup.map_err(|cause| fail(DnsErrorKind::of(cause, records)))?;
        let answers = lookup.answers();
        let found: Vec<_> = answers
            .iter()
            .filter_map(|record| read(&record.data))
            .collect();
        if found.is_empty() {
            return Err(fail(DnsErrorKind::no_records(records)));
        }
        // Those of the aliases on the way count too.
        let ttl = answers.iter().map(|record| record.ttl).min();
        let ttl = Duration::from_secs(ttl.unwrap_or_default().into());
        Ok(Answer { found, ttl })
    }

    fn hold(&self, holds: Option<Duration>) {
        *self.holds.lock().unwrap_or_else(PoisonError::into_inner) = holds;
    }
}

#[async_trait]
impl Discovery for Dns {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        match self.ask().await {
            Ok(answer) => {
                self.hold(Some(self.config.holds(answer.ttl, rand::random())));
                Ok(answer.found)
            }
            Err(error) if error.is_absence() && self.config.absent == Absent::Empty => {
                self.hold(None);
                Ok(Vec::new())
            }
            Err(error) => Err(DiscoveryError::new(error)),
        }
    }

    fn valid_for(&self) -> Option<Duration> {
        *self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl Answer =====

/// What was found, and for how long it holds.
struct Answer<T> {
    found: Vec<T>,
    ttl: Duration,
}

impl<T> Answer<T> {
    fn map<U>(self, map: impl FnMut(T) -> U) -> Answer<U> {
        Answer {
            found: self.found.into_iter().map(map).collect(),
            ttl: self.ttl,
        }
    }

    fn extend(&mut self, other: Self) {
        self.found.extend(other.found);
        self.ttl = self.ttl.min(other.ttl);
    }
}

/// The priorities in ascending order: the place of one is its tier.
fn tiers(name: &Name, services: &[SRV]) -> Result<Vec<u16>, DnsError> {
    let mut tiers: Vec<_> = services.iter().map(|service| service.priority).collect();
    tiers.sort_unstable();
    tiers.dedup();
    match tiers.len() {
        0..=MAX_TIERS => Ok(tiers),
        n => Err(DnsError::new(
            &name.to_utf8(),
            DnsErrorKind::TooManyPriorities { n, max: MAX_TIERS },
        )),
    }
}

fn address(data: &RData) -> Option<IpAddr> {
    match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
        _ => None,
    }
}

/// A target of `.` says that the service is not to be had (RFC 2782).
fn service(data: &RData) -> Option<SRV> {
    match data {
        RData::SRV(service) if !service.target.is_root() => Some(service.clone()),
        _ => None,
    }
}

fn backend(ip: IpAddr, port: u16, host: &HostName) -> Backend {
    Backend::new(SocketAddr::new(ip, port)).with_ext(host.clone())
}

/// The tiers that a `u8` numbers.
const MAX_TIERS: usize = 256;

/// Two questions each; hickory refuses more than 32 at once to one server.
const TARGETS_AT_ONCE: usize = 8;
