//! Memory: what was stored, what was there, and what may have changed.

use iced_x86::Register;
use interpreter::{Parameter, StopReason, Word};

use crate::lab::Lab;

const AT: u64 = 0x5000;

fn lab() -> Lab {
    let bytes: Vec<u8> = (0..=255).collect();
    Lab::new()
        .memory(AT, &bytes)
        .reg(Register::RSI, AT)
        .reg(Register::RAX, u64::MAX)
}

/// A load sees a store byte by byte, on top of what memory held.
#[test]
fn stores_are_seen() {
    // mov [rsi+6], ax; mov rbx, [rsi+2]; mov rcx, [rsi+7]
    let code = [
        0x66, 0x89, 0x46, 6, 0x48, 0x8b, 0x5e, 2, 0x48, 0x8b, 0x4e, 7,
    ];
    let after = lab().bytes(&code).run();
    assert_eq!(after.get(Register::RBX), Some(0x0908_ffff_0504_0302));
    assert_eq!(after.get(Register::RCX), Some(0x0e0d_0c0b_0a09_08ff));
    // An unknown byte stored leaves exactly itself unknown.
    let mut unknown = lab().bytes(&code);
    unknown.registers.gpr[0] = Word::partial(0xff, 0x01);
    let after = unknown.run();
    assert_eq!(after.outcome.registers.gpr[3].known_bytes(), 0b1101_1111);
}

/// A store to an unknown address makes every load unknown, until a store to a known one.
#[test]
fn stores_to_unknown_addresses() {
    // mov [rsi], rax; mov [rdi], ecx; mov rbx, [rsi]; mov [rsi+8], al; mov rdx, [rsi+8]
    let code = [
        0x48, 0x89, 0x06, 0x89, 0x0f, 0x48, 0x8b, 0x1e, 0x88, 0x46, 8, 0x48, 0x8b, 0x56, 8,
    ];
    let after = lab().hide(Register::RDI).bytes(&code).run();
    assert_eq!(after.get(Register::RBX), None);
    assert_eq!(after.outcome.registers.gpr[2], Word::partial(0xff, 0x01));
}

/// However many stores there are, a later load is right or unknown.
#[test]
fn many_stores() {
    let mut lab = lab();
    lab.max_instructions = 10_000;
    // A store of each byte of al to a place of its own, 200 places 16 bytes apart.
    for i in 0..200u32 {
        let mut store = vec![0xc6, 0x86];
        store.extend((i * 16).to_le_bytes());
        store.push(i as u8);
        lab = lab.bytes(&store);
    }
    let at = lab.clone();
    for i in 0..200u32 {
        // movzx ebx, byte ptr [rsi+16*i]
        let mut load = vec![0x0f, 0xb6, 0x9e];
        load.extend((i * 16).to_le_bytes());
        let value = at.clone().bytes(&load).run().get(Register::RBX);
        assert!(
            value.is_none_or(|value| value == u64::from(i)),
            "place {i}: {value:?}"
        );
        assert!(
            i < 150 || value.is_some(),
            "the last stores are still known"
        );
    }
}

/// The same at the end of the address space and across pieces: no overflow, no confusion.
#[test]
fn addresses_wrap() {
    // mov [rsi], rax; mov rbx, [rsi+4]
    let code = [0x48, 0x89, 0x06, 0x48, 0x8b, 0x5e, 4];
    let after = lab().reg(Register::RSI, u64::MAX - 3).bytes(&code).run();
    assert_eq!(after.outcome.registers.gpr[3].known_bytes(), 0x0f);
}

/// A segment whose base is unknown makes an address unknown; with its base the address is linear.
#[test]
fn segments() {
    // mov eax, fs:[rsi]
    let lab = lab().bytes(&[0x64, 0x8b, 0x06]);
    let after = lab.run();
    assert_eq!(after.values(Parameter::Ea), [None]);
    assert_eq!(after.get(Register::RAX), None);
    let mut based = lab.reg(Register::RSI, 0x10);
    based.registers.fs_base = Some(AT);
    let after = based.run();
    assert_eq!(after.values(Parameter::Ea), [Some(AT + 0x10)]);
    assert_eq!(after.get(Register::RAX), Some(0x1312_1110));
}

/// An access to a non-canonical address faults: no event, no further instruction.
#[test]
fn non_canonical_addresses() {
    for code in [
        &[0x8b, 0x06][..],
        &[0x89, 0x06],
        &[0xf3, 0xa4],
        &[0x0f, 0x10, 0x06],
    ] {
        let lab = lab().reg(Register::RSI, 1 << 62).reg(Register::RCX, 3);
        let after = lab.reg(Register::RDI, 1 << 62).bytes(code).run();
        assert_eq!(
            after.outcome.stop,
            StopReason::FaultingInstruction,
            "{code:02x?}"
        );
        assert!(after.parameters().is_empty());
    }
}

/// `push rsp` stores the old value, `pop rsp` keeps what was popped, and a pop to an address made
/// from rsp uses the new one.
#[test]
fn stack_pointer_order() {
    let rsp = 0x7fff_0000u64;
    let after = Lab::new().bytes(&[0x54, 0x58]).run(); // push rsp; pop rax
    assert_eq!(
        (after.get(Register::RAX), after.get(Register::RSP)),
        (Some(rsp), Some(rsp))
    );
    let after = Lab::new()
        .memory(rsp, &[1, 2, 3, 4, 5, 6, 7, 0])
        .bytes(&[0x5c])
        .run(); // pop rsp
    assert_eq!(after.get(Register::RSP), Some(0x0007_0605_0403_0201));
    // push 5; pop [rsp+8]; the value lies where rsp + 8 points after the pop.
    let after = Lab::new().bytes(&[0x6a, 5, 0x8f, 0x44, 0x24, 8]).run();
    assert_eq!(after.values(Parameter::Ea), [Some(rsp + 8)]);
    assert_eq!(after.values(Parameter::Mem), [Some(5)]);
}

/// Frames are made and left: `enter`, `leave`, and what lies in between.
#[test]
fn frames() {
    let rsp = 0x7fff_0000u64;
    // enter 32, 0; leave
    let lab = Lab::new().reg(Register::RBP, 0x1234);
    let entered = lab.clone().bytes(&[0xc8, 32, 0, 0]).run();
    assert_eq!(entered.get(Register::RBP), Some(rsp - 8));
    assert_eq!(entered.get(Register::RSP), Some(rsp - 40));
    let left = lab.bytes(&[0xc8, 32, 0, 0, 0xc9]).run();
    assert_eq!(
        (left.get(Register::RBP), left.get(Register::RSP)),
        (Some(0x1234), Some(rsp))
    );
}

/// `enter` with a nesting level copies the bases of the frames around and adds its own; a level is
/// taken modulo 32, and what cannot be read is copied as unknown.
#[test]
fn nested_frames() {
    let (rsp, outer) = (0x7fff_0000u64, 0x7fff_0100u64);
    let lab = Lab::new().reg(Register::RBP, outer);
    // enter 16, 3, and the same with level 35; then pop rax; pop rcx; pop rdx; pop rsi; pop rdi
    for level in [3, 35] {
        let after = lab
            .clone()
            .memory(outer - 8, &0x1111_u64.to_le_bytes())
            .bytes(&[0xc8, 16, 0, level, 0x58, 0x58, 0x58, 0x59, 0x5a, 0x5e])
            .run();
        assert_eq!(after.outcome.stop, StopReason::NotMapped);
        assert_eq!(after.get(Register::RBP), Some(rsp - 8));
        // 16 bytes of room, then upwards: its own base, the two of others, the caller's.
        assert_eq!(after.get(Register::RAX), Some(rsp - 8));
        assert_eq!(after.get(Register::RCX), None);
        assert_eq!(after.get(Register::RDX), Some(0x1111));
        assert_eq!(after.get(Register::RSI), Some(outer));
        assert_eq!(after.get(Register::RSP), Some(rsp));
    }
    // The deepest level: 31 bases and the caller's.
    let deepest = lab.clone().bytes(&[0xc8, 0, 0, 31]).run();
    assert_eq!(deepest.get(Register::RSP), Some(rsp - 8 * 32));
    // Copies are made one by one: where they run into what was pushed, they are of that.
    let onto_itself = Lab::new().reg(Register::RBP, rsp);
    let after = onto_itself.bytes(&[0xc8, 0, 0, 3, 0x58, 0x58, 0x59]).run();
    assert_eq!(after.get(Register::RAX), Some(rsp));
    assert_eq!(after.get(Register::RCX), Some(rsp));
    // Of a frame that is anywhere no base is known but the new one's.
    let after = Lab::new()
        .hide(Register::RBP)
        .bytes(&[0xc8, 0, 0, 2, 0x58, 0x59, 0x5a])
        .run();
    assert_eq!(after.get(Register::RAX), Some(rsp - 8));
    assert_eq!(after.get(Register::RCX), None);
    assert_eq!(after.get(Register::RDX), None);
}

/// With an operand-size prefix frames are linked by 16 bits; of the base those above are known only
/// where the old and the new one agree in them.
#[test]
fn short_frames() {
    let rsp = 0x7fff_0000u64;
    // enter 16, 2 with 16 bits
    let enter = [0x66, 0xc8, 16, 0, 2];
    let near = Lab::new()
        .reg(Register::RBP, 0x7ffe_8000)
        .memory(0x7ffe_7ffe, &[0x34, 0x12])
        .bytes(&enter)
        .run();
    assert_eq!(near.get(Register::RBP), Some(rsp - 2));
    assert_eq!(near.get(Register::RSP), Some(rsp - 6 - 16));
    // pop ax; pop cx; pop dx after it, without room
    let pops = [0x66, 0x58, 0x66, 0x59, 0x66, 0x5a];
    let popped = Lab::new()
        .reg(Register::RBP, 0x7ffe_8000)
        .memory(0x7ffe_7ffe, &[0x34, 0x12])
        .bytes(&[0x66, 0xc8, 0, 0, 2])
        .bytes(&pops)
        .run();
    assert_eq!(popped.get(Register::AX), Some(0xfffe));
    assert_eq!(popped.get(Register::CX), Some(0x1234));
    assert_eq!(popped.get(Register::DX), Some(0x8000));
    let far = Lab::new()
        .reg(Register::RBP, 0x1234_7ffe_8000)
        .bytes(&enter)
        .run();
    assert_eq!(far.get(Register::RBP), None);
    assert_eq!(far.get(Register::BP), Some(0xfffe));
    // leave with 16 bits
    let left = Lab::new()
        .reg(Register::RBP, rsp + 16)
        .memory(rsp + 16, &[0x34, 0x12])
        .bytes(&[0x66, 0xc9])
        .run();
    assert_eq!(left.get(Register::RBP), Some(0x7fff_1234));
    assert_eq!(left.get(Register::RSP), Some(rsp + 18));
}

/// Code that the window itself stored to is not interpreted from its old bytes.
#[test]
fn code_that_is_stored_to() {
    let next = crate::lab::START + 2;
    // mov [rsi], eax, to the instruction that follows
    let after = lab()
        .reg(Register::RSI, next)
        .bytes(&[0x89, 0x06, 0x90])
        .run();
    assert_eq!(after.outcome.stop, StopReason::PageWritten);
    assert_eq!(after.outcome.instructions, 1);
}
