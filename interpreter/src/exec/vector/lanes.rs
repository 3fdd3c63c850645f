//! What AVX-512 adds, lane by lane, and multiplications that accumulate.

use iced_x86::{Mnemonic, Register};

use super::sparse::conflict;
use super::{
    Done, binary_immediate, immediate, int, lane_pairs, lanes, masks, read, size, unary, write,
};
use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine};
use crate::vector::{HALF, Lane, Vector};

/// Each lane of the destination with its likes of two sources.
fn lane_triples<L: Lane, R: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(L, R, R) -> L,
) -> Done {
    let (a, b, c) = (read(m, d, 0)?, read(m, d, 1)?, read(m, d, 2)?);
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / L::BYTES {
        let sources = b.lane(i).zip(c.lane(i));
        let value = a.lane(i).zip(sources).map(|(a, (b, c))| apply(a, b, c));
        result.set_lane(i, value);
    }
    write(m, d, 0, &result)
}

/// Each lane, and the immediate.
fn with_immediate<L: Lane>(m: &mut Machine<'_>, d: &Decoded, apply: impl Fn(L, u32) -> L) -> Done {
    let by = u32::from(immediate(d));
    lanes(m, d, |a| apply(a, by))
}

/// Each pair of lanes, and the immediate.
fn pairs_with_immediate<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(L, L, u32) -> L,
) -> Done {
    let by = u32::from(immediate(d));
    lane_pairs(m, d, |a, b| apply(a, b, by))
}

/// Sums of products of neighbouring parts, added to the destination.
fn dot<A: Lane + Into<i64>, B: Lane + Into<i64>>(
    m: &mut Machine<'_>,
    d: &Decoded,
    saturates: bool,
) -> Done {
    let (old, a, b) = (read(m, d, 0)?, read(m, d, 1)?, read(m, d, 2)?);
    let parts = 4 / A::BYTES;
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / 4 {
        let products: Option<i64> = (i * parts..(i + 1) * parts)
            .map(|k| Some(a.lane::<A>(k)?.into() * b.lane::<B>(k)?.into()))
            .sum();
        let value = old.lane::<i32>(i).zip(products).map(|(old, products)| {
            let sum = i64::from(old) + products;
            if saturates {
                sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32
            } else {
                sum as i32
            }
        });
        result.set_lane(i, value);
    }
    write(m, d, 0, &result)
}

/// The low or high 52 bits of a product of 52-bit numbers, added.
fn multiply_52(m: &mut Machine<'_>, d: &Decoded, shift: u32) -> Done {
    const PART: u64 = (1 << 52) - 1;
    lane_triples(m, d, |sum: u64, a: u64, b: u64| {
        let product = u128::from(a & PART) * u128::from(b & PART);
        sum.wrapping_add((product >> shift) as u64 & PART)
    })
}

/// Lanes of the chosen source: the second where the mask has a one, else the first.
fn blend<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let instruction = d.instruction();
    let (a, b) = (read(m, d, 1)?, read(m, d, 2)?);
    let mask = masks::mask(m, instruction.op_mask());
    let all = instruction.op_mask() == Register::None;
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / L::BYTES {
        let chosen = if all { Some(true) } else { mask.bit(i as u32) };
        for k in i * L::BYTES..(i + 1) * L::BYTES {
            let other = if instruction.zeroing_masking() {
                Some(0)
            } else {
                a.byte(k)
            };
            let value = match chosen {
                Some(true) => b.byte(k),
                Some(false) => other,
                None => other.filter(|_| other == b.byte(k)),
            };
            result.set_byte(k, value);
        }
    }
    super::set_register(m, d, instruction.op0_register(), &result);
    Ok(Flow::Next)
}

/// Lanes from anywhere in one table or two: index by index.
pub(super) fn permute<L: Lane + Into<u64>>(
    m: &mut Machine<'_>,
    d: &Decoded,
    index: u32,
    tables: &[u32],
) -> Done {
    let indices = read(m, d, index)?;
    let count = size(d, 0) / L::BYTES;
    let mut sources = [Vector::ZERO; 2];
    for (source, table) in sources.iter_mut().zip(tables) {
        *source = read(m, d, *table)?;
    }
    let result = Vector::arrange(size(d, 0), |i| {
        let index: u64 = indices.lane::<L>(i / L::BYTES)?.into();
        let index = index as usize % (count * tables.len());
        sources[index / count].byte(index % count * L::BYTES + i % L::BYTES)
    });
    write(m, d, 0, &result)
}

/// `valignd`, `valignq`: both sources in a row, the second the lower, moved down by lanes.
fn align(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let bytes = size(d, 0);
    let by = usize::from(immediate(d)) % (bytes / lane) * lane;
    let (high, low) = (read(m, d, 1)?, read(m, d, 2)?);
    let result = Vector::arrange(bytes, |i| match i + by {
        place if place < bytes => low.byte(place),
        place => high.byte(place - bytes),
    });
    write(m, d, 0, &result)
}

/// `vpmultishiftqb`: eight bits from anywhere in a lane, for each of its bytes.
fn multishift(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let (control, source) = (read(m, d, 1)?, read(m, d, 2)?);
    let result = Vector::arrange(size(d, 0), |i| {
        let by = u32::from(control.byte(i)?) & 63;
        Some(source.lane::<u64>(i / 8)?.rotate_right(by) as u8)
    });
    write(m, d, 0, &result)
}

/// `vpmovqd` and the like: lanes made narrower; what is left of a register is zero.
fn narrow<From: Lane, To: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(From) -> To,
) -> Done {
    let source = read(m, d, 1)?;
    let mut result = Vector::ZERO;
    for i in 0..size(d, 1) / From::BYTES {
        result.set_lane(i, source.lane(i).map(&apply));
    }
    write(m, d, 0, &result)
}

macro_rules! funnels {
    ($($left:ident $right:ident $lane:ty;)*) => {$(
        /// The upper half of two lanes moved up.
        fn $left(high: $lane, low: $lane, by: u32) -> $lane {
            let by = by % <$lane>::BITS;
            if by == 0 { high } else { high << by | low >> (<$lane>::BITS - by) }
        }

        /// The lower half of two lanes moved down.
        fn $right(low: $lane, high: $lane, by: u32) -> $lane {
            let by = by % <$lane>::BITS;
            if by == 0 { low } else { low >> by | high << (<$lane>::BITS - by) }
        }
    )*};
}

funnels! {
    up_16 down_16 u16;
    up_32 down_32 u32;
    up_64 down_64 u64;
}

fn arithmetic_64(lane: i64, count: u64) -> i64 {
    lane >> count.min(63)
}

/// Shifts, rotations and counts.
fn shifting(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vpsraq => |m, d| int::shift(m, d, arithmetic_64),
        M::Vpsravq => |m, d| lane_pairs(m, d, |a, by: i64| arithmetic_64(a, by as u64)),
        M::Vpsllvw => |m, d| lane_pairs(m, d, |a, by: u16| int::left_16(a, by.into())),
        M::Vpsrlvw => |m, d| lane_pairs(m, d, |a, by: u16| int::right_16(a, by.into())),
        M::Vpsravw => {
            |m, d| lane_pairs(m, d, |a, by: i16| int::arithmetic_16(a, (by as u16).into()))
        }
        M::Vprold => |m, d| with_immediate(m, d, u32::rotate_left),
        M::Vprolq => |m, d| with_immediate(m, d, u64::rotate_left),
        M::Vprord => |m, d| with_immediate(m, d, u32::rotate_right),
        M::Vprorq => |m, d| with_immediate(m, d, u64::rotate_right),
        M::Vprolvd => |m, d| lane_pairs(m, d, |a: u32, by: u32| a.rotate_left(by & 31)),
        M::Vprolvq => |m, d| lane_pairs(m, d, |a: u64, by: u64| a.rotate_left(by as u32 & 63)),
        M::Vprorvd => |m, d| lane_pairs(m, d, |a: u32, by: u32| a.rotate_right(by & 31)),
        M::Vprorvq => |m, d| lane_pairs(m, d, |a: u64, by: u64| a.rotate_right(by as u32 & 63)),
        M::Vpshldw => |m, d| pairs_with_immediate(m, d, up_16),
        M::Vpshldd => |m, d| pairs_with_immediate(m, d, up_32),
        M::Vpshldq => |m, d| pairs_with_immediate(m, d, up_64),
        M::Vpshrdw => |m, d| pairs_with_immediate(m, d, down_16),
        M::Vpshrdd => |m, d| pairs_with_immediate(m, d, down_32),
        M::Vpshrdq => |m, d| pairs_with_immediate(m, d, down_64),
        M::Vpshldvw => |m, d| lane_triples(m, d, |a, b, by: u16| up_16(a, b, by.into())),
        M::Vpshldvd => |m, d| lane_triples(m, d, up_32),
        M::Vpshldvq => |m, d| lane_triples(m, d, |a, b, by: u64| up_64(a, b, by as u32 & 63)),
        M::Vpshrdvw => |m, d| lane_triples(m, d, |a, b, by: u16| down_16(a, b, by.into())),
        M::Vpshrdvd => |m, d| lane_triples(m, d, down_32),
        M::Vpshrdvq => |m, d| lane_triples(m, d, |a, b, by: u64| down_64(a, b, by as u32 & 63)),
        M::Vpconflictd => |m, d| unary(m, d, |s, bytes| conflict(s, bytes, |bits| bits as u32)),
        M::Vpconflictq => |m, d| unary(m, d, |s, bytes| conflict(s, bytes, |bits| bits)),
        M::Vplzcntd => |m, d| lanes(m, d, u32::leading_zeros),
        M::Vplzcntq => |m, d| lanes(m, d, |a: u64| u64::from(a.leading_zeros())),
        M::Vpopcntb => |m, d| lanes(m, d, |a: u8| a.count_ones() as u8),
        M::Vpopcntw => |m, d| lanes(m, d, |a: u16| a.count_ones() as u16),
        M::Vpopcntd => |m, d| lanes(m, d, u32::count_ones),
        M::Vpopcntq => |m, d| lanes(m, d, |a: u64| u64::from(a.count_ones())),
        _ => return None,
    };
    Some(handler)
}

/// Arithmetic.
fn arithmetic(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vpabsq => |m, d| lanes(m, d, i64::wrapping_abs),
        M::Vpminsq => |m, d| lane_pairs(m, d, <i64 as Ord>::min),
        M::Vpmaxsq => |m, d| lane_pairs(m, d, <i64 as Ord>::max),
        M::Vpminuq => |m, d| lane_pairs(m, d, <u64 as Ord>::min),
        M::Vpmaxuq => |m, d| lane_pairs(m, d, <u64 as Ord>::max),
        M::Vdbpsadbw => differences,
        M::Vpmullq => |m, d| lane_pairs(m, d, i64::wrapping_mul),
        M::Vpmadd52luq => |m, d| multiply_52(m, d, 0),
        M::Vpmadd52huq => |m, d| multiply_52(m, d, 52),
        M::Vpdpbusd => |m, d| dot::<u8, i8>(m, d, false),
        M::Vpdpbusds => |m, d| dot::<u8, i8>(m, d, true),
        M::Vpdpwssd => |m, d| dot::<i16, i16>(m, d, false),
        M::Vpdpwssds => |m, d| dot::<i16, i16>(m, d, true),
        _ => return None,
    };
    Some(handler)
}

/// `vdbpsadbw`: sums of the differences of four bytes each, of the first source at every fourth
/// byte, of the second, whose 32-bit lanes the immediate arranges within each half, at every one.
fn differences(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        let mut result = Vector::ZERO;
        for i in 0..bytes / 2 {
            let (first, word) = (i / 4 * 8, i % 4);
            let sum: Option<u16> = (0..4)
                .map(|k| {
                    let at = first % HALF + word + k;
                    let lane = usize::from(control >> (at / 4 * 2) & 3);
                    let other = b.byte(first / HALF * HALF + lane * 4 + at % 4)?;
                    let one = a.byte(first + word / 2 * 4 + k)?;
                    Some(u16::from(one.abs_diff(other)))
                })
                .sum();
            result.set_lane(i, sum);
        }
        result
    })
}

/// Lanes in new places and widths.
fn moving(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vpblendmb => blend::<u8>,
        M::Vpblendmw => blend::<u16>,
        M::Vpblendmd | M::Vblendmps => blend::<u32>,
        M::Vpblendmq | M::Vblendmpd => blend::<u64>,
        M::Vpermb => |m, d| permute::<u8>(m, d, 1, &[2]),
        M::Vpermw => |m, d| permute::<u16>(m, d, 1, &[2]),
        M::Vpermi2b => |m, d| permute::<u8>(m, d, 0, &[1, 2]),
        M::Vpermi2w => |m, d| permute::<u16>(m, d, 0, &[1, 2]),
        M::Vpermi2d | M::Vpermi2ps => |m, d| permute::<u32>(m, d, 0, &[1, 2]),
        M::Vpermi2q | M::Vpermi2pd => |m, d| permute::<u64>(m, d, 0, &[1, 2]),
        M::Vpermt2b => |m, d| permute::<u8>(m, d, 1, &[0, 2]),
        M::Vpermt2w => |m, d| permute::<u16>(m, d, 1, &[0, 2]),
        M::Vpermt2d | M::Vpermt2ps => |m, d| permute::<u32>(m, d, 1, &[0, 2]),
        M::Vpermt2q | M::Vpermt2pd => |m, d| permute::<u64>(m, d, 1, &[0, 2]),
        M::Valignd => |m, d| align(m, d, 4),
        M::Valignq => |m, d| align(m, d, 8),
        M::Vpmultishiftqb => multishift,
        M::Vpmovwb => |m, d| narrow(m, d, |a: u16| a as u8),
        M::Vpmovdb => |m, d| narrow(m, d, |a: u32| a as u8),
        M::Vpmovqb => |m, d| narrow(m, d, |a: u64| a as u8),
        M::Vpmovdw => |m, d| narrow(m, d, |a: u32| a as u16),
        M::Vpmovqw => |m, d| narrow(m, d, |a: u64| a as u16),
        M::Vpmovqd => |m, d| narrow(m, d, |a: u64| a as u32),
        M::Vpmovswb => |m, d| narrow(m, d, |a: i16| a.clamp(i8::MIN.into(), i8::MAX.into()) as i8),
        M::Vpmovuswb => |m, d| narrow(m, d, |a: u16| a.min(u8::MAX.into()) as u8),
        M::Vpmovsdb => |m, d| narrow(m, d, |a: i32| a.clamp(i8::MIN.into(), i8::MAX.into()) as i8),
        M::Vpmovusdb => |m, d| narrow(m, d, |a: u32| a.min(u8::MAX.into()) as u8),
        M::Vpmovsqb => |m, d| narrow(m, d, |a: i64| a.clamp(i8::MIN.into(), i8::MAX.into()) as i8),
        M::Vpmovusqb => |m, d| narrow(m, d, |a: u64| a.min(u8::MAX.into()) as u8),
        M::Vpmovsdw => |m, d| {
            narrow(m, d, |a: i32| {
                a.clamp(i16::MIN.into(), i16::MAX.into()) as i16
            })
        },
        M::Vpmovusdw => |m, d| narrow(m, d, |a: u32| a.min(u16::MAX.into()) as u16),
        M::Vpmovsqw => |m, d| {
            narrow(m, d, |a: i64| {
                a.clamp(i16::MIN.into(), i16::MAX.into()) as i16
            })
        },
        M::Vpmovusqw => |m, d| narrow(m, d, |a: u64| a.min(u16::MAX.into()) as u16),
        M::Vpmovsqd => |m, d| {
            narrow(m, d, |a: i64| {
                a.clamp(i32::MIN.into(), i32::MAX.into()) as i32
            })
        },
        M::Vpmovusqd => |m, d| narrow(m, d, |a: u64| a.min(u32::MAX.into()) as u32),
        _ => return None,
    };
    Some(handler)
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    shifting(mnemonic)
        .or_else(|| arithmetic(mnemonic))
        .or_else(|| moving(mnemonic))
}
