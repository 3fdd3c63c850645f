//! What can go wrong before samples flow.

use std::io;

use crate::Pid;

/// What was refused, why, and what would mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({}): {mend}", io::Error::from_raw_os_error(*.errno))]
pub struct ProbeError {
    /// What does not work.
    pub what: String,
    /// The kernel's answer: an `errno`.
    pub errno: i32,
    /// What would mend it: a sentence for the person at the terminal.
    pub mend: String,
}

/// Why sampling cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mean interval is outside what the clock can do.
    #[error(
        "a mean interval of {period} is not between {shortest} and {longest}, in nanoseconds, or in cycles with \
         the clock cycles"
    )]
    Period {
        /// What was asked for, in the clock's unit.
        period: u64,
        /// The clock's shortest.
        shortest: u64,
        /// The longest.
        longest: u64,
    },
    /// The stack copy has a size the kernel does not take.
    #[error("a stack copy of {bytes} bytes is not a multiple of 8 up to {most}")]
    StackBytes {
        /// What was asked for.
        bytes: u32,
        /// The largest possible.
        most: u32,
    },
    /// The ring size is not a power of two, or far too large.
    #[error("a ring of {0} pages: it must be a power of two of at most 2^18")]
    RingPages(u32),
    /// There is nobody to sample.
    #[error("no process to sample was named")]
    NoTarget,
    /// A process that is to be sampled does not exist.
    #[error("there is no process {0}")]
    NoSuchProcess(Pid),
    /// The kernel refused the event.
    #[error(transparent)]
    Refused(#[from] ProbeError),
    /// Not even the smallest ring could be mapped.
    #[error(
        "cannot map a ring of {pages} pages for each of {cpus} CPUs: {error}; raise kernel.perf_event_mlock_kb or the limit of locked memory (ulimit -l)"
    )]
    Ring {
        /// The smallest size that was tried.
        pages: u32,
        /// How many rings are needed.
        cpus: usize,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// The list of online CPUs cannot be used.
    #[error("cannot learn which CPUs are online: {0}")]
    Cpus(String),
    /// Another system call failed.
    #[error("cannot {what}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The clock `timer` is part of the handler of the engine `bpf`.
    #[error("the clock timer needs the engine bpf")]
    TimerNeedsBpf,
    /// The engine `bpf` has a size that it cannot have.
    #[error("{what}: {got} is not {wanted}")]
    BpfOptions {
        /// Which size.
        what: &'static str,
        /// What was asked for.
        got: u32,
        /// What is possible.
        wanted: &'static str,
    },
    /// A call to the kernel's BPF machine failed.
    #[error("cannot {what}: {why}")]
    Bpf {
        /// What was tried.
        what: &'static str,
        /// The kernel's or the library's answer.
        why: String,
    },
    /// The kernel's verifier takes a program of the handler for unsafe.
    #[error("the kernel's verifier refuses the handler's program {program}: {why}")]
    Verifier {
        /// The program's name.
        program: String,
        /// The verifier's last words.
        why: String,
    },
}

impl Error {
    pub(crate) fn bpf(what: &'static str, error: &libbpf_rs::Error) -> Error {
        Error::Bpf {
            what,
            why: format!("{error:#}"),
        }
    }
}
