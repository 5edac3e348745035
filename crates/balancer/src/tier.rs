//! The selectors that serve, for what they can tell of themselves.

use std::fmt;
use std::sync::Arc;

use selection::{NodeSet, Selector};

/// The selectors of one tier, and the nodes they were built over.
#[non_exhaustive]
pub struct Tier<S: ?Sized> {
    /// Its number: [`Backend::tier`](crate::Backend::tier).
    pub number: u8,
    /// The nodes, by the numbers that the selector knows them by.
    pub nodes: NodeSet,
    /// By lane; as a rule there is one. Picking with it goes past health and counts nothing.
    pub selectors: Box<[Arc<S>]>,
}

impl<S: ?Sized> Tier<S> {
    pub(crate) fn lane(&self, index: usize) -> Option<&Arc<S>> {
        self.selectors.get(index)
    }
}

impl<S: ?Sized> Clone for Tier<S> {
    fn clone(&self) -> Self {
        Self {
            number: self.number,
            nodes: self.nodes.clone(),
            selectors: self.selectors.clone(),
        }
    }
}

impl<S: Selector + ?Sized> fmt::Debug for Tier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier")
            .field("number", &self.number)
            .field("nodes", &self.nodes)
            .field("selectors", &self.selectors)
            .finish()
    }
}
