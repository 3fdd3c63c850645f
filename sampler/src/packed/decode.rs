//! What the bytes of a record say.

use addresses::ProcessAddress;

use super::{HEAD, REGISTER_BYTES, has, outcome_of};
use crate::abi::{self, Plain as _, Record as Head};
use crate::block::BlockBytes;
use crate::capture::HandlerMemory;
use crate::{
    CapturedMemory, Context, Cycles, FramesEnd, Mode, Outcome, Pid, Placement, ProcessKey,
    RawSample, Registers, Share, SignalHandlers, TaskIdentity, Tid, UserRegisters, VectorState,
    Vectors, WayEnd,
};

/// Takes a set of registers from the front.
pub(super) fn registers(tail: &mut &[u8]) -> Option<Registers> {
    let (bytes, rest) = tail.split_first_chunk::<REGISTER_BYTES>()?;
    *tail = rest;
    let [gpr @ .., ip, flags, cs, ss] = <[u64; abi::REGISTER_WORDS as usize]>::get(bytes);
    Some(Registers {
        gpr,
        ip,
        flags,
        cs,
        ss,
    })
}

/// Decodes a record that was taken on `cpu` after this interval. `None` if it is no record.
pub(super) fn decode(bytes: &BlockBytes, cpu: u32, period: u64) -> Option<RawSample> {
    let head = Head::get(bytes.first_chunk::<HEAD>()?);
    let stack_bytes = usize::from(head.stack_bytes);
    let changes = 8 * usize::from(head.changes);
    let vector_bytes = 8 * usize::try_from(head.vector_words).ok()?;
    let has = |flag| has(&head, flag);

    let tail_end = HEAD + 8 * usize::from(head.tail_words);
    let mut tail = bytes.get(HEAD..tail_end)?;
    let interrupted = match has(abi::RECORD_REGISTERS) {
        true => Some(registers(&mut tail)?),
        false => None,
    };
    let context = context_of(head.context.into())?;
    let user = if has(abi::RECORD_USER_IS_32) {
        UserRegisters::Compat
    } else if context == Context::User {
        interrupted.map_or(UserRegisters::None, UserRegisters::Long)
    } else if has(abi::RECORD_USER_REGISTERS) {
        UserRegisters::Long(registers(&mut tail)?)
    } else {
        UserRegisters::None
    };
    let task = TaskIdentity {
        tgid: Pid(head.tgid),
        tid: Tid(head.tid),
        start_time: head.start_time,
        thread_start_time: head.thread_start_time,
        exec_count: head.exec_count,
        uid: head.uid,
        euid: head.euid,
        suid: head.suid,
        gid: head.gid,
        egid: head.egid,
        privileged: has(abi::RECORD_PRIVILEGED),
        dumpable: has(abi::RECORD_DUMPABLE),
        kernel_thread: has(abi::RECORD_KERNEL_THREAD),
        comm: head.comm,
        context,
        placement: has(abi::RECORD_PLACEMENT).then_some(Placement {
            ppid: Pid(head.ppid),
            pgid: head.pgid,
            sid: head.sid,
            tty: head.tty,
            cgroup: head.cgroup,
            policy: head.policy,
            priority: head.priority,
            signals_pending: has(abi::RECORD_SIGNALS_PENDING),
        }),
    };
    // Memory, at its end the code; then the stack, then what has changed since.
    let tail_start = tail_end - tail.len();
    let vectors_start = tail_end.checked_sub(vector_bytes)?;
    let changes_start = vectors_start.checked_sub(changes)?;
    let stack_start = changes_start.checked_sub(stack_bytes)?;
    let mut memory = tail_start..stack_start;
    let (mut code, mut stack) = (head.code_bytes, stack_start..changes_start);
    if has(abi::RECORD_CODE_CHANGES) {
        let bytes = usize::from(code).next_multiple_of(8);
        memory.end = memory.end.checked_sub(bytes)?;
        code = 0;
    }
    if has(abi::RECORD_STACK_CHANGES) {
        stack.end = stack.start;
    }
    if memory.end < memory.start {
        return None;
    }
    let handles = |flag| u32::from(head.handlers) & flag != 0;
    let capture = CapturedMemory {
        task,
        outcome: outcome(&head)?,
        share: Share::ALL,
        frames_end: end_of_frames(head.frames_end)?,
        system_call: has(abi::RECORD_SYSTEM_CALL).then_some(head.system_call),
        fs_base: has(abi::RECORD_FS_BASE).then_some(head.fs_base),
        gs_base: has(abi::RECORD_GS_BASE).then_some(head.gs_base),
        memory: HandlerMemory {
            frames: head.frames,
            code,
            bytes: bytes.clone().slice(memory),
            changes: bytes.clone().slice(changes_start..vectors_start),
        },
        second_look: has(abi::RECORD_SECOND_LOOK),
        handlers: handles(abi::HANDLERS_KNOWN).then_some(SignalHandlers {
            access: handles(abi::HANDLERS_ACCESS),
            float: handles(abi::HANDLERS_FLOAT),
            keys: handles(abi::HANDLERS_KEYS),
        }),
        vectors: match u32::from(head.flags) & abi::RECORD_SECOND {
            abi::RECORD_VECTORS_COMPLETE => Vectors::Complete,
            abi::RECORD_VECTORS_AWAITED => Vectors::Awaited,
            abi::RECORD_SECOND => {
                Vectors::Here(VectorState::saved(bytes.get(vectors_start..tail_end)?)?)
            }
            _ => Vectors::None,
        },
    };
    Some(RawSample {
        time: head.time,
        cpu,
        pid: task.tgid,
        tid: task.tid,
        period,
        ip: ProcessAddress(head.ip),
        mode: mode_of(context),
        interrupted,
        user,
        stack: bytes.get(stack)?.into(),
        capture: Some(capture),
    })
}

/// Decodes an entry of a table of cycles that was fetched at `time`.
pub(crate) fn cycles(key: &[u8], value: &[u8], time: u64) -> Option<Cycles> {
    let key = abi::CyclesKey::get(key.first_chunk::<{ size_of::<abi::CyclesKey>() }>()?);
    let value = abi::CyclesValue::get(value.first_chunk::<{ size_of::<abi::CyclesValue>() }>()?);
    Some(Cycles {
        time,
        process: ProcessKey {
            tgid: key.process.tgid,
            exec_count: key.process.exec_count,
            start_time: key.process.start_time,
        },
        euid: key.euid,
        ip: ProcessAddress(key.ip),
        mode: mode_of(context_of(key.context)?),
        samples: value.samples,
        weight: value.weight,
    })
}

pub(super) fn mode_of(context: Context) -> Mode {
    match context {
        Context::User => Mode::User,
        Context::Kernel | Context::Softirq | Context::Hardirq => Mode::Kernel,
    }
}

pub(super) fn context_of(number: u32) -> Option<Context> {
    Some(match abi::Context::of(number)? {
        abi::Context::User => Context::User,
        abi::Context::Kernel => Context::Kernel,
        abi::Context::Softirq => Context::Softirq,
        abi::Context::Hardirq => Context::Hardirq,
    })
}

fn end_of_frames(number: u8) -> Option<FramesEnd> {
    Some(match abi::FramesEnd::of(number.into())? {
        abi::FramesEnd::None => FramesEnd::None,
        abi::FramesEnd::Outermost => FramesEnd::Outermost,
        abi::FramesEnd::NoRow => FramesEnd::NoRow,
        abi::FramesEnd::UnknownRegister => FramesEnd::UnknownRegister,
        abi::FramesEnd::Unreadable => FramesEnd::Unreadable,
        abi::FramesEnd::Most => FramesEnd::Most,
    })
}

/// What was read ahead; and of a way, why it ended, and where it would have gone on.
fn outcome(head: &Head) -> Option<Outcome> {
    let pc = u64::from(head.way_high) << 32 | u64::from(head.way_low);
    let end = u32::from(head.way_end) & !abi::WAY_OF_UNKNOWN;
    Some(match outcome_of(head)? {
        abi::Outcome::NotTried => Outcome::NotTried,
        abi::Outcome::Followed => Outcome::Followed {
            end: match abi::WayEnd::of(end)? {
                abi::WayEnd::GoesOn => WayEnd::Length,
                abi::WayEnd::Unknown => WayEnd::Unknown,
                abi::WayEnd::NoCode => WayEnd::NoCode { pc },
                abi::WayEnd::Full => WayEnd::Full,
                abi::WayEnd::End => WayEnd::NotFollowed,
            },
        },
        abi::Outcome::WithoutWay => Outcome::WithoutWay,
        abi::Outcome::MemoryDenied => Outcome::MemoryDenied,
        abi::Outcome::ValuesDenied => Outcome::ValuesDenied,
        abi::Outcome::NotDumpable => Outcome::NotDumpable,
        abi::Outcome::Crowded => Outcome::Crowded,
    })
}
