//! What the interpreter said, held against what the processor did.

use iced_x86::Mnemonic;
use interpreter::{Flag, Flags, Parameter, StopReason, Support, Vector, Word};

use crate::events::{is_taken, real_value};
use crate::generate::Case;
use crate::interpret::{Hide, Said, interpret, load_after};
use crate::native::{DATA, DATA_BYTES, NO_EXCEPTION, Slot};
use crate::trampoline::Level;
use crate::x87;

/// The modes among the bits of MXCSR: rounding, subnormal numbers. The interpreter keeps these.
const MODES: u32 = 0xe040;
/// Of so many words of the data page one is looked at in any case.
const SPOTS: usize = 128;
/// Exception numbers.
const DIVIDE_ERROR: u64 = 0;
const UNDEFINED: u64 = 6;
const PAGE_FAULT: u64 = 14;
/// The exception flags of MXCSR, but for that of inexact results.
const RAISED: u32 = 0x1f;

/// What came of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Everything that the interpreter calls known is what the processor computed.
    Agrees,
    /// The interpreter stops, though all of the state is known to it.
    Stopped(StopReason),
    /// The processor raised an exception, of this number.
    Raised(u64),
    /// What the interpreter says is wrong.
    Differs(Vec<String>),
}

/// Values of destinations that a case yields with everything known, and how many were known.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Knowledge {
    pub(crate) destinations: u64,
    pub(crate) known: u64,
}

/// Judges a case that was run.
pub(crate) fn judge(
    case: &Case,
    slot: &Slot,
    level: Level,
    seed: u64,
    knowledge: &mut Knowledge,
) -> Verdict {
    let whole = interpret(case, slot, level, Hide::Nothing);
    if slot.exception != NO_EXCEPTION && slot.arrived == case.entry {
        return raised(case, slot, &whole);
    }
    let mut comparison = Comparison {
        case,
        slot,
        level,
        hide: Hide::Nothing,
        differences: Vec::new(),
    };
    comparison.run(&whole);
    for (parameter, value) in &whole.values {
        let destination = matches!(
            parameter,
            Parameter::Dest(_) | Parameter::Single(_) | Parameter::Double(_)
        );
        knowledge.destinations += u64::from(destination);
        knowledge.known += u64::from(destination && value.is_some());
    }
    comparison.hide = Hide::Mxcsr;
    comparison.float_exceptions();
    comparison.hide = Hide::Some(seed);
    // An exception that is not known to be masked is taken for one that does not come.
    if !x87::waits(&slot.after.x87) || x87::waits(&slot.before.x87) {
        let partial = interpret(case, slot, level, comparison.hide);
        comparison.run(&partial);
    }
    if !comparison.differences.is_empty() {
        Verdict::Differs(comparison.differences)
    } else if whole.outcome.stop == StopReason::Complete {
        Verdict::Agrees
    } else {
        Verdict::Stopped(whole.outcome.stop)
    }
}

/// The processor could not complete the instruction: the interpreter must not have, unless only
/// the page tables knew, or memory that it was not given.
fn raised(case: &Case, slot: &Slot, whole: &Said) -> Verdict {
    let went_on = whole.outcome.stop == StopReason::Complete;
    let skipped = case.decoded.support() == Support::Skipped;
    let by_system = depends_on_system(case.decoded.instruction().mnemonic());
    // A prefix can make it one that this processor lacks.
    let told = !skipped || slot.exception != UNDEFINED && !by_system;
    let could_tell =
        slot.exception != PAGE_FAULT && !whole.beyond_48_bits && !whole.loaded_elsewhere;
    if went_on && told && could_tell {
        let number = slot.exception;
        return Verdict::Differs(vec![format!(
            "the processor raises exception {number}, the interpreter goes on"
        )]);
    }
    let divides = matches!(
        case.decoded.instruction().mnemonic(),
        Mnemonic::Div | Mnemonic::Idiv
    );
    if slot.exception == DIVIDE_ERROR && !divides {
        return Verdict::Differs(vec!["a divide error of no division".to_owned()]);
    }
    Verdict::Raised(slot.exception)
}

/// Whether the system decides if a program may execute it: nothing that a sample tells.
fn depends_on_system(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Rdpmc | M::Rdtsc | M::Rdtscp | M::Rdpru | M::Cpuid | M::Xgetbv | M::Rdpkru
    )
}

struct Comparison<'a> {
    case: &'a Case,
    slot: &'a Slot,
    level: Level,
    hide: Hide,
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn run(&mut self, said: &Said) {
        if said.outcome.stop == StopReason::FaultingInstruction {
            self.differ("the interpreter calls it faulting".to_owned());
        }
        self.events(said);
        if said.outcome.stop == StopReason::Complete {
            self.state(said);
            self.memory(said);
        }
    }

    /// What raises an exception if it is not masked ends windows that do not know if it is.
    fn float_exceptions(&mut self) {
        let instruction = self.case.decoded.instruction();
        let raised = self.slot.after.mxcsr & !self.slot.before.mxcsr & RAISED;
        let loads = matches!(
            instruction.mnemonic(),
            Mnemonic::Ldmxcsr | Mnemonic::Vldmxcsr
        ) || instruction.is_save_restore_instruction();
        if raised == 0 || loads || self.case.decoded.support() != Support::Interpreted {
            return;
        }
        let said = interpret(self.case, self.slot, self.level, self.hide);
        // Lanes that a mask leaves out may lie beyond the page.
        if said.outcome.stop == StopReason::Complete && !said.loaded_elsewhere {
            self.differ(format!(
                "unmasked, the processor raises exceptions {raised:#x}, the interpreter goes on"
            ));
        }
    }

    fn differ(&mut self, what: String) {
        let hidden = match self.hide {
            Hide::Nothing => "",
            Hide::Mxcsr => " (MXCSR hidden)",
            Hide::Some(_) => " (parts hidden)",
        };
        self.differences.push(what + hidden);
    }

    fn expect(&mut self, what: impl FnOnce() -> String, claimed: u64, real: u64) {
        if claimed != real {
            self.differ(format!("{}: claimed {claimed:#x}, is {real:#x}", what()));
        }
    }

    /// Every known byte and flag must be the processor's.
    fn state(&mut self, said: &Said) {
        let claimed = &said.outcome.registers;
        let after = &self.slot.after;
        self.expect(|| "rip".to_owned(), claimed.rip, self.slot.arrived);
        let masks = match self.level {
            Level::Avx512 => &claimed.masks[..],
            Level::Sse | Level::Avx => &[],
        };
        let general = claimed.gpr.iter().zip(after.gpr).enumerate();
        let masks = masks.iter().zip(after.masks).enumerate();
        let names = general.map(|item| ('r', item));
        for (kind, (i, (word, real))) in names.chain(masks.map(|item| ('k', item))) {
            let known = Word::partial(real, word.known_bytes());
            let what = || format!("{kind}{i} (known bytes {:#04x})", word.known_bytes());
            self.expect(what, word.known_bits(), known.known_bits());
        }
        let (count, bytes) = self.level.vectors();
        let there = u64::MAX >> (64 - bytes);
        for i in 0..count {
            let vector = &claimed.vectors[i];
            if vector.known_bytes() == 0 || vector.known_bits() == &after.vectors[i] {
                continue;
            }
            let known = vector.known_bytes() & there;
            let real = Vector::partial(after.vectors[i], known);
            let vector = Vector::partial(*vector.known_bits(), known);
            if vector != real {
                let show = |vector: &Vector| {
                    let bytes = vector.known_bits()[..bytes].iter().rev();
                    bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
                };
                self.differ(format!(
                    "vector {i} (known bytes {known:#x}): claimed {}, is {}",
                    show(&vector),
                    show(&real)
                ));
            }
        }
        if let Some(mxcsr) = claimed.mxcsr {
            let what = || "modes in MXCSR".to_owned();
            self.expect(what, (mxcsr & MODES).into(), (after.mxcsr & MODES).into());
        }
        for difference in x87::differences(&claimed.x87, &after.x87) {
            self.differ(difference);
        }
        let real = Flags::from_rflags(after.rflags);
        for flag in Flag::ALL {
            if let (Some(claimed), Some(real)) = (claimed.rflags.get(flag), real.get(flag)) {
                self.expect(|| format!("{flag:?}"), claimed.into(), real.into());
            }
        }
    }

    /// The value events, and the direction of a branch.
    fn events(&mut self, said: &Said) {
        for &(parameter, claimed) in &said.values {
            if let Some(claimed) = claimed
                && let Some(real) = real_value(self.case, self.slot, parameter)
            {
                self.expect(|| format!("event {parameter}"), claimed, real);
            }
        }
        if let Some(Some(claimed)) = said.branch {
            let real = is_taken(self.case, self.slot);
            self.expect(|| "direction".to_owned(), claimed.into(), real.into());
        }
    }

    /// Every stored byte of a known value must be there, and of what the processor changed nothing
    /// may be called known that is not so.
    fn memory(&mut self, said: &Said) {
        if said.stores.iter().any(|(address, ..)| address.is_none()) {
            return;
        }
        let mut model = self.slot.data_before;
        for &(address, bytes, value) in &said.stores {
            let at = address.unwrap_or(0).wrapping_sub(DATA) as usize;
            for i in 0..bytes as usize {
                let place = model.get_mut(at.wrapping_add(i));
                if let (Some(value), Some(place)) = (value, place) {
                    *place = (value >> (8 * i)) as u8;
                }
            }
        }
        // Where nothing differs, some places are looked at all the same.
        let spot = self.case.entry as usize % SPOTS;
        for (number, at) in (0..DATA_BYTES).step_by(8).enumerate() {
            let same = model[at..at + 8] == self.slot.data_after[at..at + 8];
            if same && number % SPOTS != spot {
                continue;
            }
            let address = DATA + at as u64;
            let word = load_after(self.case, self.slot, self.level, self.hide, address);
            let mut real = [0; 8];
            real.copy_from_slice(&self.slot.data_after[at..at + 8]);
            let known = Word::partial(u64::from_le_bytes(real), word.known_bytes());
            let what = || format!("[{address:#x}] (known bytes {:#04x})", word.known_bytes());
            self.expect(what, word.known_bits(), known.known_bits());
        }
    }
}
