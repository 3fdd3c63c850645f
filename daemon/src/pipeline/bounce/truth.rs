//! What was worked out of a block, beside what the processor made of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use interpreter::{Flag, Registers};

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
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pc => f.write_str("rip"),
            Self::Register(number) => f.write_str(NAMES[number & 15]),
            Self::Flag(flag) => write!(f, "{}", format!("{flag:?}").to_lowercase()),
        }
    }
}

/// The first thing that is known and not so: registers byte by byte, flags one by one.
pub(crate) fn difference(known: &Registers, seen: &sampler::Registers) -> Option<Difference> {
    if known.rip != seen.ip {
        return Some(Difference::Pc);
    }
    for (number, (word, seen)) in known.gpr.iter().zip(seen.gpr).enumerate() {
        let bytes = word.known_bits().to_le_bytes();
        let differs = (0..8)
            .any(|at| word.known_bytes() >> at & 1 != 0 && bytes[at] != seen.to_le_bytes()[at]);
        if differs {
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
pub(crate) fn all_lasting() -> Vec<&'static str> {
    let names = LASTING.lock().unwrap_or_else(PoisonError::into_inner);
    names.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use interpreter::Word;

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
}
