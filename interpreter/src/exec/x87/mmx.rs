//! MMX instructions: 64 bits in the significands of the x87 registers, by their numbers.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::{Done, wait};
use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;
use crate::vector::Vector;
use crate::word::{Width, Word};
use crate::x87::X87Register;
use parameters::Parameter;

/// The exponent and sign of a register that an MMX instruction has written.
const ONES: u16 = 0xffff;

/// Applies a function to each lane of so many bits, sign-extended.
fn lanes(a: u64, b: u64, bits: u32, apply: impl Fn(i64, i64) -> i64) -> u64 {
    let mut result = 0;
    for at in (0..64).step_by(bits as usize) {
        let lane = |word: u64| (word >> at << (64 - bits)).cast_signed() >> (64 - bits);
        let value = apply(lane(a), lane(b)).cast_unsigned() << (64 - bits) >> (64 - bits);
        result |= value << at;
    }
    result
}

/// The same, zero-extended.
fn unsigned(a: u64, b: u64, bits: u32, apply: impl Fn(u64, u64) -> u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    lanes(a, b, bits, |a, b| {
        apply(a.cast_unsigned() & mask, b.cast_unsigned() & mask).cast_signed()
    })
}

/// A number within the limits of a signed lane.
fn saturated(value: i64, bits: u32) -> i64 {
    let limit = 1i64 << (bits - 1);
    value.clamp(-limit, limit - 1)
}

/// A lane of a word, by its number.
fn lane(word: u64, bits: u32, number: u32) -> u64 {
    word >> (bits * number) & (u64::MAX >> (64 - bits))
}

fn signed_lane(word: u64, bits: u32, number: u32) -> i64 {
    let unused = 64 - bits;
    (lane(word, bits, number) << unused).cast_signed() >> unused
}

/// A word of the lanes that `pick` gives.
fn gather(bits: u32, pick: impl Fn(u32) -> u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    (0..64 / bits).fold(0, |word, i| word | (pick(i) & mask) << (bits * i))
}

/// Lanes of the first word and then of the second, cut to half their bits by `cut`.
fn pack(a: u64, b: u64, bits: u32, cut: impl Fn(i64) -> i64) -> u64 {
    let count = 64 / bits;
    gather(bits / 2, |i| {
        let from = if i < count { a } else { b };
        cut(signed_lane(from, bits, i % count)).cast_unsigned()
    })
}

/// Lanes of both words by turns, from one of the first on.
fn unpack(a: u64, b: u64, bits: u32, first: u32) -> u64 {
    gather(bits, |i| {
        let from = if i % 2 == 0 { a } else { b };
        lane(from, bits, first + i / 2)
    })
}

/// Neighbours combined, of the first word and then of the second.
fn neighbours(a: u64, b: u64, bits: u32, apply: impl Fn(i64, i64) -> i64) -> u64 {
    let half = 32 / bits;
    gather(bits, |i| {
        let from = if i < half { a } else { b };
        let at = 2 * (i % half);
        apply(signed_lane(from, bits, at), signed_lane(from, bits, at + 1)).cast_unsigned()
    })
}

/// `psign*`: the first lane, with the sign of the second.
fn signs(a: u64, b: u64, bits: u32) -> u64 {
    lanes(a, b, bits, |a, b| a.wrapping_mul(b.signum()))
}

fn shift_left(a: u64, count: u64, bits: u32) -> u64 {
    match count {
        0..64 if count < bits.into() => unsigned(a, 0, bits, |a, _| a << count),
        _ => 0,
    }
}

fn shift_right(a: u64, count: u64, bits: u32) -> u64 {
    match count {
        0..64 if count < bits.into() => unsigned(a, 0, bits, |a, _| a >> count),
        _ => 0,
    }
}

fn shift_signed(a: u64, count: u64, bits: u32) -> u64 {
    lanes(a, 0, bits, |a, _| a >> count.min(63))
}

/// The function of two words that an instruction computes.
fn function(mnemonic: Mnemonic) -> Option<fn(u64, u64) -> u64> {
    use Mnemonic as M;
    Some(match mnemonic {
        M::Paddb => |a, b| lanes(a, b, 8, i64::wrapping_add),
        M::Paddw => |a, b| lanes(a, b, 16, i64::wrapping_add),
        M::Paddd => |a, b| lanes(a, b, 32, i64::wrapping_add),
        M::Paddq => u64::wrapping_add,
        M::Psubb => |a, b| lanes(a, b, 8, i64::wrapping_sub),
        M::Psubw => |a, b| lanes(a, b, 16, i64::wrapping_sub),
        M::Psubd => |a, b| lanes(a, b, 32, i64::wrapping_sub),
        M::Psubq => u64::wrapping_sub,
        M::Paddsb => |a, b| lanes(a, b, 8, |a, b| saturated(a + b, 8)),
        M::Paddsw => |a, b| lanes(a, b, 16, |a, b| saturated(a + b, 16)),
        M::Psubsb => |a, b| lanes(a, b, 8, |a, b| saturated(a - b, 8)),
        M::Psubsw => |a, b| lanes(a, b, 16, |a, b| saturated(a - b, 16)),
        M::Paddusb => |a, b| unsigned(a, b, 8, |a, b| (a + b).min(0xff)),
        M::Paddusw => |a, b| unsigned(a, b, 16, |a, b| (a + b).min(0xffff)),
        M::Psubusb => |a, b| unsigned(a, b, 8, u64::saturating_sub),
        M::Psubusw => |a, b| unsigned(a, b, 16, u64::saturating_sub),
        M::Pmullw => |a, b| lanes(a, b, 16, i64::wrapping_mul),
        M::Pmulhw => |a, b| lanes(a, b, 16, |a, b| (a * b) >> 16),
        M::Pmulhuw => |a, b| unsigned(a, b, 16, |a, b| (a * b) >> 16),
        M::Pmulhrsw => |a, b| lanes(a, b, 16, |a, b| (((a * b) >> 14) + 1) >> 1),
        M::Pmuludq => |a, b| (a & 0xffff_ffff) * (b & 0xffff_ffff),
        M::Pmaddwd => |a, b| {
            gather(32, |i| {
                let product = |i| signed_lane(a, 16, i) * signed_lane(b, 16, i);
                (product(2 * i) + product(2 * i + 1)).cast_unsigned()
            })
        },
        M::Pmaddubsw => |a, b| {
            gather(16, |i| {
                let product = |i| lane(a, 8, i).cast_signed() * signed_lane(b, 8, i);
                saturated(product(2 * i) + product(2 * i + 1), 16).cast_unsigned()
            })
        },
        M::Pavgb => |a, b| unsigned(a, b, 8, |a, b| (a + b + 1) >> 1),
        M::Pavgw => |a, b| unsigned(a, b, 16, |a, b| (a + b + 1) >> 1),
        M::Pmaxub => |a, b| unsigned(a, b, 8, u64::max),
        M::Pminub => |a, b| unsigned(a, b, 8, u64::min),
        M::Pmaxsw => |a, b| lanes(a, b, 16, i64::max),
        M::Pminsw => |a, b| lanes(a, b, 16, i64::min),
        M::Psadbw => |a, b| (0..8).map(|i| lane(a, 8, i).abs_diff(lane(b, 8, i))).sum(),
        M::Pcmpeqb => |a, b| lanes(a, b, 8, |a, b| -i64::from(a == b)),
        M::Pcmpeqw => |a, b| lanes(a, b, 16, |a, b| -i64::from(a == b)),
        M::Pcmpeqd => |a, b| lanes(a, b, 32, |a, b| -i64::from(a == b)),
        M::Pcmpgtb => |a, b| lanes(a, b, 8, |a, b| -i64::from(a > b)),
        M::Pcmpgtw => |a, b| lanes(a, b, 16, |a, b| -i64::from(a > b)),
        M::Pcmpgtd => |a, b| lanes(a, b, 32, |a, b| -i64::from(a > b)),
        M::Packsswb => |a, b| pack(a, b, 16, |x| saturated(x, 8)),
        M::Packssdw => |a, b| pack(a, b, 32, |x| saturated(x, 16)),
        M::Packuswb => |a, b| pack(a, b, 16, |x| x.clamp(0, 0xff)),
        M::Punpcklbw => |a, b| unpack(a, b, 8, 0),
        M::Punpcklwd => |a, b| unpack(a, b, 16, 0),
        M::Punpckldq => |a, b| unpack(a, b, 32, 0),
        M::Punpckhbw => |a, b| unpack(a, b, 8, 4),
        M::Punpckhwd => |a, b| unpack(a, b, 16, 2),
        M::Punpckhdq => |a, b| unpack(a, b, 32, 1),
        M::Pabsb => |_, b| lanes(b, 0, 8, |b, _| b.abs()),
        M::Pabsw => |_, b| lanes(b, 0, 16, |b, _| b.abs()),
        M::Pabsd => |_, b| lanes(b, 0, 32, |b, _| b.abs()),
        M::Psignb => |a, b| signs(a, b, 8),
        M::Psignw => |a, b| signs(a, b, 16),
        M::Psignd => |a, b| signs(a, b, 32),
        M::Phaddw => |a, b| neighbours(a, b, 16, i64::wrapping_add),
        M::Phaddd => |a, b| neighbours(a, b, 32, i64::wrapping_add),
        M::Phaddsw => |a, b| neighbours(a, b, 16, |a, b| saturated(a + b, 16)),
        M::Phsubw => |a, b| neighbours(a, b, 16, i64::wrapping_sub),
        M::Phsubd => |a, b| neighbours(a, b, 32, i64::wrapping_sub),
        M::Phsubsw => |a, b| neighbours(a, b, 16, |a, b| saturated(a - b, 16)),
        M::Pshufb => |a, b| {
            gather(8, |i| match lane(b, 8, i) {
                chosen if chosen & 0x80 == 0 => lane(a, 8, chosen as u32 & 7),
                _ => 0,
            })
        },
        M::Psllw => |a, b| shift_left(a, b, 16),
        M::Pslld => |a, b| shift_left(a, b, 32),
        M::Psllq => |a, b| shift_left(a, b, 64),
        M::Psrlw => |a, b| shift_right(a, b, 16),
        M::Psrld => |a, b| shift_right(a, b, 32),
        M::Psrlq => |a, b| shift_right(a, b, 64),
        M::Psraw => |a, b| shift_signed(a, b, 16),
        M::Psrad => |a, b| shift_signed(a, b, 32),
        _ => return None,
    })
}

/// Whether the result of an operand and itself does not depend on it, and what it is.
fn of_itself(mnemonic: Mnemonic) -> Option<Word> {
    use Mnemonic as M;
    match mnemonic {
        M::Pxor | M::Pandn | M::Psubb | M::Psubw | M::Psubd | M::Psubq => Some(Word::ZERO),
        M::Pcmpgtb | M::Pcmpgtw | M::Pcmpgtd => Some(Word::ZERO),
        M::Pcmpeqb | M::Pcmpeqw | M::Pcmpeqd => Some(!Word::ZERO),
        _ => None,
    }
}

pub(super) fn handler(instruction: &Instruction) -> Option<Handler> {
    use Mnemonic as M;
    let mnemonic = instruction.mnemonic();
    if mnemonic == M::Emms {
        return Some(leave);
    }
    let registers = || {
        (0..instruction.op_count())
            .filter(|i| instruction.op_kind(*i) == OpKind::Register)
            .map(|i| instruction.op_register(i))
    };
    if !registers().any(Register::is_mm) {
        return None;
    }
    let handler: Handler = match mnemonic {
        M::Movq2dq => to_vector,
        M::Movdq2q => from_vector,
        _ if !registers().all(|register| register.is_mm() || register.is_gpr()) => return None,
        M::Movd | M::Movq | M::Movntq => transfer,
        M::Pand => |m, d| words(m, d, |a, b| a & b),
        M::Por => |m, d| words(m, d, |a, b| a | b),
        M::Pxor => |m, d| words(m, d, |a, b| a ^ b),
        M::Pandn => |m, d| words(m, d, |a, b| !a & b),
        M::Pinsrw => insert,
        M::Pextrw => extract,
        M::Pshufw => shuffle,
        M::Palignr => align,
        M::Pmovmskb => signs_of_bytes,
        _ if function(mnemonic).is_some() => |m, d| {
            words(m, d, |a, b| {
                let apply = function(d.instruction().mnemonic());
                let value = a.all().zip(b.all()).zip(apply);
                Word::of(Width::B64, value.map(|((a, b), apply)| apply(a, b)))
            })
        },
        _ => return None,
    };
    Some(handler)
}

/// What an MMX register holds.
pub(in crate::exec) fn register(m: &Machine<'_>, register: Register) -> Word {
    m.registers.x87.registers[number(register)].significand
}

fn number(register: Register) -> usize {
    register.number() & 7
}

/// What an operand holds, in 64 bits.
fn read(m: &mut Machine<'_>, d: &Decoded, operand: u32) -> Result<Word, StopReason> {
    let instruction = d.instruction();
    match instruction.op_kind(operand) {
        OpKind::Register if instruction.op_register(operand).is_mm() => {
            Ok(register(m, instruction.op_register(operand)))
        }
        OpKind::Register | OpKind::Memory => m.read(d, operand),
        _ => Ok(Word::known(instruction.immediate8().into())),
    }
}

/// Writes the first operand and ends the instruction.
pub(in crate::exec) fn write(m: &mut Machine<'_>, d: &Decoded, value: Word) -> Done {
    let instruction = d.instruction();
    let register = instruction.op0_register();
    if instruction.op0_kind() == OpKind::Register && register.is_mm() {
        m.registers.x87.enter_mmx();
        m.registers.x87.registers[number(register)] = X87Register {
            significand: value,
            top: Some(ONES),
        };
        if !d.constant {
            m.event_of(Parameter::DestWord(register, 0), value, 8);
        }
    } else {
        m.write(d, 0, value)?;
        m.registers.x87.enter_mmx();
    }
    Ok(Flow::Next)
}

fn words(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(Word, Word) -> Word) -> Done {
    wait(m)?;
    let value = match of_itself(d.instruction().mnemonic()) {
        Some(value) if Machine::same_register(d) => value,
        _ => {
            let (a, b) = (read(m, d, 0)?, read(m, d, 1)?);
            apply(a, b)
        }
    };
    write(m, d, value)
}

/// `movd`, `movq`, `movntq`.
fn transfer(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let value = read(m, d, 1)?;
    let instruction = d.instruction();
    let narrow = (0..2).any(|i| match instruction.op_kind(i) {
        OpKind::Register => instruction.op_register(i).size() == 4,
        _ => instruction.memory_size().size() == 4,
    });
    let width = if narrow { Width::B32 } else { Width::B64 };
    write(m, d, value.truncate(width))
}

/// `movq2dq`: to the low half of a vector register, the other half of 128 bits becoming zero.
fn to_vector(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let value = read(m, d, 1)?;
    let register = d.instruction().op0_register();
    let vector = &mut m.registers.vectors[register.number() & 31];
    *vector = vector.with_low(16, &Vector::from_word(value));
    m.registers.x87.enter_mmx();
    m.event_of(Parameter::DestWord(register, 0), value, 8);
    m.event_of(Parameter::DestWord(register, 1), Word::ZERO, 8);
    Ok(Flow::Next)
}

fn from_vector(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let register = d.instruction().op1_register();
    let value = m.registers.vectors[register.number() & 31].word(0);
    write(m, d, value)
}

/// `emms`: all registers become empty.
fn leave(m: &mut Machine<'_>, _: &Decoded) -> Done {
    wait(m)?;
    let x87 = &mut m.registers.x87;
    x87.top = Some(0);
    (x87.used, x87.used_known) = (0, u8::MAX);
    Ok(Flow::Next)
}

fn chosen(d: &Decoded) -> u32 {
    u32::from(d.instruction().immediate8() & 3)
}

/// `pinsrw`.
fn insert(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let old = read(m, d, 0)?;
    let new = read(m, d, 1)?;
    let at = 2 * chosen(d);
    write(m, d, old.with_bytes(3 << at, new.shifted_up(at)))
}

/// `pextrw`.
fn extract(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let value = read(m, d, 1)?.shifted_down(2 * chosen(d));
    write(m, d, value.truncate(Width::B16))
}

/// `pshufw`.
fn shuffle(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let order = d.instruction().immediate8();
    let value = read(m, d, 1)?
        .all()
        .map(|value| gather(16, |i| lane(value, 16, u32::from(order >> (2 * i) & 3))));
    write(m, d, Word::of(Width::B64, value))
}

/// `palignr`: eight bytes of both operands one behind the other.
fn align(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let (high, low) = (read(m, d, 0)?, read(m, d, 1)?);
    let by = u32::from(d.instruction().immediate8()).min(16);
    let value = high.all().zip(low.all()).map(|(high, low)| {
        let both = u128::from(high) << 64 | u128::from(low);
        both.checked_shr(8 * by).unwrap_or(0) as u64
    });
    write(m, d, Word::of(Width::B64, value))
}

/// `pmovmskb`.
fn signs_of_bytes(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    let value = read(m, d, 1)?
        .all()
        .map(|value| (0..8).fold(0, |bits, i| bits | lane(value, 8, i) >> 7 << i));
    let width = m.width(d, 0)?;
    write(m, d, Word::of(width, value))
}
