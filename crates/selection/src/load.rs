//! What is measured of a node while it serves.

use crate::ewma::PeakEwma;
use crate::sync::{AtomicU8, AtomicU32, Ordering, in_sequence};

/// The running state of one node, shared by every set, selector and snapshot it is part of.
///
/// It outlives rebuilds: whoever builds the next [`NodeSet`](crate::NodeSet) hands the same `Arc`
/// to the node of the same identity.
#[derive(Debug, Default)]
#[repr(C)]
pub struct NodeLoad {
    /// Requests in flight. Balanced by [`InFlight`] alone, so it can neither underflow nor leak.
    ///
    /// Sequentially consistent, for those who close a node and then wait for it to be idle: a
    /// request that counts itself and then finds the node open is sure to be seen by whoever
    /// closes it and then looks at the count. On x86-64 that costs nothing over relaxed.
    in_flight: AtomicU32,
    /// Beside the counter, which `repr(C)` is for.
    mark: AtomicU8,
    /// Written by the selectors that average latencies.
    peak_ewma: PeakEwma,
}

impl NodeLoad {
    /// The requests in flight now.
    #[must_use]
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// A byte for whoever hands out the node, to mean what it likes; no selector reads it.
    ///
    /// It lies in the cache line of the counter: whoever counts a request has it at hand.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> &AtomicU8 {
        &self.mark
    }

    /// The latency as a peak-sensitive moving average.
    pub(crate) fn peak_ewma(&self) -> &PeakEwma {
        &self.peak_ewma
    }
}

impl AsRef<Self> for NodeLoad {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// One request in flight: counts on creation, and back exactly once, on drop.
///
/// `T` is whatever keeps the counter alive: an `Arc<NodeLoad>`, or an `Arc` of something that
/// holds one.
#[must_use = "dropping it ends the request"]
#[derive(Debug)]
pub struct InFlight<T: AsRef<NodeLoad>> {
    owner: T,
}

impl<T: AsRef<NodeLoad>> InFlight<T> {
    /// Counts one more request on `owner`.
    pub fn new(owner: T) -> Self {
        owner.as_ref().in_flight.fetch_add(1, Ordering::SeqCst);
        in_sequence();
        Self { owner }
    }

    /// Whatever holds the counter.
    pub fn owner(&self) -> &T {
        &self.owner
    }
}

impl<T: AsRef<NodeLoad>> Drop for InFlight<T> {
    fn drop(&mut self) {
        self.owner.as_ref().in_flight.fetch_sub(1, Ordering::SeqCst);
        in_sequence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn counts_are_returned_once() {
        let load = Arc::new(NodeLoad::default());
        let first = InFlight::new(Arc::clone(&load));
        let second = InFlight::new(Arc::clone(&load));
        assert_eq!(load.in_flight(), 2);
        drop(first);
        assert_eq!(load.in_flight(), 1);
        drop(second);
        assert_eq!(load.in_flight(), 0);
    }
}
