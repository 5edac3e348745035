//! Why a request got no response.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::Address;

/// Why [`Balance`](super::Balance) has no response to a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum BalanceError {
    /// No backend may be picked: none is a member, is ready, has room.
    NoBackend,
    /// The factory could not make the service of a backend. The request has not been sent.
    Make {
        /// The backend.
        addr: Address,
        /// What the factory says; all requests that waited for that service share it.
        cause: Arc<dyn Error + Send + Sync>,
    },
    /// The service of a backend failed, be it in becoming ready or in answering.
    Service {
        /// The backend.
        addr: Address,
        /// The error of the service itself, to be had back by `downcast_ref`.
        cause: BoxError,
    },
}

/// Any error, as the tower crates pass it around.
pub type BoxError = Box<dyn Error + Send + Sync>;

impl fmt::Display for BalanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBackend => f.write_str("no backend may be picked"),
            Self::Make { addr, .. } => write!(f, "no service could be made for {addr}"),
            Self::Service { addr, .. } => write!(f, "the service of {addr} failed"),
        }
    }
}

impl Error for BalanceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoBackend => None,
            Self::Make { cause, .. } => Some(&**cause),
            Self::Service { cause, .. } => Some(&**cause),
        }
    }
}
