//! A window: instructions from the sample's PC on, along the path that the thread takes.

use instructions::{Jump, MAX_BYTES, binds_lazily, is_landing_pad};

use crate::code::{Code, Fetched};
use crate::decode::Decoded;
use crate::host::{Call, Memory, OTHER_ARGUMENTS, Sink};
use crate::machine::{Flow, Machine, RCX, RDI, RDX, RSI, check_canonical};
use crate::registers::Registers;
use crate::state::WindowState;
use crate::stop::StopReason;
use crate::word::Word;
use parameters::ValueKinds;

/// Stubs that a call's target is followed through (`jmp` in a procedure linkage table and the
/// like).
const MAX_STUBS: u32 = 4;

/// How far a window goes and what it captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Instructions after which the window is complete.
    pub max_instructions: u32,
    /// The kinds of value events.
    pub capture: ValueKinds,
}

impl Default for Window {
    /// 16 instructions.
    fn default() -> Self {
        Self {
            max_instructions: 16,
            capture: ValueKinds::default(),
        }
    }
}

/// How a window ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Instructions interpreted to their end.
    pub instructions: u32,
    /// Why no more.
    pub stop: StopReason,
    /// What is known of the registers at the end, as [`WindowState::registers`] says.
    pub registers: Registers,
}

/// How a window on a [`WindowState`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Instructions interpreted to their end.
    pub instructions: u32,
    /// Why no more.
    pub stop: StopReason,
}

impl Window {
    /// Interprets from `registers` on and tells `sink` what happens. Allocates nothing.
    pub fn run(
        &self,
        registers: &Registers,
        code: &mut dyn Code,
        memory: &mut dyn Memory,
        sink: &mut dyn Sink,
    ) -> Outcome {
        let mut state = WindowState::new(registers.clone());
        let End { instructions, stop } = self.run_on(&mut state, code, memory, sink);
        Outcome {
            instructions,
            stop,
            registers: state.registers,
        }
    }

    /// Interprets from `state.registers` on and leaves there what is known of them at the end.
    /// Allocates nothing.
    #[inline(never)]
    pub fn run_on<C: Code + ?Sized>(
        &self,
        state: &mut WindowState,
        code: &mut C,
        memory: &mut dyn Memory,
        sink: &mut dyn Sink,
    ) -> End {
        let mut machine: Machine<'_> = Machine::new(state, memory, sink, self.capture);
        let mut instructions = 0;
        let registers = &machine.registers;
        let (mut max, mut end) = (self.max_instructions, StopReason::Complete);
        if registers.single_step || registers.alignment_checked {
            (max, end) = watched(&machine, code, max);
        }
        let stop = loop {
            if instructions >= max {
                break end;
            }
            match step(&mut machine, code) {
                Ok(()) => instructions += 1,
                Err(reason) => break reason,
            }
        };
        End { instructions, stop }
    }
}

/// How many instructions are followed of a thread that has an exception follow each, or each access
/// that is not aligned, and why no more.
#[cold]
fn watched<C: Code + ?Sized>(machine: &Machine<'_>, code: &mut C, max: u32) -> (u32, StopReason) {
    if machine.registers.alignment_checked {
        return (0, StopReason::AlignmentChecked);
    }
    // A repeated instruction is interrupted after each element.
    let repeated = code.fetch(machine.registers.rip).is_ok_and(|fetched| {
        let instruction = fetched.instruction.instruction();
        instruction.has_rep_prefix() || instruction.has_repne_prefix()
    });
    (max.min(u32::from(!repeated)), StopReason::SingleStep)
}

/// Runs one instruction.
#[inline]
fn step<C: Code + ?Sized>(machine: &mut Machine<'_>, code: &mut C) -> Result<(), StopReason> {
    let pc = machine.registers.rip;
    let Fetched {
        instruction,
        bias,
        mark,
    } = code.fetch(pc)?;
    let next = pc.wrapping_add(instruction.len() as u64);
    let done = execute(machine, instruction, (pc, bias, mark));
    go_on(machine, code, next, done)
}

/// Runs the handler of an instruction at a process address, with bias and mark, and tells its
/// values.
#[inline]
pub(crate) fn execute(
    machine: &mut Machine<'_>,
    instruction: &Decoded,
    (pc, bias, mark): (u64, u64, u32),
) -> Result<Flow, StopReason> {
    // What a locked instruction loads it stores to at once: had the word been another one's since,
    // that one would have met the store.
    if instruction.fences() {
        machine.memory.fence();
    }
    machine.begin(instruction, pc, bias, mark)?;
    let done = (instruction.handler)(machine, instruction);
    if done.is_ok() {
        machine.events.deliver(pc, machine.sink);
    }
    done
}

/// Goes where an instruction leads that was run.
#[inline]
pub(crate) fn go_on<C: Code + ?Sized>(
    machine: &mut Machine<'_>,
    code: &mut C,
    next: u64,
    done: Result<Flow, StopReason>,
) -> Result<(), StopReason> {
    let pc = machine.pc;
    machine.registers.rip = match &done {
        Ok(Flow::Next) => next,
        Ok(Flow::Branch { taken, target }) => {
            machine.sink.branch(pc, *taken);
            match taken {
                Some(true) => *target,
                Some(false) => next,
                None => return Err(StopReason::UnknownBranch),
            }
        }
        Ok(flow) => leave(machine, code, next, flow)?,
        Err(reason) => return Err(*reason),
    };
    Ok(())
}

/// Where the window goes on after a jump, a call or a return.
#[inline(never)]
fn leave<C: Code + ?Sized>(
    machine: &mut Machine<'_>,
    code: &mut C,
    next: u64,
    flow: &Flow,
) -> Result<u64, StopReason> {
    let pc = machine.pc;
    let next = match *flow {
        Flow::Next | Flow::Branch { .. } => next,
        Flow::Jump(target) => jump(machine, pc, target, false),
        Flow::JumpIndirect(target) => {
            let target = target.ok_or(StopReason::UnknownTarget)?;
            machine.sink().went(pc, target);
            jump(machine, pc, target, true)
        }
        Flow::Call { target, indirect } => {
            // The stub is looked at in the state after the call: its return address is stored.
            let end = target.map(|target| follow_stubs(machine, code, target));
            let call = call(machine.registers, machine.capture, pc, end, indirect);
            machine.sink().call(&call);
            let target = target.ok_or(StopReason::UnknownTarget)?;
            if indirect {
                machine.sink().went(pc, target);
            }
            target
        }
        Flow::Return(target) => {
            let target = target.ok_or(StopReason::UnknownTarget)?;
            machine.sink().returned(pc);
            machine.sink().went(pc, target);
            target
        }
    };
    Ok(next)
}

/// A call or jump, with the argument registers of the calling convention.
#[inline]
pub(crate) fn call(
    registers: &Registers,
    capture: ValueKinds,
    site: u64,
    target: Option<u64>,
    indirect: bool,
) -> Call {
    let mut call = Call {
        site,
        target,
        indirect,
        arguments: [None; 6],
        others: [None; 8],
        vector_arguments: [Word::UNKNOWN; 8],
    };
    if capture.meets(ValueKinds::ARGS) {
        call.arguments = [RDI, RSI, RDX, RCX, 8, 9].map(|i| registers.gpr[i].get(8));
        call.others = OTHER_ARGUMENTS.map(|register| registers.gpr[register.number()].get(8));
        if capture.meets(ValueKinds::VECTOR) {
            call.vector_arguments = std::array::from_fn(|i| registers.vectors[i].word(0));
        }
    }
    call
}

/// Reports a jump; returns its target.
fn jump(machine: &mut Machine<'_>, site: u64, target: u64, indirect: bool) -> u64 {
    let (registers, capture) = (&*machine.registers, machine.capture);
    let call = call(registers, capture, site, Some(target), indirect);
    machine.sink().jump(&call);
    target
}

/// Where a call to `target` ends up when it leads to stubs that only jump on.
pub(crate) fn follow_stubs<C: Code + ?Sized>(
    machine: &mut Machine<'_>,
    code: &mut C,
    target: u64,
) -> u64 {
    let mut end = target;
    for _ in 0..MAX_STUBS {
        match stub_target(machine, code, end) {
            Some(next) => end = next,
            None => break,
        }
    }
    end
}

/// The target of the stub at `pc`, if it is one and its target is known.
fn stub_target<C: Code + ?Sized>(machine: &mut Machine<'_>, code: &mut C, pc: u64) -> Option<u64> {
    let mut at = pc;
    // No stub is longer.
    if machine.has_written(at, 2 * MAX_BYTES) {
        return None;
    }
    let mut fetched = code.fetch(at).ok()?;
    if is_landing_pad(fetched.instruction.instruction()) {
        at = at.wrapping_add(fetched.instruction.len() as u64);
        fetched = code.fetch(at).ok()?;
    }
    let decoded = fetched.instruction;
    let jump = Jump::of(decoded.instruction())?;
    let target = machine.peek_jump(decoded, fetched.bias)?;
    check_canonical(target).ok()?;
    // A lazily bound entry jumps to code that pushes its index and calls the binder: the stub is
    // the best name of what is called.
    if jump == Jump::Memory {
        let mut at = target;
        let mut fetched = code.fetch(at).ok()?;
        if is_landing_pad(fetched.instruction.instruction()) {
            at = at.wrapping_add(fetched.instruction.len() as u64);
            fetched = code.fetch(at).ok()?;
        }
        if binds_lazily(fetched.instruction.instruction()) {
            return None;
        }
    }
    Some(target)
}
