//! The registers of x87: made at random, told to the interpreter, and compared.

use iced_x86::Register;
use interpreter::{Word, X87, X87Register};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

/// Where the saved state has what.
const STATUS: usize = 2;
const USED: usize = 4;
const MXCSR: usize = 24;
const STACK: usize = 32;
/// The exponent of 1.
const BIAS: u16 = 0x3fff;
const INTEGER_BIT: u64 = 1 << 63;
/// An exception waits.
const SUMMARY: u16 = 0x8080;
const TOP: u16 = 7 << 11;

fn half(state: &[u8; 512], at: usize) -> u16 {
    u16::from_le_bytes([state[at], state[at + 1]])
}

fn put(state: &mut [u8; 512], at: usize, value: u16) {
    state[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Fills a saved state.
pub(crate) fn make(state: &mut [u8; 512], rng: &mut SmallRng) {
    state.fill(0);
    state[MXCSR..MXCSR + 4].copy_from_slice(&0x1f80u32.to_le_bytes());
    let masks = if rng.random_ratio(1, 8) {
        rng.random::<u16>() & 0x3f
    } else {
        0x3f
    };
    let precision = [0, 2, 2, 3, 3, 3, 3, 1][rng.random_range(0..8)];
    let control = 0x40 | masks | precision << 8 | rng.random_range(0..4) << 10;
    // Exceptions that were raised earlier, and condition codes.
    let mut status = rng.random::<u16>() & 0x7f00;
    if rng.random_ratio(1, 4) {
        status |= rng.random::<u16>() & 0x7f;
    }
    // Seldom one that waits.
    if !rng.random_ratio(1, 8) {
        status &= !(0x3f & !masks);
    }
    if status & 0x3f & !masks != 0 {
        status |= SUMMARY;
    }
    put(state, 0, control);
    put(state, STATUS, status);
    let top = u32::from(status >> 11 & 7);
    state[USED] = match rng.random_range(0..8) {
        0 => rng.random(),
        1 => 0xff,
        2 => 0,
        // As many as a program would have on the stack.
        _ => {
            let count = rng.random_range(1..8u32);
            (u8::MAX >> (8 - count)).rotate_left(top)
        }
    };
    for i in 0..8 {
        state[STACK + 16 * i..][..10].copy_from_slice(&number(rng));
    }
}

/// A number of 80 bits that instructions are likely to get wrong, or another one.
pub(crate) fn number(rng: &mut SmallRng) -> [u8; 10] {
    let near = |rng: &mut SmallRng, exponent: u16, around: i16| {
        exponent.wrapping_add_signed(rng.random_range(-around..=around)) & 0x7fff
    };
    let (exponent, significand) = match rng.random_range(0..14) {
        0 => [
            (0, 0),
            (BIAS, INTEGER_BIT),
            (0x7fff, INTEGER_BIT),
            (0x7fff, 3 << 62),
            (0x7fff, INTEGER_BIT | 1),
            (0x7ffe, u64::MAX),
            (1, INTEGER_BIT),
            (0, 1),
        ][rng.random_range(0..8)],
        // Also of no meaning: without the integer bit, with it in a denormal number.
        1 => (rng.random::<u16>() & 0x7fff, rng.random()),
        2 => (0x7fff, rng.random()),
        3 => (0, rng.random::<u64>() >> rng.random_range(0..64)),
        // Of like size, with sums that cancel.
        4 => (near(rng, BIAS, 1), INTEGER_BIT | rng.random::<u64>() & 0xff),
        5 => (near(rng, BIAS, 2), INTEGER_BIT | rng.random::<u64>()),
        6 => (near(rng, BIAS, 70), INTEGER_BIT | rng.random::<u64>()),
        // Integers and halves.
        7 => {
            let value = i64::from(rng.random::<i16>()).unsigned_abs().max(1);
            let shift = value.leading_zeros();
            (BIAS + 62 - shift as u16, value << shift)
        }
        8 => (BIAS + rng.random_range(14..66), INTEGER_BIT | limit(rng)),
        // Half way between doubles, between singles, or near that.
        9 => (
            near(rng, BIAS, 1030),
            INTEGER_BIT | rng.random::<u64>() & !0x7ff | half_way(rng, 11),
        ),
        10 => (
            near(rng, BIAS, 160),
            INTEGER_BIT | limit(rng) | half_way(rng, 40),
        ),
        // Where doubles and singles end.
        11 => {
            let ends = [-1074, -1023, -1022, 1023, 1024, -149, -127, -126, 127, 128];
            let end: i16 = ends[rng.random_range(0..ends.len())];
            (
                near(rng, BIAS.wrapping_add_signed(end), 2),
                INTEGER_BIT | limit(rng),
            )
        }
        // Where numbers of 80 bits end.
        12 => {
            let end = if rng.random() { 0x7ffe } else { 1 };
            (
                near(rng, end, 70).clamp(0, 0x7ffe),
                INTEGER_BIT | rng.random::<u64>(),
            )
        }
        _ => (near(rng, BIAS, 4000), INTEGER_BIT | rng.random::<u64>()),
    };
    let sign = u16::from(rng.random::<bool>()) << 15;
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..].copy_from_slice(&(exponent | sign).to_le_bytes());
    bytes
}

/// Bits that are few, or nearly all.
fn limit(rng: &mut SmallRng) -> u64 {
    let bits = 1u64 << rng.random_range(0..64);
    match rng.random_range(0..4) {
        0 => bits,
        1 => bits.wrapping_sub(1),
        2 => bits.wrapping_neg(),
        _ => rng.next_u64(),
    }
}

/// So many low bits: half of the next one, or nearly.
fn half_way(rng: &mut SmallRng, bits: u32) -> u64 {
    let half = 1u64 << (bits - 1);
    [half, half - 1, half + 1, 0, 2 * half - 1][rng.random_range(0..5)]
}

/// The state as the interpreter is told it.
pub(crate) fn told(state: &[u8; 512]) -> X87 {
    let mut stack = [[0; 10]; 8];
    for (i, register) in stack.iter_mut().enumerate() {
        register.copy_from_slice(&state[STACK + 16 * i..][..10]);
    }
    X87::saved(half(state, 0), half(state, STATUS), state[USED], &stack)
}

/// Hides parts of it.
pub(crate) fn hide(x87: &mut X87, share: u32, rng: &mut SmallRng) {
    let share = share.min(4);
    if rng.random_ratio(share, 8) {
        x87.control = None;
    }
    if rng.random_ratio(share, 12) {
        x87.top = None;
    }
    if rng.random_ratio(share, 8) {
        x87.status_known &= rng.random::<u16>();
        x87.status &= x87.status_known;
    }
    if rng.random_ratio(share, 8) {
        x87.used_known &= rng.random::<u8>() | rng.random::<u8>();
        x87.used &= x87.used_known;
    }
    for register in &mut x87.registers {
        if rng.random_ratio(share, 12) {
            let known = rng.random::<u8>();
            register.significand = Word::partial(register.significand.known_bits(), known);
        }
        if rng.random_ratio(share, 24) {
            register.top = None;
        }
    }
}

/// Whether an exception waits for the next instruction.
pub(crate) fn waits(state: &[u8; 512]) -> bool {
    half(state, STATUS) & 0x80 != 0
}

/// What is claimed and not so.
pub(crate) fn differences(claimed: &X87, after: &[u8; 512]) -> Vec<String> {
    let real = told(after);
    let mut found = Vec::new();
    let mut expect = |what: String, claimed: u64, real: u64| {
        if claimed != real {
            found.push(format!("{what}: claimed {claimed:#x}, is {real:#x}"));
        }
    };
    if let (Some(claimed), Some(real)) = (claimed.control, real.control) {
        expect("control word".to_owned(), claimed.into(), real.into());
    }
    let known = claimed.status_known;
    let what = format!("status word (known {known:#x})");
    expect(what, claimed.status.into(), (real.status & known).into());
    if let (Some(claimed), Some(real)) = (claimed.top, real.top) {
        expect("stack top".to_owned(), claimed.into(), real.into());
    }
    let known = claimed.used_known;
    let what = format!("used registers (known {known:#x})");
    expect(what, claimed.used.into(), (real.used & known).into());
    let pairs = claimed.registers.iter().zip(&real.registers);
    for (number, (claimed, real)) in pairs.enumerate() {
        let X87Register { significand, top } = *claimed;
        let known = Word::partial(real.significand.known_bits(), significand.known_bytes());
        expect(
            format!("significand {number}"),
            significand.known_bits(),
            known.known_bits(),
        );
        if let (Some(claimed), Some(real)) = (top, real.top) {
            expect(format!("exponent {number}"), claimed.into(), real.into());
        }
    }
    found
}

/// What the register that an instruction names holds behind it, with sign and exponent. An
/// instruction that pushes names the registers as they are then, another one as they were before.
fn named(before: &[u8; 512], after: &[u8; 512], register: Register) -> (u64, u16) {
    let top = |state| half(state, STATUS) >> 11 & 7;
    let (old, new) = (top(before), top(after));
    let from = if new == (old + 7) % 8 { new } else { old };
    let place = (from + register.number() as u16 + 8 - new) % 8;
    let bytes = &after[STACK + 16 * usize::from(place)..][..10];
    let mut significand = [0; 8];
    significand.copy_from_slice(&bytes[..8]);
    (
        u64::from_le_bytes(significand),
        u16::from_le_bytes([bytes[8], bytes[9]]),
    )
}

/// A word of a register that was written.
pub(crate) fn word(
    before: &[u8; 512],
    after: &[u8; 512],
    register: Register,
    i: u8,
) -> Option<u64> {
    let (significand, top) = named(before, after, register);
    match i {
        0 => Some(significand),
        1 => Some(top.into()),
        _ => None,
    }
}

/// The double that a register that was written is exactly. For what is none an answer that no
/// claim is.
pub(crate) fn double(before: &[u8; 512], after: &[u8; 512], register: Register) -> Option<u64> {
    let (significand, top) = named(before, after, register);
    let sign = u64::from(top >> 15) << 63;
    let exponent = i32::from(top & 0x7fff) - i32::from(BIAS);
    let fraction = significand & !INTEGER_BIT;
    Some(match exponent {
        -0x3fff if significand == 0 => sign,
        0x4000 if significand & 0x7ff == 0 => sign | 0x7ff << 52 | fraction >> 11,
        -1022..=1023 if significand & 0x7ff == 0 => {
            sign | ((exponent + 1023) as u64) << 52 | fraction >> 11
        }
        -1074..=-1023 => sign | significand >> (11 - 1022 - exponent),
        _ => 0xdead_dead_dead_dead,
    })
}

/// What an MMX register holds.
pub(crate) fn mmx(after: &[u8; 512], register: Register) -> Option<u64> {
    let real = told(after);
    real.registers[register.number() & 7].significand.get(8)
}

/// The state for a report.
pub(crate) fn text(state: &[u8; 512]) -> String {
    let register = |i: usize| {
        let bytes = state[STACK + 16 * i..][..10].iter().rev();
        bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let registers: Vec<_> = (0..8).map(register).collect();
    let status = half(state, STATUS);
    format!(
        "x87 control {:x} status {:x} top {} used {:08b} stack {}",
        half(state, 0),
        status & !TOP,
        status >> 11 & 7,
        state[USED],
        registers.join(" ")
    )
}
