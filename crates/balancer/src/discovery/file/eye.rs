//! The watch on a file: on its folder, because a file that is moved over another is a new one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, Event, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use super::FileError;

/// Tells when a file may be another than it was.
#[derive(Debug)]
pub(super) struct Eye {
    folder: PathBuf,
    signal: Arc<Signal>,
    watch: Mutex<Watch>,
}

#[derive(Debug)]
struct Watch {
    watcher: RecommendedWatcher,
    /// What the folder was when it was last watched; `None` if it may be another by now.
    watched: Option<PathBuf>,
}

/// What the watch sees, and who waits for it.
#[derive(Debug)]
struct Signal {
    path: PathBuf,
    name: OsString,
    /// Where the path led before it was last read: symbolic links may turn without an event that
    /// names the file.
    target: Mutex<Option<PathBuf>>,
    changes: watch::Sender<()>,
}

impl Eye {
    /// Watches for the file at `path`.
    pub(super) fn new(path: &Path) -> Result<Self, FileError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let signal = Arc::new(Signal::new(path));
        let to_tell = Arc::clone(&signal);
        let watcher = notify::recommended_watcher(move |event| to_tell.on_event(event));
        let watcher = watcher.map_err(|cause| FileError::Unwatchable {
            folder: folder.clone(),
            cause,
        })?;
        let eye = Self {
            folder,
            signal,
            watch: Mutex::new(Watch {
                watcher,
                watched: None,
            }),
        };
        eye.open()?;
        Ok(eye)
    }

    /// Returns at the first change after the first poll.
    pub(super) async fn changed(&self) {
        let mut changes = self.signal.changes.subscribe();
        // The sender is in `self`: there is no other end than a change.
        drop(changes.changed().await);
    }

    /// Watches the folder, unless it does. Every change from now on is told.
    pub(super) fn open(&self) -> Result<(), FileError> {
        let mut watch = lock(&self.watch);
        *lock(&self.signal.target) = self.signal.path.canonicalize().ok();
        let folder = self.folder.canonicalize().ok();
        if folder.is_some() && folder == watch.watched {
            return Ok(());
        }
        watch.watched = None;
        let opened = watch
            .watcher
            .watch(&self.folder, RecursiveMode::NonRecursive);
        opened.map_err(|cause| FileError::Unwatchable {
            folder: self.folder.clone(),
            cause,
        })?;
        watch.watched = folder;
        Ok(())
    }

    /// Lets the next [`open`](Self::open) watch the folder anew: it may have been replaced.
    pub(super) fn doubt(&self) {
        lock(&self.watch).watched = None;
    }
}

impl Signal {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            name: path.file_name().unwrap_or_default().to_owned(),
            target: Mutex::new(None),
            changes: watch::Sender::new(()),
        }
    }

    fn on_event(&self, event: notify::Result<Event>) {
        // An error means that something was missed.
        if event.as_ref().map_or(true, |event| self.matters(event)) {
            self.changes.send_replace(());
        }
    }

    fn matters(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
            // Among them our own reading.
            EventKind::Access(_) => return false,
            // Its writer is still at it, and its end will be told.
            EventKind::Modify(ModifyKind::Data(_)) if TELLS_THE_END => return false,
            _ => {}
        }
        let is_ours = |path: &PathBuf| path.file_name() == Some(&self.name);
        event.need_rescan()
            || event.paths.iter().any(is_ours)
            || *lock(&self.target) != self.path.canonicalize().ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the system says when a file that was open for writing is closed.
const TELLS_THE_END: bool = cfg!(any(target_os = "linux", target_os = "android"));
