//! Every instruction of 64-bit mode, from the decoder's tables.

use std::collections::HashSet;
use std::sync::LazyLock;

use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, FlowControl, OpKind};
use interpreter::Decoded;

use crate::START;

/// First bytes of the encodings without a vector prefix: prefixes, maps and opcodes, up to the
/// ModRM byte.
fn plain_openings() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let opcodes = 0..=255u8;
    for prefix in [
        &[][..],
        &[0x66],
        &[0xf2],
        &[0xf3],
        &[0x66, 0xf2],
        &[0x66, 0xf3],
    ] {
        for rex in [&[][..], &[0x48]] {
            for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
                all.extend(opcodes.clone().map(|op| [prefix, rex, map, &[op]].concat()));
            }
        }
    }
    all
}

/// First bytes of the VEX, XOP and EVEX encodings, up to the ModRM byte.
fn vector_openings() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let opcodes = 0..=255u8;
    for map in 1..=10u8 {
        for low in 0..8u8 {
            for w in [0, 0x80] {
                // No inverted registers; vvvv = 0 (inverted) and with a register.
                for unused in [0x78, 0x40] {
                    for escape in [0xc4, 0x8f] {
                        let head = [escape, 0xe0 | map, w | unused | low];
                        all.extend(opcodes.clone().map(|op| [&head[..], &[op]].concat()));
                    }
                }
            }
        }
        if map > 7 {
            continue;
        }
        for pp in 0..4u8 {
            for w in [0, 0x80] {
                for last in [0x08, 0x28, 0x48, 0x18, 0x09, 0x29, 0x49] {
                    for unused in [0x78, 0x40] {
                        let head = [0x62, 0xf0 | map, w | unused | 4 | pp, last];
                        all.extend(opcodes.clone().map(|op| [&head[..], &[op]].concat()));
                    }
                }
            }
        }
    }
    all
}

/// What one encoding of an instruction is told from another by.
type Form = (Code, bool, u8);

/// Encodings of every instruction, each of a form of its own: with operands in registers and in
/// memory, with addresses of 64 and of 32 bits, and through GS.
pub(crate) struct Walk {
    seen: HashSet<Form>,
    all: Vec<Decoded>,
}

/// What is put before an encoding: the address size, and a segment.
const VARIANTS: [&[u8]; 4] = [&[], &[0x67], &[0x65], &[0x65, 0x67]];

impl Walk {
    /// All of them, walked once.
    pub(crate) fn of_all() -> &'static [Decoded] {
        static ALL: LazyLock<Vec<Decoded>> = LazyLock::new(Walk::walk);
        &ALL
    }

    fn walk() -> Vec<Decoded> {
        let mut walk = Self {
            seen: HashSet::new(),
            all: Vec::new(),
        };
        for opening in plain_openings() {
            for modrm in 0..=255 {
                walk.enter(&[&opening[..], &[modrm, 0x11]].concat());
            }
        }
        for opening in vector_openings() {
            // Memory at a register, with an index (for gathers), and registers.
            for reg in 0..8 {
                for modrm in [
                    0x01 | reg << 3,
                    0x04 | reg << 3,
                    0xc1 | reg << 3,
                    0xc0 | reg,
                ] {
                    walk.enter(&[&opening[..], &[modrm, 0x11]].concat());
                }
            }
        }
        // The opcode comes last.
        for opcode in 0..=255 {
            for modrm in [0x01, 0xc1] {
                walk.enter(&[0x0f, 0x0f, modrm, opcode]);
            }
        }
        walk.all
    }

    fn enter(&mut self, bytes: &[u8]) {
        for (variant, prefixes) in VARIANTS.into_iter().enumerate() {
            let mut bytes = [prefixes, bytes].concat();
            bytes.resize(15, 0);
            let instruction = Decoder::new(64, &bytes, DecoderOptions::NONE).decode();
            let in_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
            let form = (instruction.code(), in_memory, variant as u8);
            if instruction.code() != Code::INVALID && self.seen.insert(form) {
                let decoded = Decoded::new(&bytes, START).expect("the decoder knows it");
                self.all.push(decoded);
            }
        }
    }
}

/// Whether the decoder yields it only if asked for, or never.
fn is_of_another_mode(code: Code) -> bool {
    let info = code.op_code();
    // Of processors that never ran Linux for x86-64.
    info.decoder_option() != DecoderOptions::NONE
        || info.encoding() == EncodingKind::MVEX
        // Of AMD's decoder, with an operand-size prefix: `depends_on_processor` ends windows there.
        || info.operand_size() == 16 && code.flow_control() != FlowControl::Next
        // Two instructions: the first is `wait`.
        || info.fwait()
        // An older form of one that is walked.
        || matches!(code, Code::Ud0 | Code::Montmul_64)
}

/// The walk leaves no instruction of 64-bit mode out.
#[test]
fn every_instruction_is_walked() {
    let walked: HashSet<Code> = Walk::of_all()
        .iter()
        .map(|decoded| decoded.instruction().code())
        .collect();
    let missing: Vec<_> = Code::values()
        .filter(|code| {
            let info = code.op_code();
            info.is_instruction() && info.mode64() && !is_of_another_mode(*code)
        })
        .filter(|code| !walked.contains(code))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
