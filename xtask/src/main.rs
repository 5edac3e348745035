//! The project's own commands: `cargo xtask help`.
//!
//! One file a command. They run cargo and the examples of the crates, and depend on none of them.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod bench;
mod ci;
mod compat;
mod demo;
mod document;
mod features;
mod fuzz;
mod live;
mod miri;
mod process;
mod test;
mod tidy;

use std::process::ExitCode;

use crate::process::Failure;

fn main() -> ExitCode {
    match dispatch(lexopt::Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Exit(code)) => ExitCode::from(code),
        Err(Failure::Message(message)) => {
            eprintln!("cargo xtask: {message}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::Arg::{Long, Short, Value};
    let name = match arguments.next()? {
        Some(Value(name)) => name.to_string_lossy().into_owned(),
        None | Some(Long("help") | Short('h')) => HELP.to_owned(),
        Some(flag) => return Err(flag.unexpected().into()),
    };
    if name == HELP {
        print!("{}", help());
        return Ok(());
    }
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(arguments),
        None => Err(format!("no command {name:?}; `cargo xtask help` lists them").into()),
    }
}

struct Command {
    name: &'static str,
    flags: &'static str,
    about: &'static str,
    run: fn(lexopt::Parser) -> Result<(), Failure>,
}

fn help() -> String {
    let mut text = "cargo xtask COMMAND [FLAGS]\n\n".to_owned();
    for command in COMMANDS {
        let usage = format!("{} {}", command.name, command.flags);
        text += &format!("  {}\n      {}\n", usage.trim_end(), command.about);
    }
    text
}

const HELP: &str = "help";

const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        flags: "[--backends N] [--seconds S] [--algorithm NAME] [--json]",
        about: "real backends, a proxy and clients on loopback; backends die, fail, join and drain",
        run: demo::run,
    },
    Command {
        name: "test",
        flags: "[--all-features] [--no-install]",
        about: "all tests and doc tests; installs cargo-nextest if it is missing",
        run: test::run,
    },
    Command {
        name: "compat",
        flags: "[--only SYSTEM] [--json] | --write | --live [--install] [--seed N] [--only SYSTEM]",
        about: "our choices against those of other systems: recorded, or asked of them now",
        run: compat::run,
    },
    Command {
        name: "bench",
        flags: "[ring|selection|balancer|spread|all|plots] [--check] [--json FILE] [--plots]",
        about: "against other crates; --check fails below the performance budget, --plots draws",
        run: bench::run,
    },
    Command {
        name: "features",
        flags: "[--write]",
        about: "that each feature acts through every crate and changes no other answer",
        run: features::run,
    },
    Command {
        name: "fuzz",
        flags: "[--seconds N] [--keep] [TARGET ...]",
        about: "the fuzz targets, 30 seconds each; --keep puts the best inputs into fuzz/corpus",
        run: fuzz::run,
    },
    Command {
        name: "miri",
        flags: "",
        about: "the unit tests of ketama and selection under miri, where the toolchain has it",
        run: miri::run,
    },
    Command {
        name: "tidy",
        flags: "",
        about: "the project's own rules: sizes, imports, dependencies, test data",
        run: tidy::run,
    },
    Command {
        name: "ci",
        flags: "[STEP ...] [--peers]",
        about: "everything that a change must pass, with times; --peers adds crates/peers",
        run: ci::run,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arguments: &[&str]) -> String {
        match dispatch(lexopt::Parser::from_args(arguments)) {
            Err(Failure::Message(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_unknown_is_named() {
        assert!(message(&["tset"]).contains("\"tset\""));
        assert!(message(&["--frobnicate"]).contains("--frobnicate"));
        for command in ["test", "tidy", "miri", "ci", "fuzz"] {
            assert!(message(&[command, "--frobnicate"]).contains("--frobnicate"));
        }
        assert!(message(&["ci", "lnit"]).contains("\"lnit\""));
        assert!(message(&["bench", "rign"]).contains("\"rign\""));
        assert!(message(&["fuzz", "rign"]).contains("\"rign\""));
    }

    #[test]
    fn help_lists_every_command_once() {
        for command in COMMANDS {
            assert_eq!(
                help().matches(&format!("\n  {} ", command.name)).count()
                    + help().matches(&format!("\n  {}\n", command.name)).count(),
                1,
                "{}",
                command.name
            );
        }
    }
}
