//! The interpreter on the state of a slot, in full or with parts of it hidden.

use interpreter::{
    Code, Decoded, Fetched, Flag, Flags, Memory, Outcome, Parameter, Registers, Sink, StopReason,
    Traces, ValueKinds, Vector, Window, Word,
};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::generate::Case;
use crate::native::{DATA, DATA_BYTES, NativeState, SEGMENT_BASES, Slot};
use crate::trampoline::Level;
use crate::x87;

/// What the interpreter is not told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hide {
    Nothing,
    /// MXCSR.
    Mxcsr,
    /// Random registers, flags and stretches of memory; drawn from this seed.
    Some(u64),
}

/// What the interpreter said of an instruction.
pub(crate) struct Said {
    pub(crate) outcome: Outcome,
    pub(crate) values: Vec<(Parameter, Option<u64>)>,
    pub(crate) branch: Option<Option<bool>>,
    /// Address, bytes, value.
    pub(crate) stores: Vec<(Option<u64>, u32, Option<u64>)>,
    /// An address was used that is not canonical everywhere.
    pub(crate) beyond_48_bits: bool,
    /// Memory beyond the data page was loaded.
    pub(crate) loaded_elsewhere: bool,
}

/// Interprets the instruction of a slot.
pub(crate) fn interpret(case: &Case, slot: &Slot, level: Level, hide: Hide) -> Said {
    run(case, slot, level, hide, None)
}

/// What the interpreter takes to be at an address after the instruction.
pub(crate) fn load_after(case: &Case, slot: &Slot, level: Level, hide: Hide, at: u64) -> Word {
    // mov rax, [at]
    let mut bytes = vec![0x48, 0xa1];
    bytes.extend(at.to_le_bytes());
    let Ok(load) = Decoded::new(&bytes, 0) else {
        return Word::UNKNOWN;
    };
    let said = run(case, slot, level, hide, Some(&load));
    match said.outcome.stop {
        StopReason::Complete => said.outcome.registers.gpr[0],
        _ => Word::UNKNOWN,
    }
}

fn run(case: &Case, slot: &Slot, level: Level, hide: Hide, then: Option<&Decoded>) -> Said {
    let registers = told(&slot.before, case.entry, level, hide);
    let mut traces = Traces::new(4);
    let mut window = |capture, traced: bool, listener: &mut Listener| {
        let mut code = Program {
            case,
            then,
            done: false,
            keeps: false,
        };
        let mut memory = Page {
            data: &slot.data_before,
            hide,
        };
        let window = Window {
            max_instructions: 1 + u32::from(then.is_some()),
            capture,
        };
        if !traced {
            return window.run(&registers, &mut code, &mut memory, listener);
        }
        let mut state = interpreter::WindowState::new(registers.clone());
        let end = window.run_traced(&mut state, &mut traces, &mut code, &mut memory, listener);
        Outcome {
            instructions: end.instructions,
            stop: end.stop,
            registers: state.registers,
        }
    };
    let mut listener = Listener::default();
    let outcome = window(ValueKinds::all(), false, &mut listener);
    // Operands that nobody wants to be told are read in other ways.
    let mut told = Listener::default();
    let usual = window(ValueKinds::default(), false, &mut told);
    assert_eq!(usual, outcome, "what is told changes what is done");
    // The first window makes the trace that the second one follows.
    for _ in 0..2 {
        let mut by_trace = Listener::default();
        let traced = window(ValueKinds::default(), true, &mut by_trace);
        assert_eq!(traced, usual, "a trace does what handlers do not");
        assert_eq!(by_trace, told, "a trace tells what handlers do not");
    }
    listener.address(Some(outcome.registers.rip));
    Said {
        outcome,
        values: listener.values,
        branch: listener.branch,
        stores: listener.stores,
        beyond_48_bits: listener.beyond_48_bits,
        loaded_elsewhere: listener.loaded_elsewhere,
    }
}

/// The registers, as far as they are told.
fn told(state: &NativeState, rip: u64, level: Level, hide: Hide) -> Registers {
    let (count, bytes) = level.vectors();
    let there = u64::MAX >> (64 - bytes);
    let mut registers = Registers::from_sample(state.gpr, rip, state.rflags);
    [registers.fs_base, registers.gs_base] = SEGMENT_BASES.map(Some);
    registers.mxcsr = Some(state.mxcsr);
    registers.x87 = x87::told(&state.x87);
    for i in 0..count {
        registers.vectors[i] = Vector::partial(state.vectors[i], there);
    }
    if level == Level::Avx512 {
        registers.masks = state.masks.map(Word::known);
    }
    if hide == Hide::Mxcsr {
        registers.mxcsr = None;
    }
    let Hide::Some(seed) = hide else {
        return registers;
    };
    let mut rng = SmallRng::seed_from_u64(seed);
    // Everything else known, half of everything, a byte here and there.
    let share = [1, 1, 2, 8][rng.random_range(0..4)];
    let bytes = |rng: &mut SmallRng| match rng.random_range(0..16u32) {
        n if n >= share => u64::MAX,
        n if n % 4 == 0 => 0,
        n if n % 4 == 1 => rng.random::<u64>() | rng.random::<u64>(),
        _ => rng.random(),
    };
    for word in registers.gpr.iter_mut().chain(&mut registers.masks) {
        *word = Word::partial(
            word.known_bits(),
            bytes(&mut rng) as u8 & word.known_bytes(),
        );
    }
    for vector in &mut registers.vectors {
        let known = bytes(&mut rng) & vector.known_bytes();
        if known != vector.known_bytes() {
            *vector = Vector::partial(*vector.known_bits(), known);
        }
    }
    let mut flags = Flags::from_rflags(state.rflags);
    for flag in Flag::ALL {
        if rng.random_ratio(share, 8) {
            flags.set(flag, None);
        }
    }
    registers.rflags = flags;
    if rng.random_ratio(1, 4) {
        registers.fs_base = None;
    }
    if rng.random_ratio(1, 4) {
        registers.gs_base = None;
    }
    if rng.random_ratio(1, 3) {
        registers.mxcsr = None;
    }
    x87::hide(&mut registers.x87, share, &mut rng);
    registers
}

/// The instruction, and one that may follow it wherever it leads.
struct Program<'a> {
    case: &'a Case,
    then: Option<&'a Decoded>,
    done: bool,
    /// The instruction of the case was fetched last.
    keeps: bool,
}

impl Code for Program<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let first = !std::mem::replace(&mut self.done, true);
        self.keeps = first && pc == self.case.entry;
        if self.keeps {
            return Ok(Fetched {
                instruction: &self.case.decoded,
                bias: self.case.bias,
                mark: 0,
            });
        }
        let instruction = self.then.ok_or(StopReason::NotMapped)?;
        Ok(Fetched {
            instruction,
            bias: 0,
            mark: 0,
        })
    }

    fn keeps(&self) -> bool {
        self.keeps
    }
}

/// The data page before the instruction.
struct Page<'a> {
    data: &'a [u8; DATA_BYTES],
    hide: Hide,
}

impl Memory for Page<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let at = address.wrapping_sub(DATA) as usize;
        let Some(from) = self.data.get(at..at.saturating_add(bytes.len())) else {
            return false;
        };
        if let Hide::Some(seed) = self.hide {
            // One byte in sixteen is not told, the same ones throughout.
            let hidden = |i: u64| {
                let mixed = (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed >> 60 == 0
            };
            if (0..bytes.len()).any(|i| hidden((at + i) as u64)) {
                return false;
            }
        }
        bytes.copy_from_slice(from);
        true
    }
}

#[derive(Default, PartialEq, Debug)]
struct Listener {
    values: Vec<(Parameter, Option<u64>)>,
    branch: Option<Option<bool>>,
    stores: Vec<(Option<u64>, u32, Option<u64>)>,
    beyond_48_bits: bool,
    loaded_elsewhere: bool,
}

impl Listener {
    fn address(&mut self, address: Option<u64>) {
        let top = address.unwrap_or(0).cast_signed() >> 47;
        self.beyond_48_bits |= top != 0 && top != -1;
    }
}

impl Sink for Listener {
    fn value(&mut self, _: u64, parameter: Parameter, value: Option<u64>) {
        if parameter == Parameter::Ea {
            self.address(value);
        }
        self.values.push((parameter, value));
    }

    fn branch(&mut self, _: u64, taken: Option<bool>) {
        self.branch = Some(taken);
    }

    fn load(&mut self, _: u64, address: Option<u64>, _: u32, value: Option<u64>) {
        self.address(address);
        self.loaded_elsewhere |= value.is_none();
    }

    fn store(&mut self, _: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        self.address(address);
        self.stores.push((address, bytes, value));
    }
}
