//! `cargo xtask bench [NAME] [--check] [--json FILE] [--plots]`: ours against other crates, in the
//! workspace `crates/peers`.
//!
//! `all`, which is also meant if no name is given, runs every bench and puts what they find into one
//! file, by their names; `--plots` draws it. One name alone runs that bench, and hands it whatever
//! other flags there are. `plots` only draws.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use crate::process::{Cargo, Failure, root, target};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    let mut wish = Wish::default();
    let words: Vec<OsString> = arguments.raw_args()?.collect();
    let (name, flags) = match words.split_first() {
        Some((name, flags)) if !name.to_string_lossy().starts_with('-') => {
            (name.to_string_lossy().into_owned(), flags)
        }
        _ => (ALL.to_owned(), &words[..]),
    };
    if name != ALL && name != PLOTS && !BENCHES.contains(&name.as_str()) {
        let names = BENCHES.join(", ");
        return Err(format!("no bench {name:?}; there are {names}, {ALL} and {PLOTS}").into());
    }
    wish.parse(flags)?;
    if name == PLOTS {
        return plots(&wish.json.unwrap_or_else(|| FIGURES.into()));
    }
    if let Some(flag) = wish.others.first().filter(|_| name == ALL) {
        let flag = flag.to_string_lossy();
        return Err(format!("{flag:?} is for one bench, not for all of them").into());
    }
    let is_all = name == ALL;
    let benches: Vec<_> = BENCHES
        .iter()
        .filter(|&&bench| is_all || bench == name)
        .collect();
    if benches.iter().any(|bench| NEED_CMAKE.contains(bench)) {
        require_cmake()?;
    }
    let mut figures = Map::new();
    let mut missed = false;
    for bench in benches {
        let (found, kept) = wish.bench(bench)?;
        figures.insert((*bench).to_owned(), found);
        missed |= !kept;
    }
    let found = if is_all {
        Value::Object(figures.clone())
    } else {
        figures.get(&name).cloned().unwrap_or_default()
    };
    if let Some(file) = &wish.json {
        fs::write(root().join(file), pretty(&found)? + "\n")?;
    }
    if wish.plots == Plots::Draw {
        let file = target().join("bench/figures.json");
        fs::write(&file, pretty(&Value::Object(figures))?)?;
        plots(&file)?;
    }
    if missed {
        Err(Failure::Exit(1))
    } else {
        Ok(())
    }
}

/// `crates/peers` as the other crates that a change must not break: that it builds without a
/// warning, its tests, the answers that its benches compare before they time, and that the pictures
/// are those of the figures.
pub(crate) fn check_peers() -> Result<(), Failure> {
    require_cmake()?;
    // With all features, so that nothing is built for several sets of them.
    let peers = |command: &[&str]| {
        let (cargo, program) = match command.split_last() {
            Some((&"--", cargo)) => (cargo, &["--"][..]),
            _ => (command, &[][..]),
        };
        let line = Cargo::new(cargo).arguments(["--manifest-path", MANIFEST, "--locked"]);
        line.arguments(["--all-features"]).arguments(program)
    };
    let format = ["fmt", "--check", "--manifest-path", MANIFEST];
    Cargo::new(format).run()?;
    let clippy = peers(&["clippy", "--all-targets"]);
    clippy.arguments(["--", "-D", "warnings"]).run()?;
    // The programs as they are measured, so that nothing is built twice.
    peers(&["test", "--release", "--bins"]).run()?;
    let short: [(&str, &[&str]); 4] = [
        ("ring", &["--pool", "4x1"]),
        ("selection", &["fnv", "consistent"]),
        ("balancer", &["--quick"]),
        ("spread", &[]),
    ];
    for (bench, flags) in short {
        let line = peers(&["run", "--release", "--quiet", "--bin", bench, "--"]);
        line.arguments(flags).run()?;
    }
    let folder = target().join("bench/img");
    let line = peers(&["run", "--release", "--quiet", "--bin", PLOTS, "--"]);
    line.arguments([Path::new(FIGURES), &folder]).run()?;
    same_pictures(&folder)
}

/// The pictures in the documents are those of the figures beside them.
fn same_pictures(folder: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let kept = root().join(IMAGES).join(&name);
        if fs::read(folder.join(&name))? != fs::read(&kept).unwrap_or_default() {
            let kept = kept.display();
            return Err(
                format!("{kept} is not what {FIGURES} gives: cargo xtask bench plots").into(),
            );
        }
    }
    Ok(())
}

/// What the user asks for besides a name.
#[derive(Default)]
struct Wish {
    json: Option<PathBuf>,
    check: bool,
    plots: Plots,
    /// For the bench itself.
    others: Vec<OsString>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Plots {
    #[default]
    Leave,
    Draw,
}

impl Wish {
    fn parse(&mut self, flags: &[OsString]) -> Result<(), Failure> {
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match flag.to_str() {
                Some("--json") => {
                    let file = flags
                        .next()
                        .ok_or_else(|| "--json needs a file".to_owned())?;
                    self.json = Some(file.into());
                }
                Some("--check") => self.check = true,
                Some("--plots") => self.plots = Plots::Draw,
                _ => self.others.push(flag.clone()),
            }
        }
        Ok(())
    }

    /// What one bench found, and whether it kept its budget.
    fn bench(&self, bench: &str) -> Result<(Value, bool), Failure> {
        let folder = target().join("bench");
        fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{bench}.json"));
        let mut line = peer(bench).arguments(&self.others);
        line = line.arguments(["--json".as_ref(), file.as_os_str()]);
        // The spread of keys has no budget: it is what it is.
        if self.check && bench != SPREAD {
            line = line.arguments(["--check"]);
        }
        let kept = match line.run() {
            Ok(()) => true,
            Err(Failure::Exit(1)) if self.check => false,
            Err(failure) => return Err(failure),
        };
        let text = fs::read_to_string(&file)?;
        let found = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok((found, kept))
    }
}

fn plots(figures: &Path) -> Result<(), Failure> {
    peer(PLOTS).arguments([figures, Path::new(IMAGES)]).run()
}

/// A program of the workspace `crates/peers`; further arguments go to it, and a relative file among
/// them is relative to the root of the project.
fn peer(name: &str) -> Cargo {
    let cargo = Cargo::new(["run", "--release", "--locked", "--manifest-path", MANIFEST]);
    let cargo = cargo.arguments(["--bin", name]);
    // The ring needs none, and is built without what the others bring.
    let cargo = match name {
        "ring" => cargo,
        _ => cargo.arguments(["--features", name]),
    };
    cargo.arguments(["--"])
}

/// pingora builds zlib-ng, which is C.
fn require_cmake() -> Result<(), Failure> {
    if Command::new("cmake").arg("--version").output().is_ok() {
        return Ok(());
    }
    let how = "on Debian, `apt-get install cmake`";
    Err(format!("cmake is missing, which builds a dependency of pingora: {how}").into())
}

fn pretty(value: &Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string().into())
}

const BENCHES: [&str; 4] = ["ring", "selection", "balancer", SPREAD];
const SPREAD: &str = "spread";
const ALL: &str = "all";
const PLOTS: &str = "plots";
const NEED_CMAKE: [&str; 2] = ["selection", "balancer"];
const MANIFEST: &str = "crates/peers/Cargo.toml";

/// What the pictures in the documents are drawn from.
const FIGURES: &str = "docs/img/figures.json";
const IMAGES: &str = "docs/img";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_all_benches_and_of_one() {
        let words = ["--pool", "4x1", "--json", "a.json", "--plots", "--check"];
        let mut wish = Wish::default();
        wish.parse(&words.map(OsString::from)).unwrap();
        assert_eq!(wish.others, ["--pool", "4x1"]);
        assert_eq!(wish.json.as_deref(), Some(Path::new("a.json")));
        assert!(wish.check && wish.plots == Plots::Draw);
        assert!(wish.parse(&["--json".into()]).is_err());
    }

    #[test]
    fn a_bench_is_run_with_its_feature() {
        let line = peer("balancer").arguments(["--quick"]).line();
        assert!(
            line.ends_with("--bin balancer --features balancer -- --quick"),
            "{line}"
        );
        assert!(!peer("ring").line().contains("--features"));
    }
}
