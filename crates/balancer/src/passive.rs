//! Passive health: what the outcomes of real requests say of one backend. Pure; `now` is passed in.

use std::time::Duration;

/// How failed requests take a backend out of rotation for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Passive {
    /// Not at all.
    #[default]
    Off,
    /// By nginx's `max_fails` and `fail_timeout`.
    MaxFails(MaxFails),
    /// After failures in a row, for longer each time.
    Consecutive(Consecutive),
}

/// The rules of nginx: `max_fails` failures, and the backend is passed over for `fail_timeout`.
///
/// There is no window: failures add up over any number of successes, until a success of a request
/// that was picked more than `fail_timeout` after the latest failure. Once the time is over, one
/// request per `fail_timeout` is let through; its success brings the backend back.
///
/// nginx spares the only server of an upstream; here it is the only one that could be picked at
/// all, drained and disabled ones not counted.
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_round_robin.c`: `ngx_http_upstream_get_peer`,
/// `ngx_http_upstream_free_round_robin_peer`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct MaxFails {
    /// The failures that take it out; 0 = never. Default: 1.
    pub max_fails: u32,
    /// For how long. Default: 10 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::period"))]
    pub fail_timeout: Duration,
    /// The resolution of time. nginx counts in whole seconds, so that a backend that failed in
    /// second s is out until second s + `fail_timeout` + 1: one second reproduces that. Default:
    /// zero, which is exact.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::period"))]
    pub tick: Duration,
}

impl Default for MaxFails {
    fn default() -> Self {
        Self {
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            tick: Duration::ZERO,
        }
    }
}

impl MaxFails {
    /// With this many [`max_fails`](Self::max_fails).
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }

    /// With this [`fail_timeout`](Self::fail_timeout).
    #[must_use]
    pub fn fail_timeout(self, fail_timeout: Duration) -> Self {
        Self {
            fail_timeout,
            ..self
        }
    }

    /// With this [`tick`](Self::tick).
    #[must_use]
    pub fn tick(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }
}

/// Ejection after failures in a row.
///
/// The n-th ejection lasts n times `base`, up to `max`; every `base` of service without one takes
/// one off n. Then one request is let through: its success brings the backend back, its failure
/// ejects it again.
///
/// # Source
///
/// Envoy's outlier detection (`consecutive_5xx`, `base_ejection_time`, `max_ejection_percent`),
/// with a trial request in place of a full return.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Consecutive {
    /// The failures in a row that eject; 0 acts like 1. Default: 5.
    pub failures: u32,
    /// The length of a first ejection. Default: 30 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::period::positive"))]
    pub base: Duration,
    /// The longest ejection. Default: 300 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::config::period"))]
    pub max: Duration,
    /// The most backends, in percent of those that could be picked otherwise, that may be ejected
    /// at once, the one in question included: 50 spares the only backend, and two of three.
    /// Default: 50.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::config::percent"))]
    pub max_ejection_percent: u8,
}

impl Default for Consecutive {
    fn default() -> Self {
        Self {
            failures: 5,
            base: Duration::from_secs(30),
            max: Duration::from_secs(300),
            max_ejection_percent: 50,
        }
    }
}

impl Consecutive {
    /// With this many [`failures`](Self::failures) in a row.
    #[must_use]
    pub fn failures(self, failures: u32) -> Self {
        Self { failures, ..self }
    }

    /// With this first ejection: [`base`](Self::base).
    #[must_use]
    pub fn base(self, base: Duration) -> Self {
        Self { base, ..self }
    }

    /// With this longest ejection: [`max`](Self::max).
    #[must_use]
    pub fn max(self, max: Duration) -> Self {
        Self { max, ..self }
    }

    /// With this [`max_ejection_percent`](Self::max_ejection_percent).
    #[must_use]
    pub fn max_ejection_percent(self, max_ejection_percent: u8) -> Self {
        Self {
            max_ejection_percent,
            ..self
        }
    }
}

impl Passive {
    pub(crate) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// This rule for a backend that says something for itself.
    pub(crate) fn with(&self, own: Fails) -> Self {
        match self {
            Self::MaxFails(rule) => Self::MaxFails(MaxFails {
                max_fails: own.max_fails.unwrap_or(rule.max_fails),
                fail_timeout: own.fail_timeout.unwrap_or(rule.fail_timeout),
                tick: rule.tick,
            }),
            other => other.clone(),
        }
    }

    /// Whether one more ejection keeps the limit, if `ejected` of `selectable` backends already
    /// are. Never the only one.
    pub(crate) fn may_eject(&self, ejected: usize, selectable: usize) -> bool {
        let percent = match self {
            Self::Off => 0,
            Self::MaxFails(_) => 100,
            Self::Consecutive(rule) => usize::from(rule.max_ejection_percent),
        };
        selectable > 1 && (ejected + 1).saturating_mul(100) <= selectable.saturating_mul(percent)
    }
}

/// What a backend says for itself, in place of the [`MaxFails`] of all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fails {
    pub(crate) max_fails: Option<u32>,
    pub(crate) fail_timeout: Option<Duration>,
}

/// Where a backend stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In rotation.
    Serving,
    /// Out of it for a while.
    Ejected,
    /// Waiting for the one request that shows whether it is well again.
    Trial,
}

/// The record of one backend.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    phase: Phase,
    /// The end of an ejection.
    until: Duration,
    /// Failures that count.
    fails: u32,
    /// The latest failure (nginx's `accessed`).
    failed: Duration,
    /// How many ejections the next one follows.
    level: u32,
    /// Since when it serves again.
    returned: Duration,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Serving,
            until: Duration::ZERO,
            fails: 0,
            failed: Duration::ZERO,
            level: 0,
            returned: Duration::ZERO,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// When the ejection under way ends.
    pub(crate) fn ends(&self) -> Option<Duration> {
        (self.phase == Phase::Ejected).then_some(self.until)
    }

    /// Whether a success would change anything.
    pub(crate) fn is_suspect(&self) -> bool {
        self.fails > 0
    }

    /// The time goes on.
    pub(crate) fn at(&mut self, now: Duration) {
        if self.phase == Phase::Ejected && now >= self.until {
            self.phase = Phase::Trial;
        }
    }

    /// A request takes the trial. Until its outcome is known, for at most as long as the penalty
    /// it stands for, there is no other.
    pub(crate) fn take_trial(&mut self, rule: &Passive, now: Duration) {
        self.phase = Phase::Ejected;
        self.until = now.saturating_add(match rule {
            Passive::Off => Duration::ZERO,
            Passive::MaxFails(rule) => penalty(rule, now),
            Passive::Consecutive(rule) => rule.penalty(self.level),
        });
    }

    /// The request that took the trial was given up.
    pub(crate) fn give_back_trial(&mut self) {
        if self.phase == Phase::Ejected {
            self.phase = Phase::Trial;
        }
    }

    /// A request picked at `picked` was answered.
    pub(crate) fn succeeded(&mut self, rule: &Passive, now: Duration, picked: Picked) {
        let clears = match rule {
            Passive::Off => return,
            Passive::MaxFails(rule) => {
                let (picked, failed) = (tick(picked.at, rule.tick), tick(self.failed, rule.tick));
                picked.saturating_sub(failed) > rule.fail_timeout
            }
            Passive::Consecutive(_) => picked.trial || self.phase == Phase::Serving,
        };
        if !clears {
            return;
        }
        if self.phase != Phase::Serving {
            self.phase = Phase::Serving;
            self.returned = now;
        }
        self.fails = 0;
    }

    /// A request failed. `may_eject` is asked only if that is to take the backend out.
    pub(crate) fn failed(
        &mut self,
        rule: &Passive,
        now: Duration,
        picked: Picked,
        may_eject: impl FnOnce() -> bool,
    ) {
        match rule {
            Passive::Off => {}
            Passive::MaxFails(rule) if rule.max_fails == 0 => {}
            Passive::MaxFails(rule) => {
                self.fails = self.fails.saturating_add(1);
                self.failed = now;
                let out = self.phase != Phase::Serving;
                if self.fails >= rule.max_fails && (out || may_eject()) {
                    self.eject(now.saturating_add(penalty(rule, now)));
                }
            }
            Passive::Consecutive(rule) => {
                let out = self.phase != Phase::Serving;
                if out && !picked.trial {
                    return; // It was picked before the ejection, which has dealt with it.
                }
                self.fails = self.fails.saturating_add(1);
                if out || (self.fails >= rule.failures && may_eject()) {
                    self.level = 1 + self.level_left(rule, now);
                    self.eject(now.saturating_add(rule.penalty(self.level)));
                }
            }
        }
    }

    fn eject(&mut self, until: Duration) {
        self.phase = Phase::Ejected;
        self.until = until;
    }

    /// The level, less one for every `base` in service. One of a failed trial is not: it never
    /// returned.
    fn level_left(&self, rule: &Consecutive, now: Duration) -> u32 {
        if self.phase != Phase::Serving {
            return self.level;
        }
        let served = now.saturating_sub(self.returned).as_nanos();
        let bases = served / rule.base.as_nanos().max(1);
        self.level
            .saturating_sub(u32::try_from(bases).unwrap_or(u32::MAX))
    }
}

/// When a request was picked, and whether it was the trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked {
    pub(crate) at: Duration,
    pub(crate) trial: bool,
}

impl Consecutive {
    fn penalty(&self, level: u32) -> Duration {
        self.base
            .saturating_mul(level.max(1))
            .min(self.max.max(self.base))
    }
}

/// How long a failure at `now` keeps a backend out.
fn penalty(rule: &MaxFails, now: Duration) -> Duration {
    let until = tick(now, rule.tick)
        .saturating_add(rule.fail_timeout)
        .saturating_add(rule.tick);
    until.saturating_sub(now)
}

/// `time` on a clock that only counts whole ticks.
fn tick(time: Duration, tick: Duration) -> Duration {
    let Some(rest) = time.as_nanos().checked_rem(tick.as_nanos()) else {
        return time;
    };
    let rest = u64::try_from(rest).map_or(Duration::MAX, Duration::from_nanos);
    time.saturating_sub(rest)
}

#[cfg(test)]
mod tests;
