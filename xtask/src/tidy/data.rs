//! Recorded data: explained, and small enough to clone.

use std::fs;
use std::path::Path;

use crate::process::Failure;
use crate::tidy::entries;

pub(crate) fn violations(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut violations = Vec::new();
    let mut bytes = 0;
    for entry in entries(folder)? {
        if entry.is_dir() && !entry.join("README.md").is_file() {
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            violations.push(format!("test-data/{name}: no README.md says what it is"));
        }
        bytes += size(&entry)?;
    }
    if bytes >= MAX_BYTES {
        violations.push(format!(
            "test-data: {bytes} bytes, the limit is {MAX_BYTES}"
        ));
    }
    violations.sort();
    Ok(violations)
}

fn size(path: &Path) -> Result<u64, Failure> {
    if path.is_dir() {
        return entries(path)?.iter().map(|entry| size(entry)).sum();
    }
    let metadata = fs::metadata(path);
    Ok(metadata
        .map_err(|error| format!("{}: {error}", path.display()))?
        .len())
}

/// 8 MiB.
const MAX_BYTES: u64 = 8 << 20;
