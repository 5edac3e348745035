//! Who may name what: the direction of the architecture as a table.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::source::{NamedPath, Source};

/// Paths that files must not name.
struct Rule {
    /// Prefixes of the files that keep it.
    files: &'static [&'static str],
    /// Prefixes of files that need not.
    except: &'static [&'static str],
    /// The paths, and everything below them.
    forbidden: &'static [&'static str],
    why: &'static str,
}

pub(crate) fn violations(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources {
        for rule in RULES.iter().filter(|rule| rule.covers(&source.path)) {
            for path in source.paths.iter().filter(|path| rule.forbids(path)) {
                violations.push(violation(source, path, rule.why));
            }
        }
    }
    violations.extend(algorithms(sources));
    violations.dedup();
    violations
}

impl Rule {
    fn covers(&self, path: &str) -> bool {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
        starts(self.files) && !starts(self.except)
    }

    fn forbids(&self, path: &NamedPath) -> bool {
        self.forbidden
            .iter()
            .any(|forbidden| reaches(&path.segments, forbidden))
    }
}

/// Whether `path` is `forbidden`, lies below it, or is a glob that may bring it in.
fn reaches(path: &[String], forbidden: &str) -> bool {
    let forbidden: Vec<_> = forbidden.split("::").collect();
    match path {
        [above @ .., glob] if glob == "*" => {
            above.len() <= forbidden.len() && above.iter().zip(&forbidden).all(|(a, b)| a == b)
                || above.len() > forbidden.len() && reaches(above, &forbidden.join("::"))
        }
        _ => path.len() >= forbidden.len() && path.iter().zip(&forbidden).all(|(a, b)| a == b),
    }
}

/// One algorithm never imports another, neither by its module nor by what `lib.rs` re-exports.
fn algorithms(sources: &[Source]) -> Vec<String> {
    let nothing = BTreeMap::new();
    let lib = format!("{SELECTION}lib.rs");
    let exports = sources
        .iter()
        .find(|source| source.path == lib)
        .map_or(&nothing, |lib| &lib.uses);
    let names: BTreeSet<_> = sources
        .iter()
        .filter(|source| source.implements.contains("Selector"))
        .filter_map(|source| selection_module(&source.path))
        .filter(|module| !MAY_KNOW_ALGORITHMS.contains(module))
        .collect();
    let mut violations = Vec::new();
    for source in sources {
        let Some(own) = selection_module(&source.path).filter(|own| names.contains(own)) else {
            continue;
        };
        for path in &source.paths {
            let [root, name, ..] = path.segments.as_slice() else {
                continue;
            };
            let module = exports.get(name).and_then(|path| path.get(1));
            let module = module.unwrap_or(name).as_str();
            let another = module == "*" || module != own && names.contains(module);
            if root == "crate" && another {
                violations.push(violation(source, path, ALGORITHMS_APART));
            }
        }
    }
    violations
}

/// `selection/src/smooth.rs` and `selection/src/smooth/table.rs` are the module `smooth`.
fn selection_module(path: &str) -> Option<&str> {
    path.strip_prefix(SELECTION)?.split(['/', '.']).next()
}

fn violation(source: &Source, path: &NamedPath, why: &str) -> String {
    let named = path.segments.join("::");
    format!("{}:{}: names {named}: {why}", source.path, path.line)
}

const SELECTION: &str = "crates/selection/src/";

/// The trait itself, and the one place that knows all algorithms by name. Any other module that
/// implements `Selector` is an algorithm.
const MAY_KNOW_ALGORITHMS: &[&str] = &["selector", "algorithm"];

const ALGORITHMS_APART: &str =
    "one algorithm never imports another; what they share goes to a module of its own";

const RULES: &[Rule] = &[
    Rule {
        files: &["crates/ketama/src/", SELECTION],
        except: &[],
        forbidden: &[
            "std::thread",
            "std::time::Instant",
            "std::time::SystemTime",
            "log",
            "tokio",
            "tracing",
        ],
        why: "ketama and selection have no clock, thread or log: time and seeds are parameters",
    },
    Rule {
        files: &["crates/balancer/src/"],
        except: &[
            "crates/balancer/src/service.rs",
            "crates/balancer/src/service/",
        ],
        // `spawn_blocking` is not here: an update awaits the build that it hands off.
        forbidden: &[
            "std::thread",
            "tokio::runtime",
            "tokio::spawn",
            "tokio::task::JoinSet",
            "tokio::task::spawn",
            "tokio::task::spawn_local",
            "tokio::time::interval",
            "tokio::time::interval_at",
            "tokio::time::sleep",
            "tokio::time::sleep_until",
        ],
        why: "only service.rs spawns or sleeps, so that shutdown can be proven",
    },
    Rule {
        files: &[
            "crates/ketama/",
            "crates/selection/",
            "crates/balancer/",
            "xtask/",
        ],
        except: &[],
        forbidden: &[
            "pingora",
            "pingora_core",
            "pingora_ketama",
            "pingora_load_balancing",
        ],
        why: "no published crate depends on pingora; crates/peers compares with it",
    },
];
