//! Control and status of x87, loaded and stored.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::{C0, C1, C2, C3, Done, EXCEPTIONS, STACK_FAULT, SUMMARY, begin, wait};
use crate::decode::{Decoded, Handler};
use crate::extended::Class;
use crate::machine::{Flow, Machine, RAX};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use crate::x87::{BUSY, X87};

pub(super) fn handler(instruction: &Instruction) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match instruction.mnemonic() {
        M::Fnop | M::Wait => |m, _| {
            wait(m)?;
            Ok(Flow::Next)
        },
        M::Fninit => |m, _| {
            m.registers.x87.initialize();
            Ok(Flow::Next)
        },
        M::Fnclex => |m, _| {
            let x87 = &mut m.registers.x87;
            x87.set_flags(EXCEPTIONS | STACK_FAULT, Some(false));
            x87.summarize();
            x87.set_flags(C0 | C1 | C2 | C3, None);
            Ok(Flow::Next)
        },
        M::Fnstcw => store_control,
        M::Fldcw => load_control,
        M::Fnstsw => store_status,
        M::Fnstenv => store_environment,
        M::Fldenv => load_environment,
        M::Fnsave => save,
        M::Frstor => restore,
        _ => return None,
    };
    Some(handler)
}

/// The bits of the control word that mean something; another one is always set.
const CONTROL_BITS: u16 = 0x1f3f;
const CONTROL_ONE: u16 = 0x40;

fn store_control(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = m.registers.x87.control.map(u64::from);
    m.write(d, 0, Word::of(Width::B16, control))?;
    m.registers.x87.set_flags(C0 | C1 | C2 | C3, None);
    Ok(Flow::Next)
}

fn set_control(x87: &mut X87, value: Option<u64>) {
    x87.control = value.map(|value| value as u16 & CONTROL_BITS | CONTROL_ONE);
    x87.summarize();
}

/// `fldcw`, which may let an earlier exception wait.
fn load_control(m: &mut Machine<'_>, d: &Decoded) -> Done {
    begin(m)?;
    let value = m.read(d, 0)?.get(2);
    let x87 = &mut m.registers.x87;
    set_control(x87, value);
    x87.set_flags(C0 | C1 | C2 | C3, None);
    Ok(Flow::Next)
}

fn store_status(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let status = m.registers.x87.status_word();
    if d.instruction().op0_kind() == OpKind::Register {
        m.write_part(d, RAX, Width::B16, status);
    } else {
        m.write(d, 0, status)?;
    }
    Ok(Flow::Next)
}

/// Two bits for each register, by its number, if all are known.
fn tags(x87: &X87) -> Option<u16> {
    const EMPTY: u16 = 3;
    let top = x87.top?;
    let mut tags = 0;
    for number in 0..8u8 {
        let place = number.wrapping_sub(top) & 7;
        let tag = if !x87.is_used(place)? {
            EMPTY
        } else {
            match x87.value(place)?.class() {
                Class::Normal => 0,
                Class::Zero => 1,
                _ => 2,
            }
        };
        tags |= tag << (2 * number);
    }
    Some(tags)
}

/// Bytes from one word of an environment to the next.
fn stride(d: &Decoded) -> u64 {
    // That of 16-bit code is the smaller one.
    match d.instruction().memory_size().size() {
        14 => 2,
        _ => 4,
    }
}

/// `fnstenv`: what it says of the last instruction is not kept. It masks all exceptions.
fn store_environment(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = d.instruction().memory_size().size() as u64;
    m.store_unknown(m.address(), bytes)?;
    let x87 = &m.registers.x87;
    let words = [
        Word::of(Width::B16, x87.control.map(u64::from)),
        x87.status_word(),
        Word::of(Width::B16, tags(x87).map(u64::from)),
    ];
    for (i, word) in (0..).zip(words) {
        let at = m.address().map(|at| at.wrapping_add(i * stride(d)));
        m.store(at, Width::B16, word)?;
    }
    let x87 = &mut m.registers.x87;
    x87.control = x87.control.map(|control| control | EXCEPTIONS);
    x87.set_flags(SUMMARY | BUSY, Some(false));
    x87.set_flags(C0 | C1 | C2 | C3, None);
    Ok(Flow::Next)
}

/// `fldenv`: of registers that are not empty the tags say no more.
fn load_environment(m: &mut Machine<'_>, d: &Decoded) -> Done {
    begin(m)?;
    m.check_loads(m.address(), d.instruction().memory_size().size() as u64)?;
    let mut words = [None; 3];
    for (i, word) in (0..).zip(&mut words) {
        let at = m.address().map(|at| at.wrapping_add(i * stride(d)));
        *word = m.load(at, Width::B16)?.get(2);
    }
    let x87 = &mut m.registers.x87;
    match words {
        [Some(control), Some(status), Some(tags)] => {
            let status = status as u16;
            let registers = x87.registers;
            let used = (0..8).filter(|number| tags >> (2 * number) & 3 != 3);
            let used = used.fold(0, |used, number| used | 1 << number);
            *x87 = X87::saved(0, status, used, &[[0; 10]; 8]);
            x87.registers = registers;
            set_control(x87, Some(control));
        }
        _ => {
            *x87 = X87 {
                registers: x87.registers,
                ..X87::UNKNOWN
            };
        }
    }
    Ok(Flow::Next)
}

/// `fnsave`: what is saved is not followed. The state is then that of a new program.
fn save(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = d.instruction().memory_size().size() as u64;
    m.store_unknown(m.address(), bytes)?;
    m.registers.x87.initialize();
    Ok(Flow::Next)
}

/// `frstor`: what it restores is not looked at.
fn restore(m: &mut Machine<'_>, d: &Decoded) -> Result<Flow, StopReason> {
    begin(m)?;
    m.check_loads(m.address(), d.instruction().memory_size().size() as u64)?;
    m.registers.x87 = X87::UNKNOWN;
    Ok(Flow::Next)
}
