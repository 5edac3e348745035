//! A file of backends.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::discovery::{File, Format};

/// A file of backends, which is watched: [`File`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileSource {
    /// Where it is; a relative path starts at the working directory of the process.
    pub path: PathBuf,
    /// How it is written. Default: as its name says, `.toml` or `.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
}

impl FileSource {
    /// A file whose name says how it is written.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            format: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let extension = self.path.extension().and_then(OsStr::to_str);
        if self.format.is_none() && !matches!(extension, Some("toml" | "json")) {
            return Err(format!(
                "the name {} ends neither in .toml nor in .json, and there is no `format`",
                self.path.display()
            ));
        }
        Ok(())
    }

    pub(super) fn discovery(self) -> Result<File, String> {
        let file = match self.format {
            Some(format) => File::with_format(self.path, format),
            None => File::new(self.path),
        };
        file.map_err(|error| error.to_string())
    }
}
