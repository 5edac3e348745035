//! `cargo xtask demo`: the balancer on real traffic, all in one process.

use crate::process::{Cargo, Failure, rest};

pub(crate) fn run(arguments: lexopt::Parser) -> Result<(), Failure> {
    // Not quiet: a first build takes minutes, in which a user wants to see that something happens.
    Cargo::new([
        "run",
        "--release",
        "-p",
        "balancer",
        "--example",
        "demo",
        "--features",
        "file,http",
        "--",
    ])
    .arguments(rest(arguments)?)
    .run()
}
