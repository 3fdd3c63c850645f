//! Stepping: what the processor itself makes of a few instructions, one by one.
//!
//! A sample names a thread. Soon behind it the thread is stopped where it is then, stepped over a
//! few instructions, and let go ([`sampler::Stepper`]); all its registers are read before and
//! behind each. The collector ([`crate::collector`]) makes values of what was seen, and
//! compares what it works out from the same registers.
//!
//! Another process does it ([`helper`]): what it traces must outlive the collector. A thread here
//! asks it, for one thread at a time, no more often than was asked for, and gives each thread a
//! rest.

mod error;
pub mod helper;
mod plan;
mod wire;

use std::collections::HashMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl;
use sampler::{Hitch, Pid, Tid, Visit};

pub use self::error::Error;
use self::wire::Ask;
use crate::lot::Lot;
use machine::loadmap::ProcessId;

/// Threads that wait for their turn at least and at most, and as many that are drawn of each round
/// of samples: of half a second.
const FEWEST: usize = 8;
const MOST: usize = 128;
/// Answers that wait for the collector.
const SEEN: usize = 64;
/// From one visit of a thread to the next, at least: one takes a fraction of a millisecond.
const REST: Duration = Duration::from_millis(10);
/// How long the other process may take to end. It ends when it has let go.
const PATIENCE: Duration = Duration::from_secs(1);

/// A thread that is to be visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    pub(crate) process: ProcessId,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct StepsResult {
    pub(crate) request: Request,
    /// It was put off, since the thread was to have its rest.
    pub(crate) is_put_off: bool,
    pub(crate) visit: Result<Visit, Hitch>,
}

/// The collector's end of the thread.
#[derive(Debug)]
pub struct Steps {
    /// `None` when nothing more is asked.
    requests: Option<SyncSender<Request>>,
    answers: Receiver<StepsResult>,
    /// Drawn of the samples of this round.
    lot: Lot<Request>,
    /// What still waits is not looked at.
    is_over: Arc<AtomicBool>,
}

impl Steps {
    /// Starts the process that steps, so many threads a second at most.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(most: u32) -> Result<Self, Error> {
        let room = (most as usize / 2).clamp(FEWEST, MOST);
        let (requests, asked) = sync_channel(room);
        let (sender, answers) = sync_channel(SEEN);
        let (started, outcome) = sync_channel(1);
        let pause = Duration::from_secs(1) / most.max(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let run = move || match Stepping::start() {
            Ok(stepping) => {
                // Somebody waits for that.
                let _ = started.send(Ok(()));
                stepping.run(pause, &over, &asked, &sender);
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        thread::Builder::new()
            .name("step".to_owned())
            .spawn(run)
            .map_err(Error::NoThread)?;
        outcome.recv().map_err(|_| Error::Ended)??;
        Ok(Self {
            requests: Some(requests),
            answers,
            lot: Lot::new(room),
            is_over,
        })
    }

    /// Which place a further sample of this round takes among the drawn, if it is to have one.
    pub(crate) fn place(&mut self) -> Option<usize> {
        self.lot.place()
    }

    /// Puts its thread there.
    pub(crate) fn choose(&mut self, place: usize, request: Request) {
        self.lot.put(place, request);
    }

    /// Hands on what was drawn; how many were, and how many found no room.
    pub(crate) fn ask(&mut self) -> (u64, u64) {
        let requests = self.requests.as_ref();
        requests.map_or((0, 0), |requests| self.lot.hand_on(requests))
    }

    /// The next answer, if one has come.
    pub(crate) fn next(&mut self) -> Option<StepsResult> {
        self.answers.try_recv().ok()
    }

    /// Asks no more, and waits until no thread stands any more; what has yet to be looked at.
    pub(crate) fn end(&mut self) -> Vec<StepsResult> {
        self.requests = None;
        self.is_over.store(true, Ordering::Relaxed);
        let end = Instant::now() + PATIENCE;
        let mut last = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok(answer) => last.push(answer),
                // The thread has ended, or takes too long.
                Err(_) => return last,
            }
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.end();
    }
}

/// The other process.
struct Stepping {
    child: Child,
    asks: ChildStdin,
    answers: ChildStdout,
}

impl Stepping {
    /// Starts it, with the rights of this user and no more: a thread that is started here is not
    /// given those of the program's file again.
    fn start() -> Result<Self, Error> {
        prctl::set_no_new_privs().map_err(|errno| Error::Privileges(errno.into()))?;
        let own = std::env::current_exe().map_err(Error::NoProgram)?;
        let mut child = Command::new(own)
            .arg("__step")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What is typed to end a recording is not meant for it.
            .process_group(0)
            .spawn()
            .map_err(Error::NoProcess)?;
        let (asks, answers) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            asks: asks.ok_or(Error::NoPipe)?,
            answers: answers.ok_or(Error::NoPipe)?,
            child,
        })
    }

    /// Visits what it is asked to, until it is asked no more.
    fn run(
        mut self,
        pause: Duration,
        is_over: &AtomicBool,
        asked: &Receiver<Request>,
        answers: &SyncSender<StepsResult>,
    ) {
        let mut rested: HashMap<Tid, Instant> = HashMap::new();
        while let Ok(request) = asked.recv() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let rest = rested.get(&request.tid);
            let rest = rest.map(|until| until.saturating_duration_since(Instant::now()));
            let rest = rest.filter(|rest| !rest.is_zero());
            if let Some(rest) = rest {
                thread::sleep(rest);
            }
            let begun = Instant::now();
            let visit = match self.visit(&request) {
                Ok(visit) => visit,
                Err(error) => {
                    tracing::warn!("no more steps: the process that steps has failed: {error}");
                    break;
                }
            };
            let now = Instant::now();
            rested.retain(|_, until| *until > now);
            rested.insert(request.tid, now + REST);
            let answer = StepsResult {
                request,
                is_put_off: rest.is_some(),
                visit,
            };
            if answers.send(answer).is_err() {
                break;
            }
            thread::sleep((begun + pause).saturating_duration_since(Instant::now()));
        }
        let Self {
            mut child, asks, ..
        } = self;
        // It ends when it is asked no more.
        drop(asks);
        if let Err(error) = child.wait() {
            tracing::debug!(%error, "the process that steps cannot be waited for");
        }
    }

    fn visit(&mut self, of: &Request) -> io::Result<Result<Visit, Hitch>> {
        let Request { pid, tid, .. } = *of;
        wire::write(&mut self.asks, &Ask { pid, tid })?;
        let visit = wire::read(&mut self.answers)?;
        visit.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
