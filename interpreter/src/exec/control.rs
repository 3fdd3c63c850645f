//! Branches, calls and returns.

use iced_x86::Code;

use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, RCX, RSP, check_canonical};
use crate::operand::OperandKind;
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::Parameter;

type Done = Result<Flow, StopReason>;

#[inline]
fn branch(m: &mut Machine<'_>, d: &Decoded, taken: Option<bool>) -> Done {
    let target = m.branch_target(d)?;
    m.event(Parameter::Taken, taken.map(u64::from));
    Ok(Flow::Branch { taken, target })
}

pub(super) fn jcc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let taken = m.registers.rflags.condition(d.condition);
    branch(m, d, taken)
}

/// `jecxz`, `jrcxz`.
pub(super) fn jcxz(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = match d.instruction().code() {
        Code::Jecxz_rel8_64 => Width::B32,
        Code::Jrcxz_rel8_64 => Width::B64,
        _ => return Err(StopReason::Unsupported),
    };
    let taken = m.part(RCX, width).is_zero();
    branch(m, d, taken)
}

/// `loop`, `loope`, `loopne`: counts down, changes no flags.
pub(super) fn loops(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let (width, wanted) = match d.instruction().code() {
        Code::Loop_rel8_64_ECX => (Width::B32, None),
        Code::Loop_rel8_64_RCX => (Width::B64, None),
        Code::Loope_rel8_64_ECX => (Width::B32, Some(true)),
        Code::Loope_rel8_64_RCX => (Width::B64, Some(true)),
        Code::Loopne_rel8_64_ECX => (Width::B32, Some(false)),
        Code::Loopne_rel8_64_RCX => (Width::B64, Some(false)),
        _ => return Err(StopReason::Unsupported),
    };
    let count = m
        .part(RCX, width)
        .wrapping_add(Word::known(u64::MAX))
        .truncate(width);
    let more = count.is_zero().map(|zero| !zero);
    let holds = match (wanted, m.registers.rflags.get(Flag::Zf)) {
        (None, _) => Some(true),
        (Some(_), None) => None,
        (Some(wanted), Some(zero)) => Some(wanted == zero),
    };
    let taken = match (more, holds) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    };
    m.write_part(d, RCX, width, count);
    branch(m, d, taken)
}

pub(super) fn jmp(m: &mut Machine<'_>, d: &Decoded) -> Done {
    if is_near_branch(d) {
        return Ok(Flow::Jump(m.branch_target(d)?));
    }
    Ok(Flow::JumpIndirect(target(m, d)?))
}

pub(super) fn call(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let indirect = !is_near_branch(d);
    let target = if indirect {
        target(m, d)?
    } else {
        Some(m.branch_target(d)?)
    };
    let next = Word::known(m.next_pc(d));
    m.push(Width::B64, next)?;
    Ok(Flow::Call { target, indirect })
}

fn is_near_branch(d: &Decoded) -> bool {
    !matches!(
        d.operands.get(0).kind,
        OperandKind::Register | OperandKind::Memory
    )
}

/// The operand of an indirect call or jump.
fn target(m: &mut Machine<'_>, d: &Decoded) -> Result<Option<u64>, StopReason> {
    if m.width(d, 0)? != Width::B64 {
        return Err(StopReason::Unsupported);
    }
    let target = m.read(d, 0)?.all();
    if let Some(target) = target {
        check_canonical(target)?;
    }
    m.event(Parameter::Target, target);
    Ok(target)
}

pub(super) fn ret(m: &mut Machine<'_>, d: &Decoded) -> Done {
    if is_short_return(d) {
        return Err(StopReason::Unsupported);
    }
    let to = m.pop(Width::B64)?.all();
    if let Some(to) = to {
        check_canonical(to)?;
    }
    if let Ok(released) = d.instruction().try_immediate(0) {
        let rsp = m.registers.gpr[RSP].wrapping_add(Word::known(released));
        m.registers.gpr[RSP] = rsp;
    }
    let (value, vector) = (m.registers.gpr[RAX], m.registers.vectors[0].word(0));
    m.event_of(Parameter::Ret, value, 8);
    m.event_of(Parameter::VectorRet, vector, 8);
    Ok(Flow::Return(to))
}

fn is_short_return(d: &Decoded) -> bool {
    !matches!(d.instruction().code(), Code::Retnq | Code::Retnq_imm16)
}
