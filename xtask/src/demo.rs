//! `cargo xtask demo`: the balancer on real traffic, all in one process.

use crate::process::{Cargo, Failure, rest};

pub(crate) fn run(arguments: lexopt::Parser) -> Result<(), Failure> {
    Cargo::new([
        "run",
        "--quiet",
        "--release",
        "-p",
        "balancer",
        "--example",
        "demo",
        "--",
    ])
    .arguments(rest(arguments)?)
    .run()
}
