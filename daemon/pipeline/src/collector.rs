//! From records to tables: what is kept from one record to the next, and where each goes.

// Over 500 lines: what is kept from one record to the next is one type.

mod entered;
mod pairs;
mod samples;
mod stacks;
mod start;
mod steps;
mod vectors;
mod waiting;
mod windows;

use std::time::Duration;

use counters::{Counter, CounterKey, Group, Loss};
use hotlist::{Config, Generator};
use interpreter::{DecodeCache, Processor, Registers, Traces, ValueKinds, WindowState};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::{Handler, Mmap, MmapIdentity, Pid, Record, UserRegisters};

use self::waiting::Waiting;
use crate::blocks::Blocks;
use crate::bounce::Bounce;
use crate::entries::Entries;
use crate::handler_updates::HandlerUpdates;
use crate::merge::Merged;
use crate::raw;
use crate::stage::Accesses;
use crate::steps::Steps;
use consumers::acceptance::Acceptance;
use consumers::events::{Options, PcId};
use consumers::tables::Tables;
use machine::address_space::AddressSpace;
use machine::code::Epochs;
use machine::devices::has_devices;
use machine::files::Files;
use machine::host::Host;
use machine::images::{Identity, ImageId, Images};
use machine::kernel::{self, Kernel};
use machine::loadmap::{Loadmap, Process};
use machine::mapping::{is_data, rights};
use machine::stack::Walker;
use machine::system::clock::BothClocks;
use machine::system::memory::CollectorMemory;
use machine::system::page_check::PageEvidence;
use machine::writers::FileId;

/// What the collector is asked to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Instructions of a window, at most.
    pub window: u32,
    /// Which values of instructions are kept.
    pub capture: ValueKinds,
    /// Keep values apart by the call site of their function.
    pub by_caller: bool,
    /// Of all coins: with the same seed the same records make the same tables.
    pub seed: u64,
    /// Bytes for the tables, half of them for those that are being saved.
    pub memory: usize,
    /// Bytes for the unwind rules of programs, and where they are mapped.
    pub programs: usize,
    /// Capture values of denied images and non-dumpable processes too.
    pub allow_secrets: bool,
    /// Beginnings of the names of more images that are denied.
    pub deny: Vec<String>,
    /// Callers of a call stack, at most; where it is 1 or less, there are no call stacks.
    pub callers: u32,
    /// Keep processes apart.
    pub per_process: bool,
    /// Wall clock minus sample clock, ns.
    pub clock_offset: i64,
    /// Mean interval of clocks whose intervals stay in force for many samples, in the clock's unit.
    pub mean_interval: Option<u64>,
    /// What the processor has, by the kernel's names.
    pub processor: String,
}

#[cfg(any(test, feature = "small"))]
impl Settings {
    /// The usual ones, with a megabyte for the tables.
    pub fn small() -> Self {
        Self {
            window: 16,
            capture: ValueKinds::default(),
            by_caller: false,
            seed: 1,
            memory: 1 << 20,
            programs: 1 << 20,
            allow_secrets: false,
            deny: Vec::new(),
            callers: 1,
            per_process: true,
            clock_offset: 0,
            mean_interval: None,
            processor: machine::system::procfs::processor_flags().unwrap_or_default(),
        }
    }
}

/// The state of a collection.
pub struct Collector {
    settings: Settings,
    /// The images that samples have met.
    pub images: Images,
    /// The processes, and what they map.
    pub loadmap: Loadmap,
    files: Files,
    /// The kernel, and where it lies.
    pub kernel: Kernel,
    kernel_image: ImageId,
    /// The kernel's addresses.
    kernel_space: Process,
    blocks: Blocks,
    /// The instructions that windows ran through, decoded.
    pub cache: DecodeCache,
    /// Instructions that windows ran through, in the form that they run in.
    traces: Traces,
    epochs: Epochs,
    /// What windows work on, kept from one to the next.
    state: WindowState,
    /// What has been collected since the last flush.
    pub tables: Tables,
    acceptance: Acceptance,
    /// Where the engine has a handler in the kernel.
    updates: Option<HandlerUpdates>,
    /// Where all that is taken is written down, if it is.
    raw: Option<raw::Writer>,
    /// Samples that have come.
    waiting: Waiting,
    own_pid: Pid,
    /// The processor's kernel copies a few bytes by one instruction
    /// ([`machine::window::Captured`]).
    copies_whole: bool,
    windows: u64,
    /// Of samples that were taken before this time, by their clock, no values are looked for.
    late: u64,
    /// More comes than can be looked at.
    is_behind: bool,
    /// Some samples are chosen to bring vector registers.
    expects_vectors: bool,
    /// Where blocks of some samples are to bounce.
    bounce: Option<Bounce>,
    /// Where threads of some samples are stepped.
    steps: Option<Steps>,
    /// Where entries of functions are watched.
    entries: Option<Entries>,
    callers: Vec<Option<PcId>>,
    accesses: Accesses,
    walker: Walker,
    periods: FxHashSet<u64>,
    /// Totals over the whole run, for the closing line.
    pub totals: Totals,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Samples.
    pub samples: u64,
    /// Known values.
    pub values: u64,
    /// All that was lost ([`Loss`]), up to the last flush.
    pub lost: u64,
    /// How often the kernel throttled the clock.
    pub throttled: u64,
    /// Windows that were lost because their process was gone.
    pub gone: u64,
    /// The time that the samples stand for, in the clock's unit.
    pub weight: u64,
    /// As many samples would stand for what the clock counted besides.
    pub unsampled: u64,
    /// Pairs of breakpoints and steps that were seen.
    pub pairs: u64,
    /// Those of them that were worked out as well.
    pub compared: u64,
    /// Of how many of these the processor made something else.
    pub disagreed: u64,
    /// Of how many it loaded what others may have written meanwhile, and made something else.
    pub raced: u64,
    /// Results of instructions that were compared.
    pub compared_results: u64,
    /// Pairs whose vector registers were brought at both ends.
    pub with_vectors: u64,
}

/// Decoded instructions kept, about 200 bytes each.
const DECODED: usize = 1 << 17;
/// Instructions kept prepared, 88 bytes each.
const PREPARED: usize = 1 << 16;
/// Distinct intervals told apart; more are counted as this many.
const MAX_PERIODS: usize = 1 << 16;

impl Collector {
    /// A collector that has seen nothing. It reads where the kernel lies.
    pub fn new(settings: Settings) -> Self {
        // Half for their unwind rules, half for where they are mapped.
        let room = settings.programs / 2;
        let mut images = Images::new(settings.deny.clone(), settings.clock_offset, room);
        let kernel_image = images.intern(Identity::Kernel, kernel::IMAGE);
        let kernel = Kernel::read();
        let acceptance = Acceptance::new(settings.seed, settings.mean_interval);
        let kernel_space = Process::of_kernel(kernel_image, kernel.text());
        let mut cache = DecodeCache::new(DECODED);
        cache.set_processor(Processor::with_flags(&settings.processor));
        Self {
            tables: empty_tables(&settings, &acceptance),
            acceptance,
            walker: Walker::new(settings.callers),
            copies_whole: settings
                .processor
                .split_whitespace()
                .any(|flag| flag == "fsrm"),
            settings,
            images,
            loadmap: Loadmap::new(room),
            files: Files::default(),
            kernel,
            kernel_image,
            kernel_space,
            blocks: Blocks::default(),
            cache,
            traces: Traces::new(PREPARED),
            epochs: Epochs::default(),
            state: WindowState::new(Registers::from_sample([0; 16], 0, 0)),
            updates: None,
            raw: None,
            waiting: Waiting::default(),
            own_pid: Pid(std::process::id()),
            windows: 0,
            late: 0,
            is_behind: false,
            expects_vectors: false,
            bounce: None,
            steps: None,
            entries: None,
            callers: Vec::new(),
            accesses: Accesses::default(),
            periods: FxHashSet::default(),
            totals: Totals::default(),
        }
    }

    /// Says whether more comes than can be looked at. Then windows are left out, so that samples do
    /// not find the handler's buffers full: their times and callers cost a tenth of what their
    /// values do. A raw recording is to bring the same again, so none are where one is written.
    pub fn set_behind(&mut self, is_behind: bool) {
        self.is_behind = is_behind && self.raw.is_none();
    }

    /// Writes down all that is taken from now on.
    pub fn write_raw(&mut self, writer: raw::Writer) {
        self.loadmap.host = Host::Noted(Vec::new());
        self.raw = Some(writer);
    }

    /// The raw recording, which ends here.
    pub fn take_raw(&mut self) -> Option<raw::Writer> {
        self.raw.take()
    }

    /// Runs a recording again that was made elsewhere, or in another life of this machine.
    pub fn replay(&mut self, own_pid: Pid, kernel: Kernel) {
        self.own_pid = own_pid;
        self.kernel_space = Process::of_kernel(self.kernel_image, kernel.text());
        self.kernel = kernel;
        self.loadmap.host = Host::Replayed(FxHashMap::default());
        self.images.come_from_elsewhere();
    }

    /// Says that intervals are drawn around another mean from now on.
    pub fn set_mean_interval(&mut self, mean: u64) {
        self.acceptance.set_mean(mean);
    }

    /// Tells this handler of processes and unwind rows from now on.
    pub fn tell(&mut self, handler: Handler) {
        self.loadmap.ask_of_exceptions(handler.clone());
        self.updates = Some(HandlerUpdates::new(handler));
    }

    /// Says that some samples are chosen to bring vector registers: the others do not tell what
    /// depends on them, so that what is known of that is not known by its origin.
    pub fn expect_vectors(&mut self) {
        self.expects_vectors = true;
    }

    /// Whether there is a handler, whose samples bring what their windows need.
    pub fn has_handler(&self) -> bool {
        self.updates.is_some()
    }

    /// Processes that the handler was told of so far.
    pub fn met(&self) -> u64 {
        self.updates.as_ref().map_or(0, HandlerUpdates::met)
    }

    /// Asks the kernel again for the mappings of programs that samples asked about of late, and
    /// says how long the youngest of these has been known. When it ends, nobody can be asked any
    /// more.
    pub fn ask_again(&mut self) -> Option<Duration> {
        let met = self.loadmap.look_again()?;
        let age = sampler::clock_now().saturating_sub(met);
        Some(Duration::from_nanos(age))
    }

    /// Empty tables in place of the full ones, which are returned.
    pub fn take_tables(&mut self) -> Tables {
        let distinct = self.periods.len() as u64;
        self.periods.clear();
        self.tables.count(Counter::DistinctIntervals, distinct);
        let take = std::mem::take::<u64>;
        for (counter, n) in [
            (Counter::ProcessesNotKept, take(&mut self.loadmap.dropped)),
            (
                Counter::MappingsNotKept,
                take(&mut self.loadmap.mappings_dropped),
            ),
            (Counter::ImagesNotKept, take(&mut self.images.not_kept)),
            (Counter::NamesNotKept, take(&mut self.images.names_not_kept)),
            (
                Counter::UnwindRulesNotKept,
                take(&mut self.images.rules.not_kept),
            ),
        ] {
            self.tables.count(counter, n);
        }
        let counted = self.updates.as_mut().map(HandlerUpdates::take_counters);
        for (name, n) in counted.unwrap_or_default() {
            self.tables.count(CounterKey::of(Group::Handler, name), n);
            if name == "cycles_lost" {
                self.lost(Loss::SamplesWithoutRoom, n);
            }
        }
        self.totals.lost += self.tables.lost().total();
        self.acceptance.begin();
        let taken = self.tables.take();
        self.tables.evenness = self.acceptance.evenness();
        taken
    }

    /// Why it would be well to begin with a new collector, if it would: what is known of images is
    /// never given up one by one.
    pub fn has_grown_old(&self) -> Option<&'static str> {
        self.images
            .are_many()
            .then_some("more images are known than is good for the memory")
    }

    /// Closes the files of programs that nobody runs any more.
    pub fn close_unmapped_images(&mut self) {
        let mapped = self.loadmap.mapped_images();
        self.images.close_all_but(&mapped);
    }

    /// Gives up what was decoded from files that have changed since, about once a second.
    pub fn look_at_images(&mut self) {
        self.images.rules.tick();
        for image in self.images.drop_changed() {
            self.walker.forget();
            self.cache.invalidate(image.0);
            self.traces.clear();
            self.blocks.forget(image);
            self.tables.count(Counter::FilesChanged, 1);
        }
    }

    /// Has traces of the code that these processes make prepared anew: what is shown of code is
    /// what was decoded under its image.
    fn prepare_anew(&mut self, renamed: &[(Pid, u64)]) {
        for (pid, time) in renamed {
            if let Some(process) = self.loadmap.get(*pid) {
                process.maps.note_rename(*time);
            }
        }
    }

    /// Looks for new names of code that processes make at run time: some times a second, and before
    /// samples are looked at.
    pub fn look_at_generated(&mut self) {
        if self.images.has_generated() && self.loadmap.host.is_live() {
            let now = sampler::clock_now();
            let renamed = self.images.look_at_generated(None, now);
            self.prepare_anew(&renamed);
        }
    }

    /// Looks at that code, some times a second.
    pub fn look_at_generated_code(&mut self) {
        // What is noted follows from samples alone.
        if self.images.has_generated() && matches!(self.loadmap.host, Host::Live) {
            let now = sampler::clock_now();
            for pid in self.images.makers() {
                if let Some(process) = self.loadmap.get(pid) {
                    process.generated_code.look_again(now);
                }
            }
        }
    }

    /// Lets a sample wait for others that were taken at its place; gives back what is none. In
    /// order of time.
    pub fn put_off(&mut self, (record, evidence): Merged) -> Option<Merged> {
        let waits = self.raw.is_none() && matches!(record, Record::Sample(_) | Record::Packed(_));
        if !waits {
            return Some((record, evidence));
        }
        self.arrive(record, evidence);
        None
    }

    /// Whether [samples that wait](Self::run_next) are to be looked at before this record is taken: it
    /// tells of what they may see of their process, or whether there is one. Where there was no
    /// more than data without a file and with the same rights, they see as much as where there is
    /// none.
    pub fn precede(&mut self, record: &Record) -> bool {
        match record {
            Record::Mmap(mmap) => {
                let (range, rights) = (mmap.range(), rights(mmap));
                let has_only_data =
                    |process: &mut Process| process.maps.has_only_data(range, rights);
                let changes =
                    !is_data(mmap) || !self.loadmap.get(mmap.pid).is_some_and(has_only_data);
                changes && self.waiting.has(mmap.pid)
            }
            Record::Comm {
                pid, exec: true, ..
            } => self.waiting.has(*pid),
            // How many threads there are is asked for the time of a sample.
            Record::Fork { pid, ppid, .. } => pid != ppid && self.waiting.has(*pid),
            Record::Exit { pid, tid, time, .. } => {
                let is_leader = pid.0 == tid.0;
                if is_leader && let Some(process) = self.loadmap.get(*pid) {
                    process.ends = Some(*time);
                }
                is_leader && self.waiting.has(*pid)
            }
            _ => false,
        }
    }

    /// Leaves out the windows of samples that were taken before this time, by their clock in
    /// nanoseconds: as [when it is behind](Self::set_behind).
    pub fn leave_out_windows_before(&mut self, time: u64) {
        if self.raw.is_none() {
            self.late = self.late.max(time);
        }
    }

    /// Samples that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of what waits.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.bytes()
    }

    /// Looks at the next sample that waits, once they are [in order](Self::sort_waiting); false if there
    /// is none.
    pub fn run_next(&mut self) -> bool {
        let Some(arrival) = self.waiting.pop() else {
            return false;
        };
        self.run(arrival);
        true
    }

    /// Finds out which file a mapping is of, as soon as it is heard of: it may soon be gone.
    pub fn identify(&mut self, mmap: &mut Mmap, now: &BothClocks) {
        if !self.loadmap.host.is_live() {
            return;
        }
        let Some(file) = FileId::of_record(mmap) else {
            return;
        };
        if mmap.shared() {
            if mmap.writable() {
                self.images.note_writer(file, mmap.pid);
                if let Some(known) = self.files.known_of(mmap) {
                    self.note(&raw::CollectorInput::Written(known.clone()));
                    self.written(&known);
                }
            }
        } else if !self.images.has_writer(file) {
            self.files.identify(mmap, now.wall_at(mmap.time));
        }
    }

    /// Somebody may write a file through a mapping, from now on.
    pub fn written(&mut self, file: &MmapIdentity) {
        if let Some(identity) = Identity::lasting(file) {
            self.images.note_written(identity);
        }
    }

    /// Takes a record, in order of time. None waits.
    pub fn record(&mut self, mut record: Record, evidence: Option<PageEvidence>) {
        if self.raw.is_none() {
            return self.take(record, evidence);
        }
        record = record.unpacked();
        if matches!(record, Record::Packed(_)) {
            // What its bytes give away cannot be told, so they are not written down.
            return self.take(record, evidence);
        }
        let noted = raw::CollectorInput::of(self.without_secrets(record.clone()), evidence);
        self.take(record, evidence);
        self.note(&noted);
    }

    /// Writes an entry of a raw recording, and what was answered meanwhile behind it.
    pub fn note(&mut self, entry: &raw::CollectorInput) {
        let Some(raw) = &mut self.raw else { return };
        raw.write(entry);
        for (pid, answer) in self.loadmap.host.take_noted() {
            raw.write(&raw::CollectorInput::Answer(pid, answer));
        }
    }

    /// A record as it may be written down: less what its process or its image keeps to itself.
    fn without_secrets(&mut self, mut record: Record) -> Record {
        let Record::Sample(sample) = &mut record else {
            return record;
        };
        if self.settings.allow_secrets {
            return record;
        }
        let secret = match self.loadmap.get_and_host(sample.pid) {
            // Of an unknown process it cannot be told.
            None => true,
            Some((process, host)) => {
                let dumpable = match &sample.capture {
                    Some(capture) => capture.task.dumpable || capture.task.kernel_thread,
                    None => !process.keeps_memory_to_itself(),
                };
                let space = AddressSpace::of(process, host, &mut self.images, sample.time);
                let located = space.locate(sample.ip);
                !dumpable || located.is_some_and(|located| space.is_denied(located.pc))
            }
        };
        if secret {
            sample.interrupted = None;
            sample.user = UserRegisters::None;
            sample.stack = Box::default();
            if let Some(capture) = &mut sample.capture {
                capture.withhold();
            }
        }
        record
    }

    fn take(&mut self, record: Record, evidence: Option<PageEvidence>) {
        match record {
            Record::Sample(_) | Record::Packed(_) => {
                self.arrive(record, evidence.map(Box::new));
                self.run_all();
            }
            Record::Cycles(cycles) => self.cycles(&cycles),
            Record::Mmap(mmap) => self.mmap(&mmap),
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
            Record::Exit { pid, tid, time, .. } => {
                let is_leader = pid.0 == tid.0;
                if is_leader && self.images.has_generated() && self.loadmap.host.is_live() {
                    let now = sampler::clock_now();
                    let renamed = self.images.look_at_generated(Some(pid), now);
                    self.prepare_anew(&renamed);
                }
                self.loadmap.exit(pid, is_leader, time);
                if let Some(updates) = &mut self.updates
                    && is_leader
                {
                    updates.exited(pid);
                }
            }
            Record::Throttle { .. } => {
                self.totals.throttled += 1;
                self.tables.count(Counter::Throttled, 1);
            }
            Record::Unthrottle { .. } => self.tables.count(Counter::Unthrottled, 1),
            Record::Lost { count, .. } => {
                self.loadmap.records_lost();
                self.lost(Loss::RingRecords, count);
            }
            Record::LostSamples { count, .. } => self.lost(Loss::RingSamples, count),
        }
    }

    fn mmap(&mut self, mmap: &Mmap) {
        if self.loadmap.mmap(mmap, &mut self.images)
            && let Some(updates) = &mut self.updates
            && let Some(process) = self.loadmap.get(mmap.pid)
            && process
                .maps
                .find(mmap.range().start)
                .is_none_or(|mapping| mapping.special)
        {
            updates.look_for_devices(mmap.pid, || has_devices(mmap.pid, &process.maps));
        }
    }

    /// What its parts hold beside the tables.
    pub fn memory(&self) -> CollectorMemory {
        let (images, pages) = self.images.bytes();
        CollectorMemory {
            programs: images + self.files.bytes() + self.loadmap.bytes(),
            code: pages + self.cache.bytes() + self.traces.bytes() + self.blocks.bytes(),
            rows: self.updates.as_ref().map_or(0, HandlerUpdates::bytes) + self.walker.bytes(),
        }
    }

    /// Counts a loss.
    pub fn lost(&mut self, loss: Loss, count: u64) {
        self.tables.shared.lost.count(loss, count);
    }
}

/// Tables for what is to come, in half of the memory: the other half is for what is being saved.
fn empty_tables(settings: &Settings, acceptance: &Acceptance) -> Tables {
    let options = Options {
        lists: Config::default().precise(),
        window: settings.window,
        by_caller: settings.by_caller,
    };
    let coins = Generator::new(settings.seed);
    let mut tables = Tables::new(&options, settings.memory / 2, coins);
    tables.evenness = acceptance.evenness();
    tables
}
