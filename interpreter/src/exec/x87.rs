//! Instructions of x87: what their operands are, what they may raise, and where results go.
//!
//! A sample that brings no registers of x87 knows nothing of them: a push may overflow the stack,
//! and no mode is known. So results are unknown there. Exceptions that are not masked end the
//! window before the instruction that raises them.

mod arithmetic;
mod compare;
mod environment;
pub(crate) mod mmx;
mod moves;

use iced_x86::{Instruction, OpKind, Register};

use crate::decode::{Decoded, Handler};
use crate::extended::convert::{DOUBLE, SINGLE, exact_double, from_integer, widen};
use crate::extended::{ArithmeticMode, Extended, INEXACT, INVALID};
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use crate::x87::{C0, C1, C2, C3, EXCEPTIONS, STACK_FAULT, SUMMARY, X87, X87Register};
use parameters::{Parameter, ValueKinds};

type Done = Result<Flow, StopReason>;

/// The handler of an instruction of x87 or MMX.
pub(crate) fn handler(instruction: &Instruction) -> Option<Handler> {
    arithmetic::handler(instruction)
        .or_else(|| compare::handler(instruction.mnemonic()))
        .or_else(|| moves::handler(instruction))
        .or_else(|| environment::handler(instruction))
        .or_else(|| mmx::handler(instruction))
}

/// What an instruction finds in an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// The register is empty.
    Empty,
    /// A number, and the exception that its conversion may raise.
    Known(Extended, u16),
    Unknown,
}

impl Source {
    fn of(value: Option<Extended>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Known(value, 0))
    }
}

/// An error if an exception waits, or may wait where the program has a handler.
pub(super) fn wait(m: &Machine<'_>) -> Result<(), StopReason> {
    match m.registers.x87.flags(SUMMARY) {
        Some(0) => Ok(()),
        None if !m.registers.handlers.float => Ok(()),
        _ => Err(StopReason::FloatException),
    }
}

/// An error if an exception waits, or if the instruction may raise one that nobody knows to be
/// masked and the program has a handler.
fn begin(m: &Machine<'_>) -> Result<(), StopReason> {
    wait(m)?;
    if m.registers.handlers.float && m.registers.x87.control.is_none() {
        return Err(StopReason::FloatException);
    }
    Ok(())
}

/// Raises exceptions: an error if one is not masked. Where the masks are not known, only an inexact
/// result is taken for masked.
fn raise(m: &mut Machine<'_>, exceptions: u16) -> Result<(), StopReason> {
    let x87 = &mut m.registers.x87;
    let unmasked = match x87.control {
        Some(control) => !control,
        None => !INEXACT,
    };
    if exceptions & EXCEPTIONS & unmasked != 0 {
        return Err(StopReason::FloatException);
    }
    x87.set_flags(exceptions, Some(true));
    if exceptions != 0 && x87.control.is_none() {
        x87.summarize();
    }
    Ok(())
}

/// Some of these exceptions may be raised: an error if one is known not to be masked.
fn raise_perhaps(m: &mut Machine<'_>, exceptions: u16) -> Result<(), StopReason> {
    let x87 = &mut m.registers.x87;
    if x87
        .control
        .is_some_and(|control| exceptions & EXCEPTIONS & !control != 0)
    {
        return Err(StopReason::FloatException);
    }
    x87.set_perhaps(exceptions);
    if x87.control.is_none() {
        x87.summarize();
    }
    Ok(())
}

/// All that an operation may raise.
const ANY: u16 = EXCEPTIONS | STACK_FAULT;
/// What an access to the stack raises that finds a register empty, or used.
const FAULT: u16 = INVALID | STACK_FAULT;

/// Sets C1; the other condition codes are undefined.
fn set_c1(m: &mut Machine<'_>, value: Option<bool>) {
    let x87 = &mut m.registers.x87;
    x87.set_flags(C0 | C2 | C3, None);
    x87.set_flags(C1, value);
}

/// What is at a place of the stack.
fn stack(x87: &X87, place: u8) -> Source {
    match x87.is_used(place) {
        Some(true) => Source::of(x87.value(place)),
        Some(false) => Source::Empty,
        None => Source::Unknown,
    }
}

/// The place of the stack that a register operand names.
fn place(d: &Decoded, operand: u32) -> u8 {
    (d.instruction().op_register(operand).number() & 7) as u8
}

fn register(place: u8) -> Register {
    Register::ST0 + u32::from(place & 7)
}

fn is_memory(d: &Decoded) -> bool {
    d.instruction().op0_kind() == OpKind::Memory
}

/// Loads the memory operand as a number; `integer` says of which kind it is.
fn load(m: &mut Machine<'_>, d: &Decoded, integer: bool) -> Result<Source, StopReason> {
    let bytes = d.instruction().memory_size().size();
    if bytes == 10 {
        let [low, high] = load_wide(m)?;
        let number = low.all().zip(high.get(2));
        let number = number.map(|(low, high)| Extended::from_bits(low, high as u16));
        return Ok(Source::of(number));
    }
    let Some(bits) = m.read(d, 0)?.get(bytes as u32) else {
        return Ok(Source::Unknown);
    };
    Ok(match (integer, bytes) {
        (true, _) => {
            let unused = 64 - 8 * bytes as u32;
            let value = (bits << unused).cast_signed() >> unused;
            Source::Known(from_integer(value), 0)
        }
        (false, 4) => {
            let (value, exception) = widen(bits, SINGLE);
            Source::Known(value, exception)
        }
        (false, _) => {
            let (value, exception) = widen(bits, DOUBLE);
            Source::Known(value, exception)
        }
    })
}

/// Loads the ten bytes of the memory operand.
fn load_wide(m: &mut Machine<'_>) -> Result<[Word; 2], StopReason> {
    let at = m.address();
    let low = m.load(at, Width::B64)?;
    let high = m.load(at.map(|at| at.wrapping_add(8)), Width::B16)?;
    m.event_of(Parameter::LoadWord(0), low, 8);
    m.event_of(Parameter::LoadWord(1), high, 2);
    Ok([low, high])
}

/// Stores the ten bytes of the memory operand.
fn store_wide(m: &mut Machine<'_>, value: [Word; 2]) -> Result<(), StopReason> {
    let first = m.address();
    let second = first.map(|at| at.wrapping_add(8));
    let parts = [
        (first, Width::B64, value[0]),
        (second, Width::B16, value[1]),
    ];
    for (i, (at, width, word)) in (0..).zip(parts) {
        m.event_of(Parameter::MemWord(i), word, width.bytes());
        if m.events.wants(ValueKinds::OLD) {
            let old = m.overwritten(at, width);
            m.event(Parameter::OldWord(i), old);
        }
    }
    for (at, width, word) in parts {
        m.store(at, width, word)?;
    }
    Ok(())
}

/// Tells what a register of the stack was given: as a double, if it is one exactly, and in full.
fn report(m: &mut Machine<'_>, place: u8, value: Option<Extended>) {
    let register = register(place);
    if m.events.wants(ValueKinds::DEST) {
        m.event(Parameter::Double(register), value.and_then(exact_double));
    }
    let written = X87Register::of(value);
    m.event_of(Parameter::DestWord(register, 0), written.significand, 8);
    let top = written.top.map(u64::from);
    m.event(Parameter::DestWord(register, 1), top);
}

/// Writes a register of the stack and reports it.
fn write(m: &mut Machine<'_>, place: u8, value: Option<Extended>) {
    report(m, place, value);
    m.registers.x87.set(place, value);
}

/// Frees the top of the stack and goes to the next register.
fn pop(m: &mut Machine<'_>) {
    m.registers.x87.free(0);
    m.registers.x87.turn(1);
}

/// Pushes a number, which raises these exceptions unless there is no room for it. `reports` says
/// whether it is a value worth telling.
fn push(m: &mut Machine<'_>, source: Source, reports: bool) -> Result<(), StopReason> {
    let value = match (m.registers.x87.is_used(7), source) {
        (Some(true), _) => {
            raise(m, FAULT)?;
            set_c1(m, Some(true));
            Some(Extended::INDEFINITE)
        }
        (Some(false), Source::Known(value, exceptions)) => {
            raise(m, exceptions)?;
            set_c1(m, Some(false));
            Some(value)
        }
        (Some(false), _) => {
            raise_perhaps(m, EXCEPTIONS)?;
            set_c1(m, Some(false));
            None
        }
        (None, _) => {
            raise_perhaps(m, ANY)?;
            set_c1(m, None);
            None
        }
    };
    m.registers.x87.turn(-1);
    if reports {
        report(m, 0, value);
    }
    m.registers.x87.set(0, value);
    Ok(())
}

/// The modes, if known.
fn mode(m: &Machine<'_>) -> Option<ArithmeticMode> {
    m.registers.x87.control.and_then(ArithmeticMode::of)
}
