//! The registers that a window starts from.

use interpreter::{Handlers, Registers, X87};
use sampler::{Capture, Vectors};

use crate::machine::signals::of_program;
use crate::machine::view::View;

/// Makes them those of a sample, as far as they are known.
pub(super) fn set(
    start: &mut Registers,
    sampled: &sampler::Registers,
    view: &View<'_>,
    capture: Option<&Capture>,
) {
    start.set_sample(sampled.gpr, sampled.ip, sampled.flags);
    if let Some(Vectors::Here(state)) = capture.map(|capture| &capture.vectors) {
        start.set_vectors(&state.vectors, state.masks, state.mxcsr);
        let x87 = &state.x87;
        start.x87 = X87::saved(x87.control, x87.status, x87.used, &x87.stack);
    }
    (start.fs_base, start.gs_base) = bases(view, capture);
    start.handlers = handlers(view, capture);
}

/// The bases of FS and GS in user code, as the kernel has them, where the process has no code that
/// can have changed them since.
fn bases(view: &View<'_>, capture: Option<&Capture>) -> (Option<u64>, Option<u64>) {
    let Some(Capture {
        fs_base, gs_base, ..
    }) = capture.filter(|of| of.fs_base.is_some() || of.gs_base.is_some())
    else {
        return (None, None);
    };
    let writers = view.base_writers();
    (
        fs_base.filter(|_| !writers.fs),
        gs_base.filter(|_| !writers.gs),
    )
}

/// Which exceptions the program has handlers for: as the interrupt found them, else as they are
/// found now. The kernel has its own.
fn handlers(view: &View<'_>, capture: Option<&Capture>) -> Handlers {
    if view.is_kernel() {
        return Handlers::NONE;
    }
    let soon = view.time..view.time.saturating_add(FATAL);
    if view.ends.is_some_and(|end| soon.contains(&end)) {
        // It may have ended by an exception that nothing handled, right behind the sample.
        return Handlers::UNKNOWN;
    }
    let found = capture.and_then(|capture| capture.handlers);
    found.map_or_else(|| view.handlers(), of_program)
}

/// How long a process may take to end by an exception, in nanoseconds: it may be kept waiting
/// before, and write a core file behind.
const FATAL: u64 = 1_000_000_000;
