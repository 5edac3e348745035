//! The way to a backend when there is more to heed than readiness: what was tried before, limits,
//! slow start, the caller's own condition.

use std::sync::Arc;

use selection::{Eligible, NodeId, Selector, Tried};

use crate::snapshot::{Choice, Entry, Snapshot, TierSnapshot};
use crate::{Backend, Pick};

/// What a request asks for.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    /// Which of the selectors is to decide.
    pub(crate) lane: usize,
    pub(crate) key: &'a [u8],
    accept: Accept<'a>,
}

/// A condition of the caller's own.
type Accept<'a> = Option<&'a dyn Fn(&Backend) -> bool>;

impl<'a> Query<'a> {
    pub(crate) fn new(lane: usize, key: &'a [u8]) -> Self {
        Self {
            lane,
            key,
            accept: None,
        }
    }

    pub(crate) fn only_if(self, accept: &'a dyn Fn(&Backend) -> bool) -> Self {
        Self {
            accept: Some(accept),
            ..self
        }
    }
}

/// Where a request is on its way: the index of the tier, and what it has tried of it.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    tier: usize,
    tried: Tried,
}

impl Walk {
    /// A request on the next backend, which is none of those before.
    pub(crate) fn next<S: Selector + ?Sized>(
        &mut self,
        snapshot: &Snapshot<S>,
        query: Query<'_>,
    ) -> Option<Pick> {
        self.find_map(snapshot, query, Pick::claim)
    }

    /// The next backend, without a request on it: one on trial is not for looking at.
    pub(crate) fn peek<'s, S: Selector + ?Sized>(
        &mut self,
        snapshot: &'s Snapshot<S>,
        query: Query<'_>,
    ) -> Option<&'s Backend> {
        self.find_map(snapshot, query, |choice| {
            choice.cancel();
            let entry = choice.entry;
            entry.may_be_seen().then_some(&entry.backend)
        })
    }

    pub(crate) fn tried(&self) -> usize {
        self.tried.len()
    }

    fn find_map<'s, S: Selector + ?Sized, R>(
        &mut self,
        snapshot: &'s Snapshot<S>,
        query: Query<'_>,
        take: impl Fn(Choice<'s>) -> Option<R>,
    ) -> Option<R> {
        snapshot.pool.board.attend();
        while let Some(tier) = snapshot.tiers.get(self.tier) {
            let Some(choice) = snapshot.find(tier, query, &self.tried) else {
                self.tier += 1;
                self.tried = Tried::new();
                continue;
            };
            if !self.tried.insert(choice.entry.node) {
                // A selector that breaks its contract must not keep a request for ever.
                return None;
            }
            if let Some(taken) = take(choice) {
                return Some(taken);
            }
        }
        None
    }
}

impl<S: Selector + ?Sized> Snapshot<S> {
    /// One pick of a tier's selector under all conditions. Slow start is the last of them: it only
    /// ever passes a request on, and turns none away.
    fn find<'s>(
        &self,
        tier: &'s TierSnapshot<S>,
        query: Query<'_>,
        tried: &Tried,
    ) -> Option<Choice<'s>> {
        let Query { key, accept, .. } = query;
        let now = || self.pool.board.clock.now();
        let eligible = Eligible::new(&tier.ready).except(tried).at(&now);
        let entry = |node: NodeId| tier.entries.get(node.index());
        let fits = |entry: &Arc<Entry>| {
            entry.has_room() && accept.is_none_or(|accept| accept(&entry.backend))
        };
        if self.pool.board.is_easing() {
            let eased =
                |node| entry(node).is_some_and(|entry| fits(entry) && self.admits(entry, key));
            let found = tier.pick(query, &eligible.only_if(&eased));
            if found.is_some() {
                return found;
            }
        }
        if !tier.is_limited && accept.is_none() {
            return tier.pick(query, &eligible);
        }
        let fitting = |node| entry(node).is_some_and(fits);
        tier.pick(query, &eligible.only_if(&fitting))
    }

    fn admits(&self, entry: &Entry, key: &[u8]) -> bool {
        let (Some(from), Some(slow_start)) = (entry.state.ramp_from(), &self.pool.board.slow_start)
        else {
            return true;
        };
        slow_start.admits(from, self.pool.board.clock.now(), entry.state.draw(key))
    }
}
