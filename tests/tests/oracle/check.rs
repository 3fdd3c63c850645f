//! Comparison of the interpreter with the processor.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use anyhow::{Context as _, Result};
use iced_x86::{OpKind, Register};
use interpreter::{
    Capture, Decoded, Flag, Flags, Parameter, Registers, StopReason, Vector, Window, Word,
};

use crate::tracee::{Start, State, Step, Tracee};
use crate::view::{
    BIAS, Claims, GENERAL, Hide, Random, Recorder, SHOWN, TraceeCode, TraceeMemory, general,
    tell_vectors, told, value_of, widen,
};

/// Instructions of a window.
const WINDOW: u32 = 16;
/// The bits of MXCSR that are no exception flags.
const MODES: u32 = 0xffc0;
/// Differences after which the watch ends.
const MAX_DIFFERENCES: usize = 12;
/// Steps within which a call must have arrived at its final target.
const STUB_STEPS: u32 = 12;

/// What was seen.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    windows: u64,
    window_instructions: u64,
    compared: u64,
    destinations: u64,
    destinations_known: u64,
    stops: BTreeMap<&'static str, u64>,
    pub(crate) differences: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        write!(
            f,
            "{} steps, {} windows of {:.1} instructions, {} facts compared, {} differences; \
             destinations known {:.1} %; stops:",
            self.steps,
            self.windows,
            self.window_instructions as f64 / self.windows.max(1) as f64,
            self.compared,
            self.differences.len(),
            share(self.destinations_known, self.destinations),
        )?;
        for (key, count) in &self.stops {
            write!(f, " {key} {:.2} %", share(*count, self.windows))?;
        }
        Ok(())
    }
}

/// A window that runs ahead of the processor.
struct Ahead {
    instructions: VecDeque<Claims>,
    outcome: interpreter::Outcome,
}

/// A call whose final target is still to be seen.
struct Pending {
    target: u64,
    site: u64,
    steps: u32,
}

struct Watch {
    tracee: Tracee,
    volatile: Vec<(u64, u64)>,
    decoded: HashMap<u64, ([u8; 15], Decoded)>,
    random: Random,
    report: Report,
    ahead: Vec<Ahead>,
    pending: Vec<Pending>,
    /// What the interpreter made of the registers so far. Of the upper halves of vector registers
    /// and of masks it is all there is: they are checked when they come down to where the processor
    /// shows them.
    carried: Option<Registers>,
}

/// Watches a program for a number of steps.
pub(crate) fn run(command: &[String], start: &Start, steps: u64) -> Result<Report> {
    let mut tracee = Tracee::start(command).with_context(|| format!("running {command:?}"))?;
    tracee.run_to(start)?;
    let volatile = tracee.volatile_ranges()?;
    let mut watch = Watch {
        tracee,
        volatile,
        decoded: HashMap::new(),
        random: Random(0x1234_5678_9abc_def1),
        report: Report::default(),
        ahead: Vec::new(),
        pending: Vec::new(),
        carried: None,
    };
    let mut before = watch.tracee.state()?;
    while watch.report.steps < steps && watch.report.differences.len() < MAX_DIFFERENCES {
        match watch.one_step(&before)? {
            Some(after) => before = after,
            None => break,
        }
    }
    Ok(watch.report)
}

impl Watch {
    /// Interprets, steps, compares. Returns the registers after the step, or nothing at the end.
    fn one_step(&mut self, before: &State) -> Result<Option<State>> {
        let singles: Vec<_> = [Hide::Nothing, Hide::Some, Hide::Bytes]
            .into_iter()
            .map(|hide| self.interpret(before, 1, hide))
            .collect();
        if self.ahead.is_empty() && self.report.steps.is_multiple_of(5) {
            for hide in [Hide::Nothing, Hide::Some, Hide::Bytes] {
                let ahead = self.interpret(before, WINDOW, hide);
                if hide == Hide::Nothing {
                    self.count(&ahead);
                }
                self.ahead.push(ahead);
            }
        }
        let repeated = self
            .decoded
            .get(&before.general.rip)
            .is_some_and(|(_, decoded)| {
                let instruction = decoded.instruction();
                instruction.is_string_instruction()
                    && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
            });
        let after = loop {
            match self.tracee.step()? {
                Step::Stopped => {}
                Step::Signal => {
                    // A handler runs next, or another program: nothing to compare with.
                    self.ahead.clear();
                    self.pending.clear();
                    self.carried = None;
                    return self.tracee.state().map(Some);
                }
                Step::Gone => return Ok(None),
            }
            let after = self.tracee.state()?;
            // A repeated instruction stops after each iteration.
            if !repeated || after.general.rip != before.general.rip {
                break after;
            }
        };
        self.report.steps += 1;
        self.carried = singles
            .first()
            .filter(|single| single.outcome.stop == StopReason::Complete)
            .map(|single| single.outcome.registers.clone());
        for mut single in singles {
            if let Some(claims) = single.instructions.pop_front() {
                self.compare_events(&claims, before, &after);
            }
            if single.outcome.stop == StopReason::Complete {
                self.compare_state(before.general.rip, &single.outcome.registers, &after);
            }
        }
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.retain_mut(|window| self.follow(window, before, &after));
        self.ahead = ahead;
        self.compare_calls(&after);
        Ok(Some(after))
    }

    fn interpret(&mut self, regs: &State, instructions: u32, hide: Hide) -> Ahead {
        let mut registers = told(regs, hide, &mut self.random);
        // Of windows those with nothing hidden begin as a sample does: no vector is known.
        if instructions == 1 || hide != Hide::Nothing {
            tell_vectors(
                &mut registers,
                regs,
                self.carried.as_ref(),
                hide,
                &mut self.random,
            );
        }
        let seed = self.random.next();
        let mut memory = TraceeMemory {
            tracee: &self.tracee,
            volatile: &self.volatile,
            hide: (hide != Hide::Nothing).then_some(seed),
        };
        let mut code = TraceeCode {
            tracee: &self.tracee,
            decoded: &mut self.decoded,
        };
        let mut recorder = Recorder::default();
        let window = Window {
            max_instructions: instructions,
            capture: Capture::all(),
        };
        let outcome = window.run(&registers, &mut code, &mut memory, &mut recorder);
        Ahead {
            instructions: recorder.instructions,
            outcome,
        }
    }

    /// Counts what a window with all knowledge achieved.
    fn count(&mut self, window: &Ahead) {
        self.report.windows += 1;
        self.report.window_instructions += u64::from(window.outcome.instructions);
        *self
            .report
            .stops
            .entry(window.outcome.stop.key())
            .or_default() += 1;
        for (parameter, value) in window.instructions.iter().flat_map(|i| &i.values) {
            if matches!(parameter, Parameter::Dest(_)) {
                self.report.destinations += 1;
                self.report.destinations_known += u64::from(value.is_some());
            }
        }
    }

    /// Compares the next instruction of a window; says whether there is more to follow.
    fn follow(&mut self, window: &mut Ahead, before: &State, after: &State) -> bool {
        let Some(claims) = window.instructions.pop_front() else {
            return false;
        };
        if claims.pc != before.general.rip {
            self.differ(
                before.general.rip,
                format!("the window is at {:#x}", claims.pc),
            );
            return false;
        }
        self.compare_events(&claims, before, after);
        if let Some(call) = claims.call
            && let Some(target) = call.target
        {
            self.pending.push(Pending {
                target,
                site: call.site,
                steps: STUB_STEPS,
            });
        }
        if window.instructions.is_empty() && window.outcome.stop == StopReason::Complete {
            self.compare_state(before.general.rip, &window.outcome.registers, after);
        }
        !window.instructions.is_empty()
    }

    fn compare_events(&mut self, claims: &Claims, before: &State, after: &State) {
        let pc = claims.pc;
        let Some((_, decoded)) = self.decoded.get(&pc) else {
            return;
        };
        let instruction = *decoded.instruction();
        let next = pc.wrapping_add(instruction.len() as u64);
        let goes_to = instruction.near_branch_target().wrapping_add(BIAS);
        let taken = (goes_to != next).then_some(after.general.rip == goes_to);
        for &(parameter, claimed) in &claims.values {
            let Some(claimed) = claimed else { continue };
            let real = match parameter {
                Parameter::Dest(register) => value_of(&after.general, register),
                Parameter::Single(register) => {
                    lowest(after, register).map(|bits| bits & u64::from(u32::MAX))
                }
                Parameter::Double(register) => lowest(after, register),
                Parameter::Taken => taken.map(u64::from),
                Parameter::Ea => self.effective_address(&instruction, before, after),
                // Stores are compared below, byte by byte.
                Parameter::Mem | Parameter::Arg(_) => None,
                Parameter::Target => Some(after.general.rip),
                Parameter::Ret => Some(before.general.rax),
                Parameter::Operand(i) => match instruction.op_kind(u32::from(i)) {
                    OpKind::Register => {
                        value_of(&before.general, instruction.op_register(u32::from(i)))
                    }
                    _ => None,
                },
            };
            self.expect(pc, || format!("{parameter}"), claimed, real);
        }
        if let Some(Some(claimed)) = claims.branch {
            self.expect(
                pc,
                || "direction".into(),
                u64::from(claimed),
                taken.map(u64::from),
            );
        }
        if let Some(call) = claims.call {
            let real = [
                before.general.rdi,
                before.general.rsi,
                before.general.rdx,
                before.general.rcx,
                before.general.r8,
                before.general.r9,
            ];
            for (claimed, real) in call.arguments.into_iter().zip(real) {
                if let Some(claimed) = claimed {
                    self.expect(pc, || "argument".into(), claimed, Some(real));
                }
            }
        }
        self.compare_stores(claims);
    }

    /// Every byte stored must be in memory now, unless a later store went over it.
    fn compare_stores(&mut self, claims: &Claims) {
        let mut bytes = HashMap::new();
        for &(address, size, value) in &claims.stores {
            let Some(address) = address else {
                bytes.clear();
                continue;
            };
            for i in 0..size {
                let byte = value.map(|value| (value >> (8 * i)) as u8);
                bytes.insert(address.wrapping_add(u64::from(i)), byte);
            }
        }
        for (address, claimed) in bytes {
            let mut real = [0];
            if let Some(claimed) = claimed
                && self.tracee.read(address, &mut real) == 1
            {
                let what = || format!("stored at {address:#x}");
                self.expect(
                    claims.pc,
                    what,
                    u64::from(claimed),
                    Some(u64::from(real[0])),
                );
            }
        }
    }

    /// The address of the memory operand, worked out by the decoder's own rules.
    fn effective_address(
        &self,
        instruction: &iced_x86::Instruction,
        before: &State,
        after: &State,
    ) -> Option<u64> {
        use iced_x86::Mnemonic as M;
        let bits = matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
        if bits && instruction.op1_kind() == OpKind::Register {
            return None;
        }
        let regs = if instruction.mnemonic() == M::Pop {
            &after.general
        } else {
            &before.general
        };
        let operand = (0..instruction.op_count()).find(|i| {
            !matches!(
                instruction.op_kind(*i),
                OpKind::Register
                    | OpKind::Immediate8
                    | OpKind::Immediate8_2nd
                    | OpKind::Immediate8to16
                    | OpKind::Immediate8to32
                    | OpKind::Immediate8to64
                    | OpKind::Immediate16
                    | OpKind::Immediate32
                    | OpKind::Immediate32to64
                    | OpKind::Immediate64
            )
        })?;
        instruction.virtual_address(operand, 0, |register, _, _| match register {
            Register::FS => Some(before.general.fs_base),
            Register::GS => Some(before.general.gs_base),
            Register::ES | Register::DS | Register::SS | Register::CS => Some(0),
            _ => value_of(regs, register),
        })
    }

    /// Every known byte and flag must agree.
    fn compare_state(&mut self, pc: u64, claimed: &Registers, after: &State) {
        self.expect(pc, || "rip".into(), claimed.rip, Some(after.general.rip));
        for ((word, real), register) in claimed
            .gpr
            .into_iter()
            .zip(general(&after.general))
            .zip(GENERAL)
        {
            let known = Word::partial(real, word.known_bytes());
            let what = || format!("{register:?} (known bytes {:#04x})", word.known_bytes());
            self.expect(pc, what, word.known_bits(), Some(known.known_bits()));
        }
        for (number, (claimed, real)) in claimed.vectors.iter().zip(after.vectors).enumerate() {
            let known = claimed.known_bytes() & SHOWN;
            let real = Vector::partial(widen(real), known);
            let claimed = Vector::partial(*claimed.known_bits(), known);
            for half in [0, 8] {
                let bits = |vector: &Vector| {
                    let mut word = [0; 8];
                    word.copy_from_slice(&vector.known_bits()[half..half + 8]);
                    u64::from_le_bytes(word)
                };
                let what = || format!("xmm{number} from byte {half} (known bytes {known:#06x})");
                self.expect(pc, what, bits(&claimed), Some(bits(&real)));
            }
        }
        if let Some(claimed) = claimed.mxcsr {
            let modes = |mxcsr: u32| u64::from(mxcsr & MODES);
            let real = Some(modes(after.mxcsr));
            self.expect(pc, || "modes in MXCSR".into(), modes(claimed), real);
        }
        let real = Flags::from_rflags(after.general.eflags);
        for flag in Flag::ALL {
            if let Some(claimed) = claimed.rflags.get(flag) {
                let real = real.get(flag).map(u64::from);
                self.expect(pc, || format!("{flag:?}"), u64::from(claimed), real);
            }
        }
    }

    /// A call must arrive at the target that was reported for it.
    fn compare_calls(&mut self, after: &State) {
        let mut missed = Vec::new();
        self.pending.retain_mut(|pending| {
            if pending.target == after.general.rip {
                return false;
            }
            pending.steps -= 1;
            if pending.steps == 0 {
                missed.push((pending.site, pending.target));
            }
            pending.steps > 0
        });
        for (site, target) in missed {
            self.differ(site, format!("the call did not arrive at {target:#x}"));
        }
    }

    fn expect(&mut self, pc: u64, what: impl FnOnce() -> String, claimed: u64, real: Option<u64>) {
        let Some(real) = real else { return };
        self.report.compared += 1;
        if claimed != real {
            let what = what();
            self.differ(pc, format!("{what}: claimed {claimed:#x}, is {real:#x}"));
        }
    }

    fn differ(&mut self, pc: u64, what: String) {
        let code = self.decoded.get(&pc).map(|(bytes, decoded)| {
            let instruction = decoded.instruction();
            format!("{:?} {:02x?}", instruction.code(), &bytes[..decoded.len()])
        });
        let step = self.report.steps;
        self.report
            .differences
            .push(format!("step {step}, {pc:#x} {code:?}: {what}"));
    }
}

/// The lowest 64 bits of a vector register.
fn lowest(state: &State, register: Register) -> Option<u64> {
    let half = state.vectors.get(register.number())?;
    Some(u64::from_le_bytes(*half.first_chunk()?))
}
