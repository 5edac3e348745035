//! What is told of as it happens.

use selection::Identity;

use crate::{Cause, Condition};

/// A backend has become fit, or unfit, for requests.
///
/// Every change is told exactly once and in order. Joining and leaving are no events but what
/// [`Update`](crate::Update) reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Which backend.
    pub backend: Identity,
    /// What it was fit for.
    pub from: Condition,
    /// What it is fit for.
    pub to: Condition,
    /// What made it so.
    pub cause: Cause,
    /// Why, for people to read.
    pub reason: String,
}
