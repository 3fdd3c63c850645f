//! Comparisons, and tests that set flags.

use super::{Done, binary, first_source, read, same, size, write};
use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::rflags::Flag;
use crate::vector::{Lane, Vector};
use crate::word::Word;

/// All ones or zero.
fn truth(holds: Option<bool>) -> Option<u8> {
    holds.map(|holds| if holds { u8::MAX } else { 0 })
}

/// `pcmpeq*`: one differing byte settles a lane; a register equals itself, known or not.
pub(super) fn equal(m: &mut Machine<'_>, d: &Decoded, lane: usize) -> Done {
    let first = first_source(d);
    if same(d, first, first + 1) {
        let ones = Vector::arrange(size(d, 0), |_| Some(u8::MAX));
        return write(m, d, 0, &ones);
    }
    binary(m, d, |a, b, bytes| {
        Vector::arrange(bytes, |i| {
            let start = i / lane * lane;
            let mut holds = Some(true);
            for place in start..start + lane {
                match (a.byte(place), b.byte(place)) {
                    (Some(x), Some(y)) if x != y => return Some(0),
                    (Some(_), Some(_)) => {}
                    _ => holds = None,
                }
            }
            truth(holds)
        })
    })
}

/// `pcmpgt*`: a register is not greater than itself.
pub(super) fn greater<L: Lane + PartialOrd>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let first = first_source(d);
    if same(d, first, first + 1) {
        return write(m, d, 0, &Vector::ZERO);
    }
    binary(m, d, |a, b, bytes| {
        Vector::arrange(bytes, |i| {
            let pair = a.lane::<L>(i / L::BYTES).zip(b.lane::<L>(i / L::BYTES));
            truth(pair.map(|(a, b)| a > b))
        })
    })
}

/// `ptest` and, on the signs alone, `vtestps` and `vtestpd`: ZF if both have no bit in common, CF
/// if the second has none that the first lacks.
pub(super) fn test(m: &mut Machine<'_>, d: &Decoded, mask: u64) -> Done {
    let a = read(m, d, 0)?;
    let b = read(m, d, 1)?;
    let mask = Word::known(mask);
    let is_zero = |vector: &Vector| {
        (0..4)
            .map(|i| (vector.word(i) & mask).is_zero())
            .try_fold(true, |all, zero| match zero {
                Some(false) => Err(Some(false)),
                // An unknown word may still be overruled by one that is not zero.
                Some(true) => Ok(all),
                None => Ok(false),
            })
            .map_or_else(|settled| settled, |all| all.then_some(true))
    };
    let common = a.zip_words(&b, |a, b| a & b);
    let lacking = a.zip_words(&b, |a, b| !a & b);
    let flags = m.flags();
    flags.set(Flag::Zf, is_zero(&common));
    flags.set(Flag::Cf, is_zero(&lacking));
    for flag in [Flag::Of, Flag::Sf, Flag::Af, Flag::Pf] {
        flags.set(flag, Some(false));
    }
    Ok(Flow::Next)
}
