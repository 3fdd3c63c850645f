//! What has been collected and is in no database yet: readers are given it as well.
//!
//! A reader's worker asks the service's loop, which copies those rows of its tables that this
//! reader may see; all else is the worker's: it writes them to a database in memory, whose rows are
//! then judged like those of files. Nobody waits for a reader: the loop copies once in a while, for
//! a bounded part of its time, and a worker that gets nothing in time does without.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use profiledb::view::Viewer;
use profiledb::{Epoch, Error, Subject, Writer};
use protocol::{Range, Selection};

use crate::session::Session;
use consumers::tables::Wanted;
use machine::kernel::{self, KernelNames};
use store::flush::Snapshot;

/// How long a worker waits for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The loop copies for one part in so many of its time.
const PART: u32 = 50;

/// Whose rows are wanted, and which.
#[derive(Clone, Debug)]
pub(super) struct Whose {
    pub(super) viewer: Viewer,
    /// Real user ids; empty: all.
    pub(super) users: Vec<u32>,
    pub(super) wanted: Wanted,
    /// Whether the names of the kernel's functions are.
    pub(super) kernel_names: bool,
}

impl Whose {
    fn takes(&self, subject: &Subject) -> bool {
        let is_of = |uid| self.users.contains(&uid);
        self.viewer.may_see(subject) && (self.users.is_empty() || subject.uid.is_some_and(is_of))
    }
}

/// What the loop is asked.
#[derive(Debug)]
pub(super) struct Question {
    whose: Whose,
    reply: SyncSender<Newest>,
}

/// What the loop answers.
pub(super) struct Newest {
    epoch: Epoch,
    /// What was taken from the tables to be saved, whole.
    unsaved: Vec<Arc<Snapshot>>,
    /// What the tables hold, as far as it is wanted.
    running: Snapshot,
}

/// What a worker gets.
pub(super) enum NewestRows {
    /// The rows, in a database in memory.
    Rows(Box<Writer>),
    /// There is nothing to be had at present.
    Nothing,
    /// The loop did not answer in time.
    Late,
}

/// The workers' end.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    questions: SyncSender<Question>,
    /// One copy at a time is held: so the memory for it is bounded.
    turn: Arc<Mutex<()>>,
}

/// The loop's end.
#[derive(Debug)]
pub(super) struct Answering {
    questions: Receiver<Question>,
    next: Option<Question>,
    /// It has copied enough until then.
    rests_until: Option<Instant>,
}

/// Both ends.
pub(super) fn channel() -> (Asking, Answering) {
    let (questions, asked) = sync_channel(1);
    let asking = Asking {
        questions,
        turn: Arc::default(),
    };
    let answering = Answering {
        questions: asked,
        next: None,
        rests_until: None,
    };
    (asking, answering)
}

impl Asking {
    /// What is not saved yet of what `whose` says, as a database of at most so many bytes. `waited`
    /// becomes how long the loop was waited for.
    ///
    /// # Errors
    /// Those of the database: it has no room, mostly.
    pub(super) fn ask(
        &self,
        whose: Whose,
        most: u64,
        waited: &mut Duration,
    ) -> Result<NewestRows, Error> {
        let begun = Instant::now();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, answer) = sync_channel(1);
        let question = Question {
            whose: whose.clone(),
            reply,
        };
        match self.questions.try_send(question) {
            Ok(()) => {}
            // One that nobody waits for any more is still in the way.
            Err(TrySendError::Full(_)) => return Ok(NewestRows::Late),
            Err(TrySendError::Disconnected(_)) => return Ok(NewestRows::Nothing),
        }
        let answer = answer.recv_timeout(PATIENCE);
        *waited = begun.elapsed();
        match answer {
            Ok(newest) => newest
                .write(&whose, most)
                .map(Box::new)
                .map(NewestRows::Rows),
            Err(RecvTimeoutError::Timeout) => Ok(NewestRows::Late),
            Err(RecvTimeoutError::Disconnected) => Ok(NewestRows::Nothing),
        }
    }
}

impl Newest {
    fn write(self, whose: &Whose, most: u64) -> Result<Writer, Error> {
        let mut writer = Writer::in_memory(&self.epoch, most)?;
        let mut names = match whose.kernel_names {
            true => KernelNames::default(),
            false => KernelNames::withheld(),
        };
        for snapshot in self.unsaved {
            let part = snapshot.part(whose.wanted, |subject| whose.takes(subject));
            drop(snapshot);
            part.write(&mut writer, &mut names)?;
        }
        self.running.write(&mut writer, &mut names)?;
        Ok(writer)
    }
}

impl Answering {
    /// Has the session look at what waits, if somebody asks, and answers once it has.
    pub(super) fn look(&mut self, epoch: Option<&Epoch>, session: &mut Session) {
        if self.next.is_none() {
            self.next = self.questions.try_recv().ok();
        }
        let now = Instant::now();
        if self.next.is_none() || self.rests_until.is_some_and(|until| now < until) {
            return;
        }
        if !session.has_caught_up() {
            session.catch_up();
            return;
        }
        let (Some(Question { whose, reply }), Some(epoch)) = (self.next.take(), epoch) else {
            return;
        };
        let unsaved = session.store.unsaved();
        let running = session.running(whose.wanted, |subject| whose.takes(subject));
        let took = now.elapsed();
        self.rests_until = Some(now + took * PART);
        tracing::debug!(?took, "copied for a reader what is not saved yet");
        // Whoever asked may have given up.
        let _ = reply.try_send(Newest {
            epoch: epoch.clone(),
            unsaved,
            running,
        });
    }

    /// There is nothing to be had at present.
    pub(super) fn refuse(&mut self) {
        self.next = None;
        while self.questions.try_recv().is_ok() {}
    }
}

/// What a reader may want of it; `None`: nothing.
pub(super) fn whose(viewer: Viewer, asked: &Selection, now: i64) -> Option<Whose> {
    let kinds = asked.kinds;
    // Of the counters, those who may not see them are told how many samples are theirs.
    let may_count = viewer == Viewer::Privileged;
    let wanted = Wanted {
        cycles: kinds.cycles || (kinds.counters && !may_count),
        values: kinds.values,
        branches: kinds.branches,
        calls: kinds.calls,
        stacks: kinds.stacks,
        counters: kinds.counters && may_count,
    };
    // Who may not see the counters may not see the kernel, either.
    let may_name = |range: &Range| range.image == kernel::IMAGE;
    let kernel_names = may_count && (asked.ranges.is_empty() || asked.ranges.iter().any(may_name));
    let is_past = asked.until.is_some_and(|until| until < now);
    (wanted.is_any() && !is_past).then(|| Whose {
        viewer,
        users: asked.uids.clone(),
        wanted,
        kernel_names,
    })
}
