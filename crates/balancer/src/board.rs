//! The writer lock: who may be picked now, and in which order that changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use selection::Identity;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::contain::contain_now;
use crate::health::{Active, Admin, Condition, Health, Probe};
use crate::member::{Member, Seat, Standing};
use crate::members::{Members, News, Own, Policy};
use crate::passive::{Phase, Picked};
use crate::pool::{Pool, PoolId};
use crate::state::State;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::{Cause, Event, Flips, SlowStart, Thresholds, log};

/// The members and their health, behind the writer lock: of one balancer, or of several that share
/// the health of their backends.
///
/// Whatever changes who may be picked (an update, a check, the outcome of a request, an operator)
/// changes it here, under the one lock, and in the bits of the snapshots that are current at that
/// moment. So a flip can never land in a snapshot that is just being replaced and be lost, and it
/// reaches all balancers in one step. A request comes here only if its backend failed, or has of
/// late.
pub(crate) struct Board {
    pub(crate) clock: Clock,
    /// Whether outcomes matter.
    pub(crate) is_passive: bool,
    pub(crate) slow_start: Option<SlowStart>,
    /// Whether it may have several balancers.
    pub(crate) is_shared: bool,
    members: Mutex<Members>,
    /// The time, in nanoseconds, of the next thing that happens by itself, such as the end of an
    /// ejection; `u64::MAX` if there is none. Relaxed: whoever reads it late is late by that much.
    next_due: AtomicU64,
    /// Counts flips and publications: who found nobody looks again if it moved meanwhile.
    turns: AtomicU64,
    /// Counts publications, for those who follow the membership.
    published: watch::Sender<u64>,
    /// Whether somebody is telling the listeners; it tells what comes up meanwhile, too.
    telling: AtomicBool,
}

pub(crate) type Listener = dyn Fn(&Event) + Send + Sync;

/// What the operator, the checks and the requests say of one member.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) admin: Admin,
    pub(crate) active: Active,
    pub(crate) condition: Condition,
    pub(crate) since: Duration,
    pub(crate) why: Option<(Cause, Arc<str>)>,
}

impl From<&Member> for Verdict {
    fn from(member: &Member) -> Self {
        Self {
            admin: member.health.admin,
            active: member.health.active(),
            condition: member.health.condition(),
            since: member.since,
            why: member.why.clone(),
        }
    }
}

impl Board {
    /// Of one balancer.
    pub(crate) fn new(policy: Policy, clock: Clock) -> Self {
        Self {
            clock,
            is_passive: !policy.passive.is_off(),
            slow_start: policy.slow_start.clone(),
            is_shared: false,
            members: Mutex::new(Members::new(policy)),
            next_due: AtomicU64::new(u64::MAX),
            turns: AtomicU64::new(0),
            published: watch::Sender::new(0),
            telling: AtomicBool::new(false),
        }
    }

    /// Of several.
    pub(crate) fn shared(policy: Policy, clock: Clock) -> Self {
        Self {
            is_shared: true,
            ..Self::new(policy, clock)
        }
    }

    /// One more balancer.
    pub(crate) fn join(self: &Arc<Self>, own: Own) -> Arc<Pool> {
        let name = Arc::clone(&own.name);
        let (id, panicking) = self.lock().join(own);
        Arc::new(Pool::new(id, name, Arc::clone(self), panicking))
    }

    /// A balancer is no more.
    pub(crate) fn leave(&self, pool: PoolId) {
        let mut members = self.lock();
        members.leave(pool, self.clock.now()).close();
        self.release(members);
        self.tell_publication();
    }

    /// The rules of health.
    pub(crate) fn policy(&self) -> Policy {
        self.lock().policy.clone()
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
        let mut members = self.lock();
        identities
            .map(|identity| (identity.clone(), members.state(identity)))
            .collect()
    }

    /// Makes `seats` the current ones of this balancer and lets `publish` make their snapshot the
    /// current one, both under the lock.
    pub(crate) fn seat(&self, pool: PoolId, seats: Vec<Seat>, publish: impl FnOnce()) {
        let mut members = self.lock();
        let left = members.seat(pool, seats, self.clock.now());
        publish();
        left.close();
        self.release(members);
        self.tell_publication();
    }

    /// Which members this balancer is to check, and the stint of each. No other will, until it
    /// stops or they leave.
    pub(crate) fn take_checks(&self, pool: PoolId) -> BTreeMap<Identity, u64> {
        self.lock().take_checks(pool)
    }

    /// This balancer checks nothing any more; others may.
    pub(crate) fn leave_checks(&self, pool: PoolId) {
        self.lock().leave_checks(pool);
        self.tell_publication();
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
            members.change(identity, now, (Cause::Active, reason), |health, _, _| {
                health.probed(probe, thresholds);
            });
        }
        self.release(members);
    }

    /// Sets what the operator wants of a member of this balancer; returns its state if it is one.
    pub(crate) fn set_admin(
        &self,
        pool: PoolId,
        identity: &Identity,
        admin: Admin,
    ) -> Option<Arc<State>> {
        let now = self.clock.now();
        let mut members = self.lock();
        let member = members.get(identity).filter(|member| member.is_of(pool));
        let state = member.map(|member| Arc::clone(&member.state));
        if state.is_some() {
            members.change(
                identity,
                now,
                (Cause::Admin, &"operator"),
                |health, _, _| {
                    health.admin = admin;
                },
            );
        }
        self.release(members);
        state
    }

    /// A request on this member was answered.
    pub(crate) fn succeeded(&self, identity: &Identity, picked: Picked) {
        self.judge(
            identity,
            &"a request succeeded",
            |health, policy, now, standing| {
                let rule = standing.rule(&policy.passive);
                health.record.succeeded(&rule, now, picked);
            },
        );
    }

    /// A request on this member failed.
    pub(crate) fn failed(&self, identity: &Identity, picked: Picked, reason: &dyn fmt::Display) {
        self.judge(identity, reason, |health, policy, now, standing| {
            let rule = standing.rule(&policy.passive);
            let may_eject = || standing.may_eject(&rule);
            health.record.failed(&rule, now, picked, may_eject);
        });
    }

    /// A request takes the trial of this member.
    pub(crate) fn trial_taken(&self, identity: &Identity) {
        self.judge(
            identity,
            &"the trial is under way",
            |health, policy, now, standing| {
                if health.record.phase() == Phase::Trial {
                    let rule = standing.rule(&policy.passive);
                    health.record.take_trial(&rule, now);
                }
            },
        );
    }

    /// The request that took the trial of this member was given up.
    pub(crate) fn trial_given_back(&self, identity: &Identity) {
        self.judge(identity, &"the trial was given up", |health, _, _, _| {
            health.record.give_back_trial();
        });
    }

    /// Counts what became of a request on this member.
    fn judge(
        &self,
        identity: &Identity,
        reason: &dyn fmt::Display,
        change: impl FnOnce(&mut Health, &Policy, Duration, Standing<'_>),
    ) {
        let now = self.clock.now();
        let mut members = self.lock();
        let why = (Cause::Passive, reason);
        members.change(identity, now, why, |health, policy, standing| {
            change(health, policy, now, standing);
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

    /// What is known of each member of this balancer, and how often they have flipped.
    pub(crate) fn verdicts(&self, pool: PoolId) -> (BTreeMap<Identity, Verdict>, Flips) {
        let members = self.lock();
        let own = members.iter().filter(|(_, member)| member.is_of(pool));
        let verdicts = own.map(|(identity, member)| (identity.clone(), member.into()));
        let flips = members.party(pool).map(|party| party.flips);
        (verdicts.collect(), flips.unwrap_or_default())
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
            while let Some(news) = self.next_news() {
                tell(news);
            }
            self.telling.store(false, Ordering::SeqCst);
            // One may have come between the last look and the line before: look once more.
            if self.lock().outbox.is_empty() {
                return;
            }
        }
    }

    fn next_news(&self) -> Option<News> {
        self.lock().outbox.pop_front()
    }

    fn tell_publication(&self) {
        self.published.send_modify(|count| *count += 1);
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

fn tell(news: News) {
    let (event, pools, listeners) = match news {
        News::Panic { pool, begins: true } => return log::panic_began(&pool),
        News::Panic { pool, .. } => return log::panic_ended(&pool),
        News::Flip {
            event,
            pools,
            listeners,
        } => (event, pools, listeners),
    };
    log::backend_changed(&pools, &event);
    for listener in listeners {
        if let Err(message) = contain_now(|| listener(&event)) {
            log::listener_panicked(&pools, &event, &message);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
