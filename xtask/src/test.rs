//! `cargo xtask test`: all tests and doc tests.

use crate::process::{Cargo, Failure, install};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::Arg::Long;
    let mut features = Features::Default;
    let mut runner = Runner::Nextest;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("all-features") => features = Features::All,
            Long("no-install") => runner = Runner::CargoTest,
            _ => return Err(argument.unexpected().into()),
        }
    }
    if runner == Runner::Nextest {
        install("nextest")?;
    }
    for line in lines(runner, features) {
        line.run()?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Nextest,
    CargoTest,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Features {
    Default,
    All,
}

/// The command lines that run everything there is to test.
pub(crate) fn lines(runner: Runner, features: Features) -> Vec<Cargo> {
    let lines: &[&[&str]] = match runner {
        // nextest does not run doc tests.
        Runner::Nextest => &[
            &["nextest", "run", "--workspace"],
            &["test", "--doc", "--workspace"],
        ],
        Runner::CargoTest => &[&["test", "--workspace"]],
    };
    let features: &[&str] = match features {
        Features::Default => &[],
        Features::All => &["--all-features"],
    };
    lines
        .iter()
        .map(|line| Cargo::new(*line).arguments(features))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_run_the_doc_tests() {
        let text = |runner| -> Vec<_> {
            lines(runner, Features::All)
                .iter()
                .map(Cargo::line)
                .collect()
        };
        assert_eq!(
            text(Runner::Nextest),
            [
                "cargo nextest run --workspace --all-features",
                "cargo test --doc --workspace --all-features"
            ]
        );
        // Plain `cargo test` includes them.
        assert_eq!(
            text(Runner::CargoTest),
            ["cargo test --workspace --all-features"]
        );
    }
}
