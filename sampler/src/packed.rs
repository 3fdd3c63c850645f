//! From the handler's records to samples: `struct record` of `bpf/shared.h`.

mod decode;

use std::fmt;

use addresses::ProcessAddress;
use serde::{Deserialize, Serialize};

pub(crate) use self::decode::cycles;
use self::decode::{context_of, decode, mode_of, registers};
use crate::abi::{self, Plain as _, Record as Head};
use crate::block::BlockBytes;
use crate::{Mode, Pid, RawSample, Registers, Tid};

/// Bytes before the tail.
const HEAD: usize = size_of::<Head>();
/// What a copy of a stack has in place of a sample's period.
const COPY_PERIOD: u64 = abi::STACK_COPY_PERIOD as u64;
/// What the records that the handler makes at an entry have in place of it: no clock has it.
pub(crate) const BREAKPOINT_PERIOD: u64 = abi::BREAKPOINT_PERIOD as u64;
/// As it stands in records of entries of functions.
const ENTRY_PERIOD: u64 = abi::ENTRY_PERIOD as u64;
/// Bytes of a set of registers.
const REGISTER_BYTES: usize = 8 * abi::REGISTER_WORDS as usize;

/// Flags of a head.
fn has(head: &Head, flag: u32) -> bool {
    u32::from(head.flags) & flag != 0
}

/// What was read ahead, if the number means something.
fn outcome_of(head: &Head) -> Option<abi::Outcome> {
    abi::Outcome::of(head.outcome.into())
}

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
    ip: ProcessAddress,
    pid: Pid,
    cpu: u32,
    mode: Mode,
    has_stack: bool,
    is_not_tried: bool,
    is_urgent: bool,
    /// What it has to do with vector registers.
    order: Order,
    /// A copy of its stack lies before it.
    has_copy: bool,
    bytes: BlockBytes,
}

/// Whether a record is all that there is of a sample, or none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Order {
    Whole,
    /// Another one is to come.
    First,
    /// It is that one.
    Second,
    /// A breakpoint made it.
    Entry,
    /// It brings vector registers of a thread that stopped at a breakpoint.
    EndOfBlock,
    /// It brings those of a thread that entered a function.
    AtEntry,
}

/// An end of a block, where a breakpoint stopped a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    /// That of the [pair](crate::Pair).
    pub attempt: u32,
    /// The exit, or else the entry.
    pub is_exit: bool,
}

/// What the handler brings of a thread that entered a function, or came back from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AtEntry {
    /// When the thread went on, in nanoseconds of `CLOCK_MONOTONIC`: right behind the hit.
    pub time: u64,
    /// The thread.
    pub tid: Tid,
    /// Its general registers there.
    pub registers: Registers,
    /// The lower words of `xmm0` to `xmm7`.
    pub vectors: [u64; abi::VECTOR_ARGUMENTS as usize],
}

impl fmt::Debug for AtEntry {
    /// Without values: debug output goes to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtEntry")
            .field("time", &self.time)
            .field("tid", &self.tid)
            .finish_non_exhaustive()
    }
}

impl Packed {
    /// A record that was taken on `cpu`, and how many samples found no room since the one before.
    /// `None` if it is no record. The copy of a stack may lie before it.
    pub(crate) fn new(bytes: BlockBytes, cpu: u32) -> Option<(Self, u32)> {
        let (copy, record) = parts(&bytes)?;
        let head = Head::get(record.first_chunk::<HEAD>()?);
        let has_copy = copy.is_some_and(|copy| stack_of(copy, &head).is_some());
        let bytes = match (copy, has_copy) {
            // It is of a sample that found no room.
            (Some(copy), false) => {
                let (start, end) = (copy.len(), bytes.len());
                bytes.slice(start..end)
            }
            _ => bytes,
        };
        let outcome = outcome_of(&head);
        let is_not_tried = outcome == Some(abi::Outcome::NotTried);
        let is_followed = outcome == Some(abi::Outcome::Followed);
        let is_of_unknown = u32::from(head.way_end) & abi::WAY_OF_UNKNOWN != 0;
        let packed = Self {
            time: head.time,
            period: head.period,
            ip: ProcessAddress(head.ip),
            pid: Pid(head.tgid),
            cpu,
            mode: mode_of(context_of(head.context.into())?),
            // One that changed meanwhile is left out.
            has_stack: has_copy || head.stack_bytes > 0 && !has(&head, abi::RECORD_STACK_CHANGES),
            is_not_tried,
            is_urgent: is_not_tried || is_followed && is_of_unknown,
            order: match u32::from(head.flags) & abi::RECORD_SECOND {
                abi::RECORD_VECTORS_AWAITED => Order::First,
                abi::RECORD_SECOND if head.period >> abi::STOP_BIT != 0 => Order::EndOfBlock,
                abi::RECORD_SECOND if head.period == ENTRY_PERIOD => Order::AtEntry,
                abi::RECORD_SECOND => Order::Second,
                _ if head.period == BREAKPOINT_PERIOD => Order::Entry,
                _ => Order::Whole,
            },
            has_copy,
            bytes,
        };
        Some((packed, head.missed))
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
    pub fn origin(&self) -> (Pid, ProcessAddress, Mode) {
        (self.pid, self.ip, self.mode)
    }

    /// Whether it is the second record of a sample, which brings its vector registers. It is no
    /// sample itself.
    pub fn is_second(&self) -> bool {
        self.order == Order::Second
    }

    /// Whether a breakpoint made it, at the entry of a block. It is no sample.
    pub fn is_entry(&self) -> bool {
        self.order == Order::Entry
    }

    /// Of which end of which block it brings the vector registers, if it does. It is no sample.
    pub fn stop(&self) -> Option<Stop> {
        (self.order == Order::EndOfBlock).then_some(Stop {
            // What is cut off is the bit that all of them have.
            attempt: (self.period >> 1) as u32,
            is_exit: self.period & 1 != 0,
        })
    }

    /// Whether it brings vector registers of a thread that entered a function. It is no sample.
    pub fn is_at_entry(&self) -> bool {
        self.order == Order::AtEntry
    }

    /// What it brings of a thread that entered a function, if it does.
    pub fn at_entry(&self) -> Option<AtEntry> {
        if self.order != Order::AtEntry {
            return None;
        }
        let (_, record) = self.parts()?;
        let head = Head::get(record.first_chunk::<HEAD>()?);
        let end = HEAD.checked_add(8 * usize::from(head.tail_words))?;
        let mut tail = record.get(HEAD..end)?;
        let registers = match has(&head, abi::RECORD_REGISTERS) {
            true => registers(&mut tail)?,
            false => return None,
        };
        let words = tail.as_chunks().0.try_into().ok()?;
        Some(AtEntry {
            time: head.time,
            tid: Tid(head.tid),
            registers,
            vectors: <[[u8; 8]; 8]>::map(words, u64::from_ne_bytes),
        })
    }

    /// Whether it is a sample, which stands for an interval.
    pub fn is_sample(&self) -> bool {
        matches!(self.order, Order::Whole | Order::First)
    }

    /// By what a sample whose second record is to come, and that record, know each other; `None` of
    /// all others.
    pub fn pair(&self) -> Option<(Tid, u64)> {
        let time = match self.order {
            Order::Whole | Order::Entry | Order::EndOfBlock | Order::AtEntry => return None,
            Order::First => self.time,
            Order::Second => self.period,
        };
        let head = Head::get(self.parts()?.1.first_chunk::<HEAD>()?);
        Some((Tid(head.tid), time))
    }

    /// Whether memory of the user's stack came with it.
    pub fn has_stack(&self) -> bool {
        self.has_stack
    }

    /// Whether something is to be learned from it: it is of a process that the handler was not told
    /// of.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Whether nothing was read ahead, so that its code is wanted from elsewhere, too.
    pub fn is_not_tried(&self) -> bool {
        self.is_not_tried
    }

    /// Bytes that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The copy of its stack, with its head, and the record itself.
    fn parts(&self) -> Option<(Option<&[u8]>, &[u8])> {
        match self.has_copy {
            true => parts(&self.bytes),
            false => Some((None, &self.bytes)),
        }
    }

    /// Has the processor fetch what [`unpack`](Self::unpack) will need.
    pub fn prefetch(&self) {
        let record = self.parts().map_or(&[][..], |(_, record)| record);
        for line in record.chunks(LINE).filter_map(<[u8]>::first) {
            mem_prefetch::prefetch_read_data::<_, 3>(line);
        }
    }

    /// What it says, in the bytes that it came in. `None` if the handler did not write it like
    /// that.
    pub fn unpack(&self) -> Option<RawSample> {
        let (copy, record) = self.parts()?;
        let (start, end) = (self.bytes.len() - record.len(), self.bytes.len());
        let mut sample = decode(&self.bytes.clone().slice(start..end), self.cpu, self.period)?;
        if let Some(stack) = copy.and_then(|copy| copy.get(COPY_HEAD..)) {
            sample.stack = stack.into();
        }
        Some(sample)
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

/// Bytes before a copy of a stack.
const COPY_HEAD: usize = size_of::<abi::StackCopy>();

/// Whether a record is the copy of a stack, and no sample.
pub(crate) fn is_stack_copy(bytes: &[u8]) -> bool {
    let head = bytes.first_chunk::<COPY_HEAD>();
    head.is_some_and(|head| abi::StackCopy::get(head).period == COPY_PERIOD)
}

/// The copy of a stack with its head, if that is what the bytes begin with, and the rest.
fn parts(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    if !is_stack_copy(bytes) {
        return Some((None, bytes));
    }
    let head = abi::StackCopy::get(bytes.first_chunk::<COPY_HEAD>()?);
    let end = COPY_HEAD.checked_add(usize::try_from(head.bytes).ok()?)?;
    let (copy, record) = bytes.split_at_checked(end)?;
    Some((Some(copy), record))
}

/// The stack in a copy, if that is one of the sample with this head.
fn stack_of<'a>(copy: &'a [u8], of: &Head) -> Option<&'a [u8]> {
    let head = abi::StackCopy::get(copy.first_chunk::<COPY_HEAD>()?);
    let is_of = head.time == of.time && head.tid == of.tid && head.bytes == of.copied;
    copy.get(COPY_HEAD..)
        .filter(|stack| is_of && !stack.is_empty())
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use proptest::prelude::*;

    use super::*;
    use crate::{Cycles, ProcessKey};

    proptest! {
        /// Whatever the bytes are, decoding them ends with a sample or none, and what the sample
        /// holds lies within them.
        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..1200), sane in any::<bool>()) {
            if sane && bytes.len() >= HEAD {
                // Small numbers where most values mean nothing: words, context, outcome, frames.
                let words = (bytes.len() - HEAD) / 8;
                let at = offset_of!(Head, tail_words);
                bytes[at..at + 2].copy_from_slice(&(words as u16).to_ne_bytes());
                for at in [
                    offset_of!(Head, context),
                    offset_of!(Head, outcome),
                    offset_of!(Head, frames),
                    offset_of!(Head, frames_end),
                    offset_of!(Head, stack_bytes) + 1,
                ] {
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

    /// The copy of a stack goes with the sample that says so; one of a sample that found no room,
    /// or that is cut off, goes with none.
    #[test]
    fn copies_of_stacks() {
        let record = |copied: u32| {
            let mut bytes = vec![0; HEAD];
            bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
            let at = offset_of!(Head, tid);
            bytes[at..at + 4].copy_from_slice(&9_u32.to_ne_bytes());
            let at = offset_of!(Head, copied);
            bytes[at..at + 4].copy_from_slice(&copied.to_ne_bytes());
            bytes
        };
        let with_copy = |time: u64, copied| {
            let mut bytes = Vec::new();
            bytes.extend(time.to_ne_bytes());
            bytes.extend(COPY_PERIOD.to_ne_bytes());
            bytes.extend(9_u32.to_ne_bytes());
            bytes.extend(16_u32.to_ne_bytes());
            bytes.extend([5; 16]);
            bytes.extend(record(copied));
            bytes
        };
        let stack_of = |bytes: Vec<u8>| {
            let (packed, _) = Packed::new(bytes.into(), 1)?;
            let sample = packed.unpack()?;
            assert_eq!(packed.has_stack(), !sample.stack.is_empty());
            Some(sample.stack.to_vec())
        };
        assert_eq!(stack_of(with_copy(7, 16)), Some(vec![5; 16]));
        assert_eq!(stack_of(with_copy(8, 16)), Some(Vec::new()));
        assert_eq!(stack_of(with_copy(7, 0)), Some(Vec::new()));
        assert_eq!(stack_of(record(16)), Some(Vec::new()));
        assert_eq!(stack_of(with_copy(7, 16)[..30].to_vec()), None);
        assert!(is_stack_copy(&with_copy(7, 16)) && !is_stack_copy(&record(16)));
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
            ip: ProcessAddress(0x40_1000),
            mode: Mode::Kernel,
            samples: 3,
            weight: 3000,
        };
        assert_eq!(cycles(&key, &value, 5), Some(expected));
        assert_eq!(cycles(&key[..31], &value, 5), None);
        assert_eq!(cycles(&key, &value[..8], 5), None);
    }
}
