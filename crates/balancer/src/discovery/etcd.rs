//! Backends from the keys of an etcd.

mod error;
mod mirror;

use std::fmt;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, ConnectOptions, GetOptions, GetResponse, WatchOptions, WatchResponse};
use tokio::sync::watch;
use tokio::time::timeout;

pub use self::error::EtcdError;
use self::mirror::Mirror;
use super::Discovery;
use crate::{Backend, DiscoveryError};

/// The backends that have registered under a prefix.
///
/// The value of each key is one backend in JSON, of the same keys as in a file:
/// `{"addr": "10.0.0.1:80", "weight": 2}`. What follows the prefix in the key is up to those who
/// register; with a lease on the key, a backend that stops renewing it leaves by itself.
///
/// A watch brings every change, also those of an expired lease, and only these. Everything is read
/// afresh, as of one revision, at the start, after
/// [`Options::update_interval`](crate::Options::update_interval), and whenever the watch may have
/// missed something: when its connection breaks, or the history that it has to catch up with is
/// compacted away. While etcd answers but cannot be watched, it is asked every 5 s. While it is
/// away, the last good set serves on.
///
/// A value that is no backend is an error that names its key and field, and the last good set
/// serves on: every process then refuses the same.
pub struct Etcd {
    client: Client,
    prefix: Vec<u8>,
    mirror: Mutex<Mirror>,
    /// Counts the full answers.
    answers: watch::Sender<u64>,
}

/// How a watch ended.
enum Ended {
    /// With changes, or with some that it cannot tell any more.
    News,
    /// Of itself, or before it began: something may be missed.
    Broken,
}

impl Etcd {
    /// The keys that begin with `prefix`, from any of these endpoints of one cluster, such as
    /// `http://127.0.0.1:2379`. The endpoints need not be up as yet.
    ///
    /// A member that has lost its cluster is not listened to, and a connection that has gone silent
    /// is noticed within 15 s.
    ///
    /// # Errors
    ///
    /// [`EtcdError::EmptyPrefix`]; [`EtcdError::Client`] if there is no endpoint or one is none.
    pub async fn connect<E: AsRef<str>>(
        endpoints: &[E],
        prefix: impl Into<Vec<u8>>,
    ) -> Result<Self, EtcdError> {
        let options = ConnectOptions::new()
            .with_connect_timeout(REQUEST_TIMEOUT)
            .with_keep_alive(PING_INTERVAL, PING_TIMEOUT)
            .with_keep_alive_while_idle(false)
            .with_require_leader(true);
        let client = Client::connect(endpoints, Some(options)).await?;
        Self::from_client(client, prefix)
    }

    /// The keys that begin with `prefix`, through a client of one's own: with a user, TLS or other
    /// timeouts. See [`etcd_client`](super::etcd_client), whose features add TLS.
    ///
    /// # Errors
    ///
    /// [`EtcdError::EmptyPrefix`].
    pub fn from_client(client: Client, prefix: impl Into<Vec<u8>>) -> Result<Self, EtcdError> {
        let prefix = prefix.into();
        if prefix.is_empty() {
            return Err(EtcdError::EmptyPrefix);
        }
        Ok(Self {
            client,
            prefix,
            mirror: Mutex::default(),
            answers: watch::Sender::new(0),
        })
    }

    /// Reads everything afresh.
    async fn read(&self) -> Result<(), EtcdError> {
        let before = self.mirror().revision();
        let pages = timeout(REQUEST_TIMEOUT, self.pages()).await;
        let (revision, pages) = pages.map_err(|_| EtcdError::TimedOut {
            after: REQUEST_TIMEOUT,
        })??;
        let pairs = pages.iter().flat_map(GetResponse::kvs);
        let pairs = pairs.map(|pair| (pair.key(), pair.value()));
        self.mirror().replace(before, revision, pairs);
        self.answers.send_modify(|answers| *answers += 1);
        Ok(())
    }

    /// All keys under the prefix, page by page as of one revision.
    async fn pages(&self) -> Result<(i64, Vec<GetResponse>), etcd_client::Error> {
        let mut client = self.client.kv_client();
        let options = GetOptions::new()
            .with_range(end_of(&self.prefix))
            .with_limit(PAGE);
        let mut page = client
            .get(self.prefix.clone(), Some(options.clone()))
            .await?;
        let revision = page.header().map_or(0, |header| header.revision());
        let mut pages = Vec::new();
        while let (true, Some(last)) = (page.more(), page.kvs().last()) {
            let next = [last.key(), b"\0"].concat();
            pages.push(page);
            let options = options.clone().with_revision(revision);
            page = client.get(next, Some(options)).await?;
        }
        pages.push(page);
        Ok((revision, pages))
    }

    /// Watches the changes after revision `since`, up to the first.
    async fn watch(&self, since: i64) -> Ended {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(since.saturating_add(1));
        let mut client = self.client.watch_client();
        let Ok(mut watch) = client.watch(self.prefix.clone(), Some(options)).await else {
            return Ended::Broken;
        };
        loop {
            match watch.message().await {
                Ok(Some(message)) if message.canceled() => {
                    let is_compacted = message.compact_revision() > 0;
                    return if is_compacted {
                        Ended::News
                    } else {
                        Ended::Broken
                    };
                }
                Ok(Some(message)) if !message.events().is_empty() => {
                    self.mirror().apply(events(&message));
                    return Ended::News;
                }
                // That it has begun, or that nothing has happened.
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Ended::Broken,
            }
        }
    }

    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Discovery for Etcd {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        // Asked without news, it is to find out what was not told.
        let has_news = self.mirror().take_news();
        if !has_news {
            self.read().await.map_err(DiscoveryError::new)?;
        }
        self.mirror().backends().map_err(DiscoveryError::new)
    }

    async fn changed(&self) {
        // From the first poll on: the `discover` that follows it is at least of this revision.
        let mut answers = self.answers.subscribe();
        let since = self.mirror().revision();
        if since == 0 {
            // There is no revision to watch from before the first answer. The sender is in `self`.
            drop(answers.changed().await);
            return;
        }
        let ended = self.watch(since).await;
        if matches!(ended, Ended::Broken) && !self.mirror().note_break() {
            pending::<()>().await;
        }
    }

    /// Without a watch, whatever keeps it from coming about, an answer does not hold for long.
    fn valid_for(&self) -> Option<Duration> {
        self.mirror().is_broken().then_some(UNWATCHED)
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("prefix", &String::from_utf8_lossy(&self.prefix))
            .field("revision", &self.mirror().revision())
            .finish_non_exhaustive()
    }
}

/// The first key after all that begin with `prefix`, as etcd's own client has it
/// (clientv3, `GetPrefixRangeEnd`). `\0` is the end of all keys.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|&byte| byte < u8::MAX) else {
        return vec![0];
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

fn events(message: &WatchResponse) -> impl Iterator<Item = mirror::Event<'_>> {
    message.events().iter().filter_map(|event| {
        let pair = event.kv()?;
        let is_put = event.event_type() == etcd_client::EventType::Put;
        Some((
            pair.mod_revision(),
            pair.key(),
            is_put.then(|| pair.value()),
        ))
    })
}

/// For everything that a discovery asks, and for a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// An etcd takes more than one ping in 5 s, or one on a connection without a request, for an abuse
/// and closes it (`--grpc-keepalive-min-time`).
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two answers while there is no watch.
const UNWATCHED: Duration = Duration::from_secs(5);

/// Keys a page: an answer of etcd may have 4 MiB, which is 4 KiB a key.
const PAGE: i64 = 1000;
