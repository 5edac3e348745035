//! The peak-sensitive moving average of a node's latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The estimate of one node's latency and the time it was made, in one atomic word.
///
/// A sample at or above the estimate replaces it; one below pulls it down with the weight
/// `1 - e^(-d/tau)`, where d is the time since the sample before. Finagle's
/// `PeakEwma` (`com.twitter.finagle.loadbalancer`), except that reading is pure there and here
/// it never changes the estimate, however often it is done.
///
/// The estimate is an f32 (seven digits), the time a count of milliseconds that wraps after 49
/// days. Samples within one millisecond of each other count as one, unless they are peaks.
#[derive(Debug, Default)]
pub(crate) struct PeakEwma {
    /// Milliseconds in the high half, the bits of the estimate in seconds in the low half; all
    /// zero means no sample yet. Relaxed: the word is the whole state and orders nothing else.
    state: AtomicU64,
}

impl PeakEwma {
    /// Takes a sample into account that was learnt at `now`.
    pub(crate) fn record(&self, sample: Duration, now: Duration, tau: Duration) {
        let _ = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                Some(State::unpack(state).after(sample, now, tau).pack())
            });
    }

    /// The latest estimate in seconds, as it was made; `None` without a sample.
    pub(crate) fn latest(&self) -> Option<f32> {
        let state = State::unpack(self.state.load(Ordering::Relaxed));
        (state.seconds > 0.0).then_some(state.seconds)
    }

    /// The estimate at `now` in seconds: `latest` times `e^(-d/tau)`. It fades while there are no
    /// samples, or a node that was slow once would never be tried again.
    pub(crate) fn faded(&self, now: Duration, tau: Duration) -> Option<f32> {
        let state = State::unpack(self.state.load(Ordering::Relaxed));
        (state.seconds > 0.0).then(|| state.seconds * state.decay(ticks(now), tau))
    }
}

#[derive(Clone, Copy)]
struct State {
    ticks: u32,
    seconds: f32,
}

impl State {
    fn unpack(state: u64) -> Self {
        let [t0, t1, t2, t3, s0, s1, s2, s3] = state.to_be_bytes();
        Self {
            ticks: u32::from_be_bytes([t0, t1, t2, t3]),
            seconds: f32::from_be_bytes([s0, s1, s2, s3]),
        }
    }

    fn pack(self) -> u64 {
        (u64::from(self.ticks) << 32) | u64::from(self.seconds.to_bits())
    }

    fn after(self, sample: Duration, now: Duration, tau: Duration) -> Self {
        let now = ticks(now);
        // Not 0, which would read as "no sample".
        let sample = sample.as_secs_f32().max(1e-9);
        if sample >= self.seconds {
            let seconds = sample;
            return Self {
                ticks: now,
                seconds,
            };
        }
        let decay = self.decay(now, tau);
        let seconds = self.seconds * decay + sample * (1.0 - decay);
        // A sample older than the estimate pulls nothing and must not turn its time back.
        let ticks = if decay < 1.0 { now } else { self.ticks };
        Self { ticks, seconds }
    }

    /// `e^(-d/tau)` for the time d from the estimate to `now`; 1 if that is not later.
    fn decay(self, now: u32, tau: Duration) -> f32 {
        let elapsed = now.wrapping_sub(self.ticks);
        // More than half of the circle ahead is behind.
        if elapsed > u32::MAX / 2 {
            return 1.0;
        }
        let elapsed = Duration::from_millis(elapsed.into());
        (-elapsed.as_secs_f32() / tau.as_secs_f32()).exp()
    }
}

/// Milliseconds modulo 2^32.
fn ticks(now: Duration) -> u32 {
    u32::try_from(now.as_millis() % (1 << u32::BITS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAU: Duration = Duration::from_secs(10);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// One peak of 1,000 ms, then 50 ms every 10 ms: 50 + 950 e^(-t/tau).
    #[test]
    fn falls_from_a_peak_by_the_formula_however_often_it_is_read() {
        let start = 123_456;
        let ewma = PeakEwma::default();
        ewma.record(millis(1000), millis(start), TAU);
        let mut seen = Vec::new();
        for t in 1..=30_000 {
            if t % 10 == 0 {
                ewma.record(millis(50), millis(start + t), TAU);
            }
            assert!(ewma.faded(millis(start + t), TAU).unwrap() <= ewma.latest().unwrap());
            if t % 10_000 == 0 {
                seen.push(ewma.latest().unwrap() * 1000.0);
            }
        }
        for (seen, expected) in seen.into_iter().zip([399.5, 178.6, 97.3]) {
            assert!((seen - expected).abs() < 0.2, "{seen} for {expected}");
        }
    }

    #[test]
    fn a_peak_replaces_and_silence_fades() {
        let ewma = PeakEwma::default();
        assert_eq!(ewma.latest(), None);
        assert_eq!(ewma.faded(TAU, TAU), None);
        ewma.record(millis(10), millis(0), TAU);
        ewma.record(millis(70), millis(0), TAU);
        assert_eq!(ewma.latest(), Some(0.07));
        let faded = ewma.faded(TAU, TAU).unwrap();
        assert!((faded - 0.07 / std::f32::consts::E).abs() < 1e-6, "{faded}");
        assert_eq!(ewma.latest(), Some(0.07), "reading changes nothing");
    }

    #[test]
    fn late_news_and_the_end_of_the_circle_do_no_harm() {
        let ewma = PeakEwma::default();
        let near_the_end = millis((1 << 32) - 5);
        ewma.record(millis(100), near_the_end, TAU);
        // Learnt before, told after.
        ewma.record(millis(50), near_the_end - millis(3), TAU);
        assert_eq!(ewma.latest(), Some(0.1));
        // Ten milliseconds on, across the end: e^(-0.001).
        let faded = ewma.faded(near_the_end + millis(10), TAU).unwrap();
        assert!((faded - 0.099_900_05).abs() < 1e-6, "{faded}");
        // No time at all is still a sample.
        let fresh = PeakEwma::default();
        fresh.record(Duration::ZERO, near_the_end, TAU);
        assert!(fresh.latest().is_some());
    }
}
