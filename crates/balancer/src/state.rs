//! The part of a backend's state that requests read, without a lock.

use std::sync::Arc;
use std::time::Duration;

use selection::{Identity, NodeLoad};
use tokio::sync::Notify;

use crate::slow_start;
use crate::sync::{AtomicBool, AtomicU64, Ordering, in_sequence};

/// One backend, for as long as anything knows it: a member, a request in flight, a drain that
/// waits. A member that is removed and added again while one of these lives is given it again.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) identity: Identity,
    /// The counter, and in its mark a [`Mode`] and whether anybody waits for `idle`.
    ///
    /// Sequentially consistent, as the counter is: a pick counts itself and then looks at the
    /// mode; a drain closes the backend and then looks at the count. At least one of them sees
    /// the other, so no pick can come after a drain has ended. In the same way the last request
    /// to end counts itself out and then looks whether it is awaited.
    pub(crate) load: Arc<NodeLoad>,
    /// Sets its draws apart from those of the other backends.
    salt: u64,
    idle: Notify,
    /// The beginning of the slow start, in nanoseconds; 0 if there is none. Relaxed:
    /// a request that misses the start of one is the request that came before it.
    ramp_from: AtomicU64,
    /// Requests that failed, ever. Relaxed: a statistic.
    failures: AtomicU64,
    /// Whether its operator wants it left alone by health checks. Relaxed: a hint.
    unchecked: AtomicBool,
}

/// Whether a backend may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// It may not.
    Closed,
    /// It may.
    Open,
    /// It may, and has failed of late: outcomes matter.
    Suspect,
    /// One request may take it, to see whether it is well.
    Trial,
    /// It may not, for its health; a balancer that ignores health may pick it all the same.
    Sick,
}

impl Mode {
    /// Whether a balancer may pick it that ignores health, or does not.
    pub(crate) fn serves(self, ignores_health: bool) -> bool {
        match self {
            Self::Closed => false,
            Self::Open | Self::Suspect | Self::Trial => true,
            Self::Sick => ignores_health,
        }
    }
}

impl State {
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            salt: slow_start::hash(0, identity.to_string().as_bytes()),
            identity,
            load: Arc::default(),
            idle: Notify::new(),
            ramp_from: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            unchecked: AtomicBool::new(false),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        mode_of(&self.load)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.change_mark(|mark| Some(mark & AWAITED | mode as u8));
        in_sequence();
    }

    /// Takes the one trial; returns whether it was there to take.
    pub(crate) fn take_trial(&self) -> bool {
        self.change_mark(|mark| {
            let is_trial = mark & MODE == Mode::Trial as u8;
            is_trial.then_some(mark & AWAITED | Mode::Sick as u8)
        })
    }

    fn change_mark(&self, change: impl FnMut(u8) -> Option<u8>) -> bool {
        let mark = self.load.mark();
        let changed = mark.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
        changed.is_ok()
    }

    /// When its slow start began.
    pub(crate) fn ramp_from(&self) -> Option<Duration> {
        let nanos = self.ramp_from.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    pub(crate) fn set_ramp_from(&self, from: Option<Duration>) {
        let nanos = from.map_or(0, |from| u64::try_from(from.as_nanos()).unwrap_or(0).max(1));
        self.ramp_from.store(nanos, Ordering::Relaxed);
    }

    /// What a request with this key draws at this backend while it starts slowly.
    pub(crate) fn draw(&self, key: &[u8]) -> u32 {
        slow_start::draw(key, self.salt)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_unchecked(&self) -> bool {
        self.unchecked.load(Ordering::Relaxed)
    }

    pub(crate) fn set_unchecked(&self, unchecked: bool) {
        self.unchecked.store(unchecked, Ordering::Relaxed);
    }

    /// The last request has been counted out while somebody waits for that.
    #[cold]
    pub(crate) fn now_idle(&self) {
        self.idle.notify_waiters();
    }

    /// Returns once no request is in flight.
    pub(crate) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            self.change_mark(|mark| Some(mark | AWAITED));
            in_sequence();
            if self.load.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// What the owner of this load says of the backend.
#[inline]
pub(crate) fn mode_of(load: &NodeLoad) -> Mode {
    match load.mark().load(Ordering::SeqCst) & MODE {
        OPEN => Mode::Open,
        SUSPECT => Mode::Suspect,
        TRIAL => Mode::Trial,
        SICK => Mode::Sick,
        _ => Mode::Closed,
    }
}

/// Whether a request that has just been counted out was the last, and somebody waits for that.
#[inline]
pub(crate) fn was_awaited(load: &NodeLoad) -> bool {
    load.mark().load(Ordering::SeqCst) & AWAITED != 0 && load.in_flight() == 0
}

const MODE: u8 = 0x0f;
const AWAITED: u8 = 0x80;
const OPEN: u8 = Mode::Open as u8;
const SUSPECT: u8 = Mode::Suspect as u8;
const TRIAL: u8 = Mode::Trial as u8;
const SICK: u8 = Mode::Sick as u8;
