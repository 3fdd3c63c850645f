//! x87 and MMX, with their registers known and not.

use iced_x86::Register;
use interpreter::{Flag, Handlers, Parameter, StopReason, ValueKinds, Word, X87};

use crate::lab::{After, Lab};

const DATA: u64 = 0x5000;
/// All exceptions masked, 64 bits, to the nearest.
const CONTROL: u16 = 0x37f;
/// `fld qword ptr [rbx]`, `fld qword ptr [rbx+8]`.
const LOADS: [u8; 5] = [0xdd, 0x03, 0xdd, 0x43, 8];
/// `fdivp st(1), st`.
const DIVIDES: [u8; 2] = [0xde, 0xf9];

/// An empty stack with a control word.
fn empty(control: u16) -> X87 {
    X87::saved(control, 0, 0, &[[0; 10]; 8])
}

/// rbx points to two doubles and 16 bytes more.
fn lab(first: f64, second: f64, code: &[u8]) -> Lab {
    let mut data = first.to_bits().to_le_bytes().to_vec();
    data.extend(second.to_bits().to_le_bytes());
    data.extend([0; 16]);
    Lab::new()
        .memory(DATA, &data)
        .reg(Register::RBX, DATA)
        .bytes(code)
}

fn with(x87: X87, mut lab: Lab) -> After {
    lab.registers.x87 = x87;
    lab.run()
}

/// The significand, and sign and exponent, of the register with a number.
fn register(after: &After, number: usize) -> (Option<u64>, Option<u16>) {
    let register = after.outcome.registers.x87.registers[number];
    (register.significand.get(8), register.top)
}

/// A quotient has as many bits as the control word asks for, rounded as it asks.
#[test]
fn precision_and_rounding() {
    let code = [&LOADS[..], &DIVIDES].concat();
    let thirds = [
        (0x37f, 0xaaaa_aaaa_aaaa_aaab),
        (0x27f, 0xaaaa_aaaa_aaaa_a800),
        (0x07f, 0xaaaa_ab00_0000_0000),
        (0xf7f, 0xaaaa_aaaa_aaaa_aaaa),
        (0x87f, 0xaaaa_ab00_0000_0000),
    ];
    for (control, significand) in thirds {
        let after = with(empty(control), lab(1.0, 3.0, &code));
        assert_eq!(register(&after, 7), (Some(significand), Some(0x3ffd)));
        // It is inexact; the second register is empty again.
        let x87 = &after.outcome.registers.x87;
        assert_eq!(
            (x87.status & 0x3f, x87.used, x87.top),
            (0x20, 0x80, Some(7))
        );
    }
    // One setting is reserved.
    let after = with(empty(0x17f), lab(1.0, 3.0, &code));
    assert_eq!(register(&after, 7), (None, None));
}

/// What is stored is what was computed, in the width of the store.
#[test]
fn numbers_go_through_memory() {
    // fldp; fldp; fdivp; fst dword [rbx+16]; fistp dword [rbx+20]; mov rax, [rbx+16]
    let code = [
        &LOADS[..],
        &DIVIDES,
        &[0xd9, 0x53, 16, 0xdb, 0x5b, 20, 0x48, 0x8b, 0x43, 16],
    ]
    .concat();
    let after = with(empty(CONTROL), lab(10.0, 4.0, &code));
    let (stored, integer) = (u64::from(2.5f32.to_bits()), 2 << 32);
    assert_eq!(after.get(Register::RAX), Some(stored | integer));
    assert_eq!(after.outcome.registers.x87.used, 0);
}

/// A comparison decides a branch.
#[test]
fn comparisons_set_flags() {
    // fcomi st, st(1)
    let code = [&LOADS[..], &[0xdb, 0xf1]].concat();
    for (first, second, zero, carry) in [
        (1.0, 2.0, false, false),
        (2.0, 1.0, false, true),
        (1.0, 1.0, true, false),
        (f64::NAN, 1.0, true, true),
    ] {
        let after = with(empty(CONTROL), lab(first, second, &code));
        assert_eq!(after.flag(Flag::Zf), Some(zero));
        assert_eq!(after.flag(Flag::Cf), Some(carry));
        assert_eq!(after.flag(Flag::Pf), Some(first.is_nan()));
    }
}

/// Nothing is known where the stack may be full, where the modes are unknown, and of functions that
/// no standard rounds. After `fninit` all is known.
#[test]
fn what_is_unknown() {
    let code = [&LOADS[..], &DIVIDES].concat();
    let after = lab(1.0, 4.0, &code).run();
    assert_eq!(after.outcome.stop, StopReason::NotMapped);
    assert_eq!(after.outcome.registers.x87.top, None);
    let mut modeless = empty(CONTROL);
    modeless.control = None;
    let after = with(modeless, lab(1.0, 4.0, &code));
    assert_eq!(register(&after, 7), (None, None));
    assert_eq!(after.outcome.registers.x87.top, Some(7));
    // fsin
    let after = with(empty(CONTROL), lab(1.0, 4.0, &[0xdd, 0x03, 0xd9, 0xfe]));
    assert_eq!(register(&after, 7), (None, None));
    // fninit; fld1
    let after = lab(0.0, 0.0, &[0xdb, 0xe3, 0xd9, 0xe8]).run();
    assert_eq!(register(&after, 7), (Some(1 << 63), Some(0x3fff)));
}

/// A window ends before an instruction that raises an exception that is not masked, and before one
/// that waits while one is pending. Masked ones leave their flags and results.
#[test]
fn x87_exceptions() {
    let code = [&LOADS[..], &DIVIDES].concat();
    let after = with(empty(CONTROL), lab(1.0, 0.0, &code));
    assert_eq!(register(&after, 7), (Some(1 << 63), Some(0x7fff)));
    assert_eq!(after.outcome.registers.x87.status & 0x3f, 4);
    let after = with(empty(CONTROL & !4), lab(1.0, 0.0, &code));
    assert_eq!(after.outcome.stop, StopReason::FloatException);
    assert_eq!(after.outcome.instructions, 2);
    // An unknown divisor may be zero.
    let mut hidden = X87::saved(CONTROL & !4, 0x3000, 0xc0, &[[0; 10]; 8]);
    hidden.registers[6].top = None;
    let after = with(hidden, lab(1.0, 0.0, &DIVIDES));
    assert_eq!(after.outcome.stop, StopReason::FloatException);
    // fldcw [rbx+8] unmasks what was raised before: the next that waits ends the window.
    let raised = X87::saved(CONTROL, 4, 0, &[[0; 10]; 8]);
    let control = f64::from_bits(u64::from(CONTROL & !4));
    for (next, waits) in [
        ([0xd9, 0xe8], true),
        ([0x9b, 0x90], true),
        ([0xdb, 0xe2], false),
    ] {
        let code = [&[0xd9, 0x6b, 8][..], &next].concat();
        let after = with(raised.clone(), lab(0.0, control, &code));
        let end = if waits {
            StopReason::FloatException
        } else {
            StopReason::NotMapped
        };
        assert_eq!(after.outcome.stop, end, "{next:x?}");
    }
    // A program with a handler goes on if the control word masks everything.
    let mut handled = lab(1.0, 3.0, &[&LOADS[..], &DIVIDES].concat());
    handled.registers.handlers = Handlers {
        float: true,
        ..Handlers::NONE
    };
    let after = with(empty(CONTROL), handled.clone());
    assert_eq!(after.outcome.stop, StopReason::NotMapped);
    assert_eq!(handled.run().outcome.stop, StopReason::FloatException);
}

/// A full stack overflows, and an empty one underflows.
#[test]
fn stack_faults() {
    let full = X87::saved(CONTROL, 0, 0xff, &[[0; 10]; 8]);
    let after = with(full, lab(1.0, 1.0, &[0xdd, 0x03]));
    assert_eq!(register(&after, 7), (Some(3 << 62), Some(0xffff)));
    // Invalid, of the stack, and C1: it was full.
    assert_eq!(after.outcome.registers.x87.status & 0x27f, 0x241);
    let after = with(empty(CONTROL), lab(1.0, 1.0, &DIVIDES));
    assert_eq!(after.outcome.registers.x87.status & 0x27f, 0x41);
}

/// A number is told as a double if it is one, and with all of its 80 bits beside vector registers.
#[test]
fn values() {
    let double = Parameter::Double(Register::ST0);
    let told = |first: f64, second: f64, capture: ValueKinds| {
        let mut lab = lab(first, second, &[0xdd, 0x03, 0xdc, 0x73, 8]); // fld; fdiv qword [rbx+8]
        lab.capture = capture;
        with(empty(CONTROL), lab)
    };
    let after = told(1.0, 4.0, ValueKinds::DEST);
    assert_eq!(
        after.values(double),
        [Some(1.0f64.to_bits()), Some(0.25f64.to_bits())]
    );
    let after = told(1.0, 3.0, ValueKinds::DEST.with(ValueKinds::VECTOR));
    assert_eq!(after.values(double), [Some(1.0f64.to_bits()), None]);
    let word = |i| after.values(Parameter::DestWord(Register::ST0, i))[1];
    assert_eq!(word(0), Some(0xaaaa_aaaa_aaaa_aaab));
    assert_eq!(word(1), Some(0x3ffd));
    assert_eq!(double.to_string(), "st0.f64[0]");
}

/// MMX registers that a window loads itself are known, whatever x87 held; they are the
/// significands, the stack then begins at the first, and `emms` empties it.
#[test]
fn mmx() {
    // movq mm1, [rbx]; paddd mm1, [rbx+8]; movq rax, mm1; pcmpeqd mm2, mm2
    let code = [
        0x0f, 0x6f, 0x0b, 0x0f, 0xfe, 0x4b, 8, 0x48, 0x0f, 0x7e, 0xc8, 0x0f, 0x76, 0xd2,
    ];
    let data = |bits: u64| f64::from_bits(bits);
    let after = lab(data(0x1_ffff_ffff), data(0x2_0000_0001), &code).run();
    assert_eq!(after.get(Register::RAX), Some(0x3_0000_0000));
    let x87 = &after.outcome.registers.x87;
    assert_eq!((x87.top, x87.used), (Some(0), 0xff));
    assert_eq!(x87.registers[2].significand, Word::known(u64::MAX));
    assert_eq!(x87.registers[2].top, Some(0xffff));
    let words = after.values(Parameter::DestWord(Register::MM1, 0));
    assert_eq!(words, [Some(0x1_ffff_ffff), Some(0x3_0000_0000)]);
    let after = lab(0.0, 0.0, &[0x0f, 0x77]).run();
    let x87 = &after.outcome.registers.x87;
    assert_eq!((x87.used, x87.used_known), (0, 0xff));
}

/// Two integers of MMX registers, or of memory, become numbers, and numbers integers: rounded or
/// cut off, and the least integer where none fits. Of a register they are MMX instructions. Of
/// memory not on every processor: then it is unknown where the stack begins.
#[test]
fn conversions_of_mmx() {
    let two = |first: f32, second: f32| {
        let bits = |number: f32| u64::from(number.to_bits());
        bits(second) << 32 | bits(first)
    };
    let data = [two(2.5, -1e10), two(1.75, -1.75)].map(f64::from_bits);
    // pcmpeqd xmm0, xmm0; cvtps2pi mm1, [rbx]; cvttps2pi mm2, [rbx+8]; cvtpi2ps xmm0, mm2
    let code = [
        0x66, 0x0f, 0x76, 0xc0, 0x0f, 0x2d, 0x0b, 0x0f, 0x2c, 0x53, 8, 0x0f, 0x2a, 0xc2,
    ];
    let mut rounded = lab(data[0], data[1], &code);
    rounded.registers.mxcsr = Some(0x1f80);
    let after = with(empty(CONTROL), rounded);
    let ones = Some(u16::MAX);
    assert_eq!(register(&after, 1), (Some(0x8000_0000_0000_0002), ones));
    assert_eq!(register(&after, 2), (Some(0xffff_ffff_0000_0001), ones));
    let x87 = &after.outcome.registers.x87;
    assert_eq!((x87.top, x87.used, x87.used_known), (Some(0), 0xff, 0xff));
    // The upper half is kept.
    let numbers = two(1.0, -1.0).to_le_bytes();
    let vector = &after.outcome.registers.vectors[0];
    for i in 0..16 {
        let byte = numbers.get(i).copied().unwrap_or(u8::MAX);
        assert_eq!(vector.byte(i), Some(byte), "{i}");
    }
    // cvtpi2pd xmm0, [rbx], and before it movq mm1, [rbx], or nothing.
    let integers = f64::from_bits(0xffff_ffff_0000_0003);
    let converts = [0x66, 0x0f, 0x2a, 0x03];
    for (before, top) in [(&[0x0f, 0x6f, 0x0b][..], Some(0)), (&[], None)] {
        let code = [before, &converts].concat();
        let after = with(
            X87::saved(CONTROL, 0x1800, 0, &[[0; 10]; 8]),
            lab(integers, 0.0, &code),
        );
        let vector = &after.outcome.registers.vectors[0];
        let numbers = [3f64, -1f64].map(f64::to_le_bytes).concat();
        let held: Vec<_> = (0..16).map_while(|i| vector.byte(i)).collect();
        assert_eq!(held, numbers);
        assert_eq!(after.outcome.registers.x87.top, top);
    }
}
