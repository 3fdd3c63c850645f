//! Which instructions are interpreted, as a table that is checked in.

mod stores;
mod walk;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, Register, RflagsBits};
use interpreter::{
    Decoded, Fetched, Flag, Memory, Outcome, Parameter, Registers, Sink, StopReason, Support,
    Window,
};

use crate::walk::Walk;

/// Where instructions lie.
const START: u64 = 0x40_0000;

/// How each instruction is treated, by the decoder's name for it.
fn table() -> BTreeMap<String, String> {
    let row = |decoded: &Decoded| {
        let support = match decoded.support() {
            Support::Interpreted => "interpreted".to_owned(),
            Support::Skipped => "skipped".to_owned(),
            Support::Stops(reason) => format!("stops: {}", reason.key()),
        };
        (format!("{:?}", decoded.instruction().code()), support)
    };
    Walk::of_all().iter().map(row).collect()
}

/// Every instruction is treated as the table says: what is unsupported is so on purpose. After a
/// change, `VCPI_UPDATE=1` writes the table anew; the difference is to be read before it is kept.
#[test]
fn instructions_are_treated_as_listed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/coverage.tsv");
    let mut text = String::new();
    for (code, support) in table() {
        let _ = writeln!(text, "{code}\t{support}");
    }
    if std::env::var_os("VCPI_UPDATE").is_some() {
        std::fs::write(path, &text).expect("the table can be written");
    }
    let listed = std::fs::read_to_string(path).expect("the table is there");
    let changed: Vec<_> = text
        .lines()
        .filter(|row| !listed.lines().any(|l| l == *row))
        .collect();
    assert!(changed.is_empty(), "not as listed in {path}: {changed:#?}");
    assert_eq!(
        text.lines().count(),
        listed.lines().count(),
        "rows of no instruction in {path}"
    );
}

/// A single instruction.
struct One(Decoded);

impl interpreter::Code for One {
    fn fetch(&mut self, _: u64) -> Result<Fetched<'_>, StopReason> {
        Ok(Fetched {
            instruction: &self.0,
            bias: 0,
            mark: 0,
        })
    }
}

/// Memory that holds 3 everywhere.
struct Threes;

impl Memory for Threes {
    fn read(&mut self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(3);
        true
    }
}

struct Ignore;

impl Sink for Ignore {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}
}

/// Every instruction that is interpreted or skipped changes only the flags and registers that the
/// decoder's own tables say it writes; flags it clears or sets are so, and those it leaves
/// undefined are unknown.
#[test]
fn effects_agree_with_the_decoders_tables() {
    let mut gpr = [0x1000; 16];
    gpr[1] = 5;
    gpr[2] = 0;
    let mut factory = InstructionInfoFactory::new();
    let window = Window {
        max_instructions: 1,
        ..Window::default()
    };
    for decoded in Walk::of_all() {
        let instruction = *decoded.instruction();
        let info = factory.info(&instruction);
        let code = instruction.code();
        for rflags in [0, !(Flag::Df as u64)] {
            let before = Registers::from_sample(gpr, START, rflags);
            let mut one = One(decoded.clone());
            let after: Outcome = window.run(&before, &mut one, &mut Threes, &mut Ignore);
            if after.stop != StopReason::Complete {
                continue;
            }
            let named = |bits: u32, flag: Flag| u64::from(bits) & rflag_bit(flag) != 0;
            for flag in Flag::ALL {
                let (old, new) = (before.rflags.get(flag), after.registers.rflags.get(flag));
                let context = format!("{code:?} {flag:?} from {old:?} to {new:?}");
                // Turned by a multiple of their length, `rcl` and `rcr` may or may not touch OF.
                let turns = matches!(instruction.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
                let may_be_unknown = turns && new.is_none() && flag == Flag::Of;
                if may_be_unknown {
                    continue;
                }
                if !named(instruction.rflags_modified(), flag) {
                    assert_eq!(new, old, "not modified: {context}");
                } else if named(instruction.rflags_cleared(), flag) {
                    assert_eq!(new, Some(false), "cleared: {context}");
                } else if named(instruction.rflags_set(), flag) {
                    assert_eq!(new, Some(true), "set: {context}");
                } else if named(instruction.rflags_undefined(), flag) {
                    assert_eq!(new, None, "undefined: {context}");
                }
            }
            for (number, (old, new)) in before.gpr.into_iter().zip(after.registers.gpr).enumerate()
            {
                let register = Register::RAX + number as u32;
                let written = info.used_registers().iter().any(|used| {
                    used.register().is_gpr()
                        && used.register().full_register() == register
                        && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
                });
                assert!(
                    written || old == new,
                    "{code:?} changed {register:?}: {old:?} {new:?}"
                );
            }
        }
    }
}

/// The decoder's bit of a flag.
fn rflag_bit(flag: Flag) -> u64 {
    u64::from(match flag {
        Flag::Cf => RflagsBits::CF,
        Flag::Pf => RflagsBits::PF,
        Flag::Af => RflagsBits::AF,
        Flag::Zf => RflagsBits::ZF,
        Flag::Sf => RflagsBits::SF,
        Flag::Df => RflagsBits::DF,
        Flag::Of => RflagsBits::OF,
    })
}
