//! What is measured of a node while it serves.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::ewma::PeakEwma;
use crate::sync::{AtomicU8, AtomicU64, Ordering, in_sequence};

/// The running state of one node, shared by every set, selector and snapshot it is part of.
///
/// It outlives rebuilds: whoever builds the next [`NodeSet`](crate::NodeSet) hands the same `Arc`
/// to the node of the same identity.
#[derive(Debug, Default)]
#[repr(C)]
pub struct NodeLoad {
    /// In the low half the requests in flight, in the high half those that ever began, modulo
    /// 2^32: one word, so that to count both costs what it costs to count one. Balanced by
    /// [`InFlight`] alone, so the low half can neither underflow nor leak.
    ///
    /// Sequentially consistent, for those who close a node and then wait for it to be idle: a
    /// request that counts itself and then finds the node open is sure to be seen by whoever
    /// closes it and then looks at the count. On x86-64 that costs nothing over relaxed.
    requests: AtomicU64,
    /// Beside the counter, which `repr(C)` is for.
    mark: AtomicU8,
    /// How often the highest bit of `requests` has changed: what the high half has lost. It may
    /// lag behind by one, for the moment between the two steps of one request, and then its
    /// parity is not that bit.
    halves: AtomicU32,
    /// Requests that began, and were taken back. Relaxed: a statistic. They are not taken out of
    /// `requests`, whose high half never goes back, so that it can be told when it wraps.
    taken_back: AtomicU64,
    /// Written by the selectors that average latencies.
    peak_ewma: PeakEwma,
}

impl NodeLoad {
    /// The requests in flight now.
    #[must_use]
    #[inline]
    pub fn in_flight(&self) -> u32 {
        let [.., a, b, c, d] = self.requests.load(Ordering::SeqCst).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// The requests so far, those in flight included, and those that were
    /// [taken back](InFlight::take_back) not. One that is just being taken back may be counted for
    /// a moment.
    #[must_use]
    pub fn picks(&self) -> u64 {
        let taken_back = self.taken_back.load(Ordering::Relaxed);
        let halves = u64::from(self.halves.load(Ordering::Acquire));
        let count = self.requests.load(Ordering::SeqCst) >> 32;
        let lags = halves & 1 != count >> 31;
        let halves = halves + u64::from(lags);
        (halves << 31 | count & HALF).saturating_sub(taken_back)
    }

    /// The latency of its answers as a peak-sensitive moving average: the latest estimate, as it
    /// was made. `None` if no selector has made one ([`Load::PeakEwma`](crate::Load::PeakEwma)).
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        let seconds = self.peak_ewma.latest()?;
        // The longest of all times is rounded up on its way through an `f32`, beyond itself.
        Some(Duration::try_from_secs_f32(seconds).unwrap_or(Duration::MAX))
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
        let load = owner.as_ref();
        let before = load.requests.fetch_add(ONE_MORE, Ordering::SeqCst);
        in_sequence();
        if before >> 32 & HALF == HALF {
            load.halves.fetch_add(1, Ordering::Release);
        }
        Self { owner }
    }

    /// Takes the request back: there was none, and it does not count among the
    /// [picks](NodeLoad::picks).
    pub fn take_back(self) {
        let load = self.owner.as_ref();
        load.taken_back.fetch_add(1, Ordering::Relaxed);
    }

    /// Whatever holds the counter.
    pub fn owner(&self) -> &T {
        &self.owner
    }
}

impl<T: AsRef<NodeLoad>> Drop for InFlight<T> {
    fn drop(&mut self) {
        self.owner.as_ref().requests.fetch_sub(1, Ordering::SeqCst);
        in_sequence();
    }
}

/// One in each half.
const ONE_MORE: u64 = 1 << 32 | 1;

/// The high half without its highest bit.
const HALF: u64 = (1 << 31) - 1;

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
        assert_eq!(load.picks(), 2);
    }

    #[test]
    fn no_latency_is_too_long_to_be_told() {
        let load = NodeLoad::default();
        assert_eq!(load.latency(), None);
        for latency in [Duration::from_millis(250), Duration::MAX] {
            load.peak_ewma()
                .record(latency, Duration::ZERO, Duration::from_secs(10));
            assert_eq!(load.latency(), Some(latency));
        }
    }

    #[test]
    fn what_is_taken_back_was_no_request() {
        let load = Arc::new(NodeLoad::default());
        let first = InFlight::new(Arc::clone(&load));
        InFlight::new(Arc::clone(&load)).take_back();
        assert_eq!((load.in_flight(), load.picks()), (1, 1));
        drop(first);
        assert_eq!((load.in_flight(), load.picks()), (0, 1));
    }

    /// Across both changes of the highest bit, with one in flight all the time.
    #[test]
    fn the_count_goes_on_where_its_half_ends() {
        for (count, halves) in [((1 << 31) - 2, 0), ((1 << 32) - 2, 1), ((1 << 31) - 2, 2)] {
            let load = Arc::new(NodeLoad {
                requests: AtomicU64::new(count << 32),
                halves: AtomicU32::new(halves),
                ..NodeLoad::default()
            });
            let before = u64::from(halves) * (1 << 31) + (1 << 31) - 2;
            let held = InFlight::new(Arc::clone(&load));
            for n in 2..=5 {
                drop(InFlight::new(Arc::clone(&load)));
                assert_eq!((load.in_flight(), load.picks()), (1, before + n));
            }
            drop(held);
            assert_eq!(load.in_flight(), 0);
        }
        // Between the two steps of the request that changed the bit.
        let lagging = NodeLoad {
            requests: AtomicU64::new(1 << 63),
            ..NodeLoad::default()
        };
        assert_eq!(lagging.picks(), 1 << 31);
    }
}
