//! Integer arithmetic, lane by lane.

use super::{Done, binary, first_source, immediate, lane_pairs, read, same, size, words, write};
use crate::decode::Decoded;
use crate::machine::Machine;
use crate::vector::{HALF, Lane, Vector};
use crate::word::Word;

/// `pand`, `andps`, ...: a known zero bit decides.
pub(super) fn and(m: &mut Machine<'_>, d: &Decoded) -> Done {
    words(m, d, |a, b| a & b)
}

/// `pandn`, `andnps`, ...: the complement of the first source and the second.
pub(super) fn and_not(m: &mut Machine<'_>, d: &Decoded) -> Done {
    zero_if_same(m, d, |m, d| words(m, d, |a, b| !a & b))
}

/// `por`, `orps`, ...
pub(super) fn or(m: &mut Machine<'_>, d: &Decoded) -> Done {
    words(m, d, |a, b| a | b)
}

/// `pxor`, `xorps`, ...
pub(super) fn xor(m: &mut Machine<'_>, d: &Decoded) -> Done {
    zero_if_same(m, d, |m, d| words(m, d, |a, b| a ^ b))
}

/// `vpternlog*`: any function of three bits; the immediate is its table.
pub(super) fn ternary(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let table = immediate(d);
    let sources = [read(m, d, 0)?, read(m, d, 1)?, read(m, d, 2)?];
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / 8 {
        let word = match table {
            0 => Word::ZERO,
            u8::MAX => !Word::ZERO,
            _ => (0..8)
                .filter(|case| table >> case & 1 != 0)
                .map(|case| {
                    let bit = |operand: usize, shift: u8| {
                        let word = sources[operand].word(i);
                        if case >> shift & 1 == 0 { !word } else { word }
                    };
                    bit(0, 2) & bit(1, 1) & bit(2, 0)
                })
                .fold(Word::ZERO, |any, term| any | term),
        };
        result.set_word(i, word);
    }
    write(m, d, 0, &result)
}

/// A register combined with itself is zero, known or not.
fn zero_if_same(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(&mut Machine<'_>, &Decoded) -> Done,
) -> Done {
    let first = first_source(d);
    if same(d, first, first + 1) {
        return write(m, d, 0, &Vector::ZERO);
    }
    apply(m, d)
}

/// `psub*` and the saturating ones.
pub(super) fn subtract<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(L, L) -> L,
) -> Done {
    zero_if_same(m, d, |m, d| lane_pairs(m, d, &apply))
}

/// `pmuludq` and `pmuldq`: the lower half of each 64-bit lane, multiplied to 64 bits.
pub(super) fn multiply_even(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(u32, u32) -> u64,
) -> Done {
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        for i in 0..bytes / 8 {
            let (a, b) = (a.lane::<u32>(2 * i), b.lane::<u32>(2 * i));
            // Zero times anything.
            let zero = a == Some(0) || b == Some(0);
            let value = a.zip(b).map(|(a, b)| apply(a, b));
            result.set_lane(i, if zero { Some(0) } else { value });
        }
        result
    })
}

/// `pmaddwd` and `pmaddubsw`: products of lanes, added in pairs.
pub(super) fn multiply_add<A: Lane, B: Lane, R: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn([A; 2], [B; 2]) -> R,
) -> Done {
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        for i in 0..bytes / R::BYTES {
            let a = a.lane(2 * i).zip(a.lane(2 * i + 1));
            let b = b.lane(2 * i).zip(b.lane(2 * i + 1));
            let value = a.zip(b).map(|(a, b)| apply([a.0, a.1], [b.0, b.1]));
            result.set_lane(i, value);
        }
        result
    })
}

/// `phadd*`, `phsub*`, `haddps`, ...: neighbours of the first source, then of the second, within
/// each half.
pub(super) fn neighbours<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(L, L) -> Option<L>,
) -> Done {
    let count = HALF / L::BYTES;
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        for i in 0..bytes / L::BYTES {
            let (half, place) = (i / count * count, i % count);
            let source = if place < count / 2 { a } else { b };
            let from = half + 2 * place % count;
            let pair = source.lane(from).zip(source.lane(from + 1));
            result.set_lane(i, pair.and_then(|(x, y)| apply(x, y)));
        }
        result
    })
}

/// Sums of the differences of eight bytes each.
pub(super) fn psadbw(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        for i in 0..bytes / 8 {
            let sum: Option<u64> = (8 * i..8 * i + 8)
                .map(|i| Some(u64::from(a.byte(i)?.abs_diff(b.byte(i)?))))
                .sum();
            // It fits 16 bits; the rest is zero whatever the bytes.
            let word = match sum {
                Some(sum) => Word::known(sum),
                None => Word::partial(0, 0xfc),
            };
            result.set_word(i, word);
        }
        result
    })
}

/// The least of eight unsigned 16-bit lanes, and which it is.
pub(super) fn phminposuw(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let source = read(m, d, 1)?;
    let lanes: [Option<u16>; 8] = std::array::from_fn(|i| source.lane(i));
    let mut least = Some((u16::MAX, 0u16));
    for (i, lane) in (0u16..).zip(lanes) {
        least = least.zip(lane).map(|(least, lane)| {
            // The first lane is taken even if it is the greatest there can be.
            if lane < least.0 || i == 0 {
                (lane, i)
            } else {
                least
            }
        });
    }
    let mut result = Vector::ZERO;
    result.set_lane(0, least.map(|(value, _)| value));
    result.set_lane(1, least.map(|(_, place)| place));
    write(m, d, 0, &result)
}

/// Shifts of all lanes by one count: an immediate, or the low 64 bits of a vector.
pub(super) fn shift<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(L, u64) -> L,
) -> Done {
    let first = first_source(d);
    let source = read(m, d, first)?;
    let count = if d.instruction().try_immediate(first + 1).is_ok() {
        Some(u64::from(immediate(d)))
    } else {
        read(m, d, first + 1)?.lane::<u64>(0)
    };
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / L::BYTES {
        let lane = source.lane::<L>(i);
        result.set_lane(i, lane.zip(count).map(|(lane, count)| apply(lane, count)));
    }
    write(m, d, 0, &result)
}

/// `psadbw` of blocks that the immediate chooses.
pub(super) fn mpsadbw(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = immediate(d);
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        for half in 0..bytes / HALF {
            let control = usize::from(control >> (3 * half) & 7);
            let from_a = HALF * half + (control >> 2) * 4;
            let from_b = HALF * half + (control & 3) * 4;
            for i in 0..8 {
                let sum: Option<u16> = (0..4)
                    .map(|k| {
                        let (x, y) = (a.byte(from_a + i + k)?, b.byte(from_b + k)?);
                        Some(u16::from(x.abs_diff(y)))
                    })
                    .sum();
                result.set_lane(8 * half + i, sum);
            }
        }
        result
    })
}

/// The upper half of a product of 16-bit lanes, rounded.
pub(super) fn multiply_high_rounded(a: i16, b: i16) -> i16 {
    ((((i32::from(a) * i32::from(b)) >> 14) + 1) >> 1) as i16
}

pub(super) fn multiply_signed(a: u32, b: u32) -> u64 {
    (i64::from(a as i32) * i64::from(b as i32)) as u64
}

/// Two products added.
pub(super) fn products(a: [i16; 2], b: [i16; 2]) -> i32 {
    let [x, y] = [0, 1].map(|i| i32::from(a[i]) * i32::from(b[i]));
    // Only the sum of two products of the least numbers does not fit.
    x.wrapping_add(y)
}

/// Two products of an unsigned and a signed byte added, saturated.
pub(super) fn saturated_products(a: [u8; 2], b: [i8; 2]) -> i16 {
    let [x, y] = [0, 1].map(|i| i16::from(a[i]) * i16::from(b[i]));
    x.saturating_add(y)
}

macro_rules! shifts {
    ($($left:ident $right:ident $lane:ty;)*) => {$(
        /// Shifted out altogether by a count past the lane's width.
        pub(super) fn $left(lane: $lane, count: u64) -> $lane {
            u32::try_from(count).ok().and_then(|c| lane.checked_shl(c)).unwrap_or(0)
        }

        pub(super) fn $right(lane: $lane, count: u64) -> $lane {
            u32::try_from(count).ok().and_then(|c| lane.checked_shr(c)).unwrap_or(0)
        }
    )*};
}

shifts! {
    left_16 right_16 u16;
    left_32 right_32 u32;
    left_64 right_64 u64;
}

/// Filled with the sign by a count past the lane's width.
pub(super) fn arithmetic_16(lane: i16, count: u64) -> i16 {
    lane >> count.min(15)
}

pub(super) fn arithmetic_32(lane: i32, count: u64) -> i32 {
    lane >> count.min(31)
}
