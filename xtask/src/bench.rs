//! `cargo xtask bench ring|selection|balancer`: ours against other crates, in the workspace `crates/peers`.

use crate::process::{Cargo, Failure, rest};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::Arg::Value;
    let names = BENCHES.join(", ");
    match arguments.next()? {
        Some(Value(name)) => match BENCHES.iter().find(|&&bench| name == bench) {
            Some(bench) => peer(bench).arguments(rest(arguments)?).run(),
            None => Err(format!("no bench {name:?}; there are {names}").into()),
        },
        Some(flag) => Err(flag.unexpected().into()),
        None => Err(format!("which bench? There are {names}").into()),
    }
}

/// A program of the workspace `crates/peers`; further arguments go to it, and a relative file among
/// them is relative to the root of the project.
fn peer(bench: &str) -> Cargo {
    let manifest = "crates/peers/Cargo.toml";
    let run = ["run", "--release", "--locked", "--manifest-path"];
    let features: &[&str] = match bench {
        "balancer" => &["--features", "balancer"],
        "selection" => &["--features", "selection"],
        _ => &[],
    };
    let cargo = Cargo::new(run).arguments([manifest, "--bin", bench]);
    cargo.arguments(features).arguments(["--"])
}

const BENCHES: [&str; 3] = ["ring", "selection", "balancer"];
