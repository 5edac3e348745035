//! The atomics of a node's load, which the models of `balancer` put under loom's control.

#[cfg(not(loom_models))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

#[cfg(loom_models)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Stands between a sequentially consistent access and a later one whose order matters to another
/// thread.
///
/// The accesses alone are enough. Loom takes them for acquire and release, and is given here by a
/// fence what the language gives by their order.
#[inline(always)]
pub(crate) fn in_sequence() {
    #[cfg(loom_models)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
