//! One sample: whose it is, where it was taken, who called, and the window that starts there.

use interpreter::{StopReason, Window};
use profiledb::{Loss, StackEnd, Subject};
use sampler::{Mode, Outcome, Pid, RawSample, Record, TaskIdentity, UserRegisters};

use super::vectors::tells_vectors;
use super::waiting::Arrival;
use super::{Collector, MAX_PERIODS};
use super::{stacks, start};
use crate::events::{Context, Ending, Owner};
use crate::machine::callsite::Interrupted;
use crate::machine::code::ProcessCode;
use crate::machine::devices::has_devices;
use crate::machine::images::{Identity, UNKNOWN};
use crate::machine::place::Pc;
use crate::machine::stack::Walked;
use crate::machine::view::View;
use crate::machine::window::{Brought, SampleMemory};
use crate::pipeline::acceptance::Thinned;
use crate::pipeline::stage::Stage;
use crate::system::procfs::Credentials;
use crate::system::witness::Evidence;

impl Collector {
    /// Takes notice of a sample that has come, in order of time: it waits.
    pub(super) fn arrive(&mut self, record: Record, evidence: Option<Box<Evidence>>) {
        let Some(record) = self.without_second(record) else {
            return;
        };
        let arrival = Arrival {
            record,
            evidence,
            second: None,
            probability: 1.0,
        };
        let Some((time, pid, ..)) = arrival.origin() else {
            return;
        };
        if pid != self.own_pid {
            self.meet(pid, time);
        }
        self.waiting.push(arrival, pid);
    }

    /// Finds and counts the places of samples that have come, in order of time, and puts them in
    /// the order of these.
    pub(crate) fn sort_waiting(&mut self) {
        while let Some((time, pid, ip, mode)) = self.waiting.unplaced().and_then(Arrival::origin) {
            if self.images.has_generated() && mode == Mode::User {
                self.observe(time, pid, ip);
            }
            let (place, probability) = match pid == self.own_pid {
                true => (None, 1.0),
                false => self.place(time, pid, ip, mode),
            };
            self.waiting.place(pid, place.ok_or(ip), probability);
        }
        self.waiting.sort();
    }

    /// Takes notice of the code at a sample, if that may be made at run time.
    fn observe(&mut self, time: u64, pid: Pid, ip: u64) {
        let process = self.loadmap.get(pid);
        let mapping = process.and_then(|process| process.maps.find(ip));
        let Some(image) = mapping.map(|mapping| mapping.image) else {
            return;
        };
        if !self.images.is_generated(image) {
            return;
        }
        let Some(arrival) = self.waiting.unplaced() else {
            return;
        };
        let unpacked;
        let sample = match &arrival.record {
            Record::Sample(sample) => &**sample,
            Record::Packed(packed) => match packed.unpack() {
                Some(sample) => {
                    unpacked = sample;
                    &unpacked
                }
                None => return,
            },
            _ => return,
        };
        if let Some(capture) = &sample.capture {
            let brought = Brought::new(ip, capture, self.copies_whole);
            let (_, code) = brought.pieces().numbered_code(ip);
            self.images.observe(image, ip, time, code);
        }
    }

    /// Counts a sample at its place, if it has one; with what probability its window is to be
    /// accepted.
    fn place(&mut self, time: u64, pid: Pid, ip: u64, mode: Mode) -> (Option<Pc>, f64) {
        let space = match mode {
            Mode::User => self.loadmap.get_and_host(pid),
            _ => Some((&mut self.kernel_space, &mut self.loadmap.host)),
        };
        let place = space
            .and_then(|(process, host)| View::of(process, host, &mut self.images, time).place(ip));
        let probability = place.map_or(1.0, |Pc { image, address }| {
            self.blocks.sample(&mut self.images, image, address)
        });
        (place, probability)
    }

    /// Looks at all that waits.
    pub(super) fn run_all(&mut self) {
        self.sort_waiting();
        while self.run_next() {}
    }

    /// Looks at a sample that has waited.
    pub(super) fn run(&mut self, arrival: Arrival) {
        let Arrival {
            record,
            evidence,
            second,
            probability,
        } = arrival;
        let evidence = evidence.map(|evidence| *evidence);
        if let Some(sample) = self.upgraded(&record, second) {
            return self.sample(&sample, evidence, probability);
        }
        match record {
            Record::Sample(sample) => self.sample(&sample, evidence, probability),
            Record::Packed(packed) => match packed.unpack() {
                Some(sample) => self.sample(&sample, evidence, probability),
                None => self.lost(Loss::MalformedRecords, 1),
            },
            _ => {}
        }
    }

    fn sample(&mut self, sample: &RawSample, evidence: Option<Evidence>, probability: f64) {
        if sample.pid == self.own_pid {
            self.tables.count("overhead", "collector_samples", 1);
            return;
        }
        self.totals.samples += 1;
        self.totals.weight = self.totals.weight.saturating_add(sample.period);
        let tally = &mut self.tables.tally;
        tally.samples += 1;
        tally.interval_sum = tally.interval_sum.saturating_add(sample.period);
        if self.periods.len() < MAX_PERIODS {
            self.periods.insert(sample.period);
        }
        let kernel = sample.mode != Mode::User;
        let of_moment = sample
            .capture
            .as_ref()
            .map(|capture| subject_of(&capture.task));
        if let Some(owner) = self.owner(sample.pid, sample.time, of_moment, kernel, 1) {
            self.interpret(sample, owner, evidence, probability);
        }
    }

    /// Makes a process known that was running at that time, if it is not.
    fn meet(&mut self, pid: Pid, time: u64) {
        if self.loadmap.get(pid).is_none() {
            self.loadmap.introduce(pid, time, &mut self.images);
        }
    }

    /// Who so many samples belong to; if there is no room, they are lost. Credentials of their
    /// moment are better than those of a look at the process now.
    fn owner(
        &mut self,
        pid: Pid,
        time: u64,
        of_moment: Option<Subject>,
        kernel: bool,
        samples: u64,
    ) -> Option<Owner> {
        self.meet(pid, time);
        let subject = match of_moment {
            Some(subject) => Some(subject),
            None => self.loadmap.credentials(pid, time).map(nearly),
        };
        let Some(process) = self.loadmap.get(pid) else {
            self.lost(Loss::ProcessTableFull, samples);
            return None;
        };
        let subject = Subject {
            kernel,
            ..subject.unwrap_or_default()
        };
        let process = if self.settings.per_process {
            &*process
        } else {
            &self.kernel_space
        };
        let owner = self
            .tables
            .shared
            .owner(process.id, subject, || process.row());
        if owner.is_none() {
            self.lost(Loss::TableFullSamples, samples);
        }
        owner
    }

    /// Samples that found no room in the engine's buffer: cycles without values.
    pub(super) fn cycles(&mut self, cycles: &sampler::Cycles) {
        let pid = Pid(cycles.process.tgid);
        if pid == self.own_pid {
            let n = cycles.samples;
            return self.tables.count("overhead", "collector_samples", n);
        }
        self.totals.samples += cycles.samples;
        let tally = &mut self.tables.tally;
        tally.samples = tally.samples.saturating_add(cycles.samples);
        tally.interval_sum = tally.interval_sum.saturating_add(cycles.weight);
        self.lost(Loss::ValuesOfSamplesWithoutRoom, cycles.samples);
        let kernel = cycles.mode != Mode::User;
        let Some(owner) = self.owner(pid, cycles.time, None, kernel, cycles.samples) else {
            return;
        };
        let pc = if kernel {
            Some(Pc {
                image: self.kernel_image,
                address: self.kernel.relative(cycles.ip),
            })
        } else {
            let Some((process, host)) = self.loadmap.get_and_host(pid) else {
                return;
            };
            let view = View::of(process, host, &mut self.images, cycles.time);
            view.place(cycles.ip)
        };
        let pc = self.pc_or_unknown(pc, cycles.ip);
        self.tables
            .add_cycles(owner, pc, None, cycles.samples, cycles.weight);
    }

    /// A PC, or the address itself where nothing is known to be mapped.
    fn pc_or_unknown(&mut self, pc: Option<Pc>, address: u64) -> Pc {
        pc.unwrap_or_else(|| {
            self.tables.shared.lost.count(Loss::UnmappedPcSamples, 1);
            let image = self.images.intern(Identity::Anon, UNKNOWN);
            Pc { image, address }
        })
    }

    fn stop(&mut self, reason: StopReason) {
        self.tables.count("stop", reason.key(), 1);
    }

    /// A window without values, because nothing can tell any more whether its pages are pristine.
    fn process_gone(&mut self) {
        self.totals.gone += 1;
        self.lost(Loss::WindowsOfGoneProcesses, 1);
    }

    /// Attributes a sample, and runs the window that starts there.
    fn interpret(
        &mut self,
        sample: &RawSample,
        owner: Owner,
        evidence: Option<Evidence>,
        probability: f64,
    ) {
        let kernel = sample.mode != Mode::User;
        let capture = sample.capture.as_ref();
        let (process, host) = if kernel {
            self.tables.tally.kernel_samples += 1;
            (&mut self.kernel_space, &mut self.loadmap.host)
        } else {
            self.tables.tally.user_samples += 1;
            match self.loadmap.get_and_host(sample.pid) {
                Some(found) => found,
                None => return,
            }
        };
        let copies_whole = self.copies_whole;
        let secret = !self.settings.allow_secrets
            && match capture {
                Some(capture) => matches!(
                    capture.outcome,
                    Outcome::ValuesDenied | Outcome::NotDumpable
                ),
                None => process.keeps_memory_to_itself(),
            };
        let mut view = View::of(process, host, &mut self.images, sample.time);
        view.allow_secrets = self.settings.allow_secrets;
        view.allow_memory = !secret
            && !kernel
            && capture.is_none_or(|capture| capture.outcome != Outcome::MemoryDenied);
        view.evidence = evidence;
        view.pc = sample.ip;
        let stack_read =
            !sample.stack.is_empty() || capture.is_some_and(|capture| capture.frames().len() > 0);
        view.stack = match &sample.user {
            UserRegisters::Long(registers) if stack_read && !kernel => Some(registers.sp()),
            _ => None,
        };
        let Some(located) = view.locate(sample.ip) else {
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
                pc.image = view.images.borrow_mut().in_32_bit_mode(pc.image);
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
        view.stack_pointer = registers.sp();
        let brought = capture.map(|capture| Brought::new(sample.ip, capture, copies_whole));
        let outcome = capture.map(|capture| capture.outcome);
        let followed = matches!(outcome, Some(Outcome::Followed { .. }));
        let mut memory = SampleMemory {
            view: &view,
            stack_start: registers.gpr[4],
            stack: &sample.stack,
            stack_is_for_callers: followed,
            brought: brought.as_ref(),
            seen_once: false,
        };
        let mut caller = None;
        if !kernel {
            let interrupted = Interrupted {
                view: &view,
                memory: &memory,
                registers,
                pc: located.pc,
                bias: located.bias,
                frame: capture.and_then(|capture| capture.frames().next()),
            };
            let (site, beyond) = interrupted.call_site();
            if let (Some(told), Some(capture)) = (&mut self.told, capture) {
                let process = capture.task.process();
                told.meet(process, || has_devices(sample.pid, view.maps));
                for frame in capture.frames() {
                    told.give_row(process, frame.return_address, &view);
                }
                if outcome != Some(Outcome::MemoryDenied) && !secret {
                    told.give_row_of_start(process, sample.ip, &view, located.pc);
                }
            }
            let tally = &mut self.tables.tally;
            tally.callers += u64::from(site.is_some());
            tally.callers_beyond_stack_copy += u64::from(beyond);
            caller = site;
            if self.walker.is_on() {
                let sample_of = Walked {
                    view: &view,
                    memory: &memory,
                    registers,
                    capture,
                    pc: located.pc,
                    caller,
                };
                let end = stacks::walk(&mut self.walker, self.told.as_mut(), &sample_of);
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
            &view,
            (&mut tables.shared, &mut tables.consumers),
            &mut self.callers,
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
        let mut code =
            ProcessCode::new(&view, cache, epochs, brought.as_ref().map(Brought::pieces));
        let window = Window {
            max_instructions: self.settings.window,
            capture: self.settings.capture,
        };
        let start = &mut self.state.registers;
        start::set(start, registers, &view, capture);
        view.handles_faults.set(start.handlers.access);
        if let Some(brought) = &brought {
            brought.pieces().open();
        }
        let (state, traces) = (&mut self.state, &mut self.traces);
        let outcome = window.run_traced(state, traces, &mut code, &mut memory, &mut stage);
        let left_out = stage.end(&Ending {
            instructions: outcome.instructions,
            stop: outcome.stop,
        });
        self.tables.count("vectors", "values_left_out", left_out);
        self.totals.values += self.tables.consumers.values.known() - known_before;
        self.tables.count("stop", outcome.stop.key(), 1);
        if outcome.stop == StopReason::ProcessGone && outcome.instructions == 0 {
            return self.process_gone();
        }
        if memory.seen_once
            && !kernel
            && let (Some(told), Some(capture)) = (&mut self.told, capture)
        {
            told.look_twice(capture.task.process());
        }
    }
}

/// The access tag of a thread, as of the interrupt.
fn subject_of(task: &TaskIdentity) -> Subject {
    Subject {
        uid: Some(task.uid),
        gid: Some(task.gid),
        euid: Some(task.euid),
        egid: Some(task.egid),
        suid: Some(task.suid),
        dumpable: Some(task.dumpable),
        capable: Some(task.privileged),
        kernel: false,
    }
}

/// The access tag of a process that was looked at about then. It does not tell whose the
/// sample was: the process may have changed since, or been another one.
fn nearly(seen: Credentials) -> Subject {
    Subject {
        uid: Some(seen.uid),
        gid: Some(seen.gid),
        euid: Some(seen.euid),
        egid: Some(seen.egid),
        ..Subject::default()
    }
}
