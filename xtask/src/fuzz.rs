//! `cargo xtask fuzz [--seconds N] [TARGET ...]`: the fuzz targets, each for a while.
//!
//! They run under libFuzzer, by cargo-fuzz. Without a sanitizer that needs nothing but the pinned
//! toolchain, and there is little for one to find where all `unsafe` is one call; every check that
//! the compiler makes at run time is on.
//!
//! What a run finds goes to a folder below `target`, where the next one goes on; with `--keep` the
//! best of it becomes the corpus in the repository, `fuzz/corpus`. `cargo xtask ci fuzz` replays
//! that without libFuzzer, as a test in an ordinary build.

mod corpus;

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Cargo, Failure, Output, install, root, target};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::Arg::{Long, Value};
    use lexopt::ValueExt;
    let names = targets(&root())?;
    let (mut seconds, mut chosen, mut corpora) = (30, Vec::new(), Corpora::Leave);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("seconds") => seconds = arguments.value()?.parse()?,
            Long("keep") => corpora = Corpora::Choose,
            Value(name) => chosen.push(named(&names, &name.to_string_lossy())?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if chosen.is_empty() {
        chosen = names;
    }
    install("fuzz")?;
    cargo_fuzz("build", &[]).run()?;
    let results = chosen.iter().map(|name| fuzz(name, seconds, corpora));
    let results: Vec<Run> = results.collect::<Result<_, _>>()?;
    print!("{}", table(&results));
    if results.iter().all(|run| run.crash.is_none()) {
        Ok(())
    } else {
        Err(Failure::Exit(1))
    }
}

/// Every kept input once, in an ordinary build: cheap enough for each change.
pub(crate) fn replay() -> Result<(), Failure> {
    let cargo = |command: &[&str]| {
        let line = Cargo::new(command).arguments(["--manifest-path", "fuzz/Cargo.toml"]);
        match command {
            ["fmt", ..] => line,
            // Beside the workspace, so that nothing that both need is built twice.
            _ => line
                .arguments(["--no-default-features", "--locked", "--target-dir"])
                .arguments([target()]),
        }
    };
    cargo(&["fmt", "--check"]).run()?;
    let clippy = cargo(&["clippy", "--all-targets"]);
    clippy.arguments(["--", "-D", "warnings"]).run()?;
    cargo(&["test", "--test", "replay"]).run()
}

/// What becomes of the corpora in the repository.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Corpora {
    Leave,
    Choose,
}

/// What became of one target.
struct Run {
    target: String,
    executions: u64,
    per_second: u64,
    kept: usize,
    crash: Option<PathBuf>,
}

/// The programs in `fuzz/fuzz_targets`.
fn targets(root: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    names.sort();
    Ok(names)
}

fn named(names: &[String], name: &str) -> Result<String, Failure> {
    match names.iter().find(|&known| known == name) {
        Some(known) => Ok(known.clone()),
        None => Err(format!("no target {name:?}; there are {}", names.join(", ")).into()),
    }
}

fn fuzz(name: &str, seconds: u32, corpora: Corpora) -> Result<Run, Failure> {
    let work = target().join("fuzz-corpus").join(name);
    let corpus = Path::new("fuzz/corpus").join(name);
    for folder in [&work, &root().join(&corpus)] {
        fs::create_dir_all(folder)?;
    }
    let (work, corpus) = (work.to_string_lossy(), corpus.to_string_lossy());
    let mut line = cargo_fuzz("run", &[name, &work, &corpus])
        .arguments(["--", "-print_final_stats=1", "-max_len=1024"])
        .arguments([format!("-max_total_time={seconds}")]);
    let words = Path::new("fuzz/dictionaries")
        .join(name)
        .with_extension("dict");
    if root().join(&words).is_file() {
        line = line.arguments([format!("-dict={}", words.display())]);
    }
    eprintln!("$ {}", line.line());
    let output = line.output()?;
    let crash = crash(&output, name)?;
    if crash.is_none() && corpora == Corpora::Choose {
        keep(name, &corpus, &work)?;
    }
    Ok(Run {
        target: name.to_owned(),
        executions: figure(&output, "stat::number_of_executed_units:"),
        per_second: figure(&output, "stat::average_exec_per_sec:"),
        kept: fs::read_dir(root().join(&*corpus))?.count(),
        crash,
    })
}

/// Chooses the corpus anew, from all that was ever found here.
fn keep(name: &str, corpus: &str, work: &str) -> Result<(), Failure> {
    let folder = target().join("fuzz-merge").join(name);
    let (merged, control) = (folder.join("merged"), folder.join("control"));
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&merged)?;
    let output = cargo_fuzz("run", &[name, &merged.to_string_lossy(), corpus, work])
        .arguments(["--", "-set_cover_merge=1"])
        .arguments([format!("-merge_control_file={}", control.display())])
        .output()?;
    if !output.success {
        let said = tail(&output.stderr);
        return Err(format!("the corpus of {name} cannot be merged:\n{said}").into());
    }
    let kept = corpus::choose(
        &fs::read_to_string(control)?,
        &root().join(corpus),
        MOST_KEPT,
    )?;
    eprintln!("{corpus} has {kept} inputs now");
    Ok(())
}

/// The input that a failed run has left, after saying how it failed.
fn crash(output: &Output, name: &str) -> Result<Option<PathBuf>, Failure> {
    if output.success {
        return Ok(None);
    }
    eprintln!("{}", tail(&output.stderr));
    let Some(path) = written(&output.stderr) else {
        return Err(format!("{name} did not run").into());
    };
    let shown = path.strip_prefix(root()).unwrap_or(path).to_owned();
    eprintln!("{name} fails on {}", shown.display());
    let line = cargo_fuzz("run", &[name, &shown.to_string_lossy()]).line();
    eprintln!("to repeat it: {line}");
    Ok(Some(shown))
}

/// Where libFuzzer has put the input.
fn written(stderr: &str) -> Option<&Path> {
    let line = stderr
        .lines()
        .find_map(|line| line.split_once("Test unit written to "));
    line.map(|(_, path)| Path::new(path.trim()))
}

/// The end of what libFuzzer says, without its progress.
fn tail(stderr: &str) -> String {
    let said = stderr.lines().take_while(|line| !line.starts_with("────"));
    let said: Vec<_> = said.filter(|line| !line.starts_with(['#', '\t'])).collect();
    said[said.len().saturating_sub(60)..].join("\n")
}

fn figure(output: &Output, name: &str) -> u64 {
    let found = output
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix(name));
    found
        .and_then(|figure| figure.trim().parse().ok())
        .unwrap_or(0)
}

fn cargo_fuzz(command: &str, arguments: &[&str]) -> Cargo {
    Cargo::new(["fuzz", command, "--sanitizer", "none"]).arguments(arguments)
}

fn table(runs: &[Run]) -> String {
    let mut text = format!(
        "\n{:<12} {:>12} {:>12} {:>8}  crash\n",
        "target", "executions", "a second", "corpus"
    );
    for run in runs {
        let crash = match &run.crash {
            Some(path) => path.display().to_string(),
            None => "none".to_owned(),
        };
        text += &format!(
            "{:<12} {:>12} {:>12} {:>8}  {crash}\n",
            run.target, run.executions, run.per_second, run.kept
        );
    }
    text
}

/// Of the inputs of one target in the repository.
const MOST_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_not_there_is_named() {
        let names = ["config", "ring"].map(str::to_owned);
        let error = named(&names, "rign").unwrap_err();
        let Failure::Message(message) = error else {
            panic!("{error:?}");
        };
        assert_eq!(message, "no target \"rign\"; there are config, ring");
    }

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let stderr = "#7 NEW cov: 3\n\
            stat::number_of_executed_units: 98155\n\
            stat::average_exec_per_sec:     4674\n\
            artifact_prefix='x/'; Test unit written to /a/fuzz/artifacts/ring/crash-0beec7\n";
        let output = Output {
            success: false,
            stdout: String::new(),
            stderr: stderr.to_owned(),
        };
        assert_eq!(figure(&output, "stat::number_of_executed_units:"), 98155);
        assert_eq!(figure(&output, "stat::average_exec_per_sec:"), 4674);
        let path = Path::new("/a/fuzz/artifacts/ring/crash-0beec7");
        assert_eq!(written(stderr), Some(path));
        assert!(!tail(stderr).contains("NEW cov"));
    }

    #[test]
    fn every_target_has_a_corpus_and_a_replay() {
        let replay = fs::read_to_string(root().join("fuzz/tests/replay.rs")).unwrap();
        let names = targets(&root()).unwrap();
        assert!(names.len() >= 4, "{names:?}");
        for name in names {
            let corpus = root().join("fuzz/corpus").join(&name);
            assert!(
                corpus.read_dir().unwrap().next().is_some(),
                "{corpus:?} is empty"
            );
            assert!(
                replay.contains(&format!("fn {name}()")),
                "{name} is not replayed"
            );
        }
    }
}
