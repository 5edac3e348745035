//! Asks real servers, now: `cargo xtask compat --live`.
//!
//! nginx, libmemcached and twemproxy are started on loopback, with pools, weights and keys that are
//! made up from a seed, and each decision of theirs is compared with ours. The seed is printed; with
//! it, and with the place of a difference, the same is asked again.
//!
//! An honest comparison keeps the two apart. Who refuses, fails or holds a request is decided by
//! the script of a pool before anybody is asked; of nginx's answers ours is given only the second
//! on its clock, and that only where time decides.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the library: it spawns its servers and clients, and reads the clock"
)]

mod args;
mod libmemcached;
mod namespace;
mod nginx;
mod process;
mod random;
mod report;
mod twemproxy;
mod weights;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::args::{Args, USAGE};
use crate::namespace::Namespace;
use crate::process::Folder;
use crate::report::{Outcome, Row, Table};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let args = match Args::parse(lexopt::Parser::from_env()) {
        Ok(args) => args,
        Err(mistake) => return complain(&mistake),
    };
    if args.help {
        return match writeln!(io::stdout(), "{USAGE}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error),
        };
    }
    let folder = match Folder::new() {
        Ok(folder) => folder,
        Err(error) => return complain(&error),
    };
    if Folder::shared().is_none()
        && let Some(code) = Namespace::enter(&folder)
    {
        return code;
    }
    match run(&args, &folder) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => complain(&error),
    }
}

/// Returns whether all decisions agree, and all servers that are required were asked.
fn run(args: &Args, folder: &Folder) -> Result<bool, Error> {
    let mut out = io::stdout();
    writeln!(out, "seed {}", args.seed)?;
    let namespace = Namespace::here()?;
    let mut rows = Vec::new();
    for (system, ask) in SYSTEMS {
        if args.wants_system(system) {
            rows.extend(
                ask(args, folder, namespace)
                    .map_err(|error| format!("{system} (seed {}): {error}", args.seed))?,
            );
        }
    }
    if rows.is_empty() {
        return Err("there is no such scenario, or not so many pools of it".into());
    }
    let table = Table(&rows);
    writeln!(out, "{table}")?;
    let is_missing = |row: &Row| matches!(row.result, Outcome::Missing(_));
    let are_required = std::env::var_os("REQUIRE_SERVERS").is_some();
    Ok(table.total().differ == 0 && !(are_required && rows.iter().any(is_missing)))
}

fn complain(what: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("live: {what}");
    ExitCode::from(2)
}

type Ask = fn(&Args, &Folder, Namespace) -> Result<Vec<Row>, Error>;

const SYSTEMS: &[(&str, Ask)] = &[
    (nginx::SYSTEM, nginx::run),
    (libmemcached::SYSTEM, libmemcached::run),
    (twemproxy::SYSTEM, twemproxy::run),
];
