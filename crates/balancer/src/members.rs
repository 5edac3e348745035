//! The members and their health, as they stand under the writer lock. Pure; `now` is passed in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use selection::{Identity, NodeId, ReadySet};

use crate::contain::contain_now;
use crate::health::{Admin, Condition, Health};
use crate::passive::{Passive, Phase};
use crate::state::{Mode, State};
use crate::{Event, InitialHealth, SlowStart};

/// How the members are judged; given once.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) initial: InitialHealth,
    pub(crate) passive: Passive,
    pub(crate) panic_threshold: u8,
    pub(crate) slow_start: Option<SlowStart>,
    /// What is wanted of a member as it joins.
    pub(crate) admin: BTreeMap<Identity, Admin>,
}

/// Where a member sits in the current snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) state: Arc<State>,
    pub(crate) ready: Arc<ReadySet>,
    pub(crate) node: NodeId,
    pub(crate) tier: u8,
    pub(crate) weight: u32,
}

/// The members of the current snapshot.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) policy: Policy,
    seated: BTreeMap<Identity, Member>,
    /// Former members that are still known to someone, a request in flight as a rule: should one
    /// come back, it finds its counter again.
    departed: BTreeMap<Identity, Weak<State>>,
    tally: Tally,
    /// What happens by itself, and when.
    dues: BTreeSet<(Duration, Identity)>,
    panicking: bool,
    stints: u64,
    /// Flips that nobody has been told of yet.
    pub(crate) outbox: VecDeque<Event>,
}

#[derive(Debug)]
pub(crate) struct Member {
    seat: Seat,
    pub(crate) health: Health,
    /// Which membership of this backend it is: a check that began in an earlier one is void.
    pub(crate) stint: u64,
    ramp_from: Option<Duration>,
    /// Since when it is in the condition it is in, and why; no reason if it was so from the start.
    pub(crate) since: Duration,
    pub(crate) reason: Option<Arc<str>>,
    /// What of it is in the tally, and what in the dues.
    tallied: Share,
    due: Option<Duration>,
}

/// Sums over the members.
#[derive(Debug, Default)]
struct Tally {
    /// Members of weight that may be picked, or could be if they were not ejected.
    selectable: usize,
    /// Those of them that are ejected, or on trial.
    ejected: usize,
    tiers: BTreeMap<u8, Weights>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    enabled: u64,
    ready: u64,
}

/// What one member adds to the tally.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    selectable: bool,
    ejected: bool,
    weights: Weights,
}

// ===== impl Members =====

impl Members {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            seated: BTreeMap::new(),
            departed: BTreeMap::new(),
            tally: Tally::default(),
            dues: BTreeSet::new(),
            panicking: false,
            stints: 0,
            outbox: VecDeque::new(),
        }
    }

    /// The state of this backend: as a member, as a former one that is still known, or a new one.
    pub(crate) fn state(&self, identity: &Identity) -> Arc<State> {
        if let Some(member) = self.seated.get(identity) {
            return Arc::clone(&member.seat.state);
        }
        let departed = self.departed.get(identity).and_then(Weak::upgrade);
        departed.unwrap_or_else(|| Arc::new(State::new(identity.clone())))
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Member> {
        self.seated.get(identity)
    }

    pub(crate) fn is_panicking(&self) -> bool {
        self.panicking
    }

    /// Seats these in place of all before them. Health comes along by identity. Returns those
    /// that have left; they are to be closed once nobody finds them any more.
    pub(crate) fn seat(&mut self, seats: Vec<Seat>, now: Duration) -> Vec<Arc<State>> {
        let mut before = std::mem::take(&mut self.seated);
        // Whoever is there at the start does not join a pool that already serves.
        let joins = !before.is_empty();
        for seat in seats {
            let identity = seat.state.identity.clone();
            let member = match before.remove(&identity) {
                Some(member) => Member { seat, ..member },
                None => self.newcomer(seat, joins, now),
            };
            self.seated.insert(identity, member);
        }
        self.tally = Tally::default();
        self.dues.clear();
        for member in self.seated.values_mut() {
            member.tallied = Share::default();
            member.due = None;
            self.tally.count(member);
            member.schedule(&mut self.dues, &self.policy);
        }
        self.panicking = self.tally.is_panic(self.policy.panic_threshold);
        self.post_all();
        self.retire(before)
    }

    /// Changes the health of a member, and all that follows from it. Returns what `change` does,
    /// or `None` if there is no such member.
    pub(crate) fn change<R>(
        &mut self,
        identity: &Identity,
        now: Duration,
        reason: &dyn std::fmt::Display,
        change: impl FnOnce(&mut Health, &Policy, Standing) -> R,
    ) -> Option<R> {
        let standing = Standing {
            ejected: self.tally.ejected,
            selectable: self.tally.selectable,
        };
        let member = self.seated.get_mut(identity)?;
        let before = member.health.condition();
        let result = change(&mut member.health, &self.policy, standing);
        let after = member.health.condition();
        if before != after {
            if member.ramps_from(before) {
                member.ramp_from = self.policy.slow_start.is_some().then_some(now);
            }
            // It may be an error of the user's own, and fall over.
            let reason = contain_now(|| reason.to_string()).unwrap_or_default();
            member.since = now;
            member.reason = Some(reason.as_str().into());
            self.outbox.push_back(Event {
                backend: identity.clone(),
                from: before,
                to: after,
                reason,
            });
        }
        self.tally.count(member);
        member.schedule(&mut self.dues, &self.policy);
        member.post(self.panicking);
        self.judge_panic();
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
            self.change(&identity, now, &"the ejection is over", |health, _, _| {
                health.record.at(now);
            });
        }
    }

    /// The next time at which [`attend`](Self::attend) has something to do.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.dues.first().map(|(due, _)| *due)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Identity, &Member)> {
        self.seated.iter()
    }

    fn newcomer(&mut self, seat: Seat, joins: bool, now: Duration) -> Member {
        self.stints += 1;
        let ramps = joins && self.policy.slow_start.is_some();
        let mut health = Health::new(self.policy.initial);
        if let Some(&admin) = self.policy.admin.get(&seat.state.identity) {
            health.admin = admin;
        }
        Member {
            seat,
            health,
            stint: self.stints,
            ramp_from: ramps.then_some(now),
            since: now,
            reason: None,
            tallied: Share::default(),
            due: None,
        }
    }

    fn retire(&mut self, removed: BTreeMap<Identity, Member>) -> Vec<Arc<State>> {
        let seated = &self.seated;
        self.departed
            .retain(|identity, state| state.strong_count() > 0 && !seated.contains_key(identity));
        let mut left = Vec::with_capacity(removed.len());
        for (identity, member) in removed {
            let state = member.seat.state;
            self.departed.insert(identity, Arc::downgrade(&state));
            left.push(state);
        }
        left
    }

    fn judge_panic(&mut self) {
        let panicking = self.tally.is_panic(self.policy.panic_threshold);
        if panicking != self.panicking {
            self.panicking = panicking;
            self.post_all();
        }
    }

    fn post_all(&self) {
        for member in self.seated.values() {
            member.post(self.panicking);
        }
    }
}

/// What an ejection is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) ejected: usize,
    pub(crate) selectable: usize,
}

// ===== impl Member =====

impl Member {
    /// Writes what it is fit for to where requests read it.
    fn post(&self, panicking: bool) {
        let mode = self.mode(panicking);
        let state = &self.seat.state;
        // The mode last: who sees the bit looks there, and it is what counts.
        self.seat.ready.set(self.seat.node, mode != Mode::Closed);
        state.set_ramp_from(self.ramp_from);
        state.set_unchecked(self.health.condition() == Condition::Disabled);
        state.set_mode(mode);
    }

    /// Sees to it that it is looked at when its ejection or its slow start ends.
    fn schedule(&mut self, dues: &mut BTreeSet<(Duration, Identity)>, policy: &Policy) {
        let window = policy.slow_start.as_ref().map(|slow| slow.window);
        let ramp = self.ramp_from.zip(window);
        let ramp = ramp.map(|(from, window)| from.saturating_add(window));
        let due = [self.health.record.ends(), ramp]
            .into_iter()
            .flatten()
            .min();
        if due == self.due {
            return;
        }
        let identity = &self.seat.state.identity;
        if let Some(before) = self.due {
            dues.remove(&(before, identity.clone()));
        }
        if let Some(due) = due {
            dues.insert((due, identity.clone()));
        }
        self.due = due;
    }

    /// Whether it starts slowly, being ready now and having been `before`.
    fn ramps_from(&self, before: Condition) -> bool {
        self.health.condition() == Condition::Ready
            && match before {
                Condition::Draining => false,
                // Only if it joined a pool that already served.
                Condition::Unchecked => self.ramp_from.is_some(),
                _ => true,
            }
    }

    fn mode(&self, panicking: bool) -> Mode {
        match self.health.condition() {
            Condition::Ready if self.health.record.is_suspect() => Mode::Suspect,
            Condition::Ready => Mode::Open,
            Condition::Disabled | Condition::Draining => Mode::Closed,
            _ if panicking => Mode::Suspect,
            Condition::Trial => Mode::Trial,
            Condition::Ejected | Condition::Down | Condition::Unchecked => Mode::Closed,
        }
    }

    fn share(&self) -> Share {
        let condition = self.health.condition();
        let weight = u64::from(self.seat.weight);
        let is_enabled = !matches!(condition, Condition::Disabled | Condition::Draining);
        let is_well = is_enabled && !matches!(condition, Condition::Down | Condition::Unchecked);
        let is_out = self.health.record.phase() != Phase::Serving;
        Share {
            selectable: weight > 0 && is_well,
            ejected: weight > 0 && is_well && is_out,
            weights: Weights {
                enabled: if is_enabled { weight } else { 0 },
                ready: if is_well && !is_out { weight } else { 0 },
            },
        }
    }
}

// ===== impl Tally =====

impl Tally {
    /// Counts a member as it is now, in place of what was counted of it before.
    fn count(&mut self, member: &mut Member) {
        let (old, new) = (member.tallied, member.share());
        self.selectable += usize::from(new.selectable);
        self.selectable -= usize::from(old.selectable);
        self.ejected += usize::from(new.ejected);
        self.ejected -= usize::from(old.ejected);
        let weights = self.tiers.entry(member.seat.tier).or_default();
        weights.enabled += new.weights.enabled;
        weights.enabled -= old.weights.enabled;
        weights.ready += new.weights.ready;
        weights.ready -= old.weights.ready;
        member.tallied = new;
    }

    /// Whether in every tier less than `percent` of the enabled weight is ready.
    fn is_panic(&self, percent: u8) -> bool {
        let scarce = |weights: &Weights| {
            u128::from(weights.ready) * 100 < u128::from(weights.enabled) * u128::from(percent)
        };
        let mut tiers = self
            .tiers
            .values()
            .filter(|tier| tier.enabled > 0)
            .peekable();
        tiers.peek().is_some() && tiers.all(scarce)
    }
}
