//! The thread that writes what was collected, so that collecting goes on meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::unistd::{Pid, gettid};
use profiledb::{Error, Writer};

use crate::flush::Snapshot;
use crate::kernel::KernelNames;
use crate::procfs;

/// How a snapshot is written.
type Write = fn(&Snapshot, &mut Writer, &mut KernelNames) -> Result<(), Error>;

/// What the thread is to do: the database goes with it, and comes back.
struct Job {
    writer: Writer,
    snapshot: Snapshot,
}

/// What became of it.
pub(crate) struct Done {
    pub(crate) writer: Writer,
    pub(crate) snapshot: Snapshot,
    /// The outer error is a panic: what spoils the writing of it once would do so again.
    pub(crate) result: thread::Result<Result<(), Error>>,
    pub(crate) took: Duration,
}

/// The thread. It has one thing to do at a time, and ends when this is dropped.
pub(crate) struct Saver {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    busy: bool,
    /// Its thread id.
    thread: Arc<OnceLock<Pid>>,
}

impl Saver {
    /// # Errors
    /// The system allows no more threads.
    pub(crate) fn start() -> Result<Self> {
        Self::writing(Snapshot::write)
    }

    /// As [`start`](Self::start), with another way to write.
    fn writing(write: Write) -> Result<Self> {
        let (jobs, to_do) = sync_channel::<Job>(1);
        let (report, done) = sync_channel(1);
        let thread = Arc::new(OnceLock::new());
        let own = Arc::clone(&thread);
        let work = move || {
            // It is set once.
            let _ = own.set(gettid());
            let mut names = KernelNames::default();
            for Job {
                mut writer,
                snapshot,
            } in to_do
            {
                let begun = Instant::now();
                // The transaction is rolled back by then, and the names are read anew at need.
                let result = catch_unwind(AssertUnwindSafe(|| {
                    write(&snapshot, &mut writer, &mut names)
                }));
                let took = begun.elapsed();
                let done = Done {
                    writer,
                    snapshot,
                    result,
                    took,
                };
                if report.send(done).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("saver".to_owned())
            .spawn(work)
            .context("cannot start a thread")?;
        Ok(Self {
            jobs,
            done,
            busy: false,
            thread,
        })
    }

    /// Its processor time so far; nothing where the kernel does not tell.
    pub(crate) fn cpu_time(&self) -> Duration {
        let thread = self.thread.get().map(|thread| thread.as_raw());
        thread
            .and_then(procfs::thread_time)
            .unwrap_or(Duration::ZERO)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins to write; nothing else is being written. All is given back if the thread is gone.
    pub(crate) fn begin(
        &mut self,
        writer: Writer,
        snapshot: Snapshot,
    ) -> Result<(), Box<(Writer, Snapshot)>> {
        match self.jobs.try_send(Job { writer, snapshot }) {
            Ok(()) => {
                self.busy = true;
                Ok(())
            }
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                Err(Box::new((job.writer, job.snapshot)))
            }
        }
    }

    /// What became of what was begun, once that is known.
    pub(crate) fn ended(&mut self) -> Option<Done> {
        if !self.busy {
            return None;
        }
        let ended = self.done.try_recv();
        self.busy = matches!(ended, Err(TryRecvError::Empty));
        ended.ok()
    }

    /// Waits for that.
    pub(crate) fn wait(&mut self) -> Option<Done> {
        let ended = self.busy.then(|| self.done.recv().ok());
        self.busy = false;
        ended.flatten()
    }
}

#[cfg(test)]
impl Saver {
    /// A thread to which each snapshot is a defect.
    pub(crate) fn failing() -> Result<Self> {
        Self::writing(|_, _, _| panic!("a defect that is made up"))
    }
}
