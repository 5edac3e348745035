//! One backend, as it stands under the writer lock. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selection::{Identity, NodeId, ReadySet};

use crate::health::{Condition, Health};
use crate::members::{News, Own, Party, Policy};
use crate::passive::{Fails, Passive};
use crate::pool::{PoolId, Stay};
use crate::state::{Mode, State};
use crate::tally::Share;
use crate::{Cause, Event};

/// Where a backend sits in the current snapshot of a balancer.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) state: Arc<State>,
    pub(crate) ready: Arc<ReadySet>,
    pub(crate) node: NodeId,
    pub(crate) tier: u8,
    pub(crate) weight: u32,
    /// What it says of failures for itself.
    pub(crate) fails: Fails,
    pub(crate) stay: Option<Arc<Stay>>,
}

/// A backend that at least one balancer has.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) state: Arc<State>,
    /// One for each balancer that has it.
    pub(crate) places: Vec<Place>,
    pub(crate) health: Health,
    /// Which membership of this backend it is: a check that began in an earlier one is void.
    pub(crate) stint: u64,
    pub(crate) ramp_from: Option<Duration>,
    /// Since when it is in the condition it is in, and what made it so; nothing if it was so from
    /// the start.
    pub(crate) since: Duration,
    pub(crate) why: Option<(Cause, Arc<str>)>,
    /// The balancer that checks it, so that no two do.
    pub(crate) prober: Option<PoolId>,
    /// What of it is in the dues.
    pub(crate) due: Option<Duration>,
}

/// A seat, and whose it is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) pool: PoolId,
    /// Which publication of that balancer it is of.
    pub(crate) round: u64,
    pub(crate) seat: Seat,
    /// What of it is in that balancer's tally.
    pub(crate) tallied: Share,
}

/// What an ejection is judged by: the balancers that have the backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) places: &'a [Place],
    pub(crate) parties: &'a BTreeMap<PoolId, Party>,
}

// ===== impl Member =====

impl Member {
    pub(crate) fn is_of(&self, pool: PoolId) -> bool {
        self.places.iter().any(|place| place.pool == pool)
    }

    /// Takes away its place that is so, if there is one.
    pub(crate) fn leave(&mut self, is_it: impl Fn(&Place) -> bool) -> Option<Place> {
        let index = self.places.iter().position(is_it)?;
        Some(self.places.swap_remove(index))
    }

    /// Counts it as it is now in the tallies of the balancers that have it.
    pub(crate) fn count(&mut self, parties: &mut BTreeMap<PoolId, Party>) {
        for place in &mut self.places {
            let share = Share::of(&self.health, place.seat.weight);
            if let Some(party) = parties.get_mut(&place.pool) {
                party.tally.count(place.seat.tier, place.tallied, share);
            }
            place.tallied = share;
        }
    }

    /// Writes what it is fit for to where requests read it.
    pub(crate) fn post(&self, parties: &BTreeMap<PoolId, Party>) {
        let mode = self.mode();
        for Place { pool, seat, .. } in &self.places {
            let ignores_health = parties.get(pool).is_some_and(Party::is_panicking);
            seat.ready.set(seat.node, mode.serves(ignores_health));
        }
        self.state.set_ramp_from(self.ramp_from);
        let is_unchecked = self.health.condition() == Condition::Disabled;
        self.state.set_unchecked(is_unchecked);
        // The mode last: who sees the bit looks there, and it is what counts.
        self.state.set_mode(mode);
    }

    /// Sees to it that it is looked at when its ejection or its slow start ends.
    pub(crate) fn schedule(&mut self, dues: &mut BTreeSet<(Duration, Identity)>, policy: &Policy) {
        let window = policy.slow_start.as_ref().map(|slow| slow.window);
        let ramp = self.ramp_from.zip(window);
        let ramp = ramp.map(|(from, window)| from.saturating_add(window));
        let due = [self.health.record.ends(), ramp]
            .into_iter()
            .flatten()
            .min();
        self.set_due(due, dues);
    }

    pub(crate) fn set_due(
        &mut self,
        due: Option<Duration>,
        dues: &mut BTreeSet<(Duration, Identity)>,
    ) {
        if due == self.due {
            return;
        }
        let identity = &self.state.identity;
        if let Some(before) = self.due {
            dues.remove(&(before, identity.clone()));
        }
        if let Some(due) = due {
            dues.insert((due, identity.clone()));
        }
        self.due = due;
    }

    /// Whether it starts slowly, being ready now and having been `before`.
    pub(crate) fn ramps_from(&self, before: Condition) -> bool {
        self.health.condition() == Condition::Ready
            && match before {
                Condition::Draining => false,
                // Only if it joined a pool that already served.
                Condition::Unchecked => self.ramp_from.is_some(),
                _ => true,
            }
    }

    fn mode(&self) -> Mode {
        match self.health.condition() {
            Condition::Ready if self.health.record.is_suspect() => Mode::Suspect,
            Condition::Ready => Mode::Open,
            Condition::Disabled | Condition::Draining => Mode::Closed,
            Condition::Trial => Mode::Trial,
            Condition::Ejected | Condition::Down | Condition::Unchecked => Mode::Sick,
        }
    }
}

// ===== impl Standing =====

impl Standing<'_> {
    fn owns(&self) -> impl Iterator<Item = &Own> {
        let parties = self
            .places
            .iter()
            .filter_map(|place| self.parties.get(&place.pool));
        parties.map(|party| &party.own)
    }

    /// That the backend has flipped, for those who have it.
    pub(crate) fn news(&self, event: Event) -> News {
        let names: Vec<_> = self.owns().map(|own| &*own.name).collect();
        News::Flip {
            event,
            pools: names.join(", "),
            listeners: self.owns().filter_map(|own| own.listener.clone()).collect(),
        }
    }

    /// The rule for this backend: its own, if it has one, as the balancer says that was
    /// updated last.
    pub(crate) fn rule(&self, rule: &Passive) -> Passive {
        let own = self.places.last().map(|place| place.seat.fails);
        rule.with(own.unwrap_or_default())
    }

    /// Whether one more ejection keeps the limit in every balancer that has the backend.
    pub(crate) fn may_eject(&self, rule: &Passive) -> bool {
        self.places.iter().all(|place| {
            let party = self.parties.get(&place.pool);
            party.is_none_or(|Party { tally, .. }| rule.may_eject(tally.ejected, tally.selectable))
        })
    }
}
