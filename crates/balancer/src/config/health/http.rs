//! What to ask over HTTP.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use http::Method;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ActiveConfig;
use crate::HttpCheck;

/// What to ask over HTTP, and which answers are good: an [`HttpCheck`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The path, with a query or without. Default: `/`.
    #[serde(with = "path")]
    pub path: PathAndQuery,
    /// The method. Default: GET.
    #[serde(with = "text")]
    pub method: Method,
    /// The `Host` header. Default: the address of the backend.
    #[serde(with = "header", skip_serializing_if = "Option::is_none")]
    pub host: Option<HeaderValue>,
    /// The statuses that are good. Default: 200 to 299.
    pub statuses: Vec<StatusRange>,
    /// A text that the body must hold. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// How much of the body is read, in bytes. Default: 64 KiB.
    pub max_body: usize,
    /// The port to ask, in place of that of the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether connections are kept from check to check. Default: a new one each time.
    pub reuse_connections: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            path: PathAndQuery::from_static("/"),
            method: Method::GET,
            host: None,
            statuses: vec![StatusRange(200..=299)],
            contains: None,
            max_body: 64 << 10,
            port: None,
            reuse_connections: false,
        }
    }
}

impl HttpConfig {
    pub(crate) fn check(&self, active: &ActiveConfig) -> HttpCheck {
        let statuses = self.statuses.iter().map(|range| range.0.clone());
        let mut check = HttpCheck::with_path(self.path.clone())
            .method(self.method.clone())
            .statuses(statuses)
            .max_body(self.max_body)
            .timeout(active.timeout)
            .rise(active.rise)
            .fall(active.fall);
        if let Some(host) = &self.host {
            check = check.host_header(host.clone());
        }
        if let Some(text) = &self.contains {
            check = check.contains(text.as_bytes());
        }
        if let Some(port) = self.port {
            check = check.port(port);
        }
        if self.reuse_connections {
            check = check.reuse_connections();
        }
        check
    }
}

/// Statuses of HTTP: one, written as a number, or a range, written as `"200-299"`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a range is all it is")]
pub struct StatusRange(pub RangeInclusive<u16>);

impl StatusRange {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let status = |text: &str| text.parse().ok().filter(|status| STATUSES.contains(status));
        let (first, last) = (status(first)?, status(last)?);
        (first <= last).then_some(Self(first..=last))
    }
}

impl Serialize for StatusRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last {
            serializer.serialize_u16(*first)
        } else {
            serializer.collect_str(&format_args!("{first}-{last}"))
        }
    }
}

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrRange)
    }
}

struct NumberOrRange;

impl Visitor<'_> for NumberOrRange {
    type Value = StatusRange;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status from 100 to 999, or a range such as \"200-299\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<StatusRange, E> {
        let status = u16::try_from(number).ok();
        match status.filter(|status| STATUSES.contains(status)) {
            Some(status) => Ok(StatusRange(status..=status)),
            None => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<StatusRange, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<StatusRange, E> {
        StatusRange::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// What the crate `http` reads from a text.
mod text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        value: &impl fmt::Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: fmt::Display>,
        D: Deserializer<'de>,
    {
        let written = String::deserialize(deserializer)?;
        written
            .parse()
            .map_err(|error| D::Error::custom(format_args!("{written:?}: {error}")))
    }
}

/// A path begins with a slash, which its type does not ask for.
mod path {
    use super::*;

    pub(super) use super::text::serialize;

    pub(super) fn deserialize<'de, D>(deserializer: D) -> Result<PathAndQuery, D::Error>
    where
        D: Deserializer<'de>,
    {
        let path: PathAndQuery = text::deserialize(deserializer)?;
        if path.as_str().starts_with('/') {
            return Ok(path);
        }
        let written = Unexpected::Str(path.as_str());
        Err(D::Error::invalid_value(
            written,
            &"a path, which begins with `/`",
        ))
    }
}

mod header {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        value: &Option<HeaderValue>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = value.as_ref().map(HeaderValue::to_str).transpose();
        text.map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D>(deserializer: D) -> Result<Option<HeaderValue>, D::Error>
    where
        D: Deserializer<'de>,
    {
        text::deserialize(deserializer).map(Some)
    }
}

const STATUSES: RangeInclusive<u16> = 100..=999;
