//! `cargo xtask compat`: our choices against the recorded choices of other systems.

use crate::process::{Cargo, Failure, rest};

pub(crate) fn run(arguments: lexopt::Parser) -> Result<(), Failure> {
    recorded().arguments(rest(arguments)?).run()
}

/// The replay; further arguments go to the example.
pub(crate) fn recorded() -> Cargo {
    Cargo::new(["run", "--quiet", "--release", "-p", "selection"]).arguments([
        "--example",
        "compat",
        "--features",
        FEATURES,
        "--",
    ])
}

/// `required-features` of the example.
const FEATURES: &str = "v2,schemes";
