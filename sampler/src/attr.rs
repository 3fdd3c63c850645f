//! The `perf_event_attr` of a sampling event: what the decoder relies on is fixed here.

use perf_event_open_sys::bindings as b;

use crate::decode::REGISTERS;
use crate::{Clock, Config, Target};

/// What a sample holds; [`crate::decode`] reads exactly this.
const SAMPLE_TYPE: u64 = (b::PERF_SAMPLE_IDENTIFIER
    | b::PERF_SAMPLE_IP
    | b::PERF_SAMPLE_TID
    | b::PERF_SAMPLE_TIME
    | b::PERF_SAMPLE_STREAM_ID
    | b::PERF_SAMPLE_CPU
    | b::PERF_SAMPLE_PERIOD
    | b::PERF_SAMPLE_REGS_USER
    | b::PERF_SAMPLE_STACK_USER
    | b::PERF_SAMPLE_REGS_INTR) as u64;

/// What the running kernel and our privileges allow; narrowed step by step while opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    /// A count of lost records that can be read from the event (Linux 6.0).
    pub(crate) lost: bool,
    /// The kernel's own code is left out.
    pub(crate) user_only: bool,
}

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Samples, and the records that explain them.
    Both,
    /// The records that explain samples: mappings, names, ends.
    SideBand,
    /// The clock of a handler; it writes no samples itself.
    Clock,
}

/// What is read of an event: its count, the time for which it was enabled, and the total of its
/// lost records where the kernel has that; see [`Totals`](crate::sys::Totals).
fn read_format(features: Features) -> u64 {
    let mut format = b::PERF_FORMAT_TOTAL_TIME_ENABLED;
    if features.lost {
        format |= b::PERF_FORMAT_LOST;
    }
    format.into()
}

/// Builds the attributes of an event that begins disabled with the interval `period`.
pub(crate) fn attributes(
    config: &Config,
    role: Role,
    period: u64,
    features: Features,
) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr {
        // The size is that of a small fixed struct.
        size: size_of::<b::perf_event_attr>() as u32,
        clockid: libc::CLOCK_MONOTONIC,
        read_format: read_format(features),
        ..Default::default()
    };
    match config.clock {
        _ if role == Role::SideBand => {
            attr.type_ = b::PERF_TYPE_SOFTWARE;
            attr.config = b::PERF_COUNT_SW_DUMMY.into();
        }
        Clock::Cycles => {
            attr.type_ = b::PERF_TYPE_HARDWARE;
            attr.config = b::PERF_COUNT_HW_CPU_CYCLES.into();
        }
        // A timer is no event; whoever asks what is granted means one like it.
        Clock::CpuClock | Clock::Timer => {
            attr.type_ = b::PERF_TYPE_SOFTWARE;
            attr.config = b::PERF_COUNT_SW_CPU_CLOCK.into();
            attr.set_exclude_idle(1);
        }
    }
    if role == Role::Both {
        attr.sample_stack_user = config.stack_bytes;
    }
    if role == Role::SideBand {
        // Nothing is urgent, but the ring must not run over.
        attr.set_watermark(1);
        attr.wakeup_watermark = config.ring_pages.saturating_mul(4096 / 4);
    } else {
        attr.sample_period = period;
        attr.wakeup_events = config.wake_up_samples.max(1);
    }
    attr.set_disabled(1);
    attr.set_use_clockid(1);
    // What a clock's sample would hold is gathered before the handler runs, which makes no use of
    // it.
    if role != Role::Clock {
        attr.sample_type = SAMPLE_TYPE;
        attr.sample_regs_user = REGISTERS;
        attr.sample_regs_intr = REGISTERS;
        attr.set_sample_id_all(1);
        attr.set_mmap(1);
        // Without build ids: where one event asks for them, kernels (up to 6.18 at least) mark the
        // same mapping's records of other events as well, which have none, and `perf` cannot read
        // its recordings any more.
        attr.set_mmap2(1);
        attr.set_mmap_data(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_inherit(u64::from(config.target != Target::System));
        attr.set_enable_on_exec(u64::from(matches!(config.target, Target::Command(_))));
    }
    attr.set_exclude_kernel(u64::from(features.user_only));
    attr.set_exclude_hv(u64::from(features.user_only));
    // An interrupt a little after the counter ran over, with the registers of where it fell:
    // where the hardware moves the PC back (AMD's IBS), the registers no longer belong to it.
    attr.set_precise_ip(0);
    attr
}
