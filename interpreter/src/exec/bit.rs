//! Single bits, bit scans, bit fields, checksums.

use iced_x86::OpKind;

use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

/// Copies a bit to CF and, with `change`, writes the operand with that bit changed. `change` gets
/// the operand and the mask of the bit.
fn test_bit(
    m: &mut Machine<'_>,
    d: &Decoded,
    change: Option<impl FnOnce(Word, Word) -> Word>,
) -> Done {
    let instruction = d.instruction();
    let width = m.width(d, 0)?;
    let offset = m.read_as(d, 1, width)?;
    if instruction.op0_kind() == OpKind::Memory && instruction.op1_kind() == OpKind::Register {
        // The offset reaches beyond the operand: a signed number of operands on.
        let units = offset.sign_extend(width, Width::B64).all().map(|offset| {
            (offset as i64 >> width.bits().trailing_zeros()).wrapping_mul(i64::from(width.bytes()))
                as u64
        });
        let address = units.and_then(|units| m.linear_address_beyond(d, units));
        m.set_address(address);
    }
    let value = m.read(d, 0)?;
    let index = offset
        .get(1)
        .map(|offset| offset as u32 & (width.bits() - 1));
    m.flags()
        .set(Flag::Cf, index.and_then(|index| value.bit(index)));
    m.flags().forget(&[Flag::Of, Flag::Sf, Flag::Af, Flag::Pf]);
    if let Some(change) = change {
        let changed = match index {
            Some(index) => change(value, Word::known(1 << index)).truncate(width),
            None => Word::unknown(width),
        };
        m.write(d, 0, changed)?;
    }
    Ok(Flow::Next)
}

pub(super) fn bt(m: &mut Machine<'_>, d: &Decoded) -> Done {
    test_bit(m, d, None::<fn(Word, Word) -> Word>)
}

pub(super) fn bts(m: &mut Machine<'_>, d: &Decoded) -> Done {
    test_bit(m, d, Some(|value, bit| value | bit))
}

pub(super) fn btr(m: &mut Machine<'_>, d: &Decoded) -> Done {
    test_bit(m, d, Some(|value, bit: Word| value & !bit))
}

pub(super) fn btc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    test_bit(m, d, Some(|value, bit| value ^ bit))
}

/// `bsf`, `bsr`: of zero the result is undefined; what the destination then holds differs.
fn scan(m: &mut Machine<'_>, d: &Decoded, index: impl FnOnce(u64) -> u32) -> Done {
    let source = m.read(d, 1)?;
    m.flags().forget_arithmetic();
    m.flags().set(Flag::Zf, source.is_zero());
    match source.all() {
        Some(bits) if bits != 0 => m.write(d, 0, Word::known(u64::from(index(bits))))?,
        _ => {
            let register = d.instruction().op0_register();
            let before = m.register(register.full_register());
            m.write(d, 0, Word::UNKNOWN)?;
            if register.is_gpr32() {
                let after = m.register(register.full_register());
                m.set_register(register.full_register(), after.either_upper(before));
            }
        }
    }
    Ok(Flow::Next)
}

pub(super) fn bsf(m: &mut Machine<'_>, d: &Decoded) -> Done {
    scan(m, d, u64::trailing_zeros)
}

pub(super) fn bsr(m: &mut Machine<'_>, d: &Decoded) -> Done {
    scan(m, d, u64::ilog2)
}

/// `tzcnt`, `lzcnt`: CF says that the source is zero, ZF that the result is.
fn count(m: &mut Machine<'_>, d: &Decoded, count: impl FnOnce(u64, Width) -> u32) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 1)?;
    let result = source.all().map(|bits| u64::from(count(bits, width)));
    m.flags().forget_arithmetic();
    m.flags().set(Flag::Cf, source.is_zero());
    m.flags().set(Flag::Zf, result.map(|count| count == 0));
    m.write(d, 0, Word::of(width, result))?;
    Ok(Flow::Next)
}

pub(super) fn tzcnt(m: &mut Machine<'_>, d: &Decoded) -> Done {
    count(m, d, |bits, width| bits.trailing_zeros().min(width.bits()))
}

pub(super) fn lzcnt(m: &mut Machine<'_>, d: &Decoded) -> Done {
    count(m, d, |bits, width| {
        bits.leading_zeros() - (64 - width.bits())
    })
}

pub(super) fn popcnt(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 1)?;
    for flag in [Flag::Cf, Flag::Of, Flag::Sf, Flag::Af, Flag::Pf] {
        m.flags().set(flag, Some(false));
    }
    m.flags().set(Flag::Zf, source.is_zero());
    let ones = source.all().map(|bits| u64::from(bits.count_ones()));
    m.write(d, 0, Word::of(width, ones))?;
    Ok(Flow::Next)
}

/// `bextr`: a field of the source; the control holds its start and length.
pub(super) fn bextr(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 1)?.all();
    let control = m.read(d, 2)?.get(2);
    let result = source.zip(control).map(|(source, control)| {
        let (start, len) = (control as u32 & 0xff, control as u32 >> 8 & 0xff);
        let field = source.checked_shr(start).unwrap_or(0);
        if len < 64 {
            field & ((1 << len) - 1)
        } else {
            field
        }
    });
    let result = Word::of(width, result);
    m.flags().bit_result(width, result, Some(false));
    m.flags().set(Flag::Sf, None);
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}

/// `blsi`, `blsr`, `blsmsk`: the carry says that the source is zero, or (`blsi`) that it is not.
fn lowest_bit(
    m: &mut Machine<'_>,
    d: &Decoded,
    carry_if_zero: bool,
    apply: impl FnOnce(u64) -> u64,
) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 1)?;
    let result = Word::of(width, source.all().map(apply));
    let carry = source.is_zero().map(|zero| zero == carry_if_zero);
    m.flags().bit_result(width, result, carry);
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}

pub(super) fn blsi(m: &mut Machine<'_>, d: &Decoded) -> Done {
    lowest_bit(m, d, false, |bits| bits & bits.wrapping_neg())
}

pub(super) fn blsr(m: &mut Machine<'_>, d: &Decoded) -> Done {
    lowest_bit(m, d, true, |bits| bits & bits.wrapping_sub(1))
}

pub(super) fn blsmsk(m: &mut Machine<'_>, d: &Decoded) -> Done {
    lowest_bit(m, d, true, |bits| bits ^ bits.wrapping_sub(1))?;
    m.flags().set(Flag::Zf, Some(false));
    Ok(Flow::Next)
}

/// `bzhi`: the bits below an index; the carry says that the index is beyond the operand.
pub(super) fn bzhi(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 1)?;
    let index = m.read(d, 2)?.get(1);
    let carry = index.map(|index| index >= u64::from(width.bits()));
    let result = match index {
        Some(index) if index < 64 => source & Word::known((1 << index) - 1),
        Some(_) => source,
        None => Word::unknown(width),
    };
    m.flags().bit_result(width, result, carry);
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}

/// `pdep`: low bits to the places that the mask names.
pub(super) fn pdep(m: &mut Machine<'_>, d: &Decoded) -> Done {
    by_mask(m, d, |mut source, mut mask| {
        let mut result = 0;
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            if source & 1 != 0 {
                result |= lowest;
            }
            source >>= 1;
            mask &= mask - 1;
        }
        result
    })
}

/// `pext`: the bits that the mask names to low places.
pub(super) fn pext(m: &mut Machine<'_>, d: &Decoded) -> Done {
    by_mask(m, d, |source, mut mask| {
        let (mut result, mut place) = (0, 1u64);
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            if source & lowest != 0 {
                result |= place;
            }
            place <<= 1;
            mask &= mask - 1;
        }
        result
    })
}

fn by_mask(m: &mut Machine<'_>, d: &Decoded, apply: impl FnOnce(u64, u64) -> u64) -> Done {
    let width = m.width(d, 0)?;
    let source = m.read(d, 1)?.all();
    let mask = m.read(d, 2)?.all();
    let result = source.zip(mask).map(|(source, mask)| apply(source, mask));
    m.write(d, 0, Word::of(width, result))?;
    Ok(Flow::Next)
}

/// `crc32`: the Castagnoli polynomial, bit by bit; the checksum has 32 bits.
pub(super) fn crc32(m: &mut Machine<'_>, d: &Decoded) -> Done {
    /// 0x11edc6f41 with its bits in the opposite order.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let (width, from) = (m.width(d, 0)?, m.width(d, 1)?);
    let checksum = m.read(d, 0)?.get(4);
    let data = m.read(d, 1)?.all();
    let result = checksum.zip(data).map(|(checksum, data)| {
        let mut crc = checksum as u32;
        for i in 0..from.bits() {
            let feedback = (crc ^ (data >> i) as u32) & 1 != 0;
            crc = crc >> 1 ^ if feedback { POLYNOMIAL } else { 0 };
        }
        u64::from(crc)
    });
    // The upper half is zero whatever the checksum.
    let result = Word::of(Width::B32, result).truncate(width);
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}
