//! Why etcd has no answer.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why there is no answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EtcdError {
    /// Without a prefix, every key of the store would have to be a backend.
    EmptyPrefix,
    /// The client cannot be made, or a request failed.
    Client(Arc<etcd_client::Error>),
    /// There was no answer in time.
    TimedOut {
        /// The time.
        after: Duration,
    },
    /// A value is no backend.
    Invalid {
        /// The key in etcd.
        key: String,
        /// The line of the value, counted from 1.
        line: usize,
        /// The byte of that line, counted from 1.
        column: usize,
        /// The field of the backend; empty where the value is not even JSON.
        field: String,
        /// What is wrong.
        message: String,
    },
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPrefix => f.write_str("the prefix is empty"),
            Self::Client(cause) => write!(f, "etcd: {cause}"),
            Self::TimedOut { after } => write!(f, "etcd: no answer within {after:?}"),
            Self::Invalid {
                key,
                line,
                column,
                field,
                message,
            } => {
                write!(f, "{key}:{line}:{column}: ")?;
                if !field.is_empty() {
                    write!(f, "{field}: ")?;
                }
                f.write_str(message)
            }
        }
    }
}

impl Error for EtcdError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Client(cause) => Some(&**cause),
            _ => None,
        }
    }
}

impl From<etcd_client::Error> for EtcdError {
    fn from(cause: etcd_client::Error) -> Self {
        Self::Client(Arc::new(cause))
    }
}
