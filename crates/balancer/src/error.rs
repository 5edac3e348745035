//! Everything that can go wrong, as facts with values.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selection::BuildError;

/// An error and all that it came from, in one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        match self.0.source() {
            Some(source) => write!(f, ": {}", Chain(source)),
            None => Ok(()),
        }
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseAddressError {
    text: String,
}

impl ParseAddressError {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
        }
    }
}

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is neither an IP address with a port nor `unix:` and a path",
            self.text
        )
    }
}

impl Error for ParseAddressError {}

/// Why a load balancer could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The selector refuses its config.
    Selector(BuildError),
    /// A period of no length.
    ZeroDuration {
        /// The option that holds it.
        option: &'static str,
    },
    /// An option beyond its limits.
    OutOfRange {
        /// The option that holds it.
        option: &'static str,
        /// What was given.
        value: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// Something in a configuration of a whole pool, beyond what one option can tell.
    Invalid {
        /// The path to the key, such as `discovery[0].file`.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// An option that is not that of the health which is shared.
    NotShared {
        /// The option.
        option: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selector(_) => f.write_str("the selector cannot be built"),
            Self::ZeroDuration { option } => write!(f, "{option} is 0, it must be longer"),
            Self::OutOfRange {
                option,
                value,
                min,
                max,
            } => write!(f, "{option} is {value}, the limits are {min} to {max}"),
            Self::Invalid { key, message } => write!(f, "{key}: {message}"),
            Self::NotShared { option } => {
                write!(f, "{option} is another than that of the shared health")
            }
        }
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Selector(error) => Some(error),
            _ => None,
        }
    }
}

impl From<BuildError> for ConfigError {
    fn from(error: BuildError) -> Self {
        Self::Selector(error)
    }
}

/// Why a discovery has no answer. An empty answer is not an error.
#[derive(Clone, Debug)]
pub struct DiscoveryError(Arc<dyn Error + Send + Sync>);

impl DiscoveryError {
    /// From an error of the user's own, or a text.
    #[must_use]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into().into())
    }

    /// What it was made from. Where that is an error of [`discovery`](crate::discovery), such as
    /// `FileError` or `DnsError`, `downcast_ref` gets at its facts.
    #[must_use]
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for DiscoveryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Why an update was not applied. What served before it serves on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum UpdateError {
    /// Discovery has no answer.
    Discovery(DiscoveryError),
    /// A selector cannot be built over what was discovered.
    Selector(BuildError),
    /// Code of the user's own panicked.
    Panicked {
        /// Which part of it.
        part: Part,
        /// What it said.
        message: String,
    },
    /// Fewer backends than [`Options::min_backends`](crate::Options::min_backends).
    TooFewBackends {
        /// How many were discovered.
        found: usize,
        /// How many there must be.
        min: usize,
    },
    /// The runtime is shutting down.
    Stopped,
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discovery(_) => f.write_str("discovery has no answer"),
            Self::Selector(_) => f.write_str("no selector can be built over what was discovered"),
            Self::Panicked { part, message } => write!(f, "{part} panicked: {message}"),
            Self::TooFewBackends { found, min } => {
                write!(f, "{found} backends discovered, the minimum is {min}")
            }
            Self::Stopped => f.write_str("the runtime is shutting down"),
        }
    }
}

impl Error for UpdateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Discovery(error) => Some(error),
            Self::Selector(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DiscoveryError> for UpdateError {
    fn from(error: DiscoveryError) -> Self {
        Self::Discovery(error)
    }
}

impl From<BuildError> for UpdateError {
    fn from(error: BuildError) -> Self {
        Self::Selector(error)
    }
}

/// The user's code that an update runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// `Discovery::discover`.
    Discovery,
    /// The build of a selector.
    Selector,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovery => "discovery",
            Self::Selector => "the selector's build",
        })
    }
}

/// Why a health check did not pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CheckError {
    /// It found a reason.
    Failed(Arc<dyn Error + Send + Sync>),
    /// It did not end in time.
    TimedOut {
        /// The time it had.
        after: Duration,
    },
}

impl CheckError {
    /// From an error of the user's own, or a text.
    #[must_use]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(cause.into().into())
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(cause) => cause.fmt(f),
            Self::TimedOut { after } => write!(f, "no result within {after:?}"),
        }
    }
}

impl Error for CheckError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(cause) => cause.source(),
            Self::TimedOut { .. } => None,
        }
    }
}
