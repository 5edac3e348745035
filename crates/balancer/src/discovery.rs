//! Where the backends come from: lists kept by the program, files, DNS, etcd, or a source of your
//! own that implements [`Discovery`].

#[cfg(feature = "dns")]
mod dns;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "file")]
mod file;
mod watch;

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

#[cfg(feature = "dns")]
#[cfg_attr(docsrs, doc(cfg(feature = "dns")))]
pub use self::dns::{Absent, Dns, DnsConfig, DnsError, DnsErrorKind, Family, HostName, Question};
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub use self::etcd::{Etcd, EtcdError};
#[cfg(feature = "file")]
#[cfg_attr(docsrs, doc(cfg(feature = "file")))]
pub use self::file::{File, FileError, Format};
pub use self::watch::{Feed, Watch};
use crate::{Address, Backend, DiscoveryError};

/// The client of etcd, re-exported for [`Etcd::from_client`].
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub use etcd_client;

/// A source of backends. It returns what it finds and publishes nothing.
#[async_trait]
pub trait Discovery: Send + Sync {
    /// All backends there are now, in any order.
    ///
    /// `Ok` with no backends means that there are none, and is applied. The same address twice is
    /// one backend with the weights added.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError`] if it cannot tell: the last good answer then stays in force.
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError>;

    /// Returns once there may be something new to discover; never, for a source that can only be
    /// asked.
    ///
    /// The background service polls it once *before* it calls [`discover`](Self::discover), and
    /// awaits it after; a change that happens after that first poll must complete it, so none is
    /// lost in between.
    async fn changed(&self) {
        pending().await
    }

    /// How long the latest answer holds, for a source that knows. The background service asks
    /// again after this time in place of
    /// [`Options::update_interval`](crate::Options::update_interval), but leaves at least a second
    /// in between.
    fn valid_for(&self) -> Option<Duration> {
        None
    }
}

#[async_trait]
impl<D: Discovery + ?Sized> Discovery for Arc<D> {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        (**self).discover().await
    }

    async fn changed(&self) {
        (**self).changed().await;
    }

    fn valid_for(&self) -> Option<Duration> {
        (**self).valid_for()
    }
}

/// A list of backends kept by the program itself. Every change wakes the services that use it.
///
/// Keep it in an `Arc`, give a clone to each balancer, and change the list through the other.
#[derive(Debug, Default)]
pub struct Static {
    backends: Mutex<Vec<Backend>>,
    changed: Notify,
}

impl Static {
    /// A list to start with.
    #[must_use]
    pub fn new(backends: impl IntoIterator<Item = Backend>) -> Self {
        Self {
            backends: Mutex::new(backends.into_iter().collect()),
            changed: Notify::new(),
        }
    }

    /// Adds a backend, in place of the one of the same address if there is one.
    pub fn add(&self, backend: Backend) {
        self.change(|backends| {
            backends.retain(|known| known.addr != backend.addr);
            backends.push(backend);
        });
    }

    /// Removes the backend of this address; returns whether there was one.
    pub fn remove(&self, addr: &Address) -> bool {
        self.change(|backends| {
            let before = backends.len();
            backends.retain(|known| known.addr != *addr);
            backends.len() < before
        })
    }

    /// Replaces the whole list.
    pub fn set(&self, backends: impl IntoIterator<Item = Backend>) {
        let new = backends.into_iter().collect();
        self.change(|backends| *backends = new);
    }

    /// The list as it stands.
    #[must_use]
    pub fn backends(&self) -> Vec<Backend> {
        self.lock().clone()
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<Backend>) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_waiters();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Backend>> {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Discovery for Static {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        Ok(self.backends())
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }
}
