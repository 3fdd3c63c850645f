//! Mask registers: what compares into them, and what computes with them.

use iced_x86::{Mnemonic, OpKind, Register};

use super::apart::{Bits, is_of_class};
use super::float::{holds, is_signaling};
use super::float_mode::is_gradual;
use super::float_ops::Float;
use super::{Done, immediate, read, read_low, same, set_register, size};
use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine};
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::vector::{Lane, Vector};
use crate::word::{Width, Word};

/// A mask register.
pub(super) fn mask(m: &Machine<'_>, register: Register) -> Word {
    m.registers.masks[register.number() & 7]
}

/// Reads an operand: a mask, a general register or memory.
fn read_mask(m: &mut Machine<'_>, d: &Decoded, operand: u32) -> Result<Word, StopReason> {
    let instruction = d.instruction();
    if instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand).is_k() {
        Ok(mask(m, instruction.op_register(operand)))
    } else {
        m.read(d, operand)
    }
}

/// Writes the low `width` of a word to an operand; a mask is zero-extended.
fn write_mask(m: &mut Machine<'_>, d: &Decoded, width: Width, value: Word) -> Done {
    let (value, register) = (value.truncate(width), d.instruction().op0_register());
    if d.instruction().op0_kind() == OpKind::Register && register.is_k() {
        m.registers.masks[register.number() & 7] = value;
    } else {
        m.write(d, 0, value)?;
    }
    Ok(Flow::Next)
}

/// `kmov*`.
fn kmov(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let value = read_mask(m, d, 1)?;
    write_mask(m, d, width, value)
}

/// `kand*` and the like.
fn combine(
    m: &mut Machine<'_>,
    d: &Decoded,
    width: Width,
    apply: impl Fn(Word, Word) -> Word,
) -> Done {
    let a = read_mask(m, d, 1)?;
    let b = read_mask(m, d, 2)?;
    let result = if same(d, 1, 2) {
        // Equal bits, known or not.
        match (
            apply(Word::ZERO, Word::ZERO),
            apply(!Word::ZERO, !Word::ZERO),
        ) {
            (zeros, ones) if zeros == ones => zeros,
            _ => apply(a, b),
        }
    } else {
        apply(a, b)
    };
    write_mask(m, d, width, result)
}

fn knot(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let value = read_mask(m, d, 1)?;
    write_mask(m, d, width, !value)
}

fn kshift(m: &mut Machine<'_>, d: &Decoded, width: Width, left: bool) -> Done {
    let count = u32::from(immediate(d));
    let value = read_mask(m, d, 1)?.truncate(width);
    let result = if count >= width.bits() {
        Word::ZERO
    } else if left {
        let filled = (1u64 << count) - 1;
        Word::masked(value.known_bits() << count, value.mask() << count | filled)
    } else {
        let filled = !(u64::MAX >> count);
        Word::masked(value.known_bits() >> count, value.mask() >> count | filled)
    };
    write_mask(m, d, width, result)
}

/// `kortest*`: ZF if both are zero, CF if together they are all ones.
fn kortest(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let either = (read_mask(m, d, 0)? | read_mask(m, d, 1)?).truncate(width);
    let lacking = (!either).truncate(width);
    test_flags(m, either.is_zero(), lacking.is_zero())
}

/// `ktest*`: ZF if both have no bit in common, CF if the second has none that the first lacks.
fn ktest(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let (a, b) = (read_mask(m, d, 0)?, read_mask(m, d, 1)?);
    let (common, lacking) = ((a & b).truncate(width), (!a & b).truncate(width));
    test_flags(m, common.is_zero(), lacking.is_zero())
}

fn test_flags(m: &mut Machine<'_>, zero: Option<bool>, carry: Option<bool>) -> Done {
    let flags = m.flags();
    flags.set(Flag::Zf, zero);
    flags.set(Flag::Cf, carry);
    for flag in [Flag::Of, Flag::Sf, Flag::Af, Flag::Pf] {
        flags.set(flag, Some(false));
    }
    Ok(Flow::Next)
}

/// Whether the lanes of two sources compare so, one bit each, where the instruction's own mask has
/// a one.
fn compare<L: Lane>(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(L, L) -> bool) -> Done {
    let b = read(m, d, 2)?;
    compare_with(m, d, &b, size(d, 1) / L::BYTES, |a, b| Some(apply(a, b)))
}

/// `vcmpps` and the like.
fn compare_numbers<F: Float>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let predicate = immediate(d) & 31;
    super::float::in_mode(m, d, |m, mode| {
        let (b, count) = if is_scalar {
            (read_low(m, d, 2, F::BYTES)?, 1)
        } else {
            (read(m, d, 2)?, size(d, 1) / F::BYTES)
        };
        compare_with(m, d, &b, count, |a: F, b| {
            a.compare(b, is_signaling(predicate), mode)
                .map(|order| holds(predicate, order))
        })
    })
}

fn compare_with<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    b: &Vector,
    count: usize,
    apply: impl Fn(L, L) -> Option<bool>,
) -> Done {
    let a = read(m, d, 1)?;
    set_bits(m, d, count, |i| {
        a.lane(i).zip(b.lane(i)).and_then(|(a, b)| apply(a, b))
    })
}

/// Sets a bit for each lane of which something holds, where the instruction's own mask has a one.
fn set_bits(
    m: &mut Machine<'_>,
    d: &Decoded,
    count: usize,
    holds: impl Fn(usize) -> Option<bool>,
) -> Done {
    let allowed = match d.instruction().op_mask() {
        Register::None => !Word::ZERO,
        register => mask(m, register),
    };
    let (mut bits, mut known) = (0u64, u64::MAX);
    for i in 0..count {
        match holds(i) {
            Some(holds) => bits |= u64::from(holds) << i,
            None => known &= !(1 << i),
        }
    }
    // A lane that is masked out is zero, known or not: that is decided bit by bit.
    let (can, may) = (allowed.known_bits(), allowed.mask());
    let result = Word::masked(bits & can, known & may | may & !can | known & !bits);
    write_mask(m, d, Width::B64, result)
}

/// `vfpclassps` and the like.
fn classify<F: Bits>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let classes = immediate(d);
    let gradual = is_gradual(m.registers.mxcsr);
    let (source, count) = if is_scalar {
        (read_low(m, d, 1, F::BYTES)?, 1)
    } else {
        (read(m, d, 1)?, lanes_of_class(d) / F::BYTES)
    };
    set_bits(m, d, count, |i| {
        is_of_class(source.lane::<F>(i)?, classes, gradual)
    })
}

/// Bytes of a source that is sorted into classes: of memory one lane may stand for all.
fn lanes_of_class(d: &Decoded) -> usize {
    use iced_x86::MemorySize as S;
    match d.instruction().memory_size() {
        S::Broadcast128_Float32 | S::Broadcast128_Float64 => 16,
        S::Broadcast256_Float32 | S::Broadcast256_Float64 => 32,
        S::Broadcast512_Float32 | S::Broadcast512_Float64 => 64,
        _ => size(d, 1),
    }
}

/// `vpshufbitqmb`: bits of the first source's quadwords that the second's bytes choose.
fn pick_bits(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let (from, places) = (read(m, d, 1)?, read(m, d, 2)?);
    set_bits(m, d, size(d, 1), |i| {
        let place = places.byte(i)? & 63;
        from.word(i / 8).bit(place.into())
    })
}

/// `vpcmpb`, `vpcmpub` and the like: the immediate says how.
fn compare_by<L: Lane + Ord>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let how = immediate(d) & 7;
    compare(m, d, |a: L, b: L| {
        let negated = how & 4 != 0;
        negated
            != match how & 3 {
                0 => a == b,
                1 => a < b,
                2 => a <= b,
                _ => false,
            }
    })
}

/// `vpmovb2m` and the like: the signs of lanes.
fn from_signs(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let source = read(m, d, 1)?;
    let (mut bits, mut known) = (0u64, u64::MAX);
    for i in 0..size(d, 1) / lane {
        match source.byte(i * lane + lane - 1) {
            Some(byte) => bits |= u64::from(byte >> 7) << i,
            None => known &= !(1 << i),
        }
    }
    write_mask(m, d, Width::B64, Word::masked(bits, known))
}

/// `vpmovm2b` and the like: lanes of ones or zeros.
fn to_lanes(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let mask = read_mask(m, d, 1)?;
    let result = Vector::arrange(size(d, 0), |i| {
        let bit = mask.bit((i / lane) as u32)?;
        Some(if bit { u8::MAX } else { 0 })
    });
    set_register(m, d, d.instruction().op0_register(), &result);
    Ok(Flow::Next)
}

/// The mask in every lane, zero-extended.
fn broadcast(m: &mut Machine<'_>, d: &Decoded, width: Width, lane: usize) -> Done {
    let mask = Vector::from_word(read_mask(m, d, 1)?.truncate(width));
    let result = Vector::arrange(size(d, 0), |i| mask.byte(i % lane));
    set_register(m, d, d.instruction().op0_register(), &result);
    Ok(Flow::Next)
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    use Width::{B8, B16, B32, B64};
    let handler: Handler = match mnemonic {
        M::Vpcmpb => compare_by::<i8>,
        M::Vpcmpub => compare_by::<u8>,
        M::Vpcmpw => compare_by::<i16>,
        M::Vpcmpuw => compare_by::<u16>,
        M::Vpcmpd => compare_by::<i32>,
        M::Vpcmpud => compare_by::<u32>,
        M::Vpcmpq => compare_by::<i64>,
        M::Vpcmpuq => compare_by::<u64>,
        M::Vpcmpeqb => |m, d| compare(m, d, |a: u8, b| a == b),
        M::Vpcmpeqw => |m, d| compare(m, d, |a: u16, b| a == b),
        M::Vpcmpeqd => |m, d| compare(m, d, |a: u32, b| a == b),
        M::Vpcmpeqq => |m, d| compare(m, d, |a: u64, b| a == b),
        M::Vpcmpgtb => |m, d| compare(m, d, |a: i8, b| a > b),
        M::Vpcmpgtw => |m, d| compare(m, d, |a: i16, b| a > b),
        M::Vpcmpgtd => |m, d| compare(m, d, |a: i32, b| a > b),
        M::Vpcmpgtq => |m, d| compare(m, d, |a: i64, b| a > b),
        M::Vptestmb => |m, d| compare(m, d, |a: u8, b| a & b != 0),
        M::Vptestmw => |m, d| compare(m, d, |a: u16, b| a & b != 0),
        M::Vptestmd => |m, d| compare(m, d, |a: u32, b| a & b != 0),
        M::Vptestmq => |m, d| compare(m, d, |a: u64, b| a & b != 0),
        M::Vptestnmb => |m, d| compare(m, d, |a: u8, b| a & b == 0),
        M::Vptestnmw => |m, d| compare(m, d, |a: u16, b| a & b == 0),
        M::Vptestnmd => |m, d| compare(m, d, |a: u32, b| a & b == 0),
        M::Vptestnmq => |m, d| compare(m, d, |a: u64, b| a & b == 0),
        M::Vcmpps => |m, d| compare_numbers::<f32>(m, d, false),
        M::Vcmppd => |m, d| compare_numbers::<f64>(m, d, false),
        M::Vcmpss => |m, d| compare_numbers::<f32>(m, d, true),
        M::Vcmpsd => |m, d| compare_numbers::<f64>(m, d, true),
        M::Vfpclassps => |m, d| classify::<f32>(m, d, false),
        M::Vfpclasspd => |m, d| classify::<f64>(m, d, false),
        M::Vfpclassss => |m, d| classify::<f32>(m, d, true),
        M::Vfpclasssd => |m, d| classify::<f64>(m, d, true),
        M::Vpshufbitqmb => pick_bits,
        M::Vpmovb2m => |m, d| from_signs(m, d, 1),
        M::Vpmovw2m => |m, d| from_signs(m, d, 2),
        M::Vpmovd2m => |m, d| from_signs(m, d, 4),
        M::Vpmovq2m => |m, d| from_signs(m, d, 8),
        M::Vpmovm2b => |m, d| to_lanes(m, d, 1),
        M::Vpmovm2w => |m, d| to_lanes(m, d, 2),
        M::Vpmovm2d => |m, d| to_lanes(m, d, 4),
        M::Vpmovm2q => |m, d| to_lanes(m, d, 8),
        M::Vpbroadcastmb2q => |m, d| broadcast(m, d, B8, 8),
        M::Vpbroadcastmw2d => |m, d| broadcast(m, d, B16, 4),
        M::Kmovb => |m, d| kmov(m, d, B8),
        M::Kandb => |m, d| combine(m, d, B8, |a, b| a & b),
        M::Kandnb => |m, d| combine(m, d, B8, |a, b| !a & b),
        M::Korb => |m, d| combine(m, d, B8, |a, b| a | b),
        M::Kxorb => |m, d| combine(m, d, B8, |a, b| a ^ b),
        M::Kxnorb => |m, d| combine(m, d, B8, |a, b| !(a ^ b)),
        M::Kaddb => |m, d| combine(m, d, B8, Word::wrapping_add),
        M::Knotb => |m, d| knot(m, d, B8),
        M::Kshiftlb => |m, d| kshift(m, d, B8, true),
        M::Kshiftrb => |m, d| kshift(m, d, B8, false),
        M::Kortestb => |m, d| kortest(m, d, B8),
        M::Ktestb => |m, d| ktest(m, d, B8),
        M::Kmovw => |m, d| kmov(m, d, B16),
        M::Kandw => |m, d| combine(m, d, B16, |a, b| a & b),
        M::Kandnw => |m, d| combine(m, d, B16, |a, b| !a & b),
        M::Korw => |m, d| combine(m, d, B16, |a, b| a | b),
        M::Kxorw => |m, d| combine(m, d, B16, |a, b| a ^ b),
        M::Kxnorw => |m, d| combine(m, d, B16, |a, b| !(a ^ b)),
        M::Kaddw => |m, d| combine(m, d, B16, Word::wrapping_add),
        M::Knotw => |m, d| knot(m, d, B16),
        M::Kshiftlw => |m, d| kshift(m, d, B16, true),
        M::Kshiftrw => |m, d| kshift(m, d, B16, false),
        M::Kortestw => |m, d| kortest(m, d, B16),
        M::Ktestw => |m, d| ktest(m, d, B16),
        M::Kmovd => |m, d| kmov(m, d, B32),
        M::Kandd => |m, d| combine(m, d, B32, |a, b| a & b),
        M::Kandnd => |m, d| combine(m, d, B32, |a, b| !a & b),
        M::Kord => |m, d| combine(m, d, B32, |a, b| a | b),
        M::Kxord => |m, d| combine(m, d, B32, |a, b| a ^ b),
        M::Kxnord => |m, d| combine(m, d, B32, |a, b| !(a ^ b)),
        M::Kaddd => |m, d| combine(m, d, B32, Word::wrapping_add),
        M::Knotd => |m, d| knot(m, d, B32),
        M::Kshiftld => |m, d| kshift(m, d, B32, true),
        M::Kshiftrd => |m, d| kshift(m, d, B32, false),
        M::Kortestd => |m, d| kortest(m, d, B32),
        M::Ktestd => |m, d| ktest(m, d, B32),
        M::Kmovq => |m, d| kmov(m, d, B64),
        M::Kandq => |m, d| combine(m, d, B64, |a, b| a & b),
        M::Kandnq => |m, d| combine(m, d, B64, |a, b| !a & b),
        M::Korq => |m, d| combine(m, d, B64, |a, b| a | b),
        M::Kxorq => |m, d| combine(m, d, B64, |a, b| a ^ b),
        M::Kxnorq => |m, d| combine(m, d, B64, |a, b| !(a ^ b)),
        M::Kaddq => |m, d| combine(m, d, B64, Word::wrapping_add),
        M::Knotq => |m, d| knot(m, d, B64),
        M::Kshiftlq => |m, d| kshift(m, d, B64, true),
        M::Kshiftrq => |m, d| kshift(m, d, B64, false),
        M::Kortestq => |m, d| kortest(m, d, B64),
        M::Ktestq => |m, d| ktest(m, d, B64),
        M::Kunpckbw => |m, d| unpack(m, d, B8),
        M::Kunpckwd => |m, d| unpack(m, d, B16),
        M::Kunpckdq => |m, d| unpack(m, d, B32),
        _ => return None,
    };
    Some(handler)
}

/// `kunpck*`: the low half of the first source above that of the second.
fn unpack(m: &mut Machine<'_>, d: &Decoded, half: Width) -> Done {
    let high = read_mask(m, d, 1)?.truncate(half).shifted_up(half.bytes());
    let result = high.with_low(half, read_mask(m, d, 2)?);
    // What lies above both halves was cut off before it was shifted.
    write_mask(m, d, Width::B64, result)
}
