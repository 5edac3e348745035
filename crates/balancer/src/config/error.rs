//! Why a text is no pool, and why a pool is no text.

use std::error::Error;
use std::fmt;

use crate::ConfigError;
use crate::schema::Fault;

/// Why a text is no pool, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// The line, counted from 1. `None` if it is no single place that is wrong.
    pub line: Option<usize>,
    /// The byte of that line, counted from 1.
    pub column: Option<usize>,
    /// The path to the key, such as `backends[2].weight`; empty where the text is not even TOML or
    /// JSON.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl From<Fault> for ParseError {
    fn from(fault: Fault) -> Self {
        Self {
            line: Some(fault.line),
            column: Some(fault.column),
            key: fault.key,
            message: fault.message,
        }
    }
}

/// What is wrong with a config that could be read.
impl From<ConfigError> for ParseError {
    fn from(error: ConfigError) -> Self {
        let (key, message) = match error {
            ConfigError::Invalid { key, message } => (key, message),
            ConfigError::Selector(cause) => ("algorithm".to_owned(), with_causes(&cause)),
            error => (String::new(), error.to_string()),
        };
        Self {
            line: None,
            column: None,
            key,
            message,
        }
    }
}

fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl Error for ParseError {}

/// Why a pool cannot be written: it holds what no text can, such as a path that is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    message: String,
}

impl WriteError {
    pub(super) fn new(cause: &dyn fmt::Display) -> Self {
        Self {
            message: cause.to_string(),
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for WriteError {}
