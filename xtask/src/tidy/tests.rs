//! This workspace keeps the rules, and every rule catches what breaks it.

use std::fs;
use std::path::PathBuf;

use super::*;

#[test]
fn this_workspace_is_tidy() {
    let (files, violations) = violations(&root()).unwrap();
    assert!(files > 20, "only {files} files found");
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

fn parse(path: &str, text: &str) -> Source {
    Source::parse(path, text).unwrap()
}

/// The lines at which `text`, as the file `path`, names what it must not.
fn named(path: &str, text: &str) -> Vec<usize> {
    let lib = parse(
        "crates/selection/src/lib.rs",
        "mod consistent; mod weighted; mod node;\n\
         pub use consistent::Consistent; pub use weighted::{FnvHash as Fnv}; pub use node::Node;",
    );
    let others = ["consistent", "weighted"].map(|name| {
        let path = format!("crates/selection/src/{name}.rs");
        parse(&path, "impl<A> crate::Selector for S<A> {}")
    });
    let sources: Vec<_> = [lib, parse(path, text)].into_iter().chain(others).collect();
    let mut lines: Vec<_> = imports::violations(&sources)
        .iter()
        .map(|violation| violation.split(':').nth(1).unwrap().parse().unwrap())
        .collect();
    lines.dedup();
    lines
}

#[test]
fn a_long_file_is_caught_and_tests_are_free() {
    let code = "const A: u8 = 0;\n".repeat(MAX_FILE);
    let tests = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
    let test_fn = "#[test]\nfn f() {\n}\n";
    let fine = parse("a.rs", &format!("{code}{tests}{test_fn}"));
    assert_eq!((fine.lines, sizes(&fine).len()), (500, 0));
    let long = parse("a.rs", &format!("{code}{tests}const B: u8 = 0;\n"));
    assert_eq!(
        sizes(&long),
        ["a.rs: 501 lines without tests, the limit is 500"]
    );
    let not_a_test = parse("a.rs", &format!("{code}#[cfg(not(test))]\nmod m {{}}\n"));
    assert_eq!(not_a_test.lines, 502);
}

#[test]
fn a_long_function_is_caught_wherever_it_stands() {
    let body = |lines: usize| {
        format!(
            "/// Docs.\n#[inline]\nfn f() {{\n{}}}\n",
            "g();\n".repeat(lines)
        )
    };
    let wraps = [
        ("", ""),
        ("impl S {", "}"),
        ("trait T {", "}"),
        ("mod m {", "}"),
        ("fn outer() {", "}"),
    ];
    for (open, close) in wraps {
        let fine = parse("a.rs", &format!("{open}\n{}{close}", body(58)));
        let short = fine
            .functions
            .iter()
            .find(|function| function.name == "f")
            .unwrap();
        assert_eq!((short.lines, short.line), (60, 4), "{open}");
        let long = sizes(&parse("a.rs", &format!("{open}\n{}{close}", body(59))));
        assert!(
            long.iter()
                .any(|v| v == "a.rs:4: fn f has 61 lines, the limit is 60"),
            "{open}"
        );
    }
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}", body(100));
    assert!(sizes(&parse("a.rs", &tests)).is_empty());
}

#[test]
fn clocks_threads_and_logs_are_caught_in_every_spelling() {
    for text in [
        "use std::thread;",
        "use std::{fmt, time::Instant};",
        "use std::time::{self, Duration};\nfn f() { time::Instant::now(); }",
        "use std::time as t;\nfn f(at: t::SystemTime) {}",
        "use std::time::*;",
        "use std::*;",
        "fn f() { std::thread::yield_now(); }",
        "fn f() { m!(x, std::time::Instant::now()); }",
        "fn f() { log::warn!(\"x\"); }",
        "use tokio::sync::watch;",
        "impl core::fmt::Debug for tracing::Span {}",
    ] {
        for file in ["crates/ketama/src/ring.rs", "crates/selection/src/load.rs"] {
            let line = text.lines().count();
            assert_eq!(named(file, text), [line], "{text}");
        }
        assert!(named("crates/peers/src/main.rs", text).is_empty(), "{text}");
    }
    for text in [
        "use std::time::Duration;",
        "use core::fmt;\nuse std::fmt as log_format;",
        "fn log() { self::log(); }",
        "#[cfg(test)]\nmod tests { use std::thread; }",
        "/// Not a path: std::thread.\nfn f() { f(\"std::thread\"); }",
    ] {
        assert!(
            named("crates/ketama/src/ring.rs", text).is_empty(),
            "{text}"
        );
    }
}

#[test]
fn an_algorithm_that_imports_another_is_caught() {
    for text in [
        "use crate::weighted::Table;",
        "use crate::{Node, Fnv};",
        "fn f() -> super::weighted::Table { todo!() }",
        "use crate::*;",
        "fn f() { crate::Fnv::pick(); }",
    ] {
        assert_eq!(
            named("crates/selection/src/consistent.rs", text),
            [1],
            "{text}"
        );
    }
    let nested = "use super::super::weighted::Table;";
    assert_eq!(
        named("crates/selection/src/consistent/bounded.rs", nested),
        [1]
    );
    for (file, text) in [
        (
            "consistent.rs",
            "use crate::{Consistent, Node};\nuse crate::node::Node as N;",
        ),
        ("consistent.rs", "mod bounded;\nuse self::bounded::Slots;"),
        ("consistent/bounded.rs", "use super::Consistent;"),
        ("consistent.rs", "use crate::table::Table;"),
        (
            "algorithm.rs",
            "use crate::{Consistent, Fnv};\nimpl Selector for Any {}",
        ),
    ] {
        let file = format!("crates/selection/src/{file}");
        assert!(named(&file, text).is_empty(), "{file}: {text}");
    }
}

#[test]
fn only_the_service_spawns_or_sleeps() {
    for text in [
        "async fn f() { tokio::spawn(g()); }",
        "use tokio::time::{sleep, timeout};",
        "use tokio::time;\nasync fn f() { time::sleep(d).await; }",
        "use tokio::task::JoinSet;",
        "fn f() { tokio::select! { () = tokio::time::sleep(d) => {} } }",
    ] {
        let line = text.lines().count();
        assert_eq!(
            named("crates/balancer/src/check/tcp.rs", text),
            [line],
            "{text}"
        );
        assert!(
            named("crates/balancer/src/service.rs", text).is_empty(),
            "{text}"
        );
    }
    let fine = "use tokio::time::timeout;\nuse tokio::task::spawn_blocking;";
    assert!(named("crates/balancer/src/load_balancer.rs", fine).is_empty());
}

#[test]
fn forbidden_dependencies_are_caught_through_others() {
    let lock = |rows: &[(&str, &str)]| -> String {
        rows.iter()
            .map(|(name, dependencies)| {
                format!(
                    "[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\ndependencies = [\n \
                     \"{dependencies}\",\n]\n\n"
                )
            })
            .collect()
    };
    let fine = lock(&[
        ("balancer", "selection"),
        ("selection", "ketama"),
        ("xtask", "syn 2.0.1"),
        ("selection", "loom"),
        ("loom", "tracing"),
    ]);
    assert_eq!(lock::violations(&fine), [""; 0]);
    for (rows, expected) in [
        (&[("xtask", "selection")][..], "xtask depends on selection"),
        (
            &[("xtask", "x"), ("x", "ketama")],
            "xtask depends on ketama",
        ),
        (&[("ketama", "selection")], "ketama depends on selection"),
        (
            &[("balancer", "x 2.0.0"), ("x", "pingora-core")],
            "balancer depends on pingora-core",
        ),
        (&[("selection", "tokio")], "selection depends on tokio"),
    ] {
        let violations = lock::violations(&lock(rows));
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].contains(expected), "{violations:?}");
    }
    let pingora = "crates/balancer/examples/proxy.rs";
    assert_eq!(named(pingora, "use pingora_load_balancing::Backend;"), [1]);
}

#[test]
fn data_without_readme_and_too_much_data_are_caught() {
    let folder = temporary("tidy-data");
    let path = |name: &str| folder.join(name);
    fs::create_dir_all(path("good/raw")).unwrap();
    fs::create_dir_all(path("bad")).unwrap();
    fs::write(path("good/README.md"), "what it is").unwrap();
    assert_eq!(
        data::violations(&folder).unwrap(),
        ["test-data/bad: no README.md says what it is"]
    );
    fs::write(path("bad/README.md"), "").unwrap();
    let file = fs::File::create(path("good/raw/large.csv")).unwrap();
    file.set_len((8 << 20) - 11).unwrap();
    assert_eq!(data::violations(&folder).unwrap(), [""; 0]);
    file.set_len((8 << 20) - 10).unwrap();
    assert_eq!(
        data::violations(&folder).unwrap(),
        ["test-data: 8388608 bytes, the limit is 8388608"]
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_document_that_names_a_test_that_is_gone_is_caught() {
    let folder = temporary("tidy-docs");
    let path = |name: &str| folder.join(name);
    fs::create_dir_all(path("docs")).unwrap();
    fs::create_dir_all(path("crates/x/tests")).unwrap();
    fs::write(path("crates/x/tests/a.rs"), "#[test]\nfn holds() {}\n").unwrap();
    let document = "`x/tests/a.rs::holds`, `std::fmt`\n\n`x/tests/a.rs::hold` `x/b.rs::holds`\n";
    fs::write(path("docs/semantics.md"), document).unwrap();
    let violations = docs::violations(&folder).unwrap();
    assert_eq!(
        violations,
        [
            "docs/semantics.md:3: no test hold in crates/x/tests/a.rs",
            "docs/semantics.md:3: no test holds in crates/x/b.rs"
        ]
    );
    fs::remove_dir_all(folder).unwrap();
}

/// An empty folder of this test run.
fn temporary(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A workspace of one crate, whose doc tests include one of two pages.
#[test]
fn an_example_that_nobody_compiles_is_caught() {
    let folder = temporary("tidy-examples");
    let path = |name: &str| folder.join(name);
    fs::create_dir_all(path("docs")).unwrap();
    fs::create_dir_all(path("crates/x/src")).unwrap();
    let included = "#[doc = include_str!(\"../../../docs/tested.md\")]\nstruct Tested;\n";
    fs::write(path("crates/x/src/lib.rs"), included).unwrap();
    let page =
        "# Page\n\n```rust,no_run\nlet a = 1;\n```\n\n  ```rust\n  ```\n```toml\na = 1\n```\n";
    fs::write(
        path("docs/tested.md"),
        format!("{page}```rust,ignore\n```\n"),
    )
    .unwrap();
    fs::write(path("docs/untested.md"), page).unwrap();
    // rustdoc takes a block without a language for Rust.
    let others =
        "```\na\n```\n`cargo xtask help` lists `cargo xtask ci fuzz`, not `cargo xtask frob`.\n";
    fs::write(path("README.md"), others).unwrap();
    let violations = docs::violations(&folder).unwrap();
    let untested = "an example in Rust, on a page that no lib.rs includes in its doc tests";
    assert_eq!(
        violations,
        [
            "README.md:1: a block of code without a language".to_owned(),
            "README.md:4: no command `cargo xtask frob`".to_owned(),
            "docs/tested.md:12: an example that is not compiled".to_owned(),
            format!("docs/untested.md:3: {untested}"),
            format!("docs/untested.md:7: {untested}"),
        ]
    );
    fs::remove_dir_all(folder).unwrap();
}
