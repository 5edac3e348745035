//! What the steps of an act showed besides answers, and which promises of it are broken. Pure.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// What was seen of the balancer while the pool changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// From the first failure on, until requests alone had put the failing backend aside.
    pub(crate) ejected_after: Duration,
    /// Requests that the failing backend answered with 500: those that ejected it, and the trials.
    pub(crate) failed_at_backend: u64,
    /// Health checks that the backend answered with 503 while it started, and the requests that
    /// it got meanwhile.
    pub(crate) starting: (u64, u64),
    pub(crate) slow_starts: Vec<SlowStart>,
    /// What the balancer said of the broken list.
    pub(crate) refused_list: String,
    /// Members before and after that.
    pub(crate) members: (usize, usize),
    /// Requests in flight on the draining backend, as they fell.
    pub(crate) draining: Vec<u32>,
    /// Requests that reached it after it began to drain.
    pub(crate) late: u64,
}

/// One slow start, watched in parts of equal time.
#[derive(Clone, Debug)]
pub(crate) struct SlowStart {
    pub(crate) backend: usize,
    /// The phase that follows it.
    pub(crate) phase: usize,
    pub(crate) window: Duration,
    pub(crate) parts: Vec<Part>,
}

/// A part of a slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Answers of the backend, and of all.
    pub(crate) answers: (u64, u64),
    /// When it ended, from the beginning of the slow start.
    pub(crate) end: Duration,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A backend that says it is not ready was asked all the same.
    AskedWhileStarting { requests: u64 },
    /// A list with a mistake in it changed the members.
    MembersLost { before: usize, after: usize },
    /// A backend got new requests while it drained.
    AskedWhileDraining { requests: u64, in_flight: u32 },
    /// A backend was not eased in.
    Rushed {
        backend: usize,
        answers: u64,
        most: u64,
    },
}

impl Shown {
    /// The promises that are broken. `shares` are those of the backends in the settled phases:
    /// answers of the backend, and of all.
    pub(crate) fn broken(&self, shares: impl Fn(usize, usize) -> (u64, u64)) -> Vec<Broken> {
        let mut broken = Vec::new();
        if self.starting.1 > 0 {
            let requests = self.starting.1;
            broken.push(Broken::AskedWhileStarting { requests });
        }
        let (before, after) = self.members;
        if before != after {
            broken.push(Broken::MembersLost { before, after });
        }
        let in_flight = self.draining.first().copied().unwrap_or_default();
        if self.late > u64::from(in_flight) {
            let requests = self.late;
            broken.push(Broken::AskedWhileDraining {
                requests,
                in_flight,
            });
        }
        let rushed = self.slow_starts.iter().filter_map(|it| {
            let (own, all) = shares(it.backend, it.phase);
            it.is_rushed(own as f64 / all.max(1) as f64)
        });
        broken.extend(rushed);
        broken
    }

    pub(crate) fn to_json(&self) -> Value {
        let slow_starts = self.slow_starts.iter().map(|it| {
            json!({
                "backend": it.backend,
                "window_ms": it.window.as_secs_f64() * 1e3,
                "percent": it.percents().collect::<Vec<_>>(),
            })
        });
        json!({
            "ejected_after_ms": self.ejected_after.as_secs_f64() * 1e3,
            "failed_at_backend": self.failed_at_backend,
            "checks_while_starting": self.starting.0,
            "requests_while_starting": self.starting.1,
            "slow_starts": slow_starts.collect::<Vec<_>>(),
            "refused_list": self.refused_list,
            "draining": self.draining,
            "late": self.late,
        })
    }
}

impl SlowStart {
    /// The share of all answers that came from the backend, in percent, part by part.
    pub(crate) fn percents(&self) -> impl Iterator<Item = f64> {
        let percent =
            |&Part { answers, .. }: &Part| 100.0 * answers.0 as f64 / answers.1.max(1) as f64;
        self.parts.iter().map(percent)
    }

    /// Whether the first part was too large, `share` being what the backend gets in the end.
    ///
    /// If that part ended in the first half of the window, then the backend was to get at most
    /// (10 + 55) / 2 percent of its share on average, but 70 and six standard deviations are
    /// allowed for: keys differ. A machine that looked too late has seen nothing.
    fn is_rushed(&self, share: f64) -> Option<Broken> {
        let first = self.parts.first()?;
        if first.end > self.window / 2 {
            return None;
        }
        let most = 0.7 * share * first.answers.1 as f64;
        let most = most + 6.0 * most.max(1.0).sqrt();
        (first.answers.0 as f64 > most).then_some(Broken::Rushed {
            backend: self.backend,
            answers: first.answers.0,
            most: Duration::from_secs_f64(most).as_secs(),
        })
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AskedWhileStarting { requests } => {
                write!(f, "{requests} requests to a backend that was not ready")
            }
            Self::MembersLost { before, after } => {
                write!(f, "a broken list made {after} members of {before}")
            }
            Self::AskedWhileDraining {
                requests,
                in_flight,
            } => write!(
                f,
                "{requests} requests to a draining backend, {in_flight} were in flight"
            ),
            Self::Rushed {
                backend,
                answers,
                most,
            } => write!(
                f,
                "#{backend} answered {answers} in the first part of its slow start, not {most}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(400);

    fn slow_start(answers: u64, end: Duration) -> SlowStart {
        SlowStart {
            backend: 1,
            phase: 2,
            window: WINDOW,
            parts: vec![Part {
                answers: (answers, 1000),
                end,
            }],
        }
    }

    #[test]
    fn a_backend_that_is_not_eased_in_is_caught() {
        // A share of a quarter: 70 percent of 250 and 6 * 13.2 are 254.
        for (answers, end, rushed) in [
            (60, WINDOW / 4, false),
            (254, WINDOW / 4, false),
            (255, WINDOW / 4, true),
            (255, WINDOW, false),
        ] {
            let shown = Shown {
                slow_starts: vec![slow_start(answers, end)],
                ..Shown::default()
            };
            let expected = Broken::Rushed {
                backend: 1,
                answers,
                most: 254,
            };
            let broken = shown.broken(|backend, phase| {
                assert_eq!((backend, phase), (1, 2));
                (250, 1000)
            });
            assert_eq!(broken, if rushed { vec![expected] } else { vec![] });
        }
    }

    #[test]
    fn requests_where_none_may_go_are_caught() {
        let shown = Shown {
            starting: (3, 1),
            members: (4, 3),
            draining: vec![5, 2, 0],
            late: 6,
            ..Shown::default()
        };
        let expected = [
            Broken::AskedWhileStarting { requests: 1 },
            Broken::MembersLost {
                before: 4,
                after: 3,
            },
            Broken::AskedWhileDraining {
                requests: 6,
                in_flight: 5,
            },
        ];
        assert_eq!(shown.broken(|_, _| (1, 1)), expected);
        assert_eq!(
            Shown { late: 5, ..shown }.broken(|_, _| (1, 1)),
            expected[..2]
        );
    }
}
