//! Who may depend on whom, read from `Cargo.lock`: direct and indirect dependencies, tests included.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn violations(lock: &str) -> Vec<String> {
    let packages = packages(lock);
    let mut violations = Vec::new();
    for (package, never, why) in RULES {
        for dependency in closure(&packages, package) {
            // The crates of pingora are a family of some thirty names.
            let family = dependency.split('-').next().unwrap_or(dependency);
            if never
                .iter()
                .any(|never| *never == dependency || *never == family)
            {
                violations.push(format!(
                    "Cargo.lock: {package} depends on {dependency}: {why}"
                ));
            }
        }
    }
    violations
}

/// Each package and the names it depends on, versions of one name taken together.
fn packages(lock: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package
            .lines()
            .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let Some(name) = name else { continue };
        let (_, dependencies) = package.split_once("dependencies = [").unwrap_or_default();
        let dependencies = dependencies.split_once(']').unwrap_or_default().0;
        // An entry is `"name",` or, of several versions, `"name version",`.
        let names = dependencies
            .split('"')
            .skip(1)
            .step_by(2)
            .filter_map(|entry| entry.split(' ').next());
        packages.entry(name).or_default().extend(names);
    }
    packages
}

/// Everything that `package` depends on, itself left out, and what only a build of models has.
fn closure<'a>(
    packages: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    package: &str,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<_> = packages
        .get(package)
        .into_iter()
        .flatten()
        .copied()
        .collect();
    while let Some(name) = next.pop() {
        if seen.insert(name) && name != MODELS {
            next.extend(packages.get(name).into_iter().flatten());
        }
    }
    seen
}

/// A lock file does not know of `cfg`: loom is there for `--cfg loom_models` alone, so what it
/// depends on is nobody's dependency.
const MODELS: &str = "loom";

type Rule = (&'static str, &'static [&'static str], &'static str);

const RULES: &[Rule] = &[
    (
        "ketama",
        &["selection", "balancer", "tokio", "tracing", "pingora"],
        "the ring stands alone",
    ),
    (
        "selection",
        &["balancer", "tokio", "tracing", "pingora"],
        "selection knows neither sockets nor discovery nor a runtime",
    ),
    (
        "balancer",
        &["pingora"],
        "no published crate depends on pingora; crates/peers compares with it",
    ),
    (
        "xtask",
        &["ketama", "selection", "balancer"],
        "a crate that does not compile must not take the commands with it",
    ),
];
