//! What is shared with the handler, byte for byte: `bpf/shared.h` in Rust.

use super::kernel::{self, KernelMemory};
use crate::{CallerRbp, Config, Denial, Pid, ProcessKey, Row, Target};

/// Bytes of a process's key.
pub(crate) const PROCESS_BYTES: usize = 16;
/// Bytes of the key of a PC or a return address.
pub(crate) const PLACE_BYTES: usize = 24;
/// Bytes of the key of a table of cycles.
pub(crate) const CYCLES_KEY_BYTES: u32 = 32;
/// Bytes of its values.
pub(crate) const CYCLES_VALUE_BYTES: u32 = 16;
/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = 12;

/// The names of the handler's counters, in the order of `enum counter`.
pub(crate) const COUNTERS: [&str; 61] = [
    "walks_outermost",
    "walks_no_row",
    "walks_unknown_register",
    "walks_unreadable",
    "walks_most",
    "frames_by_row",
    "samples",
    "ways_left_out",
    "ways_not_tried",
    "frames_by_pointer",
    "own_samples",
    "filtered_samples",
    "no_scratch",
    "buffer_full",
    "buffer_busy",
    "cycles_lost",
    "not_dumpable",
    "values_denied",
    "memory_denied",
    "no_user_registers",
    "no_code",
    "short_code",
    "targets_full",
    "timer_late",
    "timer_origin_unknown",
    "timer_in_thread",
    "timer_moved",
    "timer_behind",
    "timer_stopped",
    "second_looks",
    "pieces_changed",
    "code_changed",
    "stack_changed",
    "ways",
    "ways_unknown",
    "ways_without_code",
    "ways_full",
    "ways_ended",
    "followed",
    "decoded",
    "guesses",
    "lines",
    "handler_ns",
    "ways_without_room",
    "vectors_complete",
    "vectors_too_often",
    "vectors_awaited",
    "vectors_not_woken",
    "vectors_no_switch",
    "vectors_other_thread",
    "vectors_in_kernel",
    "vectors_ran_on",
    "vectors_no_interrupt",
    "vectors_no_return",
    "vectors_switched",
    "vectors_elsewhere",
    "vectors_unreadable",
    "vectors_denied",
    "vectors_no_way",
    "vectors_no_room",
    "vectors_brought",
];

/// Of those the ones that say of samples of the clock `timer` that nothing came of them.
pub(crate) const TIMER_LOSSES: [&str; 4] = [
    "timer_in_thread",
    "timer_moved",
    "timer_behind",
    "timer_stopped",
];

/// `struct settings`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    flags: u64,
    cgroup: u64,
    buffer_bytes: u64,
    own_tgid: u32,
    euid: u32,
    wake_up_samples: u32,
    frames: u32,
    comm: [u8; 16],
    stack_bytes: u32,
    share: u32,
    most_followed: u32,
    levels: u32,
    kernel: KernelMemory,
}

const _: () = assert!(size_of::<Settings>() == 200);

impl Settings {
    const SELECT_TARGETS: u64 = 1;
    const SELECT_CGROUP: u64 = 2;
    const SELECT_EUID: u64 = 4;
    const SELECT_COMM: u64 = 8;
    const CAPTURE_NOT_DUMPABLE: u64 = 16;
    const CAPTURE_PLACEMENT: u64 = 32;

    /// What the handler is told; `own` is the process that it leaves out.
    pub(crate) fn new(config: &Config, own: Option<Pid>, memory: KernelMemory) -> Settings {
        let options = &config.bpf;
        let filter = &options.filter;
        let targets = config.target != Target::System;
        let flag = |set: bool, flag| if set { flag } else { 0 };
        let mut comm = [0; 16];
        if let Some(name) = &filter.comm {
            let len = name.len().min(15);
            comm[..len].copy_from_slice(&name[..len]);
        }
        Settings {
            flags: flag(targets, Self::SELECT_TARGETS)
                | flag(filter.cgroup.is_some(), Self::SELECT_CGROUP)
                | flag(filter.euid.is_some(), Self::SELECT_EUID)
                | flag(filter.comm.is_some(), Self::SELECT_COMM)
                | flag(options.not_dumpable, Self::CAPTURE_NOT_DUMPABLE)
                | flag(options.placement, Self::CAPTURE_PLACEMENT),
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
            kernel: memory,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; size_of::<Settings>()] {
        let mut bytes = [0; size_of::<Settings>()];
        let mut put = Put(&mut bytes);
        for word in [self.flags, self.cgroup, self.buffer_bytes] {
            put.bytes(&word.to_ne_bytes());
        }
        for half in [self.own_tgid, self.euid, self.wake_up_samples, self.frames] {
            put.bytes(&half.to_ne_bytes());
        }
        put.bytes(&self.comm);
        let halves = [
            self.stack_bytes,
            self.share,
            self.most_followed,
            self.levels,
        ];
        for half in halves {
            put.bytes(&half.to_ne_bytes());
        }
        let KernelMemory {
            image,
            direct_map,
            direct_map_at,
            ram,
            text,
            entries,
        } = self.kernel;
        let of_ram = ram.iter().flat_map(|range| [range.start, range.end]);
        let words = [image.start, image.end, direct_map, direct_map_at];
        for word in words.into_iter().chain(of_ram) {
            put.bytes(&word.to_ne_bytes());
        }
        let words = [text.start, text.end, entries.start, entries.end];
        for word in words {
            put.bytes(&word.to_ne_bytes());
        }
        bytes
    }
}

/// States of a target.
pub(crate) const TARGET_WAITS_FOR_EXEC: u32 = 1;
/// As above.
pub(crate) const TARGET_SAMPLED: u32 = 2;

/// Fills a place from its beginning; what does not fit is left out.
struct Put<'a>(&'a mut [u8]);

impl Put<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if let Some((place, rest)) = std::mem::take(&mut self.0).split_at_mut_checked(bytes.len()) {
            place.copy_from_slice(bytes);
            self.0 = rest;
        }
    }
}

/// `struct process_key`.
pub(crate) fn process(key: ProcessKey) -> [u8; PROCESS_BYTES] {
    let mut bytes = [0; PROCESS_BYTES];
    let mut put = Put(&mut bytes);
    put.bytes(&key.tgid.to_ne_bytes());
    put.bytes(&key.exec_count.to_ne_bytes());
    put.bytes(&key.start_time.to_ne_bytes());
    bytes
}

/// `struct place_key`.
pub(crate) fn place(key: ProcessKey, address: u64) -> [u8; PLACE_BYTES] {
    let mut bytes = [0; PLACE_BYTES];
    let mut put = Put(&mut bytes);
    put.bytes(&process(key));
    put.bytes(&address.to_ne_bytes());
    bytes
}

/// `struct row`.
pub(crate) fn row(row: Row) -> [u8; ROW_BYTES] {
    let (kind, register, rbp, cfa_words, cfa_offset): (u8, u8, _, i8, i32) = match row {
        Row::Outermost => (2, 0, CallerRbp::Same, 0, 0),
        Row::Frame {
            register,
            offset,
            rbp,
        } => (1, register, rbp, 0, offset),
        Row::Behind {
            register,
            offset,
            words,
            rbp,
        } => (3, register, rbp, words, offset),
    };
    let (rbp, rbp_offset): (u8, i32) = match rbp {
        CallerRbp::Same => (0, 0),
        CallerRbp::Saved(offset) => (1, offset),
        CallerRbp::Unknown => (2, 0),
    };
    let mut bytes = [0; ROW_BYTES];
    let mut put = Put(&mut bytes);
    put.bytes(&[kind, register, rbp, cfa_words.cast_unsigned()]);
    put.bytes(&cfa_offset.to_ne_bytes());
    put.bytes(&rbp_offset.to_ne_bytes());
    bytes
}

/// `struct row_value`.
pub(crate) fn row_value(key: &[u8; PLACE_BYTES], of: Row) -> [u8; 40] {
    let mut bytes = [0; 40];
    let mut put = Put(&mut bytes);
    put.bytes(key);
    put.bytes(&row(of));
    bytes
}

/// What the map of denials holds.
pub(crate) fn denial(what: Denial) -> [u8; 4] {
    let what: u32 = match what {
        Denial::Memory => 1,
        Denial::Values => 2,
    };
    what.to_ne_bytes()
}
