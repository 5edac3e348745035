//! The one place that reads a clock.

use std::time::Duration;

use tokio::time::Instant;

/// Monotonic time since the balancer was made.
///
/// It is tokio's clock, so that paused time in tests stops everything at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads a clock; everything else is handed the time"
    )]
    pub(crate) fn start() -> Self {
        Self {
            epoch: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Duration {
        self.epoch.elapsed()
    }

    /// `time` as an instant to sleep until; where that is beyond what an instant can hold, one
    /// that nobody lives to see.
    pub(crate) fn at(self, time: Duration) -> Instant {
        self.epoch
            .checked_add(time)
            .unwrap_or_else(|| self.epoch + A_CENTURY)
    }
}

const A_CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
