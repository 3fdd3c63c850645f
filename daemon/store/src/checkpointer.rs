//! The thread that makes checkpoints: it merges a database's write-ahead log into it, and waits for
//! the disk. Commits do not wait: they go into the log meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use profiledb::{Checkpoint, checkpoint, log_bytes};

use machine::system::threads::Threads;

/// Bytes of a log that is not merged. When it is longer, the disk does not keep up.
const MOST_LOG: u64 = 256 << 20;
/// A disk that takes longer for merging is slow.
const SLOW: Duration = Duration::from_secs(1);

/// The thread, which ends when this is dropped.
pub(crate) struct Checkpointer {
    wanted: SyncSender<PathBuf>,
    shared: Arc<Shared>,
    thread: Threads,
}

/// What others know of it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<CheckpointState>,
    /// Nothing is to be merged any more.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct CheckpointState {
    /// What is to be merged and is not yet.
    waiting: u32,
    /// Since when it is at it.
    since: Option<Instant>,
    /// All that was committed when it was wanted last has been merged.
    all: bool,
    /// How long it took the last time.
    took: Duration,
}

impl Checkpointer {
    /// # Errors
    /// The system allows no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let (wanted, to_do) = sync_channel(1);
        let (shared, thread) = (Arc::default(), Threads::default());
        let own = Arc::clone(&shared);
        thread.spawn("checkpointer", move || work(&to_do, &own))?;
        Ok(Self {
            wanted,
            shared,
            thread,
        })
    }

    /// Has the log of this database merged, to which something was added.
    pub(crate) fn want(&self, path: &Path) {
        let mut state = self.shared.lock();
        state.all = false;
        // Where it is wanted already, what is new is merged with it, or the next time.
        if self.wanted.try_send(path.to_owned()).is_ok() {
            state.waiting += 1;
        }
    }

    /// Whether the disk does not keep up, so that the log of this database is not to grow.
    pub(crate) fn is_behind(&self, path: &Path) -> bool {
        !self.shared.lock().all && log_bytes(path) > MOST_LOG
    }

    /// Whether it is better not to wait for the disk.
    pub(crate) fn is_slow(&self) -> bool {
        let state = self.shared.lock();
        let long = state.since.is_some_and(|since| since.elapsed() > SLOW);
        long || state.took > SLOW
    }

    /// What those can wait on who are to close a database.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Processor time of the thread.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.thread.cpu_time()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, CheckpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is to be merged: a database that another has open cannot be closed as a
    /// whole.
    pub(crate) fn await_idle(&self) {
        let waiting = |state: &mut CheckpointState| state.waiting > 0;
        // What it was is of no interest.
        drop(self.idle.wait_while(self.lock(), waiting));
    }
}

fn work(to_do: &Receiver<PathBuf>, shared: &Shared) {
    for path in to_do {
        let begun = Instant::now();
        shared.lock().since = Some(begun);
        let made = checkpoint(&path);
        if let Err(error) = &made {
            // Whoever writes next finds out more about it.
            tracing::debug!(%error, "a log is not merged");
        }
        let mut state = shared.lock();
        state.since = None;
        state.waiting -= 1;
        if state.waiting == 0 {
            shared.idle.notify_all();
        }
        state.all = state.waiting == 0 && matches!(made, Ok(Checkpoint::Whole));
        state.took = begun.elapsed();
    }
}
