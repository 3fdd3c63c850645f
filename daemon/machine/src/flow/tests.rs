//! Slots of return addresses, and calls that led to an instruction.

use super::*;

/// Code from address 0x1000 on, with a function that has unwind rules, if there is one.
struct Bytes {
    code: Vec<u8>,
    function: Option<std::ops::Range<u64>>,
}

impl Text for Bytes {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        let start = usize::try_from(address.wrapping_sub(0x1000)).unwrap_or(usize::MAX);
        let code = self.code.get(start..).unwrap_or_default();
        let length = code.len().min(bytes.len());
        bytes[..length].copy_from_slice(&code[..length]);
        length
    }

    fn function(&mut self, address: u64) -> Option<u64> {
        let function = self.function.as_ref()?;
        function.contains(&address).then_some(function.start)
    }
}

fn text(pieces: &[&[u8]]) -> Bytes {
    Bytes {
        code: pieces.concat(),
        function: None,
    }
}

/// Register and offset of the slots at an offset in this code.
fn slots_at(offset: u64, pieces: &[&[u8]]) -> Vec<(u8, i64)> {
    let exits = exits(&mut text(pieces), 0x1000 + offset);
    let slots = exits.iter().map(|exit| (exit.register, exit.offset));
    slots.collect()
}

fn slots(pieces: &[&[u8]]) -> Vec<(u8, i64)> {
    slots_at(0, pieces)
}

const PUSH_RBP: &[u8] = &[0x55];
const MOV_RBP_RSP: &[u8] = &[0x48, 0x89, 0xe5];
const POP_RBP: &[u8] = &[0x5d];
const LEAVE: &[u8] = &[0xc9];
const RET: &[u8] = &[0xc3];
const NOP: &[u8] = &[0x90];
/// `jne` to itself, as loops end.
const LOOP: &[u8] = &[0x75, 0xfe];
const RSP8: u8 = RSP as u8;
const RBP8: u8 = RBP as u8;

/// A leaf without a frame has its return address at the top of the stack; its caller's frame
/// pointer does not matter.
#[test]
fn leaf() {
    assert_eq!(slots(&[LOOP, RET]), [(RSP8, 0)]);
}

/// In each part of a function with a frame the slot is where it is then.
#[test]
fn frame() {
    let code = [PUSH_RBP, MOV_RBP_RSP, LOOP, POP_RBP, RET];
    assert_eq!(slots_at(0, &code), [(RSP8, 0)]);
    assert_eq!(slots_at(1, &code), [(RSP8, 8)]);
    assert_eq!(slots_at(4, &code), [(RSP8, 8)]);
    assert_eq!(slots_at(7, &code), [(RSP8, 0)]);
    // Of a frame of unknown size rbp tells.
    assert_eq!(slots(&[LOOP, LEAVE, RET]), [(RBP8, 8)]);
}

/// As these, with nothing to tell where functions end.
struct Loose(Bytes);

impl Text for Loose {
    const MORE_CALLS: u32 = 8;

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        self.0.read(address, bytes)
    }

    fn function(&mut self, _: u64) -> Option<u64> {
        None
    }
}

/// Where a call may be one that never comes back, what lies behind it is not the function's own way
/// out: all exits are told, and that of the frame pointer. A way without calls is the function's
/// own.
#[test]
fn calls_that_never_come_back() {
    // call; jne behind; call; add rsp,16; ret; behind: ret
    let call: &[u8] = &[0xe8, 0, 1, 0, 0];
    let (branch, add): (&[u8], &[u8]) = (&[0x75, 10], &[0x48, 0x83, 0xc4, 16]);
    let pieces = [call, branch, call, add, RET, RET];
    let loose = |offset: u64| -> Vec<(u8, i64)> {
        let exits = exits(&mut Loose(text(&pieces)), 0x1000 + offset);
        let slots = exits.iter().map(|exit| (exit.register, exit.offset));
        slots.collect()
    };
    assert_eq!(loose(0), [(RSP8, 0), (RBP8, 8), (RSP8, 16)]);
    assert_eq!(loose(12), [(RSP8, 16)]);
    assert_eq!(slots(&pieces), [(RSP8, 0)]);
}

/// What is pushed and reserved is taken away again, also behind a call.
#[test]
fn pushed_words() {
    let call: &[u8] = &[0xe8, 0, 1, 0, 0];
    // sub rsp,24; call; add rsp,24; pop rbx; ret
    let code: [&[u8]; 5] = [
        &[0x48, 0x83, 0xec, 24],
        call,
        &[0x48, 0x83, 0xc4, 24],
        &[0x5b],
        RET,
    ];
    assert_eq!(slots(&code), [(RSP8, 8)]);
    assert_eq!(slots_at(4, &code), [(RSP8, 32)]);
    // A frame as Go makes it: mov rbp,[rsp+16]; add rsp,24; ret
    let go: [&[u8]; 3] = [&[0x48, 0x8b, 0x6c, 0x24, 16], &[0x48, 0x83, 0xc4, 24], RET];
    let exits = exits(&mut text(&go), 0x1000);
    let row = exits.first().and_then(Exit::row);
    assert_eq!(
        row,
        Some(UnwindRow::Frame {
            register: RSP8,
            offset: 32,
            rbp: CallerRbp::Saved(-16),
        })
    );
}

/// A call may never come back; then what follows is another function. The way without it counts.
#[test]
fn calls_that_do_not_come_back() {
    // je +1; ret; call; push rbx; ret (another function)
    let code: [&[u8]; 5] = [&[0x74, 1], RET, &[0xe8, 0, 1, 0, 0], &[0x53], RET];
    assert_eq!(slots(&code), [(RSP8, 0)]);
    // je +6; call; ret; call; pop rax; ret: each way has one call, and they do not agree.
    let code: [&[u8]; 6] = [
        &[0x74, 6],
        &[0xe8, 0, 1, 0, 0],
        RET,
        &[0xe8, 0, 1, 0, 0],
        &[0x58],
        RET,
    ];
    assert_eq!(slots(&code).len(), 2);
}

/// A jump through a named word leaves the function, as a stub's does; one through a register may
/// stay.
#[test]
fn jumps() {
    assert_eq!(slots(&[POP_RBP, &[0xff, 0x25, 0, 1, 0, 0]]), [(RSP8, 8)]);
    assert_eq!(slots(&[&[0xff, 0xe0]]), []);
    // jmp +1; int3; pop rax; ret
    assert_eq!(slots(&[&[0xeb, 1, 0xcc], &[0x58], RET]), [(RSP8, 8)]);
}

/// Where a function with unwind rules is entered by a jump, the return address is on top. To
/// fall into one is no way at all.
#[test]
fn functions_with_rules() {
    let with_rules = |pieces: &[&[u8]], start| Bytes {
        function: Some(start..0x2000),
        ..text(pieces)
    };
    // pop rax; jmp +1; nop; (function) push rbx; ...
    let mut jumps = with_rules(&[&[0x58], &[0xeb, 1], NOP, &[0x53]], 0x1004);
    let found = exits(&mut jumps, 0x1000);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].register, found[0].offset), (RSP8, 8));
    let mut falls = with_rules(&[&[0xe8, 0, 1, 0, 0], RET], 0x1005);
    assert_eq!(exits(&mut falls, 0x1000), []);
}

/// A return that goes by something else than a return address is none: a jump in disguise.
#[test]
fn returns_as_jumps() {
    // mov [rsp],rax; ret
    assert_eq!(slots(&[&[0x48, 0x89, 0x04, 0x24], RET]), []);
    // push rax; ret
    assert_eq!(slots(&[&[0x50], RET]), []);
    // mov rsp,[rdi]; ret: another stack
    assert_eq!(slots(&[&[0x48, 0x8b, 0x27], RET]), []);
    // and rsp,-64; ret
    assert_eq!(slots(&[&[0x48, 0x83, 0xe4, 0xc0], RET]), []);
    // leave; pop rcx; add rsp,16; push rcx; ret: arguments are taken away below it
    let moved: [&[u8]; 5] = [LEAVE, &[0x59], &[0x48, 0x83, 0xc4, 16], &[0x51], RET];
    assert_eq!(slots(&moved), [(RBP8, 8)]);
}

/// System calls that do not come back end a way; others do not.
#[test]
fn system_calls() {
    // mov eax,15; syscall; ret
    let call =
        |number: u8| -> [Vec<u8>; 3] { [vec![0xb8, number, 0, 0, 0], vec![0x0f, 5], RET.to_vec()] };
    let slots_of = |number| {
        let code = call(number).concat();
        slots(&[&code])
    };
    assert_eq!(slots_of(15), []);
    assert_eq!(slots_of(1), [(RSP8, 0)]);
}

/// Code without an end, and broken code, have no exits, and are given up.
#[test]
fn endless_code() {
    assert_eq!(slots(&[&[0xeb, 0xfe]]), []);
    assert_eq!(slots(&[&[0x90; 4000], RET]), []);
    assert_eq!(slots(&[&[0x06]]), []);
    assert_eq!(slots(&[]), []);
}

/// The verdict on a slot at 0x7008, with these rsp and rbp at the instruction.
fn verdict(code: &[&[u8]], pc: u64, (rsp, rbp): (u64, u64)) -> CallProof {
    let mut gpr = [0; 16];
    (gpr[RSP], gpr[RBP]) = (rsp, rbp);
    leads(&mut text(code), 0x1000, Some(0x1000 + pc)).verdict(0x7008, &gpr)
}

/// A call is proven by a way from its target with the return address in that very slot.
#[test]
fn verdicts() {
    let code = [PUSH_RBP, MOV_RBP_RSP, LOOP, POP_RBP, RET];
    assert_eq!(verdict(&code, 4, (0x7000, 0)), CallProof::Proven);
    // Another slot, another function, and another way round.
    assert_eq!(verdict(&code, 4, (0x7010, 0)), CallProof::Disproved);
    assert_eq!(verdict(&code, 0x40, (0x7000, 0)), CallProof::Disproved);
    let tail: [&[u8]; 3] = [&[0xeb, 2], RET, &[0x90, 0x75, 0xfe, 0xc3]];
    assert_eq!(verdict(&tail, 4, (0x7008, 0)), CallProof::Proven);
    // Through a register the call may lead anywhere.
    assert_eq!(verdict(&[&[0xff, 0xe0]], 0x40, (0, 0)), CallProof::Possible);
    // and rsp,-64: how far it moved only the frame pointer tells.
    let realigned: [&[u8]; 5] = [
        PUSH_RBP,
        MOV_RBP_RSP,
        &[0x48, 0x83, 0xe4, 0xc0],
        LOOP,
        &[0xc9, 0xc3],
    ];
    assert_eq!(verdict(&realigned, 8, (0x6fc0, 0x7000)), CallProof::Proven);
    assert_eq!(
        verdict(&realigned, 8, (0x6fc0, 0x6ff8)),
        CallProof::Disproved
    );
}

/// Random bytes lead to an end, and to no panic.
#[test]
fn random_code_is_harmless() {
    let mut state = 7_u64;
    for _ in 0..2000 {
        let mut code = vec![0; 64];
        for byte in &mut code {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 40) as u8;
        }
        let found = exits(&mut text(&[&code]), 0x1000);
        assert!(found.len() <= MAX_EXITS);
        let _ = leads(&mut text(&[&code]), 0x1000, Some(0x1020));
    }
}
