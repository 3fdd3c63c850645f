//! Instructions that set flags directly.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX};
use crate::rflags::Flag;
use crate::stop::StopReason;

type Done = Result<Flow, StopReason>;

pub(super) fn clc(m: &mut Machine<'_>, _: &Decoded) -> Done {
    m.flags().set(Flag::Cf, Some(false));
    Ok(Flow::Next)
}

pub(super) fn stc(m: &mut Machine<'_>, _: &Decoded) -> Done {
    m.flags().set(Flag::Cf, Some(true));
    Ok(Flow::Next)
}

pub(super) fn cmc(m: &mut Machine<'_>, _: &Decoded) -> Done {
    let carry = m.flags().get(Flag::Cf);
    m.flags().set(Flag::Cf, carry.map(|c| !c));
    Ok(Flow::Next)
}

pub(super) fn cld(m: &mut Machine<'_>, _: &Decoded) -> Done {
    m.flags().set(Flag::Df, Some(false));
    Ok(Flow::Next)
}

pub(super) fn std(m: &mut Machine<'_>, _: &Decoded) -> Done {
    m.flags().set(Flag::Df, Some(true));
    Ok(Flow::Next)
}

pub(super) fn lahf(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let flags = m.registers.rflags.low_byte();
    m.write_register(d, iced_x86::Register::AH, flags);
    Ok(Flow::Next)
}

pub(super) fn sahf(m: &mut Machine<'_>, _: &Decoded) -> Done {
    let byte = m.registers.gpr[RAX].high_byte();
    m.flags().set_low_byte(byte);
    Ok(Flow::Next)
}

/// Whether a transaction is under way. None is: an interrupt ends it, and a window ends where one
/// begins.
pub(super) fn xtest(m: &mut Machine<'_>, _: &Decoded) -> Done {
    for flag in [Flag::Cf, Flag::Pf, Flag::Af, Flag::Sf, Flag::Of] {
        m.flags().set(flag, Some(false));
    }
    m.flags().set(Flag::Zf, Some(true));
    Ok(Flow::Next)
}
