//! The state machine of one backend: what its operator, its checks and its answers say of it.
//!
//! Pure: no clock, no lock, no I/O.

use std::fmt;

use crate::passive::{Phase, Record};

/// How many results in a row turn a backend. 0 acts like 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the two numbers are all there is"
)]
pub struct Thresholds {
    /// Passes in a row that bring it up. The very first pass of a backend that was never checked
    /// is enough by itself.
    pub rise: u32,
    /// Failures in a row that take it down.
    pub fall: u32,
}

impl Default for Thresholds {
    /// Rise 2, fall 3 (HAProxy).
    fn default() -> Self {
        Self { rise: 2, fall: 3 }
    }
}

/// What a backend is taken for until its first check has a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum InitialHealth {
    /// It serves at once.
    #[default]
    Healthy,
    /// It serves once a check has passed.
    Unhealthy,
}

/// What the active checks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Active {
    /// No check has settled it yet: [`InitialHealth`] holds.
    Unknown,
    /// Up.
    Up,
    /// Down.
    Down,
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enabled => "enabled",
            Self::Drain => "drain",
            Self::Disabled => "disabled",
        })
    }
}

impl fmt::Display for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

/// The result of one check. A check that was cancelled has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Passed,
    Failed,
}

/// What its operator wants of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Admin {
    /// It serves as far as its health allows.
    #[default]
    Enabled,
    /// No new picks; what is in flight goes on, and so do the health checks.
    Drain,
    /// No new picks and no health checks: out for maintenance.
    Disabled,
}

/// What a backend is fit for, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Condition {
    /// It may be picked.
    Ready,
    /// It may be picked once, to see whether it is well again.
    Trial,
    /// Requests failed on it: out for a while.
    Ejected,
    /// Its checks failed.
    Down,
    /// It waits for its first check to pass.
    Unchecked,
    /// Its operator lets it run empty.
    Draining,
    /// Its operator took it out.
    Disabled,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Trial => "trial",
            Self::Ejected => "ejected",
            Self::Down => "down",
            Self::Unchecked => "unchecked",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
        })
    }
}

/// Which of the three a change of [`Condition`] came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Cause {
    /// What its operator wants.
    Admin,
    /// Its health checks.
    Active,
    /// What became of requests, or the time that has passed since: [`Passive`](crate::Passive).
    Passive,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admin => "admin",
            Self::Active => "active",
            Self::Passive => "passive",
        })
    }
}

/// The health of one backend: administrative x active x passive.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) admin: Admin,
    initial: InitialHealth,
    active: Active,
    /// Results of checks in a row that speak against `active`.
    contrary: u32,
    pub(crate) record: Record,
}

impl Health {
    pub(crate) fn new(initial: InitialHealth) -> Self {
        Self {
            admin: Admin::Enabled,
            initial,
            active: Active::Unknown,
            contrary: 0,
            record: Record::new(),
        }
    }

    pub(crate) fn active(&self) -> Active {
        self.active
    }

    pub(crate) fn condition(&self) -> Condition {
        match (self.admin, self.active, self.record.phase()) {
            (Admin::Disabled, ..) => Condition::Disabled,
            (Admin::Drain, ..) => Condition::Draining,
            (_, Active::Down, _) => Condition::Down,
            (_, Active::Unknown, _) if self.initial == InitialHealth::Unhealthy => {
                Condition::Unchecked
            }
            (_, _, Phase::Ejected) => Condition::Ejected,
            (_, _, Phase::Trial) => Condition::Trial,
            (_, _, Phase::Serving) => Condition::Ready,
        }
    }

    /// Counts the result of a check. A result that agrees with the state forgets the contrary
    /// ones before it: only results in a row count.
    pub(crate) fn probed(&mut self, probe: Probe, thresholds: Thresholds) {
        let (needed, next) = match (self.active, probe) {
            (Active::Unknown, Probe::Passed) => (1, Active::Up),
            (Active::Unknown | Active::Up, Probe::Failed) => (thresholds.fall, Active::Down),
            (Active::Down, Probe::Passed) => (thresholds.rise, Active::Up),
            (Active::Up, Probe::Passed) | (Active::Down, Probe::Failed) => {
                self.contrary = 0;
                return;
            }
        };
        self.contrary += 1;
        if self.contrary >= needed {
            self.active = next;
            self.contrary = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The readiness after each of the results, `F` or `P`.
    fn run(health: &mut Health, rise: u32, fall: u32, results: &str) -> String {
        let thresholds = Thresholds { rise, fall };
        results
            .chars()
            .map(|result| {
                let probe = if result == 'P' {
                    Probe::Passed
                } else {
                    Probe::Failed
                };
                health.probed(probe, thresholds);
                if health.condition() == Condition::Ready {
                    '+'
                } else {
                    '-'
                }
            })
            .collect()
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let mut health = Health::new(InitialHealth::Healthy);
        assert_eq!(run(&mut health, 2, 3, "FFPFFP"), "++++++");
        assert_eq!(run(&mut health, 2, 3, "FFF"), "++-");
        assert_eq!(run(&mut health, 2, 3, "PFPP"), "---+");
    }

    #[test]
    fn failures_before_the_first_pass_count_in_a_row_too() {
        let mut health = Health::new(InitialHealth::Healthy);
        assert_eq!(run(&mut health, 2, 3, "FFF"), "++-");
    }

    #[test]
    fn unhealthy_until_the_first_pass() {
        let mut health = Health::new(InitialHealth::Unhealthy);
        assert_eq!(health.condition(), Condition::Unchecked);
        assert_eq!(run(&mut health, 5, 3, "FFP"), "--+");
        let mut health = Health::new(InitialHealth::Unhealthy);
        assert_eq!(run(&mut health, 2, 3, "FFFPP"), "----+");
    }

    #[test]
    fn zero_acts_like_one() {
        let mut health = Health::new(InitialHealth::Healthy);
        assert_eq!(run(&mut health, 0, 0, "FPF"), "-+-");
    }

    #[test]
    fn an_operator_overrules_checks() {
        let mut health = Health::new(InitialHealth::Healthy);
        health.admin = Admin::Drain;
        assert_eq!(run(&mut health, 1, 1, "PPFP"), "----");
        health.admin = Admin::Disabled;
        assert_eq!(health.condition(), Condition::Disabled);
        health.admin = Admin::Enabled;
        assert_eq!(health.condition(), Condition::Ready);
    }

    /// Rows from the real pingora: all thresholds from 0 to 3, 60 results each.
    #[test]
    fn as_pingora() {
        let rows = include_str!("../../../test-data/pingora-health/transitions.csv");
        let mut health = Health::new(InitialHealth::Healthy);
        let mut count = 0;
        for row in rows.lines().skip(1) {
            let fields: Vec<u32> = row.split(',').map(|field| field.parse().unwrap()).collect();
            let [rise, fall, step, passed, ready, _] = fields[..] else {
                panic!("{row}");
            };
            if step == 0 {
                health = Health::new(InitialHealth::Healthy);
            }
            let result = if passed == 1 { "P" } else { "F" };
            let expected = if ready == 1 { "+" } else { "-" };
            assert_eq!(run(&mut health, rise, fall, result), expected, "{row}");
            count += 1;
        }
        assert_eq!(count, 960);
    }
}
