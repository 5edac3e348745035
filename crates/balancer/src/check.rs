//! How a backend is asked whether it is well.

mod tcp;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Backend, CheckError, Thresholds};

pub use tcp::TcpCheck;

/// An active health check. It returns what it finds and publishes nothing.
#[async_trait]
pub trait HealthCheck: Send + Sync {
    /// Asks `backend` once. The future is dropped when [`timeout`](Self::timeout) has passed, and
    /// on shutdown; it may hold no state that a drop would break.
    ///
    /// # Errors
    ///
    /// [`CheckError`] if the backend is not well. A panic is reported and counts as no result,
    /// since it tells nothing of the backend.
    async fn check(&self, backend: &Backend) -> Result<(), CheckError>;

    /// How many results in a row turn a backend. Default: rise 2, fall 3.
    fn thresholds(&self) -> Thresholds {
        Thresholds::default()
    }

    /// How long one check may take as a whole; longer is a failure. Default: 5 s.
    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

#[async_trait]
impl<C: HealthCheck + ?Sized> HealthCheck for Arc<C> {
    async fn check(&self, backend: &Backend) -> Result<(), CheckError> {
        (**self).check(backend).await
    }

    fn thresholds(&self) -> Thresholds {
        (**self).thresholds()
    }

    fn timeout(&self) -> Duration {
        (**self).timeout()
    }
}
