//! Further backends for one request.

use std::fmt;
use std::sync::Arc;

use selection::Selector;

use crate::Pick;
use crate::snapshot::Snapshot;
use crate::walk::{Query, Walk};

/// The backends for one request, each another one, best first: for retries and hedges.
///
/// It owns the snapshot it began on, so it may be held across `.await`; a backend that failed a
/// check, was disabled or was removed meanwhile is passed over all the same.
pub struct Attempts<S: ?Sized, K> {
    snapshot: Arc<Snapshot<S>>,
    lane: usize,
    key: K,
    walk: Walk,
}

impl<S: Selector + ?Sized, K: AsRef<[u8]>> Attempts<S, K> {
    pub(crate) fn new(snapshot: Arc<Snapshot<S>>, lane: usize, key: K) -> Self {
        Self {
            snapshot,
            lane,
            key,
            walk: Walk::default(),
        }
    }

    /// From the start again, on this snapshot.
    #[cfg(feature = "tower")]
    pub(crate) fn restart(&mut self, snapshot: Arc<Snapshot<S>>) {
        self.snapshot = snapshot;
        self.walk = Walk::default();
    }

    /// As [`LoadBalancer::select`](crate::LoadBalancer::select), on the snapshot of now: for a
    /// first attempt that found nobody while something flipped.
    #[cfg(feature = "tower")]
    pub(crate) fn select(&self, balancer: &crate::LoadBalancer<S>) -> Option<Pick> {
        balancer.select_with_care(Query::new(self.lane, self.key.as_ref()))
    }
}

impl<S: Selector + ?Sized, K: AsRef<[u8]>> Iterator for Attempts<S, K> {
    type Item = Pick;

    fn next(&mut self) -> Option<Pick> {
        let query = Query::new(self.lane, self.key.as_ref());
        self.walk.next(&self.snapshot, query)
    }
}

impl<S: ?Sized, K: fmt::Debug> fmt::Debug for Attempts<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("key", &self.key)
            .field("tried", &self.walk.tried())
            .finish_non_exhaustive()
    }
}
