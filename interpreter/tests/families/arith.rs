//! Addition, subtraction, logic.

use iced_x86::{Code, Instruction, Register};
use interpreter::Flag;

use crate::lab::{Lab, Model, WIDTHS, against_model, mask, result_flags, signed, two};

/// Flags of `a + b + c` or `a - b - c`, from the exact result.
fn carry_flags(bits: u32, a: u64, b: u64, c: u64, subtract: bool) -> Model {
    let sign = if subtract { -1 } else { 1 };
    let unsigned = i128::from(a) + sign * (i128::from(b) + i128::from(c));
    let exact = signed(bits, a) + sign * (signed(bits, b) + i128::from(c));
    let nibble = i128::from(a & 15) + sign * (i128::from(b & 15) + i128::from(c));
    let result = unsigned as u64 & mask(bits);
    let mut flags = result_flags(bits, result);
    flags.push((Flag::Cf, !(0..=i128::from(mask(bits))).contains(&unsigned)));
    flags.push((Flag::Of, signed(bits, result) != exact));
    flags.push((Flag::Af, !(0..16).contains(&nibble)));
    Model { result, flags }
}

/// Sums and differences, with and without carry, agree with exact arithmetic in every width.
#[test]
fn sums_and_differences() {
    use Code as C;
    let add = [
        C::Add_rm8_r8,
        C::Add_rm16_r16,
        C::Add_rm32_r32,
        C::Add_rm64_r64,
    ];
    let adc = [
        C::Adc_rm8_r8,
        C::Adc_rm16_r16,
        C::Adc_rm32_r32,
        C::Adc_rm64_r64,
    ];
    let sub = [
        C::Sub_rm8_r8,
        C::Sub_rm16_r16,
        C::Sub_rm32_r32,
        C::Sub_rm64_r64,
    ];
    let sbb = [
        C::Sbb_rm8_r8,
        C::Sbb_rm16_r16,
        C::Sbb_rm32_r32,
        C::Sbb_rm64_r64,
    ];
    let cmp = [
        C::Cmp_rm8_r8,
        C::Cmp_rm16_r16,
        C::Cmp_rm32_r32,
        C::Cmp_rm64_r64,
    ];
    for (width, (bits, ..)) in WIDTHS.into_iter().enumerate() {
        for (codes, subtract, carries) in [
            (add, false, 0),
            (adc, false, 1),
            (sub, true, 0),
            (sbb, true, 1),
        ] {
            against_model(two(codes, width), bits, false, |a, b, rflags| {
                carry_flags(bits, a, b, rflags & carries, subtract)
            });
        }
        // A comparison writes nothing: a 32-bit one does not clear the upper half either.
        let lab = Lab::new().code(two(cmp, width));
        let after = lab.reg(Register::RAX, u64::MAX).reg(Register::RBX, 1).run();
        assert_eq!(after.get(Register::RAX), Some(u64::MAX));
        assert_eq!(after.flag(Flag::Zf), Some(false));
    }
}

/// `inc`, `dec` and `neg` agree with exact arithmetic; the first two keep the carry.
#[test]
fn one_operand() {
    use Code as C;
    let inc = [C::Inc_rm8, C::Inc_rm16, C::Inc_rm32, C::Inc_rm64];
    let dec = [C::Dec_rm8, C::Dec_rm16, C::Dec_rm32, C::Dec_rm64];
    let neg = [C::Neg_rm8, C::Neg_rm16, C::Neg_rm32, C::Neg_rm64];
    for (width, (bits, a, ..)) in WIDTHS.into_iter().enumerate() {
        let one = |codes: [Code; 4]| {
            Instruction::with1(codes[width], a).expect("the code takes a register")
        };
        for (codes, subtract) in [(inc, false), (dec, true)] {
            against_model(one(codes), bits, false, |a, _, _| {
                let mut model = carry_flags(bits, a, 1, 0, subtract);
                model.flags.retain(|(flag, _)| *flag != Flag::Cf);
                model
            });
        }
        against_model(one(neg), bits, false, |a, _, _| {
            carry_flags(bits, 0, a, 0, true)
        });
    }
}

/// Logic clears the carry and the overflow and leaves AF undefined; `not` changes no flag.
#[test]
fn logic() {
    use Code as C;
    let and = [
        C::And_rm8_r8,
        C::And_rm16_r16,
        C::And_rm32_r32,
        C::And_rm64_r64,
    ];
    let or = [C::Or_rm8_r8, C::Or_rm16_r16, C::Or_rm32_r32, C::Or_rm64_r64];
    let xor = [
        C::Xor_rm8_r8,
        C::Xor_rm16_r16,
        C::Xor_rm32_r32,
        C::Xor_rm64_r64,
    ];
    let not = [C::Not_rm8, C::Not_rm16, C::Not_rm32, C::Not_rm64];
    type Apply = fn(u64, u64) -> u64;
    let cases: [(_, Apply); 3] = [(and, |a, b| a & b), (or, |a, b| a | b), (xor, |a, b| a ^ b)];
    for (width, (bits, a, ..)) in WIDTHS.into_iter().enumerate() {
        for (codes, apply) in cases {
            against_model(two(codes, width), bits, true, |a, b, _| {
                let result = apply(a, b);
                let mut flags = result_flags(bits, result);
                flags.extend([(Flag::Cf, false), (Flag::Of, false)]);
                Model { result, flags }
            });
        }
        let not = Instruction::with1(not[width], a).expect("the code takes a register");
        against_model(not, bits, false, |a, _, _| Model {
            result: !a,
            flags: Vec::new(),
        });
    }
}

/// `adcx` and `adox` add with their own flag and leave all others alone.
#[test]
fn separate_carries() {
    for (code, flag) in [
        (Code::Adcx_r64_rm64, Flag::Cf),
        (Code::Adox_r64_rm64, Flag::Of),
    ] {
        let instruction = Instruction::with2(code, Register::RAX, Register::RBX)
            .expect("the code takes two registers");
        against_model(instruction, 64, false, |a, b, rflags| {
            let sum = u128::from(a) + u128::from(b) + u128::from(rflags & flag as u64 != 0);
            Model {
                result: sum as u64,
                flags: vec![(flag, sum >> 64 != 0)],
            }
        });
    }
}

/// `xadd` gives the old destination to the source and the sum to the destination; of one register
/// twice the sum stays.
#[test]
fn exchange_and_add() {
    let lab = Lab::new().reg(Register::RAX, 5).reg(Register::RBX, 7);
    // xadd eax, ebx; xadd eax, eax
    let after = lab.clone().bytes(&[0x0f, 0xc1, 0xd8]).run();
    assert_eq!(
        (after.get(Register::RAX), after.get(Register::RBX)),
        (Some(12), Some(5))
    );
    let after = lab.bytes(&[0x0f, 0xc1, 0xc0]).run();
    assert_eq!(after.get(Register::RAX), Some(10));
}

/// `cmpxchg` stores the source on equality and else loads the accumulator; the flags are those of
/// the comparison.
#[test]
fn compare_and_exchange() {
    let address = 0x5000;
    // lock cmpxchg [rbx], ecx; mov edx, [rbx]
    let lab = Lab::new()
        .reg(Register::RBX, address)
        .reg(Register::RCX, 9)
        .bytes(&[0xf0, 0x0f, 0xb1, 0x0b, 0x8b, 0x13]);
    for (held, expected, stored) in [(4u32, 4, 9), (4, 5, 4)] {
        let after = lab
            .clone()
            .memory(address, &held.to_le_bytes())
            .reg(Register::RAX, expected)
            .run();
        assert_eq!(after.flag(Flag::Zf), Some(u64::from(held) == expected));
        assert_eq!(after.get(Register::EAX), Some(4));
        assert_eq!(after.get(Register::RDX), Some(stored));
    }
    // Of unknown memory neither the accumulator nor what is stored is known.
    let after = lab.reg(Register::RAX, 4).run();
    assert_eq!(after.flag(Flag::Zf), None);
    assert_eq!(
        (after.get(Register::EAX), after.get(Register::RDX)),
        (None, None)
    );
}

/// `cmpxchg16b` exchanges 16 bytes, changes ZF alone and faults on a crooked address.
#[test]
fn compare_and_exchange_pairs() {
    let lab = |address: u64, low: u64| {
        Lab::new()
            .memory(address, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])
            .reg(Register::RSI, address)
            .reg(Register::RAX, low)
            .reg(Register::RDX, 2)
            .reg(Register::RBX, 3)
            .reg(Register::RCX, 4)
            // cmpxchg16b [rsi]; mov r8, [rsi]; mov r9, [rsi+8]
            .bytes(&[
                0x48, 0x0f, 0xc7, 0x0e, 0x4c, 0x8b, 0x06, 0x4c, 0x8b, 0x4e, 8,
            ])
            .run()
    };
    let equal = lab(0x5000, 1);
    assert_eq!(equal.flag(Flag::Zf), Some(true));
    assert_eq!(
        (equal.get(Register::R8), equal.get(Register::R9)),
        (Some(3), Some(4))
    );
    let other = lab(0x5000, 7);
    assert_eq!(other.flag(Flag::Zf), Some(false));
    assert_eq!(
        (other.get(Register::RAX), other.get(Register::RDX)),
        (Some(1), Some(2))
    );
    assert_eq!(
        lab(0x5008, 1).outcome.stop,
        interpreter::StopReason::FaultingInstruction
    );
}
