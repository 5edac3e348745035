//! A check that connects.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::{Address, Backend, CheckError, HealthCheck, Thresholds};

/// Passes if a connection can be opened; it is closed at once. A new connection each time.
///
/// A listening socket whose program never accepts passes: the kernel completes the handshake.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TcpCheck {
    /// Passes and failures in a row that count.
    pub thresholds: Thresholds,
    /// The time to connect in; longer is a failure.
    pub timeout: Duration,
}

impl Default for TcpCheck {
    /// Rise 2, fall 3, one second to connect.
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            timeout: Duration::from_secs(1),
        }
    }
}

impl TcpCheck {
    /// The [default](Self::default).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With this many passes in a row that bring a backend up.
    #[must_use]
    pub fn rise(mut self, passes: u32) -> Self {
        self.thresholds.rise = passes;
        self
    }

    /// With this many failures in a row that take a backend down.
    #[must_use]
    pub fn fall(mut self, failures: u32) -> Self {
        self.thresholds.fall = failures;
        self
    }

    /// With this long to connect.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

#[async_trait]
impl HealthCheck for TcpCheck {
    async fn check(&self, backend: &Backend) -> Result<(), CheckError> {
        connect(&backend.addr)
            .await
            .map(drop)
            .map_err(CheckError::new)
    }

    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    fn time_limit(&self) -> Duration {
        self.timeout
    }
}

/// A connection of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

pub(super) async fn connect(addr: &Address) -> io::Result<Box<dyn Stream>> {
    match addr {
        Address::Inet(addr) => Ok(Box::new(TcpStream::connect(addr).await?)),
        #[cfg(unix)]
        Address::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
        #[cfg(not(unix))]
        Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}
