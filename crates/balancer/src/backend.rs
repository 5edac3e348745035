//! What discovery finds: an address, and what is to be known of it.

use std::any::TypeId;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use selection::Identity;

use crate::ParseAddressError;

/// Where a backend listens. It is also what a backend *is*: everything else may change under it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Address {
    /// An internet address and port.
    Inet(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The identity by which selectors know this address: the address itself, or `unix:` and the
    /// path. A path that is not UTF-8 is written with escapes, so that no two paths meet.
    #[must_use]
    pub fn identity(&self) -> Identity {
        match self {
            Self::Inet(addr) => Identity::Inet(*addr),
            Self::Unix(_) => Identity::Name(self.to_string().into()),
        }
    }

    /// The internet address, if it is one.
    #[must_use]
    pub fn as_inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(addr) => Some(*addr),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Self {
        Self::Inet(addr)
    }
}

impl From<PathBuf> for Address {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

impl FromStr for Address {
    type Err = ParseAddressError;

    /// `10.0.0.1:80`, `[::1]:80` or `unix:/run/a.sock`. Names are not resolved.
    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        match text.strip_prefix(UNIX) {
            Some("") => Err(ParseAddressError::new(text)),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Inet)
                .map_err(|_| ParseAddressError::new(text)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(addr) => addr.fmt(f),
            Self::Unix(path) => match path.to_str() {
                Some(path) => write!(f, "{UNIX}{path}"),
                None => write!(f, "{UNIX}{path:?}"),
            },
        }
    }
}

/// One backend: its address is its identity, the rest are attributes.
///
/// Changing an attribute from one discovery to the next keeps health, the administrative state and
/// the requests in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// Where it listens, and what it is.
    pub addr: Address,
    /// Its share relative to the other backends of its tier. **0 means drained**: a member that is
    /// never picked.
    pub weight: u32,
    /// Tier 0 serves first; a higher tier only while no backend of a lower one can (nginx
    /// `backup`).
    pub tier: u8,
    /// The most requests it may have in flight through this balancer; a full backend is passed
    /// over (nginx `max_conns`). Default: no limit.
    pub max_in_flight: Option<u32>,
    /// How many failures take it out, in place of [`MaxFails::max_fails`](crate::MaxFails), and
    /// its weight in turns, in place of the selector's; 0 = never (nginx `max_fails`). Default:
    /// what these say. Where the rule is not [`MaxFails`](crate::MaxFails) only the selector looks
    /// at it.
    pub max_fails: Option<u32>,
    /// For how long, in place of [`MaxFails::fail_timeout`](crate::MaxFails) (nginx
    /// `fail_timeout`). Default: what that says.
    pub fail_timeout: Option<Duration>,
    /// The text by which the ring knows it, in place of the address. Give it one that outlives the
    /// address and its keys stay with it.
    pub ring_name: Option<Arc<str>>,
    /// Whatever the user wants to find again at the pick, by type.
    ///
    /// Values of [`with_ext`](Self::with_ext) are compared from one discovery to the next. One that
    /// is put in here by other means cannot be, and counts as new every time.
    pub ext: Extensions,
    /// How the values in `ext` compare, of those that do.
    compared: Vec<Compared>,
}

/// How the values of one type compare.
#[derive(Clone, Copy, Debug)]
struct Compared {
    of: TypeId,
    /// Whether both have one, and the two are equal.
    is_same: fn(&Extensions, &Extensions) -> bool,
}

impl Backend {
    /// A backend of weight 1 in tier 0.
    #[must_use]
    pub fn new(addr: impl Into<Address>) -> Self {
        Self {
            addr: addr.into(),
            weight: 1,
            tier: 0,
            max_in_flight: None,
            max_fails: None,
            fail_timeout: None,
            ring_name: None,
            ext: Extensions::new(),
            compared: Vec::new(),
        }
    }

    /// With this weight; 0 = drained.
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// In this tier.
    #[must_use]
    pub fn with_tier(self, tier: u8) -> Self {
        Self { tier, ..self }
    }

    /// With at most this many requests in flight.
    #[must_use]
    pub fn with_max_in_flight(self, max: u32) -> Self {
        Self {
            max_in_flight: Some(max),
            ..self
        }
    }

    /// Taken out by this many failures: [`max_fails`](Self::max_fails).
    #[must_use]
    pub fn with_max_fails(self, max_fails: u32) -> Self {
        Self {
            max_fails: Some(max_fails),
            ..self
        }
    }

    /// Taken out for so long: [`fail_timeout`](Self::fail_timeout).
    #[must_use]
    pub fn with_fail_timeout(self, fail_timeout: Duration) -> Self {
        Self {
            fail_timeout: Some(fail_timeout),
            ..self
        }
    }

    /// With this text on the ring.
    #[must_use]
    pub fn with_ring_name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            ring_name: Some(name.into()),
            ..self
        }
    }

    /// With a value of the user's own, found again as `backend.ext.get::<T>()`.
    ///
    /// A discovery that finds the same backends with equal values has found nothing new. What
    /// cannot be compared goes into [`ext`](Self::ext) as it is.
    #[must_use]
    pub fn with_ext<T: Clone + PartialEq + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.ext.insert(value);
        let of = TypeId::of::<T>();
        if self.compared.iter().all(|compared| compared.of != of) {
            let is_same = |a: &Extensions, b: &Extensions| {
                a.get::<T>().is_some_and(|value| b.get() == Some(value))
            };
            self.compared.push(Compared { of, is_same });
        }
        self
    }

    /// Whether a selector built for `other` is right for this one too.
    pub(crate) fn selects_like(&self, other: &Self) -> bool {
        let selects = |backend: &Self| (backend.weight, backend.tier, backend.max_fails);
        selects(self) == selects(other)
            && self.addr == other.addr
            && self.ring_name == other.ring_name
    }

    /// Whether it is the same in everything but `ext`.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.selects_like(other)
            && self.max_in_flight == other.max_in_flight
            && self.fail_timeout == other.fail_timeout
    }

    /// Whether `ext` is certainly the same: every value in either can be compared, and is equal.
    pub(crate) fn has_ext_of(&self, other: &Self) -> bool {
        let is_compared = |backend: &Self| backend.ext.len() == backend.compared.len();
        is_compared(self)
            && is_compared(other)
            && self.compared.len() == other.compared.len()
            && self
                .compared
                .iter()
                .all(|compared| (compared.is_same)(&self.ext, &other.ext))
    }
}

const UNIX: &str = "unix:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_written() {
        for text in ["10.0.0.1:80", "[2001:db8::1]:443", "unix:/run/a.sock"] {
            let addr: Address = text.parse().unwrap();
            assert_eq!(addr.to_string(), text);
            assert_eq!(addr.identity(), Identity::from(text));
        }
    }

    #[test]
    fn what_is_no_address_is_named_in_the_error() {
        for text in ["", "10.0.0.1", "example.com:80", "unix:", "10.0.0.1:99999"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn values_are_the_same_only_if_all_of_them_compare() {
        let plain = || Backend::new(SocketAddr::from(([10, 0, 0, 1], 80)));
        let east = || plain().with_ext("west").with_ext("east");
        assert!(plain().has_ext_of(&plain()));
        assert!(east().has_ext_of(&east()));
        assert!(
            east()
                .with_ext(7)
                .has_ext_of(&plain().with_ext(7).with_ext("east"))
        );
        for other in [
            plain(),
            plain().with_ext("west"),
            plain().with_ext(7),
            east().with_ext(7),
        ] {
            assert!(!east().has_ext_of(&other) && !other.has_ext_of(&east()));
        }
        let mut opaque = east();
        opaque.ext.insert(7);
        assert!(!opaque.has_ext_of(&opaque.clone()));
        opaque.ext.remove::<&str>();
        assert!(!opaque.has_ext_of(&opaque.clone()) && !opaque.has_ext_of(&east()));
    }

    #[cfg(unix)]
    #[test]
    fn paths_that_are_not_utf8_stay_apart() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let address = |bytes| Address::Unix(OsStr::from_bytes(bytes).into());
        assert_ne!(
            address(b"/run/\xfe").identity(),
            address(b"/run/\xff").identity()
        );
    }
}
