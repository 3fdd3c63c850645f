//! Moves and their like.

use iced_x86::{Code, ConditionCode, Instruction, Register};
use interpreter::{Flag, Parameter, StopReason, Word};

use crate::lab::Lab;

/// Writing part of a register leaves the rest alone, except that 32 bits clear the upper half.
#[test]
fn partial_writes() {
    let lab = Lab::new()
        .reg(Register::RAX, 0x1122_3344_5566_7788)
        .reg(Register::RBX, u64::MAX);
    let cases: [(&[u8], u64); 5] = [
        (&[0x88, 0xd8], 0x1122_3344_5566_77ff),       // mov al, bl
        (&[0x88, 0xdc], 0x1122_3344_5566_ff88),       // mov ah, bl
        (&[0x66, 0x89, 0xd8], 0x1122_3344_5566_ffff), // mov ax, bx
        (&[0x89, 0xd8], 0xffff_ffff),                 // mov eax, ebx
        (&[0x48, 0x89, 0xd8], u64::MAX),              // mov rax, rbx
    ];
    for (code, expected) in cases {
        assert_eq!(
            lab.clone().bytes(code).run().get(Register::RAX),
            Some(expected)
        );
        // The same holds for knowledge: unknown bytes are those that were written.
        let unknown = lab.clone().hide(Register::RBX).bytes(code).run();
        let known = unknown.outcome.registers.gpr[0].known_bytes();
        let expected = match code.len() {
            2 if code[0] == 0x88 => !if code[1] == 0xd8 { 1 } else { 2 },
            3 if code[0] == 0x66 => !3,
            2 => 0xf0,
            _ => 0,
        };
        assert_eq!(known, expected, "{code:02x?}");
    }
}

/// Sign and zero extension agree with the language's casts.
#[test]
fn extensions() {
    let lab = Lab::new()
        .reg(Register::RBX, 0x8000_0000_ffff_8080)
        .reg(Register::RAX, 0x80);
    let cases: [(&[u8], Register, u64); 9] = [
        (&[0x0f, 0xb6, 0xc3], Register::RAX, 0x80), // movzx eax, bl
        (&[0x0f, 0xbe, 0xc3], Register::RAX, 0xffff_ff80), // movsx eax, bl
        (
            &[0x48, 0x0f, 0xbf, 0xc3],
            Register::RAX,
            0x8080u16 as i16 as u64,
        ), // movsx rax, bx
        (
            &[0x48, 0x63, 0xc3],
            Register::RAX,
            0xffff_8080u32 as i32 as u64,
        ), // movsxd rax, ebx
        (&[0x66, 0x98], Register::RAX, 0xff80),     // cbw
        (&[0x98], Register::RAX, 0x80),             // cwde
        (&[0x48, 0x98], Register::RAX, 0x80),       // cdqe
        (&[0x48, 0x99], Register::RDX, 0),          // cqo
        (&[0x66, 0x98, 0x98, 0x99], Register::RDX, 0xffff_ffff), // cbw; cwde; cdq
    ];
    for (code, register, expected) in cases {
        assert_eq!(
            lab.clone().bytes(code).run().get(register),
            Some(expected),
            "{code:02x?}"
        );
    }
}

/// Addresses of `lea` wrap at their width and use no segment.
#[test]
fn addresses() {
    let lab = Lab::new()
        .reg(Register::RBX, u64::MAX)
        .reg(Register::RCX, 0x4000_0000_0000_0000);
    // lea rax, [rbx+rcx*4+8]; lea eax, [rbx+8]; lea rax, [ebx+8]; lea ax, [rbx+8]
    let cases: [(&[u8], u64); 4] = [
        (&[0x48, 0x8d, 0x44, 0x8b, 0x08], 7),
        (&[0x8d, 0x43, 0x08], 7),
        (&[0x67, 0x48, 0x8d, 0x43, 0x08], 7),
        (&[0x66, 0x8d, 0x43, 0x08], 7),
    ];
    for (code, expected) in cases {
        let after = lab.clone().bytes(code).run();
        assert_eq!(after.get(Register::RAX), Some(expected), "{code:02x?}");
        assert!(
            after.values(Parameter::Ea).is_empty(),
            "an address is no access"
        );
    }
}

/// Every condition of `setcc` is what the definition says, for all values of its flags.
#[test]
fn conditions() {
    let codes = [
        (Code::Seto_rm8, ConditionCode::o),
        (Code::Setno_rm8, ConditionCode::no),
        (Code::Setb_rm8, ConditionCode::b),
        (Code::Setae_rm8, ConditionCode::ae),
        (Code::Sete_rm8, ConditionCode::e),
        (Code::Setne_rm8, ConditionCode::ne),
        (Code::Setbe_rm8, ConditionCode::be),
        (Code::Seta_rm8, ConditionCode::a),
        (Code::Sets_rm8, ConditionCode::s),
        (Code::Setns_rm8, ConditionCode::ns),
        (Code::Setp_rm8, ConditionCode::p),
        (Code::Setnp_rm8, ConditionCode::np),
        (Code::Setl_rm8, ConditionCode::l),
        (Code::Setge_rm8, ConditionCode::ge),
        (Code::Setle_rm8, ConditionCode::le),
        (Code::Setg_rm8, ConditionCode::g),
    ];
    for (code, condition) in codes {
        let setcc = Instruction::with1(code, Register::AL).expect("it takes a register");
        for set in 0..32u64 {
            let flag = |i: u64| set >> i & 1 != 0;
            let (c, p, z, s, o) = (flag(0), flag(1), flag(2), flag(3), flag(4));
            let bits = [
                (c, Flag::Cf),
                (p, Flag::Pf),
                (z, Flag::Zf),
                (s, Flag::Sf),
                (o, Flag::Of),
            ];
            let rflags = bits
                .iter()
                .filter(|b| b.0)
                .fold(0, |all, b| all | b.1 as u64);
            use ConditionCode as C;
            let holds = match condition {
                C::o | C::no => o,
                C::b | C::ae => c,
                C::e | C::ne => z,
                C::be | C::a => c || z,
                C::s | C::ns => s,
                C::p | C::np => p,
                C::l | C::ge => s != o,
                _ => z || s != o,
            };
            let negated = matches!(
                condition,
                C::no | C::ae | C::ne | C::a | C::ns | C::np | C::ge | C::g
            );
            let after = Lab::new().flags(rflags).code(setcc).run();
            assert_eq!(
                after.get(Register::RAX),
                Some(u64::from(holds != negated)),
                "{code:?}"
            );
        }
    }
}

/// A conditional move with an unknown condition is known where both values agree, and 32 bits clear
/// the upper half even when nothing is moved.
#[test]
fn conditional_moves() {
    let lab = Lab::new()
        .reg(Register::RAX, 0x1_0000_00aa)
        .reg(Register::RBX, 0xbb)
        .flags(0);
    // cmove eax, ebx
    let lab = lab.bytes(&[0x0f, 0x44, 0xc3]);
    assert_eq!(lab.run().get(Register::RAX), Some(0xaa));
    let mut unknown = lab.clone();
    unknown.registers.rflags.set(Flag::Zf, None);
    let after = unknown.run();
    assert_eq!(after.outcome.registers.gpr[0], Word::partial(0, 0xfe));
    assert_eq!(after.values(Parameter::Dest(Register::EAX)), [None]);
    let equal = unknown.reg(Register::RBX, 0xaa).run();
    assert_eq!(equal.get(Register::RAX), Some(0xaa));
}

/// Exchanges, byte swaps and table look-ups do what they say.
#[test]
fn exchanges() {
    let lab = Lab::new()
        .reg(Register::RAX, 0x0102_0304_0506_0708)
        .reg(Register::RBX, 9);
    let after = lab.clone().bytes(&[0x48, 0x87, 0xd8]).run(); // xchg rax, rbx
    assert_eq!(after.get(Register::RAX), Some(9));
    assert_eq!(after.get(Register::RBX), Some(0x0102_0304_0506_0708));
    let events = [
        Parameter::Dest(Register::RBX),
        Parameter::Dest(Register::RAX),
    ];
    assert!(
        events
            .iter()
            .all(|event| after.parameters().contains(event))
    );
    let after = lab.clone().bytes(&[0x48, 0x0f, 0xc8]).run(); // bswap rax
    assert_eq!(after.get(Register::RAX), Some(0x0807_0605_0403_0201));
    let after = lab.clone().bytes(&[0x0f, 0xc8]).run(); // bswap eax
    assert_eq!(after.get(Register::RAX), Some(0x0807_0605));
    // xlatb; movbe [rbx+0x100], eax; mov ecx, [rbx+0x100]
    let after = lab.clone().memory(9 + 8, &[0x5a]).bytes(&[0xd7]).run();
    assert_eq!(after.get(Register::AL), Some(0x5a));
    let code = [0x0f, 0x38, 0xf1, 0x83, 0, 1, 0, 0, 0x8b, 0x8b, 0, 1, 0, 0];
    let after = lab.bytes(&code).run();
    assert_eq!(after.get(Register::RCX), Some(0x0807_0605));
}

/// Flushing a line of an address that cannot be one raises an exception; a prefetch never does.
#[test]
fn addresses_of_lines() {
    let stop = |code: &[u8]| {
        let lab = Lab::new().reg(Register::RSI, 1 << 60);
        lab.bytes(code).run().outcome.stop
    };
    assert_eq!(stop(&[0x0f, 0xae, 0x3e]), StopReason::FaultingInstruction); // clflush [rsi]
    assert_eq!(stop(&[0x0f, 0x18, 0x0e]), StopReason::NotMapped); // prefetcht0 [rsi]
}
