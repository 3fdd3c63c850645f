//! The thread that writes what was collected, so that collecting goes on meanwhile.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

use profiledb::{Error, Writer};

use crate::checkpointer;
use crate::flush::Snapshot;
use machine::kernel::KernelNames;
use machine::system::threads::Threads;

/// How often who waits for the thread is asked whether to wait on.
const LOOK: Duration = Duration::from_millis(20);

/// How a snapshot is written.
type Write = fn(&Snapshot, &mut Writer, &mut KernelNames) -> Result<(), Error>;

/// What the thread is to do.
enum Job {
    /// The database goes with it, and comes back.
    Write(Box<(Writer, Arc<Snapshot>)>),
    /// To end the epoch at this time of the wall clock in nanoseconds, and close the database: with
    /// its log merged, once those who merge it have ended, or as it is.
    End {
        writer: Box<Writer>,
        ended: i64,
        merge: Option<Arc<checkpointer::Shared>>,
        report: SyncSender<Result<(), Error>>,
    },
}

/// What became of it.
pub(crate) struct Done {
    pub(crate) writer: Writer,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The outer error is a panic: what spoils the writing of it once would do so again.
    pub(crate) result: thread::Result<Result<(), Error>>,
    pub(crate) took: Duration,
}

/// The thread. It has one thing to do at a time, and ends when this is dropped.
pub(crate) struct Saver {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    busy: bool,
    thread: Threads,
}

impl Saver {
    /// # Errors
    /// The system allows no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        Self::writing(Snapshot::write)
    }

    /// As [`start`](Self::start), with another way to write.
    fn writing(write: Write) -> io::Result<Self> {
        // One database may be being closed while the next is written to.
        let (jobs, to_do) = sync_channel::<Job>(2);
        let (report, done) = sync_channel(1);
        let work = move || {
            let mut names = KernelNames::default();
            for job in to_do {
                let (mut writer, snapshot) = match job {
                    Job::Write(both) => *both,
                    Job::End {
                        writer,
                        ended,
                        merge,
                        report,
                    } => {
                        // Whoever wanted to know may not wait for it.
                        let _ = report.try_send(end(*writer, ended, merge));
                        continue;
                    }
                };
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
        let thread = Threads::default();
        thread.spawn("saver", work)?;
        Ok(Self {
            jobs,
            done,
            busy: false,
            thread,
        })
    }

    /// Its processor time so far; nothing where the kernel does not tell.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.thread.cpu_time()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins to write; nothing else is being written. All is given back if the thread is gone.
    pub(crate) fn begin(
        &mut self,
        writer: Writer,
        snapshot: Arc<Snapshot>,
    ) -> Result<(), Box<(Writer, Arc<Snapshot>)>> {
        let job = Job::Write(Box::new((writer, snapshot)));
        match self.jobs.try_send(job) {
            Err(
                TrySendError::Full(Job::Write(both)) | TrySendError::Disconnected(Job::Write(both)),
            ) => Err(both),
            _ => {
                self.busy = true;
                Ok(())
            }
        }
    }

    /// Begins to end an epoch, as [`Job::End`] says; what comes of it is received. Where the thread
    /// is gone, nothing is.
    pub(crate) fn end(
        &mut self,
        writer: Writer,
        ended: i64,
        merge: Option<Arc<checkpointer::Shared>>,
    ) -> Receiver<Result<(), Error>> {
        let (report, ending) = sync_channel(1);
        let job = Job::End {
            writer: Box::new(writer),
            ended,
            merge,
            report,
        };
        // A database that is not closed is whole.
        let _ = self.jobs.try_send(job);
        ending
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

    /// Waits for that, as long as `patient` says.
    pub(crate) fn wait(&mut self, patient: &dyn Fn() -> bool) -> Option<Done> {
        while self.busy && patient() {
            let ended = self.done.recv_timeout(LOOK);
            self.busy = matches!(ended, Err(RecvTimeoutError::Timeout));
            if let Ok(done) = ended {
                return Some(done);
            }
        }
        None
    }
}

fn end(
    mut writer: Writer,
    ended: i64,
    merge: Option<Arc<checkpointer::Shared>>,
) -> Result<(), Error> {
    let noted = writer.end_epoch(ended);
    let closed = match merge {
        Some(checkpointer) => {
            checkpointer.await_idle();
            writer.close()
        }
        None => writer.leave(),
    };
    noted.and(closed)
}

#[cfg(test)]
impl Saver {
    /// A thread to which each snapshot is a defect.
    pub(crate) fn failing() -> io::Result<Self> {
        Self::writing(|_, _, _| panic!("a defect that is made up"))
    }
}
