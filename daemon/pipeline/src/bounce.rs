//! Bounce-back: what the processor itself makes of a few instructions.
//!
//! A sample names a thread and a PC. Two breakpoints ([`sampler::Breakpoints`]) then stop the
//! thread at its next execution of the instruction there, and behind a few more. What it has in its
//! registers at both ends is a pair. The collector ([`crate::collector`]) interprets the
//! same instructions from the first end, and compares what it knows with the second.
//!
//! One thread sets breakpoints, one pair at a time. So at most two debug registers are taken.

pub(crate) mod block;
mod thread;
pub mod truth;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use sampler::{Breakpoints, Miss, Pair, Pid, RawSample, Registers, Stop, Tid};

use self::block::{BlockInstruction, Exit};
use crate::lot::Lot;
use machine::loadmap::ProcessId;

/// Blocks that wait for their turn at least and at most, and as many that are chosen of each round
/// of samples: of half a second.
const FEWEST: usize = 8;
const MOST: usize = 128;
/// Pairs that wait for the collector.
const SEEN: usize = 64;
/// Entries that wait for the other end.
const ENTRIES: usize = 512;
/// How long a pair waits for what the handler read at its entry: its buffer is drained sooner.
const PATIENCE: Duration = Duration::from_secs(3);

/// Instructions of which a thread is to be stopped at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    pub(crate) process: ProcessId,
    /// From the entry on.
    pub(crate) steps: Vec<BlockInstruction>,
    /// The code of all of them.
    pub(crate) code: Vec<u8>,
    /// Where the thread may come out, in the order in which they are tried.
    pub(crate) exits: Vec<Exit>,
    /// One of the steps reads or writes other registers than general ones.
    pub(crate) uses_vectors: bool,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct BounceResult {
    pub(crate) request: Request,
    /// What was tried in vain.
    pub(crate) missed: Vec<Miss>,
    /// The pair, and how many of the steps it is around.
    pub(crate) pair: Option<(Pair, usize)>,
    came: Instant,
}

/// What the handler brought from both ends of a pair.
#[derive(Debug, Default)]
pub(crate) struct CapturedEnds {
    /// From the entry.
    pub(crate) entry: Option<RawSample>,
    /// With vector registers: from the entry, and from the exit.
    pub(crate) with_vectors: [Option<RawSample>; 2],
}

/// The collector's end of the thread.
#[derive(Debug)]
pub struct Bounce {
    requests: SyncSender<Request>,
    answers: Receiver<BounceResult>,
    /// Whether the handler reads memory at entries.
    reads_memory: bool,
    /// Whether it brings vector registers.
    brings_vectors: bool,
    /// Chosen of the samples of this round.
    lot: Lot<Request>,
    /// What the handler brought from entries whose pairs have yet to come.
    entries: VecDeque<RawSample>,
    /// The same of both ends, with vector registers.
    with_vectors: VecDeque<(Stop, RawSample)>,
    /// Pairs whose entries have yet to come.
    waiting: VecDeque<BounceResult>,
}

impl Bounce {
    /// Starts the thread, which sets so many pairs a second at most.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn start(breakpoints: Breakpoints, reads_memory: bool, most: u32) -> std::io::Result<Self> {
        let room = (most as usize / 2).clamp(FEWEST, MOST);
        let (requests, asked) = sync_channel(room);
        let (sender, answers) = sync_channel(SEEN);
        let brings_vectors = breakpoints.brings_vectors();
        thread::start(breakpoints, most, asked, sender)?;
        Ok(Self {
            requests,
            answers,
            reads_memory,
            brings_vectors,
            lot: Lot::new(room),
            entries: VecDeque::new(),
            with_vectors: VecDeque::new(),
            waiting: VecDeque::new(),
        })
    }

    /// Which place a further sample of this round takes among the chosen, if it is to have one.
    pub(crate) fn place(&mut self) -> Option<usize> {
        self.lot.place()
    }

    /// Puts a request there.
    pub(crate) fn choose(&mut self, place: usize, request: Request) {
        self.lot.put(place, request);
    }

    /// Hands on what was chosen; how many were, and how many found no room.
    pub(crate) fn ask(&mut self) -> (u64, u64) {
        self.lot.hand_on(&self.requests)
    }

    /// Takes what the handler brought from an entry.
    pub(crate) fn came_in(&mut self, entry: RawSample) {
        keep(&mut self.entries, entry);
    }

    /// Takes what the handler brought from an end of a block, with vector registers.
    pub(crate) fn captured_vectors(&mut self, stop: Stop, from: RawSample) {
        keep(&mut self.with_vectors, (stop, from));
    }

    /// The next answer, with what the handler captured, if that has come or is waited for no more.
    pub(crate) fn next(&mut self, is_last: bool) -> Option<(BounceResult, CapturedEnds)> {
        while let Ok(answer) = self.answers.try_recv() {
            self.waiting.push_back(answer);
        }
        let found = self.waiting.iter().position(|answer| {
            let Some((pair, _)) = &answer.pair else {
                return true;
            };
            is_last || answer.came.elapsed() > PATIENCE || self.is_there(&answer.request, pair)
        });
        let answer = self.waiting.remove(found?)?;
        let Some((pair, _)) = &answer.pair else {
            return Some((answer, CapturedEnds::default()));
        };
        let place = self.entries.iter().position(|entry| is_of(entry, pair));
        let with_vectors = ends(pair).map(|end| {
            let place = self.with_vectors.iter().position(|(stop, _)| *stop == end);
            let (_, from) = self.with_vectors.remove(place?)?;
            // The thread has gone no further.
            let registers = match end.is_exit {
                true => Some(&pair.after),
                false => pair.before.user.long(),
            };
            let is_same = |of: &Registers| registers?.is_same_but_resuming(of).then_some(());
            from.user.long().and_then(is_same)?;
            Some(from)
        });
        let captured = CapturedEnds {
            entry: place.and_then(|place| self.entries.remove(place)),
            with_vectors,
        };
        Some((answer, captured))
    }

    /// Whether the handler has brought all that it is to bring of a pair.
    fn is_there(&self, request: &Request, pair: &Pair) -> bool {
        let has = |end: Stop| self.with_vectors.iter().any(|(stop, _)| *stop == end);
        (!self.reads_memory || self.entries.iter().any(|entry| is_of(entry, pair)))
            && (!self.brings_vectors || !request.uses_vectors || ends(pair).into_iter().all(has))
    }

    /// Whether the handler reads memory at entries.
    pub(crate) fn reads_memory(&self) -> bool {
        self.reads_memory
    }
}

/// Keeps one more, and no more than there is room for.
fn keep<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() >= ENTRIES {
        all.pop_front();
    }
    all.push_back(one);
}

/// Both ends of a pair.
fn ends(pair: &Pair) -> [Stop; 2] {
    [false, true].map(|is_exit| Stop {
        attempt: pair.attempt,
        is_exit,
    })
}

/// Whether it is the entry of this pair that the handler saw: of the same thread with the same
/// registers, while the breakpoint was set, which is hit once. (Which of both times of a hit is the
/// earlier one depends on the kernel.)
fn is_of(entry: &RawSample, pair: &Pair) -> bool {
    entry.tid == pair.before.tid
        && entry.user == pair.before.user
        && pair.times.contains(&entry.time)
}

#[cfg(test)]
mod tests {
    use sampler::{Mode, UserRegisters};

    use super::*;

    fn entry(tid: u32, time: u64, rax: u64) -> RawSample {
        let mut registers = Registers::default();
        registers.gpr[0] = rax;
        RawSample {
            time,
            cpu: 0,
            pid: Pid(1),
            tid: Tid(tid),
            period: 1,
            ip: addresses::ProcessAddress(0x1000),
            mode: Mode::User,
            interrupted: Some(registers),
            user: UserRegisters::Long(registers),
            stack: Box::default(),
            capture: None,
        }
    }

    /// An entry is of the pair with the same thread, registers and time, and of no other: an
    /// earlier attempt at the same block may have met the same registers.
    #[test]
    fn entries_of_pairs() {
        let pair = Pair {
            before: entry(2, 5_000, 3),
            after: Registers::default(),
            times: 2_000..8_000,
            attempt: 7,
            was_switched: false,
            held: Vec::new(),
        };
        assert!(is_of(&entry(2, 4_000, 3), &pair));
        assert!(!is_of(&entry(1, 4_000, 3), &pair));
        assert!(!is_of(&entry(2, 4_000, 4), &pair));
        assert!(!is_of(&entry(2, 1_000, 3), &pair));
        assert!(!is_of(&entry(2, 9_000, 3), &pair));
    }
}
