//! What the handler is told, in the form that it reads: types of [`abi`].

use super::handler::{CallerRbp, Denial, HandlerCounter, UnwindRow};
use super::kernel::{self, KernelMemory};
use crate::abi;
use crate::{Config, Pid, ProcessKey, Target};

/// The counters that say of samples of the clock `timer` that nothing came of them.
pub(crate) const TIMER_LOSSES: [HandlerCounter; 4] = [
    HandlerCounter::TimerInThread,
    HandlerCounter::TimerMoved,
    HandlerCounter::TimerBehind,
    HandlerCounter::TimerStopped,
];

/// What the handler is told; `own` is the process that it leaves out.
pub(crate) fn settings(config: &Config, own: Option<Pid>, memory: KernelMemory) -> abi::Settings {
    let options = &config.bpf;
    let filter = &options.filter;
    let flags = [
        (config.target != Target::System, abi::SELECT_TARGETS),
        (filter.cgroup.is_some(), abi::SELECT_CGROUP),
        (filter.euid.is_some(), abi::SELECT_EUID),
        (filter.comm.is_some(), abi::SELECT_COMM),
        (options.not_dumpable, abi::CAPTURE_NOT_DUMPABLE),
        (options.placement, abi::CAPTURE_PLACEMENT),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set);
    let mut comm = [0; 16];
    if let Some(name) = &filter.comm {
        let len = name.len().min(15);
        comm[..len].copy_from_slice(&name[..len]);
    }
    let KernelMemory {
        image,
        direct_map,
        direct_map_at,
        ram,
        text,
        entries,
    } = memory;
    abi::Settings {
        flags: flags.fold(0, |all, (_, flag)| all | u64::from(flag)),
        cgroup: filter.cgroup.unwrap_or(0),
        buffer_bytes: u64::from(options.buffer_bytes),
        own_tgid: own.map_or(u32::MAX, |pid| pid.0),
        euid: filter.euid.unwrap_or(0),
        wake_up_samples: config.wake_up_samples.max(1),
        frames: options.frames,
        comm,
        stack_bytes: config.stack_bytes,
        share: options.share.0,
        most_followed: options.followed,
        levels: kernel::table_levels(),
        copy_bytes: copy_bytes(config),
        reserved: 0,
        image,
        direct_map,
        direct_map_at,
        ram,
        text,
        entries,
    }
}

/// Bytes of the stack that lead to so many callers, of most programs.
const BYTES_OF_FRAME: u32 = 512;

/// How much of the stack of a sample is copied whose callers lack unwind rows, in bytes: whole
/// pages, or no more than comes with samples in any case, where one caller is enough.
pub(crate) fn copy_bytes(config: &Config) -> u32 {
    if config.bpf.frames <= 1 {
        return 0;
    }
    let of_frames = config.bpf.frames * BYTES_OF_FRAME;
    let wanted = of_frames.max(config.stack_bytes).next_multiple_of(4096);
    wanted.min(abi::MAX_COPY_BYTES)
}

/// A process as the handler's maps know it.
pub(crate) fn process(key: ProcessKey) -> abi::ProcessKey {
    abi::ProcessKey {
        tgid: key.tgid,
        exec_count: key.exec_count,
        start_time: key.start_time,
    }
}

/// The place of a row, in a process.
pub(crate) fn place(key: ProcessKey, address: u64) -> abi::PlaceKey {
    abi::PlaceKey {
        process: process(key),
        address,
    }
}

/// A row as the handler has it.
fn row(row: UnwindRow) -> abi::Row {
    let (kind, cfa_register, rbp, cfa_words, cfa_offset) = match row {
        UnwindRow::Outermost => (abi::RowKind::Outermost, 0, CallerRbp::Same, 0, 0),
        UnwindRow::Frame {
            register,
            offset,
            rbp,
        } => (abi::RowKind::Frame, register, rbp, 0, offset),
        UnwindRow::Behind {
            register,
            offset,
            words,
            rbp,
        } => (abi::RowKind::Behind, register, rbp, words, offset),
    };
    let (rbp, rbp_offset) = match rbp {
        CallerRbp::Same => (abi::RowRbp::Same, 0),
        CallerRbp::Saved(offset) => (abi::RowRbp::Saved, offset),
        CallerRbp::Unknown => (abi::RowRbp::Unknown, 0),
    };
    abi::Row {
        kind: kind as u8,
        cfa_register,
        rbp: rbp as u8,
        cfa_words,
        cfa_offset,
        rbp_offset,
    }
}

/// What the map of rows holds at a place.
pub(crate) fn row_value(key: abi::PlaceKey, of: UnwindRow) -> abi::RowValue {
    abi::RowValue {
        key,
        row: row(of),
        reserved: 0,
    }
}

/// What the map of denials holds.
pub(crate) fn denial(what: Denial) -> [u8; 4] {
    let what = match what {
        Denial::Memory => abi::Denial::Memory,
        Denial::Values => abi::Denial::Values,
    };
    (what as u32).to_ne_bytes()
}
