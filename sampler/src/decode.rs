//! From the bytes of a ring buffer to [`Record`]s: pure, and safe against any bytes.
//!
//! The layout is that of an event opened by this crate: samples of one fixed composition, and a
//! trailer with thread, time, stream and CPU on every other record.

mod paths;

use addresses::ProcessAddress;
use perf_event_open_sys::bindings as b;

pub use self::paths::Paths;
use crate::{Mmap, MmapIdentity, Mode, Pid, RawSample, Record, Registers, Tid, UserRegisters};

/// The registers of a sample: ax bx cx dx si di bp sp ip flags cs ss, then r8 to r15.
pub(crate) const REGISTERS: u64 = 0x00ff_0fff;

/// How many bits [`REGISTERS`] has.
pub(crate) const REGISTER_COUNT: usize = 20;
const _: () = assert!(REGISTERS.count_ones() as usize == REGISTER_COUNT);

/// Size of a record's header: type (32 bits), flags (16) and size (16).
const HEADER: usize = 8;

/// Size of the trailer of records other than samples.
const TRAILER: usize = 40;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The record ends before its last field.
    #[error("a record ends within its fields")]
    Truncated,
    /// The header's size is not that of the record.
    #[error("a record of {actual} bytes says it has {stated}")]
    Size {
        /// What the header says.
        stated: usize,
        /// What there is.
        actual: usize,
    },
    /// The record is of a kind that was not asked for.
    #[error("a record of unknown kind {0}")]
    Kind(u32),
    /// The registers are of an unknown architecture.
    #[error("registers of unknown kind {0}")]
    Abi(u64),
    /// More of the stack is said to have been copied than there was room for.
    #[error("a stack copy of {copied} bytes in {room}")]
    Stack {
        /// What is said to have been copied.
        copied: u64,
        /// The room for it.
        room: u64,
    },
}

/// A record and the event that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The record.
    pub record: Record,
    /// The kernel's id of the event; each inherited copy of an event has its own.
    pub stream: u64,
}

/// Decodes one record, header included. Of `paths`, mappings have theirs.
///
/// # Errors
/// Any of [`Error`]: the record must then be counted as malformed.
pub fn record(bytes: &[u8], paths: &mut Paths) -> Result<Decoded, Error> {
    let mut fields = Fields(bytes);
    let kind = fields.u32()?;
    let misc = u32::from(fields.u16()?);
    let stated = usize::from(fields.u16()?);
    if stated != bytes.len() {
        return Err(Error::Size {
            stated,
            actual: bytes.len(),
        });
    }
    if kind == b::PERF_RECORD_SAMPLE {
        return sample(fields, misc);
    }
    let body = bytes
        .len()
        .checked_sub(HEADER + TRAILER)
        .ok_or(Error::Truncated)?;
    let mut fields = Fields(fields.take(body)?);
    // `take` left exactly the trailer behind.
    let mut trailer = Fields(&bytes[HEADER + body..]);
    let (pid, tid) = trailer.ids()?;
    let (time, stream) = (trailer.u64()?, trailer.u64()?);
    let record = match kind {
        b::PERF_RECORD_MMAP2 => Record::Mmap(Box::new(mmap2(fields, time, paths)?)),
        b::PERF_RECORD_COMM => {
            let (pid, tid) = fields.ids()?;
            let name = String::from_utf8_lossy(fields.text()).into_owned();
            let exec = misc & b::PERF_RECORD_MISC_COMM_EXEC != 0;
            Record::Comm {
                time,
                pid,
                tid,
                name,
                exec,
            }
        }
        b::PERF_RECORD_FORK | b::PERF_RECORD_EXIT => {
            let (pid, ppid) = (Pid(fields.u32()?), Pid(fields.u32()?));
            let (tid, ptid) = (Tid(fields.u32()?), Tid(fields.u32()?));
            let time = fields.u64()?;
            if kind == b::PERF_RECORD_FORK {
                Record::Fork {
                    time,
                    pid,
                    ppid,
                    tid,
                    ptid,
                }
            } else {
                Record::Exit {
                    time,
                    pid,
                    ppid,
                    tid,
                    ptid,
                }
            }
        }
        b::PERF_RECORD_THROTTLE => Record::Throttle {
            time: fields.u64()?,
        },
        b::PERF_RECORD_UNTHROTTLE => Record::Unthrottle {
            time: fields.u64()?,
        },
        b::PERF_RECORD_LOST => {
            fields.u64()?; // The event's id: losses are counted for the ring.
            Record::Lost {
                time,
                count: fields.u64()?,
            }
        }
        b::PERF_RECORD_LOST_SAMPLES => Record::LostSamples {
            time,
            count: fields.u64()?,
        },
        other => return Err(Error::Kind(other)),
    };
    let _ = (pid, tid); // Of the thread that wrote the record, which need not be its subject.
    Ok(Decoded { record, stream })
}

fn sample(mut fields: Fields<'_>, misc: u32) -> Result<Decoded, Error> {
    fields.u64()?; // The id that inherited copies share.
    let ip = fields.u64()?;
    let (pid, tid) = fields.ids()?;
    let (time, stream) = (fields.u64()?, fields.u64()?);
    let cpu = fields.u32()?;
    fields.u32()?; // Reserved.
    let period = fields.u64()?;
    let mode = match misc & b::PERF_RECORD_MISC_CPUMODE_MASK {
        b::PERF_RECORD_MISC_USER => Mode::User,
        b::PERF_RECORD_MISC_KERNEL => Mode::Kernel,
        b::PERF_RECORD_MISC_HYPERVISOR => Mode::Hypervisor,
        b::PERF_RECORD_MISC_GUEST_USER => Mode::GuestUser,
        b::PERF_RECORD_MISC_GUEST_KERNEL => Mode::GuestKernel,
        _ => Mode::Unknown,
    };
    let user = match fields.registers()? {
        (Abi::None, _) => UserRegisters::None,
        (Abi::Compat, _) => UserRegisters::Compat,
        (Abi::Long, registers) => UserRegisters::Long(registers),
    };
    let stack = fields.stack()?;
    let interrupted = match (fields.registers()?, mode) {
        ((Abi::Long, registers), _) => Some(registers),
        // The kernel labels interrupted registers by the thread's user mode: for 32-bit programs
        // and for threads without any it says 32 bits, though its own code is always 64-bit.
        ((Abi::Compat, registers), Mode::Kernel) => Some(registers),
        _ => None,
    };
    let sample = RawSample {
        time,
        cpu,
        pid,
        tid,
        period,
        ip: ProcessAddress(ip),
        mode,
        interrupted,
        user,
        stack,
        capture: None,
    };
    Ok(Decoded {
        record: Record::Sample(Box::new(sample)),
        stream,
    })
}

fn mmap2(mut fields: Fields<'_>, time: u64, paths: &mut Paths) -> Result<Mmap, Error> {
    let (pid, tid) = fields.ids()?;
    let (address, len, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let mut file = Fields(fields.take(24)?);
    let (prot, flags) = (fields.u32()?, fields.u32()?);
    // Build ids were not asked for. Where somebody else did, the record is marked as if it had one,
    // and has none.
    let identity = MmapIdentity::Inode {
        major: file.u32()?,
        minor: file.u32()?,
        inode: file.u64()?,
        generation: file.u64()?,
    };
    Ok(Mmap {
        time,
        pid,
        tid,
        address,
        len,
        offset,
        identity,
        prot,
        flags,
        path: paths.get(fields.text()),
    })
}

/// Which kind of registers a sample holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abi {
    None,
    Compat,
    Long,
}

/// The fields of a record not yet read.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn ids(&mut self) -> Result<(Pid, Tid), Error> {
        Ok((Pid(self.u32()?), Tid(self.u32()?)))
    }

    /// The rest, up to the zeros that pad it.
    fn text(&mut self) -> &'a [u8] {
        let rest = std::mem::take(&mut self.0);
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    pub(crate) fn registers(&mut self) -> Result<(Abi, Registers), Error> {
        let abi = match u32::try_from(self.u64()?) {
            Ok(b::PERF_SAMPLE_REGS_ABI_NONE) => return Ok((Abi::None, Registers::default())),
            Ok(b::PERF_SAMPLE_REGS_ABI_32) => Abi::Compat,
            Ok(b::PERF_SAMPLE_REGS_ABI_64) => Abi::Long,
            Ok(other) => return Err(Error::Abi(u64::from(other))),
            Err(_) => return Err(Error::Abi(u64::MAX)),
        };
        let mut raw = [0; REGISTER_COUNT];
        for register in &mut raw {
            *register = self.u64()?;
        }
        // In the kernel's order, which is not that of instruction encodings.
        let [ax, bx, cx, dx, si, di, bp, sp, ip, flags, cs, ss, high @ ..] = raw;
        let [r8, r9, r10, r11, r12, r13, r14, r15] = high;
        let gpr = [
            ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15,
        ];
        Ok((
            abi,
            Registers {
                gpr,
                ip,
                flags,
                cs,
                ss,
            },
        ))
    }

    /// A stack copy: room, bytes, and how many of them were really copied.
    pub(crate) fn stack(&mut self) -> Result<Box<[u8]>, Error> {
        let room = self.u64()?;
        if room == 0 {
            return Ok(Box::default());
        }
        let bytes = self.take(usize::try_from(room).map_err(|_| Error::Truncated)?)?;
        let copied = self.u64()?;
        let end = usize::try_from(copied).unwrap_or(usize::MAX);
        bytes
            .get(..end)
            .map(Box::from)
            .ok_or(Error::Stack { copied, room })
    }
}

/// Cuts what a ring holds into records and hands each to `each`, header included.
///
/// `first` and `second` are the two parts of the ring's contents when they wrap around its end;
/// a record that does is put together in `scratch`. Returns how many bytes at the end could not
/// be cut because a header made no sense: 0 for what the kernel writes.
pub fn split(
    first: &[u8],
    second: &[u8],
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> usize {
    let (mut first, mut second) = (first, second);
    loop {
        if first.is_empty() {
            (first, second) = (second, &[]);
        }
        let left = first.len() + second.len();
        if left == 0 {
            return 0;
        }
        // The size is the header's last field. Headers are aligned and do not wrap in a ring, but
        // nothing here depends on it.
        let at = |index: usize| {
            first
                .get(index)
                .or_else(|| second.get(index.checked_sub(first.len())?))
                .copied()
        };
        let (Some(low), Some(high)) = (at(6), at(7)) else {
            return left;
        };
        let size = usize::from(u16::from_ne_bytes([low, high]));
        if size < HEADER || size > left {
            return left;
        }
        if let Some((record, rest)) = first.split_at_checked(size) {
            each(record);
            first = rest;
        } else {
            // `size` is greater than `first` and at most both parts together.
            let (head, rest) = second.split_at(size - first.len());
            scratch.clear();
            scratch.extend_from_slice(first);
            scratch.extend_from_slice(head);
            each(scratch);
            (first, second) = (rest, &[]);
        }
    }
}

#[cfg(test)]
mod tests;
