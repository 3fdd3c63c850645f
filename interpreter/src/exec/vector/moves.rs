//! Moves between vector registers, general registers and memory.

use super::{
    Done, binary, first_source, immediate, in_memory, read, read_low, report, size, unary, write,
};
use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::vector::{HALF, Lane, Vector};
use crate::word::Word;

/// Whole registers and memory (`movaps`, `movdqu`, `lddqu`, `movntdq`, ...), and `movd`, `movq`,
/// which extend what they move with zeros.
pub(super) fn mov(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let value = read(m, d, 1)?;
    write(m, d, 0, &value)
}

/// `movd` and `movq`: the lowest lane, zero-extended.
pub(super) fn low(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = size(d, 0).min(size(d, 1)).min(8);
    let value = read_low(m, d, 1, bytes)?;
    write(m, d, 0, &value)
}

/// `movss` and `movsd`: the lowest lane, merged between registers, zero-extended from memory.
fn scalar<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    if in_memory(d, 0) || in_memory(d, 1) {
        let value = read_low(m, d, 1, L::BYTES)?;
        report::<L>(m, d, &value);
        return write(m, d, 0, &value);
    }
    let first = first_source(d);
    let source = read(m, d, first + 1)?;
    let result = read(m, d, first)?.with_low(L::BYTES, &source);
    report::<L>(m, d, &result);
    write(m, d, 0, &result)
}

pub(super) fn movss(m: &mut Machine<'_>, d: &Decoded) -> Done {
    scalar::<f32>(m, d)
}

pub(super) fn movsd(m: &mut Machine<'_>, d: &Decoded) -> Done {
    scalar::<f64>(m, d)
}

/// The first source with one of its 64-bit halves replaced, or that half stored.
fn half(m: &mut Machine<'_>, d: &Decoded, to: usize, from: usize) -> Done {
    if in_memory(d, 0) {
        let source = read(m, d, 1)?;
        return write(m, d, 0, &Vector::from_word(source.word(to)));
    }
    let first = first_source(d);
    // From memory there are 64 bits only, and they are the lowest.
    let from = if in_memory(d, first + 1) { 0 } else { from };
    binary(m, d, |a, b, _| {
        let mut result = *a;
        result.set_word(to, b.word(from));
        result
    })
}

/// `movlps`, `movlpd`.
pub(super) fn movlps(m: &mut Machine<'_>, d: &Decoded) -> Done {
    half(m, d, 0, 0)
}

/// `movhps`, `movhpd`, and `movlhps`.
pub(super) fn movhps(m: &mut Machine<'_>, d: &Decoded) -> Done {
    half(m, d, 1, 0)
}

pub(super) fn movhlps(m: &mut Machine<'_>, d: &Decoded) -> Done {
    half(m, d, 0, 1)
}

pub(super) fn movddup(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = size(d, 0);
    let needed = if bytes == HALF { 8 } else { bytes };
    let source = read_low(m, d, 1, needed)?;
    let result = Vector::arrange(bytes, |i| source.byte(i & !8));
    write(m, d, 0, &result)
}

pub(super) fn movsldup(m: &mut Machine<'_>, d: &Decoded) -> Done {
    unary(m, d, |source, bytes| {
        Vector::arrange(bytes, |i| source.byte(i & !4))
    })
}

pub(super) fn movshdup(m: &mut Machine<'_>, d: &Decoded) -> Done {
    unary(m, d, |source, bytes| {
        Vector::arrange(bytes, |i| source.byte(i | 4))
    })
}

/// `pinsrb` and the like: one lane of a register replaced.
pub(super) fn insert<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let first = first_source(d);
    let place = usize::from(immediate(d)) % (HALF / L::BYTES);
    let mut result = read(m, d, first)?;
    let source = read_low(m, d, first + 1, L::BYTES)?;
    for i in 0..L::BYTES {
        result.set_byte(place * L::BYTES + i, source.byte(i));
    }
    write(m, d, 0, &result)
}

/// `pextrb` and the like: one lane, zero-extended.
pub(super) fn extract<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let place = usize::from(immediate(d)) % (HALF / L::BYTES);
    let source = read(m, d, 1)?;
    let lane = Vector::arrange(L::BYTES, |i| source.byte(place * L::BYTES + i));
    m.write(d, 0, lane.word(0))?;
    Ok(Flow::Next)
}

pub(super) fn insertps(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = usize::from(immediate(d));
    let first = first_source(d);
    let mut result = read(m, d, first)?;
    let from = if in_memory(d, first + 1) {
        0
    } else {
        control >> 6
    };
    let source = read(m, d, first + 1)?;
    let to = control >> 4 & 3;
    for i in 0..4 {
        result.set_byte(4 * to + i, source.byte(4 * from + i));
    }
    for lane in 0..4 {
        if control >> lane & 1 != 0 {
            result.set_lane(lane, Some(0u32));
        }
    }
    write(m, d, 0, &result)
}

/// `vbroadcastss`, `vpbroadcastb` and the like: the lowest `lane` bytes everywhere.
pub(super) fn broadcast(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let source = read_low(m, d, 1, lane)?;
    let result = Vector::arrange(size(d, 0), |i| source.byte(i % lane));
    write(m, d, 0, &result)
}

/// `vinsertf128` and the like: `part` bytes of the first source replaced.
pub(super) fn insert_part(m: &mut Machine<'_>, d: &Decoded, part: usize) -> Done {
    let (a, b) = (read(m, d, 1)?, read(m, d, 2)?);
    let place = usize::from(immediate(d)) % (size(d, 0) / part);
    let result = Vector::arrange(size(d, 0), |i| {
        if i / part == place {
            b.byte(i % part)
        } else {
            a.byte(i)
        }
    });
    write(m, d, 0, &result)
}

/// `vextractf128` and the like.
pub(super) fn extract_part(m: &mut Machine<'_>, d: &Decoded, part: usize) -> Done {
    let source = read(m, d, 1)?;
    let place = usize::from(immediate(d)) % (size(d, 1) / part);
    let result = Vector::arrange(part, |i| source.byte(place * part + i));
    write(m, d, 0, &result)
}

/// `pmovmskb`, `movmskps`, `movmskpd`: the sign of every lane, as a number.
pub(super) fn signs(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let source = read(m, d, 1)?;
    let count = size(d, 1) / lane;
    let (mut bits, mut known) = (0u64, u64::MAX);
    for i in 0..count {
        match source.byte(i * lane + lane - 1) {
            Some(byte) => bits |= u64::from(byte >> 7) << i,
            None => known &= !(1 << i),
        }
    }
    m.write(d, 0, Word::masked(bits, known))?;
    Ok(Flow::Next)
}

/// `vzeroupper`.
pub(super) fn zero_upper(m: &mut Machine<'_>, _: &Decoded) -> Done {
    for vector in m.registers.vectors.iter_mut().take(16) {
        *vector = vector.truncate(HALF);
    }
    Ok(Flow::Next)
}

/// `vzeroall`.
pub(super) fn zero_all(m: &mut Machine<'_>, _: &Decoded) -> Done {
    for vector in m.registers.vectors.iter_mut().take(16) {
        *vector = Vector::ZERO;
    }
    Ok(Flow::Next)
}
