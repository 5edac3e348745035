//! Where backends are found.

use serde::{Deserialize, Deserializer, Serialize};

#[cfg(feature = "dns")]
mod dns;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "file")]
mod file;

#[cfg(feature = "dns")]
pub use self::dns::DnsSource;
#[cfg(feature = "etcd")]
pub use self::etcd::EtcdSource;
#[cfg(feature = "file")]
pub use self::file::FileSource;
use crate::{Backend, Discovery, Static};

/// A source of backends: a table with one key, the name of its kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// Backends that stand here, for a list whose order counts.
    Static(Vec<Backend>),
    /// A file: [`discovery::File`](crate::discovery::File).
    #[cfg(feature = "file")]
    #[cfg_attr(docsrs, doc(cfg(feature = "file")))]
    File(FileSource),
    /// DNS: [`discovery::Dns`](crate::discovery::Dns).
    #[cfg(feature = "dns")]
    #[cfg_attr(docsrs, doc(cfg(feature = "dns")))]
    Dns(DnsSource),
    /// etcd: [`discovery::Etcd`](crate::discovery::Etcd).
    #[cfg(feature = "etcd")]
    #[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
    Etcd(EtcdSource),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Static(a), Self::Static(b)) => are_like(a, b),
            #[cfg(feature = "file")]
            (Self::File(a), Self::File(b)) => a == b,
            #[cfg(feature = "dns")]
            (Self::Dns(a), Self::Dns(b)) => a == b,
            #[cfg(feature = "etcd")]
            (Self::Etcd(a), Self::Etcd(b)) => a == b,
            #[cfg(any(feature = "file", feature = "dns", feature = "etcd"))]
            _ => false,
        }
    }
}

impl Source {
    /// What is found without asking anybody.
    pub(super) fn fixed(&self) -> Option<&[Backend]> {
        match self {
            Self::Static(backends) => Some(backends),
            #[cfg(any(feature = "file", feature = "dns", feature = "etcd"))]
            _ => None,
        }
    }

    /// Says what is wrong with it, without asking anybody.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Static(_) => Ok(()),
            #[cfg(feature = "file")]
            Self::File(source) => source.check(),
            #[cfg(feature = "dns")]
            Self::Dns(source) => source.check(),
            #[cfg(feature = "etcd")]
            Self::Etcd(source) => source.check(),
        }
    }

    pub(super) fn discovery(self) -> Result<Box<dyn Discovery>, String> {
        Ok(match self {
            Self::Static(backends) => Box::new(Static::new(backends)),
            #[cfg(feature = "file")]
            Self::File(source) => Box::new(source.discovery()?),
            #[cfg(feature = "dns")]
            Self::Dns(source) => Box::new(source.discovery()?),
            #[cfg(feature = "etcd")]
            Self::Etcd(source) => Box::new(source.discovery()),
        })
    }
}

/// All kinds there are, those of missing features too: their lack is an error that says so.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Static(Vec<Backend>),
    File(FileSource),
    Dns(DnsSource),
    Etcd(EtcdSource),
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Static(backends) => Self::Static(backends),
            #[cfg(feature = "file")]
            Written::File(source) => Self::File(source),
            #[cfg(feature = "dns")]
            Written::Dns(source) => Self::Dns(source),
            #[cfg(feature = "etcd")]
            Written::Etcd(source) => Self::Etcd(source),
            #[cfg(not(feature = "file"))]
            Written::File(never) => match never {},
            #[cfg(not(feature = "dns"))]
            Written::Dns(never) => match never {},
            #[cfg(not(feature = "etcd"))]
            Written::Etcd(never) => match never {},
        })
    }
}

/// What stands in a place that needs a feature which is not there: it cannot be read.
#[cfg(not(all(feature = "http", feature = "file", feature = "dns", feature = "etcd")))]
macro_rules! missing {
    ($name:ident, $feature:literal) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum $name {}

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(serde::de::Error::custom(concat!(
                    "needs the Cargo feature `",
                    $feature,
                    "` of the crate `balancer`"
                )))
            }
        }
    };
}

#[cfg(not(feature = "http"))]
pub(super) use missing;

#[cfg(not(feature = "file"))]
missing!(FileSource, "file");
#[cfg(not(feature = "dns"))]
missing!(DnsSource, "dns");
#[cfg(not(feature = "etcd"))]
missing!(EtcdSource, "etcd");

/// Whether they are written alike.
pub(super) fn are_like(a: &[Backend], b: &[Backend]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b))
}
