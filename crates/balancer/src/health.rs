//! The state machine of one backend: what its operator, its checks and its answers say of it.
//!
//! Pure: no clock, no lock, no I/O.

use std::fmt;

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
#[non_exhaustive]
pub enum Active {
    /// No check has settled it yet: [`InitialHealth`] holds.
    Unknown,
    /// Up.
    Up,
    /// Down.
    Down,
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

/// The health of one backend.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    enabled: bool,
    initial: InitialHealth,
    active: Active,
    /// Results in a row that speak against `active`.
    contrary: u32,
}

impl Health {
    pub(crate) fn new(initial: InitialHealth) -> Self {
        Self {
            enabled: true,
            initial,
            active: Active::Unknown,
            contrary: 0,
        }
    }

    /// Whether it may be picked.
    pub(crate) fn is_ready(&self) -> bool {
        self.enabled && self.is_healthy()
    }

    pub(crate) fn active(&self) -> Active {
        self.active
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Counts the result of a check. A result that agrees with the state forgets the contrary
    /// ones before it: only results in a row count.
    pub(crate) fn probed(&mut self, probe: Probe, thresholds: Thresholds) {
        let (against, needed, next) = match (self.active, probe) {
            (Active::Unknown, Probe::Passed) => (true, 1, Active::Up),
            (Active::Unknown | Active::Up, Probe::Failed) => (true, thresholds.fall, Active::Down),
            (Active::Down, Probe::Passed) => (true, thresholds.rise, Active::Up),
            (Active::Up, Probe::Passed) | (Active::Down, Probe::Failed) => (false, 0, self.active),
        };
        self.contrary = if against { self.contrary + 1 } else { 0 };
        if against && self.contrary >= needed {
            self.active = next;
            self.contrary = 0;
        }
    }

    fn is_healthy(&self) -> bool {
        match self.active {
            Active::Unknown => self.initial == InitialHealth::Healthy,
            Active::Up => true,
            Active::Down => false,
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
                if health.is_ready() { '+' } else { '-' }
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
        assert!(!health.is_ready());
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
        health.set_enabled(false);
        assert_eq!(run(&mut health, 1, 1, "PPFP"), "----");
        health.set_enabled(true);
        assert!(health.is_ready());
    }
}
