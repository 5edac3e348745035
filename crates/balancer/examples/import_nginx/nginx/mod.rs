//! Reads the upstream blocks of an nginx configuration. Text in, facts out: no I/O, no other
//! crate.
//!
//! [`grammar`] knows words, quotes and blocks, and no directive; [`upstream`] and [`server`] know
//! what stands in an upstream block, and what of it can be honoured.

pub(crate) mod grammar;
pub(crate) mod server;
pub(crate) mod upstream;

use std::fmt;

pub(crate) use self::upstream::Upstream;

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Which file, in the order in which they were read; 0 is the one that was asked for.
    pub(crate) file: usize,
    /// Counted from 1.
    pub(crate) line: usize,
    /// Counted from 1, in bytes.
    pub(crate) column: usize,
}

/// Something to be said of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) at: Place,
    pub(crate) message: String,
}

impl Located {
    pub(crate) fn new(at: Place, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, .. } = self.at;
        write!(f, "{line}:{column}: {}", self.message)
    }
}

/// The upstream blocks of a text, in their order. What of a block cannot be honoured is in its
/// [`refusals`](Upstream::refusals).
///
/// # Errors
///
/// Where the text is not in nginx's grammar.
pub(crate) fn parse(text: &str) -> Result<Vec<Upstream>, Located> {
    let tree = grammar::parse(text, 0)?;
    Ok(upstream::all(&tree))
}
