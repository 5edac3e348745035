//! A backend that runs empty.

use std::sync::Arc;

use crate::state::State;

/// A backend that gets no new picks, as [`LoadBalancer::drain`](crate::LoadBalancer::drain)
/// returns it. Dropping it changes nothing: the backend goes on draining.
#[derive(Clone, Debug)]
pub struct Drain {
    state: Arc<State>,
}

impl Drain {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state }
    }

    /// The requests still in flight, also when the backend has left meanwhile. A request that is
    /// just being refused may be counted for a moment.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.state.load.in_flight()
    }

    /// Returns once no request is in flight. No pick can come after that, unless the backend is
    /// enabled again, or leaves and comes back.
    pub async fn drained(&self) {
        self.state.idle().await;
    }
}
