//! What a request holds: its backend, and the cursor over further ones.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use selection::{InFlight, NodeLoad, Outcome, Selector, Tried};

use crate::Backend;
use crate::clock::Clock;
use crate::snapshot::{Entry, Snapshot};

/// A backend picked for one request, which counts as in flight on it until this is dropped.
#[must_use = "dropping it ends the request"]
pub struct Pick {
    lease: InFlight<Leased>,
}

/// The entry that a pick keeps alive, and with it the counter.
struct Leased(Arc<Entry>);

impl AsRef<NodeLoad> for Leased {
    fn as_ref(&self) -> &NodeLoad {
        &self.0.state.load
    }
}

impl Pick {
    pub(crate) fn new(entry: &Arc<Entry>) -> Self {
        Self {
            lease: InFlight::new(Leased(Arc::clone(entry))),
        }
    }

    /// The requests in flight on the backend, this one included.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.entry().state.load.in_flight()
    }

    /// Ends the request and tells the selector what became of it.
    ///
    /// Dropping the pick instead is as good as [`Outcome::Cancelled`]: it tells nothing of the
    /// backend.
    pub fn complete(self, outcome: Outcome) {
        let entry = self.entry();
        let now = entry.clock.now();
        entry.selector.observe(entry.node, &outcome, now);
    }

    fn entry(&self) -> &Entry {
        &self.lease.owner().0
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

/// The backends for one request, each another one, best first: for retries and hedges.
///
/// It owns the snapshot it began on, so it may be held across `.await`; a backend that failed a
/// check, was disabled or was removed meanwhile is passed over all the same.
pub struct Attempts<S: ?Sized, K> {
    snapshot: Arc<Snapshot<S>>,
    key: K,
    clock: Clock,
    /// The index of the tier it is in, and what it has had of it.
    tier: usize,
    tried: Tried,
}

impl<S: Selector + ?Sized, K: AsRef<[u8]>> Attempts<S, K> {
    pub(crate) fn new(snapshot: Arc<Snapshot<S>>, key: K, clock: Clock) -> Self {
        Self {
            snapshot,
            key,
            clock,
            tier: 0,
            tried: Tried::new(),
        }
    }
}

impl<S: Selector + ?Sized, K: AsRef<[u8]>> Iterator for Attempts<S, K> {
    type Item = Pick;

    fn next(&mut self) -> Option<Pick> {
        while let Some(tier) = self.snapshot.tiers.get(self.tier) {
            let found = tier.pick_except(self.key.as_ref(), &self.tried, self.clock);
            let Some(entry) = found else {
                self.tier += 1;
                self.tried = Tried::new();
                continue;
            };
            if !self.tried.insert(entry.node) {
                // A selector that breaks its contract must not keep a request for ever.
                return None;
            }
            if entry.state.is_ready() {
                return Some(Pick::new(entry));
            }
        }
        None
    }
}

impl<S: ?Sized, K: fmt::Debug> fmt::Debug for Attempts<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("key", &self.key)
            .field("tier", &self.tier)
            .field("tried", &self.tried.len())
            .finish_non_exhaustive()
    }
}
