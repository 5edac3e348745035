//! What is measured of a node while it serves.

use crate::ewma::PeakEwma;
use crate::sync::{AtomicU8, AtomicU64, Ordering, in_sequence};

/// The running state of one node, shared by every set, selector and snapshot it is part of.
///
/// It outlives rebuilds: whoever builds the next [`NodeSet`](crate::NodeSet) hands the same `Arc`
/// to the node of the same identity.
#[derive(Debug, Default)]
#[repr(C)]
pub struct NodeLoad {
    /// Requests in flight in the low half, requests ever in the high half, which may wrap: one
    /// instruction counts both. Balanced by [`InFlight`] alone, so the low half can neither
    /// underflow nor leak, and to overflow it would take 2^32 requests held at a time.
    ///
    /// Sequentially consistent, for those who close a node and then wait for it to be idle: a
    /// request that counts itself and then finds the node open is sure to be seen by whoever
    /// closes it and then looks at the count. On x86-64 that costs nothing over relaxed.
    requests: AtomicU64,
    /// Beside the counter, which `repr(C)` is for.
    mark: AtomicU8,
    /// Written by the selectors that average latencies.
    peak_ewma: PeakEwma,
}

impl NodeLoad {
    /// The requests in flight now.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
    pub fn in_flight(&self) -> u32 {
        self.requests.load(Ordering::SeqCst) as u32
    }

    /// The requests so far, those in flight included, modulo 2^32.
    #[must_use]
    pub fn picks(&self) -> u32 {
        (self.requests.load(Ordering::SeqCst) >> 32) as u32
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
        let requests = &owner.as_ref().requests;
        requests.fetch_add(ONE_EVER | ONE_IN_FLIGHT, Ordering::SeqCst);
        in_sequence();
        Self { owner }
    }

    /// Takes the request back: there was none, and it does not count among the
    /// [picks](NodeLoad::picks).
    pub fn take_back(self) {
        let requests = &self.owner.as_ref().requests;
        requests.fetch_sub(ONE_EVER, Ordering::SeqCst);
    }

    /// Whatever holds the counter.
    pub fn owner(&self) -> &T {
        &self.owner
    }
}

impl<T: AsRef<NodeLoad>> Drop for InFlight<T> {
    fn drop(&mut self) {
        let requests = &self.owner.as_ref().requests;
        requests.fetch_sub(ONE_IN_FLIGHT, Ordering::SeqCst);
        in_sequence();
    }
}

const ONE_IN_FLIGHT: u64 = 1;
const ONE_EVER: u64 = 1 << 32;

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
        assert_eq!((load.in_flight(), load.picks()), (0, 2));
        InFlight::new(Arc::clone(&load)).take_back();
        assert_eq!((load.in_flight(), load.picks()), (0, 2));
    }

    #[test]
    fn the_count_of_all_requests_wraps_alone() {
        let load = NodeLoad {
            requests: AtomicU64::new(u64::MAX << 32 | 5),
            ..NodeLoad::default()
        };
        let more = InFlight::new(&load);
        assert_eq!((load.in_flight(), load.picks()), (6, 0));
        drop(more);
        assert_eq!((load.in_flight(), load.picks()), (5, 0));
    }
}
