//! A discovery and a health check that do as they are told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use balancer::{Address, Backend, CheckError, Discovery, DiscoveryError, HealthCheck, Thresholds};

use super::Member;
use super::model::number_of;

/// Answers with what was set last.
pub(crate) struct Source(Mutex<Option<Vec<Backend>>>);

impl Source {
    pub(crate) fn new(members: &[Member]) -> Self {
        Self(Mutex::new(Some(backends(members))))
    }

    pub(crate) fn set(&self, members: &[Member]) {
        self.answer(Some(backends(members)));
    }

    pub(crate) fn fail(&self) {
        self.answer(None);
    }

    fn answer(&self, answer: Option<Vec<Backend>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

#[async_trait]
impl Discovery for Source {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer
            .clone()
            .ok_or_else(|| DiscoveryError::new("told to fail"))
    }
}

/// Fails for the backends whose bit is set.
#[derive(Default)]
pub(crate) struct Checks(AtomicU8);

impl Checks {
    pub(crate) fn fail(&self, failing: u8) {
        self.0.store(failing, Ordering::Relaxed);
    }
}

#[async_trait]
impl HealthCheck for Checks {
    async fn check(&self, backend: &Backend) -> Result<(), CheckError> {
        match self.0.load(Ordering::Relaxed) >> number_of(&backend.addr) & 1 {
            0 => Ok(()),
            _ => Err(CheckError::new("told to fail")),
        }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds { rise: 1, fall: 1 }
    }
}

pub(crate) fn backends(members: &[Member]) -> Vec<Backend> {
    members.iter().map(backend).collect()
}

fn backend(member: &Member) -> Backend {
    let backend = Backend::new(address(member.number))
        .with_weight((member.weight % 4).into())
        .with_tier(member.tier % 3);
    match member.max_in_flight {
        Some(max) => backend.with_max_in_flight((max % 4).into()),
        None => backend,
    }
}

/// 10.0.0.0:80 to 10.0.0.7:80
pub(crate) fn address(number: u8) -> Address {
    let ip = Ipv4Addr::new(10, 0, 0, number % 8);
    Address::from(SocketAddr::from((ip, 80)))
}
