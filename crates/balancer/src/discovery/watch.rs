//! Backends that another part of the program pushes.

use async_trait::async_trait;
use tokio::sync::watch;

use super::Discovery;
use crate::{Backend, DiscoveryError};

/// Backends as the program's own source of them publishes them: a control plane, a registry, an
/// admin interface.
///
/// Unlike [`Static`](super::Static) it tells "none yet" from "none": until the first
/// [`Feed::publish`] there is no answer, and the source can say that it has lost its own, with
/// [`Feed::fail`]. Either way the last good set serves on, and the reason and the age of that set
/// are in [`Status`](crate::Status).
///
/// Keep it in an `Arc` to give it to several balancers.
#[derive(Debug)]
pub struct Watch {
    answers: watch::Receiver<Answer>,
}

/// The publishing end of a [`Watch`].
///
/// Dropping it is a failure of the source: a set that nobody keeps up to date is not passed off as
/// fresh.
#[derive(Debug)]
pub struct Feed {
    answers: watch::Sender<Answer>,
}

type Answer = Result<Vec<Backend>, DiscoveryError>;

impl Watch {
    /// The two ends.
    #[must_use]
    pub fn channel() -> (Feed, Self) {
        let nothing = Err(DiscoveryError::new("nothing has been published yet"));
        let (sender, receiver) = watch::channel(nothing);
        (Feed { answers: sender }, Self { answers: receiver })
    }
}

impl Feed {
    /// Replaces the whole set; an empty one says that there are no backends. Wakes the services
    /// that use it, which go by the latest set and may skip those before it.
    pub fn publish(&self, backends: impl IntoIterator<Item = Backend>) {
        let found = backends.into_iter().collect();
        self.answers.send_modify(|answer| *answer = Ok(found));
    }

    /// Says why there is no answer for the time being. The last good set serves on.
    pub fn fail(&self, cause: DiscoveryError) {
        self.answers.send_modify(|answer| *answer = Err(cause));
    }
}

#[async_trait]
impl Discovery for Watch {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        if self.answers.has_changed().is_err() {
            return Err(DiscoveryError::new(
                "the feed has been dropped, nobody publishes any more",
            ));
        }
        self.answers.borrow().clone()
    }

    async fn changed(&self) {
        let mut answers = self.answers.clone();
        answers.mark_unchanged();
        if answers.has_changed().is_err() {
            // Dropped before this call: known already, and never to change again.
            return std::future::pending().await;
        }
        // It ends with a publication, or with the feed: both are news.
        drop(answers.changed().await);
    }
}
