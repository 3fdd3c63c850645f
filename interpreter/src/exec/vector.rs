//! Vector instructions: operands in, operands out; the families are below.
//!
//! Handled are the legacy, the VEX and the EVEX encodings. Legacy encodings leave what lies above
//! 128 bits of the destination as it was and overwrite their first source; the others clear what
//! lies above their own width and name the sources apart. EVEX encodings may write chosen lanes
//! only, and repeat one lane of memory.

mod apart;
mod bfloat;
mod compare;
mod crypto;
pub(crate) mod dispatch;
mod float;
mod float_mode;
mod float_ops;
mod fused;
mod half;
mod int;
mod lanes;
mod masked;
mod masks;
mod moves;
mod of_mmx;
mod shuffle;
mod sparse;
mod text;

use iced_x86::{Code, CpuidFeature, EncodingKind, Instruction, Mnemonic, OpKind, Register};

use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;
use crate::vector::{BYTES, HALF, Lane, Vector};
use crate::word::{Width, Word};
use parameters::{Parameter, ValueKinds};

type Done = Result<Flow, StopReason>;

/// Whether the encoding is the legacy one.
fn is_legacy(d: &Decoded) -> bool {
    d.instruction().encoding() == EncodingKind::Legacy
}

/// The first source of an instruction with two: the destination itself in the legacy encoding.
/// The second source is the operand after it, an immediate the one after that.
fn first_source(d: &Decoded) -> u32 {
    u32::from(!is_legacy(d))
}

/// The immediate byte of an instruction that has one as its last operand.
fn immediate(d: &Decoded) -> u8 {
    d.instruction().immediate8()
}

/// Whether two operands are the same register.
fn same(d: &Decoded, a: u32, b: u32) -> bool {
    let instruction = d.instruction();
    instruction.op_kind(a) == OpKind::Register
        && instruction.op_kind(b) == OpKind::Register
        && instruction.op_register(a) == instruction.op_register(b)
}

/// Bytes of an operand.
fn size(d: &Decoded, operand: u32) -> usize {
    let instruction = d.instruction();
    match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        _ => instruction.memory_size().size(),
    }
}

/// Whether an operand lies in memory.
fn in_memory(d: &Decoded, operand: u32) -> bool {
    d.instruction().op_kind(operand) == OpKind::Memory
}

/// Number of a vector register.
fn number(register: Register) -> usize {
    register.number() & 31
}

fn vector_register(m: &Machine<'_>, register: Register) -> Vector {
    m.registers.vectors[number(register)].truncate(register.size())
}

/// Reads a vector operand, zero-extended from its size; a general register or memory of at most
/// eight bytes is the lowest lane.
fn read(m: &mut Machine<'_>, d: &Decoded, operand: u32) -> Result<Vector, StopReason> {
    let instruction = d.instruction();
    match instruction.op_kind(operand) {
        OpKind::Register if instruction.op_register(operand).is_vector_register() => {
            Ok(vector_register(m, instruction.op_register(operand)))
        }
        OpKind::Memory => load(m, d, instruction.memory_size().size()),
        _ => Ok(Vector::from_word(m.read(d, operand)?)),
    }
}

/// Reads the low `bytes` of a vector operand: no more of memory is touched.
fn read_low(
    m: &mut Machine<'_>,
    d: &Decoded,
    operand: u32,
    bytes: usize,
) -> Result<Vector, StopReason> {
    let value = if in_memory(d, operand) {
        load(m, d, bytes)?
    } else {
        read(m, d, operand)?.truncate(bytes)
    };
    if d.compared > 0 {
        let compared = value.word(0).get(d.compared.into());
        m.event(Parameter::Operand(operand as u8), compared);
    }
    Ok(value)
}

/// Loads the memory operand.
fn load(m: &mut Machine<'_>, d: &Decoded, bytes: usize) -> Result<Vector, StopReason> {
    if d.instruction().is_broadcast() {
        let lane = d.instruction().memory_size().element_size();
        let width = Width::from_bytes(lane).ok_or(StopReason::Unsupported)?;
        let word = m.load(m.address(), width)?;
        m.event_of(Parameter::Load, word, width.bytes());
        let value = Vector::from_word(word);
        return Ok(Vector::arrange(BYTES, |i| value.byte(i % lane)));
    }
    check_alignment(m, d, bytes)?;
    let mut value = Vector::ZERO;
    if bytes < 8 {
        let width = Width::from_bytes(bytes).ok_or(StopReason::Unsupported)?;
        let word = m.load(m.address(), width)?;
        m.event_of(Parameter::Load, word, width.bytes());
        value.set_word(0, word);
        return Ok(value);
    }
    for i in 0..bytes.min(BYTES) / 8 {
        let at = m.address().map(|a| a.wrapping_add(8 * i as u64));
        let word = m.load(at, Width::B64)?;
        let parameter = if bytes > 8 {
            Parameter::LoadWord(i as u8)
        } else {
            Parameter::Load
        };
        m.event_of(parameter, word, 8);
        value.set_word(i, word);
    }
    Ok(value)
}

/// Writes a vector operand of the destination's size; memory of at most eight bytes takes the
/// lowest lane.
fn write(m: &mut Machine<'_>, d: &Decoded, operand: u32, value: &Vector) -> Done {
    let instruction = d.instruction();
    if instruction.has_op_mask() {
        return write_masked(m, d, value);
    }
    match instruction.op_kind(operand) {
        OpKind::Register if instruction.op_register(operand).is_vector_register() => {
            set_register(m, d, instruction.op_register(operand), value);
        }
        OpKind::Memory if instruction.memory_size().size() > 8 => {
            let bytes = instruction.memory_size().size().min(BYTES);
            check_alignment(m, d, bytes)?;
            for i in 0..bytes / 8 {
                let at = m.address().map(|a| a.wrapping_add(8 * i as u64));
                m.event_of(Parameter::MemWord(i as u8), value.word(i), 8);
                if m.events.wants(ValueKinds::OLD) {
                    let old = m.overwritten(at, Width::B64);
                    m.event(Parameter::OldWord(i as u8), old);
                }
                m.store(at, Width::B64, value.word(i))?;
            }
        }
        _ => m.write(d, operand, value.word(0))?,
    }
    Ok(Flow::Next)
}

/// Writes the lanes of the first operand for which the mask has a one. Of the others those of a
/// register are kept or, with zeroing, cleared.
fn write_masked(m: &mut Machine<'_>, d: &Decoded, value: &Vector) -> Done {
    let instruction = d.instruction();
    let lane = masked_lane(instruction);
    let width = Width::from_bytes(lane).ok_or(StopReason::Unsupported)?;
    let mask = masks::mask(m, instruction.op_mask());
    let count = masked_bytes(d) / lane;
    let chosen = |i: usize| u32::try_from(i).ok().and_then(|i| mask.bit(i));
    if in_memory(d, 0) {
        check_alignment(m, d, count * lane)?;
        for i in 0..count {
            let at = m.address().map(|a| a.wrapping_add((i * lane) as u64));
            let bytes = Vector::arrange(lane, |k| value.byte(i * lane + k));
            match chosen(i) {
                Some(true) => m.store(at, width, bytes.word(0))?,
                Some(false) => {}
                None => m.store(at, width, Word::unknown(width))?,
            }
        }
        return Ok(Flow::Next);
    }
    let old = if instruction.zeroing_masking() {
        Vector::ZERO
    } else {
        vector_register(m, instruction.op0_register())
    };
    let result = Vector::arrange(count * lane, |i| {
        choose(chosen(i / lane), old.byte(i), value.byte(i))
    });
    set_register(m, d, instruction.op0_register(), &result);
    Ok(Flow::Next)
}

/// Bytes of the destination that a mask decides about; of a register the rest is cleared.
fn masked_bytes(d: &Decoded) -> usize {
    match d.instruction().code() {
        // It fills half of the register.
        Code::EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32 => 8,
        _ => size(d, 0).min(BYTES),
    }
}

/// Bytes of what a bit of the mask stands for: a lane of the destination.
fn masked_lane(instruction: &Instruction) -> usize {
    match instruction.mnemonic() {
        Mnemonic::Vdbpsadbw | Mnemonic::Vcvtneps2bf16 | Mnemonic::Vcvtne2ps2bf16 => 2,
        _ => instruction.memory_size().element_size(),
    }
}

/// Writes a register of which the instruction computes the lowest lane alone, and the lowest bit of
/// the mask decides about that lane. The lane is reported if it is a floating-point number.
fn write_lowest<L: Lane>(m: &mut Machine<'_>, d: &Decoded, mut value: Vector) -> Done {
    let instruction = d.instruction();
    let register = instruction.op0_register();
    if instruction.has_op_mask() {
        let chosen = masks::mask(m, instruction.op_mask()).bit(0);
        let old = if instruction.zeroing_masking() {
            Vector::ZERO
        } else {
            vector_register(m, register)
        };
        for i in 0..L::BYTES {
            value.set_byte(i, choose(chosen, old.byte(i), value.byte(i)));
        }
    }
    report::<L>(m, d, &value);
    set_register(m, d, register, &value);
    Ok(Flow::Next)
}

/// The new byte or the old one, as a bit of the mask says.
fn choose(chosen: Option<bool>, old: Option<u8>, new: Option<u8>) -> Option<u8> {
    match chosen {
        Some(true) => new,
        Some(false) => old,
        None => old.filter(|_| old == new),
    }
}

fn set_register(m: &mut Machine<'_>, d: &Decoded, register: Register, value: &Vector) {
    let slot = &mut m.registers.vectors[number(register)];
    *slot = if is_legacy(d) {
        slot.with_low(HALF, value)
    } else {
        value.truncate(register.size())
    };
    if !d.constant && m.events.wants(ValueKinds::VECTOR) {
        let written = *slot;
        for i in 0..register.size() / 8 {
            let parameter = Parameter::DestWord(register, i as u8);
            m.event_of(parameter, written.word(i), 8);
        }
    }
}

/// Reports the lowest lane that is about to be written, if it is a floating-point number.
fn report<L: Lane>(m: &mut Machine<'_>, d: &Decoded, value: &Vector) {
    let register = d.instruction().op0_register();
    if L::IS_FLOAT && register.is_vector_register() {
        let parameter = if L::BYTES == 4 {
            Parameter::Single(register)
        } else {
            Parameter::Double(register)
        };
        m.event_of(parameter, value.word(0), L::BYTES as u32);
    }
}

/// Sixteen bytes and more that have to be aligned and are not raise an exception, unless a mask
/// chooses none of them.
pub(crate) fn check_alignment(
    m: &Machine<'_>,
    d: &Decoded,
    bytes: usize,
) -> Result<(), StopReason> {
    use Mnemonic as M;
    if bytes < HALF || m.address().is_none_or(|a| a % bytes as u64 == 0) {
        return Ok(());
    }
    let instruction = d.instruction();
    if instruction.has_op_mask() {
        let mask = masks::mask(m, instruction.op_mask());
        let lanes = (bytes / instruction.memory_size().element_size()) as u32;
        if (0..lanes).all(|lane| mask.bit(lane) != Some(true)) {
            return Ok(());
        }
    }
    let mnemonic = d.instruction().mnemonic();
    let aligned = if is_legacy(d) {
        !matches!(
            mnemonic,
            M::Movups
                | M::Movupd
                | M::Movdqu
                | M::Lddqu
                | M::Pcmpestri
                | M::Pcmpestri64
                | M::Pcmpestrm
                | M::Pcmpestrm64
                | M::Pcmpistri
                | M::Pcmpistrm
        )
    } else {
        matches!(
            mnemonic,
            M::Vmovaps
                | M::Vmovapd
                | M::Vmovdqa
                | M::Vmovdqa32
                | M::Vmovdqa64
                | M::Vmovntdq
                | M::Vmovntps
                | M::Vmovntpd
                | M::Vmovntdqa
        )
    };
    match aligned {
        // AMD's processors take them from anywhere.
        true if instruction.cpuid_features().contains(&CpuidFeature::SHA) => {
            Err(StopReason::Unsupported)
        }
        true => Err(StopReason::FaultingInstruction),
        false => Ok(()),
    }
}

/// Applies an operation to one source, as bytes of the destination's size.
fn unary(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(&Vector, usize) -> Vector) -> Done {
    let bytes = size(d, 0);
    let source = read(m, d, 1)?;
    write(m, d, 0, &apply(&source, bytes))
}

/// Two sources.
fn binary(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(&Vector, &Vector, usize) -> Vector,
) -> Done {
    let first = first_source(d);
    let a = read(m, d, first)?;
    let b = read(m, d, first + 1)?;
    write(m, d, 0, &apply(&a, &b, size(d, 0)))
}

/// Two sources and the instruction's immediate byte.
fn binary_immediate(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(&Vector, &Vector, usize, u8) -> Vector,
) -> Done {
    let immediate = immediate(d);
    binary(m, d, |a, b, bytes| apply(a, b, bytes, immediate))
}

/// Each lane of one source by itself.
fn lanes<L: Lane, R: Lane>(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(L) -> R) -> Done {
    unary(m, d, |source, bytes| {
        let mut result = Vector::ZERO;
        for i in 0..bytes / R::BYTES {
            result.set_lane(i, source.lane(i).map(&apply));
        }
        result
    })
}

/// Each lane of one source with its like of the other.
fn lane_pairs<L: Lane, R: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(L, L) -> R,
) -> Done {
    binary(m, d, |a, b, bytes| pair_up(a, b, bytes, &apply))
}

/// Lanes of two vectors combined one by one; `L` and `R` are of one size.
fn pair_up<L: Lane, R: Lane>(
    a: &Vector,
    b: &Vector,
    bytes: usize,
    apply: impl Fn(L, L) -> R,
) -> Vector {
    let mut result = Vector::ZERO;
    for i in 0..bytes / L::BYTES {
        let value = a.lane(i).zip(b.lane(i)).map(|(a, b)| apply(a, b));
        result.set_lane(i, value);
    }
    result
}

/// Two sources as words, where part of a word may decide.
fn words(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(Word, Word) -> Word) -> Done {
    binary(m, d, |a, b, bytes| a.zip_words(b, &apply).truncate(bytes))
}
