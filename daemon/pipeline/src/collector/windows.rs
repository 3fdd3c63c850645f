//! The window of a sample: whether it counts, what it starts from, and who hears of it.

use addresses::ProcessAddress;
use counters::{Counter, CounterKey, Group};
use interpreter::{StopReason, ValueKinds, Window};
use profiledb::{Level, Moment, StackEnd};
use sampler::{Mode, Outcome, RawSample, TaskIdentity, UserRegisters};

use super::Collector;
use super::entered;
use super::vectors::tells_vectors;
use super::{pairs, steps};
use super::{stacks, start};
use crate::stage::Stage;
use consumers::acceptance::Thinned;
use consumers::events::{Context, Ending, Owner};
use machine::address_space::AddressSpace;
use machine::callsite::Interrupted;
use machine::code::ProcessCode;
use machine::devices::has_devices;
use machine::stack::Walked;
use machine::system::page_check::PageEvidence;
use machine::window::{Captured, SampleMemory};

/// RFLAGS: interrupts are on.
const INTERRUPTS_ON: u64 = 1 << 9;

/// What a sample says of how its thread was scheduled, if it was asked.
fn moment_of(task: &TaskIdentity, flags: u64) -> Option<Moment> {
    let placement = task.placement?;
    Some(Moment {
        level: match task.context {
            sampler::Context::User => Level::User,
            sampler::Context::Kernel => Level::Kernel,
            sampler::Context::Softirq => Level::Softirq,
            sampler::Context::Hardirq => Level::Hardirq,
        },
        interrupts_off: flags & INTERRUPTS_ON == 0,
        policy: placement.policy,
        priority: placement.priority,
    })
}

impl Collector {
    /// Attributes a sample, and runs the window that starts there.
    pub(super) fn interpret(
        &mut self,
        sample: &RawSample,
        owner: Owner,
        evidence: Option<PageEvidence>,
        probability: f64,
    ) {
        let kernel = sample.mode != Mode::User;
        let capture = sample.capture.as_ref();
        let (process, host) = if kernel {
            self.tables.tally.kernel_samples += 1;
            (&mut self.kernel_space, &mut self.loadmap.host)
        } else {
            self.tables.tally.user_samples += 1;
            if capture.is_none() {
                self.loadmap.look_for_sharers(sample.pid);
            }
            match self.loadmap.get_and_host(sample.pid) {
                Some(found) => found,
                None => return,
            }
        };
        let copies_whole = self.copies_whole;
        let process_id = process.id;
        let is_alone = process.is_alone(sample.time);
        let secret = !self.settings.allow_secrets
            && match capture {
                Some(capture) => matches!(
                    capture.outcome,
                    Outcome::ValuesDenied | Outcome::NotDumpable
                ),
                None => process.keeps_memory_to_itself(),
            };
        if let (UserRegisters::Long(registers), false) = (&sample.user, kernel) {
            let maps = &process.maps;
            let find = |pointer| maps.find(pointer).copied();
            process.stacks.note(ProcessAddress(registers.sp()), find);
        }
        let mut space = AddressSpace::of(process, host, &mut self.images, sample.time);
        space.allow_secrets = self.settings.allow_secrets;
        space.allow_memory = !secret
            && !kernel
            && capture.is_none_or(|capture| capture.outcome != Outcome::MemoryDenied);
        space.evidence = evidence;
        space.pc = sample.ip;
        let stack_read =
            !sample.stack.is_empty() || capture.is_some_and(|capture| capture.frames().len() > 0);
        space.stack = match &sample.user {
            UserRegisters::Long(registers) if stack_read && !kernel => Some(registers.sp()),
            _ => None,
        };
        let Some(located) = space.locate(sample.ip) else {
            let pc = self.pc_or_unknown(None, sample.ip);
            self.tables.add_cycles(owner, pc, None, 1, sample.period);
            self.leaf_alone(owner, pc, StackEnd::NoRules, sample.period);
            return self.stop(StopReason::NotMapped);
        };
        let registers = match &sample.user {
            _ if kernel => sample.interrupted.as_ref(),
            UserRegisters::Long(registers) => Some(registers),
            UserRegisters::None | UserRegisters::Compat => None,
        };
        // Without a capture, kernel code as it was at the interrupt is not to be had.
        let unread = kernel && capture.is_none();
        let Some(registers) = registers.filter(|_| !unread) else {
            let mut pc = located.pc;
            if sample.user == UserRegisters::Compat {
                pc.image = space.images.borrow_mut().in_32_bit_mode(pc.image);
            }
            self.tables.add_cycles(owner, pc, None, 1, sample.period);
            let end = if kernel {
                StackEnd::Kernel
            } else {
                StackEnd::Unreadable
            };
            self.leaf_alone(owner, pc, end, sample.period);
            return self.stop(match () {
                // Values were kept back by whoever sent the sample.
                () if secret || sample.user == UserRegisters::None => StopReason::NotDumpable,
                () if kernel => StopReason::KernelCode,
                () => StopReason::CompatMode,
            });
        };
        space.stack_pointer = registers.sp();
        let captured = capture.map(|capture| Captured::new(sample.ip, capture, copies_whole));
        let outcome = capture.map(|capture| capture.outcome);
        let followed = matches!(outcome, Some(Outcome::Followed { .. }));
        let mut memory = SampleMemory {
            space: &space,
            stack_start: registers.gpr[4],
            stack: &sample.stack,
            stack_is_for_callers: followed || capture.is_none() && !is_alone,
            captured: captured.as_ref(),
            seen_once: false,
        };
        let mut caller = None;
        if !kernel {
            let interrupted = Interrupted {
                space: &space,
                memory: &memory,
                registers,
                pc: located.pc,
                bias: located.bias,
                frame: capture.and_then(|capture| capture.frames().next()),
            };
            let (site, beyond) = interrupted.call_site();
            if let (Some(updates), Some(capture)) = (&mut self.updates, capture) {
                let process = capture.task.process();
                updates.meet(process, || has_devices(sample.pid, space.maps));
                for frame in capture.frames() {
                    updates.give_row(process, frame.return_address, &space);
                }
                if outcome != Some(Outcome::MemoryDenied) && !secret {
                    updates.give_row_of_start(process, sample.ip, &space, located.pc);
                }
            }
            let tally = &mut self.tables.tally;
            tally.callers += u64::from(site.is_some());
            tally.callers_beyond_stack_copy += u64::from(beyond);
            caller = site;
            if self.walker.is_on() {
                let sample_of = Walked {
                    space: &space,
                    memory: &memory,
                    registers,
                    capture,
                    pc: located.pc,
                    caller,
                };
                let end = stacks::walk(&mut self.walker, self.updates.as_mut(), &sample_of);
                let frames = self.walker.frames();
                self.tables.add_stack(owner, frames, end, sample.period);
            }
        } else if self.walker.is_on() {
            let (frames, end) = ([located.pc], StackEnd::Kernel);
            self.tables.add_stack(owner, &frames, end, sample.period);
        }
        let caller = self
            .tables
            .add_cycles(owner, located.pc, caller, 1, sample.period);
        if self.settings.capture.contains(ValueKinds::SCHED)
            && let Some(moment) = capture.and_then(|of| moment_of(&of.task, registers.flags))
        {
            let time = sample
                .time
                .saturating_add_signed(self.settings.clock_offset);
            let number = self.totals.samples;
            self.tables
                .add_moment((owner, kernel), located.pc, moment, (number, time));
        }
        if let Some(entries) = &mut self.entries
            && !kernel
        {
            match secret {
                true => entries.leave(sample.pid),
                false => entered::meet(entries, &space, sample, process_id, &located),
            }
        }
        if secret {
            return self.stop(StopReason::NotDumpable);
        }
        if outcome == Some(Outcome::WithoutWay) {
            // What it could know would depend on what it is: it is as one that was not taken.
            self.tables.tally.windows_without_way += 1;
            return;
        }
        let is_late = self.is_behind || sample.time < self.late;
        if outcome == Some(Outcome::Crowded) || is_late {
            self.tables.tally.windows_crowded += 1;
            return;
        }
        // Where later events are counted apart, no window is refused for its start.
        let keeps_all = self.tables.consumers.values.tells_executions();
        let asked = if keeps_all { 1.0 } else { probability };
        let share = capture.map_or(1.0, |capture| capture.share.part());
        let by_handler = matches!(outcome, Some(Outcome::Thinned { .. }));
        // The handler does not know the interval.
        let means = self.acceptance.means_of(sample.period);
        let accepted = asked * means.min(1.0);
        if let Some(thinned) = self.acceptance.thinned(accepted, share, by_handler) {
            let tally = &mut self.tables.tally;
            tally.windows_thinned += 1;
            tally.windows_thinned_early += u64::from(thinned == Thinned::Early);
            return;
        }
        let times = self.acceptance.times(means);
        let part = if keeps_all { probability } else { 1.0 };
        self.windows += 1;
        let known_before = self.tables.consumers.values.known();
        let tables = &mut self.tables;
        let mut stage = Stage::begin(
            &space,
            (&mut tables.shared, &mut tables.consumers),
            (&mut self.callers, &mut self.accesses),
            caller,
            self.settings.capture,
            Context {
                owner,
                is_kernel: kernel,
                number: self.windows,
                time: sample
                    .time
                    .saturating_add_signed(self.settings.clock_offset),
                times,
                part,
            },
        );
        if self.expects_vectors && !kernel && !tells_vectors(capture) {
            stage.leave_vectors_out();
        }
        let (cache, epochs) = (&mut self.cache, &mut self.epochs);
        let mut code = ProcessCode::new(
            &space,
            cache,
            epochs,
            captured.as_ref().map(Captured::pieces),
        );
        let window = Window {
            max_instructions: self.settings.window,
            capture: self.settings.capture,
        };
        let start = &mut self.state.registers;
        start::set(start, registers, &space, capture);
        space.handles_faults.set(start.handlers.access);
        if let Some(captured) = &captured {
            captured.pieces().open();
        }
        let (state, traces) = (&mut self.state, &mut self.traces);
        let mut without_block = 0;
        let outcome = window.run_traced(state, traces, &mut code, &mut memory, &mut stage);
        if !kernel
            && !secret
            && let Some(steps) = &mut self.steps
        {
            steps::draw(steps, sample, process_id);
        }
        if !kernel
            && let Some(bounce) = &mut self.bounce
            && let Some(place) = bounce.place()
        {
            let is_stuck = pairs::needs_processor(outcome.stop) && rand::random();
            let entry = if is_stuck {
                ProcessAddress(state.registers.rip)
            } else {
                sample.ip
            };
            let entry = (entry, is_stuck || rand::random());
            match pairs::block_at(&mut code, &space, sample, process_id, entry) {
                Some(request) => bounce.choose(place, request),
                None => without_block = 1,
            }
        }
        let left_out = stage.end(&Ending {
            instructions: outcome.instructions,
            stop: outcome.stop,
        });
        self.tables.count(Counter::ValuesLeftOut, left_out);
        self.tables.count(Counter::PairsWithoutBlock, without_block);
        self.totals.values += self.tables.consumers.values.known() - known_before;
        self.tables
            .count(CounterKey::of(Group::Stop, outcome.stop.key()), 1);
        if outcome.stop == StopReason::ProcessGone && outcome.instructions == 0 {
            return self.process_gone();
        }
        if memory.seen_once
            && !kernel
            && let (Some(updates), Some(capture)) = (&mut self.updates, capture)
        {
            updates.look_twice(capture.task.process());
        }
    }
}
