//! `cargo xtask ci`: everything that a change must pass, step by step, with times.

use std::time::{Duration, Instant};

use crate::document::Document;
use crate::features::Pairs;
use crate::process::{Cargo, Failure, install};
use crate::test::{Features, Runner};
use crate::{bench, compat, features, fuzz, live, test, tidy};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::Arg::{Long, Value};
    let (mut chosen, mut peers) = (Vec::new(), None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(name) => chosen.push(step(&name.to_string_lossy())?),
            Long("peers") => peers = Some(&PEERS),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if chosen.is_empty() {
        chosen.extend(STEPS);
    }
    chosen.extend(peers);
    let results: Vec<_> = chosen.into_iter().map(timed).collect();
    print!("{}", table(&results));
    if results.iter().all(|result| result.passed) {
        Ok(())
    } else {
        Err(Failure::Exit(1))
    }
}

struct Step {
    name: &'static str,
    run: fn() -> Result<(), Failure>,
}

struct Timed {
    name: &'static str,
    passed: bool,
    took: Duration,
}

fn step(name: &str) -> Result<&'static Step, Failure> {
    let mut steps = STEPS.iter().chain([&PEERS]);
    steps.find(|step| step.name == name).ok_or_else(|| {
        let steps = STEPS.iter().chain([&PEERS]);
        let names: Vec<_> = steps.map(|step| step.name).collect();
        Failure::Message(format!("no step {name:?}; there are {}", names.join(", ")))
    })
}

/// A failed step does not end the run: the others may have more to say.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a step takes is what is printed"
)]
fn timed(step: &Step) -> Timed {
    println!("== {}", step.name);
    let start = Instant::now();
    let result = (step.run)();
    if let Err(Failure::Message(message)) = &result {
        eprintln!("{}: {message}", step.name);
    }
    let took = start.elapsed();
    println!("== {} took {:.1} s", step.name, took.as_secs_f64());
    Timed {
        name: step.name,
        passed: result.is_ok(),
        took,
    }
}

fn table(results: &[Timed]) -> String {
    let mut text = format!("\n{:<20} {:>6}  {:>8}\n", "step", "result", "seconds");
    for result in results {
        let passed = if result.passed { "ok" } else { "FAILED" };
        let seconds = result.took.as_secs_f64();
        text += &format!("{:<20} {passed:>6}  {seconds:>8.1}\n", result.name);
    }
    let total: Duration = results.iter().map(|result| result.took).sum();
    text + &format!("{:<20} {:>6}  {:>8.1}\n", "total", "", total.as_secs_f64())
}

fn all(lines: &[Cargo]) -> Result<(), Failure> {
    lines.iter().try_for_each(Cargo::run)
}

fn clippy(features: &[&str]) -> Result<(), Failure> {
    Cargo::new(["clippy", "--workspace", "--all-targets"])
        .arguments(features)
        .arguments(["--", "-D", "warnings"])
        .run()
}

fn tests(features: Features) -> Result<(), Failure> {
    install("nextest")?;
    all(&test::lines(Runner::Nextest, features))
}

fn doc() -> Result<(), Failure> {
    Cargo::new(["doc", "--workspace", "--no-deps", "--all-features"])
        .variable("RUSTDOCFLAGS", "-D warnings")
        .run()
}

/// What may become a dependency: `deny.toml`. Advisories would need the network.
fn deny() -> Result<(), Failure> {
    install("deny")?;
    Cargo::new(["deny", "--offline", "check", "bans", "licenses", "sources"]).run()
}

/// A consumer of the ring without `std`; it does not compile if anything below links it in.
fn no_std() -> Result<(), Failure> {
    let manifest = "crates/ketama/tests/no_std/Cargo.toml";
    Cargo::new([
        "check",
        "--manifest-path",
        manifest,
        "--target-dir",
        "target/no-std",
    ])
    .run()
}

/// Every interleaving of the balancer's atomics, explored by loom. A build of its own, and its own
/// folder, since every crate is compiled with that `cfg`.
fn models() -> Result<(), Failure> {
    Cargo::new([
        "test",
        "-p",
        "balancer",
        "--lib",
        "--target-dir",
        "target/models",
        "models",
    ])
    .variable("RUSTFLAGS", "--cfg loom_models")
    .run()
}

/// Only with `--peers`: minutes of other crates, and it needs cmake.
const PEERS: Step = Step {
    name: "peers",
    run: bench::check_peers,
};

/// The cheap ones first.
const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: || Cargo::new(["fmt", "--all", "--check"]).run(),
    },
    Step {
        name: "tidy",
        run: tidy::check,
    },
    Step {
        name: "clippy",
        run: || clippy(&[]),
    },
    Step {
        name: "clippy-all-features",
        run: || clippy(&["--all-features"]),
    },
    Step {
        name: "test",
        run: || tests(Features::Default),
    },
    Step {
        name: "test-all-features",
        run: || tests(Features::All),
    },
    Step {
        name: "doc",
        run: doc,
    },
    Step {
        name: "deny",
        run: deny,
    },
    Step {
        name: "no-std",
        run: no_std,
    },
    Step {
        name: "models",
        run: models,
    },
    Step {
        name: "fuzz",
        run: fuzz::replay,
    },
    Step {
        name: "compat",
        run: compat::check,
    },
    Step {
        name: "compat-live",
        run: live::check,
    },
    Step {
        name: "features",
        run: || features::check(Document::Compare, Pairs::HandedDown),
    },
];

#[cfg(test)]
mod table_tests {
    use super::*;

    #[test]
    fn table_shows_what_failed() {
        let results = [("fmt", true, 1), ("doc", false, 2)].map(|(name, passed, seconds)| Timed {
            name,
            passed,
            took: Duration::from_secs(seconds),
        });
        let table = table(&results);
        let lines: Vec<_> = table
            .lines()
            .skip(2)
            .map(str::split_whitespace)
            .map(Vec::from_iter)
            .collect();
        assert_eq!(
            lines,
            [
                vec!["fmt", "ok", "1.0"],
                vec!["doc", "FAILED", "2.0"],
                vec!["total", "3.0"]
            ]
        );
    }
}
