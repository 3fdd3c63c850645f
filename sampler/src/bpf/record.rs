//! From the handler's records to samples: `struct record` of `bpf/shared.h`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::block::Part;
use crate::capture::Memory;
use crate::{
    Capture, Context, Cycles, FramesEnd, Mode, Outcome, Pid, Placement, ProcessKey, RawSample,
    Registers, Share, SignalHandlers, TaskIdentity, Tid, UserRegisters, WayEnd,
};

/// Bytes before the tail.
const HEAD: usize = 160;
/// Words of a set of registers.
const REGISTER_WORDS: usize = 20;

const REGISTERS: u16 = 1;
const USER_REGISTERS: u16 = 2;
const USER_IS_32: u16 = 4;
const FS_BASE: u16 = 8;
const GS_BASE: u16 = 16;
const SYSTEM_CALL: u16 = 32;
const DUMPABLE: u16 = 64;
const PRIVILEGED: u16 = 128;
const KERNEL_THREAD: u16 = 256;
const SIGNALS_PENDING: u16 = 512;
const PLACEMENT: u16 = 1024;
const SECOND_LOOK: u16 = 2048;
const CODE_CHANGES: u16 = 4096;
const STACK_CHANGES: u16 = 8192;

const HANDLERS_KNOWN: u8 = 1;
const HANDLERS_ACCESS: u8 = 2;
const HANDLERS_FLOAT: u8 = 4;
const HANDLERS_KEYS: u8 = 8;

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]: [u8; 1]| byte)
    }

    fn registers(&mut self) -> Option<Registers> {
        let mut words = [0; REGISTER_WORDS];
        for word in &mut words {
            *word = self.u64()?;
        }
        let [gpr @ .., ip, flags, cs, ss] = words;
        Some(Registers {
            gpr,
            ip,
            flags,
            cs,
            ss,
        })
    }

    fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Where the head has the PC, the process, its flags, and what was interrupted.
const IP: usize = 16;
const TGID: usize = 80;
const FLAGS: usize = 136;
const CONTEXT: usize = 140;
/// Where it has what was read ahead and why no further, how many samples found no room since the
/// one before, and how many bytes of stack there are.
const OUTCOME: usize = 143;
const WAY_END: usize = 144;
const MISSED: usize = 148;
const STACK_BYTES: usize = 152;

/// No way was tried.
const NOT_TRIED: u8 = 0;
/// The way was followed.
const FOLLOWED: u8 = 1;
/// With it in `way_end`: the handler was not told of the process. As in `bpf/shared.h`.
const OF_UNKNOWN: u8 = 0x80;

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;

/// A sample of the engine `bpf` as the handler wrote it.
///
/// So it is a few hundred bytes in one place. What they say takes twice as much in several, and is
/// best made where it is looked at: between two threads it would be written and read by two
/// processors, most of it for nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    time: u64,
    period: u64,
    ip: u64,
    pid: Pid,
    cpu: u32,
    mode: Mode,
    has_stack: bool,
    is_not_tried: bool,
    is_news: bool,
    bytes: Part,
}

impl Packed {
    /// A record that was taken on `cpu`, and how many samples found no room since the one before.
    /// `None` if it is no record.
    pub(crate) fn new(bytes: Part, cpu: u32) -> Option<(Self, u32)> {
        let head: &[u8; HEAD] = bytes.first_chunk()?;
        let field = |at: usize| Fields(&head[at..]);
        let (time, period, ip) = (field(0).u64()?, field(8).u64()?, field(IP).u64()?);
        let missed = field(MISSED).u32()?;
        let packed = Self {
            time,
            period,
            ip,
            pid: Pid(field(TGID).u32()?),
            cpu,
            mode: mode_of(context_of(head[CONTEXT])?),
            // One that changed meanwhile is left out.
            has_stack: field(STACK_BYTES).u16()? > 0 && field(FLAGS).u16()? & STACK_CHANGES == 0,
            is_not_tried: head[OUTCOME] == NOT_TRIED,
            is_news: head[OUTCOME] == NOT_TRIED
                || head[OUTCOME] == FOLLOWED && head[WAY_END] & OF_UNKNOWN != 0,
            bytes,
        };
        Some((packed, missed))
    }

    /// When it was taken, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// As [`RawSample::period`].
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    pub(crate) fn set_period(&mut self, period: u64) {
        self.period = period;
    }

    /// Whose sample it is, the interrupted PC and what was interrupted.
    pub fn origin(&self) -> (Pid, u64, Mode) {
        (self.pid, self.ip, self.mode)
    }

    /// Whether memory of the user's stack came with it.
    pub fn has_stack(&self) -> bool {
        self.has_stack
    }

    /// Whether something is to be learned from it: it is of a process that the handler was not told
    /// of.
    pub fn is_news(&self) -> bool {
        self.is_news
    }

    /// Whether nothing was read ahead, so that its code is wanted from elsewhere, too.
    pub fn is_not_tried(&self) -> bool {
        self.is_not_tried
    }

    /// Bytes that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Has the processor fetch what [`unpack`](Self::unpack) will need.
    pub fn prefetch(&self) {
        for line in self.bytes.chunks(LINE).filter_map(<[u8]>::first) {
            mem_prefetch::prefetch_read_data::<_, 3>(line);
        }
    }

    /// What it says, in the bytes that it came in. `None` if the handler did not write it like
    /// that.
    pub fn unpack(&self) -> Option<RawSample> {
        decode(&self.bytes, self.cpu, self.period)
    }
}

impl fmt::Debug for Packed {
    /// Without values: debug output goes to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed")
            .field("time", &self.time)
            .field("period", &self.period)
            .field("cpu", &self.cpu)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// Decodes a record that was taken on `cpu` after this interval. `None` if it is no record.
fn decode(bytes: &Part, cpu: u32, period: u64) -> Option<RawSample> {
    let mut head = Fields(bytes.get(..HEAD)?);
    let time = head.u64()?;
    let _period = head.u64()?;
    let ip = head.u64()?;
    let start_time = head.u64()?;
    let thread_start_time = head.u64()?;
    let cgroup = head.u64()?;
    let (fs_base, gs_base) = (head.u64()?, head.u64()?);
    let comm = head.take()?;
    let (tgid, tid) = (Pid(head.u32()?), Tid(head.u32()?));
    let (exec_count, ppid) = (head.u32()?, Pid(head.u32()?));
    let (pgid, sid) = (head.u32()?, head.u32()?);
    let (tty, uid) = (head.u32()?, head.u32()?);
    let (euid, suid) = (head.u32()?, head.u32()?);
    let (gid, egid) = (head.u32()?, head.u32()?);
    let (way_low, system_call) = (head.u32()?, head.u32()?);
    let (flags, tail_words) = (head.u16()?, head.u16()?);
    let (context, policy, priority, number) = (head.u8()?, head.u8()?, head.u8()?, head.u8()?);
    let (way_end, frames, frames_end, code) = (head.u8()?, head.u8()?, head.u8()?, head.u8()?);
    let _missed = head.u32()?;
    let stack_bytes = usize::from(head.u16()?);
    let changes = 8 * usize::from(head.u8()?);
    let handlers = head.u8()?;
    let way_high = head.u32()?;
    let has = |flag| flags & flag != 0;

    let tail_end = HEAD + 8 * usize::from(tail_words);
    let mut tail = Fields(bytes.get(HEAD..tail_end)?);
    let interrupted = match has(REGISTERS) {
        true => Some(tail.registers()?),
        false => None,
    };
    let context = context_of(context)?;
    let user = if has(USER_IS_32) {
        UserRegisters::Compat
    } else if context == Context::User {
        interrupted.map_or(UserRegisters::None, UserRegisters::Long)
    } else if has(USER_REGISTERS) {
        UserRegisters::Long(tail.registers()?)
    } else {
        UserRegisters::None
    };
    let task = TaskIdentity {
        tgid,
        tid,
        start_time,
        thread_start_time,
        exec_count,
        uid,
        euid,
        suid,
        gid,
        egid,
        privileged: has(PRIVILEGED),
        dumpable: has(DUMPABLE),
        kernel_thread: has(KERNEL_THREAD),
        comm,
        context,
        placement: has(PLACEMENT).then_some(Placement {
            ppid,
            pgid,
            sid,
            tty,
            cgroup,
            policy,
            priority,
            signals_pending: has(SIGNALS_PENDING),
        }),
    };
    // Memory, at its end the code; then the stack, then what has changed since.
    let tail_start = tail_end - tail.rest().len();
    let changes_start = tail_end.checked_sub(changes)?;
    let stack_start = changes_start.checked_sub(stack_bytes)?;
    let mut memory = tail_start..stack_start;
    let (mut code, mut stack) = (code, stack_start..changes_start);
    if has(CODE_CHANGES) {
        let bytes = usize::from(code).next_multiple_of(8);
        memory.end = memory.end.checked_sub(bytes)?;
        code = 0;
    }
    if has(STACK_CHANGES) {
        stack.end = stack.start;
    }
    if memory.end < memory.start {
        return None;
    }
    let capture = Capture {
        task,
        outcome: outcome(
            number,
            way_end,
            u64::from(way_high) << 32 | u64::from(way_low),
        )?,
        share: Share::ALL,
        frames_end: end_of_frames(frames_end)?,
        system_call: has(SYSTEM_CALL).then_some(system_call),
        fs_base: has(FS_BASE).then_some(fs_base),
        gs_base: has(GS_BASE).then_some(gs_base),
        memory: Memory {
            frames,
            code,
            bytes: bytes.clone().slice(memory),
            changes: bytes.clone().slice(changes_start..tail_end),
        },
        second_look: has(SECOND_LOOK),
        handlers: (handlers & HANDLERS_KNOWN != 0).then_some(SignalHandlers {
            access: handlers & HANDLERS_ACCESS != 0,
            float: handlers & HANDLERS_FLOAT != 0,
            keys: handlers & HANDLERS_KEYS != 0,
        }),
    };
    Some(RawSample {
        time,
        cpu,
        pid: tgid,
        tid,
        period,
        ip,
        mode: mode_of(context),
        interrupted,
        user,
        stack: bytes.get(stack)?.into(),
        capture: Some(capture),
    })
}

/// Decodes an entry of a table of cycles that was fetched at `time`.
pub(crate) fn cycles(key: &[u8], value: &[u8], time: u64) -> Option<Cycles> {
    let mut key = Fields(key);
    let process = ProcessKey {
        tgid: key.u32()?,
        exec_count: key.u32()?,
        start_time: key.u64()?,
    };
    let ip = key.u64()?;
    let euid = key.u32()?;
    let context = context_of(u8::try_from(key.u32()?).ok()?)?;
    let mut value = Fields(value);
    Some(Cycles {
        time,
        process,
        euid,
        ip,
        mode: mode_of(context),
        samples: value.u64()?,
        weight: value.u64()?,
    })
}

fn mode_of(context: Context) -> Mode {
    match context {
        Context::User => Mode::User,
        Context::Kernel | Context::Softirq | Context::Hardirq => Mode::Kernel,
    }
}

fn context_of(number: u8) -> Option<Context> {
    Some(match number {
        0 => Context::User,
        1 => Context::Kernel,
        2 => Context::Softirq,
        3 => Context::Hardirq,
        _ => return None,
    })
}

fn end_of_frames(number: u8) -> Option<FramesEnd> {
    Some(match number {
        0 => FramesEnd::None,
        1 => FramesEnd::Outermost,
        2 => FramesEnd::NoRow,
        3 => FramesEnd::UnknownRegister,
        4 => FramesEnd::Unreadable,
        5 => FramesEnd::Most,
        _ => return None,
    })
}

/// What was read ahead, by its number; and of a way, why it ended, and where it would have gone on.
fn outcome(number: u8, end: u8, pc: u64) -> Option<Outcome> {
    Some(match number {
        NOT_TRIED => Outcome::NotTried,
        FOLLOWED => Outcome::Followed {
            end: match end & !OF_UNKNOWN {
                0 => WayEnd::Length,
                1 => WayEnd::Unknown,
                2 => WayEnd::NoCode { pc },
                3 => WayEnd::Full,
                4 => WayEnd::NotFollowed,
                _ => return None,
            },
        },
        2 => Outcome::WithoutWay,
        3 => Outcome::MemoryDenied,
        4 => Outcome::ValuesDenied,
        5 => Outcome::NotDumpable,
        6 => Outcome::Crowded,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the bytes are, decoding them ends with a sample or none, and what the sample
        /// holds lies within them.
        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..1200), sane in any::<bool>()) {
            if sane && bytes.len() >= HEAD {
                // Small numbers where most values mean nothing: words, context, outcome, frames.
                let words = (bytes.len() - HEAD) / 8;
                bytes[138..140].copy_from_slice(&(words as u16).to_ne_bytes());
                for at in [140, 143, 145, 146, 153] {
                    bytes[at] %= 4;
                }
            }
            let packed = Packed::new(bytes.clone().into(), 1);
            let Some((packed, _)) = packed else {
                return Ok(());
            };
            let Some(sample) = packed.unpack() else {
                return Ok(());
            };
            prop_assert_eq!(packed.time(), sample.time);
            prop_assert_eq!(packed.period(), sample.period);
            prop_assert_eq!(packed.has_stack(), !sample.stack.is_empty());
            prop_assert_eq!(packed.origin(), (sample.pid, sample.ip, sample.mode));
            let capture = sample.capture.as_ref().ok_or_else(|| TestCaseError::fail("no capture"))?;
            prop_assert!(capture.changes().count() <= bytes.len() / 8);
            let pieces: usize = capture.pieces().map(|(_, piece)| piece.len()).sum();
            let all = pieces + capture.code().len() + 8 * capture.frames().len() + sample.stack.len();
            prop_assert!(all <= bytes.len());
        }
    }

    /// An entry of a table of cycles, and what is too short for one.
    #[test]
    fn entries_of_cycles() {
        let mut key = Vec::new();
        key.extend(7_u32.to_ne_bytes());
        key.extend(2_u32.to_ne_bytes());
        key.extend(99_u64.to_ne_bytes());
        key.extend(0x40_1000_u64.to_ne_bytes());
        key.extend(1000_u32.to_ne_bytes());
        key.extend(1_u32.to_ne_bytes());
        let value: Vec<u8> = [3_u64, 3000]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .collect();
        let expected = Cycles {
            time: 5,
            process: ProcessKey {
                tgid: 7,
                exec_count: 2,
                start_time: 99,
            },
            euid: 1000,
            ip: 0x40_1000,
            mode: Mode::Kernel,
            samples: 3,
            weight: 3000,
        };
        assert_eq!(cycles(&key, &value, 5), Some(expected));
        assert_eq!(cycles(&key[..31], &value, 5), None);
        assert_eq!(cycles(&key, &value[..8], 5), None);
    }
}
