//! The documents name tests as proof; a test that is gone proves nothing.

use std::path::Path;

use crate::process::Failure;
use crate::tidy::{entries, read};

pub(crate) fn violations(root: &Path) -> Result<Vec<String>, Failure> {
    let mut violations = Vec::new();
    for file in entries(&root.join("docs"))? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with(".md") {
            continue;
        }
        for (number, line) in (1..).zip(read(&file)?.lines()) {
            for (source, function) in tests_named(line) {
                let path = root.join("crates").join(source);
                let text = if path.is_file() {
                    read(&path)?
                } else {
                    String::new()
                };
                if !text.contains(&format!("fn {function}(")) {
                    let what = format!("no test {function} in crates/{source}");
                    violations.push(format!("docs/{name}:{number}: {what}"));
                }
            }
        }
    }
    Ok(violations)
}

/// The `` `CRATE/PATH.rs::TEST` `` of one line.
fn tests_named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
        .filter(|(source, _)| source.ends_with(".rs"))
}
