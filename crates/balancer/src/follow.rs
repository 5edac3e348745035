//! Those who keep something for every member, and let it go once the member has left.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::contain::contain_now;
use crate::log;

/// Somebody who looks at the members again whenever there are others.
pub(crate) trait Follower: Send + Sync {
    /// Another snapshot serves. No lock is held, and it may be called by several threads at once.
    fn members_changed(&self);
}

/// They are known for as long as somebody else keeps them.
#[derive(Default)]
pub(crate) struct Followers(Mutex<Vec<Weak<dyn Follower>>>);

impl Followers {
    pub(crate) fn add(&self, follower: Weak<dyn Follower>) {
        let mut followers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|known| known.strong_count() > 0);
        followers.push(follower);
    }

    pub(crate) fn tell(&self) {
        let followers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present: Vec<_> = followers.iter().filter_map(Weak::upgrade).collect();
        drop(followers);
        for follower in present {
            self.tell_one(&follower);
        }
    }

    /// What it lets go of is the user's, and may fall over.
    fn tell_one(&self, follower: &Arc<dyn Follower>) {
        if let Err(message) = contain_now(|| follower.members_changed()) {
            log::follower_panicked(&message);
        }
    }
}
