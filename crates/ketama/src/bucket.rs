//! One server of a ring: the text that is hashed, and its weight.
//!
//! This is the only place that knows how nginx cuts a server line into host and port.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::net::SocketAddr;

#[cfg(feature = "serde")]
use crate::format::WrittenBucket;

/// A server on the ring: its identity text and its weight.
///
/// The ring hashes text, not addresses. The rule is that of nginx
/// (`ngx_http_upstream_hash_module.c`, `ngx_http_upstream_init_chash`):
///
/// - a text that starts with `unix:`, in any case, is all host: the rest of it, with an empty port;
/// - otherwise, if the text ends in a colon and digits, those digits are the port and what stands
///   before the last colon is the host. IPv6 addresses keep their brackets;
/// - otherwise the whole text is the host and the port is empty. A missing port is *not* port 80.
///
/// The text is taken as written: `[2001:db8:0::1]:80` and `[2001:db8::1]:80` are two servers.
///
/// With the feature `serde` it is written as a map of `addr`, `text` or both, and `weight`, which
/// is 1 if left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "WrittenBucket", into = "WrittenBucket")
)]
pub struct Bucket {
    text: Box<str>,
    addr: Option<SocketAddr>,
    weight: u32,
}

impl Bucket {
    /// A server named by its address, as in the nginx line `server ADDR weight=WEIGHT;`.
    ///
    /// A weight of 0 is a drained server: it has no points on the ring.
    #[must_use]
    pub fn new(addr: SocketAddr, weight: u32) -> Self {
        // `SocketAddr` prints IPv6 in brackets and in the canonical form of RFC 5952.
        Self {
            text: addr.to_string().into(),
            addr: Some(addr),
            weight,
        }
    }

    /// A server named by any text, for example `backend.test`, `192.0.2.1` or `unix:/run/a.sock`.
    ///
    /// Use it for a nginx line whose text is not a canonical address, and for a name that stays
    /// the same when the server moves to another address.
    #[must_use]
    pub fn from_text(text: impl Into<Box<str>>, weight: u32) -> Self {
        Self {
            text: text.into(),
            addr: None,
            weight,
        }
    }

    /// The same server under another identity text; its address, if it has one, stays.
    ///
    /// pingora hashes IPv6 addresses without brackets: `2001:db8::1:80` as the text of
    /// `[2001:db8::1]:80` gives its points.
    #[must_use]
    pub fn with_text(self, text: impl Into<Box<str>>) -> Self {
        Self {
            text: text.into(),
            ..self
        }
    }

    /// The same server with another weight.
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The identity text, as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The address, if the bucket was made from one.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// The weight: a share relative to the other buckets; 0 = no points.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The host and port parts that are hashed; see the rule above.
    #[must_use]
    pub fn host_and_port(&self) -> (&str, &str) {
        let text = &*self.text;
        if let Some((scheme, path)) = text.split_at_checked(UNIX.len())
            && scheme.eq_ignore_ascii_case(UNIX)
        {
            return (path, "");
        }
        let before_digits = text.trim_end_matches(|c: char| c.is_ascii_digit());
        match before_digits.strip_suffix(':') {
            Some(host) => (host, &text[before_digits.len()..]),
            None => (text, ""),
        }
    }
}

const UNIX: &str = "unix:";

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (&str, &str) {
        // Leaking is fine in a test; the rows below read better for it.
        Box::leak(Box::new(Bucket::from_text(text, 1))).host_and_port()
    }

    #[test]
    fn text_is_cut_as_nginx_cuts_it() {
        for (text, host, port) in [
            ("127.0.0.1:7777", "127.0.0.1", "7777"),
            ("192.0.2.1", "192.0.2.1", ""),
            ("[2001:db8::1]:80", "[2001:db8::1]", "80"),
            ("[2001:db8::1]", "[2001:db8::1]", ""),
            ("backend.test:080", "backend.test", "080"),
            ("backend.test", "backend.test", ""),
            ("unix:/tmp/a.sock", "/tmp/a.sock", ""),
            ("UNIX:/tmp/a.sock:81", "/tmp/a.sock:81", ""),
            ("shard-17", "shard-17", ""),
            ("shard:", "shard", ""),
            (":80", "", "80"),
            ("80", "80", ""),
            ("", "", ""),
            ("é", "é", ""),
        ] {
            assert_eq!(parts(text), (host, port), "{text:?}");
        }
    }

    #[test]
    fn address_is_written_with_brackets() {
        let v6 = Bucket::new("[2001:db8:0::1]:80".parse().unwrap(), 3);
        assert_eq!(v6.text(), "[2001:db8::1]:80");
        assert_eq!(v6.host_and_port(), ("[2001:db8::1]", "80"));
        assert_eq!(v6.weight(), 3);
    }
}
