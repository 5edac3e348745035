//! Backends from a file, read again whenever it changes.

mod eye;

use std::error::Error;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, fs, io};

use async_trait::async_trait;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use self::eye::Eye;
use super::Discovery;
use crate::schema::{self, Fault};
use crate::{Backend, DiscoveryError, log};

/// A list of backends in a file.
///
/// ```toml
/// [[backends]]
/// addr = "10.0.0.1:80"
/// weight = 2
///
/// [[backends]]
/// addr = "unix:/run/spare.sock"
/// tier = 1
/// ```
///
/// or the same in JSON: `{"backends": [{"addr": "10.0.0.1:80", "weight": 2}]}`. A backend may have
/// the keys `addr`, `weight`, `tier`, `max_in_flight`, `max_fails`, `fail_timeout` and `ring_name`,
/// which mean what the fields of [`Backend`] mean; any other is an error. The list itself may not be left out, so that an
/// empty file is an error and not an empty pool.
///
/// Every change is noticed at once: a file written in place when its writer closes it (on systems
/// that tell), one moved over it, a symbolic link that points elsewhere, a removal. What the system
/// did not tell, such as on a network file system, is found after
/// [`Options::update_interval`](crate::Options::update_interval) at the latest.
///
/// A file that is away, half written or wrong is a [`FileError`] which says where it is wrong, and
/// the last good set serves on. One kind of half is not to be seen, a TOML file of `[[backends]]` that ends
/// between two of them: move a complete file over the old one, or set
/// [`Options::min_backends`](crate::Options::min_backends).
#[derive(Debug)]
pub struct File {
    reader: Arc<Reader>,
}

/// How a list of backends is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// TOML 1.1.
    Toml,
    /// JSON.
    Json,
}

/// Why there is no list.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The name of the file ends neither in `.toml` nor in `.json`.
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The folder of the file cannot be watched.
    Unwatchable {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: notify::Error,
    },
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is not what it should be.
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The byte of that line, counted from 1.
        column: usize,
        /// The path to the key, such as `backends[2].weight`; empty where the file is not even TOML
        /// or JSON.
        key: String,
        /// What is wrong.
        message: String,
    },
}

// ===== impl File =====

impl File {
    /// The file at `path`, whose name says in which format it is. Nothing is read as yet, and the
    /// file need not exist; its folder must.
    ///
    /// # Errors
    ///
    /// [`FileError::UnknownFormat`], [`FileError::Unwatchable`].
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        let path = path.into();
        match path.extension().and_then(OsStr::to_str) {
            Some("toml") => Self::with_format(path, Format::Toml),
            Some("json") => Self::with_format(path, Format::Json),
            _ => Err(FileError::UnknownFormat { path }),
        }
    }

    /// As [`new`](Self::new), in this format whatever its name is.
    ///
    /// # Errors
    ///
    /// [`FileError::Unwatchable`].
    pub fn with_format(path: impl Into<PathBuf>, format: Format) -> Result<Self, FileError> {
        let path = path.into();
        let eye = Eye::new(&path)?;
        let reader = Reader { path, format, eye };
        Ok(Self {
            reader: Arc::new(reader),
        })
    }
}

#[async_trait]
impl Discovery for File {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        let reader = Arc::clone(&self.reader);
        let read = spawn_blocking(move || reader.read()).await;
        read.map_err(DiscoveryError::new)?
            .map_err(DiscoveryError::new)
    }

    async fn changed(&self) {
        self.reader.eye.changed().await;
    }
}

// ===== impl Reader =====

/// The file, read where blocking is allowed.
#[derive(Debug)]
struct Reader {
    path: PathBuf,
    format: Format,
    eye: Eye,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    backends: Vec<Backend>,
}

impl Reader {
    fn read(&self) -> Result<Vec<Backend>, FileError> {
        // Before it reads, so that no change falls in between.
        if let Err(cause) = self.eye.open() {
            log::file_unwatched(&self.path, &cause);
        }
        let list = self.parse();
        if list.is_err() {
            self.eye.doubt();
        }
        list
    }

    fn parse(&self) -> Result<Vec<Backend>, FileError> {
        let bytes = fs::read(&self.path).map_err(|cause| FileError::Unreadable {
            path: self.path.clone(),
            cause,
        })?;
        let list: Result<List, Fault> = match self.format {
            Format::Json => schema::from_json(&bytes),
            Format::Toml => schema::from_toml(&bytes),
        };
        list.map(|list| list.backends)
            .map_err(|fault| FileError::Invalid {
                path: self.path.clone(),
                line: fault.line,
                column: fault.column,
                key: fault.key,
                message: fault.message,
            })
    }
}

// ===== impl FileError =====

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFormat { path } => write!(
                f,
                "the name {} ends neither in .toml nor in .json",
                path.display()
            ),
            Self::Unwatchable { folder, cause } => {
                write!(f, "{} cannot be watched: {cause}", folder.display())
            }
            Self::Unreadable { path, cause } => {
                write!(f, "{} cannot be read: {cause}", path.display())
            }
            Self::Invalid {
                path,
                line,
                column,
                key,
                message,
            } => {
                write!(f, "{}:{line}:{column}: ", path.display())?;
                if !key.is_empty() {
                    write!(f, "{key}: ")?;
                }
                f.write_str(message)
            }
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unwatchable { cause, .. } => Some(cause),
            Self::Unreadable { cause, .. } => Some(cause),
            Self::UnknownFormat { .. } | Self::Invalid { .. } => None,
        }
    }
}
