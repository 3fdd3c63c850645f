//! The registers that a window starts from.

use interpreter::{Handlers, Registers, X87};
use sampler::{CapturedMemory, Vectors};

use machine::address_space::AddressSpace;
use machine::signals::of_program;

/// Makes them those of a sample, as far as they are known.
pub(super) fn set(
    start: &mut Registers,
    sampled: &sampler::Registers,
    space: &AddressSpace<'_>,
    capture: Option<&CapturedMemory>,
) {
    start.set_sample(sampled.gpr, sampled.ip, sampled.flags);
    if let Some(Vectors::Here(state)) = capture.map(|capture| &capture.vectors) {
        start.set_vectors(&state.vectors, state.masks, state.mxcsr);
        let x87 = &state.x87;
        start.x87 = X87::saved(x87.control, x87.status, x87.used, &x87.stack);
    }
    (start.fs_base, start.gs_base) = bases(space, capture);
    start.handlers = handlers(space, capture);
}

/// The bases of FS and GS in user code, as the kernel has them, where the process has no code that
/// can have changed them since.
fn bases(space: &AddressSpace<'_>, capture: Option<&CapturedMemory>) -> (Option<u64>, Option<u64>) {
    let Some(CapturedMemory {
        fs_base, gs_base, ..
    }) = capture.filter(|of| of.fs_base.is_some() || of.gs_base.is_some())
    else {
        return (None, None);
    };
    let writers = space.base_writers();
    (
        fs_base.filter(|_| !writers.fs),
        gs_base.filter(|_| !writers.gs),
    )
}

/// Which exceptions the program has handlers for: as the interrupt found them, else as they are
/// found now. The kernel has its own. A thread that answers accesses of others is as good as one.
fn handlers(space: &AddressSpace<'_>, capture: Option<&CapturedMemory>) -> Handlers {
    if space.is_kernel() {
        return Handlers::NONE;
    }
    let soon = space.time..space.time.saturating_add(FATAL);
    if space.ends.is_some_and(|end| soon.contains(&end)) {
        // It may have ended by an exception that nothing handled, right behind the sample.
        return Handlers::UNKNOWN;
    }
    let found = capture.and_then(|capture| capture.handlers);
    let found = found.map_or_else(|| space.handlers(), of_program);
    Handlers {
        access: found.access || space.has_user_faults(),
        ..found
    }
}

/// How long a process may take to end by an exception, in nanoseconds: it may be kept waiting
/// before, and write a core file behind.
const FATAL: u64 = 1_000_000_000;
