//! The members of all balancers of a board, and their health, as they stand under the writer lock.
//! Pure; `now` is passed in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use selection::Identity;

use crate::board::Listener;
use crate::contain::contain_now;
use crate::health::{Admin, Health};
use crate::member::{Member, Place, Seat, Standing};
use crate::passive::Passive;
use crate::pool::{Panicking, PoolId, Stay};
use crate::state::{Mode, State};
use crate::sync::{AtomicBool, Ordering};
use crate::tally::{Share, Tally};
use crate::{Cause, Event, Flips, InitialHealth, SlowStart};

/// How the members are judged; given once, for all balancers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) initial: InitialHealth,
    pub(crate) passive: Passive,
    pub(crate) slow_start: Option<SlowStart>,
}

/// The members of the current snapshots.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) policy: Policy,
    parties: BTreeMap<PoolId, Party>,
    seated: BTreeMap<Identity, Member>,
    /// Backends that are no members, but known to someone: former ones with a request in flight,
    /// and those of an update under way. Whoever seats one finds its counter again.
    known: BTreeMap<Identity, Weak<State>>,
    /// What happens by itself, and when.
    dues: BTreeSet<(Duration, Identity)>,
    ids: u64,
    /// What nobody has been told of yet.
    pub(crate) outbox: VecDeque<News>,
}

/// What is to be told, without the lock.
pub(crate) enum News {
    /// A backend has flipped.
    Flip {
        event: Event,
        /// The names of the balancers that have it.
        pools: String,
        listeners: Vec<Arc<Listener>>,
    },
    /// A balancer begins, or ends, to ignore health.
    Panic { pool: Arc<str>, begins: bool },
}

/// One balancer.
pub(crate) struct Party {
    pub(crate) tally: Tally,
    panicking: Panicking,
    pub(crate) own: Own,
    pub(crate) flips: Flips,
    has_served: bool,
}

/// What each balancer has for itself; given once.
pub(crate) struct Own {
    pub(crate) name: Arc<str>,
    pub(crate) panic_threshold: u8,
    /// What is wanted of a member as it joins, unless another balancer knows it.
    pub(crate) admin: BTreeMap<Identity, Admin>,
    pub(crate) listener: Option<Arc<Listener>>,
}

/// Who has left a balancer: to be closed once nobody finds them any more.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Of those that no balancer has any more.
    states: Vec<Arc<State>>,
    stays: Vec<Arc<Stay>>,
}

// ===== impl Members =====

impl Members {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            parties: BTreeMap::new(),
            seated: BTreeMap::new(),
            known: BTreeMap::new(),
            dues: BTreeSet::new(),
            ids: 0,
            outbox: VecDeque::new(),
        }
    }

    /// One more balancer, with its own idea of panic.
    pub(crate) fn join(&mut self, own: Own) -> (PoolId, Panicking) {
        let id = PoolId(self.next_id());
        let panicking = Arc::new(AtomicBool::new(false));
        let party = Party {
            tally: Tally::default(),
            panicking: Arc::clone(&panicking),
            own,
            flips: Flips::default(),
            has_served: false,
        };
        self.parties.insert(id, party);
        (id, panicking)
    }

    /// This balancer is no more.
    pub(crate) fn leave(&mut self, pool: PoolId, now: Duration) -> Left {
        let left = self.seat(pool, Vec::new(), now);
        self.parties.remove(&pool);
        left
    }

    /// The state of this backend: as a member, as one that is known, or a new one.
    pub(crate) fn state(&mut self, identity: &Identity) -> Arc<State> {
        if let Some(member) = self.seated.get(identity) {
            return Arc::clone(&member.state);
        }
        if let Some(state) = self.known.get(identity).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::new(State::new(identity.clone()));
        self.known.insert(identity.clone(), Arc::downgrade(&state));
        state
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Member> {
        self.seated.get(identity)
    }

    pub(crate) fn party(&self, pool: PoolId) -> Option<&Party> {
        self.parties.get(&pool)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Identity, &Member)> {
        self.seated.iter()
    }

    /// Seats these in place of all that this balancer had before. Health comes along by identity.
    pub(crate) fn seat(&mut self, pool: PoolId, seats: Vec<Seat>, now: Duration) -> Left {
        let round = self.next_id();
        // Whoever is there at the start does not join a pool that already serves.
        let joins = self
            .parties
            .get(&pool)
            .is_some_and(|party| party.has_served);
        let serves = !seats.is_empty();
        for seat in seats {
            let place = Place {
                pool,
                round,
                seat,
                tallied: Share::default(),
            };
            self.take_place(place, joins, now);
        }
        let left = self.retire(pool, round);
        if let Some(party) = self.parties.get_mut(&pool) {
            party.tally = Tally::default();
            party.has_served = serves;
        }
        for member in self.seated.values_mut().filter(|member| member.is_of(pool)) {
            member.count(&mut self.parties);
        }
        if !self.judge_panic(pool) {
            self.post_all(pool);
        }
        left
    }

    /// Changes the health of a member, and all that follows from it. Returns what `change` does,
    /// or `None` if there is no such member.
    pub(crate) fn change<R>(
        &mut self,
        identity: &Identity,
        now: Duration,
        (cause, reason): (Cause, &dyn fmt::Display),
        change: impl FnOnce(&mut Health, &Policy, Standing<'_>) -> R,
    ) -> Option<R> {
        let member = self.seated.get_mut(identity)?;
        let before = member.health.condition();
        let standing = Standing {
            places: &member.places,
            parties: &self.parties,
        };
        let result = change(&mut member.health, &self.policy, standing);
        let after = member.health.condition();
        if before != after {
            if member.ramps_from(before) {
                member.ramp_from = self.policy.slow_start.is_some().then_some(now);
            }
            // It may be an error of the user's own, and fall over.
            let reason = contain_now(|| reason.to_string()).unwrap_or_default();
            member.since = now;
            member.why = Some((cause, reason.as_str().into()));
            let event = Event {
                backend: identity.clone(),
                from: before,
                to: after,
                cause,
                reason,
            };
            self.outbox.push_back(standing.news(event));
            for place in &member.places {
                if let Some(party) = self.parties.get_mut(&place.pool) {
                    party.flips.count(cause);
                }
            }
        }
        member.count(&mut self.parties);
        member.schedule(&mut self.dues, &self.policy);
        member.post(&self.parties);
        let pools: Vec<_> = member.places.iter().map(|place| place.pool).collect();
        for pool in pools {
            self.judge_panic(pool);
        }
        Some(result)
    }

    /// Lets happen what is due by `now`: ejections end, and slow starts.
    pub(crate) fn attend(&mut self, now: Duration) {
        while self.next_due().is_some_and(|due| due <= now) {
            let Some((_, identity)) = self.dues.pop_first() else {
                return;
            };
            let window = self.policy.slow_start.as_ref().map(|slow| slow.window);
            if let Some(member) = self.seated.get_mut(&identity) {
                member.due = None;
                let ends = member
                    .ramp_from
                    .zip(window)
                    .map(|(from, window)| from.saturating_add(window));
                if ends.is_some_and(|end| end <= now) {
                    member.ramp_from = None;
                }
            }
            let why = (Cause::Passive, &"the ejection is over" as &dyn fmt::Display);
            self.change(&identity, now, why, |health, _, _| health.record.at(now));
        }
    }

    /// The next time at which [`attend`](Self::attend) has something to do.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// Which of this balancer's members it is to check, and the stint of each: those that no other
    /// balancer checks.
    pub(crate) fn take_checks(&mut self, pool: PoolId) -> BTreeMap<Identity, u64> {
        let members = self.seated.iter_mut().filter(|(_, m)| m.is_of(pool));
        members
            .filter_map(|(identity, member)| {
                let prober = *member.prober.get_or_insert(pool);
                (prober == pool).then(|| (identity.clone(), member.stint))
            })
            .collect()
    }

    /// This balancer checks nothing any more.
    pub(crate) fn leave_checks(&mut self, pool: PoolId) {
        for member in self.seated.values_mut() {
            member.prober.take_if(|prober| *prober == pool);
        }
    }

    fn take_place(&mut self, place: Place, joins: bool, now: Duration) {
        let identity = &place.seat.state.identity;
        if let Some(member) = self.seated.get_mut(identity) {
            member.leave(|before| before.pool == place.pool);
            member.places.push(place);
            return;
        }
        let mut health = Health::new(self.policy.initial);
        let party = self.parties.get(&place.pool);
        if let Some(&admin) = party.and_then(|party| party.own.admin.get(identity)) {
            health.admin = admin;
        }
        let ramps = joins && self.policy.slow_start.is_some();
        let mut member = Member {
            state: Arc::clone(&place.seat.state),
            places: Vec::new(),
            health,
            stint: self.next_id(),
            ramp_from: ramps.then_some(now),
            since: now,
            why: None,
            prober: None,
            due: None,
        };
        member.schedule(&mut self.dues, &self.policy);
        let identity = identity.clone();
        member.places.push(place);
        self.seated.insert(identity, member);
    }

    /// Lets go of those that have a place in this balancer of an earlier round, and of their health
    /// if they have none in any other.
    fn retire(&mut self, pool: PoolId, round: u64) -> Left {
        let mut left = Left::default();
        let (known, dues) = (&mut self.known, &mut self.dues);
        self.seated.retain(|identity, member| {
            let is_over = |place: &Place| place.pool == pool && place.round != round;
            let Some(place) = member.leave(is_over) else {
                return true;
            };
            left.stays.extend(place.seat.stay);
            member.prober.take_if(|prober| *prober == pool);
            if member.places.is_empty() {
                member.set_due(None, dues);
                known.insert(identity.clone(), Arc::downgrade(&member.state));
                left.states.push(Arc::clone(&member.state));
            }
            !member.places.is_empty()
        });
        let seated = &self.seated;
        self.known
            .retain(|identity, state| state.strong_count() > 0 && !seated.contains_key(identity));
        left
    }

    /// Returns whether the balancer begins to ignore health, or ends; all follow then.
    fn judge_panic(&mut self, pool: PoolId) -> bool {
        let Some(party) = self.parties.get(&pool) else {
            return false;
        };
        let begins = party.tally.is_panic(party.own.panic_threshold);
        if begins == party.is_panicking() {
            return false;
        }
        party.panicking.store(begins, Ordering::SeqCst);
        let pool_name = Arc::clone(&party.own.name);
        self.outbox.push_back(News::Panic {
            pool: pool_name,
            begins,
        });
        self.post_all(pool);
        true
    }

    fn post_all(&self, pool: PoolId) {
        for member in self.seated.values().filter(|member| member.is_of(pool)) {
            member.post(&self.parties);
        }
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}

// ===== impl Party =====

impl Party {
    pub(crate) fn is_panicking(&self) -> bool {
        self.panicking.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Party")
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { event, .. } => event.fmt(f),
            Self::Panic { pool, begins } => write!(f, "panic of {pool}: {begins}"),
        }
    }
}

// ===== impl Left =====

impl Left {
    /// A request that finds one of these closed is sure to find the new snapshot.
    pub(crate) fn close(self) {
        for stay in self.stays {
            stay.end();
        }
        for state in self.states {
            state.set_mode(Mode::Closed);
        }
    }
}
