//! What a request holds: its backend.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use selection::{FailureKind, InFlight, NodeLoad, Outcome};

use crate::Backend;
use crate::passive::Picked;
use crate::snapshot::{Choice, Entry};
use crate::state::{Mode, mode_of, was_awaited};

/// A backend picked for one request, which counts as in flight on it until this is dropped.
#[must_use = "dropping it ends the request"]
pub struct Pick {
    lease: InFlight<Leased>,
    /// Which of the selectors picked it.
    lane: usize,
    /// Whether the selector waits to be told of its end.
    tracked: bool,
    /// Set unless it was picked in good health, when its success can clear nothing.
    picked: Option<Picked>,
}

/// The entry that a pick keeps alive, and with it the counter.
struct Leased(Arc<Entry>);

/// The backend is full, or closed.
struct Refused;

impl AsRef<NodeLoad> for Leased {
    fn as_ref(&self) -> &NodeLoad {
        &self.0.load
    }
}

impl Drop for Leased {
    /// Runs after the lease that holds it has counted itself out.
    #[inline]
    fn drop(&mut self) {
        if was_awaited(&self.0.load) {
            self.0.state.now_idle();
        }
    }
}

impl Pick {
    /// Counts a request on the backend, unless it is full or may not be picked after all.
    #[inline]
    pub(crate) fn claim(choice: Choice<'_>) -> Option<Self> {
        let lease = InFlight::new(Leased(Arc::clone(choice.entry)));
        let Ok(picked) = choice.entry.admit() else {
            lease.take_back();
            choice.cancel();
            return None;
        };
        Some(Self {
            lease,
            lane: choice.lane,
            tracked: choice.tracked,
            picked,
        })
    }

    /// The requests in flight on the backend, this one included.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.entry().load.in_flight()
    }

    /// Ends the request and tells what became of it: the selector, and the backend's health if
    /// failures are to count.
    ///
    /// Dropping the pick instead is as good as [`Outcome::Cancelled`]: it tells nothing of the
    /// backend.
    pub fn complete(mut self, outcome: Outcome) {
        let picked = self.picked;
        if !matches!(outcome, Outcome::Cancelled) {
            self.picked = None; // From here on there is nothing to give back.
        }
        self.tracked = false; // It is told right here.
        let entry = self.entry();
        if matches!(outcome, Outcome::Failure(_)) {
            entry.state.count_failure();
        }
        let now = entry.pool.board.clock.now();
        if let Some(selector) = entry.selectors.get(self.lane) {
            selector.observe(entry.node, &outcome, now);
        }
        if entry.pool.board.is_passive {
            entry.judge(&outcome, picked);
        }
    }

    fn entry(&self) -> &Entry {
        &self.lease.owner().0
    }
}

impl Drop for Pick {
    #[inline]
    fn drop(&mut self) {
        if self.tracked {
            self.entry().cancel_pick(self.lane);
        }
        if self.picked.is_some_and(|picked| picked.trial) {
            self.entry().give_back_trial();
        }
    }
}

impl Deref for Pick {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        &self.entry().backend
    }
}

impl fmt::Debug for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pick").field(&self.addr).finish()
    }
}

impl Choice<'_> {
    /// It comes to nothing.
    #[inline]
    pub(crate) fn cancel(self) {
        if self.tracked {
            self.entry.cancel_pick(self.lane);
        }
    }
}

impl Entry {
    /// Takes away what a pick that comes to nothing has left with its selector, if that tracks
    /// picks.
    #[cold]
    fn cancel_pick(&self, lane: usize) {
        if let Some(selector) = self.selectors.get(lane) {
            selector.observe(self.node, &Outcome::Cancelled, self.pool.board.clock.now());
        }
    }

    /// Whether a request that has just been counted may stay; and when it came, if its success
    /// can clear something.
    #[inline]
    fn admit(&self) -> Result<Option<Picked>, Refused> {
        if self.is_overfull() {
            return Err(Refused);
        }
        let picked = match mode_of(&self.load) {
            Mode::Open => None,
            mode => Some(self.admit_closely(mode)?),
        };
        if self.has_left() {
            Err(Refused)
        } else {
            Ok(picked)
        }
    }

    /// Whether it has left this balancer, while another that shares its health may still have it.
    #[inline]
    pub(crate) fn has_left(&self) -> bool {
        self.stay.as_ref().is_some_and(|stay| stay.is_over())
    }

    /// Whether it may be picked.
    pub(crate) fn is_open(&self) -> bool {
        mode_of(&self.load).serves(self.pool.is_panicking()) && !self.has_left()
    }

    /// Whether it may be looked at: one on trial is for one request only.
    pub(crate) fn may_be_seen(&self) -> bool {
        let is_on_trial = mode_of(&self.load) == Mode::Trial && !self.pool.is_panicking();
        self.is_open() && !is_on_trial
    }

    /// The same of a backend that is not simply open.
    #[cold]
    fn admit_closely(&self, mode: Mode) -> Result<Picked, Refused> {
        match mode {
            Mode::Open | Mode::Suspect => Ok(self.picked(false)),
            Mode::Sick | Mode::Trial if self.pool.is_panicking() => Ok(self.picked(false)),
            Mode::Trial if self.state.take_trial() => {
                let picked = self.picked(true);
                self.pool.board.trial_taken(&self.state.identity);
                Ok(picked)
            }
            Mode::Trial | Mode::Sick | Mode::Closed => Err(Refused),
        }
    }

    #[cold]
    fn give_back_trial(&self) {
        self.pool.board.trial_given_back(&self.state.identity);
    }

    /// Whether more requests are in flight than it may have, one that is just being picked
    /// included.
    #[inline]
    fn is_overfull(&self) -> bool {
        self.load.in_flight() > self.max_in_flight
    }

    /// Whether one more request would keep its limit.
    pub(crate) fn has_room(&self) -> bool {
        self.load.in_flight() < self.max_in_flight
    }

    fn picked(&self, trial: bool) -> Picked {
        let at = self.pool.board.clock.now();
        Picked { at, trial }
    }

    fn judge(&self, outcome: &Outcome, picked: Option<Picked>) {
        let identity = &self.state.identity;
        let in_good_health = Picked {
            at: Duration::ZERO,
            trial: false,
        };
        match outcome {
            // Nothing to clear, as a rule; whoever was picked before a failure clears nothing
            // under nginx's rules, but ends a row of failures under the others.
            Outcome::Success { .. } if picked.is_none() && self.state.mode() == Mode::Open => {}
            Outcome::Success { .. } => {
                let picked = picked.unwrap_or(in_good_health);
                self.pool.board.succeeded(identity, picked);
            }
            Outcome::Failure(kind) => {
                let picked = picked.unwrap_or(in_good_health);
                self.pool.board.failed(identity, picked, &reason(*kind));
            }
            _ => {}
        }
    }
}

fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Connect => "a request could not connect",
        FailureKind::Timeout => "a request timed out",
        FailureKind::Protocol => "a connection broke",
        FailureKind::Status => "an answer said the server failed",
        _ => "a request failed",
    }
}
