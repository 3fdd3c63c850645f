//! Multiplication and division.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, RDX};
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

/// A double-width product split in two operands, and whether it does not fit the lower one.
struct Product {
    low: Word,
    high: Word,
    overflow: Option<bool>,
}

/// Signed value of an operand.
fn signed(width: Width, value: u64) -> i128 {
    let unused = 64 - width.bits();
    i128::from((value << unused) as i64 >> unused)
}

/// The low bytes of a product follow from the low bytes of its factors; zero decides.
fn product(width: Width, a: Word, b: Word, is_signed: bool) -> Product {
    let zero = a.is_zero() == Some(true) || b.is_zero() == Some(true);
    match (a.all(), b.all()) {
        (Some(a), Some(b)) => {
            let wide = if is_signed {
                (signed(width, a) * signed(width, b)) as u128
            } else {
                u128::from(a) * u128::from(b)
            };
            let low = wide as u64 & width.mask();
            let high = (wide >> width.bits()) as u64 & width.mask();
            let overflow = if is_signed {
                signed(width, low) != wide as i128
            } else {
                high != 0
            };
            Product {
                low: Word::known(low),
                high: Word::known(high),
                overflow: Some(overflow),
            }
        }
        _ if zero => Product {
            low: Word::ZERO,
            high: Word::ZERO,
            overflow: Some(false),
        },
        _ => {
            let bits = a.known_bits().wrapping_mul(b.known_bits());
            let low = Word::low_known(bits, a.prefix().min(b.prefix())).truncate(width);
            Product {
                low,
                high: Word::unknown(width),
                overflow: None,
            }
        }
    }
}

/// Writes rdx:rax, or ax for 8-bit operands.
fn write_pair(m: &mut Machine<'_>, d: &Decoded, width: Width, low: Word, high: Word) {
    if width == Width::B8 {
        let both = low.with_high_byte(high).truncate(Width::B16);
        m.write_part(d, RAX, Width::B16, both);
    } else {
        m.write_part(d, RAX, width, low);
        m.write_part(d, RDX, width, high);
    }
}

pub(super) fn mul(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wide(m, d, false)
}

fn wide(m: &mut Machine<'_>, d: &Decoded, is_signed: bool) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 0)?;
    let Product {
        low,
        high,
        overflow,
    } = product(width, m.part(RAX, width), source, is_signed);
    write_pair(m, d, width, low, high);
    m.flags().multiply(overflow);
    Ok(Flow::Next)
}

/// One, two or three operands.
pub(super) fn imul(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let operands = d.instruction().op_count();
    if operands == 1 {
        return wide(m, d, true);
    }
    let width = m.width(d, 0)?;
    let (first, second) = if operands == 2 { (0, 1) } else { (1, 2) };
    let a = m.read(d, first)?;
    let b = m.read_as(d, second, width)?;
    let low = multiplied(m.flags(), width, a, b);
    m.write(d, 0, low)?;
    Ok(Flow::Next)
}

/// The lower half of a signed product, and its flags.
#[inline]
pub(crate) fn multiplied(flags: &mut Flags, width: Width, a: Word, b: Word) -> Word {
    let Product { low, overflow, .. } = product(width, a, b, true);
    flags.multiply(overflow);
    low
}

/// `mulx`: rdx times the source, high half to the first operand, low half to the second; of equal
/// destinations the high half stays. No flags.
pub(super) fn mulx(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 2)?;
    let Product { low, high, .. } = product(width, m.part(RDX, width), source, false);
    if !Machine::same_register(d) {
        m.write(d, 1, low)?;
    }
    m.write(d, 0, high)?;
    Ok(Flow::Next)
}

pub(super) fn div(m: &mut Machine<'_>, d: &Decoded) -> Done {
    divide(m, d, false)
}

pub(super) fn idiv(m: &mut Machine<'_>, d: &Decoded) -> Done {
    divide(m, d, true)
}

fn divide(m: &mut Machine<'_>, d: &Decoded, is_signed: bool) -> Done {
    let width = m.width(d, 0)?;
    let divisor = m.read(d, 0)?;
    if divisor.is_zero() == Some(true) {
        return Err(StopReason::FaultingInstruction);
    }
    let (low, high) = if width == Width::B8 {
        (m.part(RAX, Width::B8), m.registers.gpr[RAX].high_byte())
    } else {
        (m.part(RAX, width), m.part(RDX, width))
    };
    let (quotient, remainder) = match (low.all(), high.all(), divisor.all()) {
        (Some(low), Some(high), Some(divisor)) => {
            let dividend = u128::from(high) << width.bits() | u128::from(low);
            let result = if is_signed {
                divide_signed(width, dividend, divisor)
            } else {
                divide_unsigned(width, dividend, divisor)
            };
            let (quotient, remainder) = result.ok_or(StopReason::FaultingInstruction)?;
            (
                Word::of(width, Some(quotient)),
                Word::of(width, Some(remainder)),
            )
        }
        // An unknown divisor may be zero, and a runtime may count on the exception. What has less
        // in its upper half than the divisor has a quotient that fits.
        (_, high, divisor) => {
            let fits = high
                .zip(divisor)
                .is_some_and(|(high, divisor)| high < divisor);
            if is_signed || !fits {
                return Err(StopReason::MayFault);
            }
            (Word::unknown(width), Word::unknown(width))
        }
    };
    write_pair(m, d, width, quotient, remainder);
    m.flags().forget_arithmetic();
    Ok(Flow::Next)
}

/// Quotient and remainder; `None` if the quotient does not fit.
fn divide_unsigned(width: Width, dividend: u128, divisor: u64) -> Option<(u64, u64)> {
    let quotient = dividend.checked_div(u128::from(divisor))?;
    let remainder = dividend.checked_rem(u128::from(divisor))?;
    (quotient <= u128::from(width.mask())).then_some((quotient as u64, remainder as u64))
}

/// Quotient and remainder, rounded to zero; `None` if the quotient does not fit.
fn divide_signed(width: Width, dividend: u128, divisor: u64) -> Option<(u64, u64)> {
    let unused = 128 - 2 * width.bits();
    let dividend = (dividend << unused) as i128 >> unused;
    let divisor = signed(width, divisor);
    let quotient = dividend.checked_div(divisor)?;
    let remainder = dividend.checked_rem(divisor)?;
    let fits = signed(width, quotient as u64 & width.mask()) == quotient;
    fits.then_some((quotient as u64, remainder as u64))
}
