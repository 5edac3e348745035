//! `cargo xtask compat --live`: our choices against those of real servers, asked now.

use std::ffi::OsString;
use std::process::Command;

use crate::process::{Cargo, Failure};

/// Runs the example; what is not `--install` is for it to understand.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let (install, rest): (Vec<_>, Vec<_>) = arguments
        .into_iter()
        .partition(|argument| argument == "--install");
    if !install.is_empty() {
        get_servers()?;
    }
    live().arguments(rest).run()
}

/// Twice, with pools that nobody has seen before.
pub(crate) fn check() -> Result<(), Failure> {
    live().run()?;
    live().run()
}

/// As the tests build it, unoptimised: the servers are what takes time.
fn live() -> Cargo {
    Cargo::new(["run", "-p", "balancer"]).arguments([
        "--example",
        "live",
        "--features",
        FEATURES,
        "--",
    ])
}

/// Gets what is missing with Debian's package manager.
fn get_servers() -> Result<(), Failure> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.into_iter().copied();
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    apt_get(&["update", "-qq"])?;
    apt_get(&install.into_iter().chain(names).collect::<Vec<_>>())
}

fn apt_get(arguments: &[&str]) -> Result<(), Failure> {
    let line = format!("apt-get {}", arguments.join(" "));
    eprintln!("$ {line}");
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{line}` failed; it needs root").into())
}

fn is_installed(package: &str) -> bool {
    let query = ["-W", "-f", "${db:Status-Status}", package];
    let output = Command::new("dpkg-query").args(query).output();
    output.is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

/// The servers, what their probes are compiled with, and the tools that make a namespace.
const PACKAGES: &[&str] = &[
    "nginx-light",
    "libmemcached-dev",
    "nutcracker",
    "gcc",
    "libc6-dev",
    "iproute2",
    "util-linux",
    "mount",
];

/// `required-features` of the example.
const FEATURES: &str = "schemes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dpkg_does_not_know_is_not_installed() {
        assert!(!is_installed("no-such-package-here"));
    }
}
