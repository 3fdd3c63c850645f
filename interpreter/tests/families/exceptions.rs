//! The exceptions of the manuals, one by one, as the table says.

use std::fmt::Write as _;
use std::path::Path;

use iced_x86::Register;
use interpreter::{
    DecodeCache, Decoded, EXCEPTIONS, Flag, Handlers, Processor, Registers, StopReason, Support,
    Vector,
};

use crate::lab::{Lab, START};

/// Why the window ended, and after how many instructions.
fn end(lab: &Lab) -> (StopReason, u32) {
    let outcome = lab.run().outcome;
    (outcome.stop, outcome.instructions)
}

/// All source text of the tests below a folder.
fn tests_in(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            tests_in(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).expect("it is text"));
        }
    }
}

/// Every row names tests, which exist, and the text that is made of the table is up to date.
/// `VCPI_UPDATE=1` writes it anew.
#[test]
fn the_table_is_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = String::new();
    tests_in(&root.join("tests"), &mut source);
    let mut text = String::from(
        "# Exceptions\n\nWhat each exception means for a window. Made from the table in \
         `src/exceptions.rs`.\n\n| vector | exception | window | why | shown by |\n\
         |---|---|---|---|---|\n",
    );
    for row in EXCEPTIONS {
        assert!(
            !row.tests.is_empty() && row.reason.ends_with('.'),
            "{row:?}"
        );
        for test in row.tests {
            assert!(
                source.contains(&format!("fn {test}()")),
                "{test} of {row:?}"
            );
        }
        let (vector, name, fate) = (row.vector, row.name, row.fate.text());
        let tests: Vec<_> = row.tests.iter().map(|test| format!("`{test}`")).collect();
        let (reason, tests) = (row.reason, tests.join(", "));
        let _ = writeln!(text, "| {vector} | {name} | {fate} | {reason} | {tests} |");
    }
    let path = root.join("exceptions.md");
    if std::env::var_os("VCPI_UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the text can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the text is there");
    assert_eq!(kept, text, "{} is not what the table says", path.display());
}

/// Divisions by zero, with quotients that do not fit, and such as may be so, end the window; one
/// that fits whatever the unknown part is does not.
#[test]
fn divide_errors() {
    let lab = Lab::new()
        .reg(Register::RAX, 100)
        .reg(Register::RBX, 7)
        .reg(Register::RDX, 0);
    let div = [0x48, 0xf7, 0xf3]; // div rbx
    let idiv = [0x48, 0xf7, 0xfb]; // idiv rbx
    for code in [div, idiv] {
        let by_zero = lab.clone().reg(Register::RBX, 0).bytes(&code);
        assert_eq!(end(&by_zero), (StopReason::FaultingInstruction, 0));
        let too_large = lab.clone().reg(Register::RDX, 7).bytes(&code);
        assert_eq!(end(&too_large), (StopReason::FaultingInstruction, 0));
        let unknown = lab.clone().hide(Register::RBX).bytes(&code);
        assert_eq!(end(&unknown), (StopReason::MayFault, 0));
        let unknown = lab.clone().hide(Register::RDX).bytes(&code);
        assert_eq!(end(&unknown), (StopReason::MayFault, 0));
    }
    let fits = lab.clone().hide(Register::RAX).bytes(&div);
    assert_eq!(end(&fits), (StopReason::NotMapped, 1));
    assert_eq!(fits.run().get(Register::RAX), None);
}

/// A thread whose trap flag is set runs one instruction, and none that is repeated.
#[test]
fn single_steps() {
    let step = |code: &[u8]| {
        let mut lab = Lab::new().reg(Register::RDI, 0x5000).bytes(code);
        lab.registers.single_step = true;
        lab.run()
    };
    // inc eax; inc eax
    let after = step(&[0xff, 0xc0, 0xff, 0xc0]);
    assert_eq!(after.outcome.stop, StopReason::SingleStep);
    assert_eq!(after.get(Register::RAX), Some(1));
    // rep stosb
    let after = step(&[0xf3, 0xaa]);
    assert_eq!(
        (after.outcome.stop, after.outcome.instructions),
        (StopReason::SingleStep, 0)
    );
    // What faults by itself does so: ud2.
    assert_eq!(
        step(&[0x0f, 0x0b]).outcome.stop,
        StopReason::FaultingInstruction
    );
    // The flag is the sample's.
    let sample = |flags| interpreter::Registers::from_sample([0; 16], START, flags);
    assert!(sample(1 << 8).single_step && !sample(2).single_step);
}

/// `popf` that sets the trap flag or the alignment check, or may, ends the window of a program. The
/// kernel's does if it is known to trap.
#[test]
fn flags_that_interrupt() {
    let kernel = 0xffff_ffff_8100_0000;
    let pop = |flags: Option<u64>, at: u64, code: &[u8]| {
        let mut lab = Lab::new().reg(Register::RSP, 0x8000).at(at).bytes(code);
        lab.registers.rip = at;
        if let Some(flags) = flags {
            lab = lab.memory(0x8000, &flags.to_le_bytes());
        }
        lab.run().outcome.stop
    };
    let (popfq, popfw) = ([0x9d], [0x66, 0x9d]);
    assert_eq!(pop(Some(0x202), START, &popfq), StopReason::NotMapped);
    assert_eq!(pop(Some(0x302), START, &popfq), StopReason::Unsupported);
    assert_eq!(pop(Some(0x4_0202), START, &popfq), StopReason::Unsupported);
    assert_eq!(pop(Some(0x4_0202), START, &popfw), StopReason::NotMapped);
    assert_eq!(pop(None, START, &popfq), StopReason::MayFault);
    assert_eq!(pop(None, kernel, &popfq), StopReason::NotMapped);
    assert_eq!(pop(Some(0x4_0202), kernel, &popfq), StopReason::NotMapped);
    assert_eq!(pop(Some(0x302), kernel, &popfq), StopReason::Unsupported);
}

/// Breakpoints, traps and what is no instruction of 64-bit mode end the window or are not decoded.
#[test]
fn traps_and_invalid_codes() {
    let ends: [(&[u8], StopReason); 9] = [
        (&[0xcc], StopReason::SystemCall),                      // int3
        (&[0xf1], StopReason::SystemCall),                      // int1
        (&[0xcd, 3], StopReason::SystemCall),                   // int 3
        (&[0xcd, 0x80], StopReason::SystemCall),                // int 0x80
        (&[0x0f, 0x0b], StopReason::FaultingInstruction),       // ud2
        (&[0x0f, 0xb9, 0xc0], StopReason::FaultingInstruction), // ud1 eax, eax
        (&[0x0f, 0xff, 0xc0], StopReason::FaultingInstruction), // ud0 eax, eax
        (&[0xf3, 0x0f, 0x1a, 0x00], StopReason::Unsupported),   // bndcl bnd0, [rax]
        (&[0x66, 0x0f, 0x1b, 0x00], StopReason::Unsupported),   // bndmov [rax], bnd0
    ];
    for (code, reason) in ends {
        assert_eq!(end(&Lab::new().bytes(code)), (reason, 0), "{code:02x?}");
    }
    let refused: [&[u8]; 6] = [
        &[0xce],                   // into
        &[0x62, 0x00, 0, 0, 0, 0], // bound eax, [eax]
        &[0xf0, 0x01, 0xc0],       // lock add eax, eax
        &[0xf0, 0x8b, 0x00],       // lock mov eax, [rax]
        &[0x06],                   // push es
        &[0x8c, 0xf8],             // mov eax, of no segment
    ];
    for code in refused {
        let mut bytes = code.to_vec();
        bytes.resize(15, 0);
        let decoded = Decoded::new(&bytes, START).err();
        assert_eq!(decoded, Some(StopReason::Undecodable), "{code:02x?}");
    }
}

/// What tiles compute is unknown, and so is what x87 does if its registers are; nothing else is.
#[test]
fn unfollowed_units_are_unknown() {
    // fld qword [rbx]; fdiv st0, st1; fstp qword [rbx+8]; fwait
    let x87 = [0xdd, 0x03, 0xd8, 0xf1, 0xdd, 0x5b, 8, 0x9b];
    let lab = Lab::new()
        .memory(0x5000, &[1; 32])
        .reg(Register::RBX, 0x5000)
        .bytes(&x87)
        // mov rax, [rbx+8]; mov rcx, [rbx+16]
        .bytes(&[0x48, 0x8b, 0x43, 8, 0x48, 0x8b, 0x4b, 16]);
    let after = lab.run();
    assert_eq!(after.get(Register::RAX), None);
    assert_eq!(after.get(Register::RCX), Some(0x0101_0101_0101_0101));
    // tilestored [rbx+rcx], tmm0: rows at distances of rcx.
    let tiles = [0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x0b];
    let lab = Lab::new()
        .memory(0x5000, &[1; 32])
        .reg(Register::RBX, 0x4000)
        .bytes(&tiles)
        // mov rax, [0x5000]
        .bytes(&[0x48, 0x8b, 0x04, 0x25, 0, 0x50, 0, 0]);
    assert_eq!(lab.run().get(Register::RAX), None);
}

/// Selectors and far transfers end the window.
#[test]
fn segment_faults() {
    let lab = Lab::new().reg(Register::RAX, 0x33);
    let cases: [&[u8]; 5] = [
        &[0x8e, 0xd8], // mov ds, eax
        &[0x8e, 0xd0], // mov ss, eax
        &[0x48, 0xcf], // iretq
        &[0xff, 0x18], // call far [rax]
        &[0xcb],       // retf
    ];
    for code in cases {
        let lab = lab.clone().bytes(code);
        assert_eq!(end(&lab), (StopReason::FarTransfer, 0), "{code:02x?}");
    }
}

/// Addresses that are not canonical end the window, of the stack as of any other memory, of
/// operands and of what has none.
#[test]
fn addresses_that_raise() {
    let nowhere = 0x1234_5678_9abc_de00;
    let mut lab = Lab::new();
    for number in 0..16 {
        lab = lab.reg(Register::RAX + number, nowhere);
    }
    let cases: [&[u8]; 12] = [
        &[0x50],                         // push rax
        &[0x58],                         // pop rax
        &[0xc3],                         // ret
        &[0xc9],                         // leave
        &[0x8b, 0x45, 0],                // mov eax, [rbp]
        &[0xaa],                         // stosb
        &[0x0f, 0x01, 0xfc],             // clzero
        &[0x66, 0x0f, 0x38, 0xf8, 0x03], // movdir64b rax, [rbx]
        &[0x0f, 0xf7, 0xc1],             // maskmovq mm0, mm1
        &[0x0f, 0xae, 0x03],             // fxsave [rbx]
        &[0xd9, 0x33],                   // fnstenv [rbx]
        &[0xf3, 0x0f, 0xae, 0x23],       // ptwrite [rbx]
    ];
    for code in cases {
        let lab = lab.clone().bytes(code);
        assert_eq!(
            end(&lab),
            (StopReason::FaultingInstruction, 0),
            "{code:02x?}"
        );
    }
}

/// What has to be aligned to 16 bytes, or to 64, and is not ends the window, whether the
/// instruction is interpreted or not; if the address is not known, the window goes on.
#[test]
fn operands_that_must_be_aligned() {
    let cases: [(&[u8], u64); 9] = [
        (&[0x0f, 0x28, 0x03], 16),                   // movaps xmm0, [rbx]
        (&[0x66, 0x0f, 0xe7, 0x03], 16),             // movntdq [rbx], xmm0
        (&[0x0f, 0x53, 0x03], 16),                   // rcpps xmm0, [rbx]
        (&[0x0f, 0x52, 0x03], 16),                   // rsqrtps xmm0, [rbx]
        (&[0x66, 0x0f, 0x2d, 0x03], 16),             // cvtpd2pi mm0, [rbx]
        (&[0x48, 0x0f, 0xc7, 0x0b], 16),             // cmpxchg16b [rbx]
        (&[0x0f, 0xae, 0x23], 64),                   // xsave [rbx]
        (&[0x62, 0xf1, 0x7c, 0x48, 0x29, 0x03], 64), // vmovaps [rbx], zmm0
        (&[0x66, 0x0f, 0x38, 0xf8, 0x1e], 64),       // movdir64b rbx, [rsi]
    ];
    for (code, aligned) in cases {
        let lab = Lab::new().reg(Register::RSI, 0x6000).bytes(code);
        let at = |address| end(&lab.clone().reg(Register::RBX, address));
        assert_eq!(at(0x5000 + aligned).0, StopReason::NotMapped, "{code:02x?}");
        assert_eq!(
            at(0x5000 + aligned / 2),
            (StopReason::FaultingInstruction, 0),
            "{code:02x?}"
        );
        let unknown = end(&lab.clone().hide(Register::RBX));
        assert_eq!(unknown.0, StopReason::NotMapped, "{code:02x?}");
    }
}

/// A program that has alignment checked has no windows; in the kernel the flag means another thing.
#[test]
fn alignment_checks() {
    let sample = |rip| interpreter::Registers::from_sample([0; 16], rip, 1 << 18);
    assert!(sample(START).alignment_checked);
    assert!(!sample(0xffff_ffff_8100_0000).alignment_checked);
    let mut lab = Lab::new().bytes(&[0x90]);
    lab.registers.alignment_checked = true;
    assert_eq!(end(&lab), (StopReason::AlignmentChecked, 0));
}

/// Two doubles in the low lanes of xmm0 and xmm1, and what follows of an instruction on them.
fn doubles(a: f64, b: f64, mxcsr: Option<u32>, code: &[u8]) -> StopReason {
    let mut lab = Lab::new().bytes(code);
    for (register, value) in lab.registers.vectors.iter_mut().zip([a, b]) {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        *register = Vector::partial(bytes, u64::MAX);
    }
    lab.registers.mxcsr = mxcsr;
    lab.run().outcome.stop
}

const DIVSD: [u8; 4] = [0xf2, 0x0f, 0x5e, 0xc1];
const MULSD: [u8; 4] = [0xf2, 0x0f, 0x59, 0xc1];
const SUBSD: [u8; 4] = [0xf2, 0x0f, 0x5c, 0xc1];
const COMISD: [u8; 4] = [0x66, 0x0f, 0x2f, 0xc1];
const UCOMISD: [u8; 4] = [0x66, 0x0f, 0x2e, 0xc1];
/// cvttsd2si eax, xmm0
const CVTTSD2SI: [u8; 4] = [0xf2, 0x0f, 0x2c, 0xc0];

/// Where MXCSR is not known, what raises an exception other than an inexact result ends the window:
/// invalid, denormal, division by zero, overflow, underflow. What raises none does not.
#[test]
fn float_exceptions() {
    let infinity = f64::INFINITY;
    let raising: [(f64, f64, [u8; 4]); 8] = [
        (1.0, 0.0, DIVSD),
        (0.0, 0.0, DIVSD),
        (infinity, infinity, SUBSD),
        (f64::MAX, 2.0, MULSD),
        (1e-200, 1e-200, MULSD),
        (f64::from_bits(1), 1.0, MULSD),
        (f64::NAN, 1.0, COMISD),
        (1e30, 0.0, CVTTSD2SI),
    ];
    for (a, b, code) in raising {
        assert_eq!(
            doubles(a, b, None, &code),
            StopReason::FloatException,
            "{a} {b}"
        );
        // Masked, it goes on.
        assert_eq!(
            doubles(a, b, Some(0x1f80), &code),
            StopReason::NotMapped,
            "{a} {b}"
        );
    }
    let silent: [(f64, f64, [u8; 4]); 6] = [
        (1.0, 3.0, DIVSD),
        (0.0, 5.0, DIVSD),
        (1.0, infinity, DIVSD),
        (infinity, 2.0, MULSD),
        (f64::NAN, 1.0, UCOMISD),
        (7.5, 0.0, CVTTSD2SI),
    ];
    for (a, b, code) in silent {
        assert_eq!(doubles(a, b, None, &code), StopReason::NotMapped, "{a} {b}");
    }
}

/// Any arithmetic ends the window if MXCSR is known to unmask an exception, but for instructions
/// that suppress them.
#[test]
fn unmasked_float_exceptions() {
    for unmasked in [0x80, 0x100, 0x200, 0x400, 0x800, 0x1000] {
        let mxcsr = Some(0x1f80 & !unmasked);
        assert_eq!(doubles(1.0, 2.0, mxcsr, &MULSD), StopReason::FloatException);
        // vmulsd xmm0, xmm0, xmm1, rounded to nearest
        let suppressed = [0x62, 0xf1, 0xff, 0x18, 0x59, 0xc1];
        assert_eq!(doubles(1.0, 0.0, mxcsr, &suppressed), StopReason::NotMapped);
    }
    // ldmxcsr [rbx], then the product.
    let lab = |mxcsr: u32| {
        let mut lab = Lab::new()
            .reg(Register::RBX, 0x5000)
            .memory(0x5000, &mxcsr.to_le_bytes())
            .bytes(&[0x0f, 0xae, 0x13])
            .bytes(&MULSD);
        lab.registers.vectors[0] = Vector::partial([0; 64], u64::MAX);
        lab.registers.vectors[1] = Vector::partial([0; 64], u64::MAX);
        end(&lab)
    };
    assert_eq!(lab(0x1f80), (StopReason::NotMapped, 2));
    assert_eq!(lab(0x1d80), (StopReason::FloatException, 1));
}

/// Where the program has a handler for accesses that do not go through, a window ends at each of
/// which that is not known: at an unknown address, of an unknown lane or number of elements, of an
/// unknown state, and where the kernel may be asked to refuse the instruction. Without it goes on.
#[test]
fn unknown_accesses_with_a_handler() {
    let unknown = Register::RBX;
    let cases: [&[u8]; 15] = [
        &[0x48, 0x8b, 0x03],                   // mov rax, [rbx]
        &[0x48, 0x89, 0x03],                   // mov [rbx], rax
        &[0x48, 0x83, 0x03, 1],                // add qword [rbx], 1
        &[0x0f, 0x28, 0x03],                   // movaps xmm0, [rbx]
        &[0x0f, 0x53, 0x03],                   // rcpps xmm0, [rbx]
        &[0xd9, 0x03],                         // fld dword [rbx]
        &[0x0f, 0xae, 0x03],                   // fxsave [rbx]
        &[0x48, 0x87, 0xde, 0xa4],             // xchg rsi, rbx; movsb
        &[0x48, 0x87, 0xd9, 0xf3, 0xa4],       // xchg rcx, rbx; rep movsb
        &[0x48, 0x87, 0xd9, 0xf3, 0xae],       // xchg rcx, rbx; repe scasb
        &[0xc4, 0xe2, 0x75, 0x8c, 0x06],       // vpmaskmovd ymm0, ymm1, [rsi]
        &[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x16], // vpgatherdd ymm0, [rsi+ymm2], ymm1
        &[0x0f, 0xae, 0x3b],                   // clflush [rbx]
        &[0x0f, 0x31],                         // rdtsc
        &[0xf3, 0x48, 0x0f, 0xae, 0xd3],       // wrfsbase rbx
    ];
    let access = Handlers {
        access: true,
        ..Handlers::NONE
    };
    for code in cases {
        let mut lab = Lab::new()
            .reg(Register::RSI, 0x5000)
            .reg(Register::RDI, 0x6000)
            .hide(unknown)
            .bytes(code);
        assert_eq!(lab.run().outcome.stop, StopReason::NotMapped, "{code:x?}");
        lab.registers.handlers = access;
        assert_eq!(lab.run().outcome.stop, StopReason::MayFault, "{code:x?}");
    }
    // A known address is the host's to judge; nothing is repeated no times.
    let known = |code: &[u8], handlers: Handlers| {
        let mut lab = Lab::new()
            .reg(Register::RBX, 0x5000)
            .reg(Register::RCX, 0)
            .hide(Register::RSI)
            .bytes(code);
        lab.registers.handlers = handlers;
        lab.run().outcome.stop
    };
    let (store, move_none) = ([0x48, 0x89, 0x03], [0xf3, 0xa4]);
    assert_eq!(known(&store, access), StopReason::NotMapped);
    assert_eq!(known(&move_none, access), StopReason::NotMapped);
    // With protection keys no store is known to go through, and of loads those that were read.
    let keys = Handlers {
        keys: true,
        ..access
    };
    assert_eq!(known(&store, keys), StopReason::MayFault);
    assert_eq!(known(&[0x48, 0x8b, 0x03], keys), StopReason::MayFault);
    let mut read = Lab::new()
        .reg(Register::RBX, 0x5000)
        .memory(0x5000, &[1; 8])
        .bytes(&[0x48, 0x8b, 0x03]);
    read.registers.handlers = keys;
    assert_eq!(read.run().outcome.stop, StopReason::NotMapped);
}

/// Where the program has a handler for floating-point exceptions, all arithmetic ends the window
/// unless MXCSR is known to mask them, and so do the instructions of x87 and MMX. Without it goes
/// on.
#[test]
fn floats_with_a_handler() {
    let float = Handlers {
        float: true,
        ..Handlers::NONE
    };
    let end = |code: &[u8], handlers: Handlers, mxcsr: Option<u32>| {
        let mut lab = Lab::new().bytes(code);
        lab.registers.handlers = handlers;
        lab.registers.mxcsr = mxcsr;
        lab.run().outcome.stop
    };
    let unpack = [0x0f, 0x5a, 0xc1]; // cvtps2pd xmm0, xmm1
    let not_followed = [0x66, 0x0f, 0x2d, 0xc1]; // cvtpd2pi mm0, xmm1
    let approximate = [0x0f, 0x53, 0xc1]; // rcpps xmm0, xmm1
    for code in [&DIVSD[..], &COMISD, &CVTTSD2SI, &unpack, &approximate] {
        assert_eq!(end(code, Handlers::NONE, None), StopReason::NotMapped);
        assert_eq!(end(code, float, None), StopReason::FloatException);
        assert_eq!(end(code, float, Some(0x1f80)), StopReason::NotMapped);
        assert_eq!(end(code, float, Some(0x1d80)), StopReason::FloatException);
    }
    // fld1; fdivp; fwait; fnop; emms; movd mm0, eax
    let of_x87: [&[u8]; 6] = [
        &[0xd9, 0xe8],
        &[0xde, 0xf9],
        &[0x9b],
        &[0xd9, 0xd0],
        &[0x0f, 0x77],
        &[0x0f, 0x6e, 0xc0],
    ];
    for code in of_x87.into_iter().chain([&not_followed[..]]) {
        assert_eq!(end(code, Handlers::NONE, None), StopReason::NotMapped);
        assert_eq!(
            end(code, float, Some(0x1f80)),
            StopReason::FloatException,
            "{code:x?}"
        );
    }
    // What raises none: movaps xmm0, xmm1; pxor xmm0, xmm1; vaddsd with exceptions suppressed
    let suppressed = [0x62, 0xf1, 0xff, 0x18, 0x58, 0xc1];
    let silent: [&[u8]; 3] = [&[0x0f, 0x28, 0xc1], &[0x66, 0x0f, 0xef, 0xc1], &suppressed];
    for code in silent {
        assert_eq!(end(code, float, None), StopReason::NotMapped);
    }
    // A sample brings no handlers by itself.
    let sample = Registers::from_sample([0; 16], START, 0);
    assert_eq!(sample.handlers, Handlers::NONE);
}

/// A window ends before an instruction that the processor does not say it has, wherever its code
/// comes from.
#[test]
fn instructions_that_are_not_there() {
    let lzcnt = [0xf3, 0x0f, 0xbd, 0xc7];
    let support = |processor: &Processor, code: &[u8]| {
        let decoded = Decoded::new(code, 0).expect("an instruction");
        decoded.on(processor).support()
    };
    let (old, new) = (
        Processor::with_flags("lm"),
        Processor::with_flags("lm abm avx2"),
    );
    let absent = Support::Stops(StopReason::NoSuchInstruction);
    assert_eq!(support(&old, &lzcnt), absent);
    assert_eq!(support(&new, &lzcnt), Support::Interpreted);
    // vpaddd ymm0, ymm1, ymm2; mov eax, edi
    assert_eq!(support(&old, &[0xc5, 0xf5, 0xfe, 0xc2]), absent);
    assert_eq!(support(&old, &[0x89, 0xf8]), Support::Interpreted);
    // What stops anyway does so for its own reason: ud2.
    let ud2 = Support::Stops(StopReason::FaultingInstruction);
    assert_eq!(support(&old, &[0x0f, 0x0b]), ud2);
    let mut cache = DecodeCache::new(4);
    cache.set_processor(old);
    let held = cache.get_sampled(1, 0, &lzcnt).expect("it is decoded");
    assert_eq!(held.support(), absent);
    let read = |bytes: &mut [u8; 15]| {
        bytes[..4].copy_from_slice(&lzcnt);
        Ok(15)
    };
    let held = cache.get_or_decode(2, 0, read).expect("it is decoded");
    assert_eq!(held.support(), absent);
}

/// An interrupt, a fault that the kernel serves, or a signal whose handler returns is no event of
/// the window: its outcome depends on the state at its start alone.
#[test]
fn interrupts_change_nothing() {
    let lab = Lab::new()
        .reg(Register::RBX, 0x5000)
        .memory(0x5000, &[1; 8])
        // mov rax, [rbx]; add rax, 1; mov [rbx], rax
        .bytes(&[0x48, 0x8b, 0x03, 0x48, 0x83, 0xc0, 1, 0x48, 0x89, 0x03]);
    // The interrupt flag, the resume flag and others of the system have no say.
    let mut other = lab.clone();
    other.registers = interpreter::Registers::from_sample([0; 16], START, 0x1_3202);
    other.registers.gpr = lab.registers.gpr;
    let (one, two) = (lab.run(), other.run());
    assert_eq!(one.outcome, two.outcome);
    assert_eq!(one.told, two.told);
    assert_eq!(one.flag(Flag::Cf), Some(false));
}
