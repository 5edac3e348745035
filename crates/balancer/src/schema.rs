//! How backends are written down: one schema for all places.
//!
//! A backend is a table (TOML) or an object (JSON) of these keys, and no others:
//!
//! | key | value | if left out |
//! |---|---|---|
//! | `addr` | `"10.0.0.1:80"`, `"[::1]:80"` or `"unix:/run/a.sock"` | an error |
//! | `weight` | 0 to 4294967295; 0 = drained | 1 |
//! | `tier` | 0 to 255 | 0 |
//! | `max_in_flight` | 0 to 4294967295 | no limit |
//! | `max_fails` | 0 to 4294967295; 0 = never out | that of the pool |
//! | `fail_timeout` | a time, such as `"10s"` | that of the pool |
//! | `ring_name` | a text | the address |

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::{Address, Backend};

/// Written as a text, as [`Address`]'s `FromStr` reads it. A path that is not UTF-8 cannot be
/// written.
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unix(path) if path.to_str().is_none() => Err(ser::Error::custom(format_args!(
                "the path {path:?} is not UTF-8"
            ))),
            _ => serializer.collect_str(self),
        }
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Everything but [`ext`](Backend::ext), whose values are of any type; what is at its default is
/// left out.
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl Serialize for Backend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = Entry {
            addr: self.addr.clone(),
            weight: self.weight,
            tier: self.tier,
            max_in_flight: self.max_in_flight,
            max_fails: self.max_fails,
            fail_timeout: self.fail_timeout,
            ring_name: self.ring_name.as_deref().map(str::to_owned),
        };
        entry.serialize(serializer)
    }
}

/// A table of `addr` and, if they are not at their defaults, `weight`, `tier`, `max_in_flight`,
/// `max_fails`, `fail_timeout` and `ring_name`. Any other key is an error.
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl<'de> Deserialize<'de> for Backend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entry = Entry::deserialize(deserializer)?;
        let mut backend = Self::new(entry.addr)
            .with_weight(entry.weight)
            .with_tier(entry.tier);
        backend.max_in_flight = entry.max_in_flight;
        backend.max_fails = entry.max_fails;
        backend.fail_timeout = entry.fail_timeout;
        backend.ring_name = entry.ring_name.map(Into::into);
        Ok(backend)
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename = "backend")]
struct Entry {
    addr: Address,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    tier: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_fails: Option<u32>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::config::period::maybe"
    )]
    fail_timeout: Option<std::time::Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ring_name: Option<String>,
}

/// Where a text is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Counted from 1, in bytes.
    pub(crate) column: usize,
    /// The path to the key, such as `backends[2].weight`; empty where the text is not even TOML or
    /// JSON.
    pub(crate) key: String,
    pub(crate) message: String,
}

/// Reads TOML.
pub(crate) fn from_toml<T: de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| fault_at(bytes, error.valid_up_to(), String::new(), &error))?;
    let fault = |key, error: &toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        fault_at(bytes, start, key, &error.message())
    };
    let parsed = toml::Deserializer::parse(text).map_err(|error| fault(String::new(), &error))?;
    serde_path_to_error::deserialize(parsed).map_err(|error| fault(key_of(&error), error.inner()))
}

fn fault_at(text: &[u8], start: usize, key: String, message: &dyn std::fmt::Display) -> Fault {
    let before = text.get(..start).unwrap_or(text);
    let newlines = before.iter().filter(|&&byte| byte == b'\n').count();
    let line = before.rsplit(|&byte| byte == b'\n').next();
    Fault {
        line: newlines + 1,
        column: line.map_or(0, <[u8]>::len) + 1,
        key,
        message: message.to_string(),
    }
}

/// Reads JSON.
pub(crate) fn from_json<T: de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let fault = |key: String, error: &serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let place = format!(" at line {line} column {column}");
        Fault {
            line,
            column,
            // A text that ends too soon is at no key in particular.
            key: if error.is_data() { key } else { String::new() },
            message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    };
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut parser)
        .map_err(|error| fault(key_of(&error), error.inner()))?;
    parser.end().map_err(|error| fault(String::new(), &error))?;
    Ok(value)
}

fn key_of<E>(error: &serde_path_to_error::Error<E>) -> String {
    match error.path().to_string() {
        path if path == "." => String::new(),
        path => path,
    }
}

fn one() -> u32 {
    1
}

fn is_one(weight: &u32) -> bool {
    *weight == 1
}

fn is_zero(tier: &u8) -> bool {
    *tier == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_written_without_defaults_and_read_back() {
        let plain = Backend::new("10.0.0.1:80".parse::<Address>().unwrap());
        let full = Backend::new("unix:/run/a.sock".parse::<Address>().unwrap())
            .with_weight(0)
            .with_tier(2)
            .with_max_in_flight(7)
            .with_max_fails(0)
            .with_fail_timeout(std::time::Duration::from_millis(1500))
            .with_ring_name("a");
        for (backend, expected) in [
            (plain, r#"{"addr":"10.0.0.1:80"}"#),
            (
                full,
                r#"{"addr":"unix:/run/a.sock","weight":0,"tier":2,"max_in_flight":7,"max_fails":0,"fail_timeout":"1s 500ms","ring_name":"a"}"#,
            ),
        ] {
            let text = serde_json::to_string(&backend).unwrap();
            assert_eq!(text, expected);
            let read: Backend = serde_json::from_str(&text).unwrap();
            assert!(read.is_like(&backend), "{read:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_not_utf8_cannot_be_written() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let path = OsStr::from_bytes(b"/run/\xfe").to_owned();
        let error = serde_json::to_string(&Address::Unix(path.into())).unwrap_err();
        assert!(
            error.to_string().contains(r#""/run/\xFE" is not UTF-8"#),
            "{error}"
        );
    }
}
