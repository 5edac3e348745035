//! Replays decisions recorded from other systems against ours: `cargo xtask compat`.
//!
//! `cargo run --release -p selection --features v2,schemes --example compat -- [--only SYSTEM] [--json]`
//!
//! A line per scenario, `SYSTEM NAME AGREED/DECISIONS`, and a sum. A decision is one recorded row:
//! the whole answer for one key. The exit status is 1 if any decision differs.
//!
//! To add a system: one module with `fn scenarios() -> Result<Vec<Scenario>, Error>`, its data in
//! `test-data/SYSTEM` with a README, and a row in [`SYSTEMS`].

mod brpc;
mod libmemcached;
mod nginx;
mod nginx_balancer;
mod nginx_trace;
mod pingora;
mod report;
mod rj_ketama;
mod scenario;
mod table;
mod twemproxy;
mod upstream;

use std::process::ExitCode;

use crate::report::Format;
use crate::scenario::Scenario;

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let run = Arguments::parse(std::env::args().skip(1)).and_then(|arguments| arguments.run());
    match run {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("compat: {error}");
            ExitCode::from(2)
        }
    }
}

struct Arguments {
    only: Option<String>,
    format: Format,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut parsed = Self {
            only: None,
            format: Format::Text,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" => parsed.only = Some(known(arguments.next())?),
                "--json" => parsed.format = Format::Json,
                _ => return Err(format!("unknown argument {argument:?}").into()),
            }
        }
        Ok(parsed)
    }

    /// Returns the number of decisions that differ.
    fn run(&self) -> Result<usize, Error> {
        let mut all = Vec::new();
        for (system, scenarios) in SYSTEMS {
            if self.only.as_deref().is_none_or(|only| only == *system) {
                let scenarios = scenarios().map_err(|error| format!("{system}: {error}"))?;
                report::scenarios(self.format, &scenarios)?;
                all.extend(scenarios);
            }
        }
        report::total(self.format, &all)
    }
}

fn known(system: Option<String>) -> Result<String, Error> {
    let names: Vec<_> = SYSTEMS.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let system = system.ok_or_else(|| format!("--only needs one of {names}"))?;
    if SYSTEMS.iter().any(|(name, _)| *name == system) {
        Ok(system)
    } else {
        Err(format!("--only {system:?}: not one of {names}").into())
    }
}

type Scenarios = fn() -> Result<Vec<Scenario>, Error>;

const SYSTEMS: &[(&str, Scenarios)] = &[
    ("nginx", nginx::scenarios),
    ("pingora", pingora::scenarios),
    ("rj-ketama", rj_ketama::scenarios),
    ("libmemcached", libmemcached::scenarios),
    ("twemproxy", twemproxy::scenarios),
    ("brpc", brpc::scenarios),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_and_systems_are_named() {
        let error = |arguments: &[&str]| {
            let arguments = arguments.iter().map(|argument| (*argument).to_owned());
            Arguments::parse(arguments).err().unwrap().to_string()
        };
        assert_eq!(error(&["--jsno"]), "unknown argument \"--jsno\"");
        assert!(error(&["--only"]).starts_with("--only needs one of nginx, "));
        assert!(error(&["--json", "--only", "apache"]).starts_with("--only \"apache\": not one"));
    }
}
