//! What a user sees: tiny projects outside the workspace that depend on one crate each.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Cargo, Failure, Output, root};

/// A program that compiles only with `feature`, and fails unless the feature has its effect.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) entry: &'static str,
    pub(crate) feature: &'static str,
    source: &'static str,
    /// What the compiler says without it.
    without: &'static str,
}

/// Runs `effect` with its feature, and sees that it does not compile without.
pub(crate) fn effect(target: &Path, effect: &Effect) -> Result<(), Failure> {
    let Effect { entry, feature, .. } = effect;
    let name = format!("{entry}-{feature}");
    let project = Project::new(target, &name, effect.source)?;
    let with = project.run(entry, &[feature])?;
    if !with.success {
        let message = format!("{entry}/{feature} has not its effect:\n{}", with.stderr);
        return Err(message.into());
    }
    let without = project.run(entry, &[])?;
    if without.success {
        return Err(format!("{entry}: a use of {feature} compiles without it").into());
    }
    if !without.stderr.contains(effect.without) {
        let message = format!(
            "{entry}: without {feature} the compiler does not say {:?}:\n{}",
            effect.without, without.stderr
        );
        return Err(message.into());
    }
    Ok(())
}

/// What `entry` answers, as digests, with exactly `features` on.
pub(crate) fn answers(target: &Path, entry: &str, features: &[&str]) -> Result<String, Failure> {
    let Some((_, source)) = ANSWERS.iter().find(|(name, _)| *name == entry) else {
        return Err(format!("no probe of the answers of {entry}").into());
    };
    let project = Project::new(target, &format!("{entry}-answers"), source)?;
    let output = project.run(entry, features)?;
    if output.success && !output.stdout.is_empty() {
        Ok(output.stdout)
    } else {
        Err(format!("{entry} with {features:?}:\n{}", output.stderr).into())
    }
}

/// A cargo project of its own: path dependencies, its own lock file, the resolver of 2021.
struct Project {
    folder: PathBuf,
    name: String,
}

impl Project {
    fn new(target: &Path, name: &str, source: &str) -> Result<Self, Failure> {
        let folder = target.join("features").join(name);
        fs::create_dir_all(folder.join("src"))?;
        let digest = if source.contains("Digest") {
            DIGEST
        } else {
            ""
        };
        fs::write(folder.join("src/main.rs"), format!("{source}{digest}"))?;
        // The versions of the workspace: nothing new is fetched, and nothing else is tested.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self {
            folder,
            name: name.to_owned(),
        })
    }

    fn run(&self, entry: &str, features: &[&str]) -> Result<Output, Failure> {
        let path = root().join("crates").join(entry);
        let manifest = format!(
            "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
             [dependencies]\n\
             {entry} = {{ path = {path:?}, default-features = false, features = {features:?} }}\n\
             serde_json = \"1\"\ntokio = {{ version = \"1\", features = [\"rt\"] }}\n\n\
             [workspace]\nresolver = \"2\"\n",
            self.name
        );
        let file = self.folder.join("Cargo.toml");
        fs::write(&file, manifest)?;
        Cargo::new(["run", "--quiet", "--offline", "--manifest-path"])
            .arguments([&file])
            .arguments(["--target-dir"])
            .arguments([self.folder.with_file_name("build")])
            .output()
    }
}

/// The programs print what default configs answer.
const ANSWERS: &[(&str, &str)] = &[
    ("ketama", include_str!("../../probes/golden_ketama.rs")),
    (
        "selection",
        include_str!("../../probes/golden_selection.rs"),
    ),
    ("balancer", include_str!("../../probes/golden_balancer.rs")),
];

const DIGEST: &str = include_str!("../../probes/digest.rs");

pub(crate) const EFFECTS: &[Effect] = &[
    Effect {
        entry: "ketama",
        feature: "v2",
        source: include_str!("../../probes/v2_ketama.rs"),
        // For a variant the compiler has no more to say.
        without: "no variant named `V2`",
    },
    Effect {
        entry: "selection",
        feature: "v2",
        source: include_str!("../../probes/v2_selection.rs"),
        without: "needs the Cargo feature `v2`",
    },
    Effect {
        entry: "balancer",
        feature: "v2",
        source: include_str!("../../probes/v2_balancer.rs"),
        without: "needs the Cargo feature `v2`",
    },
    Effect {
        entry: "ketama",
        feature: "schemes",
        source: include_str!("../../probes/schemes_ketama.rs"),
        without: "gated behind the `schemes` feature",
    },
    Effect {
        entry: "selection",
        feature: "schemes",
        source: include_str!("../../probes/schemes_selection.rs"),
        without: "gated behind the `schemes` feature",
    },
    Effect {
        entry: "balancer",
        feature: "schemes",
        source: include_str!("../../probes/schemes_balancer.rs"),
        without: "gated behind the `schemes` feature",
    },
    Effect {
        entry: "ketama",
        feature: "serde",
        source: include_str!("../../probes/serde_ketama.rs"),
        without: "Deserialize",
    },
    Effect {
        entry: "selection",
        feature: "serde",
        source: include_str!("../../probes/serde_selection.rs"),
        without: "Deserialize",
    },
    Effect {
        entry: "balancer",
        feature: "serde",
        source: include_str!("../../probes/serde_balancer.rs"),
        without: "gated behind the `serde` feature",
    },
];
