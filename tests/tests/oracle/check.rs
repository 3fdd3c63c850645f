//! Steps a program and holds the interpreter's claims against each step.

use std::collections::{HashMap, VecDeque};

use anyhow::{Context as _, Result};
use interpreter::{Decoded, Outcome, Registers, StopReason, Support, Traces, ValueKinds, Window};
use nix::libc::user_regs_struct;

use crate::report::{Cause, End, Report};
use crate::tracee::{Start, Step, Tracee, TraceeState};
use crate::view::{
    Claims, Hide, Random, Recorder, TraceeCode, TraceeMemory, general, tell_vectors, told,
};

/// Instructions of a window.
pub(crate) const WINDOW: u32 = 16;
/// Differences after which the watch ends.
pub(crate) const MAX_DIFFERENCES: usize = 12;
/// Steps within which a call must have arrived at its final target.
const STUB_STEPS: u32 = 12;

/// How much of a program is watched.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) steps: u64,
    /// Steps from one window as a sample starts it to the next.
    pub(crate) stride: u64,
}

/// A window that runs ahead of the processor.
pub(crate) struct Ahead {
    instructions: VecDeque<Claims>,
    outcome: Outcome,
    hide: Hide,
}

/// A call whose final target is still to be seen.
pub(crate) struct Pending {
    pub(crate) target: u64,
    pub(crate) site: u64,
    pub(crate) steps: u32,
}

/// A window that yields everything.
pub(crate) fn window(instructions: u32) -> Window {
    Window {
        max_instructions: instructions,
        capture: ValueKinds::all(),
    }
}

/// The stopped program as windows see it.
pub(crate) struct Scene<'a> {
    tracee: &'a Tracee,
    volatile: &'a [(u64, u64)],
    decoded: &'a mut HashMap<u64, ([u8; 15], Decoded)>,
}

impl Scene<'_> {
    /// The registers of a sample.
    pub(crate) fn registers(&self, regs: &user_regs_struct) -> Registers {
        let mut registers = Registers::from_sample(general(regs), regs.rip, regs.eflags);
        registers.fs_base = Some(regs.fs_base);
        registers.gs_base = Some(regs.gs_base);
        registers
    }

    /// A window from the registers of a sample.
    pub(crate) fn bare(&mut self, regs: &user_regs_struct) -> (Recorder, Outcome) {
        let registers = self.registers(regs);
        self.run(&registers, WINDOW, None)
    }

    /// A window with all memory, or with part of it hidden.
    fn run(
        &mut self,
        registers: &Registers,
        instructions: u32,
        hide: Option<u64>,
    ) -> (Recorder, Outcome) {
        let mut memory = TraceeMemory {
            tracee: self.tracee,
            volatile: self.volatile,
            hide,
        };
        let mut code = TraceeCode {
            tracee: self.tracee,
            decoded: self.decoded,
        };
        let mut seen = Recorder::default();
        let outcome = window(instructions).run(registers, &mut code, &mut memory, &mut seen);
        // Traces say the same: those that this window makes, and that the next one follows.
        let mut traces = Traces::new(256);
        let mut told = Recorder::default();
        let window = Window {
            capture: ValueKinds::default(),
            ..window(instructions)
        };
        let by_handlers = window.run(registers, &mut code, &mut memory, &mut told);
        assert_eq!(by_handlers, outcome, "what is told changes what is done");
        for _ in 0..2 {
            let (mut traced, mut state) = (
                Recorder::default(),
                interpreter::WindowState::new(registers.clone()),
            );
            let (code, memory) = (&mut code, &mut memory);
            let end = window.run_traced(&mut state, &mut traces, code, memory, &mut traced);
            assert_eq!(traced.instructions, told.instructions, "told by traces");
            assert_eq!(
                (end.instructions, end.stop),
                (outcome.instructions, outcome.stop)
            );
            assert_eq!(state.registers, outcome.registers, "left by traces");
        }
        (seen, outcome)
    }

    /// The mnemonics of the instruction that a window ended at and of the one before.
    fn place(&self, seen: &Recorder, outcome: &Outcome) -> String {
        let name = |pc: u64| match self.decoded.get(&pc) {
            Some((_, decoded)) => format!("{:?}", decoded.instruction().mnemonic()).to_lowercase(),
            None => "?".to_owned(),
        };
        let at = name(outcome.registers.rip);
        let before = seen.instructions.iter().rev().nth(1);
        match before {
            Some(claims) => format!("{} {at}", name(claims.pc)),
            None => at,
        }
    }
}

/// A program that is watched.
pub(crate) struct Watch {
    pub(crate) tracee: Tracee,
    volatile: Vec<(u64, u64)>,
    /// Where the code lies that reads the clock.
    clock: Vec<(u64, u64)>,
    pub(crate) decoded: HashMap<u64, ([u8; 15], Decoded)>,
    random: Random,
    pub(crate) report: Report,
    ahead: Vec<Ahead>,
    pub(crate) pending: Vec<Pending>,
    /// What the interpreter made of the registers so far. Of the upper halves of vector registers
    /// and of masks it is all there is: they are checked when they come down to where the processor
    /// shows them.
    carried: Option<Registers>,
    /// What the memory operand of the instruction under way held before: how many bytes could be
    /// read, and these.
    pub(crate) operand: Option<(usize, [u8; 64])>,
    /// Steps from one window as a sample starts it to the next.
    stride: u64,
}

/// Watches a program.
pub(crate) fn run(command: &[String], start: &Start, extent: Extent) -> Result<Report> {
    let mut tracee = Tracee::start(command).with_context(|| format!("running {command:?}"))?;
    tracee.run_to(start)?;
    let volatile = tracee.volatile_ranges()?;
    let clock = tracee.clock_ranges()?;
    let mut watch = Watch {
        tracee,
        volatile,
        clock,
        decoded: HashMap::new(),
        random: Random(0x1234_5678_9abc_def1),
        report: Report::default(),
        ahead: Vec::new(),
        pending: Vec::new(),
        carried: None,
        operand: None,
        stride: extent.stride,
    };
    let mut before = watch.tracee.state()?;
    while watch.report.steps < extent.steps && watch.report.differences.len() < MAX_DIFFERENCES {
        match watch.one_step(&before)? {
            Some(after) => before = after,
            None => break,
        }
    }
    Ok(watch.report)
}

impl Watch {
    fn scene(&mut self) -> Scene<'_> {
        Scene {
            tracee: &self.tracee,
            volatile: &self.volatile,
            decoded: &mut self.decoded,
        }
    }

    /// Interprets, steps, compares. Returns the registers after the step, or nothing at the end.
    fn one_step(&mut self, before: &TraceeState) -> Result<Option<TraceeState>> {
        let singles: Vec<_> = [Hide::Nothing, Hide::Some, Hide::Bytes]
            .into_iter()
            .map(|hide| self.interpret(before, 1, hide))
            .collect();
        self.begin_windows(before);
        self.read_operand(before);
        let Some(after) = self.step(before)? else {
            return Ok(None);
        };
        let Some(after) = after else {
            // A handler runs next, or another program: nothing to compare with.
            self.ahead.clear();
            self.pending.clear();
            self.carried = None;
            return self.tracee.state().map(Some);
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

    /// Executes one instruction, all repetitions of it. Nothing at the program's end, no state if
    /// it was not an instruction of the program's own.
    fn step(&mut self, before: &TraceeState) -> Result<Option<Option<TraceeState>>> {
        let decoded = self.decoded.get(&before.general.rip);
        let repeated = decoded.is_some_and(|(_, decoded)| {
            let instruction = decoded.instruction();
            instruction.is_string_instruction()
                && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
        });
        loop {
            match self.tracee.step()? {
                Step::Stopped => {}
                Step::Signal => return Ok(Some(None)),
                Step::Gone => return Ok(None),
            }
            let after = self.tracee.state()?;
            // A repeated instruction stops after each iteration.
            if !repeated || after.general.rip != before.general.rip {
                return Ok(Some(Some(after)));
            }
        }
    }

    /// Starts the windows that are due here.
    fn begin_windows(&mut self, before: &TraceeState) {
        if self.report.steps.is_multiple_of(self.stride) {
            let (seen, outcome) = self.scene().bare(&before.general);
            let end = self.end_of(before, &seen, &outcome);
            self.report.bare.add(&seen, outcome.instructions, end);
            for claims in &seen.instructions {
                if let Some((_, decoded)) = self.decoded.get(&claims.pc)
                    && decoded.support() == Support::Skipped
                {
                    let name = format!("{:?}", decoded.instruction().mnemonic());
                    self.report.bare.add_skipped(name.to_lowercase());
                }
            }
            self.ahead.push(Ahead {
                instructions: seen.instructions,
                outcome,
                hide: Hide::Nothing,
            });
        }
        for hide in [Hide::Some, Hide::Bytes] {
            if self.ahead.iter().all(|ahead| ahead.hide != hide) {
                let ahead = self.interpret(before, WINDOW, hide);
                self.ahead.push(ahead);
            }
        }
    }

    /// Why a window from the registers of a sample ended, if it did not reach its full length.
    fn end_of(&mut self, state: &TraceeState, seen: &Recorder, outcome: &Outcome) -> Option<End> {
        if outcome.stop == StopReason::Complete {
            return None;
        }
        let place = self.scene().place(seen, outcome);
        let cause = Cause::of(outcome.stop, || {
            let mut registers = self.scene().registers(&state.general);
            let carried = self.carried.as_ref();
            let hide = Hide::Nothing;
            tell_vectors(&mut registers, state, carried, hide, &mut self.random);
            let (_, with_vectors) = self.scene().run(&registers, WINDOW, None);
            if with_vectors.instructions > outcome.instructions {
                return Cause::Vectors;
            }
            let pc = outcome.registers.rip;
            if self
                .clock
                .iter()
                .any(|&(first, past)| (first..past).contains(&pc))
            {
                Cause::Clock
            } else {
                Cause::Unknown
            }
        });
        Some(End {
            cause,
            reason: outcome.stop.key(),
            place,
        })
    }

    /// Runs ahead with what the processor holds, or part of it.
    fn interpret(&mut self, state: &TraceeState, instructions: u32, hide: Hide) -> Ahead {
        let mut registers = told(state, hide, &mut self.random);
        let carried = self.carried.as_ref();
        tell_vectors(&mut registers, state, carried, hide, &mut self.random);
        let seed = self.random.next();
        let hidden = (hide != Hide::Nothing).then_some(seed);
        let (seen, outcome) = self.scene().run(&registers, instructions, hidden);
        Ahead {
            instructions: seen.instructions,
            outcome,
            hide,
        }
    }

    /// Compares the next instruction of a window; says whether there is more to follow.
    fn follow(&mut self, window: &mut Ahead, before: &TraceeState, after: &TraceeState) -> bool {
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
}
