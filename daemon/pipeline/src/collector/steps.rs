//! Stepping: which threads are visited, and what is made of what was seen of them.

use counters::{Counter, CounterKey, Group};
use interpreter::{
    Access, Code, CodeMemory, Memory, Pieces, Registers, ValueKinds, Verdict, Window, X87,
};
use sampler::{RawSample, ThreadState, Visit};

use super::pairs::Silent;
use super::{Collector, start};
use crate::bounce::truth::{self, Difference};
use crate::results::results;
use crate::steps::{Request, Steps, StepsResult};
use consumers::events::{At, Consumer, Context, Owner};
use machine::access::MappedBy;
use machine::address_space::AddressSpace;
use machine::code::ProcessCode;
use machine::loadmap::ProcessId;
use machine::place::Pc;
use machine::window::SampleMemory;

/// A stop that took a thread longer than this was a long one, in nanoseconds.
const LONG: u64 = 2_000_000;

/// Memory as steps found it.
struct Stepped<'m, 'a, 'v> {
    memory: &'m mut SampleMemory<'a, 'v>,
    /// What the instructions loaded, in their order.
    loaded: &'m [(u64, &'m [u8])],
    /// Something was loaded.
    loads: bool,
}

impl Memory for Stepped<'_, '_, '_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.loads = true;
        let found = self.loaded.iter().find_map(|(start, held)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            held.get(from..from.checked_add(bytes.len())?)
        });
        match found {
            Some(held) => {
                bytes.copy_from_slice(held);
                true
            }
            None => self.memory.read(address, bytes),
        }
    }

    fn fence(&mut self) {
        self.memory.fence();
    }

    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        self.memory.may_alias(first, last, other)
    }

    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        let meets = |page: u64| {
            let mut all = self.loaded.iter();
            all.any(|(start, held)| {
                let end = start.saturating_add(held.len() as u64);
                *start <= page | 0xfff && end > page
            })
        };
        let evidence = |page| match meets(page) {
            true => Some(MappedBy::Read),
            false => self.memory.evidence(page),
        };
        self.memory.space.check(address, bytes, access, evidence)
    }

    fn code_memory(&mut self, address: u64) -> CodeMemory {
        self.memory.code_memory(address)
    }
}

/// An instruction that was stepped.
struct SteppedInstruction {
    pc: Pc,
    instruction: iced_x86::Instruction,
}

/// What came of comparing.
#[derive(Default)]
struct Compared {
    agreed: u64,
    raced: u64,
    not_worked_out: u64,
    known: u64,
    unknown: u64,
    differences: Vec<(usize, Difference)>,
}

/// Draws a sample's thread, if it is to be drawn.
pub(super) fn draw(steps: &mut Steps, sample: &RawSample, process: ProcessId) {
    if let Some(place) = steps.place() {
        let request = Request {
            pid: sample.pid,
            tid: sample.tid,
            process,
        };
        steps.choose(place, request);
    }
}

impl Collector {
    /// Has threads of some samples stepped from now on.
    pub fn step(&mut self, steps: Steps) {
        self.steps = Some(steps);
    }

    /// Asks for visits of what was drawn of this round of samples, and looks at those that have
    /// come; at the end no thread stands any more.
    pub fn take_steps(&mut self, is_last: bool) {
        let Some(steps) = &mut self.steps else {
            return;
        };
        let mut last = Vec::new();
        if is_last {
            last = steps.end();
        } else {
            let (asked, busy) = steps.ask();
            self.tables.count(Counter::StepsAsked, asked);
            self.tables.count(Counter::StepsBusy, busy);
        }
        while let Some(answer) = self.steps.as_mut().and_then(Steps::next) {
            self.visited(answer);
        }
        for answer in last {
            self.visited(answer);
        }
    }

    fn visited(&mut self, answer: StepsResult) {
        let StepsResult {
            request,
            is_put_off,
            visit,
        } = answer;
        self.tables.count(Counter::StepsPutOff, is_put_off.into());
        let mut hitch = |of: sampler::Hitch| {
            let counter = CounterKey::of(Group::Steps, of.name());
            self.tables.count(counter, 1);
        };
        let visit = match visit {
            Err(of) => {
                hitch(of);
                return self.tables.count(Counter::StepsNotSeen, 1);
            }
            Ok(visit) => visit,
        };
        if let Some(of) = visit.end {
            hitch(of);
        }
        self.tables.count(Counter::StepsSeen, 1);
        self.tables.count(Counter::StepsStoodNs, visit.stood);
        let is_long = visit.stood > LONG;
        self.tables.count(Counter::StepsStoodLong, is_long.into());
        let instructions = visit.steps.len() as u64;
        self.totals.pairs += instructions;
        self.tables.count(Counter::StepsInstructions, instructions);
        if visit.steps.is_empty() {
            return;
        }
        let Some(owner) = self.owner(request.pid, visit.time, None, false, 0) else {
            return;
        };
        let Some((steps, compared)) = self.check_steps(&request, &visit) else {
            return;
        };
        self.count_compared(&steps, &compared);
        self.tell_steps(owner, &steps, &visit);
    }

    /// Finds out what was stepped, as far as values of it are kept, and compares what is worked out
    /// with what the processor made.
    fn check_steps(
        &mut self,
        request: &Request,
        visit: &Visit,
    ) -> Option<(Vec<SteppedInstruction>, Compared)> {
        self.loadmap.look_for_sharers(request.pid);
        let found = self.loadmap.get_and_host(request.pid);
        let Some((process, host)) = found.filter(|(process, _)| process.id == request.process)
        else {
            self.tables.count(Counter::StepsOfGoneProcesses, 1);
            return None;
        };
        if process.keeps_memory_to_itself() && !self.settings.allow_secrets {
            self.tables.count(Counter::StepsKeptBack, 1);
            return None;
        }
        let is_alone = process.is_alone(visit.time);
        let registers = &visit.first.registers;
        let mut space = AddressSpace::of(process, host, &mut self.images, visit.time);
        space.allow_secrets = self.settings.allow_secrets;
        space.allow_memory = true;
        space.pc = registers.pc();
        space.stack = (!visit.stack.is_empty()).then_some(registers.sp());
        space.stack_pointer = registers.sp();
        let mut pieces = Pieces::default();
        for (before, step) in befores(visit).zip(&visit.steps) {
            pieces.push(before.registers.ip, &step.code);
        }
        let (cache, epochs) = (&mut self.cache, &mut self.epochs);
        let mut code = ProcessCode::new(&space, cache, epochs, Some(&pieces));
        let mut steps = Vec::new();
        for (before, step) in befores(visit).zip(&visit.steps) {
            match known(&space, &mut code, &before.registers, &step.code) {
                Ok(known) => steps.push(known),
                Err(counter) => {
                    self.tables.count(counter, 1);
                    break;
                }
            }
        }
        if steps.is_empty() {
            return None;
        }
        let mut memory = SampleMemory {
            space: &space,
            stack_start: registers.sp(),
            stack: &visit.stack,
            stack_is_for_callers: false,
            captured: None,
            seen_once: false,
        };
        let mut compared = Compared::default();
        let states: Vec<&ThreadState> = befores(visit).collect();
        // From a state on, as many instructions as can be worked out: the first one by itself, then
        // two, and so on, so that what differs is of the last.
        let mut begin = 0;
        for end in 1..=steps.len() {
            let (first, after) = (states[begin], &visit.steps[end - 1].after);
            set(&mut self.state.registers, first, &space);
            let loaded = visit.steps[begin..end].iter().flat_map(|of| &of.loaded);
            let loaded: Vec<(u64, &[u8])> = loaded
                .map(|(address, bytes)| (*address, bytes.as_slice()))
                .collect();
            let mut memory = Stepped {
                memory: &mut memory,
                loaded: &loaded,
                loads: false,
            };
            pieces.open();
            let window = Window {
                max_instructions: (end - begin) as u32,
                capture: ValueKinds::NONE,
            };
            let outcome = window.run_on(&mut self.state, &mut code, &mut memory, &mut Silent);
            let may_be_raced = memory.loads && !is_alone;
            let worked_out = outcome.instructions as usize == end - begin;
            let registers = &self.state.registers;
            if !worked_out {
                compared.not_worked_out += 1;
                begin = end;
                continue;
            }
            let others = after.vectors();
            let written = results(
                &steps[end - 1].instruction,
                &after.registers,
                others.as_deref(),
            );
            let count = written.len() as u64;
            let is_known = |of: &&(interpreter::Parameter, u64)| truth::knows(registers, of.0);
            let known_results = written.iter().filter(is_known).count() as u64;
            compared.known += known_results;
            compared.unknown += count - known_results;
            let difference = truth::difference(registers, &after.registers).or_else(|| {
                let others = others.as_deref()?;
                truth::difference_of_vectors(registers, others)
            });
            match difference {
                None => compared.agreed += 1,
                Some(_) if may_be_raced => {
                    compared.raced += 1;
                    begin = end;
                }
                Some(difference) => {
                    compared.differences.push((end - 1, difference));
                    begin = end;
                }
            }
        }
        Some((steps, compared))
    }

    fn count_compared(&mut self, steps: &[SteppedInstruction], compared: &Compared) {
        let disagreed = compared.differences.len() as u64;
        // Each disagreement is counted where it is noted.
        self.totals.compared += compared.agreed + compared.raced + disagreed;
        self.totals.compared_results += compared.known;
        self.totals.raced += compared.raced;
        for (counter, n) in [
            (Counter::StepsNotWorkedOut, compared.not_worked_out),
            (
                Counter::StepsCompared,
                compared.agreed + compared.raced + disagreed,
            ),
            (Counter::StepsAgreed, compared.agreed),
            (Counter::StepsRaced, compared.raced),
            (Counter::StepsDisagreed, disagreed),
            (Counter::StepResultsCompared, compared.known),
            (Counter::StepResultsUnknown, compared.unknown),
        ] {
            self.tables.count(counter, n);
        }
        for (number, difference) in &compared.differences {
            let SteppedInstruction { pc, instruction } = &steps[*number];
            let image = self.images.path(pc.image);
            let mnemonic = format!("{:?}", instruction.mnemonic()).to_lowercase();
            let text = format!(
                "{image}+{:#x} {mnemonic} {difference} (step {} from {:#x} on)",
                pc.address,
                number + 1,
                steps[0].pc.address
            );
            self.note_disagreement(&text);
        }
    }

    /// Tells what the processor left in registers, as values of the instructions.
    fn tell_steps(&mut self, owner: Owner, steps: &[SteppedInstruction], visit: &Visit) {
        self.windows += 1;
        let context = Context {
            owner,
            is_kernel: false,
            number: self.windows,
            time: visit.time.saturating_add_signed(self.settings.clock_offset),
            times: 1,
            part: 1.0,
        };
        let tables = &mut self.tables;
        let (shared, values) = (&mut tables.shared, &mut tables.consumers.values);
        values.begins(shared, &context);
        let mut told = 0;
        for ((depth, known), step) in (1..).zip(steps).zip(&visit.steps) {
            let others = step.after.vectors();
            let results = results(&known.instruction, &step.after.registers, others.as_deref());
            let at = At {
                window: &context,
                site: shared.site(owner, known.pc),
                depth,
                caller: None,
            };
            let events: Vec<_> = results
                .iter()
                .map(|(parameter, value)| (*parameter, Some(*value)))
                .collect();
            told += events.len() as u64;
            values.values(shared, &at, &events);
        }
        tables.count(Counter::StepValues, told);
    }
}

/// Has a window start from a state, of which everything is known.
fn set(known: &mut Registers, state: &ThreadState, space: &AddressSpace<'_>) {
    start::set(known, &state.registers, space, None);
    if let Some(others) = state.vectors() {
        known.set_vectors(&others.vectors, others.masks, others.mxcsr);
        let x87 = &others.x87;
        known.x87 = X87::saved(x87.control, x87.status, x87.used, &x87.stack);
    }
    (known.fs_base, known.gs_base) = (Some(state.fs_base), Some(state.gs_base));
    space.handles_faults.set(known.handlers.access);
}

/// What the thread has before each step.
fn befores(visit: &Visit) -> impl Iterator<Item = &ThreadState> {
    let afters = visit.steps.iter().map(|step| &step.after);
    std::iter::once(&visit.first).chain(afters)
}

/// The instruction that was stepped there; what is counted if its values are not kept.
fn known(
    space: &AddressSpace<'_>,
    code: &mut ProcessCode<'_, '_, '_>,
    registers: &sampler::Registers,
    bytes: &[u8],
) -> Result<SteppedInstruction, Counter> {
    let pc = space.place(registers.pc());
    let pc = pc.ok_or(Counter::StepsMappedAnew)?;
    if space.is_denied(pc) {
        return Err(Counter::StepsKeptBack);
    }
    // Code that is made may be made anew.
    if space.is_generated_code(pc.image) {
        return Err(Counter::StepsOfMadeCode);
    }
    let fetched = code.fetch(registers.ip);
    let fetched = fetched.map_err(|_| Counter::StepsMappedAnew)?;
    let instruction = *fetched.instruction.instruction();
    match instruction.len() == bytes.len() {
        true => Ok(SteppedInstruction { pc, instruction }),
        false => Err(Counter::StepsMappedAnew),
    }
}
