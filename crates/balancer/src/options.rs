//! What may be set about a balancer apart from its selector.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::members::Policy;
use crate::{Address, Admin, ConfigError, InitialHealth, Passive, SlowStart};

/// How often to look, how much at once, and what to do in doubt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The time between two discoveries that succeed, if nothing wakes the service before and the
    /// source does not know how long its answer holds
    /// ([`Discovery::valid_for`](crate::Discovery::valid_for)). A failed one is repeated after one
    /// second, then two, then four, up to this. Default: 30 s.
    pub update_interval: Duration,
    /// The time from the start of one check of a backend to the start of the next. Default: 5 s.
    pub check_interval: Duration,
    /// By how much of the interval, in percent, each wait for a check is shortened or lengthened
    /// at random, so that a fleet does not probe in step. The first wait of a backend is anything
    /// up to the interval, unless this is 0. 0 to 100; default: 10.
    pub check_jitter: u8,
    /// The most checks under way at once; at least 1. Default: 64.
    pub parallel_checks: usize,
    /// What a backend is taken for before its first check. Default: healthy.
    pub initial_health: InitialHealth,
    /// An update that finds fewer backends than this is refused, and the last good set serves on.
    /// Default: 0, so that an empty answer is applied.
    pub min_backends: usize,
    /// How failed requests count. Default: not at all.
    pub passive: Passive,
    /// If in every tier less than this share of the enabled weight is ready, in percent, then
    /// health is taken for unreliable and ignored: all that their operators let serve do. 0 to
    /// 100; default: 0, never.
    pub panic_threshold: u8,
    /// How a backend that comes, or comes back, is eased in. Default: not at all.
    pub slow_start: Option<SlowStart>,
    /// How the backends of a tier are numbered, which decides ties. Default: by address.
    pub order: Order,
    /// What their operator wants of these backends from the moment they join (nginx `down`); what
    /// is said later, with [`set_admin`](crate::LoadBalancer::set_admin), counts for as long as
    /// they stay. Default: all others are enabled.
    pub admin: BTreeMap<Address, Admin>,
}

/// How the backends of a tier are numbered. The number decides ties: who is first of equals, and
/// where turns begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Order {
    /// By address, so that discovery may answer in any order and all processes agree.
    #[default]
    Address,
    /// As discovery lists them: exactly the choice of an nginx with these `server` lines. The same
    /// set in another order is then a change.
    Listed,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            update_interval: Duration::from_secs(30),
            check_interval: Duration::from_secs(5),
            check_jitter: 10,
            parallel_checks: 64,
            initial_health: InitialHealth::Healthy,
            min_backends: 0,
            passive: Passive::Off,
            panic_threshold: 0,
            slow_start: None,
            order: Order::Address,
            admin: BTreeMap::new(),
        }
    }
}

impl Options {
    /// With this [`update_interval`](Self::update_interval).
    #[must_use]
    pub fn update_interval(self, update_interval: Duration) -> Self {
        Self {
            update_interval,
            ..self
        }
    }

    /// With this [`check_interval`](Self::check_interval).
    #[must_use]
    pub fn check_interval(self, check_interval: Duration) -> Self {
        Self {
            check_interval,
            ..self
        }
    }

    /// With this [`check_jitter`](Self::check_jitter).
    #[must_use]
    pub fn check_jitter(self, check_jitter: u8) -> Self {
        Self {
            check_jitter,
            ..self
        }
    }

    /// With this many [`parallel_checks`](Self::parallel_checks).
    #[must_use]
    pub fn parallel_checks(self, parallel_checks: usize) -> Self {
        Self {
            parallel_checks,
            ..self
        }
    }

    /// With this [`initial_health`](Self::initial_health).
    #[must_use]
    pub fn initial_health(self, initial_health: InitialHealth) -> Self {
        Self {
            initial_health,
            ..self
        }
    }

    /// With at least this many backends: [`min_backends`](Self::min_backends).
    #[must_use]
    pub fn min_backends(self, min_backends: usize) -> Self {
        Self {
            min_backends,
            ..self
        }
    }

    /// With failed requests counted by these rules: [`passive`](Self::passive).
    #[must_use]
    pub fn passive(self, passive: Passive) -> Self {
        Self { passive, ..self }
    }

    /// With this [`panic_threshold`](Self::panic_threshold).
    #[must_use]
    pub fn panic_threshold(self, panic_threshold: u8) -> Self {
        Self {
            panic_threshold,
            ..self
        }
    }

    /// With this [`slow_start`](Self::slow_start).
    #[must_use]
    pub fn slow_start(self, slow_start: SlowStart) -> Self {
        Self {
            slow_start: Some(slow_start),
            ..self
        }
    }

    /// With this [`order`](Self::order).
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// With this backend joining in this state: [`admin`](Self::admin).
    #[must_use]
    pub fn admin(mut self, addr: impl Into<Address>, admin: Admin) -> Self {
        self.admin.insert(addr.into(), admin);
        self
    }

    /// What of it is about the health of backends, whoever picks among them.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            initial: self.initial_health,
            passive: self.passive.clone(),
            slow_start: self.slow_start.clone(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        not_zero("update_interval", self.update_interval)?;
        not_zero("check_interval", self.check_interval)?;
        within("check_jitter", u64::from(self.check_jitter), 0, 100)?;
        within("parallel_checks", self.parallel_checks as u64, 1, u64::MAX)?;
        within("panic_threshold", u64::from(self.panic_threshold), 0, 100)?;
        if let Passive::Consecutive(rule) = &self.passive {
            not_zero("passive.base", rule.base)?;
            let percent = u64::from(rule.max_ejection_percent);
            within("passive.max_ejection_percent", percent, 0, 100)?;
        }
        if let Some(slow_start) = &self.slow_start {
            not_zero("slow_start.window", slow_start.window)?;
            let percent = u64::from(slow_start.start_percent);
            within("slow_start.start_percent", percent, 1, 100)?;
        }
        Ok(())
    }
}

fn not_zero(option: &'static str, value: Duration) -> Result<(), ConfigError> {
    if value.is_zero() {
        return Err(ConfigError::ZeroDuration { option });
    }
    Ok(())
}

fn within(option: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange {
        option,
        value,
        min,
        max,
    })
}
