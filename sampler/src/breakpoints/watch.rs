//! How it is known whether a signal was delivered to a thread between two breakpoints.

use std::fs;
use std::os::fd::OwnedFd;

use crate::bpf::Trapped;
use crate::{Block, Miss, Tid};

/// Where the kernel says the number of its trace point of delivered signals.
const POINTS: [&str; 2] = [
    "/sys/kernel/tracing/events/signal/signal_deliver/id",
    "/sys/kernel/debug/tracing/events/signal/signal_deliver/id",
];

/// How it is known.
pub(super) enum Watch {
    /// A program of the handler counts the signals of the thread that is watched.
    Program(Trapped),
    /// An event of the breakpoints' group counts them.
    TracePoint(u64),
    /// Only programs without handlers of signals are looked at.
    Masks,
}

/// A thread that is watched.
pub(super) struct Watched<'a>(Option<(&'a Trapped, Tid)>);

impl Watch {
    /// The best that there is.
    pub(super) fn new(trapped: Option<Trapped>) -> Watch {
        let point = || {
            let mut texts = POINTS
                .iter()
                .filter_map(|path| fs::read_to_string(path).ok());
            texts.find_map(|text| text.trim().parse().ok())
        };
        match (trapped, point()) {
            (Some(trapped), _) => Watch::Program(trapped),
            (None, Some(point)) => Watch::TracePoint(point),
            (None, None) => Watch::Masks,
        }
    }

    pub(super) fn meaning(&self) -> &'static str {
        match self {
            Watch::Program(_) => "the handler counts signals that are delivered",
            Watch::TracePoint(_) => "a trace point counts signals that are delivered",
            Watch::Masks => "of programs that handle no signals",
        }
    }

    /// Whether each signal is seen.
    pub(super) fn is_exact(&self) -> bool {
        !matches!(self, Watch::Masks)
    }

    /// What the event in the group counts, if there is to be one.
    pub(super) fn trace_point(&self) -> Option<u64> {
        match self {
            Watch::TracePoint(point) => Some(*point),
            _ => None,
        }
    }

    /// The program for exits, where the handler has one.
    pub(super) fn at_exit(&self) -> Option<&OwnedFd> {
        match self {
            Watch::Program(trapped) => Some(trapped.at_exit()),
            _ => None,
        }
    }

    /// Whether the handler can bring vector registers.
    pub(super) fn brings_vectors(&self) -> bool {
        matches!(self, Watch::Program(trapped) if trapped.brings_vectors())
    }

    /// Counts the signals of a block's thread from now on; `wants_vectors`: the handler is to have
    /// its vector registers brought where it is stopped, and to name this attempt.
    pub(super) fn begin(
        &self,
        block: &Block,
        attempt: u32,
        wants_vectors: bool,
    ) -> Result<Watched<'_>, Miss> {
        let tid = block.tid;
        match self {
            Watch::Program(trapped) => {
                let begun = trapped.begin(tid, attempt, (wants_vectors, &block.operands));
                begun.map_err(|error| {
                    tracing::debug!(%error, "signals cannot be counted");
                    Miss::Refused
                })?;
                Ok(Watched(Some((trapped, tid))))
            }
            _ => Ok(Watched(None)),
        }
    }
}

impl Watched<'_> {
    /// What the block's operands held at its exit, where that was read, if no signal came: of the
    /// group's counts at both ends, or since it is watched.
    pub(super) fn end(self, before: u64, after: u64) -> Result<Vec<Option<u64>>, Miss> {
        let found = match &self.0 {
            Some((trapped, tid)) => trapped.found(*tid),
            None => Some((0, Vec::new())),
        };
        match found {
            Some((0, held)) if before == after => Ok(held),
            _ => Err(Miss::Signalled),
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some((trapped, tid)) = &self.0 {
            trapped.end(*tid);
        }
    }
}
