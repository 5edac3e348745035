//! `cargo xtask tidy`: the rules of the project that no compiler checks. Also a test.
//!
//! - no file over 500 lines and no function over 60, tests not counted;
//! - the imports and dependencies that `imports.rs` and `lock.rs` forbid;
//! - every folder of `test-data` has a README, and all of it stays under 8 MiB;
//! - what the documents show and name is there: examples are doc tests, tests and commands exist.

mod data;
mod docs;
mod imports;
mod lock;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Failure, nothing_left, root};
use crate::tidy::source::Source;

pub(crate) fn run(arguments: lexopt::Parser) -> Result<(), Failure> {
    nothing_left(arguments)?;
    check()
}

/// Checks this workspace and prints what is wrong, a line each.
pub(crate) fn check() -> Result<(), Failure> {
    let (files, violations) = violations(&root())?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    println!("tidy: {files} files, {} violations", violations.len());
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Failure::Exit(1))
    }
}

/// The number of source files, and every broken rule as `PATH:LINE: what`.
fn violations(root: &Path) -> Result<(usize, Vec<String>), Failure> {
    let sources = sources(root)?;
    let mut violations: Vec<_> = sources.iter().flat_map(sizes).collect();
    violations.extend(imports::violations(&sources));
    violations.extend(lock::violations(&read(&root.join("Cargo.lock"))?));
    violations.extend(data::violations(&root.join("test-data"))?);
    violations.extend(docs::violations(root)?);
    Ok((sources.len(), violations))
}

/// Every source file that is not all tests, in the order of the paths.
fn sources(root: &Path) -> Result<Vec<Source>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("xtask/src"), root.join("fuzz/src")];
    for member in entries(&root.join("crates"))? {
        folders.extend(["src", "examples", "benches"].map(|folder| member.join(folder)));
    }
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() || folder.ends_with("tests") {
            continue;
        }
        for entry in entries(&folder)? {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs")
                && !entry.ends_with("tests.rs")
            {
                files.push(entry);
            }
        }
    }
    files.sort();
    files.iter().map(|file| source(root, file)).collect()
}

fn source(root: &Path, file: &Path) -> Result<Source, Failure> {
    let path = file.strip_prefix(root).unwrap_or(file);
    let path = path.to_string_lossy().replace('\\', "/");
    Source::parse(&path, &read(file)?).map_err(|error| {
        let line = error.span().start().line;
        format!("{path}:{line}: {error}").into()
    })
}

fn sizes(source: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    let path = &source.path;
    if source.lines > MAX_FILE {
        violations.push(format!(
            "{path}: {} lines without tests, the limit is {MAX_FILE}",
            source.lines
        ));
    }
    for function in &source.functions {
        if function.lines > MAX_FUNCTION {
            violations.push(format!(
                "{path}:{}: fn {} has {} lines, the limit is {MAX_FUNCTION}",
                function.line, function.name, function.lines
            ));
        }
    }
    violations
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let paths =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    paths.map_err(|error| format!("{}: {error}", folder.display()).into())
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()).into())
}

const MAX_FILE: usize = 500;
const MAX_FUNCTION: usize = 60;

#[cfg(test)]
mod tests;
