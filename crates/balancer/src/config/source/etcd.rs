//! The keys under a prefix.

use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, OnceCell};

use crate::discovery::{Etcd, EtcdError};
use crate::{Backend, Discovery, DiscoveryError};

/// The backends that have registered in an etcd, without a user and without TLS: [`Etcd`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EtcdSource {
    /// The members of one cluster, such as `http://127.0.0.1:2379`; at least one.
    pub endpoints: Vec<String>,
    /// What the keys begin with; not empty.
    pub prefix: String,
}

impl EtcdSource {
    /// The keys that begin with `prefix`, from any of these endpoints.
    #[must_use]
    pub fn new<E: Into<String>>(
        endpoints: impl IntoIterator<Item = E>,
        prefix: impl Into<String>,
    ) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: prefix.into(),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.endpoints.is_empty() {
            return Err("`endpoints` is empty".to_owned());
        }
        for endpoint in &self.endpoints {
            let uri: Uri = endpoint
                .parse()
                .map_err(|error| format!("the endpoint {endpoint:?}: {error}"))?;
            if uri.scheme().is_none() {
                return Err(format!("the endpoint {endpoint:?} has no `http://`"));
            }
        }
        if self.prefix.is_empty() {
            return Err(EtcdError::EmptyPrefix.to_string());
        }
        Ok(())
    }

    pub(super) fn discovery(self) -> impl Discovery {
        Late {
            source: self,
            etcd: OnceCell::new(),
            connected: Notify::new(),
        }
    }
}

/// An [`Etcd`] whose client is made at the first question: it needs a runtime, which there need
/// not be where a config is read.
#[derive(Debug)]
struct Late {
    source: EtcdSource,
    etcd: OnceCell<Etcd>,
    connected: Notify,
}

impl Late {
    async fn etcd(&self) -> Result<&Etcd, EtcdError> {
        let EtcdSource { endpoints, prefix } = &self.source;
        let connect = || Etcd::connect(endpoints, prefix.as_str());
        let etcd = self.etcd.get_or_try_init(connect).await?;
        self.connected.notify_waiters();
        Ok(etcd)
    }
}

#[async_trait]
impl Discovery for Late {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        self.etcd()
            .await
            .map_err(DiscoveryError::new)?
            .discover()
            .await
    }

    async fn changed(&self) {
        // From the first poll on, as the client will be there with the first answer at the latest.
        let connected = self.connected.notified();
        let etcd = match self.etcd.get() {
            Some(etcd) => etcd,
            None => {
                connected.await;
                match self.etcd.get() {
                    Some(etcd) => etcd,
                    None => return,
                }
            }
        };
        etcd.changed().await;
    }

    fn valid_for(&self) -> Option<Duration> {
        self.etcd.get().and_then(Etcd::valid_for)
    }
}
