//! Shuffles, blends and packing: bytes in new places.

use iced_x86::Register;

use super::{
    Done, binary, binary_immediate, first_source, immediate, is_legacy, read, size, unary, write,
};
use crate::decode::Decoded;
use crate::machine::Machine;
use crate::vector::{HALF, Lane, Vector};

/// A field of two bits of an immediate.
fn field(immediate: u8, i: usize) -> usize {
    usize::from(immediate >> (2 * (i & 3)) & 3)
}

/// First byte of the 128-bit half that a byte lies in.
fn base(byte: usize) -> usize {
    byte & !(HALF - 1)
}

pub(super) fn pshufd(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = immediate(d);
    unary(m, d, |source, bytes| {
        Vector::arrange(bytes, |i| {
            source.byte(base(i) + 4 * field(control, i / 4) + i % 4)
        })
    })
}

pub(super) fn pshuflw(m: &mut Machine<'_>, d: &Decoded) -> Done {
    shuffle_words(m, d, 0)
}

pub(super) fn pshufhw(m: &mut Machine<'_>, d: &Decoded) -> Done {
    shuffle_words(m, d, 8)
}

/// Shuffles the four 16-bit lanes from byte `first` of each half on.
fn shuffle_words(m: &mut Machine<'_>, d: &Decoded, first: usize) -> Done {
    let control = immediate(d);
    unary(m, d, |source, bytes| {
        Vector::arrange(bytes, |i| {
            if i & 8 == first {
                source.byte(base(i) + first + 2 * field(control, i / 2) + i % 2)
            } else {
                source.byte(i)
            }
        })
    })
}

pub(super) fn shufps(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        Vector::arrange(bytes, |i| {
            let from = if i & 8 == 0 { a } else { b };
            from.byte(base(i) + 4 * field(control, i / 4) + i % 4)
        })
    })
}

pub(super) fn shufpd(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        Vector::arrange(bytes, |i| {
            let from = if i & 8 == 0 { a } else { b };
            from.byte(base(i) + 8 * usize::from(control >> (i / 8) & 1) + i % 8)
        })
    })
}

/// `punpckl*`, `unpcklp*` (`from` 0) and `punpckh*`, `unpckhp*` (`from` 8): lanes of both in turn.
pub(super) fn unpack(m: &mut Machine<'_>, d: &Decoded, lane: usize, from: usize) -> Done {
    binary(m, d, |a, b, bytes| {
        Vector::arrange(bytes, |i| {
            let place = i % HALF;
            let source = if (place / lane) & 1 == 0 { a } else { b };
            source.byte(base(i) + from + place / (2 * lane) * lane + place % lane)
        })
    })
}

pub(super) fn palignr(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, shift| {
        Vector::arrange(bytes, |i| match i % HALF + usize::from(shift) {
            place @ 0..16 => b.byte(base(i) + place),
            place @ 16..32 => a.byte(base(i) + place - HALF),
            _ => Some(0),
        })
    })
}

pub(super) fn pshufb(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary(m, d, |a, control, bytes| {
        Vector::arrange(bytes, |i| match control.byte(i)? {
            place if place >= 0x80 => Some(0),
            place => a.byte(base(i) + usize::from(place & 15)),
        })
    })
}

/// Bytes shifted by an immediate number of places within each half (`pslldq`).
pub(super) fn pslldq(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let shift = usize::from(immediate(d));
    let first = first_source(d);
    let source = read(m, d, first)?;
    let result = Vector::arrange(size(d, 0), |i| match (i % HALF).checked_sub(shift) {
        Some(place) => source.byte(base(i) + place),
        None => Some(0),
    });
    write(m, d, 0, &result)
}

/// `psrldq`.
pub(super) fn psrldq(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let shift = usize::from(immediate(d));
    let first = first_source(d);
    let source = read(m, d, first)?;
    let result = Vector::arrange(size(d, 0), |i| match i % HALF + shift {
        place @ 0..16 => source.byte(base(i) + place),
        _ => Some(0),
    });
    write(m, d, 0, &result)
}

/// `pblendw` (whose immediate counts for each half), `blendps`, `blendpd`, `vpblendd`.
pub(super) fn blend(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        Vector::arrange(bytes, |i| {
            let from = if control >> (i / lane % 8) & 1 == 0 {
                a
            } else {
                b
            };
            from.byte(i)
        })
    })
}

/// `pblendvb`, `blendvps`, `blendvpd`: the sign of the mask's lane chooses. The legacy mask is
/// `xmm0`.
pub(super) fn blend_by(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let mask = if is_legacy(d) {
        super::vector_register(m, Register::XMM0)
    } else {
        read(m, d, 3)?
    };
    binary(m, d, |a, b, bytes| {
        Vector::arrange(bytes, |i| {
            let (a, b) = (a.byte(i), b.byte(i));
            match mask.byte(i / lane * lane + lane - 1) {
                Some(0..0x80) => a,
                Some(_) => b,
                None => a.filter(|_| a == b),
            }
        })
    })
}

/// `packsswb` and the like: the lanes of both sources made half as wide, within each half.
pub(super) fn pack<From: Lane, To: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(From) -> To,
) -> Done {
    let count = HALF / From::BYTES;
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        for half in 0..bytes / HALF {
            for i in 0..count {
                let from = half * count + i;
                let to = half * 2 * count + i;
                result.set_lane(to, a.lane(from).map(&apply));
                result.set_lane(to + count, b.lane(from).map(&apply));
            }
        }
        result
    })
}

/// `vperm2f128`, `vperm2i128`.
pub(super) fn permute_128(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        Vector::arrange(bytes, |i| {
            let control = control >> (4 * (i / HALF));
            if control & 8 != 0 {
                return Some(0);
            }
            let from = if control & 2 == 0 { a } else { b };
            from.byte(HALF * usize::from(control & 1) + i % HALF)
        })
    })
}

/// `vshuff32x4` and the like: the lower half from the first source, the upper from the second.
pub(super) fn shuffle_128(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary_immediate(m, d, |a, b, bytes, control| {
        let count = bytes / HALF;
        let bits = count / 2;
        Vector::arrange(bytes, |i| {
            let place = i / HALF;
            let from = if place < count / 2 { a } else { b };
            let chosen = usize::from(control >> (bits * place)) % count;
            from.byte(HALF * chosen + i % HALF)
        })
    })
}

/// `vpermq`, `vpermpd`.
pub(super) fn permute_64(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = immediate(d);
    unary(m, d, |source, bytes| {
        Vector::arrange(bytes, |i| {
            source.byte((i & !31) + 8 * field(control, i / 8) + i % 8)
        })
    })
}

/// `vpermd`, `vpermps`: the first source says where from.
pub(super) fn permute_32(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary(m, d, |control, source, bytes| {
        Vector::arrange(bytes, |i| {
            let place = usize::from(control.byte(i & !3)?) % (bytes / 4);
            source.byte(4 * place + i % 4)
        })
    })
}

/// `vpermilps`: by an immediate or by a vector.
pub(super) fn permil_32(m: &mut Machine<'_>, d: &Decoded) -> Done {
    if d.instruction().try_immediate(2).is_ok() {
        return pshufd(m, d);
    }
    binary(m, d, |source, control, bytes| {
        Vector::arrange(bytes, |i| {
            let place = control.byte(i & !3)? & 3;
            source.byte(base(i) + 4 * usize::from(place) + i % 4)
        })
    })
}

/// `vpermilpd`: by an immediate or by a vector.
pub(super) fn permil_64(m: &mut Machine<'_>, d: &Decoded) -> Done {
    if d.instruction().try_immediate(2).is_ok() {
        let control = immediate(d);
        return unary(m, d, |source, bytes| {
            Vector::arrange(bytes, |i| {
                source.byte(base(i) + 8 * usize::from(control >> (i / 8) & 1) + i % 8)
            })
        });
    }
    binary(m, d, |source, control, bytes| {
        Vector::arrange(bytes, |i| {
            let place = control.byte(i & !7)? >> 1 & 1;
            source.byte(base(i) + 8 * usize::from(place) + i % 8)
        })
    })
}
