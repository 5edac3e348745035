//! How a backend is asked whether it is well.

#[cfg(feature = "http")]
mod http;
mod tcp;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Backend, CheckError, Thresholds};

#[cfg(feature = "http")]
pub use http::HttpCheck;
pub use tcp::TcpCheck;

/// An active health check. It returns what it finds and publishes nothing.
#[async_trait]
pub trait HealthCheck: Send + Sync {
    /// Asks `backend` once. The future is dropped when [`time_limit`](Self::time_limit) has passed, and
    /// on shutdown; it may hold no state that a drop would break.
    ///
    /// # Errors
    ///
    /// [`CheckError`] if the backend is not well. A panic is reported and counts as no result,
    /// since it tells nothing of the backend.
    async fn check(&self, backend: &Backend) -> Result<(), CheckError>;

    /// `backend` is a member no more: whatever was kept for it can go. Default: nothing.
    fn forget(&self, backend: &Backend) {
        let _ = backend;
    }

    /// How many results in a row turn a backend. Default: rise 2, fall 3.
    fn thresholds(&self) -> Thresholds {
        Thresholds::default()
    }

    /// How long one check may take as a whole; longer is a failure. Default: 5 s.
    fn time_limit(&self) -> Duration {
        Duration::from_secs(5)
    }
}

#[async_trait]
impl<C: HealthCheck + ?Sized> HealthCheck for Arc<C> {
    async fn check(&self, backend: &Backend) -> Result<(), CheckError> {
        (**self).check(backend).await
    }

    fn forget(&self, backend: &Backend) {
        (**self).forget(backend);
    }

    fn thresholds(&self) -> Thresholds {
        (**self).thresholds()
    }

    fn time_limit(&self) -> Duration {
        (**self).time_limit()
    }
}
