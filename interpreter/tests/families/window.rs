//! Windows: which events an instruction has, and how far a window goes.

use iced_x86::Register;
use interpreter::{Flag, Parameter, StopReason, ValueKinds, Word};

use crate::lab::{Lab, START, Told};

/// What follows from the encoding alone is no value event.
#[test]
fn constants_are_no_news() {
    let constants: [&[u8]; 8] = [
        &[0xb8, 5, 0, 0, 0],                            // mov eax, 5
        &[0x31, 0xc0],                                  // xor eax, eax
        &[0x29, 0xc0],                                  // sub eax, eax
        &[0x83, 0xe0, 0],                               // and eax, 0
        &[0x83, 0xc8, 0xff],                            // or eax, -1
        &[0x48, 0x8d, 0x05, 0, 1, 0, 0],                // lea rax, [rip+0x100]
        &[0xc7, 0x04, 0x25, 0, 0x50, 0, 0, 1, 0, 0, 0], // mov dword ptr [0x5000], 1
        &[0x90],
    ];
    for code in constants {
        let mut lab = Lab::new().bytes(code);
        lab.capture = ValueKinds::all();
        let mut told = lab.run().told;
        told.retain(|told| {
            !matches!(
                told,
                Told::Reached(_) | Told::Value(_, Parameter::Operand(_) | Parameter::Old, _)
            )
        });
        assert_eq!(told, [], "{code:02x?}");
    }
}

/// Registers combined with themselves are known, whatever they held.
#[test]
fn identities() {
    let lab = Lab::new().hide(Register::RAX);
    for (code, value) in [
        (&[0x31, 0xc0][..], 0),
        (&[0x29, 0xc0], 0),
        (&[0x83, 0xe0, 0], 0),
        (&[0x83, 0xc8, 0xff], 0xffff_ffff),
        (&[0x6b, 0xc0, 0], 0),
    ] {
        let after = lab.clone().bytes(code).run();
        assert_eq!(after.get(Register::RAX), Some(value), "{code:02x?}");
    }
    // cmp eax, eax
    let after = lab.clone().bytes(&[0x39, 0xc0]).run();
    assert_eq!(
        (after.flag(Flag::Zf), after.flag(Flag::Cf)),
        (Some(true), Some(false))
    );
    // sbb eax, eax: minus the carry.
    let after = lab.clone().flags(1).bytes(&[0x19, 0xc0]).run();
    assert_eq!(after.get(Register::RAX), Some(0xffff_ffff));
    assert_eq!(
        after.values(Parameter::Dest(Register::EAX)),
        [Some(0xffff_ffff)]
    );
    // and eax, 0xff: three bytes are known.
    let after = lab.bytes(&[0x25, 0xff, 0, 0, 0]).run();
    assert_eq!(after.outcome.registers.gpr[0], Word::partial(0, 0xfe));
}

/// A comparison may be decided by the bytes that are known.
#[test]
fn comparisons_of_the_partly_known() {
    // cmp rax, rbx with a difference in the top byte
    let mut lab = Lab::new().bytes(&[0x48, 0x39, 0xd8]);
    lab.registers.gpr[0] = Word::partial(0x0100_0000_0000_0000, 0x80);
    lab.registers.gpr[3] = Word::partial(0x0200_0000_0000_0000, 0x80);
    let after = lab.run();
    assert_eq!(
        (after.flag(Flag::Zf), after.flag(Flag::Cf)),
        (Some(false), Some(true))
    );
    assert_eq!(after.flag(Flag::Sf), None);
}

/// An address is an event if a register made it, and only for an access.
#[test]
fn effective_addresses() {
    let lab = Lab::new().reg(Register::RBX, 0x5000);
    let run = |code: &[u8]| lab.clone().bytes(code).run().values(Parameter::Ea);
    assert_eq!(run(&[0x8b, 0x43, 8]), [Some(0x5008)]); // mov eax, [rbx+8]
    assert_eq!(run(&[0x8b, 0x05, 8, 0, 0, 0]), []); // mov eax, [rip+8]
    assert_eq!(run(&[0x8d, 0x43, 8]), []); // lea eax, [rbx+8]
    assert_eq!(run(&[0x0f, 0x1f, 0x43, 8]), []); // nop dword ptr [rbx+8]
    assert_eq!(run(&[0x53]), []); // push rbx
    assert_eq!(run(&[0x0f, 0x10, 0x43, 8]), [Some(0x5008)]); // movups xmm0, [rbx+8]
}

/// Only what is asked for is told; branches and calls always are.
#[test]
fn captures_are_kept_to() {
    // add eax, [rbx]; mov [rbx], eax; je +0; call rbx
    let code = [0x03, 0x03, 0x89, 0x03, 0x74, 0, 0xff, 0xd3];
    let mut lab = Lab::new()
        .reg(Register::RBX, 0x5000)
        .memory(0x5000, &[1; 8])
        .bytes(&code);
    for (capture, expected) in [
        (ValueKinds::NONE, vec![]),
        (ValueKinds::DEST, vec![Parameter::Dest(Register::EAX)]),
        (ValueKinds::EA, vec![Parameter::Ea, Parameter::Ea]),
        (ValueKinds::MEM, vec![Parameter::Mem]),
        (ValueKinds::BRANCH, vec![Parameter::Taken]),
        (ValueKinds::TARGET, vec![Parameter::Target]),
        (
            ValueKinds::OPERANDS,
            vec![
                Parameter::Operand(0),
                Parameter::Operand(1),
                Parameter::Operand(1),
                Parameter::Operand(0),
            ],
        ),
    ] {
        lab.capture = capture;
        let after = lab.run();
        assert_eq!(after.parameters(), expected, "{capture}");
        assert_eq!(after.calls().len(), 1);
        assert!(after.told.contains(&Told::Branch(START + 4, Some(false))));
    }
}

/// A window ends after its length and says how far it came.
#[test]
fn windows_end() {
    let mut lab = Lab::new().bytes(&[0xeb, 0xfe]); // a jump to itself
    let after = lab.run();
    assert_eq!(
        (after.outcome.instructions, after.outcome.stop),
        (16, StopReason::Complete)
    );
    lab.max_instructions = 0;
    assert_eq!(lab.run().told, []);
}

/// An unknown vector makes what is made of it unknown, memory, registers and flags, and nothing
/// else.
#[test]
fn vectors_of_a_sample_are_unknown() {
    let lab = Lab::new()
        .memory(0x5000, &[1; 64])
        .reg(Register::RBX, 0x5000)
        .reg(Register::RAX, 7)
        .flags(0x8d5);
    // movups [rbx+8], xmm0; mov rcx, [rbx]; mov rdx, [rbx+8]; mov rsi, [rbx+24]
    let code = [
        0x0f, 0x11, 0x43, 8, 0x48, 0x8b, 0x0b, 0x48, 0x8b, 0x53, 8, 0x48, 0x8b, 0x73, 24,
    ];
    let after = lab.clone().bytes(&code).run();
    assert_eq!(after.get(Register::RCX), Some(0x0101_0101_0101_0101));
    assert_eq!(after.get(Register::RDX), None);
    assert_eq!(after.get(Register::RSI), Some(0x0101_0101_0101_0101));
    assert_eq!(after.get(Register::RAX), Some(7));
    // pmovmskb eax, xmm0: the destination is reached and unknown, the bytes past its 16
    // bits zero.
    let after = lab.clone().bytes(&[0x66, 0x0f, 0xd7, 0xc0]).run();
    assert_eq!(after.values(Parameter::Dest(Register::EAX)), [None]);
    assert_eq!(after.outcome.registers.gpr[0].known_bytes(), 0xfc);
    // ucomisd xmm0, xmm1: ZF PF CF unknown, the rest cleared.
    let after = lab.bytes(&[0x66, 0x0f, 0x2e, 0xc1]).run();
    assert_eq!(
        (after.flag(Flag::Zf), after.flag(Flag::Of)),
        (None, Some(false))
    );
}

/// A path tells the way of a window: directions, and where indirect jumps, calls and returns went.
#[test]
fn paths() {
    // je +0; call rbx; je +0; and at rbx: jmp rax; and at rax: ret
    let lab = Lab::new()
        .reg(Register::RBX, START + 0x100)
        .reg(Register::RAX, START + 0x200)
        .flags(0x40)
        .bytes(&[0x74, 0, 0xff, 0xd3, 0x74, 0])
        .at(START + 0x100)
        .bytes(&[0xff, 0xe0])
        .at(START + 0x200)
        .bytes(&[0xc3]);
    let path = lab.path(16);
    assert_eq!(path.start(), START);
    assert_eq!(path.directions().collect::<Vec<_>>(), [true, true]);
    assert_eq!(
        path.destinations(),
        [START + 0x100, START + 0x200, START + 4]
    );
    let short = lab.path(3);
    assert_eq!(short.directions().len(), 1);
    assert_eq!(short.destinations().len(), 2);
    assert!(short.is_complete() && !path.is_complete());
}
