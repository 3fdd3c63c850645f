//! Addition, subtraction, comparison and their atomic relatives.

use iced_x86::OpKind;

use super::shape::{Binary, binary, binary_of_any, unary};
use crate::access::part_name;
use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, RBX, RCX, RDX};
use crate::operand::Form;
use crate::rflags::{Flag, Flags};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::Parameter;

type Done = Result<Flow, StopReason>;

#[inline(always)]
pub(super) fn add(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    binary(m, d, form, Binary::PLAIN, |flags, width, a, b| {
        flags.add(width, a, b, Some(false))
    })
}

pub(super) fn adc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let form = d.operands.form().ok_or(StopReason::Unsupported)?;
    binary_of_any(m, d, form, Binary::PLAIN, |flags, width, a, b| {
        let carry = flags.get(Flag::Cf);
        flags.add(width, a, b, carry)
    })
}

#[inline(always)]
pub(super) fn sub(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    binary(m, d, form, Binary::SELF_CANCELS, |flags, width, a, b| {
        flags.sub(width, a, b, Some(false))
    })
}

pub(super) fn sbb(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let form = d.operands.form().ok_or(StopReason::Unsupported)?;
    binary_of_any(m, d, form, Binary::SELF_CANCELS, |flags, width, a, b| {
        let borrow = flags.get(Flag::Cf);
        flags.sub(width, a, b, borrow)
    })
}

#[inline(always)]
pub(super) fn cmp(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    binary(m, d, form, Binary::COMPARES, |flags, width, a, b| {
        flags.sub(width, a, b, Some(false))
    })
}

pub(super) fn inc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    unary(m, d, width, Flags::inc)
}

pub(super) fn dec(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    unary(m, d, width, Flags::dec)
}

pub(super) fn neg(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    unary(m, d, width, Flags::neg)
}

/// `adcx`: adds with CF and changes no other flag.
pub(super) fn adcx(m: &mut Machine<'_>, d: &Decoded) -> Done {
    add_with(m, d, Flag::Cf)
}

/// `adox`: adds with OF and changes no other flag.
pub(super) fn adox(m: &mut Machine<'_>, d: &Decoded) -> Done {
    add_with(m, d, Flag::Of)
}

fn add_with(m: &mut Machine<'_>, d: &Decoded, flag: Flag) -> Done {
    let form = d.operands.form().ok_or(StopReason::Unsupported)?;
    binary_of_any(m, d, form, Binary::PLAIN, |flags, width, a, b| {
        let carry = flags.get(flag);
        let mut scratch = *flags;
        let result = scratch.add(width, a, b, carry);
        flags.set(flag, scratch.get(Flag::Cf));
        result
    })
}

/// `xadd`: the source takes the old destination, then the destination the sum.
pub(super) fn xadd(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let a = m.read(d, 0)?;
    let b = m.read(d, 1)?;
    let sum = m.flags().add(width, a, b, Some(false));
    if !Machine::same_register(d) {
        m.write(d, 1, a)?;
    }
    m.write(d, 0, sum)?;
    Ok(Flow::Next)
}

/// `cmpxchg`: compares with the accumulator; equal: the source is stored; else the accumulator
/// takes the destination, which is written back.
pub(super) fn cmpxchg(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let old = m.read(d, 0)?;
    let new = m.read(d, 1)?;
    let expected = m.part(RAX, width);
    m.flags().sub(width, expected, old, Some(false));
    let instruction = d.instruction();
    // Compared with itself it is equal, and has one result, the stored one.
    let is_accumulator = instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == part_name(RAX, width);
    let equal = m.registers.rflags.get(Flag::Zf);
    let (stored, accumulator) = match equal {
        _ if is_accumulator => (new, new),
        Some(true) => (new, expected),
        Some(false) => (old, old),
        // Either way the accumulator holds the old value afterwards.
        None => (old.either(new), old),
    };
    let before = m.registers.gpr;
    match equal {
        _ if is_accumulator => {}
        Some(true) => report_accumulator(m, RAX, width, accumulator),
        _ => m.write_part(d, RAX, width, accumulator),
    }
    m.write(d, 0, stored)?;
    if width == Width::B32 {
        // Whether an operand that keeps its value has its upper half cleared differs.
        for (now, before) in m.registers.gpr.iter_mut().zip(before) {
            *now = now.either_upper(before);
        }
    }
    Ok(Flow::Next)
}

/// Reports an accumulator that was equal and is not written: it holds the old value all the same.
fn report_accumulator(m: &mut Machine<'_>, number: usize, width: Width, value: Word) {
    let register = part_name(number, width);
    m.event_of(Parameter::Dest(register), value, width.bytes());
}

/// `cmpxchg8b` and `cmpxchg16b`: rdx:rax is compared, rcx:rbx stored. Only ZF changes.
pub(super) fn cmpxchg_pair(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = d.instruction().memory_size().size();
    let width = Width::from_bytes(bytes / 2).ok_or(StopReason::Unsupported)?;
    let low_at = m.address();
    if bytes == 16 && low_at.is_some_and(|address| address % 16 != 0) {
        return Err(StopReason::FaultingInstruction);
    }
    let high_at = low_at.map(|address| address.wrapping_add(u64::from(width.bytes())));
    let old = [m.load(low_at, width)?, m.load(high_at, width)?];
    let expected = [m.part(RAX, width), m.part(RDX, width)];
    let new = [m.part(RBX, width), m.part(RCX, width)];
    let equal = match (old[0].equals(expected[0]), old[1].equals(expected[1])) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    };
    let pick = |i: usize| match equal {
        Some(true) => new[i],
        Some(false) => old[i],
        None => old[i].either(new[i]),
    };
    m.store(low_at, width, pick(0))?;
    if low_at.is_some() {
        m.store(high_at, width, pick(1))?;
    }
    m.flags().set(Flag::Zf, equal);
    for (number, old, expected) in [(RAX, old[0], expected[0]), (RDX, old[1], expected[1])] {
        if equal == Some(true) {
            report_accumulator(m, number, width, expected);
            continue;
        }
        let before = m.registers.gpr[number];
        m.write_part(d, number, width, old);
        if equal.is_none() && width == Width::B32 {
            m.registers.gpr[number] = m.registers.gpr[number].either_upper(before);
        }
    }
    Ok(Flow::Next)
}
