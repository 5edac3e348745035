//! What the manifests promise: a feature has one name on all levels, and is handed down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::process::{Cargo, Failure};

/// The manifest of one member, as far as features go.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    default_features: bool,
}

/// A feature that one crate need not hand down to another.
#[derive(Debug)]
pub(crate) struct Exception {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) feature: &'static str,
    /// Why, for the reader of the table.
    pub(crate) reason: &'static str,
}

impl Manifest {
    /// The members of the workspace of `manifest`.
    pub(crate) fn members(manifest: &Path) -> Result<Vec<Self>, Failure> {
        let metadata = Cargo::new(["metadata", "--no-deps", "--format-version", "1"])
            .arguments(["--offline", "--manifest-path"])
            .arguments([manifest])
            .output()?;
        if !metadata.success {
            return Err(metadata.stderr.into());
        }
        let metadata: Value = serde_json::from_str(&metadata.stdout)
            .map_err(|error| format!("cargo metadata: {error}"))?;
        let packages = metadata["packages"].as_array();
        Ok(packages.into_iter().flatten().map(Self::of).collect())
    }

    fn of(package: &Value) -> Self {
        let features = package["features"].as_object();
        let dependencies = package["dependencies"].as_array();
        Self {
            name: text(&package["name"]),
            features: features
                .into_iter()
                .flatten()
                .map(|(name, enables)| {
                    let enables = enables.as_array().into_iter().flatten();
                    (name.clone(), enables.map(text).collect())
                })
                .collect(),
            dependencies: dependencies
                .into_iter()
                .flatten()
                // Of kind `dev` or `build` otherwise, which no user of the crate sees.
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| Dependency {
                    name: text(&dependency["name"]),
                    default_features: dependency["uses_default_features"] == true,
                })
                .collect(),
        }
    }

    /// The features by name, `default` left out.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        self.features
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "default")
    }

    /// Whether `feature` is one that a crate below has too.
    pub(crate) fn hands_down(&self, feature: &str) -> bool {
        let enables = self.features.get(feature).into_iter().flatten();
        enables
            .filter_map(|enabled| enabled.split_once('/'))
            .any(|(_, below)| below == feature)
    }

    /// Everything that `default` switches on, through other features of this crate.
    fn defaults(&self) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut next = vec!["default"];
        while let Some(name) = next.pop() {
            if seen.insert(name) {
                let enables = self.features.get(name).into_iter().flatten();
                next.extend(enables.map(String::as_str));
            }
        }
        seen
    }
}

/// Every feature that gets lost between two members, and every one that nobody can switch off.
pub(crate) fn violations(members: &[Manifest], exceptions: &[Exception]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut used = BTreeSet::new();
    for upper in members {
        for dependency in &upper.dependencies {
            let Some(lower) = members.iter().find(|lower| lower.name == dependency.name) else {
                continue;
            };
            if dependency.default_features {
                violations.push(format!(
                    "{} depends on {} with default features, which nobody can switch off",
                    upper.name, lower.name
                ));
            }
            for feature in lower.named() {
                let exception = exceptions.iter().position(|exception| {
                    (exception.from, exception.to, exception.feature)
                        == (&upper.name, &lower.name, feature)
                });
                match exception {
                    Some(exception) => drop(used.insert(exception)),
                    None => violations.extend(lost(upper, lower, feature)),
                }
            }
            violations.extend(forced(upper, lower));
        }
    }
    let unused = (0..exceptions.len()).filter(|index| !used.contains(index));
    violations.extend(unused.map(|index| format!("no such feature: {:?}", exceptions[index])));
    violations
}

/// Whether `feature` of `lower` cannot be reached through `upper`.
fn lost(upper: &Manifest, lower: &Manifest, feature: &str) -> Option<String> {
    let (up, low) = (&upper.name, &lower.name);
    let handed_down = [format!("{low}/{feature}"), format!("{low}?/{feature}")];
    match upper.features.get(feature) {
        None => Some(format!(
            "{up} has no feature {feature} to hand down to {low}"
        )),
        Some(enables) if !enables.iter().any(|one| handed_down.contains(one)) => {
            Some(format!("{up}/{feature} does not switch on {low}/{feature}"))
        }
        Some(_) => None,
    }
}

/// Features of `lower` that are on for every user of `upper` although `lower` has them off.
fn forced(upper: &Manifest, lower: &Manifest) -> Vec<String> {
    let lower_defaults = lower.defaults();
    upper
        .defaults()
        .into_iter()
        .filter_map(|enabled| enabled.split_once('/'))
        .filter(|(name, feature)| *name == lower.name && !lower_defaults.contains(feature))
        .map(|(name, feature)| format!("the defaults of {} switch on {name}/{feature}", upper.name))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::root;

    #[test]
    fn broken_manifests_are_caught() {
        let fixture = root().join("xtask/fixtures/broken-features/Cargo.toml");
        let members = Manifest::members(&fixture).unwrap();
        let mut broken = violations(&members, &[]);
        broken.sort();
        assert_eq!(
            broken,
            [
                "mid has no feature serde to hand down to low",
                "mid/schemes does not switch on low/schemes",
                "the defaults of top switch on mid/v2",
                "top depends on mid with default features, which nobody can switch off",
                "top/schemes does not switch on mid/schemes",
            ]
        );
    }

    #[test]
    fn an_exception_holds_for_what_it_names_and_must_be_needed() {
        let fixture = root().join("xtask/fixtures/broken-features/Cargo.toml");
        let members = Manifest::members(&fixture).unwrap();
        let exception = |feature| Exception {
            from: "mid",
            to: "low",
            feature,
            reason: "",
        };
        let broken = violations(&members, &[exception("serde"), exception("gone")]);
        assert!(!broken.iter().any(|violation| violation.contains("serde")));
        assert!(
            broken
                .iter()
                .any(|violation| violation.starts_with("no such feature"))
        );
        assert_eq!(broken.len(), 5);
    }
}
