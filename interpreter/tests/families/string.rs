//! String instructions.

use iced_x86::Register;
use interpreter::{Flag, StopReason};

use crate::lab::Lab;

const FROM: u64 = 0x5000;
const TO: u64 = 0x6000;

fn lab() -> Lab {
    Lab::new()
        .memory(FROM, b"abcdefgh")
        .memory(TO, b"abcdXfgh")
        .reg(Register::RSI, FROM)
        .reg(Register::RDI, TO)
}

/// A copy moves both pointers, and what was copied can be loaded.
#[test]
fn copies() {
    // mov rbx, rdi; rep movsb; mov eax, [rbx]
    let code = [0x48, 0x89, 0xfb, 0xf3, 0xa4, 0x8b, 0x03];
    let after = lab().reg(Register::RCX, 3).bytes(&code).run();
    assert_eq!(after.get(Register::RSI), Some(FROM + 3));
    assert_eq!(after.get(Register::RDI), Some(TO + 3));
    assert_eq!(after.get(Register::RCX), Some(0));
    assert_eq!(
        after.get(Register::RAX),
        Some(u64::from(u32::from_le_bytes(*b"abcd")))
    );
    // Down: the direction flag turns the pointers round.
    let down = lab()
        .reg(Register::RCX, 2)
        .flags(Flag::Df as u64)
        .bytes(&code)
        .run();
    assert_eq!(down.get(Register::RDI), Some(TO - 2));
}

/// A repetition of zero changes nothing at all.
#[test]
fn no_repetition() {
    for code in [
        &[0xf3, 0xa4][..],
        &[0xf3, 0xaa],
        &[0xf3, 0xac],
        &[0xf3, 0xae],
        &[0xf3, 0xa6],
    ] {
        let lab = lab()
            .reg(Register::RAX, 0x1_2345_6789)
            .flags(0x8d5)
            .bytes(code);
        let after = lab.run();
        assert_eq!(after.outcome.registers.gpr, lab.registers.gpr);
        assert_eq!(after.outcome.registers.rflags, lab.registers.rflags);
    }
}

/// A long copy moves the pointers exactly and makes the bytes that it wrote unknown, no others.
#[test]
fn long_copies() {
    // rep movsq; mov rax, [rdi-8]; mov rbx, [rdi]
    let code = [0xf3, 0x48, 0xa5, 0x48, 0x8b, 0x47, 0xf8, 0x48, 0x8b, 0x1f];
    let lab = lab()
        .memory(TO + 4096 - 8, &[7; 16])
        .reg(Register::RCX, 512)
        .bytes(&code);
    let after = lab.run();
    assert_eq!(after.get(Register::RDI), Some(TO + 4096));
    assert_eq!(after.get(Register::RAX), None);
    assert_eq!(after.get(Register::RBX), Some(0x0707_0707_0707_0707));
    let endless = lab.reg(Register::RCX, u64::MAX / 2).run();
    assert_eq!(endless.outcome.stop, StopReason::RepTooLong);
}

/// An unknown count leaves pointers and memory unknown, and the count zero.
#[test]
fn unknown_count() {
    // rep stosb; mov rax, [rsi]
    let after = lab()
        .hide(Register::RCX)
        .bytes(&[0xf3, 0xaa, 0x48, 0x8b, 0x06])
        .run();
    assert_eq!(after.get(Register::RDI), None);
    assert_eq!(after.get(Register::RCX), Some(0));
    assert_eq!(after.get(Register::RAX), None);
}

/// With an unknown direction the pointers are unknown, even after a single element.
#[test]
fn unknown_direction() {
    let mut lab = lab().bytes(&[0xa4]); // movsb
    lab.registers.rflags.set(Flag::Df, None);
    let after = lab.run();
    assert_eq!(
        (after.get(Register::RSI), after.get(Register::RDI)),
        (None, None)
    );
}

/// A comparison stops at the first difference with the flags of that comparison.
#[test]
fn comparisons() {
    // repe cmpsb
    let after = lab().reg(Register::RCX, 8).bytes(&[0xf3, 0xa6]).run();
    assert_eq!(after.get(Register::RCX), Some(3));
    assert_eq!(after.get(Register::RDI), Some(TO + 5));
    assert_eq!(after.flag(Flag::Zf), Some(false));
    assert_eq!(after.flag(Flag::Cf), Some(b'e' < b'X'));
    // repne scasb: the place of a letter, as strlen does it.
    let scan = lab()
        .reg(Register::RAX, u64::from(b'X'))
        .reg(Register::RCX, u64::MAX);
    let after = scan.bytes(&[0xf2, 0xae]).run();
    assert_eq!(after.get(Register::RDI), Some(TO + 5));
    assert_eq!(after.get(Register::RCX), Some(u64::MAX - 5));
    assert_eq!(after.flag(Flag::Zf), Some(true));
}

/// A comparison that runs into unknown memory leaves unknown where it ends.
#[test]
fn comparison_with_the_unknown() {
    let after = lab().reg(Register::RDI, FROM + 4).reg(Register::RCX, 100);
    // repne scasb, looking for a byte that is not there
    let after = after.bytes(&[0xf2, 0xae]).run();
    assert_eq!(
        (after.get(Register::RDI), after.get(Register::RCX)),
        (None, None)
    );
    assert_eq!(after.flag(Flag::Zf), None);
}

/// Loads into the accumulator report it; repeated ones leave the last element.
#[test]
fn loads() {
    let after = lab().bytes(&[0xac]).run(); // lodsb
    assert_eq!(after.get(Register::AL), Some(u64::from(b'a')));
    let after = lab().bytes(&[0x67, 0xac]).reg(Register::RSI, FROM).run(); // lodsb [esi]
    assert_eq!(after.get(Register::RSI), Some(FROM + 1));
}

/// A repetition of zero by a 32-bit count may clear the upper halves of what it counts and points
/// with: processors do.
#[test]
fn no_repetition_of_32_bits() {
    let upper = 7 << 32;
    for code in [
        &[0x67, 0xf3, 0xa4][..],
        &[0x67, 0xf3, 0xaa],
        &[0x67, 0xf3, 0xae],
        &[0x67, 0xf3, 0xa6],
    ] {
        let after = lab()
            .reg(Register::RCX, upper)
            .reg(Register::RSI, upper | FROM)
            .reg(Register::RDI, upper | TO)
            .bytes(code)
            .run();
        assert_eq!(after.get(Register::RCX), None, "{code:02x?}");
        assert_eq!(after.get(Register::RDI), None, "{code:02x?}");
        assert_eq!(after.get(Register::EDI), Some(TO), "{code:02x?}");
        // Where nothing is above, nothing can change.
        let low = lab().reg(Register::RCX, 0).bytes(code).run();
        assert_eq!(low.get(Register::RDI), Some(TO), "{code:02x?}");
    }
}
