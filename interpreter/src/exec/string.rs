//! String instructions, single and repeated.

use iced_x86::{OpKind, Register};

use crate::access::part_name;
use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, RCX, RDI, RSI, check_canonical};
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::Parameter;

type Done = Result<Flow, StopReason>;

/// Elements of a repeated instruction that are interpreted one by one.
const MAX_ELEMENTS: u64 = 64;
/// Bytes that a repeated store may cover; beyond, the window ends.
const MAX_BYTES: u64 = 1 << 20;
/// Elements that a repeated scan or comparison may run over.
const MAX_SCANNED: u64 = 4096;

/// What is settled before the first element.
struct Setup {
    /// Width of an element.
    width: Width,
    /// Width of rsi, rdi and rcx that is used.
    address: Width,
    /// Signed distance between elements; `None`: the direction flag is unknown.
    step: Option<u64>,
    source: Register,
}

fn setup(m: &Machine<'_>, d: &Decoded) -> Result<Setup, StopReason> {
    let instruction = d.instruction();
    let width = Width::from_bytes(instruction.memory_size().size());
    let width = width.ok_or(StopReason::Unsupported)?;
    let mut address = None;
    for kind in instruction.op_kinds() {
        match kind {
            OpKind::MemorySegRSI | OpKind::MemoryESRDI => address = Some(Width::B64),
            OpKind::MemorySegESI | OpKind::MemoryESEDI => address = Some(Width::B32),
            _ => {}
        }
    }
    let bytes = u64::from(width.bytes());
    let step = m.registers.rflags.get(Flag::Df);
    Ok(Setup {
        width,
        address: address.ok_or(StopReason::Unsupported)?,
        step: step.map(|down| if down { bytes.wrapping_neg() } else { bytes }),
        source: instruction.memory_segment(),
    })
}

impl Setup {
    /// The linear address that rsi or rdi points to. Only the source can lie in another segment.
    fn at(&self, m: &Machine<'_>, number: usize) -> Option<u64> {
        let offset = m.part(number, self.address).all()?;
        let segment = if number == RSI {
            self.source
        } else {
            Register::ES
        };
        Some(offset.wrapping_add(m.segment_base(segment)?))
    }

    /// Moves rsi or rdi on by a number of elements; `None`: by an unknown one.
    fn advance(&self, m: &mut Machine<'_>, number: usize, elements: Option<u64>) {
        let by = match (self.step, elements) {
            (_, Some(0)) => Word::ZERO,
            (Some(step), Some(elements)) => Word::known(step.wrapping_mul(elements)),
            _ => Word::UNKNOWN,
        };
        let before = m.registers.gpr[number];
        let after = before.wrapping_add(by).truncate(self.address);
        // If there may be no element, a 32-bit register may also keep its upper half.
        let after = if elements.is_none_or(|n| n == 0) && self.address == Width::B32 {
            after.either_upper(before)
        } else {
            after
        };
        m.registers.gpr[number] = after;
    }

    /// The instruction had nothing to repeat: of 32-bit registers the upper half may have been
    /// cleared or not.
    fn nothing(&self, m: &mut Machine<'_>, pointers: &[usize]) {
        for &pointer in pointers {
            self.advance(m, pointer, Some(0));
        }
        self.set_count(m, Some(0));
    }

    /// Leaves rcx at a count; `None`: an unknown one.
    fn set_count(&self, m: &mut Machine<'_>, count: Option<u64>) {
        let after = Word::of(self.address, count);
        m.registers.gpr[RCX] = if self.address == Width::B32 {
            after.either_upper(m.registers.gpr[RCX])
        } else {
            after
        };
    }
}

fn is_repeated(d: &Decoded) -> bool {
    d.instruction().has_rep_prefix() || d.instruction().has_repne_prefix()
}

/// The number of elements: 1 without a prefix. Some of a repetition may have been done before the
/// window began, or be done without being told.
fn elements(m: &mut Machine<'_>, d: &Decoded, setup: &Setup) -> Option<u64> {
    if is_repeated(d) {
        m.accesses_more();
        m.part(RCX, setup.address).all()
    } else {
        Some(1)
    }
}

/// The bytes that a known number of elements covers: lowest address and length. An error if there
/// are too many to follow.
fn range(setup: &Setup, at: u64, count: u64) -> Result<(u64, u64), StopReason> {
    let bytes = count
        .checked_mul(u64::from(setup.width.bytes()))
        .filter(|b| *b <= MAX_BYTES);
    let bytes = bytes.ok_or(StopReason::RepTooLong)?;
    let down = setup.step.is_some_and(|step| step as i64 <= 0);
    let low = if down {
        at.wrapping_sub(bytes.wrapping_sub(u64::from(setup.width.bytes())))
    } else {
        at
    };
    check_canonical(low)?;
    check_canonical(low.wrapping_add(bytes.saturating_sub(1)))?;
    Ok((low, bytes))
}

/// Stores that nothing better is known of.
fn store_unknown(m: &mut Machine<'_>, setup: &Setup, count: Option<u64>) -> Result<(), StopReason> {
    match (setup.at(m, RDI), count, setup.step) {
        (Some(at), Some(count), Some(_)) => {
            let (low, bytes) = range(setup, at, count)?;
            m.store_unknown(Some(low), bytes)
        }
        _ => m.store_unknown(None, 0),
    }
}

/// Checks that what a known number of elements loads can be loaded, where they are not loaded one
/// by one.
fn check_loads(m: &mut Machine<'_>, setup: &Setup, count: Option<u64>) -> Result<(), StopReason> {
    match (setup.at(m, RSI), count, setup.step) {
        (_, Some(0), _) => Ok(()),
        (Some(at), Some(count), Some(_)) => {
            let (low, bytes) = range(setup, at, count)?;
            m.check_loads(Some(low), bytes)
        }
        _ => m.check_unknown(),
    }
}

/// `movs`: copies from rsi to rdi.
pub(super) fn movs(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let setup = setup(m, d)?;
    let count = elements(m, d, &setup);
    match count {
        Some(count) if count <= MAX_ELEMENTS && (setup.step.is_some() || count <= 1) => {
            for _ in 0..count {
                let value = m.load(setup.at(m, RSI), setup.width)?;
                m.store(setup.at(m, RDI), setup.width, value)?;
                if !is_repeated(d) {
                    m.event_of(Parameter::Load, value, setup.width.bytes());
                    m.event_of(Parameter::Mem, value, setup.width.bytes());
                }
                setup.advance(m, RSI, Some(1));
                setup.advance(m, RDI, Some(1));
            }
        }
        _ => {
            check_loads(m, &setup, count)?;
            store_unknown(m, &setup, count)?;
            setup.advance(m, RSI, count);
            setup.advance(m, RDI, count);
        }
    }
    finish(m, d, &setup, count, &[RSI, RDI]);
    Ok(Flow::Next)
}

/// `stos`: fills from rax.
pub(super) fn stos(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let setup = setup(m, d)?;
    let count = elements(m, d, &setup);
    let value = m.part(RAX, setup.width);
    if !is_repeated(d) {
        m.event(Parameter::Ea, setup.at(m, RDI));
        m.event_of(Parameter::Mem, value, setup.width.bytes());
    }
    match count {
        Some(count) if count <= MAX_ELEMENTS && (setup.step.is_some() || count <= 1) => {
            for _ in 0..count {
                m.store(setup.at(m, RDI), setup.width, value)?;
                setup.advance(m, RDI, Some(1));
            }
        }
        _ => {
            store_unknown(m, &setup, count)?;
            setup.advance(m, RDI, count);
        }
    }
    finish(m, d, &setup, count, &[RDI]);
    Ok(Flow::Next)
}

/// `lods`: loads rax. Repeated, the last element stays.
pub(super) fn lods(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let setup = setup(m, d)?;
    let count = elements(m, d, &setup);
    match count {
        Some(1) => {
            let at = setup.at(m, RSI);
            let value = m.load(at, setup.width)?;
            // A repetition has no events: most have several elements, and some have none.
            if is_repeated(d) {
                m.set_register(part_name(RAX, setup.width), value);
            } else {
                m.event(Parameter::Ea, at);
                m.event_of(Parameter::Load, value, setup.width.bytes());
                m.write_part(d, RAX, setup.width, value);
            }
        }
        Some(0) => {}
        _ => {
            check_loads(m, &setup, count)?;
            let before = m.registers.gpr[RAX];
            m.set_register(part_name(RAX, setup.width), Word::UNKNOWN);
            if count.is_none() {
                m.registers.gpr[RAX] = m.registers.gpr[RAX].either_upper(before);
            }
        }
    }
    setup.advance(m, RSI, count);
    finish(m, d, &setup, count, &[RSI]);
    Ok(Flow::Next)
}

/// rcx is zero after a repetition that no flag ends.
fn finish(m: &mut Machine<'_>, d: &Decoded, setup: &Setup, count: Option<u64>, pointers: &[usize]) {
    if count == Some(0) {
        setup.nothing(m, pointers);
    } else if is_repeated(d) {
        setup.set_count(m, Some(0));
    }
}

/// `scas`: compares rax with the memory at rdi.
pub(super) fn scas(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let setup = setup(m, d)?;
    if !is_repeated(d) {
        m.event(Parameter::Ea, setup.at(m, RDI));
    }
    compare(m, d, &setup, &[RDI], |m, setup| {
        let b = m.load(setup.at(m, RDI), setup.width)?;
        if !is_repeated(d) {
            m.event_of(Parameter::Load, b, setup.width.bytes());
        }
        Ok((m.part(RAX, setup.width), b))
    })
}

/// `cmps`: compares the memory at rsi with that at rdi.
pub(super) fn cmps(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let setup = setup(m, d)?;
    compare(m, d, &setup, &[RSI, RDI], |m, setup| {
        let a = m.load(setup.at(m, RSI), setup.width)?;
        let b = m.load(setup.at(m, RDI), setup.width)?;
        Ok((a, b))
    })
}

/// Compares element by element until the count is used up or ZF ends the repetition. Where it ends
/// is unknown as soon as one comparison is.
fn compare(
    m: &mut Machine<'_>,
    d: &Decoded,
    setup: &Setup,
    pointers: &[usize],
    operands: impl Fn(&mut Machine<'_>, &Setup) -> Result<(Word, Word), StopReason>,
) -> Done {
    let count = elements(m, d, setup);
    if !is_repeated(d) {
        let (a, b) = operands(m, setup)?;
        m.flags().sub(setup.width, a, b, Some(false));
        for &pointer in pointers {
            setup.advance(m, pointer, Some(1));
        }
        return Ok(Flow::Next);
    }
    // `repe` goes on while equal, `repne` while not.
    let go_on = d.instruction().has_repe_prefix();
    let Some(count) = count.filter(|_| setup.step.is_some()) else {
        return give_up(m, setup, pointers);
    };
    let mut left = count;
    while left > 0 {
        if count - left >= MAX_SCANNED {
            return Err(StopReason::RepTooLong);
        }
        let (a, b) = operands(m, setup)?;
        let flags = {
            let flags = m.flags();
            flags.sub(setup.width, a, b, Some(false));
            *flags
        };
        left -= 1;
        for &pointer in pointers {
            setup.advance(m, pointer, Some(1));
        }
        match flags.get(Flag::Zf) {
            Some(equal) if equal == go_on => {}
            Some(_) => break,
            None if left == 0 => break,
            None => return give_up(m, setup, pointers),
        }
    }
    if count == 0 {
        setup.nothing(m, pointers);
    } else {
        setup.set_count(m, Some(left));
    }
    Ok(Flow::Next)
}

/// The end of a repetition is unknown: so is all that it changes, and whether all of it can be
/// loaded.
fn give_up(m: &mut Machine<'_>, setup: &Setup, pointers: &[usize]) -> Done {
    m.check_unknown()?;
    for &pointer in pointers {
        setup.advance(m, pointer, None);
    }
    setup.set_count(m, None);
    m.flags().forget_arithmetic();
    Ok(Flow::Next)
}
