//! Several sources as one.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Backend, Discovery, DiscoveryError};

/// What all sources find together, in their order. They are asked side by side, and an error of
/// one is the error of all: half an answer would take the other half out of service.
pub(super) struct Joint {
    parts: Vec<Box<dyn Discovery>>,
    /// For how long the answer of a part holds that does not say so.
    interval: Duration,
}

impl Joint {
    pub(super) fn new(parts: Vec<Box<dyn Discovery>>, interval: Duration) -> Self {
        Self { parts, interval }
    }
}

#[async_trait]
impl Discovery for Joint {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        let answers = all(self.parts.iter().map(|part| part.discover())).await;
        let mut found = Vec::new();
        for answer in answers {
            found.extend(answer?);
        }
        Ok(found)
    }

    async fn changed(&self) {
        let mut changes: Vec<_> = self.parts.iter().map(|part| part.changed()).collect();
        poll_fn(|cx| {
            // All of them, since each listens from its first poll on.
            let ready = changes.iter_mut().map(|change| change.as_mut().poll(cx));
            match ready.filter(Poll::is_ready).count() {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    fn valid_for(&self) -> Option<Duration> {
        let times: Vec<_> = self.parts.iter().map(|part| part.valid_for()).collect();
        if times.iter().all(Option::is_none) {
            return None;
        }
        let times = times.into_iter().map(|time| time.unwrap_or(self.interval));
        times.min()
    }
}

impl fmt::Debug for Joint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joint")
            .field("parts", &self.parts.len())
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The outputs of all futures, in their order.
async fn all<'a, T>(futures: impl Iterator<Item = Asked<'a, T>>) -> Vec<T> {
    let mut under_way: Vec<_> = futures.map(|future| (future, None)).collect();
    poll_fn(|cx| {
        let mut is_done = true;
        for (future, output) in &mut under_way {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => is_done = false,
                }
            }
        }
        if is_done {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    under_way
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}
