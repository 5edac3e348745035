//! The file that says which backends there are, as `discovery::File` reads it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, io, process};

/// A list of backends in a folder of its own, which goes with it.
#[derive(Debug)]
pub(crate) struct List {
    folder: PathBuf,
    path: PathBuf,
    members: Vec<SocketAddr>,
}

impl List {
    pub(crate) fn create(members: Vec<SocketAddr>) -> io::Result<Self> {
        static LISTS: AtomicU64 = AtomicU64::new(0);
        let (process, list) = (process::id(), LISTS.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(format!("balancer-demo-{process}-{list}"));
        fs::create_dir(&folder)?;
        let path = folder.join("backends.toml");
        let list = Self {
            folder,
            path,
            members,
        };
        list.write(&list.text())?;
        Ok(list)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn add(&mut self, member: SocketAddr) -> io::Result<()> {
        self.members.push(member);
        self.write(&self.text())
    }

    pub(crate) fn remove(&mut self, member: SocketAddr) -> io::Result<()> {
        self.members.retain(|known| *known != member);
        self.write(&self.text())
    }

    /// What a slip of the keyboard makes of it.
    pub(crate) fn misspell(&self) -> io::Result<()> {
        self.write(&format!("{}weigth = 2\n", self.text()))
    }

    fn text(&self) -> String {
        let entry = |addr: &SocketAddr| format!("[[backends]]\naddr = \"{addr}\"\n");
        self.members.iter().map(entry).collect()
    }

    /// A complete file, moved over the old one: whoever reads sees the one or the other.
    fn write(&self, text: &str) -> io::Result<()> {
        let new = self.folder.join("backends.toml.new");
        fs::write(&new, text)?;
        fs::rename(new, &self.path)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // Left behind it is a few bytes in a folder for such.
        fs::remove_dir_all(&self.folder).ok();
    }
}
