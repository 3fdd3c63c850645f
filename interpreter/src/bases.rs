//! Which code can change the bases of FS and GS without the kernel's knowledge.
//!
//! The kernel knows the bases of a thread as of its last switch, and of the system call that set
//! them last. In user mode only these instructions change one: `wrfsbase` and `wrgsbase`; `mov` and
//! `pop` to the selector; `lfs` and `lgs`. Code without them leaves the bases as the kernel has
//! them.
//!
//! `wrfsbase` and `wrgsbase` are long enough to be searched for at every byte: wherever a program
//! jumps to, none is missed. The others are two bytes, which occur by chance everywhere. They count
//! where most ways of decoding what lies before lead to them.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Bytes of code before and behind a piece of it that tell what its own instructions are.
pub const CODE_AROUND: usize = 64;

/// Which bases code can change.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BaseWriters {
    /// The base of FS.
    pub fs: bool,
    /// The base of GS.
    pub gs: bool,
}

impl BaseWriters {
    /// Whatever code it may be.
    pub const ANY: Self = Self { fs: true, gs: true };

    /// What either of two can change.
    pub fn or(self, other: Self) -> Self {
        Self {
            fs: self.fs || other.fs,
            gs: self.gs || other.gs,
        }
    }

    /// Which bases the instructions can change that have their operation code at these bytes. What
    /// lies before and behind, up to [`CODE_AROUND`] bytes, is to be there, too, as far as there is
    /// code.
    pub fn of_code(code: &[u8], at: Range<usize>) -> Self {
        let mut found = Self::default();
        let (mut index, end) = (at.start, at.end.min(code.len()));
        while index < end {
            let next = (index + CHUNK).min(end);
            let pair = code.get(index..).zip(code.get(index + 1..));
            let chunks = pair.map(|(from, behind)| (from.first_chunk(), behind.first_chunk()));
            // Where the code ends there is no whole chunk.
            let is_clear =
                matches!(chunks, Some((Some(from), Some(behind))) if !may_hold(from, behind));
            if !is_clear {
                found = Self::of_part(code, index..next, found);
            }
            index = next;
        }
        found
    }

    fn of_part(code: &[u8], at: Range<usize>, mut found: Self) -> Self {
        for index in at {
            match code.get(index..) {
                Some([0x0f | 0xd5, ..]) => found = found.or(Self::of_base(code, index)),
                Some([0x8e, operands, ..]) if matches!(operands >> 3 & 7, 4 | 5) => {}
                _ => continue,
            }
            if is_selector(&code[index..]) && found != Self::ANY {
                found = found.or(Self::of_selector(code, index));
            }
        }
        found
    }

    /// `wrfsbase` and `wrgsbase`: `0f ae` (with a prefix of two bytes `ae` alone), a register, and
    /// somewhere among the prefixes `f3`.
    fn of_base(code: &[u8], index: usize) -> Self {
        let operands = match code[index..] {
            [0x0f, 0xae, operands, ..] => operands,
            [0xd5, map, 0xae, operands, ..] if map >= 0x80 => operands,
            _ => return Self::default(),
        };
        let prefixes = code[..index]
            .iter()
            .rev()
            .take_while(|byte| is_prefix(**byte));
        let repeats = prefixes.take(15).any(|prefix| *prefix == 0xf3);
        Self {
            fs: repeats && matches!(operands, 0xd0..0xd8),
            gs: repeats && matches!(operands, 0xd8..0xe0),
        }
    }

    /// What loads a selector, if it is an instruction.
    fn of_selector(code: &[u8], index: usize) -> Self {
        // What is decoded from anywhere soon meets the program; a few ways meet it too late.
        const WAYS: usize = 8;
        const ENOUGH: usize = 6;
        let (mut fs, mut gs) = (0, 0);
        for way in 0..WAYS {
            let start = index.saturating_sub(CODE_AROUND - 5 * way);
            match loaded_at(code, start, index) {
                Some(Register::FS) => fs += 1,
                Some(Register::GS) => gs += 1,
                _ => {}
            }
        }
        Self {
            fs: fs >= ENOUGH,
            gs: gs >= ENOUGH,
        }
    }
}

/// Bytes that are looked at at once.
const CHUNK: usize = 64;

/// Whether one of these bytes, each with the one behind it, can begin the operation code of what
/// changes a base. Most code has none, which the processor finds out by many bytes at a time.
fn may_hold(code: &[u8; CHUNK], behind: &[u8; CHUNK]) -> bool {
    let mut found = 0;
    for (&byte, &next) in code.iter().zip(behind) {
        let is = |of: u8| u8::from(next == of);
        let of_two = is(0xae) | is(0xa1) | is(0xa9) | is(0xb4) | is(0xb5);
        let selector = u8::from(byte == 0x8e) & u8::from(next & 0x30 == 0x20);
        found |= u8::from(byte == 0x0f) & of_two | u8::from(byte == 0xd5) | selector;
    }
    found != 0
}

fn is_prefix(byte: u8) -> bool {
    matches!(
        byte,
        0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
    )
}

/// Whether these bytes can be the operation code of what loads a selector of FS or GS.
fn is_selector(code: &[u8]) -> bool {
    match code {
        [0x8e, operands, ..] => matches!(operands >> 3 & 7, 4 | 5),
        [0x0f, 0xa1 | 0xa9 | 0xb4 | 0xb5, ..] => true,
        _ => false,
    }
}

/// The segment register that is loaded by the instruction over a byte, decoding from `start` on.
fn loaded_at(code: &[u8], start: usize, at: usize) -> Option<Register> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut from = start;
    let mut instruction = Instruction::default();
    while from <= at {
        decoder.set_position(from).ok()?;
        decoder.decode_out(&mut instruction);
        // What is no instruction is data, or the midst of one.
        let next = from + instruction.len().max(1);
        if !instruction.is_invalid() && next > at {
            return loaded(&instruction);
        }
        from = if instruction.is_invalid() {
            from + 1
        } else {
            next
        };
    }
    None
}

fn loaded(instruction: &Instruction) -> Option<Register> {
    match instruction.mnemonic() {
        Mnemonic::Lfs => Some(Register::FS),
        Mnemonic::Lgs => Some(Register::GS),
        Mnemonic::Mov | Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => {
            Some(instruction.op0_register()).filter(|of| of.is_segment_register())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::BaseWriters;

    const FS: BaseWriters = BaseWriters {
        fs: true,
        gs: false,
    };
    const GS: BaseWriters = BaseWriters {
        fs: false,
        gs: true,
    };
    const NONE: BaseWriters = BaseWriters {
        fs: false,
        gs: false,
    };

    /// What is found in an instruction among others: `mov rax, rdi`, `nop`, and `ret`.
    fn within(instruction: &[u8]) -> BaseWriters {
        let mut code = [0x48, 0x89, 0xf8, 0x90].repeat(30);
        code.extend(instruction);
        code.extend([0xc3; 20]);
        BaseWriters::of_code(&code, 0..code.len())
    }

    /// Every instruction that changes a base is found, whatever its prefixes are.
    #[test]
    fn what_changes_a_base() {
        assert_eq!(within(&[0xf3, 0x48, 0x0f, 0xae, 0xd0]), FS);
        assert_eq!(within(&[0xf3, 0x0f, 0xae, 0xd7]), FS);
        assert_eq!(within(&[0xf3, 0x49, 0x0f, 0xae, 0xdf]), GS);
        assert_eq!(within(&[0xf3, 0x66, 0x2e, 0x49, 0x0f, 0xae, 0xd8]), GS);
        assert_eq!(within(&[0xf3, 0xd5, 0x98, 0xae, 0xd1]), FS);
        // mov fs, eax; mov gs, [rdi]; pop fs; pop gs; lfs rax, [rdi]; lgs eax, [rdi]
        assert_eq!(within(&[0x8e, 0xe0]), FS);
        assert_eq!(within(&[0x8e, 0x2f]), GS);
        assert_eq!(within(&[0x41, 0x8e, 0xe0]), FS);
        assert_eq!(within(&[0x0f, 0xa1]), FS);
        assert_eq!(within(&[0x0f, 0xa9]), GS);
        assert_eq!(within(&[0x48, 0x0f, 0xb4, 0x07]), FS);
        assert_eq!(within(&[0x0f, 0xb5, 0x07]), GS);
    }

    /// What reads a base, or looks like one of those in the midst of an instruction, changes none.
    #[test]
    fn what_does_not() {
        // rdfsbase rax; rdgsbase rcx; stmxcsr [rdi]; ldmxcsr [rax]; mov ds, eax; incsspq rax
        assert_eq!(within(&[0xf3, 0x48, 0x0f, 0xae, 0xc0]), NONE);
        assert_eq!(within(&[0xf3, 0x48, 0x0f, 0xae, 0xc9]), NONE);
        assert_eq!(within(&[0x0f, 0xae, 0x1f]), NONE);
        assert_eq!(within(&[0x0f, 0xae, 0x10]), NONE);
        assert_eq!(within(&[0x8e, 0xd8]), NONE);
        assert_eq!(within(&[0xf3, 0x48, 0x0f, 0xae, 0xe8]), NONE);
        // mov eax, 0xe08e; mov rax, [rdi+0xa10f]; call with such a distance
        assert_eq!(within(&[0xb8, 0x8e, 0xe0, 0, 0]), NONE);
        assert_eq!(within(&[0x48, 0x8b, 0x87, 0x0f, 0xa1, 0, 0]), NONE);
        assert_eq!(within(&[0xe8, 0x8e, 0x2f, 0x0f, 0xa9]), NONE);
    }

    /// Only what has its operation code in the range is looked at, however short the code is.
    #[test]
    fn within_the_range() {
        let code = [0xf3, 0x0f, 0xae, 0xd0, 0xf3, 0x0f, 0xae, 0xd8];
        assert_eq!(BaseWriters::of_code(&code, 0..4), FS);
        assert_eq!(BaseWriters::of_code(&code, 4..9), GS);
        assert_eq!(BaseWriters::of_code(&code[..7], 4..8), NONE);
        assert_eq!(BaseWriters::of_code(&[], 0..4), NONE);
    }

    /// The search misses no instruction, wherever it lies in code that is looked at by many bytes
    /// at a time, and finds none beside what is asked for.
    #[test]
    fn everywhere() {
        let writers: [(&[u8], BaseWriters, usize); 4] = [
            (&[0xf3, 0x0f, 0xae, 0xd0], FS, 1),
            (&[0xf3, 0xd5, 0x80, 0xae, 0xd8], GS, 1),
            (&[0x8e, 0xe8], GS, 0),
            (&[0x0f, 0xa1], FS, 0),
        ];
        for (writer, found, opcode) in writers {
            for at in 0..200 - writer.len() {
                let mut code = [0x90; 200];
                code[at..at + writer.len()].copy_from_slice(writer);
                assert_eq!(BaseWriters::of_code(&code, 0..200), found, "{at}");
                assert_eq!(BaseWriters::of_code(&code, at + opcode..200), found, "{at}");
                let before = BaseWriters::of_code(&code, 0..at + opcode);
                assert_eq!(before, BaseWriters::default(), "{at}");
            }
        }
    }
}
