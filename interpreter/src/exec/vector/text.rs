//! `pcmpestri` and its like: two short texts compared in one of four ways.

use iced_x86::{Mnemonic, Register};

use super::{Done, immediate, read, set_register};
use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine, RAX, RCX, RDX};
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::vector::{HALF, Vector};
use crate::word::{Width, Word};

/// A truth value that may be unknown.
type Truth = Option<bool>;

fn and(a: Truth, b: Truth) -> Truth {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Truth, b: Truth) -> Truth {
    and(a.map(|a| !a), b.map(|b| !b)).map(|neither| !neither)
}

/// The control byte.
#[derive(Clone, Copy)]
struct Control(u8);

impl Control {
    /// Elements of a text: bytes or 16-bit words.
    fn count(self) -> usize {
        if self.0 & 1 == 0 { 16 } else { 8 }
    }

    fn is_signed(self) -> bool {
        self.0 & 2 != 0
    }

    /// Equal to any, in ranges, equal in each place, found in order.
    fn comparison(self) -> u8 {
        self.0 >> 2 & 3
    }

    /// The result of each place is turned round; only in places within the second text.
    fn negates(self) -> bool {
        self.0 & 0x10 != 0
    }

    fn only_within(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// The highest index instead of the lowest; lanes instead of bits.
    fn is_wide(self) -> bool {
        self.0 & 0x40 != 0
    }
}

/// One operand.
struct Text {
    elements: [Option<i32>; HALF],
    /// Whether an element lies before the end of the text.
    within: [Truth; HALF],
}

impl Text {
    /// The length is explicit, or the text ends before its first zero.
    fn new(vector: &Vector, control: Control, length: Option<Word>) -> Self {
        let count = control.count();
        let elements = std::array::from_fn(|i| match (control.count(), control.is_signed()) {
            _ if i >= count => None,
            (16, false) => vector.lane::<u8>(i).map(i32::from),
            (16, true) => vector.lane::<i8>(i).map(i32::from),
            (_, false) => vector.lane::<u16>(i).map(i32::from),
            (_, true) => vector.lane::<i16>(i).map(i32::from),
        });
        let mut before_end = Some(true);
        let within = std::array::from_fn(|i| match length {
            Some(length) => length
                .all()
                .map(|length| (i as u64) < (length as i64).unsigned_abs()),
            None => {
                before_end = and(before_end, elements[i].map(|element| element != 0));
                before_end
            }
        });
        Self { elements, within }
    }

    /// Whether the text ends within the register.
    fn ends(&self, control: Control) -> Truth {
        self.within[control.count() - 1].map(|within| !within)
    }
}

/// Whether element `j` of the second text compares with element `i` of the first as asked, where
/// texts that have ended are taken as the comparison wants it.
fn compare(control: Control, first: &Text, second: &Text, i: usize, j: usize) -> Truth {
    let pair = first.elements[i].zip(second.elements[j]);
    let holds = pair.map(|(a, b)| match control.comparison() {
        1 if i.is_multiple_of(2) => b >= a,
        1 => b <= a,
        _ => a == b,
    });
    let (in_first, in_second) = (first.within[i], second.within[j]);
    let both = and(in_first, in_second);
    let in_both = and(both, holds);
    let neither = |a: Truth, b: Truth| or(a, b).map(|any| !any);
    match control.comparison() {
        2 => or(in_both, neither(in_first, in_second)),
        3 => or(in_both, in_first.map(|within| !within)),
        _ => in_both,
    }
}

/// The result of place `j` of the second text.
fn place(control: Control, first: &Text, second: &Text, j: usize) -> Truth {
    let count = control.count();
    let compare = |i, j| compare(control, first, second, i, j);
    let result = match control.comparison() {
        0 => (0..count).map(|i| compare(i, j)).fold(Some(false), or),
        1 => (0..count / 2)
            .map(|i| and(compare(2 * i, j), compare(2 * i + 1, j)))
            .fold(Some(false), or),
        2 => compare(j, j),
        _ => (0..count - j)
            .map(|i| compare(i, j + i))
            .fold(Some(true), and),
    };
    let turned = match (control.negates(), control.only_within()) {
        (false, _) => Some(false),
        (true, false) => Some(true),
        (true, true) => second.within[j],
    };
    match (result, turned) {
        (Some(result), Some(turned)) => Some(result != turned),
        _ => None,
    }
}

/// The results of all places; sets the flags.
fn results(
    m: &mut Machine<'_>,
    d: &Decoded,
    explicit: Option<Width>,
) -> Result<[Truth; HALF], StopReason> {
    let control = Control(immediate(d));
    let count = control.count();
    let (a, b) = (read(m, d, 0)?, read(m, d, 1)?);
    let length =
        |number| explicit.map(|width| m.part(number, width).sign_extend(width, Width::B64));
    let first = Text::new(&a, control, length(RAX));
    let second = Text::new(&b, control, length(RDX));
    let results = std::array::from_fn(|j| {
        if j < count {
            place(control, &first, &second, j)
        } else {
            Some(false)
        }
    });
    let flags = m.flags();
    flags.set(Flag::Cf, results.into_iter().fold(Some(false), or));
    flags.set(Flag::Zf, second.ends(control));
    flags.set(Flag::Sf, first.ends(control));
    flags.set(Flag::Of, results[0]);
    flags.set(Flag::Af, Some(false));
    flags.set(Flag::Pf, Some(false));
    Ok(results)
}

/// The index of the first or last place that holds, or the number of places.
fn index(m: &mut Machine<'_>, d: &Decoded, explicit: Option<Width>) -> Done {
    let control = Control(immediate(d));
    let results = results(m, d, explicit)?;
    let count = control.count();
    let mut places = results[..count].iter().enumerate();
    let decided = |(_, holds): &(usize, &Truth)| **holds != Some(false);
    let found = if control.is_wide() {
        places.rev().find(decided)
    } else {
        places.find(decided)
    };
    let index = match found {
        Some((index, holds)) => holds.map(|_| index),
        None => Some(count),
    };
    // Whatever it is, it fits a byte.
    let index = Word::of(Width::B8, index.map(|index| index as u64));
    m.write_part(d, RCX, Width::B32, index);
    Ok(Flow::Next)
}

/// The results as bits or lanes of `xmm0`.
fn mask(m: &mut Machine<'_>, d: &Decoded, explicit: Option<Width>) -> Done {
    let control = Control(immediate(d));
    let results = results(m, d, explicit)?;
    let count = control.count();
    let result = if control.is_wide() {
        Vector::arrange(HALF, |i| {
            results[i * count / HALF].map(|holds| if holds { u8::MAX } else { 0 })
        })
    } else {
        let (mut bits, mut known) = (0, u64::MAX);
        for (place, holds) in results.into_iter().enumerate() {
            match holds {
                Some(holds) => bits |= u64::from(holds) << place,
                None => known &= !(1 << place),
            }
        }
        Vector::from_word(Word::masked(bits, known))
    };
    set_register(m, d, Register::XMM0, &result);
    Ok(Flow::Next)
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Pcmpistri | M::Vpcmpistri => |m, d| index(m, d, None),
        M::Pcmpestri | M::Vpcmpestri => |m, d| index(m, d, Some(Width::B32)),
        M::Pcmpestri64 | M::Vpcmpestri64 => |m, d| index(m, d, Some(Width::B64)),
        M::Pcmpistrm | M::Vpcmpistrm => |m, d| mask(m, d, None),
        M::Pcmpestrm | M::Vpcmpestrm => |m, d| mask(m, d, Some(Width::B32)),
        M::Pcmpestrm64 | M::Vpcmpestrm64 => |m, d| mask(m, d, Some(Width::B64)),
        _ => return None,
    };
    Some(handler)
}
