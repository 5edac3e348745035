//! `cargo xtask miri`: the unit tests of `ketama` and `selection` under miri, which finds what
//! compiles and runs but has no defined meaning.

use std::process::{Command, Stdio};

use crate::process::{Failure, nothing_left, root};

pub(crate) fn run(arguments: lexopt::Parser) -> Result<(), Failure> {
    nothing_left(arguments)?;
    // `setup` builds the standard library for miri: it fails where miri or the sources are missing.
    if !nightly(&["miri", "setup"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("skipped: no nightly toolchain with the components miri and rust-src");
        return Ok(());
    }
    let mut line = vec!["miri", "test", "-p", "ketama", "-p", "selection"];
    line.extend(["--lib", "--all-features"]);
    for flags in RUSTFLAGS {
        eprintln!("$ RUSTFLAGS={flags:?} cargo +nightly {}", line.join(" "));
        if !nightly(&line).env("RUSTFLAGS", flags).status()?.success() {
            return Err(Failure::Exit(1));
        }
    }
    Ok(())
}

/// Through rustup, since the cargo that runs us is the pinned toolchain's own.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(arguments);
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.current_dir(root());
    command
}

/// Miri's CPU has the instructions that the compiler is told of: first a plain one, then one that
/// takes the ring's hash through its `unsafe` call.
const RUSTFLAGS: [&str; 2] = ["", "-C target-feature=+pclmulqdq,+sse4.1"];
