//! The writer lock: who may be picked now, and in which order that changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use selection::Identity;
use tokio::sync::watch;
use tracing::{error, info};

use crate::clock::Clock;
use crate::contain::contain_now;
use crate::health::{Active, Admin, Condition, Probe};
use crate::members::{Members, Policy, Seat};
use crate::passive::{Phase, Picked};
use crate::state::{Mode, State};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::{Event, SlowStart, Thresholds};

/// The members and their health, behind the writer lock.
///
/// Whatever changes who may be picked (an update, a check, the outcome of a request, an operator)
/// changes it here, under the one lock, and in the bits of the snapshot that is current at that
/// moment. So a flip can never land in a snapshot that is just being replaced and be lost. A
/// request comes here only if its backend failed, or has of late.
pub(crate) struct Board {
    pub(crate) clock: Clock,
    /// Whether outcomes matter.
    pub(crate) is_passive: bool,
    pub(crate) slow_start: Option<SlowStart>,
    members: Mutex<Members>,
    /// The time, in nanoseconds, of the next thing that happens by itself, such as the end of an
    /// ejection; `u64::MAX` if there is none. Relaxed: whoever reads it late is late by that much.
    next_due: AtomicU64,
    /// Counts flips and publications: who found nobody looks again if it moved meanwhile.
    turns: AtomicU64,
    /// Counts publications, for those who follow the membership.
    published: watch::Sender<u64>,
    listener: Option<Box<Listener>>,
    /// Whether somebody is telling the listener; it tells what comes up meanwhile, too.
    telling: AtomicBool,
}

pub(crate) type Listener = dyn Fn(&Event) + Send + Sync;

/// What the operator, the checks and the requests say of one member.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) admin: Admin,
    pub(crate) active: Active,
    pub(crate) condition: Condition,
    pub(crate) stint: u64,
    pub(crate) since: Duration,
    pub(crate) reason: Option<Arc<str>>,
}

impl Board {
    pub(crate) fn new(policy: Policy, clock: Clock, listener: Option<Box<Listener>>) -> Self {
        Self {
            clock,
            is_passive: !policy.passive.is_off(),
            slow_start: policy.slow_start.clone(),
            members: Mutex::new(Members::new(policy)),
            next_due: AtomicU64::new(u64::MAX),
            turns: AtomicU64::new(0),
            published: watch::Sender::new(0),
            listener,
            telling: AtomicBool::new(false),
        }
    }

    /// Follows the publications.
    pub(crate) fn publications(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Whether nothing happens by itself: no ejection that ends, no slow start.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.next_due.load(Ordering::Relaxed) == u64::MAX
    }

    /// Whether some member may be in slow start.
    pub(crate) fn is_easing(&self) -> bool {
        self.slow_start.is_some() && !self.is_quiet()
    }

    /// The number of flips and publications so far.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::SeqCst)
    }

    /// The state of each of these backends.
    pub(crate) fn states<'a>(
        &self,
        identities: impl Iterator<Item = &'a Identity>,
    ) -> BTreeMap<Identity, Arc<State>> {
        let members = self.lock();
        identities
            .map(|identity| (identity.clone(), members.state(identity)))
            .collect()
    }

    /// Makes `seats` the current ones and lets `publish` make their snapshot the current one, both
    /// under the lock.
    pub(crate) fn seat(&self, seats: Vec<Seat>, publish: impl FnOnce()) {
        let mut members = self.lock();
        let left = members.seat(seats, self.clock.now());
        publish();
        // A request that finds one of these closed is sure to find the new snapshot.
        for state in left {
            state.set_mode(Mode::Closed);
        }
        self.release(members);
        self.published.send_modify(|count| *count += 1);
    }

    /// Counts the result of a check of the member that had this stint. It is of no account if that
    /// member was removed meanwhile, even if one of its identity has come back.
    pub(crate) fn probed(
        &self,
        identity: &Identity,
        stint: u64,
        (probe, thresholds): (Probe, Thresholds),
        reason: &dyn fmt::Display,
    ) {
        let now = self.clock.now();
        let mut members = self.lock();
        if members
            .get(identity)
            .is_some_and(|member| member.stint == stint)
        {
            members.change(identity, now, reason, |health, _, _| {
                health.probed(probe, thresholds);
            });
        }
        self.release(members);
    }

    /// Sets what the operator wants of a member; returns its state if it is one.
    pub(crate) fn set_admin(&self, identity: &Identity, admin: Admin) -> Option<Arc<State>> {
        let now = self.clock.now();
        let mut members = self.lock();
        let is_member = members.change(identity, now, &"operator", |health, _, _| {
            health.admin = admin;
        });
        let state = is_member.map(|()| members.state(identity));
        self.release(members);
        state
    }

    /// A request on this member was answered.
    pub(crate) fn succeeded(&self, identity: &Identity, picked: Picked) {
        let now = self.clock.now();
        let mut members = self.lock();
        members.change(
            identity,
            now,
            &"a request succeeded",
            |health, policy, _| {
                health.record.succeeded(&policy.passive, now, picked);
            },
        );
        self.release(members);
    }

    /// A request on this member failed.
    pub(crate) fn failed(&self, identity: &Identity, picked: Picked, reason: &dyn fmt::Display) {
        let now = self.clock.now();
        let mut members = self.lock();
        members.change(identity, now, reason, |health, policy, standing| {
            let rule = &policy.passive;
            let may_eject = || rule.may_eject(standing.ejected, standing.selectable);
            health.record.failed(rule, now, picked, may_eject);
        });
        self.release(members);
    }

    /// A request takes the trial of this member.
    pub(crate) fn trial_taken(&self, identity: &Identity) {
        let now = self.clock.now();
        let mut members = self.lock();
        members.change(
            identity,
            now,
            &"the trial is under way",
            |health, policy, _| {
                if health.record.phase() == Phase::Trial {
                    health.record.take_trial(&policy.passive, now);
                }
            },
        );
        self.release(members);
    }

    /// The request that took the trial of this member was given up.
    pub(crate) fn trial_given_back(&self, identity: &Identity) {
        let now = self.clock.now();
        let mut members = self.lock();
        members.change(identity, now, &"the trial was given up", |health, _, _| {
            health.record.give_back_trial();
        });
        self.release(members);
    }

    /// Lets happen what is due. Does not wait for the lock: the next request will do it.
    pub(crate) fn attend(&self) {
        let due = self.next_due.load(Ordering::Relaxed);
        if due == u64::MAX {
            return;
        }
        let now = self.clock.now();
        if nanos(now) < due {
            return;
        }
        let Ok(mut members) = self.members.try_lock() else {
            return;
        };
        members.attend(now);
        self.release(members);
    }

    /// What is known of each member.
    pub(crate) fn verdicts(&self) -> (BTreeMap<Identity, Verdict>, bool) {
        let members = self.lock();
        let verdicts = members.iter().map(|(identity, member)| {
            let verdict = Verdict {
                admin: member.health.admin,
                active: member.health.active(),
                condition: member.health.condition(),
                stint: member.stint,
                since: member.since,
                reason: member.reason.clone(),
            };
            (identity.clone(), verdict)
        });
        (verdicts.collect(), members.is_panicking())
    }

    /// No code of the user's runs under the lock, so that nothing is expected to panic there.
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a change: sets what requests look at first, lets go of the lock, and tells.
    fn release(&self, members: MutexGuard<'_, Members>) {
        let due = members.next_due().map_or(u64::MAX, nanos);
        self.next_due.store(due, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::SeqCst);
        let is_news = !members.outbox.is_empty();
        drop(members);
        if is_news {
            self.tell();
        }
    }

    /// Tells of the flips in their order, without the lock, so that the listener may call back in.
    /// One at a time: what comes up while another tells is told by that one.
    fn tell(&self) {
        while !self.telling.swap(true, Ordering::SeqCst) {
            while let Some(event) = self.next_event() {
                info!(
                    backend = %event.backend,
                    from = %event.from,
                    to = %event.to,
                    reason = %event.reason,
                    "backend changed",
                );
                if let Some(listener) = &self.listener
                    && let Err(message) = contain_now(|| listener(&event))
                {
                    error!(%message, "an event listener panicked");
                }
            }
            self.telling.store(false, Ordering::SeqCst);
            // One may have come between the last look and the line before: look once more.
            if self.lock().outbox.is_empty() {
                return;
            }
        }
    }

    fn next_event(&self) -> Option<Event> {
        self.lock().outbox.pop_front()
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
