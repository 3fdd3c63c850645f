//! What is decided before anything is opened: engine, clock, interval, filter, limits.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use parameters::ValueKinds;
use profiledb::{Epoch, EpochSettings, KeyedBy, ListSettings};
use sampler::probe::{self, BpfRefusal, Calibration, Scope, Timer};
use sampler::{Clock, Engine, Filter, Sampler, Share, Target, VectorOptions};

use crate::session::{RING_PAGES, batch_bytes};
use crate::settings::affordable::{Affordable, MANY, ONE_IN, Work};
use crate::settings::args::{ClockArg, ContextArg, EngineArg, VectorsArg};
use crate::settings::recording::Recording;
use crate::settings::sysctl::{LimitFiles, Raised};
use machine::kernel::{self, Kernel};
use machine::system::clock::wall_now;
use machine::system::procfs;
use pipeline::bounce::Bounce;
use pipeline::collector::Settings;
use pipeline::raw;

/// How many times as many samples a reader waits for under the engine `bpf`, at most so many: its
/// samples bring what has to be looked at soon under the other one. A wake-up interrupts the CPU
/// that is sampled once more; but only then can the interval of a software clock be drawn anew, and
/// a loop that is in step with it stays so until then.
const PATIENCE: u32 = 32;
const MOST_SAMPLES: u32 = 160;

/// What a sample takes of a buffer at most, as a rule, in bytes: of any window, for each of its
/// instructions, and of the longest.
const SAMPLE_BYTES: u32 = 640;
const INSTRUCTION_BYTES: u32 = 18;
const MOST_SAMPLE_BYTES: u32 = 4096;

/// How large buffers are at least and at most.
const LEAST_BUFFER: u32 = 1 << 20;
const LARGEST_BUFFER: u32 = 8 << 20;

/// Of which samples vector registers are brought by `auto`: one in four, and so many a second at
/// most. Each ends the turn of the thread where others wait for the processor.
const AUTO_SHARE: f64 = 1.0 / ONE_IN as f64;
const MOST_WAKES: u32 = 100;
/// The least time between two is that of as many times as many.
const BURST: u32 = 8;

/// Bytes for what is known of programs, where that is not configured.
pub(crate) const PROGRAMS: usize = 128 << 20;

/// What is decided before anything is opened.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) engine: Engine,
    /// The engine bpf was wanted, and why it is not to be had.
    no_bpf: Option<BpfRefusal>,
    /// If bpf is the engine and is refused, ring is.
    may_do_without: bool,
    pub(crate) clock: Clock,
    /// Why this clock was taken, if the choice was left open.
    why_clock: Option<String>,
    pub(crate) period: u64,
    /// How often that was found to be affordable, if it was left open.
    pub(crate) affordable: Option<Affordable>,
    /// What to say of what was asked for, if it is dear.
    warning: Option<String>,
    pub(crate) seed: u64,
    cycles_per_unit: f64,
    units_per_second: f64,
}

/// How long the collector sleeps at most where blocks of samples bounce: their threads are to be
/// where they were.
pub(crate) const PAIRED_SLEEP: Duration = Duration::from_millis(500);

/// How many pairs of breakpoints are to be set a second, if any are. A raw recording cannot hold
/// what they show.
pub(crate) fn pairs(wanted: &Recording) -> Option<u32> {
    wanted.bounce.most().filter(|_| !wanted.is_raw)
}

/// How many threads are to be stepped a second, if any are. A raw recording cannot hold what that
/// shows.
pub(crate) fn stepped(wanted: &Recording) -> Option<u32> {
    wanted.bounce.stepped().filter(|_| !wanted.is_raw)
}

/// Whether vector registers can be brought: a raw recording cannot hold them.
fn can_bring_vectors(engine: Engine, wanted: &Recording) -> bool {
    engine == Engine::Bpf && !wanted.is_raw
}

/// What sets so many pairs of breakpoints a second.
pub(crate) fn bounce(running: &mut sampler::Running, most: u32) -> std::io::Result<Bounce> {
    probe::traps_are_told().map_err(std::io::Error::other)?;
    let reads_memory = running.setup().engine == Engine::Bpf;
    Bounce::start(running.breakpoints(), reads_memory, most)
}

impl Choices {
    pub(crate) fn new(wanted: &Recording) -> Result<Self> {
        let (clock, why_clock, cost) = match wanted.clock {
            ClockArg::Cycles => (Clock::Cycles, None, None),
            ClockArg::CpuClock => (Clock::CpuClock, None, None),
            ClockArg::Timer => (Clock::Timer, timer()?, None),
            ClockArg::Auto => cheaper_clock(),
        };
        // Where nothing tells, a nanosecond counts as a cycle.
        let hz = probe::cycles_per_second().map_or(1e9, |hz| hz as f64);
        let (per_second, cycles_per_unit) = match clock {
            Clock::Cycles => (hz, 1.0),
            Clock::CpuClock | Clock::Timer => (1e9, hz / 1e9),
        };
        // The rate is at most 1e5, so the period fits easily.
        let period_of = |rate: u32| (per_second / f64::from(rate)).round() as u64;
        // The clock timer has been found to work with bpf.
        let may_do_without = wanted.engine == EngineArg::Auto && clock != Clock::Timer;
        let no_bpf = may_do_without
            .then(probe::bpf_at_sight)
            .and_then(Result::err);
        let engine = match wanted.engine {
            EngineArg::Auto if no_bpf.is_some() => Engine::Ring,
            EngineArg::Auto | EngineArg::Bpf => Engine::Bpf,
            EngineArg::Ring => Engine::Ring,
        };
        let mut work = Work::of(engine, wanted.window);
        if wanted.vectors == VectorsArg::Auto && can_bring_vectors(engine, wanted) {
            work = work.with_vectors();
        }
        let (period, affordable) = match (wanted.period, wanted.rate) {
            (Some(period), _) => (period, None),
            (None, Some(rate)) => (period_of(rate), None),
            (None, None) => {
                let affordable = Affordable::here(clock, cost, work);
                (period_of(affordable.rate), Some(affordable))
            }
        };
        let rate = per_second / period.max(1) as f64;
        let many = affordable.is_none() && rate > f64::from(MANY);
        let warning =
            many.then(|| Affordable::here(clock, cost, work).warning(rate.round() as u32));
        let seed = wanted.seed.unwrap_or_else(rand::random);
        Ok(Self {
            engine,
            no_bpf,
            may_do_without,
            clock,
            why_clock,
            period,
            affordable,
            warning: warning.flatten(),
            seed,
            cycles_per_unit,
            units_per_second: per_second,
        })
    }

    /// A sampler of this target, and how it samples. Where bpf is refused and need not be, the
    /// engine is ring from now on: to try it for good shows more than to try it beforehand, and
    /// costs nothing.
    pub(crate) fn open(
        &mut self,
        wanted: &Recording,
        target: &Target,
    ) -> Result<(sampler::Config, Sampler)> {
        let config = self.sampling(wanted, target.clone())?;
        let error = match Sampler::open(&config) {
            Ok(sampler) => return Ok((config, sampler)),
            Err(error) => error,
        };
        // The target may be what is refused.
        let refused = self.engine == Engine::Bpf;
        let refusal = refused.then(probe::bpf).and_then(Result::err);
        let refusal = match refusal {
            Some(refusal) if self.may_do_without => refusal,
            Some(BpfRefusal { mend, .. }) => {
                return Err(error).with_context(|| format!("cannot sample (to mend it: {mend})"));
            }
            None => return Err(error).context("cannot sample"),
        };
        (self.engine, self.no_bpf) = (Engine::Ring, Some(refusal));
        let config = self.sampling(wanted, target.clone())?;
        let sampler = Sampler::open(&config).context("cannot sample")?;
        Ok((config, sampler))
    }

    /// How the sampler is to sample this target.
    fn sampling(&self, wanted: &Recording, target: Target) -> Result<sampler::Config> {
        let mut config = sampler::Config::new(target, self.clock, self.period);
        config.seed = self.seed;
        config.stack_bytes = wanted.stack_bytes;
        config.ring_pages = RING_PAGES;
        config.engine = self.engine;
        if self.engine == Engine::Bpf {
            // There is room for what comes while the reader has to wait for a processor.
            let late = config.wake_up_samples.saturating_mul(PATIENCE);
            config.bpf.buffer_bytes = buffer_bytes(late, wanted.window);
            config.wake_up_samples = late.min(MOST_SAMPLES);
        }
        config.batch_bytes = batch_bytes(config.wake_up_samples);
        config.bpf.not_dumpable = wanted.allow_secrets;
        config.bpf.frames = wanted.frames;
        config.bpf.followed = wanted.window.clamp(1, sampler::BpfOptions::MOST_FOLLOWED);
        config.bpf.share = Share::new(f64::from(wanted.ways) / 100.0);
        config.bpf.vectors = self.vectors(wanted);
        config.bpf.breakpoints = pairs(wanted).is_some();
        // Nothing else keeps it.
        config.bpf.placement = wanted.is_raw || self.capture(wanted).contains(ValueKinds::SCHED);
        config.bpf.filter = self.filter(wanted)?;
        Ok(config)
    }

    /// The kinds of values. Without vector registers nearly all values of the kind `vector` would
    /// be unknown ones, so it is taken by default only with them.
    pub(crate) fn capture(&self, wanted: &Recording) -> ValueKinds {
        let brings_vectors = || self.vectors(wanted).is_some_and(|of| of.share.is_some());
        wanted.capture.unwrap_or_else(|| match brings_vectors() {
            true => ValueKinds::default().with(ValueKinds::VECTOR),
            false => ValueKinds::default(),
        })
    }

    /// Of which samples vector registers are brought: of none, where only breakpoints bring
    /// them.
    fn vectors(&self, wanted: &Recording) -> Option<VectorOptions> {
        let rate = self.per_second(self.period);
        let (share, most) = match wanted.vectors {
            _ if !can_bring_vectors(self.engine, wanted) => return None,
            VectorsArg::Off if wanted.sets_breakpoints() => (None, MOST_WAKES),
            VectorsArg::Off => return None,
            VectorsArg::Auto => (Some(AUTO_SHARE), MOST_WAKES),
            VectorsArg::Most(most) => (Some(1.0), most),
        };
        Some(VectorOptions {
            // What a coin chooses is even; what comes too often for the limit is not.
            share: share.map(|share| Share::new(share.min(f64::from(most) / rate))),
            most: most.saturating_mul(BURST).min(10_000),
        })
    }

    /// What else must hold of a thread for it to be sampled.
    fn filter(&self, wanted: &Recording) -> Result<Filter> {
        let filter = Filter {
            cgroup: wanted.cgroup.as_deref().map(cgroup_id).transpose()?,
            euid: wanted.uid,
            comm: wanted.comm.clone().map(String::into_bytes),
        };
        if filter == Filter::default() || self.engine == Engine::Bpf {
            return Ok(filter);
        }
        match &self.no_bpf {
            Some(BpfRefusal { why, mend }) => bail!(
                "--cgroup, --uid and --comm need the engine bpf, which does not work here: {why}; to mend \
                 it: {mend}"
            ),
            None => {
                bail!("--cgroup, --uid and --comm need the engine bpf: leave out --engine ring")
            }
        }
    }

    /// What the collector is asked to do.
    pub(crate) fn settings(&self, wanted: &Recording) -> Settings {
        Settings {
            window: wanted.window,
            capture: self.capture(wanted),
            allow_secrets: wanted.allow_secrets,
            by_caller: wanted.context == ContextArg::Caller,
            seed: self.seed,
            deny: Vec::new(),
            callers: wanted.frames,
            per_process: true,
            memory: wanted.memory as usize * (1 << 20),
            programs: PROGRAMS,
            clock_offset: wall_now().wrapping_sub(sampler::clock_now().cast_signed()),
            mean_interval: (self.clock != Clock::Timer).then_some(self.period),
            processor: procfs::processor_flags().unwrap_or_default(),
        }
    }

    /// Samples a second and CPU, with this mean interval in the clock's unit.
    pub(crate) fn per_second(&self, mean: u64) -> f64 {
        self.units_per_second / mean.max(1) as f64
    }

    pub(crate) fn unit(&self) -> &'static str {
        match self.clock {
            Clock::Cycles => "cycles",
            Clock::CpuClock | Clock::Timer => "ns",
        }
    }

    pub(crate) fn clock_name(&self) -> &'static str {
        match self.clock {
            Clock::Cycles => "cycles",
            Clock::CpuClock => "cpu-clock",
            Clock::Timer => "timer",
        }
    }

    pub(crate) fn engine_name(&self) -> &'static str {
        match self.engine {
            Engine::Ring => "ring",
            Engine::Bpf => "bpf",
        }
    }

    /// What was chosen, in a line, and before it what is done without.
    pub(crate) fn lines(&self, setup: &sampler::Setup) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(BpfRefusal { why, mend }) = &self.no_bpf {
            lines.push(format!(
                "the engine bpf does not work here, so fewer values are known: {why}"
            ));
            lines.push(format!("to mend it: {mend}"));
        }
        let mut line = format!("engine {}, clock {}", self.engine_name(), self.clock_name());
        if let Some(why) = &self.why_clock {
            line += &format!(" ({why})");
        }
        line += &format!(
            ", a sample every {} {} on average",
            self.period,
            self.unit()
        );
        if let Some(affordable) = &self.affordable {
            line += &format!(" ({})", affordable.why());
        }
        if setup.user_only {
            line += "; user mode only (kernel.perf_event_paranoid allows this user no more)";
        }
        lines.push(line);
        lines.extend(self.warning.clone());
        lines
    }

    pub(crate) fn header(&self, wanted: &Recording, settings: &Settings) -> raw::Header {
        let epoch = self.epoch(wanted);
        raw::Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: epoch.started,
            host: epoch.host,
            kernel: epoch.kernel,
            kernel_build_id: kernel::build_id(),
            kernel_text: Kernel::read().text().0,
            command: epoch.command,
            engine: epoch.engine,
            clock: epoch.clock,
            unit: epoch.unit,
            cycles_per_unit: epoch.cycles_per_unit,
            period: epoch.period,
            window: settings.window,
            capture: settings.capture.to_string(),
            by_caller: settings.by_caller,
            seed: settings.seed,
            allow_secrets: settings.allow_secrets,
            clock_offset: settings.clock_offset,
            own_pid: std::process::id(),
            processor: settings.processor.clone(),
        }
    }

    pub(crate) fn epoch(&self, wanted: &Recording) -> Epoch {
        let read = |path: &str| {
            std::fs::read_to_string(path).map_or_else(|_| String::new(), |s| s.trim().to_owned())
        };
        let settings = EpochSettings {
            seed: Some(self.seed),
            capture: Some(self.capture(wanted).to_string()),
            context: Some(match wanted.context {
                ContextArg::None => KeyedBy::None,
                ContextArg::Caller => KeyedBy::Caller,
            }),
            stack_bytes: Some(wanted.stack_bytes),
            ..of_this_version()
        };
        Epoch {
            started: wall_now(),
            ended: None,
            host: read("/proc/sys/kernel/hostname"),
            kernel: read("/proc/sys/kernel/osrelease"),
            command: wanted.command.clone(),
            engine: self.engine_name().to_owned(),
            clock: self.clock_name().to_owned(),
            unit: self.unit().to_owned(),
            cycles_per_unit: self.cycles_per_unit,
            period: self.period,
            window: wanted.window,
            settings,
        }
    }
}

/// What is the same of all epochs that this version writes.
pub(crate) fn of_this_version() -> EpochSettings {
    let lists = hotlist::Config::default();
    EpochSettings {
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        hotlist: Some(ListSettings {
            capacity: u32::try_from(lists.capacity()).unwrap_or(u32::MAX),
            method: "counting, eviction by weight".to_owned(),
        }),
        ..EpochSettings::default()
    }
}

/// The hardware's cycles, unless there are none or their interrupts are too dear; why, and what an
/// interrupt costs if that was looked at.
fn cheaper_clock() -> (Clock, Option<String>, Option<Duration>) {
    if probe::probe_clock(Clock::Cycles, Scope::Own).is_err() {
        let why = "no hardware cycles here; 'vcpid check' says why";
        return (Clock::CpuClock, Some(why.to_owned()), None);
    }
    let costs = probe::calibrate();
    let clock = costs.choice().unwrap_or(Clock::Cycles);
    (clock, why_by_cost(&costs), costs.cost(clock))
}

/// Why one of two clocks is taken; `None` where there are no two.
pub(crate) fn why_by_cost(costs: &Calibration) -> Option<String> {
    let (cycles, cpu_clock) = (costs.cycles.as_ref().ok()?, costs.cpu_clock.as_ref().ok()?);
    Some(format!(
        "an interrupt costs {cycles:.1?} by cycles, {cpu_clock:.1?} by cpu-clock"
    ))
}

/// Makes sure of the clock `timer`; says what else there is to say of it.
fn timer() -> Result<Option<String>> {
    match probe::timer() {
        Ok(Timer { pinned: true }) => Ok(None),
        Ok(Timer { pinned: false }) => Ok(Some(LOOSE_TIMERS.to_owned())),
        Err(BpfRefusal { why, mend }) => {
            bail!("the clock timer does not work here: {why}; to mend it: {mend}")
        }
    }
}

/// What is lost with [`Clock::Timer`] on older kernels.
pub(crate) const LOOSE_TIMERS: &str = "before Linux 6.7 a timer may be moved to another CPU while its \
                                       own is idle, and what it finds there is lost and counted";

/// Puts back what an earlier run has left raised, and raises the kernel's limits if that is
/// allowed.
pub(crate) fn limits(wanted: &Recording, choices: &Choices) -> Result<Option<Raised>> {
    let places = LimitFiles::default();
    match places.mend() {
        Ok(true) => eprintln!("vcpid: limits that an earlier run had raised were put back"),
        Ok(false) => {}
        Err(error) => eprintln!("vcpid: {error:#}"),
    }
    if !wanted.allow_sysctl {
        return Ok(None);
    }
    let per_second = match choices.clock {
        Clock::Cycles => probe::cycles_per_second().unwrap_or(1_000_000_000),
        Clock::CpuClock => 1_000_000_000,
        // The kernel's limits are those of events.
        Clock::Timer => return Ok(None),
    };
    let raised = places.raise(per_second / choices.period.max(1))?;
    if let Some(raised) = &raised
        && !wanted.quiet
    {
        eprintln!("vcpid: {raised}");
    }
    Ok(raised)
}

/// The size of a CPU's buffer of which half holds so many samples, if there may be such a large
/// one.
fn buffer_bytes(samples: u32, window: u32) -> u32 {
    let of_window = INSTRUCTION_BYTES.saturating_mul(window);
    let of_sample = SAMPLE_BYTES
        .saturating_add(of_window)
        .min(MOST_SAMPLE_BYTES);
    let wanted = samples.saturating_mul(2 * of_sample);
    // The largest is a power of two.
    let clamped = wanted.clamp(LEAST_BUFFER, LARGEST_BUFFER);
    clamped.next_power_of_two()
}

/// The id of a control group, by its folder.
fn cgroup_id(path: &Path) -> Result<u64> {
    let group = path.display();
    let kind = statfs(path).with_context(|| format!("cannot find the control group {group}"))?;
    if kind.filesystem_type() != CGROUP2_SUPER_MAGIC {
        bail!(
            "{group} is no control group of version 2, which are the folders of a file system of type cgroup2 \
             (findmnt -t cgroup2 tells where it is mounted)"
        );
    }
    let found = std::fs::metadata(path);
    Ok(found
        .with_context(|| format!("cannot look at {group}"))?
        .ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buffers are powers of two that are large enough for the wake-ups that are asked for, within
    /// limits.
    #[test]
    fn sizes_of_buffers() {
        let sizes = |window| {
            [1, 333, 1333, 3333, u32::MAX].map(|samples| buffer_bytes(samples, window) >> 20)
        };
        assert_eq!(sizes(16), [1, 1, 4, 8, 8]);
        assert_eq!(sizes(256), [1, 4, 8, 8, 8]);
        assert_eq!(sizes(1024), sizes(256));
    }
}
