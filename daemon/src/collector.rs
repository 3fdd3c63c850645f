//! From records to tables: attributes each sample, finds its caller, interprets its window.

use std::cell::{Cell, RefCell};

use hotlist::{Config, Generator};
use interpreter::{Capture, DecodeCache, Registers, StopReason, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustc_hash::FxHashSet;
use sampler::{Mode, Pid, RawSample, Record, UserRegisters};

use crate::blocks::Blocks;
use crate::images::{Identity, ImageId, Images};
use crate::kernel::Kernel;
use crate::loadmap::{Loadmap, Process};
use crate::tables::{Owner, Pc, PcId, Tables};
use crate::unwind::Slot;
use crate::window::{ProcessCode, Recorder, SampleMemory, View};
use crate::witness::Evidence;

/// What the collector is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) window: u32,
    pub(crate) capture: Capture,
    pub(crate) by_caller: bool,
    pub(crate) seed: u64,
    /// Bytes for the tables of one flush interval.
    pub(crate) memory: usize,
    /// Capture values of denied images and non-dumpable processes too.
    pub(crate) allow_secrets: bool,
    /// Wall clock minus sample clock, ns.
    pub(crate) clock_offset: i64,
}

/// The state of a collection.
pub(crate) struct Collector {
    settings: Settings,
    pub(crate) images: Images,
    pub(crate) loadmap: Loadmap,
    pub(crate) kernel: Kernel,
    kernel_image: ImageId,
    blocks: Blocks,
    cache: DecodeCache,
    pub(crate) tables: Tables,
    coins: Generator,
    acceptance: StdRng,
    own_pid: Pid,
    windows: u64,
    callers: Vec<Option<PcId>>,
    periods: FxHashSet<u64>,
    /// Totals over the whole run, for the closing line.
    pub(crate) totals: Totals,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) samples: u64,
    pub(crate) values: u64,
    pub(crate) lost: u64,
    pub(crate) throttled: u64,
    /// Windows that were lost because their process was gone.
    pub(crate) gone: u64,
}

/// Decoded instructions kept, about 112 bytes each.
const DECODED: usize = 1 << 17;
/// Distinct intervals told apart; more are counted as this many.
const MAX_PERIODS: usize = 1 << 16;
/// The longest call instruction: prefixes, opcode, ModRM, SIB, displacement.
const MAX_CALL: usize = 9;

impl Collector {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut images = Images::default();
        let kernel_image = images.intern(Identity::Kernel, "[kernel]");
        let mut tables = Tables::new(Config::default().precise(), settings.memory);
        tables.declare_losses();
        Self {
            tables,
            coins: Generator::new(settings.seed),
            acceptance: StdRng::seed_from_u64(settings.seed ^ 0x5eed_acce),
            settings,
            images,
            loadmap: Loadmap::new(),
            kernel: Kernel::read(),
            kernel_image,
            blocks: Blocks::default(),
            cache: DecodeCache::new(DECODED),
            own_pid: Pid(std::process::id()),
            windows: 0,
            callers: Vec::new(),
            periods: FxHashSet::default(),
            totals: Totals::default(),
        }
    }

    /// Empty tables in place of the full ones, which are returned.
    pub(crate) fn take_tables(&mut self) -> Tables {
        let distinct = self.periods.len() as u64;
        self.periods.clear();
        self.tables.count("interval", "distinct", distinct);
        let dropped = std::mem::take(&mut self.loadmap.dropped);
        self.tables.count("image", "processes_not_kept", dropped);
        self.totals.lost += self.tables.losses();
        let mut empty = Tables::new(Config::default().precise(), self.settings.memory);
        empty.declare_losses();
        std::mem::replace(&mut self.tables, empty)
    }

    /// Gives up what was decoded from files that have changed since.
    pub(crate) fn drop_changed_images(&mut self) {
        for image in self.images.drop_changed() {
            self.cache.invalidate(image.0);
            self.blocks.forget(image);
            self.tables.count("image", "files_changed", 1);
        }
    }

    /// Takes a record, in order of time.
    pub(crate) fn record(&mut self, record: Record, evidence: Option<Evidence>) {
        match record {
            Record::Sample(sample) => self.sample(&sample, evidence),
            Record::Mmap(mmap) => self.loadmap.mmap(&mmap, &mut self.images),
            Record::Comm {
                time,
                pid,
                tid,
                name,
                exec,
            } => {
                self.loadmap.comm(pid, pid.0 == tid.0, &name, exec, time);
            }
            Record::Fork {
                time, pid, ppid, ..
            } => self.loadmap.fork(pid, ppid, time),
            Record::Exit { pid, tid, .. } => {
                if pid.0 == tid.0 {
                    self.loadmap.exit(pid);
                }
            }
            Record::Throttle { .. } => {
                self.totals.throttled += 1;
                self.tables.count("throttle", "throttled", 1);
            }
            Record::Unthrottle { .. } => self.tables.count("throttle", "unthrottled", 1),
            Record::Lost { count, .. } => self.lost("ring_records", count),
            Record::LostSamples { count, .. } => self.lost("ring_samples", count),
        }
    }

    /// Counts a loss.
    pub(crate) fn lost(&mut self, name: &'static str, count: u64) {
        self.tables.count("lost", name, count);
    }

    fn sample(&mut self, sample: &RawSample, evidence: Option<Evidence>) {
        if sample.pid == self.own_pid {
            self.tables.count("overhead", "collector_samples", 1);
            return;
        }
        self.totals.samples += 1;
        self.tables.count("run", "samples", 1);
        self.tables.count("interval", "count", 1);
        self.tables.count("interval", "sum", sample.period);
        if self.periods.len() < MAX_PERIODS {
            self.periods.insert(sample.period);
        }
        if self.loadmap.get(sample.pid).is_none() {
            self.loadmap
                .introduce(sample.pid, sample.time, &mut self.images);
        }
        let kernel = sample.mode != Mode::User;
        let Some(process) = self.loadmap.get(sample.pid) else {
            return self.lost("process_table_full", 1);
        };
        let credentials = process.credentials(sample.time);
        let subject = profiledb::Subject {
            uid: credentials.map(|c| c.uid),
            gid: credentials.map(|c| c.gid),
            euid: credentials.map(|c| c.euid),
            egid: credentials.map(|c| c.egid),
            kernel,
        };
        let subject = self.tables.subject(subject);
        let owner = Owner {
            process: process.id,
            subject,
        };
        let row = &*process;
        self.tables
            .processes
            .entry(process.id)
            .or_insert_with(|| row.row());
        if kernel {
            self.kernel_sample(sample, owner);
        } else {
            self.user_sample(sample, owner, evidence);
        }
    }

    fn kernel_sample(&mut self, sample: &RawSample, owner: Owner) {
        self.tables.count("run", "kernel_samples", 1);
        let address = self.kernel.relative(sample.ip);
        let pc = self.tables.pc(Pc {
            image: self.kernel_image,
            address,
        });
        self.tables.add_cycles(owner, pc, None, sample.period);
        // The engine cannot read kernel code at the moment of the interrupt.
        self.stop(StopReason::KernelCode);
    }

    fn stop(&mut self, reason: StopReason) {
        self.tables.count("stop", reason.key(), 1);
    }

    /// A window without values, because nothing can tell any more whether its pages are pristine.
    fn process_gone(&mut self) {
        self.totals.gone += 1;
        self.lost("windows_of_gone_processes", 1);
    }

    fn user_sample(&mut self, sample: &RawSample, owner: Owner, evidence: Option<Evidence>) {
        self.tables.count("run", "user_samples", 1);
        self.tables.count("coverage", "user_samples", 1);
        let Some(process) = self.loadmap.get(sample.pid) else {
            return;
        };
        let secret = process.keeps_memory_to_itself() && !self.settings.allow_secrets;
        let Process { maps, pages, .. } = process;
        let view = View {
            maps,
            images: RefCell::new(&mut self.images),
            pages: RefCell::new(pages),
            pid: sample.pid,
            time: sample.time,
            allow_secrets: self.settings.allow_secrets,
            evidence,
            stack: match &sample.user {
                UserRegisters::Long(registers) if !sample.stack.is_empty() => Some(registers.sp()),
                _ => None,
            },
            same_space: Cell::new(None),
        };
        let Some(located) = view.locate(sample.ip) else {
            self.tables.count("lost", "unmapped_pc_samples", 1);
            let anon = view.images.borrow_mut().intern(Identity::Anon, "[unknown]");
            let pc = self.tables.pc(Pc {
                image: anon,
                address: sample.ip,
            });
            self.tables.add_cycles(owner, pc, None, sample.period);
            return self.stop(StopReason::NotMapped);
        };
        let pc = self.tables.pc(located.pc);
        let UserRegisters::Long(registers) = &sample.user else {
            self.tables.add_cycles(owner, pc, None, sample.period);
            return self.stop(StopReason::CompatMode);
        };
        let mut memory = SampleMemory {
            view: &view,
            stack_start: registers.gpr[4],
            stack: &sample.stack,
        };
        let (caller, beyond) = call_site(&view, &mut memory, registers, located.pc, located.bias);
        self.tables
            .count("coverage", "callers_beyond_stack_copy", u64::from(beyond));
        let caller = caller.map(|site| self.tables.pc(site));
        self.tables.count(
            "coverage",
            "user_samples_with_caller",
            u64::from(caller.is_some()),
        );
        self.tables.add_cycles(owner, pc, caller, sample.period);

        if secret {
            return self.stop(StopReason::NotDumpable);
        }
        let probability = {
            let mut images = view.images.borrow_mut();
            self.blocks
                .sample(&mut images, located.pc.image, located.pc.address)
        };
        if probability < 1.0 && self.acceptance.random::<f64>() >= probability {
            self.tables.count("run", "windows_thinned", 1);
            return;
        }
        self.windows += 1;
        self.callers.clear();
        self.callers.push(caller);
        let mut recorder = Recorder {
            view: &view,
            tables: &mut self.tables,
            coins: &mut self.coins,
            owner,
            window: self.windows,
            time: sample
                .time
                .saturating_add_signed(self.settings.clock_offset),
            by_caller: self.settings.by_caller,
            callers: &mut self.callers,
            current: None,
            values: 0,
            destinations: 0,
            destinations_known: 0,
            loads: 0,
            loads_known: 0,
            arguments: self.settings.capture.contains(Capture::ARGS),
            called: None,
            transfer: None,
        };
        let mut code = ProcessCode {
            view: &view,
            cache: &mut self.cache,
        };
        let window = Window {
            max_instructions: self.settings.window,
            capture: self.settings.capture,
        };
        let start = Registers::from_sample(registers.gpr, registers.ip, registers.flags);
        let outcome = window.run(&start, &mut code, &mut memory, &mut recorder);
        recorder.settle_jump();
        let Recorder {
            values,
            destinations,
            destinations_known,
            loads,
            loads_known,
            ..
        } = recorder;
        self.totals.values += values;
        let tables = &mut self.tables;
        tables.count("run", "windows", 1);
        tables.count("run", "value_events", values);
        tables.count("run", "instructions", u64::from(outcome.instructions));
        tables.count("coverage", "destinations_reached", destinations);
        tables.count("coverage", "destinations_known", destinations_known);
        tables.count("coverage", "loads_reached", loads);
        tables.count("coverage", "loads_captured", loads_known);
        tables.count("stop", outcome.stop.key(), 1);
        if outcome.stop == StopReason::ProcessGone && outcome.instructions == 0 {
            self.process_gone();
        }
    }
}

/// The call site of the interrupted function: where its return address lies by the unwind
/// rules (without any, by the frame pointer), if a call instruction stands before it. The flag
/// says that the return address lies above what was copied of the stack.
fn call_site(
    view: &View<'_>,
    memory: &mut SampleMemory<'_>,
    registers: &sampler::Registers,
    pc: Pc,
    bias: u64,
) -> (Option<Pc>, bool) {
    let Some(slot) = return_slot(view, registers, pc, bias) else {
        return (None, false);
    };
    let copied = memory.stack_start.saturating_add(memory.stack.len() as u64);
    if slot >= memory.stack_start && slot.saturating_add(8) > copied {
        return (None, true);
    }
    (call_before(view, memory, slot), false)
}

/// Address of the return address.
fn return_slot(view: &View<'_>, registers: &sampler::Registers, pc: Pc, bias: u64) -> Option<u64> {
    let slot = {
        let mut images = view.images.borrow_mut();
        match images.opened(pc.image) {
            // Rules may name the PC, which they know as an ELF address.
            Some(elf) => {
                elf.unwind
                    .return_slot(pc.address, pc.address.wrapping_add(bias), &registers.gpr)
            }
            None => Slot::NoRules,
        }
    };
    match slot {
        Slot::At(slot) => Some(slot),
        Slot::NoRules => Some(registers.gpr[5].wrapping_add(8)),
        Slot::NoCaller => None,
    }
}

/// The call instruction before the return address at `slot`.
fn call_before(view: &View<'_>, memory: &mut SampleMemory<'_>, slot: u64) -> Option<Pc> {
    use interpreter::Memory;

    // Only from the stack copy: a return address is nowhere else.
    let mut bytes = [0; 8];
    if slot < memory.stack_start || !memory.read(slot, &mut bytes) {
        return None;
    }
    let return_address = u64::from_le_bytes(bytes);
    let located = view.locate(return_address.wrapping_sub(1))?;
    if !located.mapping.executable || located.mapping.is_anon() {
        return None;
    }
    let start = return_address.wrapping_sub(MAX_CALL as u64);
    let mut code = [0; MAX_CALL];
    let read = view.images.borrow_mut().read(
        located.pc.image,
        start.wrapping_sub(located.bias),
        &mut code,
    );
    if read != MAX_CALL {
        return None;
    }
    let length = call_length(&code, start)?;
    let address = return_address
        .wrapping_sub(length as u64)
        .wrapping_sub(located.bias);
    Some(Pc {
        image: located.pc.image,
        address,
    })
}

/// Length of the call instruction that ends where `code` ends.
fn call_length(code: &[u8; MAX_CALL], start: u64) -> Option<usize> {
    use iced_x86::{Decoder, DecoderOptions, FlowControl};

    // The near relative call first: five bytes, by far the most frequent. Of the indirect ones
    // the longest that fits: a shorter one is often the longer without its prefix.
    let lengths = std::iter::once(5).chain((2..=MAX_CALL).rev().filter(|&n| n != 5));
    lengths.into_iter().find(|&length| {
        let at = MAX_CALL - length;
        let mut decoder = Decoder::with_ip(
            64,
            &code[at..],
            start.wrapping_add(at as u64),
            DecoderOptions::NONE,
        );
        let instruction = decoder.decode();
        instruction.len() == length
            && match instruction.flow_control() {
                FlowControl::Call => code[at] == 0xe8 || length != 5,
                FlowControl::IndirectCall => true,
                _ => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of(call: &[u8]) -> Option<usize> {
        let mut code = [0x90; MAX_CALL];
        code[MAX_CALL - call.len()..].copy_from_slice(call);
        call_length(&code, 0x1000)
    }

    /// The call before a return address is found whatever its form; what is no call is none.
    #[test]
    fn calls_before_a_return_address() {
        assert_eq!(length_of(&[0xe8, 1, 2, 3, 4]), Some(5));
        assert_eq!(length_of(&[0xff, 0xd0]), Some(2)); // call rax
        assert_eq!(length_of(&[0x41, 0xff, 0xd4]), Some(3)); // call r12
        assert_eq!(length_of(&[0xff, 0x15, 1, 2, 3, 4]), Some(6)); // call [rip+x]
        assert_eq!(length_of(&[0xff, 0x54, 0x24, 0x08]), Some(4)); // call [rsp+8]
        assert_eq!(length_of(&[0x48, 0x89, 0xc3]), None);
        assert_eq!(length_of(&[]), None);
    }
}
