//! Who may be picked now: the state of every member, and the writer lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use selection::{Identity, NodeId, NodeLoad, ReadySet};
use tokio::sync::watch;
use tracing::info;

use crate::health::{Active, Health, Probe};
use crate::{InitialHealth, Thresholds};

/// The running state of one member that is read without the lock. It moves from snapshot to
/// snapshot for as long as the backend stays a member.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) identity: Identity,
    pub(crate) load: Arc<NodeLoad>,
    /// A copy of the member's bit, for those who hold an older snapshot. Relaxed: see `ReadySet`.
    ready: AtomicBool,
}

impl State {
    /// Whether it may be picked, by the newest that is known; never again once it was removed.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// Where a member sits in the current snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) state: Arc<State>,
    pub(crate) ready: Arc<ReadySet>,
    pub(crate) node: NodeId,
}

/// What the operator and the checks say of one member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub(crate) active: Active,
    pub(crate) enabled: bool,
    pub(crate) ready: bool,
}

/// The members and their health, behind the writer lock.
///
/// Whatever changes who may be picked (an update, a check, an operator) changes it here, under the
/// one lock, and in the bits of the snapshot that is current at that moment. So a flip can never
/// land in a snapshot that is just being replaced and be lost. Requests do not come here.
#[derive(Debug)]
pub(crate) struct Board {
    members: Mutex<Members>,
    initial: InitialHealth,
    /// Counts publications, for those who follow the membership.
    published: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Members {
    seated: BTreeMap<Identity, Member>,
    /// The counters of former members that still have requests in flight: should one come back,
    /// it finds its counter again.
    departed: BTreeMap<Identity, Weak<NodeLoad>>,
}

#[derive(Debug)]
struct Member {
    seat: Seat,
    health: Health,
}

impl Board {
    pub(crate) fn new(initial: InitialHealth) -> Self {
        Self {
            members: Mutex::default(),
            initial,
            published: watch::Sender::new(0),
        }
    }

    /// Follows the publications.
    pub(crate) fn publications(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The state of each of these backends: its own if it is a member, else a new one, which takes
    /// up the counter of a former member of that identity.
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
    /// under the lock. Health comes along by identity; what is not seated any more is dropped.
    pub(crate) fn seat(&self, seats: Vec<Seat>, publish: impl FnOnce()) {
        let mut members = self.lock();
        let mut before = std::mem::take(&mut members.seated);
        for seat in seats {
            let identity = seat.state.identity.clone();
            let health = match before.remove(&identity) {
                Some(member) => member.health,
                None => Health::new(self.initial),
            };
            let member = Member { seat, health };
            member.post();
            members.seated.insert(identity, member);
        }
        members.retire(before);
        publish();
        drop(members);
        self.published.send_modify(|count| *count += 1);
    }

    /// Counts the result of a check of the member whose state is `state`. The result is of no
    /// account if that member was removed meanwhile, even if one of its identity has come back.
    pub(crate) fn probed(
        &self,
        state: &Arc<State>,
        probe: Probe,
        thresholds: Thresholds,
        reason: &dyn fmt::Display,
    ) {
        let mut members = self.lock();
        let Some(member) = members.seated.get_mut(&state.identity) else {
            return;
        };
        if !Arc::ptr_eq(&member.seat.state, state) {
            return;
        }
        let before = member.health.active();
        member.health.probed(probe, thresholds);
        let after = member.health.active();
        member.post();
        if before != after {
            info!(backend = %state.identity, from = %before, to = %after, %reason, "health changed");
        }
    }

    /// Lets a member serve, or not, whatever its health; returns whether it is a member.
    pub(crate) fn set_enabled(&self, identity: &Identity, enabled: bool) -> bool {
        let mut members = self.lock();
        let Some(member) = members.seated.get_mut(identity) else {
            return false;
        };
        if member.health.is_enabled() != enabled {
            member.health.set_enabled(enabled);
            member.post();
            info!(backend = %identity, enabled, "operator changed a backend");
        }
        true
    }

    /// What is known of each member, in the order of the identities.
    pub(crate) fn verdicts(&self) -> BTreeMap<Identity, Verdict> {
        let members = self.lock();
        let verdict = |member: &Member| Verdict {
            active: member.health.active(),
            enabled: member.health.is_enabled(),
            ready: member.health.is_ready(),
        };
        members
            .seated
            .iter()
            .map(|(identity, member)| (identity.clone(), verdict(member)))
            .collect()
    }

    /// A panic under the lock can only come from a logger; the members are whole between any two
    /// statements, so what it left is good.
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Writes its readiness to where requests read it.
    fn post(&self) {
        let ready = self.health.is_ready();
        self.seat.ready.set(self.seat.node, ready);
        self.seat.state.ready.store(ready, Ordering::Relaxed);
    }
}

impl Members {
    fn state(&self, identity: &Identity) -> Arc<State> {
        if let Some(member) = self.seated.get(identity) {
            return Arc::clone(&member.seat.state);
        }
        let departed = self.departed.get(identity).and_then(Weak::upgrade);
        Arc::new(State {
            identity: identity.clone(),
            load: departed.unwrap_or_default(),
            ready: AtomicBool::new(false),
        })
    }

    fn retire(&mut self, removed: BTreeMap<Identity, Member>) {
        let seated = &self.seated;
        self.departed
            .retain(|identity, load| load.strong_count() > 0 && !seated.contains_key(identity));
        for (identity, member) in removed {
            let state = &member.seat.state;
            state.ready.store(false, Ordering::Relaxed);
            self.departed.insert(identity, Arc::downgrade(&state.load));
        }
    }
}
