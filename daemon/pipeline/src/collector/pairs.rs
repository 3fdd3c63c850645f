//! Pairs of breakpoints: which blocks are chosen, and what is made of their pairs.

mod behind;

use addresses::ProcessAddress;
use counters::{Counter, CounterKey, Group};
use iced_x86::Register;
use interpreter::{
    Access, Code, CodeMemory, Memory, Parameter, Sink, StopReason, ValueKinds, Verdict, Window,
};
use sampler::{Miss, Outcome, RawSample, Record, UserRegisters};

use self::behind::{Behind, Stores, stored_of, vectors_of};
use super::samples::subject_of;
use super::{Collector, start};
use crate::bounce::block::{self, BlockInstruction, LONGEST};
use crate::bounce::truth::{self, Difference};
use crate::bounce::{Bounce, BounceResult, CapturedEnds, Request};
use crate::results::held;
use consumers::events::{At, Consumer, Context, Owner};
use machine::address_space::AddressSpace;
use machine::code::ProcessCode;
use machine::loadmap::ProcessId;
use machine::window::{Captured, SampleMemory};

/// A window of which nothing is told.
pub(super) struct Silent;

impl Sink for Silent {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}
}

/// Memory, and whether a block loads any of it.
struct Noting<'m> {
    memory: &'m mut dyn Memory,
    loads: bool,
}

impl Memory for Noting<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.loads = true;
        self.memory.read(address, bytes)
    }

    fn fence(&mut self) {
        self.memory.fence();
    }

    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        self.memory.may_alias(first, last, other)
    }

    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        self.memory.check(address, bytes, access)
    }

    fn code_memory(&mut self, address: u64) -> CodeMemory {
        self.memory.code_memory(address)
    }
}

/// Whether a window that ended so stands at an instruction that only the processor can do.
pub(super) fn needs_processor(stop: StopReason) -> bool {
    matches!(
        stop,
        StopReason::SystemCall
            | StopReason::MachineState
            | StopReason::StateSave
            | StopReason::Unsupported
            | StopReason::RepTooLong
            | StopReason::NoSuchInstruction
    )
}

/// The block that begins at a process address of the sample's program, of one instruction at first
/// if it is to be short; `None` where there is none that can be left.
pub(super) fn block_at(
    code: &mut ProcessCode<'_, '_, '_>,
    space: &AddressSpace<'_>,
    sample: &RawSample,
    process: ProcessId,
    (entry, is_short): (ProcessAddress, bool),
) -> Option<Request> {
    let (mut steps, mut bytes): (Vec<BlockInstruction>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut address = entry;
    while steps.len() < LONGEST {
        let Ok(fetched) = code.fetch(address.0) else {
            break;
        };
        let instruction = *fetched.instruction.instruction();
        let len = fetched.instruction.len();
        let pc = space.place(address)?;
        // Code that is made may be made anew.
        if space.is_generated_code(pc.image) {
            return None;
        }
        bytes.extend_from_slice(code.code().get(..len)?);
        steps.push(BlockInstruction {
            pc,
            address,
            // At most 15.
            len: len as u8,
            instruction,
        });
        address = address.wrapping_add(len as u64);
        if !block::goes_on(&instruction) {
            break;
        }
    }
    let exits = block::exits(&steps, is_short);
    if exits.is_empty() {
        return None;
    }
    let longest = exits.iter().map(|exit| exit.steps).max().unwrap_or(0);
    Some(Request {
        pid: sample.pid,
        tid: sample.tid,
        process,
        uses_vectors: block::uses_vectors(steps.get(..longest).unwrap_or(&steps)),
        steps,
        code: bytes,
        exits,
    })
}

impl Collector {
    /// Has blocks of some samples bounce from now on.
    pub fn bounce(&mut self, bounce: Bounce) {
        self.bounce = Some(bounce);
    }

    /// Keeps what the handler brought from an end of a block. Another record is given back.
    pub(super) fn without_entry(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Packed(packed) if packed.is_entry() || packed.stop().is_some() => {
                if let (Some(bounce), Some(found)) = (&mut self.bounce, packed.unpack()) {
                    match packed.stop() {
                        Some(stop) => bounce.captured_vectors(stop, found),
                        None => bounce.came_in(found),
                    }
                }
                None
            }
            other => Some(other),
        }
    }

    /// Asks for the pairs of what was chosen of this round of samples, and looks at those that
    /// have come; at the end nothing is waited for.
    pub fn bounce_back(&mut self, is_last: bool) {
        let Some(bounce) = &mut self.bounce else {
            return;
        };
        let (asked, busy) = if is_last { (0, 0) } else { bounce.ask() };
        self.tables.count(Counter::PairsAsked, asked);
        self.tables.count(Counter::PairsBusy, busy);
        while let Some((answer, captured)) = self.bounce.as_mut().and_then(|b| b.next(is_last)) {
            self.answered(answer, captured);
        }
    }

    fn answered(&mut self, answer: BounceResult, captured: CapturedEnds) {
        for miss in &answer.missed {
            self.tables
                .count(CounterKey::of(Group::Pairs, miss.name()), 1);
        }
        let BounceResult {
            request,
            missed,
            pair,
            ..
        } = answer;
        let Some((pair, steps)) = pair else {
            return self.tables.count(Counter::PairsGivenUp, 1);
        };
        let CapturedEnds {
            entry,
            with_vectors: [at_entry, at_exit],
        } = captured;
        // The one who brings vector registers takes the thread's place for it. Where none were
        // brought it was another.
        if pair.was_switched && at_entry.is_none() {
            let switched = CounterKey::of(Group::Pairs, Miss::Switched.name());
            self.tables.count(switched, 1);
            return self.tables.count(Counter::PairsGivenUp, 1);
        }
        self.totals.pairs += 1;
        self.tables.count(Counter::PairsSeen, 1);
        self.tables
            .count(Counter::PairsSeenLater, u64::from(!missed.is_empty()));
        let reads = self.bounce.as_ref().is_some_and(Bounce::reads_memory);
        self.tables.count(
            Counter::PairsWithoutMemory,
            u64::from(reads && entry.is_none() && at_entry.is_none()),
        );
        let steps = request.steps.get(..steps).unwrap_or_default();
        if block::uses_vectors(steps) {
            let counter = match (&at_entry, &at_exit) {
                (Some(_), Some(_)) => {
                    self.totals.with_vectors += 1;
                    Counter::PairsWithVectors
                }
                _ => Counter::PairsWithoutVectors,
            };
            self.tables.count(counter, 1);
        }
        let before = at_entry.or(entry).unwrap_or(pair.before);
        let stored = match &before.user {
            UserRegisters::Long(registers) => stored_of(steps, registers, &pair.held),
            _ => Vec::new(),
        };
        let mut after = Behind {
            registers: pair.after,
            others: at_exit.and_then(vectors_of),
            stored,
        };
        if let Some(owner) = self.check_pair(&request, steps, &before, &mut after) {
            self.tell_results(owner, steps, &before, &after);
        }
    }

    /// Compares what is worked out of a block with what the processor made of it. Whose it is, if
    /// it still can be told and may be kept. Of what it stored remains what may be told.
    fn check_pair(
        &mut self,
        request: &Request,
        steps: &[BlockInstruction],
        before: &RawSample,
        after: &mut Behind,
    ) -> Option<Owner> {
        let capture = before.capture.as_ref();
        let outcome = capture.map(|capture| capture.outcome);
        let first = *steps.first()?;
        let of_moment = capture.map(|capture| subject_of(&capture.task));
        let UserRegisters::Long(registers) = &before.user else {
            return None;
        };
        let kept_back = matches!(outcome, Some(Outcome::ValuesDenied | Outcome::NotDumpable));
        if kept_back && !self.settings.allow_secrets {
            self.tables.count(Counter::PairsKeptBack, 1);
            return None;
        }
        let owner = self.owner(before.pid, before.time, of_moment, false, 0)?;
        if capture.is_none() {
            self.loadmap.look_for_sharers(before.pid);
        }
        let found = self.loadmap.get_and_host(before.pid);
        let Some((process, host)) = found.filter(|(process, _)| process.id == request.process)
        else {
            self.tables.count(Counter::PairsOfGoneProcesses, 1);
            return None;
        };
        // What a block loads, others may have written just before it did.
        let is_alone = match capture {
            Some(capture) => !capture.second_look,
            None => process.is_alone(before.time),
        };
        let keeps_memory = capture.is_none() && process.keeps_memory_to_itself();
        let mut space = AddressSpace::of(process, host, &mut self.images, before.time);
        space.allow_secrets = self.settings.allow_secrets;
        space.allow_memory = (!keeps_memory || self.settings.allow_secrets)
            && outcome != Some(Outcome::MemoryDenied);
        if !space.allow_memory {
            after.stored.clear();
        }
        space.pc = before.ip;
        space.stack = (!before.stack.is_empty()).then_some(registers.sp());
        space.stack_pointer = registers.sp();
        if steps
            .iter()
            .any(|step| space.place(step.address) != Some(step.pc))
        {
            self.tables.count(Counter::PairsMappedAnew, 1);
            return None;
        }
        let captured = capture.map(|of| Captured::new(before.ip, of, self.copies_whole));
        let mut memory = SampleMemory {
            space: &space,
            stack_start: registers.sp(),
            stack: &before.stack,
            stack_is_for_callers: matches!(outcome, Some(Outcome::Followed { .. })),
            captured: captured.as_ref(),
            seen_once: false,
        };
        let (cache, epochs) = (&mut self.cache, &mut self.epochs);
        let pieces = captured.as_ref().map(Captured::pieces);
        let mut code = ProcessCode::new(&space, cache, epochs, pieces);
        let known = &mut self.state.registers;
        start::set(known, registers, &space, capture);
        space.handles_faults.set(known.handlers.access);
        if let Some(captured) = &captured {
            captured.pieces().open();
        }
        let window = Window {
            max_instructions: steps.len() as u32,
            capture: ValueKinds::NONE,
        };
        let mut memory = Noting {
            memory: &mut memory,
            loads: false,
        };
        let mut stores = Stores::default();
        let end = window.run_on(&mut self.state, &mut code, &mut memory, &mut stores);
        let uses_memory = memory.loads || !after.stored.is_empty();
        let may_be_raced = uses_memory && !is_alone;
        let in_memory = stores.difference(after);
        if !is_alone {
            // Others may have written there since.
            after.stored.clear();
        }
        if end.instructions < steps.len() as u32 {
            self.tables.count(Counter::PairsNotWorkedOut, 1);
            return Some(owner);
        }
        self.totals.compared += 1;
        self.tables.count(Counter::PairsCompared, 1);
        let known = &self.state.registers;
        let written = block::results(steps);
        let full = |register: Register| known.gpr[register.full_register().number() & 15];
        let results = written.iter().filter(|(_, of)| full(*of).get(8).is_some());
        let (mut known_results, mut all) = (results.count() as u64, written.len() as u64);
        if let Some(others) = after.others.as_deref() {
            let written = block::vector_results(steps, &after.registers, others);
            let results = written.iter().filter(|(_, of, _)| truth::knows(known, *of));
            known_results += results.count() as u64;
            all += written.len() as u64;
        }
        self.totals.compared_results += known_results;
        self.tables.count(Counter::ResultsCompared, known_results);
        self.tables
            .count(Counter::ResultsUnknown, all - known_results);
        let difference = truth::difference(known, &after.registers)
            .or_else(|| truth::difference_of_vectors(known, after.others.as_deref()?))
            .or(in_memory);
        match difference {
            None => self.tables.count(Counter::PairsAgreed, 1),
            Some(_) if may_be_raced => {
                self.totals.raced += 1;
                self.tables.count(Counter::PairsRaced, 1);
            }
            Some(difference) => self.disagrees(first, steps, difference),
        }
        Some(owner)
    }

    /// Counts a disagreement by the block's instructions: the first that may have made it stands
    /// for it.
    fn disagrees(
        &mut self,
        first: BlockInstruction,
        steps: &[BlockInstruction],
        difference: Difference,
    ) {
        let number = block::last_writer(steps, difference);
        let step = number
            .and_then(|number| steps.get(number))
            .unwrap_or(&first);
        let image = self.images.path(step.pc.image);
        let mnemonic = format!("{:?}", step.instruction.mnemonic()).to_lowercase();
        let text = format!(
            "{image}+{:#x} {mnemonic} {difference} (of {} from {:#x} on)",
            step.pc.address,
            steps.len(),
            first.pc.address
        );
        self.note_disagreement(&text);
        self.tables.count(Counter::PairsDisagreed, 1);
    }

    /// Counts a disagreement by its text.
    pub(super) fn note_disagreement(&mut self, text: &str) {
        tracing::warn!("the processor disagrees: {text}");
        self.totals.disagreed += 1;
        let what = CounterKey::of(Group::Disagreements, truth::lasting(text));
        self.tables.count(what, 1);
    }

    /// Tells what the processor left in registers behind a block, as values of its instructions.
    fn tell_results(
        &mut self,
        owner: Owner,
        steps: &[BlockInstruction],
        before: &RawSample,
        after: &Behind,
    ) {
        self.windows += 1;
        let context = Context {
            owner,
            is_kernel: false,
            number: self.windows,
            time: before
                .time
                .saturating_add_signed(self.settings.clock_offset),
            times: 1,
            part: 1.0,
        };
        let general = block::results(steps).into_iter().map(|(number, register)| {
            let value = held(register, &after.registers.gpr);
            (number, Parameter::Pair(register), value)
        });
        let mut results: Vec<_> = general.collect();
        if let Some(others) = after.others.as_deref() {
            results.extend(block::vector_results(steps, &after.registers, others));
        }
        let stored = after.stored.iter();
        results.extend(stored.map(|of| (of.step, Parameter::PairMem, of.held)));
        results.sort_by_key(|(number, ..)| *number);
        self.tables.count(Counter::PairValues, results.len() as u64);
        let tables = &mut self.tables;
        let (shared, values) = (&mut tables.shared, &mut tables.consumers.values);
        values.begins(shared, &context);
        for (number, parameter, value) in results {
            let pc = steps[number].pc;
            let at = At {
                window: &context,
                site: shared.site(owner, pc),
                depth: number as u32 + 1,
                caller: None,
            };
            values.values(shared, &at, &[(parameter, Some(value))]);
        }
    }
}
