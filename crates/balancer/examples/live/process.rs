//! Programs and folders that are gone when their owner is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};

use crate::Error;

/// A server that is killed on drop.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    /// What it wrote; shown if it ends by itself.
    log: PathBuf,
}

impl Server {
    pub(crate) fn start(
        name: &'static str,
        command: &mut Command,
        log: PathBuf,
    ) -> Result<Self, Error> {
        let output = fs::File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Self { name, child, log })
    }

    /// Waits until the server listens at `socket`.
    pub(crate) async fn listens(&mut self, socket: &Path) -> Result<(), Error> {
        for _ in 0..STARTS {
            if tokio::net::UnixStream::connect(socket).await.is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended, {status}:\n{}", self.name, self.told()).into());
            }
            tokio::time::sleep(A_START).await;
        }
        Err(format!("{} does not listen:\n{}", self.name, self.told()).into())
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|error| error.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A folder of our own, and the working folder while it lives.
///
/// A process that runs this program again shares its folder. Both see to it that the folder is
/// gone in the end, as either may be killed.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    before: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> io::Result<Self> {
        let path = match Self::shared() {
            Some(path) => path,
            None => {
                // Numbers of processes repeat, all the more in containers.
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let nanos = since.map_or(0, |since| since.subsec_nanos());
                let name = format!("compat-live-{}-{nanos}", std::process::id());
                let path = std::env::temp_dir().join(name);
                fs::create_dir(&path)?;
                path
            }
        };
        let before = std::env::current_dir()?;
        std::env::set_current_dir(&path)?;
        Ok(Self { path, before })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the process that runs this one, if it is one of ours.
    pub(crate) fn shared() -> Option<PathBuf> {
        std::env::var_os(SHARED).map(PathBuf::from)
    }

    /// Lets `command` share this folder.
    pub(crate) fn share(&self, command: &mut Command) {
        command.env(SHARED, &self.path);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that will not go, and it may be gone.
        drop(std::env::set_current_dir(&self.before));
        drop(fs::remove_dir_all(&self.path));
    }
}

/// What comes of `work`, unless somebody wants us to stop: then everything is dropped, servers and
/// folders as well.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = interrupted.recv() => Err("interrupted".into()),
        _ = terminated.recv() => Err("terminated".into()),
    }
}

/// A program that is looked for where Debian puts servers, too; users other than root do not.
pub(crate) fn command(program: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new(program);
    command.env("PATH", path);
    command
}

/// What a program prints, on both of its outputs, or `None` if there is no such program.
pub(crate) fn said<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Option<String> {
    let output = command(program).args(arguments).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The first word of `text` that follows `before`, as in `nginx version: nginx/1.22.1`.
pub(crate) fn version(text: &str, before: &str) -> String {
    let after = text.split_once(before).map(|(_, after)| after);
    let word = after.and_then(|after| after.split_whitespace().next());
    word.unwrap_or("?").to_owned()
}

const SHARED: &str = "COMPAT_LIVE_FOLDER";

const A_START: Duration = Duration::from_millis(10);
const STARTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let nginx = "nginx version: nginx/1.22.1 (Debian)\n";
        assert_eq!(version(nginx, "nginx/"), "1.22.1");
        assert_eq!(
            version("This is nutcracker-0.5.0\nasync", "nutcracker-"),
            "0.5.0"
        );
        assert_eq!(version("no such thing", "nginx/"), "?");
    }

    #[test]
    fn a_missing_program_says_nothing() {
        assert_eq!(said("no-such-program-here", &["-V"]), None);
    }
}
