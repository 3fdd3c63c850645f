//! What the engine `bpf` brings with a sample besides its registers: who it was, and memory as it
//! was read in the interrupt.

use std::fmt;

use addresses::ReturnAddress;
use serde::{Deserialize, Serialize};

use crate::abi;
use crate::block::BlockBytes;
use crate::{Pid, Tid, Vectors};

/// One execution of one program: none of its parts comes back while the others stay.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct ProcessKey {
    /// The process (thread group) id.
    pub tgid: u32,
    /// How often the process, or its ancestors up to the fork, executed a program (the low 32 bits
    /// of the kernel's `self_exec_id`).
    pub exec_count: u32,
    /// When its main thread was started, in nanoseconds since boot.
    pub start_time: u64,
}

/// What of the kernel or the program was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Context {
    /// Code of a process.
    User,
    /// The kernel on behalf of a thread.
    Kernel,
    /// A softirq.
    Softirq,
    /// A hardware interrupt, or a non-maskable one, other than the sample's own.
    Hardirq,
}

/// Who was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIdentity {
    /// The process.
    pub tgid: Pid,
    /// The thread.
    pub tid: Tid,
    /// When the process's main thread was started, in nanoseconds since boot.
    pub start_time: u64,
    /// When this thread was started, in nanoseconds since boot.
    pub thread_start_time: u64,
    /// As in [`ProcessKey::exec_count`].
    pub exec_count: u32,
    /// The real user id.
    pub uid: u32,
    /// The effective user id.
    pub euid: u32,
    /// The saved user id.
    pub suid: u32,
    /// The real group id.
    pub gid: u32,
    /// The effective group id.
    pub egid: u32,
    /// The thread has a permitted capability.
    pub privileged: bool,
    /// The process's memory may be dumped by its user (`PR_GET_DUMPABLE` is 1); false also for
    /// threads of the kernel.
    pub dumpable: bool,
    /// A thread of the kernel, which has no user memory.
    pub kernel_thread: bool,
    /// The thread's name: bytes up to the first 0.
    pub comm: [u8; 16],
    /// What was interrupted.
    pub context: Context,
    /// Where it was among others, if [`crate::BpfOptions::placement`] asks for it.
    pub placement: Option<Placement>,
}

/// Which exceptions a program may handle and go on elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalHandlers {
    /// It has a handler for SIGSEGV or SIGBUS, or is traced.
    pub access: bool,
    /// It has one for SIGFPE, or is traced.
    pub float: bool,
    /// It has protection keys.
    pub keys: bool,
}

/// Where a thread was among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The parent process.
    pub ppid: Pid,
    /// The process group; 0 if it has none.
    pub pgid: u32,
    /// The session; 0 if it has none.
    pub sid: u32,
    /// The controlling terminal's device number as `/proc/PID/stat` shows it; 0 for none.
    pub tty: u32,
    /// The id of the control group (version 2) that the thread is in.
    pub cgroup: u64,
    /// `SCHED_OTHER` (0), `SCHED_FIFO` (1) and so on.
    pub policy: u8,
    /// The kernel's effective priority: 0 to 99 real-time, 100 to 139 ordinary.
    pub priority: u8,
    /// A signal that the thread does not block is waiting for it.
    pub signals_pending: bool,
}

impl TaskIdentity {
    /// The process, as rows are keyed.
    pub fn process(&self) -> ProcessKey {
        ProcessKey {
            tgid: self.tgid.0,
            exec_count: self.exec_count,
            start_time: self.start_time,
        }
    }

    /// The thread's name.
    pub fn name(&self) -> &[u8] {
        let end = self.comm.iter().position(|byte| *byte == 0);
        &self.comm[..end.unwrap_or(self.comm.len())]
    }
}

/// Why a plan ended before its last step, in recordings of versions that had plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PlanFailure {
    /// The memory could not be read without a page fault.
    Unreadable,
    /// The address is none that a plan for such code might read.
    Forbidden,
    /// There was no room for what the step reads.
    Full,
    /// The plan needs the base of FS or GS, which is not known. The step is 0.
    NoSegmentBase,
    /// The plan is not one that can be evaluated.
    Malformed,
}

/// Why the way of a thread was followed no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WayEnd {
    /// It was as long as was asked for, or failed to read too often.
    Length,
    /// Where it goes depends on what is not known.
    Unknown,
    /// It went to where no code is to be had.
    NoCode {
        /// Its process address.
        pc: u64,
    },
    /// There was no room for what it reads.
    Full,
    /// It came to an instruction that is not followed.
    NotFollowed,
}

/// What was read of the memory that the code ahead loads.
///
/// Earlier versions had plans: a list of loads for each PC, which the handler did step by step.
/// Their recordings are read as before, so the order of the variants stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// None: of a process that the handler was not told of, while it did not know where RAM is. The
    /// sample has the code at the PC ([`CapturedMemory::code`]), and its stack. Earlier: there was
    /// no plan.
    NotTried,
    /// Earlier: every step of a plan was done.
    Complete {
        /// The plan's tag.
        tag: u32,
    },
    /// Earlier: the pieces of the steps before this one are there.
    Failed {
        /// The plan's tag.
        tag: u32,
        /// The first step that failed.
        step: u8,
        /// Why.
        cause: PlanFailure,
    },
    /// Earlier: there was a plan, and the sample was one of those that go without it; it has
    /// callers, but neither code nor pieces. Its window is one that is not to be accepted.
    Thinned {
        /// The plan's tag.
        tag: u32,
    },
    /// The process's memory is not to be read; the sample has registers, but no memory.
    MemoryDenied,
    /// The process's values are not to be captured; the sample has neither registers nor memory.
    ValuesDenied,
    /// The process's memory may not be dumped by its user; as [`Outcome::ValuesDenied`].
    NotDumpable,
    /// The thread's way was followed.
    Followed {
        /// Why no further.
        end: WayEnd,
    },
    /// The sample is one of those that go without a way ([`crate::BpfOptions::share`]): it has
    /// callers, but neither code nor pieces.
    WithoutWay,
    /// So much waits to be taken from the handler's buffer that it is as one without a way.
    Crowded,
}

/// A share of samples, above none and up to all. Which ones is drawn for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Share(pub(crate) u32);

impl Share {
    /// All of them.
    pub const ALL: Share = Share(u32::MAX);

    /// The share that is nearest to this part of 1, and not none.
    pub fn new(part: f64) -> Share {
        // The cast keeps what is out of range at its ends.
        let samples = (part * Self::WHOLE).round() as u64;
        Share(u32::try_from(samples.max(1) - 1).unwrap_or(u32::MAX))
    }

    /// As a part of 1: a sample's probability.
    pub fn part(self) -> f64 {
        (f64::from(self.0) + 1.0) / Self::WHOLE
    }

    const WHOLE: f64 = 4_294_967_296.0;
}

/// How a frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FrameSource {
    /// By an unwind row.
    Row,
    /// By the frame pointer, there being no row: a guess.
    FramePointer,
}

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapturedFrame {
    /// Where the callee returns to.
    pub return_address: ReturnAddress,
    /// How it was found.
    pub source: FrameSource,
}

/// Why there are no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FramesEnd {
    /// None were asked for, or none may be read.
    None,
    /// A row says that this is the outermost frame.
    Outermost,
    /// There is no row, and the frame pointer does not point to a frame.
    NoRow,
    /// The row needs a register that is not known there.
    UnknownRegister,
    /// The stack could not be read.
    Unreadable,
    /// As many frames as were asked for.
    Most,
}

/// What was captured with a sample.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedMemory {
    /// Who was running.
    pub task: TaskIdentity,
    /// What was read of the memory that the code ahead loads.
    pub outcome: Outcome,
    /// How likely it was that a plan would be evaluated and not [`Outcome::Thinned`];
    /// [`Share::ALL`] if there was none.
    pub share: Share,
    /// Why there are no more frames than [`CapturedMemory::frames`] gives.
    pub frames_end: FramesEnd,
    /// The number of the system call that the thread is in, if the kernel was interrupted in one.
    pub system_call: Option<u32>,
    /// The base of FS in user code as the kernel has it, if it is not 0 and no selector's. User
    /// code can have changed it since the thread's last switch or system call.
    pub fs_base: Option<u64>,
    /// The same of GS.
    pub gs_base: Option<u64>,
    /// All memory was read twice, because others may write it: [`CapturedMemory::changes`] tells
    /// the pieces that were not the same, and code or a stack that were not are left out. Without
    /// a second look nobody else has the memory, but for what the process shares with others.
    pub second_look: bool,
    /// Which exceptions the program has handlers for; `None`: not known, as in the kernel. It is
    /// not among what is serialized, which has no room for it in older forms.
    #[serde(skip)]
    pub handlers: Option<SignalHandlers>,
    /// What the sample says of vector registers. It is not among what is serialized, either.
    #[serde(skip)]
    pub vectors: Vectors,
    /// Memory as it was read.
    pub(crate) memory: HandlerMemory,
}

/// What was read, in the form of the handler's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandlerMemory {
    /// How many frames.
    pub(crate) frames: u8,
    /// How many bytes of code.
    pub(crate) code: u8,
    /// Frames (8 bytes each: the address, bit 63 turned over for [`FrameSource::FramePointer`]),
    /// pieces (a head of 8 bytes, then bytes padded to 8), code (padded to 8 bytes).
    pub(crate) bytes: BlockBytes,
    /// Words, each for a piece that has changed: its number, and below it which of its words.
    pub(crate) changes: BlockBytes,
}

/// A piece that was another one at the second look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the piece, in the order of [`CapturedMemory::pieces`].
    pub piece: usize,
    /// Which of its words of 8 bytes, counted from its first byte, are others: a bit each.
    pub words: u16,
}

/// Bits of a piece's head that hold its address; the others hold its length less one.
const ADDRESS_BITS: u32 = abi::HEAD_ADDRESS_BITS;

/// The most frames, and the most bytes of code.
const MOST_FRAMES: usize = abi::MAX_FRAMES as usize;
const MOST_CODE: usize = abi::CODE_BYTES as usize;

/// The most bytes of one piece: its length less one has the rest of its head.
const MOST_OF_PIECE: usize = 1 << (64 - ADDRESS_BITS);

impl CapturedMemory {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.bytes.len()
    }

    /// A capture of these parts, as the engine would deliver it: at most 127 frames, 64 bytes of
    /// code, and pieces of 1 to 128 bytes at canonical addresses. What is more is left out.
    #[expect(clippy::too_many_arguments, reason = "it has as many parts")]
    pub fn new(
        task: TaskIdentity,
        outcome: Outcome,
        segment_bases: (Option<u64>, Option<u64>),
        system_call: Option<u32>,
        code: &[u8],
        frames: &[CapturedFrame],
        frames_end: FramesEnd,
        pieces: &[(u64, &[u8])],
    ) -> CapturedMemory {
        let (frames, code) = (
            &frames[..frames.len().min(MOST_FRAMES)],
            &code[..code.len().min(MOST_CODE)],
        );
        let mut memory = Vec::new();
        for frame in frames {
            let flip =
                u64::from(frame.source == FrameSource::FramePointer) << abi::GUESSED_FRAME_BIT;
            memory.extend((frame.return_address.word() ^ flip).to_ne_bytes());
        }
        let pad = |memory: &mut Vec<u8>| memory.resize(memory.len().next_multiple_of(8), 0);
        for (address, bytes) in pieces {
            if bytes.is_empty() || bytes.len() > MOST_OF_PIECE {
                continue;
            }
            let address = address & ((1 << ADDRESS_BITS) - 1);
            let head = address | (bytes.len() as u64 - 1) << ADDRESS_BITS;
            memory.extend(head.to_ne_bytes());
            memory.extend(*bytes);
            pad(&mut memory);
        }
        memory.extend(code);
        pad(&mut memory);
        CapturedMemory {
            task,
            outcome,
            share: Share::ALL,
            frames_end,
            system_call,
            fs_base: segment_bases.0,
            gs_base: segment_bases.1,
            memory: HandlerMemory {
                // Both are at most 64.
                frames: frames.len() as u8,
                code: code.len() as u8,
                bytes: memory.into(),
                changes: BlockBytes::default(),
            },
            second_look: false,
            handlers: None,
            vectors: Vectors::None,
        }
    }

    /// Gives up frames, code and pieces, and says that values are not to be captured.
    pub fn withhold(&mut self) {
        self.outcome = Outcome::ValuesDenied;
        self.memory = HandlerMemory {
            frames: 0,
            code: 0,
            bytes: BlockBytes::default(),
            changes: BlockBytes::default(),
        };
    }

    /// The code from the interrupted PC on, as read in the interrupt: 64 bytes where no way was
    /// [tried](Outcome::NotTried), 16 where memory is denied, fewer where fewer could be read.
    /// Where the way was followed, its code is among the [pieces](Self::pieces).
    pub fn code(&self) -> &[u8] {
        self.memory
            .bytes
            .get(self.code_start()..)
            .and_then(|code| code.get(..usize::from(self.memory.code)))
            .unwrap_or_default()
    }

    /// Where the code begins, and the pieces end.
    fn code_start(&self) -> usize {
        let code = usize::from(self.memory.code).next_multiple_of(8);
        self.memory.bytes.len().saturating_sub(code)
    }

    /// The callers of the interrupted function, the innermost first.
    ///
    /// If the kernel was interrupted, the callers in user code are not among them.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = CapturedFrame> {
        let end = 8 * usize::from(self.memory.frames);
        let words = self.memory.bytes.get(..end).unwrap_or_default();
        // The address's bits 62 and 63 are equal, as in every canonical one.
        words.as_chunks().0.iter().map(|word| {
            let word = u64::from_ne_bytes(*word);
            let guessed = (word >> 63) != (word >> 62 & 1);
            CapturedFrame {
                return_address: ReturnAddress::of_word(word ^ u64::from(guessed) << 63),
                source: if guessed {
                    FrameSource::FramePointer
                } else {
                    FrameSource::Row
                },
            }
        })
    }

    /// The pieces that were others at the second look, in their order. Such a piece had its value
    /// when it was read first, behind the pieces before it and before those behind it.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        self.memory.changes.as_chunks().0.iter().map(|word| {
            let word = u64::from_ne_bytes(*word);
            Change {
                piece: (word >> abi::CHANGE_PIECE_SHIFT) as usize,
                words: (word & 0xffff) as u16,
            }
        })
    }

    /// The memory that was read ahead, in the order of reading: addresses and bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let start = 8 * usize::from(self.memory.frames);
        let pieces = self.memory.bytes.get(start..self.code_start());
        let mut rest = pieces.unwrap_or_default();
        std::iter::from_fn(move || {
            let (head, after) = rest.split_first_chunk()?;
            let head = u64::from_ne_bytes(*head);
            let len = (head >> ADDRESS_BITS) as usize + 1;
            let bytes = after.get(..len)?;
            rest = after.get(len.next_multiple_of(8)..).unwrap_or_default();
            // The sign of a canonical address is in the highest of its bits.
            let unused = 64 - ADDRESS_BITS;
            let address = ((head << unused).cast_signed() >> unused).cast_unsigned();
            Some((address, bytes))
        })
    }
}

impl fmt::Debug for CapturedMemory {
    /// Without values: debug output goes to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedMemory")
            .field("task", &self.task)
            .field("outcome", &self.outcome)
            .field("frames", &self.memory.frames)
            .field("frames_end", &self.frames_end)
            .field("bytes", &self.memory.bytes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody.
    fn task() -> TaskIdentity {
        TaskIdentity {
            tgid: Pid(1),
            tid: Tid(1),
            start_time: 2,
            thread_start_time: 2,
            exec_count: 3,
            uid: 0,
            euid: 0,
            suid: 0,
            gid: 0,
            egid: 0,
            privileged: false,
            dumpable: true,
            kernel_thread: false,
            comm: *b"somebody\0\0\0\0\0\0\0\0",
            context: Context::User,
            placement: None,
        }
    }

    /// What a capture is made of comes out again: user and kernel addresses, odd lengths.
    #[test]
    fn parts_come_out_again() {
        let frames = [
            (0x7fff_1234_5678, FrameSource::Row),
            (0x5555_0000_0001, FrameSource::FramePointer),
            (0xffff_ffff_8100_0000, FrameSource::FramePointer),
            (0xffff_ffff_8100_0000, FrameSource::Row),
        ]
        .map(|(to, source)| CapturedFrame {
            return_address: ReturnAddress::of_word(to),
            source,
        });
        let (long, short) = ([7; 128], [1, 2, 3]);
        let pieces: [(u64, &[u8]); 4] = [
            (0x1000, &short),
            (0x00ff_ffff_ffff_fff0, &long),
            (0xffff_8880_0000_1234, &[9]),
            (0x7fff_ffff_f000, &[1, 2, 3, 4, 5, 6, 7, 8]),
        ];
        let capture = CapturedMemory::new(
            task(),
            Outcome::Complete { tag: 5 },
            (Some(1), None),
            None,
            &[0x90; 13],
            &frames,
            FramesEnd::Most,
            &pieces,
        );
        assert_eq!(capture.code(), [0x90; 13]);
        assert_eq!(capture.frames().collect::<Vec<_>>(), frames);
        let expected = pieces
            .iter()
            .filter(|(address, _)| address >> 56 == 0 || address >> 56 == 0xff);
        assert!(capture.pieces().eq(expected.copied()));
        assert_eq!(capture.task.name(), b"somebody");
    }
}
