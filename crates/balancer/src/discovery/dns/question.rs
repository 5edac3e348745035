//! What to ask for, and the names that come with the answer.

use std::sync::Arc;

use hickory_resolver::proto::rr::Name;

/// What to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// Every address of a host is a backend of weight 1.
    Host {
        /// The name of the host. With a dot at its end it is complete; without, the search list of
        /// the system applies.
        name: String,
        /// The port, which such records do not tell.
        port: u16,
    },
    /// Every address of every target of the SRV records of a service is a backend.
    ///
    /// The lowest priority is tier 0, the next is tier 1, and so on. A weight counts for each
    /// address of its target, and 0 counts as 1: RFC 2782 wants such targets to be chosen seldom,
    /// and here 0 is never. A target that certainly has no address is passed over, unless there is
    /// no other.
    Service {
        /// The name of the service, such as `_http._tcp.example.com`.
        name: String,
    },
}

/// The name under which a backend was found: the host, or the target of an SRV record. Without a
/// dot at its end, as TLS and HTTP want it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName(Arc<str>);

impl Question {
    /// The addresses of a host, with this port.
    #[must_use]
    pub fn host(name: impl Into<String>, port: u16) -> Self {
        let name = name.into();
        Self::Host { name, port }
    }

    /// The targets of a service.
    #[must_use]
    pub fn service(name: impl Into<String>) -> Self {
        Self::Service { name: name.into() }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Host { name, .. } | Self::Service { name } => name,
        }
    }
}

impl HostName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn new(name: &Name) -> Self {
        let text = name.to_utf8();
        Self(text.strip_suffix('.').unwrap_or(&text).into())
    }
}
