//! A window: instructions from the sample's PC on, along the path that the thread takes.

use iced_x86::{Mnemonic, OpKind, Register};

use crate::decode::{Decoded, MAX_BYTES};
use crate::event::Events;
use crate::handlers::Handlers;
use crate::machine::{Flow, Machine, RCX, RDI, RDX, RSI, check_canonical};
use crate::overlay::Overlay;
use crate::parameter::{Capture, Parameter};
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::vector::Vector;
use crate::word::Word;

/// Stubs that a call's target is followed through (`jmp` in a procedure linkage table and the
/// like).
const MAX_STUBS: u32 = 4;

/// The registers that no argument of the platform's calling convention is passed in, but arguments
/// of some language's own: Go's, OCaml's, Haskell's, Swift's.
pub const OTHER_ARGUMENTS: [Register; 8] = [
    Register::RAX,
    Register::RBX,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The registers that a window starts from, and ends with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    /// rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
    pub gpr: [Word; 16],
    /// Process address of the instruction to be executed next.
    pub rip: u64,
    /// The arithmetic flags and the direction flag.
    pub rflags: Flags,
    /// Base of the FS segment, if known.
    pub fs_base: Option<u64>,
    /// Base of the GS segment, if known.
    pub gs_base: Option<u64>,
    /// `zmm0` to `zmm31`.
    pub vectors: [Vector; 32],
    /// The mask registers `k0` to `k7`.
    pub masks: [Word; 8],
    /// MXCSR, if known: of it only the modes (rounding, subnormal numbers) are used and kept, not
    /// the exception flags. Where it is not known, exceptions may be unmasked.
    pub mxcsr: Option<u32>,
    /// The trap flag: an exception follows each instruction.
    pub single_step: bool,
    /// The alignment check flag, in a program: an access that is not aligned raises an exception.
    pub alignment_checked: bool,
    /// The exceptions that the program may have handlers for.
    pub handlers: Handlers,
}

/// The trap flag of RFLAGS.
const TRAP: u64 = 1 << 8;
/// The alignment check flag of RFLAGS. In the kernel it means another thing.
const ALIGNMENT_CHECK: u64 = 1 << 18;

fn is_alignment_checked(rip: u64, rflags: u64) -> bool {
    rflags & ALIGNMENT_CHECK != 0 && rip >> 63 == 0
}

impl Registers {
    /// Registers as an interrupt shows them: the general ones and the flags are known, the segment
    /// bases and what vector instructions work with are not. The program has no handlers. `gpr` in
    /// the processor's order: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
    pub fn from_sample(gpr: [u64; 16], rip: u64, rflags: u64) -> Self {
        Self {
            gpr: gpr.map(Word::known),
            rip,
            rflags: Flags::from_rflags(rflags),
            fs_base: None,
            gs_base: None,
            vectors: [Vector::UNKNOWN; 32],
            masks: [Word::UNKNOWN; 8],
            mxcsr: None,
            single_step: rflags & TRAP != 0,
            alignment_checked: is_alignment_checked(rip, rflags),
            handlers: Handlers::NONE,
        }
    }

    /// Makes them [those of a sample](Self::from_sample), in less time than it takes to make new
    /// ones.
    pub fn set_sample(&mut self, gpr: [u64; 16], rip: u64, rflags: u64) {
        self.gpr = gpr.map(Word::known);
        self.rip = rip;
        self.rflags = Flags::from_rflags(rflags);
        (self.fs_base, self.gs_base, self.mxcsr) = (None, None, None);
        self.masks = [Word::UNKNOWN; 8];
        self.single_step = rflags & TRAP != 0;
        self.alignment_checked = is_alignment_checked(rip, rflags);
        self.handlers = Handlers::NONE;
        for vector in self.vectors.iter_mut().filter(|v| v.known_bytes() != 0) {
            *vector = Vector::UNKNOWN;
        }
    }
}

/// What a window works on. To be kept from one window to the next: to make it costs as much as
/// half a window.
#[derive(Clone)]
pub struct State {
    /// The registers: before a window those that it starts from, after it what is known of those at
    /// its end. `rip` is then the next instruction, or the one that ended the window. If that one
    /// was begun (it faults, or its direction or target is unknown) registers and flags may be
    /// those in the midst of it.
    pub registers: Registers,
    pub(crate) overlay: Overlay,
    pub(crate) events: Events,
}

impl State {
    /// The state that a window from these registers starts in.
    pub fn new(registers: Registers) -> Self {
        Self {
            registers,
            overlay: Overlay::new(),
            events: Events::new(),
        }
    }
}

/// Memory as of the interrupt.
///
/// The methods with a body describe memory in which each byte has one address, every access goes
/// through, and code changes only where it is seen to be written.
pub trait Memory {
    /// Fills `bytes` (1 to 8 of them) with the memory from a process address on. Returns true only
    /// if every byte is known and was filled.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool;

    /// Whether one of the bytes from `first` to `last`, to which the thread stores, may be the byte
    /// at `other`, which is none of these addresses: memory that is mapped twice. Only bytes at the
    /// same offset in their pages can be.
    fn may_alias(&mut self, _first: u64, _last: u64, _other: u64) -> bool {
        false
    }

    /// Whether an access to so many bytes (at least one) goes through. It is asked for every store
    /// at a known address, unless the last answer covers it, and for loads of what is not known.
    fn check(&mut self, _address: u64, _bytes: u64, _access: Access) -> Verdict {
        Verdict::Allowed {
            first: 0,
            last: u64::MAX,
        }
    }

    /// Which stores of the thread can change the code at an address.
    fn code_memory(&mut self, _address: u64) -> CodeMemory {
        CodeMemory::Fixed
    }

    /// An instruction is about to be interpreted that lets others see all that the window stored
    /// before it and in it: what they write from then on may be another thing than they did write.
    /// A locked one loads and stores at one moment, so that holds of its own load, too.
    fn fence(&mut self) {}
}

/// What an instruction does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The access loads.
    Load,
    /// The access stores.
    Store,
}

/// What becomes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The access goes through, and so does every access of its kind from the first of these
    /// addresses to the last.
    Allowed {
        /// The lowest address.
        first: u64,
        /// The highest address.
        last: u64,
    },
    /// The access goes through as far as is known. What is stored is unknown from then on. Where
    /// the program has a [handler](Handlers) for what does not go through, the window ends.
    Unverified,
    /// The access raises an exception.
    Faults,
    /// The access may raise an exception: the window ends, because the thread may go on elsewhere.
    MayFault,
}

/// Which stores of the thread can change code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeMemory {
    /// None.
    Fixed,
    /// Stores to the code's own address.
    Writable,
    /// Stores to the code's own address, and to another one where the same memory is mapped.
    Shared,
}

/// Code by process address.
pub trait Code {
    /// The instruction at a process address.
    ///
    /// # Errors
    /// Why there is none; the window ends with that reason.
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason>;

    /// Whether what was fetched last stays what is fetched at its address, with its bias and mark,
    /// in every window until the [epoch](Self::epoch) is another: then it is kept in
    /// [`Traces`](crate::Traces) and run again without being fetched.
    fn keeps(&self) -> bool {
        false
    }

    /// Whether what is fetched from now on is worth being kept: other windows go the same way.
    fn repeats(&self) -> bool {
        true
    }

    /// What is kept in an epoch is what is fetched in that one alone: another begins when something
    /// that was kept may no longer be. An earlier epoch may come back where all is as it was in it.
    fn epoch(&self) -> u64 {
        0
    }

    /// The bytes of what was fetched last, zeros behind them, for [`holds`](Self::holds).
    fn code(&self) -> [u8; CODE_BYTES] {
        [0; CODE_BYTES]
    }

    /// Whether the first `len` of these bytes are what would be fetched at a process address. It is
    /// asked of what was kept, once in a window, before that runs; where they are not, the
    /// instruction is fetched.
    fn holds(&mut self, _pc: u64, _code: &[u8; CODE_BYTES], _len: usize) -> bool {
        true
    }
}

/// Bytes that the code of an instruction is kept in: it has 1 to 15.
pub const CODE_BYTES: usize = 16;

/// An instruction and where its image lies.
pub struct Fetched<'a> {
    /// Decoded at an image address.
    pub instruction: &'a Decoded,
    /// Process address = image address + bias (modulo 2^64).
    pub bias: u64,
    /// A number of the host's own, by which its [`Sink`] may know the instruction again.
    pub mark: u32,
}

/// A call that a window ran into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Process address of the call instruction.
    pub site: u64,
    /// Where the call leads in the end, procedure-linkage stubs followed. A stub whose own target
    /// is unknown is itself the target. `None`: an indirect call to an unknown address.
    pub target: Option<u64>,
    /// The call instruction names a register or memory, not an address.
    pub indirect: bool,
    /// rdi rsi rdx rcx r8 r9 at the call, if [`Capture::ARGS`] is captured.
    pub arguments: [Option<u64>; 6],
    /// The other general registers that some language passes arguments in, likewise: those of
    /// [`OTHER_ARGUMENTS`].
    pub others: [Option<u64>; 8],
    /// The lowest 64 bits of xmm0 to xmm7 at the call, if [`Capture::VECTOR`] is captured as well.
    /// A `double` needs all of them, a `float` the lower half.
    pub vector_arguments: [Word; 8],
}

/// Receives what a window finds. `pc` is the process address of the instruction.
pub trait Sink {
    /// An instruction was fetched, with this [mark](Fetched::mark), and is about to be interpreted.
    fn reached(&mut self, _pc: u64, _mark: u32) {}

    /// A value event, zero-extended; `None`: reached, but the value is unknown. An instruction
    /// that faults has none.
    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>);

    /// All value events of one instruction, in their order.
    fn values(&mut self, pc: u64, events: &[(Parameter, Option<u64>)]) {
        for &(parameter, value) in events {
            self.value(pc, parameter, value);
        }
    }

    /// A conditional branch (jcc, jrcxz, loop); `None`: its direction is unknown and the window
    /// ends there.
    fn branch(&mut self, _pc: u64, _taken: Option<bool>) {}

    /// A call.
    fn call(&mut self, _call: &Call) {}

    /// An unconditional jump to a known target, which is a tail call if that is a function's
    /// entry: `site` is the jump, `arguments` are as at a call.
    fn jump(&mut self, _jump: &Call) {}

    /// A return was interpreted: the caller's frame is current again.
    fn returned(&mut self, _pc: u64) {}

    /// An indirect jump, an indirect call or a return was interpreted, and leads there.
    fn went(&mut self, _pc: u64, _destination: u64) {}

    /// A load of at most 8 bytes by an interpreted instruction; `known` if all of them were.
    fn load(&mut self, _pc: u64, _address: Option<u64>, _bytes: u32, _known: bool) {}

    /// A store of at most 8 bytes by an interpreted instruction, with its value if all of it is
    /// known.
    fn store(&mut self, _pc: u64, _address: Option<u64>, _bytes: u32, _value: Option<u64>) {}
}

/// How far a window goes and what it captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Instructions after which the window is complete.
    pub max_instructions: u32,
    /// The kinds of value events.
    pub capture: Capture,
}

impl Default for Window {
    /// 16 instructions.
    fn default() -> Self {
        Self {
            max_instructions: 16,
            capture: Capture::default(),
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
    /// What is known of the registers at the end, as [`State::registers`] says.
    pub registers: Registers,
}

/// How a window on a [`State`] ended.
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
        let mut state = State::new(registers.clone());
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
        state: &mut State,
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
    if instruction.fences {
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
    capture: Capture,
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
    if capture.meets(Capture::ARGS) {
        call.arguments = [RDI, RSI, RDX, RCX, 8, 9].map(|i| registers.gpr[i].get(8));
        call.others = OTHER_ARGUMENTS.map(|register| registers.gpr[register.number()].get(8));
        if capture.meets(Capture::VECTOR) {
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
    if fetched.instruction.instruction().mnemonic() == Mnemonic::Endbr64 {
        at = at.wrapping_add(fetched.instruction.len() as u64);
        fetched = code.fetch(at).ok()?;
    }
    let decoded = fetched.instruction;
    if decoded.instruction().mnemonic() != Mnemonic::Jmp {
        return None;
    }
    let target = machine.peek_jump(decoded, fetched.bias)?;
    check_canonical(target).ok()?;
    // A lazily bound entry jumps to code that pushes its index and calls the binder: the stub is
    // the best name of what is called.
    if decoded.instruction().op0_kind() == OpKind::Memory {
        let mut at = target;
        let mut fetched = code.fetch(at).ok()?;
        if fetched.instruction.instruction().mnemonic() == Mnemonic::Endbr64 {
            at = at.wrapping_add(fetched.instruction.len() as u64);
            fetched = code.fetch(at).ok()?;
        }
        let binds = fetched.instruction.instruction();
        if binds.mnemonic() == Mnemonic::Push && binds.try_immediate(0).is_ok() {
            return None;
        }
    }
    Some(target)
}
