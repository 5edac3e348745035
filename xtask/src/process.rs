//! Running cargo: every command line is printed before it runs, and its exit status is passed on.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a command of ours fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A program said no, and has said why; its exit status is ours.
    Exit(u8),
    /// What is wrong, for the user.
    Message(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Message(error.to_string())
    }
}

/// What a program wrote.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A cargo command line, run in the root of the workspace.
#[derive(Debug)]
pub(crate) struct Cargo {
    arguments: Vec<OsString>,
    variables: Vec<(&'static str, &'static str)>,
}

impl Cargo {
    pub(crate) fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self {
            arguments: arguments
                .into_iter()
                .map(|a| a.as_ref().to_owned())
                .collect(),
            variables: Vec::new(),
        }
    }

    /// More arguments.
    pub(crate) fn arguments<S: AsRef<OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// With an environment variable.
    pub(crate) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    /// The line as a user would type it.
    pub(crate) fn line(&self) -> String {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={value:?} "));
        let arguments = self
            .arguments
            .iter()
            .map(|a| format!(" {}", a.to_string_lossy()));
        variables
            .chain(["cargo".to_owned()])
            .chain(arguments)
            .collect()
    }

    /// Prints the line and runs it; what the program writes goes to our own output.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        eprintln!("$ {}", self.line());
        let status = self
            .command()
            .status()
            .map_err(|error| format!("cannot run `{}`: {error}", self.line()))?;
        match status.code() {
            Some(0) => Ok(()),
            // A signal has no exit status; 1 says no more than "it failed".
            code => Err(Failure::Exit(
                code.and_then(|c| u8::try_from(c).ok()).unwrap_or(1),
            )),
        }
    }

    /// Whether the line succeeds; prints nothing.
    pub(crate) fn succeeds(&self) -> bool {
        self.output().is_ok_and(|output| output.success)
    }

    /// Runs the line and keeps what it writes; prints nothing.
    pub(crate) fn output(&self) -> Result<Output, Failure> {
        let output = self
            .command()
            .output()
            .map_err(|error| format!("cannot run `{}`: {error}", self.line()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Output {
            success: output.status.success(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    fn command(&self) -> Command {
        // The cargo that runs us: the pinned toolchain's.
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(&self.arguments);
        command.envs(self.variables.iter().copied());
        command.current_dir(root());
        command
    }
}

/// Gets the subcommand `cargo NAME` from the crate registry if cargo does not find it.
pub(crate) fn install(name: &str) -> Result<(), Failure> {
    if Cargo::new([name, "--version"]).succeeds() {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    eprintln!("{package} is missing: cargo installs it now, which takes some minutes, once");
    Cargo::new(["install", &package, "--locked"]).run()
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let folder = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(folder)
}

/// The arguments that are left, for a command that hands them to an example; the example names
/// those it does not know.
pub(crate) fn rest(mut arguments: lexopt::Parser) -> Result<Vec<OsString>, Failure> {
    Ok(arguments.raw_args()?.collect())
}

/// For a command without flags.
pub(crate) fn nothing_left(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    match arguments.next()? {
        Some(argument) => Err(argument.unexpected().into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_what_a_user_would_type() {
        let cargo = Cargo::new(["doc", "--no-deps"]).variable("RUSTDOCFLAGS", "-D warnings");
        let line = cargo.arguments(["--workspace"]).line();
        assert_eq!(
            line,
            "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps --workspace"
        );
    }

    #[test]
    fn exit_status_is_passed_on() {
        // An unknown command is status 101 in every cargo.
        let run = Cargo::new(["no-such-command"]).run();
        assert!(matches!(run, Err(Failure::Exit(101))), "{run:?}");
        assert!(!Cargo::new(["no-such-command"]).succeeds());
    }
}
