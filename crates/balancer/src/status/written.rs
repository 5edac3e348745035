//! How the fields of a status are written.

use std::fmt::Display;
use std::time::Duration;

use serde::Serializer;

use crate::UpdateError;
use crate::error::Chain;

pub(super) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

pub(super) fn maybe_seconds<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => seconds(time, serializer),
        None => serializer.serialize_none(),
    }
}

/// Unlike [`Address`](crate::Address) itself, which is written to be read again, this cannot fail
/// for a path that is not UTF-8.
pub(super) fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn maybe_text<S: Serializer>(
    value: &Option<impl Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => text(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// With all that it came from.
pub(super) fn maybe_error<S: Serializer>(
    error: &Option<UpdateError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    maybe_text(&error.as_ref().map(|error| Chain(error)), serializer)
}
