//! One of several selectors over the same members.

use std::fmt;

use selection::Selector;

use crate::walk::Query;
use crate::{Attempts, Backend, LoadBalancer, Pick};

/// One of the selectors of a [`LoadBalancer`] that has several, as
/// [`LoadBalancer::lane`] returns it.
///
/// All lanes have the same members, the same health and the same counters, and every update and
/// every flip reaches all of them at once: say, a ring for what is cached and least connections
/// for the rest.
pub struct Lane<'a, S: Selector + ?Sized> {
    balancer: &'a LoadBalancer<S>,
    index: usize,
}

impl<'a, S: Selector + ?Sized> Lane<'a, S> {
    pub(crate) fn new(balancer: &'a LoadBalancer<S>, index: usize) -> Self {
        Self { balancer, index }
    }

    /// As [`LoadBalancer::select`].
    pub fn select(&self, key: &[u8]) -> Option<Pick> {
        self.balancer.select_plainly(self.query(key))
    }

    /// As [`LoadBalancer::select_where`].
    pub fn select_where(&self, key: &[u8], accept: impl Fn(&Backend) -> bool) -> Option<Pick> {
        let query = self.query(key);
        self.balancer.select_with_care(query.only_if(&accept))
    }

    /// As [`LoadBalancer::peek`].
    pub fn peek<R>(&self, key: &[u8], look: impl FnOnce(&Backend) -> R) -> Option<R> {
        let snapshot = self.balancer.snapshot.load();
        snapshot.peek(self.query(key)).map(look)
    }

    /// As [`LoadBalancer::attempts`].
    pub fn attempts<K: AsRef<[u8]>>(&self, key: K) -> Attempts<S, K> {
        Attempts::new(self.balancer.snapshot.load_full(), self.index, key)
    }

    fn query<'k>(&self, key: &'k [u8]) -> Query<'k> {
        Query::new(self.index, key)
    }
}

impl<S: Selector + ?Sized> Clone for Lane<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Selector + ?Sized> Copy for Lane<'_, S> {}

impl<S: Selector + ?Sized> fmt::Debug for Lane<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("balancer", &self.balancer)
            .field("index", &self.index)
            .finish()
    }
}
