//! Everything that can be wrong with a set of nodes or a config.

use std::error::Error;
use std::fmt;

/// Why a selector could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// More nodes than can be numbered.
    TooManyNodes {
        /// The number of nodes given.
        nodes: usize,
        /// The most that can be numbered.
        max: usize,
    },
    /// A value of a config is not among those allowed.
    OutOfRange {
        /// The field of the config.
        field: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// The ring could not be built.
    Ring(ketama::BuildError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyNodes { nodes, max } => write!(f, "{nodes} nodes, the limit is {max}"),
            Self::OutOfRange {
                field,
                value,
                allowed,
            } => write!(f, "{field} is {value}, allowed is {allowed}"),
            Self::Ring(_) => f.write_str("the ring cannot be built"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Ring(error) => Some(error),
            Self::TooManyNodes { .. } | Self::OutOfRange { .. } => None,
        }
    }
}

impl From<ketama::BuildError> for BuildError {
    fn from(error: ketama::BuildError) -> Self {
        Self::Ring(error)
    }
}
