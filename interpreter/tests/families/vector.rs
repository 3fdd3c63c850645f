//! Vector registers that become known in a window, and what is known of them in part.

use iced_x86::Register;
use interpreter::{Flag, Parameter, StopReason, Vector, Word};

use crate::lab::{After, Lab};

/// The low 128 bits of a vector register, if known.
fn low(after: &After, number: usize) -> Option<u128> {
    let vector = &after.outcome.registers.vectors[number];
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&vector.known_bits()[..16]);
    (vector.known_bytes() & 0xffff == 0xffff).then(|| u128::from_le_bytes(bytes))
}

/// A register combined with itself is known, whatever it held, and makes known memory.
#[test]
fn idioms_make_known_registers() {
    let zeroing: [&[u8]; 4] = [
        &[0x66, 0x0f, 0xef, 0xc0], // pxor xmm0, xmm0
        &[0x0f, 0x57, 0xc0],       // xorps xmm0, xmm0
        &[0xc5, 0xf1, 0xef, 0xc1], // vpxor xmm0, xmm1, xmm1
        &[0x66, 0x0f, 0xfb, 0xc0], // psubq xmm0, xmm0
    ];
    for code in zeroing {
        // movups [rsp], xmm0; mov rax, [rsp+8]
        let store = [0x0f, 0x11, 0x04, 0x24, 0x48, 0x8b, 0x44, 0x24, 8];
        let after = Lab::new()
            .hide(Register::RAX)
            .bytes(code)
            .bytes(&store)
            .run();
        assert_eq!(low(&after, 0), Some(0), "{code:02x?}");
        assert_eq!(after.get(Register::RAX), Some(0), "{code:02x?}");
    }
    // pcmpeqd xmm3, xmm3; pmovmskb eax, xmm3
    let after = Lab::new()
        .bytes(&[0x66, 0x0f, 0x76, 0xdb, 0x66, 0x0f, 0xd7, 0xc3])
        .run();
    assert_eq!(low(&after, 3), Some(u128::MAX));
    assert_eq!(after.get(Register::EAX), Some(0xffff));
}

/// Legacy encodings keep the upper half of the destination, VEX encodings clear it.
#[test]
fn upper_halves() {
    let mut lab = Lab::new();
    lab.registers.vectors[0] = Vector::partial([7; 64], u64::MAX);
    // pxor xmm0, xmm0
    let kept = lab.clone().bytes(&[0x66, 0x0f, 0xef, 0xc0]).run();
    assert_eq!(kept.outcome.registers.vectors[0].byte(16), Some(7));
    // vpxor xmm0, xmm0, xmm0
    let cleared = lab.bytes(&[0xc5, 0xf9, 0xef, 0xc0]).run();
    assert_eq!(cleared.outcome.registers.vectors[0].byte(16), Some(0));
    // vzeroupper
    let zeroed = Lab::new().bytes(&[0xc5, 0xf8, 0x77]).run();
    let vector = zeroed.outcome.registers.vectors[9];
    assert_eq!((vector.byte(15), vector.byte(16)), (None, Some(0)));
}

/// General registers go through vector registers and come back; unknown bytes stay where they are.
#[test]
fn general_registers_go_through_vectors() {
    // movq xmm0, rax; movq rbx, xmm0
    let code = [0x66, 0x48, 0x0f, 0x6e, 0xc0, 0x66, 0x48, 0x0f, 0x7e, 0xc3];
    let mut lab = Lab::new().reg(Register::RAX, 0x1122_3344_5566_7788);
    let after = lab.clone().bytes(&code).run();
    assert_eq!(after.get(Register::RBX), Some(0x1122_3344_5566_7788));
    lab.registers.gpr[0] = interpreter::Word::partial(0x1122_3344_5566_7788, 0x0f);
    let after = lab.bytes(&code).run();
    assert_eq!(after.get(Register::RBX), None);
    assert_eq!(after.get(Register::EBX), Some(0x5566_7788));
}

/// A known zero byte decides a conjunction, a differing one a comparison.
#[test]
fn part_of_a_vector_may_decide() {
    let mut lab = Lab::new();
    let mut bytes = [0xff; 64];
    bytes[3] = 0;
    lab.registers.vectors[1] = Vector::partial(bytes, 0x0f);
    // pand xmm0, xmm1: of byte 3 it is known that it is zero.
    let after = lab.clone().bytes(&[0x66, 0x0f, 0xdb, 0xc1]).run();
    assert_eq!(after.outcome.registers.vectors[0].known_bytes(), 0x08);
    // pxor xmm0, xmm0; pcmpeqd xmm0, xmm1: the first lanes differ.
    let code = [0x66, 0x0f, 0xef, 0xc0, 0x66, 0x0f, 0x76, 0xc1];
    let after = lab.clone().bytes(&code).run();
    assert_eq!(
        after.outcome.registers.vectors[0].known_bytes() & 0xffff,
        0x0f
    );
    // ptest xmm1, xmm1: not all zero.
    let after = lab.bytes(&[0x66, 0x0f, 0x38, 0x17, 0xc9]).run();
    assert_eq!(
        (after.flag(Flag::Zf), after.flag(Flag::Cf)),
        (Some(false), None)
    );
}

/// What must be aligned and is not raises an exception; what need not be does not.
#[test]
fn unaligned_accesses_fault() {
    let lab = Lab::new()
        .memory(0x5000, &[3; 64])
        .reg(Register::RBX, 0x5001);
    let cases: [(&[u8], StopReason); 6] = [
        (&[0x0f, 0x28, 0x03], StopReason::FaultingInstruction), // movaps xmm0, [rbx]
        (&[0x0f, 0x10, 0x03], StopReason::NotMapped),           // movups xmm0, [rbx]
        (&[0x66, 0x0f, 0xfc, 0x03], StopReason::FaultingInstruction), // paddb xmm0, [rbx]
        (&[0xc5, 0xf9, 0xfc, 0x03], StopReason::NotMapped),     // vpaddb xmm0, xmm0, [rbx]
        (&[0xc5, 0xf8, 0x29, 0x03], StopReason::FaultingInstruction), // vmovaps [rbx], xmm0
        (&[0xf3, 0x0f, 0x58, 0x03], StopReason::NotMapped),     // addss xmm0, [rbx]
    ];
    for (code, stop) in cases {
        assert_eq!(
            lab.clone().bytes(code).run().outcome.stop,
            stop,
            "{code:02x?}"
        );
    }
}

/// What is not interpreted makes the vector registers that it writes unknown, and no others.
#[test]
fn skipped_instructions_forget_what_they_write() {
    // pxor xmm0, xmm0; pxor xmm1, xmm1; rcpps xmm0, xmm1
    let code = [
        0x66, 0x0f, 0xef, 0xc0, 0x66, 0x0f, 0xef, 0xc9, 0x0f, 0x53, 0xc1,
    ];
    let after = Lab::new().bytes(&code).run();
    assert_eq!((low(&after, 0), low(&after, 1)), (None, Some(0)));
}

/// The numbers that scalar instructions make are value events, known or not; masks are none.
#[test]
fn numbers_are_value_events() {
    let five_halves = 2.5f64.to_bits();
    let mut lab = Lab::new()
        .memory(0x5000, &five_halves.to_le_bytes())
        .reg(Register::RBX, 0x5000)
        .reg(Register::RAX, 3);
    // movsd xmm1, [rbx]; cvtsi2sd xmm2, eax; addsd xmm1, xmm2; cmpltsd xmm1, xmm2; sqrtss xmm3,
    // xmm3
    lab = lab
        .bytes(&[0xf2, 0x0f, 0x10, 0x0b, 0xf2, 0x0f, 0x2a, 0xd0])
        .bytes(&[0xf2, 0x0f, 0x58, 0xca, 0xf2, 0x0f, 0xc2, 0xca, 1])
        .bytes(&[0xf3, 0x0f, 0x51, 0xdb]);
    let after = lab.run();
    assert_eq!(
        after.values(Parameter::Double(Register::XMM1)),
        [Some(five_halves), Some(5.5f64.to_bits())]
    );
    let three = Some(3f64.to_bits());
    assert_eq!(after.values(Parameter::Double(Register::XMM2)), [three]);
    assert_eq!(after.values(Parameter::Single(Register::XMM3)), [None]);
}

/// What has to be aligned and is not raises an exception, unless a mask chooses none of its lanes;
/// a mask that is not known says nothing.
#[test]
fn masked_accesses_that_are_not_aligned() {
    let codes: [&[u8]; 2] = [
        &[0x62, 0xf1, 0x7c, 0x09, 0x28, 0x06], // vmovaps xmm0 {k1}, [rsi]
        &[0x62, 0xf1, 0x7c, 0x09, 0x29, 0x06], // vmovaps [rsi] {k1}, xmm0
    ];
    for code in codes {
        let stop = |mask| {
            let mut lab = Lab::new().reg(Register::RSI, 0x5008);
            lab.registers.masks[1] = mask;
            lab.bytes(code).run().outcome.stop
        };
        assert_eq!(stop(Word::known(2)), StopReason::FaultingInstruction);
        // Ones beyond the four lanes choose nothing.
        assert_eq!(stop(Word::known(0xf0)), StopReason::NotMapped);
        assert_eq!(stop(Word::UNKNOWN), StopReason::NotMapped);
    }
}

/// A subnormal number that counts as zero is not rounded away from it, and what a conversion makes
/// too small may be flushed to zero: unless the modes exclude it, neither is certain.
#[test]
fn roundings_near_zero() {
    const UP: u32 = 0x1f80 | 2 << 13;
    const DENORMALS_ARE_ZERO: u32 = 1 << 6;
    const FLUSH_TO_ZERO: u32 = 1 << 15;
    let run = |code: &[u8], bits: u64, mxcsr| {
        let mut lab = Lab::new();
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&bits.to_le_bytes());
        lab.registers.vectors[1] = Vector::partial(bytes, u64::MAX);
        lab.registers.mxcsr = Some(mxcsr);
        lab.bytes(code).run()
    };
    let to_integer = [0xf3, 0x0f, 0x2d, 0xc1]; // cvtss2si eax, xmm1
    let rounded = |mxcsr| run(&to_integer, 1, mxcsr).get(Register::EAX);
    assert_eq!(rounded(UP), Some(1));
    assert_eq!(rounded(UP | DENORMALS_ARE_ZERO), None);
    assert_eq!(rounded(0x1f80 | DENORMALS_ARE_ZERO), Some(0));
    let narrow = [0xf2, 0x0f, 0x5a, 0xc1]; // cvtsd2ss xmm0, xmm1
    let single = |value: f64, mxcsr| {
        let after = run(&narrow, value.to_bits(), mxcsr);
        after.values(Parameter::Single(Register::XMM0))
    };
    assert_eq!(single(1e-300, UP), [Some(1)]);
    assert_eq!(single(1e-300, UP | FLUSH_TO_ZERO), [None]);
    // Exact, though subnormal.
    assert_eq!(single(f32::from_bits(5).into(), UP), [Some(5)]);
}

/// A store whose address is another than that of the memory operand, though made from the same
/// register, leaves no memory known.
#[test]
fn stores_beside_the_memory_operand() {
    let after = Lab::new()
        .memory(0x5000, &[7; 8])
        .reg(Register::RSI, 0x5000)
        // movdir64b rsi, [rsi-0x140]
        .bytes(&[0x66, 0x0f, 0x38, 0xf8, 0xb6, 0xc0, 0xfe, 0xff, 0xff])
        // mov rax, [rsi]
        .bytes(&[0x48, 0x8b, 0x06])
        .run();
    assert_eq!(after.get(Register::RAX), None);
}
