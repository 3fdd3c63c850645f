//! What was worked out of a block, beside what the processor made of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use interpreter::{Flag, Parameter, Registers, Word, X87};
use sampler::VectorState;

/// Names of general registers in the processor's order.
const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// What is not as the processor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Pc,
    /// A general register, by its number.
    Register(usize),
    Flag(Flag),
    /// A vector register, by its number.
    Vector(usize),
    /// A mask register, by its number.
    Mask(usize),
    /// The modes of floating-point instructions.
    Modes,
    /// A register of x87, by its number, and what belongs to all of them.
    X87Register(usize),
    X87Control,
    X87Status,
    X87Used,
    /// What a step left in memory, by its number.
    Memory(usize),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pc => f.write_str("rip"),
            Self::Register(number) => f.write_str(NAMES[number & 15]),
            Self::Flag(flag) => write!(f, "{}", format!("{flag:?}").to_lowercase()),
            Self::Vector(number) => write!(f, "zmm{number}"),
            Self::Mask(number) => write!(f, "k{number}"),
            Self::Modes => f.write_str("mxcsr"),
            Self::X87Register(number) => write!(f, "r{number} of x87"),
            Self::X87Control => f.write_str("the control word of x87"),
            Self::X87Status => f.write_str("the status word of x87"),
            Self::X87Used => f.write_str("the tags of x87"),
            Self::Memory(_) => f.write_str("memory"),
        }
    }
}

/// The first thing that is known and not so: registers byte by byte, flags one by one.
pub(crate) fn difference(known: &Registers, seen: &sampler::Registers) -> Option<Difference> {
    if known.rip != seen.ip {
        return Some(Difference::Pc);
    }
    for (number, (word, seen)) in known.gpr.iter().zip(seen.gpr).enumerate() {
        if is_other(*word, seen) {
            return Some(Difference::Register(number));
        }
    }
    let is_set = |flag: Flag| seen.flags & flag as u64 != 0;
    let wrong = |flag: &Flag| {
        let known = known.rflags.get(*flag);
        known.is_some_and(|known| known != is_set(*flag))
    };
    Flag::ALL.into_iter().find(wrong).map(Difference::Flag)
}

/// Bits of MXCSR that are no modes: what exceptions there were.
const EXCEPTIONS: u32 = 0x3f;
/// Bits of the status word of x87 that have the number of the stack's top.
const TOP: u16 = 7 << 11;

/// Whether some bytes of a word are known, and not so.
fn is_other(known: Word, seen: u64) -> bool {
    let (bytes, seen) = (known.known_bits().to_le_bytes(), seen.to_le_bytes());
    (0..8).any(|at| known.known_bytes() >> at & 1 != 0 && bytes[at] != seen[at])
}

/// The first thing of the other registers that is known and not so.
pub(crate) fn difference_of_vectors(known: &Registers, seen: &VectorState) -> Option<Difference> {
    for (number, (vector, seen)) in known.vectors.iter().zip(&seen.vectors).enumerate() {
        let mut bytes = (0..).zip(vector.known_bits()).zip(seen);
        if bytes.any(|((at, of), seen)| vector.known_bytes() >> at & 1_u64 != 0 && of != seen) {
            return Some(Difference::Vector(number));
        }
    }
    for (number, (mask, seen)) in known.masks.iter().zip(seen.masks).enumerate() {
        if is_other(*mask, seen) {
            return Some(Difference::Mask(number));
        }
    }
    if known
        .mxcsr
        .is_some_and(|of| (of ^ seen.mxcsr) & !EXCEPTIONS != 0)
    {
        return Some(Difference::Modes);
    }
    difference_of_x87(&known.x87, &seen.x87)
}

fn difference_of_x87(known: &X87, seen: &sampler::X87) -> Option<Difference> {
    if known.control.is_some_and(|of| of != seen.control) {
        return Some(Difference::X87Control);
    }
    let top = (seen.status >> 11 & 7) as u8;
    let status = (known.status ^ seen.status) & known.status_known & !TOP;
    if status != 0 || known.top.is_some_and(|of| of != top) {
        return Some(Difference::X87Status);
    }
    if (known.used ^ seen.used) & known.used_known != 0 {
        return Some(Difference::X87Used);
    }
    // The processor saves them from the top on.
    known.top?;
    for (place, bytes) in seen.stack.iter().enumerate() {
        let number = (usize::from(top) + place) & 7;
        let of = &known.registers[number];
        let [s0, s1, s2, s3, s4, s5, s6, s7, low, high] = *bytes;
        let significand = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let end = u16::from_le_bytes([low, high]);
        if is_other(of.significand, significand) || of.top.is_some_and(|of| of != end) {
            return Some(Difference::X87Register(number));
        }
    }
    None
}

/// Whether all is known of a register that a step has written, or of a word of it.
pub(crate) fn knows(known: &Registers, written: Parameter) -> bool {
    let is_whole = |word: Option<&Word>| word.is_some_and(|word| word.get(8).is_some());
    match written {
        Parameter::Pair(register) if register.is_k() => {
            is_whole(known.masks.get(register.number()))
        }
        Parameter::Pair(register) => is_whole(known.gpr.get(register.full_register().number())),
        Parameter::PairWord(register, word) if register.is_st() => {
            let top = known.x87.top.map(usize::from);
            let number = top.map(|top| (top + register.number()) & 7);
            let of = number.and_then(|number| known.x87.registers.get(number));
            match word {
                0 => is_whole(of.map(|of| &of.significand)),
                _ => of.is_some_and(|of| of.top.is_some()),
            }
        }
        Parameter::PairWord(register, word) => {
            let bytes = known
                .vectors
                .get(register.number())
                .map(|of| of.known_bytes());
            let word = 0xff_u64.checked_shl(8 * u32::from(word));
            matches!((bytes, word), (Some(bytes), Some(word)) if bytes & word == word)
        }
        _ => false,
    }
}

/// Disagreements that are told apart; there should be none at all.
const MOST: usize = 100;

/// Their texts, which last as long as the program.
static LASTING: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The name of a counter for this text, which lasts as long as the program: names are few.
pub(crate) fn lasting(text: &str) -> &'static str {
    let mut names = LASTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(text) {
        return name;
    }
    if names.len() >= MOST {
        return "others";
    }
    let name: &'static str = Box::leak(text.to_owned().into_boxed_str());
    names.insert(name);
    name
}

/// All such names.
pub fn all_lasting() -> Vec<&'static str> {
    let names = LASTING.lock().unwrap_or_else(PoisonError::into_inner);
    names.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: u64 = 0x8d5;

    fn both() -> (Registers, sampler::Registers) {
        let gpr = std::array::from_fn(|i| 0x0101_0101_0101_0101 * (i as u64 + 1));
        let seen = sampler::Registers {
            gpr,
            ip: 0x1234,
            flags: FLAGS | 0x1_0202,
            cs: 0x33,
            ss: 0x2b,
        };
        (Registers::from_sample(gpr, 0x1234, FLAGS), seen)
    }

    /// What is the same everywhere is no difference, nor is what is not known.
    #[test]
    fn agreement() {
        let (mut known, seen) = both();
        assert_eq!(difference(&known, &seen), None);
        known.gpr[3] = Word::partial(0x0404, 3);
        known.rflags.set(Flag::Af, None);
        assert_eq!(difference(&known, &seen), None);
    }

    /// A fault in any byte of any register, in any flag and in the PC is found.
    #[test]
    fn every_fault_is_found() {
        for number in 0..16 {
            for byte in 0..8 {
                let (mut known, seen) = both();
                known.gpr[number] = Word::known(seen.gpr[number] ^ 1 << (8 * byte));
                assert_eq!(
                    difference(&known, &seen),
                    Some(Difference::Register(number))
                );
                // Also where nothing else of the register is known.
                known.gpr[number] = Word::partial(known.gpr[number].known_bits(), 1 << byte);
                assert_eq!(
                    difference(&known, &seen),
                    Some(Difference::Register(number))
                );
            }
        }
        for flag in Flag::ALL {
            let (mut known, seen) = both();
            let value = known.rflags.get(flag).map(|value| !value);
            known.rflags.set(flag, value);
            assert_eq!(difference(&known, &seen), Some(Difference::Flag(flag)));
        }
        let (mut known, seen) = both();
        known.rip += 1;
        assert_eq!(difference(&known, &seen), Some(Difference::Pc));
    }

    fn others() -> (Registers, VectorState) {
        let seen = VectorState {
            vectors: std::array::from_fn(|number| [number as u8; 64]),
            masks: std::array::from_fn(|number| number as u64),
            mxcsr: 0x1f80,
            x87: sampler::X87 {
                control: 0x37f,
                // The top is 6.
                status: 0x3000,
                used: 0xc0,
                stack: std::array::from_fn(|place| [place as u8 + 1; 10]),
            },
        };
        let mut known = Registers::from_sample([0; 16], 0, 0);
        known.set_vectors(&seen.vectors, seen.masks, seen.mxcsr);
        let x87 = &seen.x87;
        known.x87 = X87::saved(x87.control, x87.status, x87.used, &x87.stack);
        (known, seen)
    }

    /// A fault in any vector or mask register, in the modes, and in any part of x87 is found;
    /// exceptions that there were are none, nor is what is not known.
    #[test]
    fn every_fault_of_others_is_found() {
        let found = |fault: fn(&mut VectorState)| {
            let (known, mut seen) = others();
            fault(&mut seen);
            let nothing = Registers::from_sample([0; 16], 0, 0);
            assert_eq!(difference_of_vectors(&nothing, &seen), None);
            difference_of_vectors(&known, &seen)
        };
        assert_eq!(found(|_| {}), None);
        assert_eq!(found(|of| of.mxcsr |= 0x20), None);
        assert_eq!(
            found(|of| of.vectors[31][63] ^= 1),
            Some(Difference::Vector(31))
        );
        assert_eq!(
            found(|of| of.masks[7] ^= 1 << 63),
            Some(Difference::Mask(7))
        );
        assert_eq!(found(|of| of.mxcsr ^= 1 << 15), Some(Difference::Modes));
        assert_eq!(
            found(|of| of.x87.control ^= 1),
            Some(Difference::X87Control)
        );
        assert_eq!(found(|of| of.x87.status ^= 1), Some(Difference::X87Status));
        assert_eq!(
            found(|of| of.x87.status = 0x3800),
            Some(Difference::X87Status)
        );
        assert_eq!(found(|of| of.x87.used ^= 1), Some(Difference::X87Used));
        // The second of the stack is register 7.
        assert_eq!(
            found(|of| of.x87.stack[1][9] ^= 1),
            Some(Difference::X87Register(7))
        );
        assert_eq!(
            found(|of| of.x87.stack[3][0] ^= 1),
            Some(Difference::X87Register(1))
        );
    }

    /// What is known of a word of a register is told apart from the rest of it.
    #[test]
    fn what_is_known() {
        use iced_x86::Register as R;
        let (mut known, _) = others();
        known.vectors[3] = interpreter::Vector::partial([0; 64], !0x100);
        for (written, is_known) in [
            (Parameter::Pair(R::EAX), true),
            (Parameter::Pair(R::K3), true),
            (Parameter::PairWord(R::XMM3, 0), true),
            (Parameter::PairWord(R::XMM3, 1), false),
            (Parameter::PairWord(R::ZMM3, 7), true),
            (Parameter::PairWord(R::ST0, 1), true),
        ] {
            assert_eq!(knows(&known, written), is_known, "{written}");
        }
        known.x87.top = None;
        assert!(!knows(&known, Parameter::PairWord(R::ST0, 0)));
    }
}
