//! A worker's own way to the balancer.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use selection::Selector;

use crate::snapshot::Snapshot;
use crate::walk::Query;
use crate::{Backend, LoadBalancer, Pick};

/// A handle that keeps the snapshot at hand, for the cheapest picks. One for each worker thread or
/// connection.
///
/// It sees every flip of health at once and every update at its next pick, as the balancer itself
/// does. While it is not used it keeps the snapshot of its last pick in memory.
pub struct Handle<S: Selector + ?Sized> {
    balancer: Arc<LoadBalancer<S>>,
    cache: Cache<Source<S>, Arc<Snapshot<S>>>,
    lane: usize,
}

struct Source<S: Selector + ?Sized>(Arc<LoadBalancer<S>>);

impl<S: Selector + ?Sized> Deref for Source<S> {
    type Target = ArcSwap<Snapshot<S>>;

    fn deref(&self) -> &ArcSwap<Snapshot<S>> {
        &self.0.snapshot
    }
}

impl<S: Selector + ?Sized> Clone for Source<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Selector + ?Sized> Handle<S> {
    pub(crate) fn new(balancer: Arc<LoadBalancer<S>>) -> Self {
        Self {
            cache: Cache::new(Source(Arc::clone(&balancer))),
            balancer,
            lane: 0,
        }
    }

    /// The same for another [lane](LoadBalancer::lane); `None` if there is none of this index.
    #[must_use]
    pub fn lane(self, index: usize) -> Option<Self> {
        let exists = self.balancer.lane(index).is_some();
        exists.then_some(Self {
            lane: index,
            ..self
        })
    }

    /// As [`LoadBalancer::select`].
    pub fn select(&mut self, key: &[u8]) -> Option<Pick> {
        let query = Query::new(self.lane, key);
        let found = self.cache.load().select(query);
        found.or_else(|| self.balancer.select_with_care(query))
    }

    /// As [`LoadBalancer::peek`]: the backend itself, borrowed from the snapshot.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Backend> {
        self.cache.load().peek(Query::new(self.lane, key))
    }

    /// The balancer behind it.
    #[must_use]
    pub fn balancer(&self) -> &Arc<LoadBalancer<S>> {
        &self.balancer
    }
}

impl<S: Selector + ?Sized> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self {
            balancer: Arc::clone(&self.balancer),
            cache: self.cache.clone(),
            lane: self.lane,
        }
    }
}

impl<S: Selector + ?Sized> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.balancer).finish()
    }
}
