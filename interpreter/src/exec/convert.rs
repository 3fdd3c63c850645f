//! Sign extension of the accumulator.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, RDX};
use crate::stop::StopReason;
use crate::word::Width;

type Done = Result<Flow, StopReason>;

fn extend(m: &mut Machine<'_>, d: &Decoded, from: Width, to: Width) -> Done {
    let value = m.part(RAX, from).sign_extend(from, to);
    m.write_part(d, RAX, to, value);
    Ok(Flow::Next)
}

pub(super) fn cbw(m: &mut Machine<'_>, d: &Decoded) -> Done {
    extend(m, d, Width::B8, Width::B16)
}

pub(super) fn cwde(m: &mut Machine<'_>, d: &Decoded) -> Done {
    extend(m, d, Width::B16, Width::B32)
}

pub(super) fn cdqe(m: &mut Machine<'_>, d: &Decoded) -> Done {
    extend(m, d, Width::B32, Width::B64)
}

/// Fills rdx with the sign of rax.
fn spread(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let sign = m.part(RAX, width).fill_sign(width);
    m.write_part(d, RDX, width, sign);
    Ok(Flow::Next)
}

pub(super) fn cwd(m: &mut Machine<'_>, d: &Decoded) -> Done {
    spread(m, d, Width::B16)
}

pub(super) fn cdq(m: &mut Machine<'_>, d: &Decoded) -> Done {
    spread(m, d, Width::B32)
}

pub(super) fn cqo(m: &mut Machine<'_>, d: &Decoded) -> Done {
    spread(m, d, Width::B64)
}
