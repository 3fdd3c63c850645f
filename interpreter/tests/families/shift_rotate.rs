//! Shifts and rotations.

use iced_x86::{Code, Instruction, Register};
use interpreter::Flag;

use crate::edges;
use crate::lab::{FLAG_STATES, Lab, WIDTHS, mask, result_flags, written};

/// One step of a shift or rotation: the value and the carry before and after.
type Turn = fn(bits: u32, value: u64, carry: bool) -> (u64, bool);

/// A shift by hand, one bit at a time; returns value, carry, and OF as it is for a single step.
fn by_hand(turn: Turn, bits: u32, value: u64, carry: bool, count: u32) -> (u64, bool) {
    (0..count).fold((value, carry), |(value, carry), _| {
        let (value, carry) = turn(bits, value, carry);
        (value & mask(bits), carry)
    })
}

const TOP: fn(u32, u64) -> bool = |bits, value| value >> (bits - 1) & 1 != 0;

struct Kind {
    codes: [Code; 4],
    turn: Turn,
    /// It sets SF, ZF and PF.
    shifts: bool,
    /// CF is undefined when everything is shifted out.
    loses_carry: bool,
}

fn kinds() -> Vec<Kind> {
    use Code as C;
    let kind = |codes, turn, shifts, loses_carry| Kind {
        codes,
        turn,
        shifts,
        loses_carry,
    };
    vec![
        kind(
            [
                C::Shl_rm8_CL,
                C::Shl_rm16_CL,
                C::Shl_rm32_CL,
                C::Shl_rm64_CL,
            ],
            |bits, v, _| (v << 1, TOP(bits, v)),
            true,
            true,
        ),
        kind(
            [
                C::Shr_rm8_CL,
                C::Shr_rm16_CL,
                C::Shr_rm32_CL,
                C::Shr_rm64_CL,
            ],
            |_, v, _| (v >> 1, v & 1 != 0),
            true,
            true,
        ),
        kind(
            [
                C::Sar_rm8_CL,
                C::Sar_rm16_CL,
                C::Sar_rm32_CL,
                C::Sar_rm64_CL,
            ],
            |bits, v, _| (v >> 1 | u64::from(TOP(bits, v)) << (bits - 1), v & 1 != 0),
            true,
            false,
        ),
        kind(
            [
                C::Rol_rm8_CL,
                C::Rol_rm16_CL,
                C::Rol_rm32_CL,
                C::Rol_rm64_CL,
            ],
            |bits, v, _| (v << 1 | u64::from(TOP(bits, v)), TOP(bits, v)),
            false,
            false,
        ),
        kind(
            [
                C::Ror_rm8_CL,
                C::Ror_rm16_CL,
                C::Ror_rm32_CL,
                C::Ror_rm64_CL,
            ],
            |bits, v, _| (v >> 1 | (v & 1) << (bits - 1), v & 1 != 0),
            false,
            false,
        ),
        kind(
            [
                C::Rcl_rm8_CL,
                C::Rcl_rm16_CL,
                C::Rcl_rm32_CL,
                C::Rcl_rm64_CL,
            ],
            |bits, v, c| (v << 1 | u64::from(c), TOP(bits, v)),
            false,
            false,
        ),
        kind(
            [
                C::Rcr_rm8_CL,
                C::Rcr_rm16_CL,
                C::Rcr_rm32_CL,
                C::Rcr_rm64_CL,
            ],
            |bits, v, c| (v >> 1 | u64::from(c) << (bits - 1), v & 1 != 0),
            false,
            false,
        ),
    ]
}

/// Every shift and rotation by every count agrees with doing it bit by bit; flags that the count
/// leaves undefined are unknown, and a count of zero changes no flag but clears an upper half.
#[test]
fn shifts_agree_with_single_steps() {
    for kind in kinds() {
        for (width, (bits, a, ..)) in WIDTHS.into_iter().enumerate() {
            let instruction = Instruction::with2(kind.codes[width], a, Register::CL)
                .expect("the code takes a register and cl");
            let lab = Lab::new().code(instruction);
            for (value, count) in edges::INTEGERS
                .iter()
                .flat_map(|v| (0..=66).map(move |c| (*v, c)))
            {
                for rflags in FLAG_STATES {
                    let lab = lab
                        .clone()
                        .reg(Register::RAX, value)
                        .reg(Register::RCX, count);
                    let lab = lab.flags(rflags);
                    let after = lab.run();
                    let masked = count as u32 & if bits == 64 { 63 } else { 31 };
                    let start = value & mask(bits);
                    let (result, carry) = by_hand(kind.turn, bits, start, rflags & 1 != 0, masked);
                    let context = format!(
                        "{:?} {value:#x} by {count} from {rflags:#x}",
                        kind.codes[width]
                    );
                    let expected = written(bits, value, result);
                    assert_eq!(after.get(Register::RAX), Some(expected), "{context}");
                    if masked == 0 {
                        assert_eq!(
                            after.outcome.registers.rflags, lab.registers.rflags,
                            "{context}"
                        );
                        continue;
                    }
                    let lost = kind.loses_carry && masked >= bits;
                    assert_eq!(after.flag(Flag::Cf), (!lost).then_some(carry), "{context}");
                    let sign_changed = TOP(bits, start) != TOP(bits, result);
                    let single = masked == 1;
                    assert_eq!(
                        after.flag(Flag::Of),
                        single.then_some(sign_changed),
                        "{context}"
                    );
                    for (flag, value) in result_flags(bits, result) {
                        let expected = if kind.shifts {
                            Some(value)
                        } else {
                            lab.registers.rflags.get(flag)
                        };
                        assert_eq!(after.flag(flag), expected, "{context}");
                    }
                }
            }
        }
    }
}

/// `shld` and `shrd` shift the second operand in; the carry is the last bit shifted out.
#[test]
fn double_shifts() {
    let value = 0x8000_0001_u64;
    let lab = Lab::new()
        .reg(Register::RAX, value)
        .reg(Register::RBX, 0xdead_beef);
    for count in 1..32u8 {
        // shld eax, ebx, count; then shrd
        let after = lab.clone().bytes(&[0x0f, 0xa4, 0xd8, count]).run();
        let joined = value << 32 | 0xdead_beef;
        let expected = joined << count >> 32 & 0xffff_ffff;
        assert_eq!(after.get(Register::RAX), Some(expected));
        assert_eq!(after.flag(Flag::Cf), Some(value >> (32 - count) & 1 != 0));
        let after = lab.clone().bytes(&[0x0f, 0xac, 0xd8, count]).run();
        let joined = 0xdead_beef_u64 << 32 | value;
        assert_eq!(
            after.get(Register::RAX),
            Some(joined >> count & 0xffff_ffff)
        );
        assert_eq!(after.flag(Flag::Cf), Some(value >> (count - 1) & 1 != 0));
    }
    // 16 bits shifted by more than 16: all undefined.
    let after = lab.bytes(&[0x66, 0x0f, 0xa4, 0xd8, 17]).run();
    assert_eq!(after.get(Register::AX), None);
    assert_eq!(after.flag(Flag::Zf), None);
}

/// An unknown count makes result and flags unknown; of zero the result is still zero.
#[test]
fn unknown_counts() {
    let lab = Lab::new()
        .hide(Register::RCX)
        .flags(0)
        .bytes(&[0x48, 0xd3, 0xe0]);
    let after = lab.clone().reg(Register::RAX, 1).run();
    assert_eq!(
        (after.get(Register::RAX), after.flag(Flag::Zf)),
        (None, None)
    );
    assert_eq!(lab.reg(Register::RAX, 0).run().get(Register::RAX), Some(0));
    // A rotation through the carry may bring a bit in.
    let rcl = Lab::new()
        .hide(Register::RCX)
        .flags(1)
        .bytes(&[0x48, 0xd3, 0xd0]);
    assert_eq!(rcl.run().get(Register::RAX), None);
}

/// The BMI2 shifts change no flag and take the count modulo the width.
#[test]
fn shifts_without_flags() {
    let lab = Lab::new()
        .reg(Register::RBX, 0x8000_0000_0000_0010)
        .reg(Register::RCX, 68);
    let lab = lab.flags(0x8d5);
    let cases: [(&[u8], u64); 4] = [
        (&[0xc4, 0xe2, 0xf1, 0xf7, 0xc3], 0x100), // shlx rax, rbx, rcx
        (&[0xc4, 0xe2, 0xf3, 0xf7, 0xc3], 0x0800_0000_0000_0001), // shrx
        (&[0xc4, 0xe2, 0xf2, 0xf7, 0xc3], 0xf800_0000_0000_0001), // sarx
        (&[0xc4, 0xe3, 0xfb, 0xf0, 0xc3, 4], 0x0800_0000_0000_0001), // rorx rax, rbx, 4
    ];
    for (code, expected) in cases {
        let after = lab.clone().bytes(code).run();
        assert_eq!(after.get(Register::RAX), Some(expected), "{code:02x?}");
        assert_eq!(after.outcome.registers.rflags, lab.registers.rflags);
    }
}
