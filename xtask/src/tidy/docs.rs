//! What the documents show and name is there.
//!
//! - A test that they name as proof exists: one that is gone proves nothing.
//! - A page with an example in Rust is among the doc tests of a crate, so that it compiles.
//! - Every block of code says its language, so that none is Rust unnoticed.
//! - A command `cargo xtask NAME` exists.

use std::path::{Path, PathBuf};

use crate::process::Failure;
use crate::tidy::{entries, read};

pub(crate) fn violations(root: &Path) -> Result<Vec<String>, Failure> {
    let included = included(root)?;
    let mut violations = Vec::new();
    for path in pages(root)? {
        let text = read(&root.join(&path))?;
        let name = path.to_string_lossy().replace('\\', "/");
        let found = Page {
            is_tested: included
                .iter()
                .any(|text| text.contains(&format!("/{name}\")"))),
        };
        let found = found.violations(&text).into_iter();
        violations.extend(found.map(|(line, what)| format!("{name}:{line}: {what}")));
        for (number, line) in (1..).zip(text.lines()) {
            for (source, function) in tests_named(line) {
                let path = root.join("crates").join(source);
                let text = if path.is_file() {
                    read(&path)?
                } else {
                    String::new()
                };
                if !text.contains(&format!("fn {function}(")) {
                    let what = format!("no test {function} in crates/{source}");
                    violations.push(format!("{name}:{number}: {what}"));
                }
            }
        }
    }
    Ok(violations)
}

/// What is known of a page.
struct Page {
    /// Whether the doc tests of a crate include it.
    is_tested: bool,
}

impl Page {
    /// What is wrong with its blocks and commands, by line.
    fn violations(&self, text: &str) -> Vec<(usize, String)> {
        let mut violations = Vec::new();
        let mut is_inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                is_inside = !is_inside;
                if is_inside && language.is_empty() {
                    violations.push((number, "a block of code without a language".to_owned()));
                }
                if is_inside && language.starts_with("rust") && !self.is_tested {
                    let what =
                        "an example in Rust, on a page that no lib.rs includes in its doc tests";
                    violations.push((number, what.to_owned()));
                }
                if is_inside && language.split(',').any(|word| word == "ignore") {
                    violations.push((number, "an example that is not compiled".to_owned()));
                }
            }
            for command in commands_named(line) {
                if !crate::COMMANDS.iter().any(|known| known.name == command) {
                    violations.push((number, format!("no command `cargo xtask {command}`")));
                }
            }
        }
        violations
    }
}

/// The pages, by their paths from the root.
fn pages(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut pages = vec![
        "README.md".into(),
        "CONTRIBUTING.md".into(),
        "fuzz/README.md".into(),
    ];
    for file in entries(&root.join("docs"))? {
        if file.extension().is_some_and(|extension| extension == "md") {
            pages.push(file.strip_prefix(root).unwrap_or(&file).to_owned());
        }
    }
    pages.retain(|page| root.join(page).is_file());
    pages.sort();
    Ok(pages)
}

/// The crate roots, which say what is included.
fn included(root: &Path) -> Result<Vec<String>, Failure> {
    let crates = entries(&root.join("crates"))?;
    let roots = crates.iter().map(|folder| folder.join("src/lib.rs"));
    roots
        .filter(|file| file.is_file())
        .map(|file| read(&file))
        .collect()
}

/// The `` `CRATE/PATH.rs::TEST` `` of one line.
fn tests_named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
        .filter(|(source, _)| source.ends_with(".rs"))
}

/// The NAMEs of `cargo xtask NAME` in one line.
fn commands_named(line: &str) -> impl Iterator<Item = &str> {
    line.split("cargo xtask ").skip(1).filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(rest.len());
        (end > 0 && &rest[..end] != crate::HELP).then_some(&rest[..end])
    })
}
