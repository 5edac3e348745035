//! Prints the pools that the upstream blocks of an nginx configuration are here, in TOML:
//!
//! ```sh
//! cargo run -p balancer --example import_nginx -- nginx.conf
//! ```
//!
//! Where a pool is printed, its choice is nginx's, and what is otherwise is said in comments. Where
//! it could not be, the line and column that cannot be honoured are printed instead, with the
//! reason, and the exit code is 1. `docs/migrating-from-nginx.md` says why.
//!
//! The text is written without the crate's own types, so that the example needs no feature; the
//! tests read it back with `balancer::PoolConfig`.

#![expect(
    clippy::print_stdout,
    reason = "a program: what it prints is what it is for"
)]

mod files;
mod names;
mod nginx;
mod pool;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};

use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

use crate::files::Files;
use crate::nginx::{Located, Place, Upstream, upstream};

fn main() -> ExitCode {
    let args = match Args::parse(lexopt::Parser::from_env()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Some(path) = args.path.clone() else {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    };
    let mut files = Files::default();
    let read = if path.as_os_str() == "-" {
        io::read_to_string(io::stdin())
            .map_err(|error| Located::new(Place::default(), error.to_string()))
            .and_then(|text| nginx::parse(&text))
    } else {
        files.read(&path).map(|tree| upstream::all(&tree))
    };
    let mut upstreams = match read {
        Ok(upstreams) => upstreams,
        Err(error) => {
            eprintln!("{}", files.text(&error));
            return ExitCode::FAILURE;
        }
    };
    for missing in &files.missing {
        eprintln!("{}", files.text(missing));
    }
    upstreams.retain(|upstream| args.only.as_ref().is_none_or(|name| *name == upstream.name));
    if upstreams.is_empty() {
        eprintln!("there is no such upstream block");
        return ExitCode::FAILURE;
    }
    let mut is_whole = true;
    for mut upstream in upstreams {
        if args.names == Names::Resolve {
            names::resolve(&mut upstream);
        }
        is_whole &= import(&args, &files, &upstream);
    }
    if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints or writes one pool; returns whether there was one.
fn import(args: &Args, files: &Files, upstream: &Upstream) -> bool {
    let text = match pool::toml(upstream) {
        Ok(text) => text,
        Err(refusals) => {
            for refusal in &refusals {
                eprintln!("{}", files.text(refusal));
            }
            return false;
        }
    };
    let Some(folder) = &args.folder else {
        println!("{text}");
        return true;
    };
    let path = folder.join(format!("{}.toml", upstream.name.replace('/', "_")));
    match write(&path, &text) {
        Ok(()) => {
            eprintln!("{}", path.display());
            true
        }
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            false
        }
    }
}

fn write(path: &std::path::Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// The command line.
#[derive(Debug, Default)]
struct Args {
    path: Option<PathBuf>,
    /// The one upstream that is wanted.
    only: Option<String>,
    /// Where to write to, a file for each.
    folder: Option<PathBuf>,
    names: Names,
}

/// What becomes of host names.
#[derive(Debug, Default, PartialEq, Eq)]
enum Names {
    /// Sources that ask DNS while the pool runs.
    #[default]
    Keep,
    /// Addresses that they have now, as nginx does when it starts.
    Resolve,
}

impl Args {
    /// Without a path, help is wanted.
    fn parse(mut arguments: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut args = Self::default();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("upstream") => args.only = Some(arguments.value()?.string()?),
                Long("write") => args.folder = Some(arguments.value()?.into()),
                Long("resolve") => args.names = Names::Resolve,
                Long("help") | Short('h') => return Ok(Self::default()),
                Value(path) if args.path.is_none() => args.path = Some(path.into()),
                other => return Err(other.unexpected()),
            }
        }
        if args.path.is_none() {
            return Err("which file?".into());
        }
        Ok(args)
    }
}

const USAGE: &str = "\
import_nginx [OPTIONS] FILE
    Prints the pools that the upstream blocks of FILE are, in TOML. FILE may be -, for the
    standard input, whose includes are not followed.
  --upstream NAME  only this one
  --write FOLDER   into FOLDER/NAME.toml, instead of printing them
  --resolve        look up the names of servers now, as nginx does when it starts";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Args, lexopt::Error> {
        Args::parse(lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn arguments_are_read() {
        let read = args("--upstream a nginx.conf --write out --resolve").expect("all there are");
        assert_eq!(read.path, Some("nginx.conf".into()));
        assert_eq!(
            (read.only.as_deref(), read.folder),
            (Some("a"), Some("out".into()))
        );
        assert_eq!(read.names, Names::Resolve);
        assert_eq!(
            args("-").expect("the standard input").path,
            Some("-".into())
        );
        assert_eq!(args("--help").expect("help").path, None);
        for wrong in ["", "a b", "--upstream", "--color a"] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pools_are_written_into_a_folder() {
        let folder = std::env::temp_dir().join(format!("import-nginx-{}", std::process::id()));
        let args = Args {
            folder: Some(folder.join("pools")),
            ..Args::default()
        };
        let upstreams = nginx::parse("upstream a/b { server 10.0.0.1; } upstream c { }");
        let upstreams = upstreams.expect("nginx's grammar");
        let written = upstreams
            .iter()
            .map(|u| import(&args, &Files::default(), u));
        assert_eq!(written.collect::<Vec<_>>(), [true, false]);
        let text = fs::read_to_string(folder.join("pools/a_b.toml")).expect("the pool");
        assert!(text.starts_with("# upstream a/b\n"), "{text}");
        fs::remove_dir_all(folder).expect("the folder");
    }
}
