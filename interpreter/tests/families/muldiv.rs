//! Multiplication and division.

use iced_x86::{Code, Instruction, Register};
use interpreter::{Flag, StopReason};

use crate::edges;
use crate::lab::{Lab, Model, WIDTHS, against_model, mask, signed, two};

/// Truncating products agree with exact ones; CF and OF say that they do not fit.
#[test]
fn products_of_two_operands() {
    let codes = [
        Code::INVALID,
        Code::Imul_r16_rm16,
        Code::Imul_r32_rm32,
        Code::Imul_r64_rm64,
    ];
    for (width, (bits, ..)) in WIDTHS.into_iter().enumerate().skip(1) {
        against_model(two(codes, width), bits, true, |a, b, _| {
            let exact = signed(bits, a) * signed(bits, b);
            let overflow = signed(bits, exact as u64) != exact;
            let flags = vec![(Flag::Cf, overflow), (Flag::Of, overflow)];
            Model {
                result: exact as u64,
                flags,
            }
        });
    }
}

/// Double-width products agree with exact ones, signed and unsigned, in every width.
#[test]
fn double_products() {
    use Code as C;
    let mul = [C::Mul_rm8, C::Mul_rm16, C::Mul_rm32, C::Mul_rm64];
    let imul = [C::Imul_rm8, C::Imul_rm16, C::Imul_rm32, C::Imul_rm64];
    for (width, (bits, _, b, _)) in WIDTHS.into_iter().enumerate() {
        for (codes, is_signed) in [(mul, false), (imul, true)] {
            let instruction = Instruction::with1(codes[width], b).expect("it takes a register");
            let lab = Lab::new().code(instruction);
            for (x, y) in edges::INTEGERS
                .iter()
                .flat_map(|x| edges::INTEGERS.iter().map(move |y| (*x, *y)))
            {
                let after = lab
                    .clone()
                    .reg(Register::RAX, x)
                    .reg(Register::RBX, y)
                    .run();
                let exact = if is_signed {
                    (signed(bits, x) * signed(bits, y)) as u128
                } else {
                    u128::from(x & mask(bits)) * u128::from(y & mask(bits))
                };
                let (low, high) = (
                    exact as u64 & mask(bits),
                    (exact >> bits) as u64 & mask(bits),
                );
                let (_, low_part, ..) = WIDTHS[width];
                let high_part = [Register::AH, Register::DX, Register::EDX, Register::RDX][width];
                let real_high = if width == 0 {
                    after.get(Register::AX).map(|ax| ax >> 8)
                } else {
                    after.get(high_part)
                };
                let context = format!("{:?} {x:#x} {y:#x}", codes[width]);
                assert_eq!(after.get(low_part), Some(low), "{context}");
                assert_eq!(real_high, Some(high), "{context}");
            }
        }
    }
}

/// Quotients and remainders agree with exact ones, and what does not fit faults.
#[test]
fn quotients() {
    use Code as C;
    let div = [C::Div_rm8, C::Div_rm16, C::Div_rm32, C::Div_rm64];
    let idiv = [C::Idiv_rm8, C::Idiv_rm16, C::Idiv_rm32, C::Idiv_rm64];
    let pairs = edges::INTEGERS
        .iter()
        .flat_map(|x| edges::INTEGERS.iter().map(move |y| (*x, *y)));
    for (width, (bits, low_part, b, _)) in WIDTHS.into_iter().enumerate().skip(1) {
        let high_part = [Register::AH, Register::DX, Register::EDX, Register::RDX][width];
        for (codes, is_signed) in [(div, false), (idiv, true)] {
            let instruction = Instruction::with1(codes[width], b).expect("it takes a register");
            let lab = Lab::new().code(instruction);
            for ((low, divisor), high) in pairs.clone().zip(edges::INTEGERS.into_iter().cycle()) {
                let lab = lab.clone().reg(Register::RAX, low).reg(Register::RDX, high);
                let after = lab.reg(Register::RBX, divisor).run();
                let dividend = u128::from(high & mask(bits)) << bits | u128::from(low & mask(bits));
                let exact = if is_signed {
                    let unused = 128 - 2 * bits;
                    let dividend = (dividend << unused) as i128 >> unused;
                    let by = signed(bits, divisor);
                    dividend
                        .checked_div(by)
                        .filter(|q| signed(bits, *q as u64) == *q)
                        .map(|q| {
                            (
                                q as u64 & mask(bits),
                                (dividend - q * by) as u64 & mask(bits),
                            )
                        })
                } else {
                    let by = u128::from(divisor & mask(bits));
                    dividend
                        .checked_div(by)
                        .filter(|q| *q <= u128::from(mask(bits)))
                        .map(|q| (q as u64, (dividend - q * by) as u64))
                };
                let context = format!("{:?} {high:#x}:{low:#x} / {divisor:#x}", codes[width]);
                match exact {
                    Some((quotient, remainder)) => {
                        assert_eq!(after.get(low_part), Some(quotient), "{context}");
                        assert_eq!(after.get(high_part), Some(remainder), "{context}");
                        assert_eq!(after.flag(Flag::Zf), None, "{context}");
                    }
                    None => {
                        assert_eq!(after.outcome.stop, StopReason::FaultingInstruction);
                        assert!(
                            after.parameters().is_empty(),
                            "a fault has no event: {context}"
                        );
                    }
                }
            }
        }
    }
}

/// The most negative dividend by -1 faults instead of overflowing.
#[test]
fn most_negative_by_minus_one() {
    let lab = Lab::new()
        .reg(Register::RAX, 1 << 63)
        .reg(Register::RDX, u64::MAX);
    let after = lab
        .reg(Register::RBX, u64::MAX)
        .bytes(&[0x48, 0xf7, 0xfb])
        .run();
    assert_eq!(after.outcome.stop, StopReason::FaultingInstruction);
    // 2^127 / -1: the dividend itself is the most negative number.
    let lab = Lab::new().reg(Register::RAX, 0).reg(Register::RDX, 1 << 63);
    let after = lab
        .reg(Register::RBX, u64::MAX)
        .bytes(&[0x48, 0xf7, 0xfb])
        .run();
    assert_eq!(after.outcome.stop, StopReason::FaultingInstruction);
}

/// `mulx` writes high and low halves and no flag; of equal destinations the high half stays.
#[test]
fn product_without_flags() {
    let lab = Lab::new()
        .reg(Register::RDX, 1 << 63)
        .reg(Register::RBX, 6)
        .flags(0x8d5);
    // mulx rax, rcx, rbx; mulx rax, rax, rbx
    let after = lab.clone().bytes(&[0xc4, 0xe2, 0xf3, 0xf6, 0xc3]).run();
    assert_eq!(
        (after.get(Register::RAX), after.get(Register::RCX)),
        (Some(3), Some(0))
    );
    assert_eq!(after.outcome.registers.rflags, lab.registers.rflags);
    let after = lab.bytes(&[0xc4, 0xe2, 0xfb, 0xf6, 0xc3]).run();
    assert_eq!(after.get(Register::RAX), Some(3));
}

/// A product with zero is zero, and the low bytes of one with an unknown upper part are known.
#[test]
fn products_of_the_unknown() {
    // imul rax, rbx
    let lab = Lab::new()
        .hide(Register::RBX)
        .bytes(&[0x48, 0x0f, 0xaf, 0xc3]);
    assert_eq!(
        lab.clone().reg(Register::RAX, 0).run().get(Register::RAX),
        Some(0)
    );
    assert_eq!(lab.reg(Register::RAX, 3).run().get(Register::RAX), None);
    let mut lab = Lab::new()
        .reg(Register::RAX, 0x0203)
        .bytes(&[0x48, 0x0f, 0xaf, 0xc3]);
    lab.registers.gpr[3] = interpreter::Word::partial(0x0105, 0x03);
    assert_eq!(
        lab.run().get(Register::AX),
        Some((0x0203 * 0x0105) & 0xffff)
    );
}
