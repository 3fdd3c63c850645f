//! `vcpid record`: one collection from start to end.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use counters::Counter;
use profiledb::Writer;
use sampler::{Pid, Target, probe};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::command::{self, Waiting};
use crate::output;
use crate::session::{Driver, Session, TICK, queue};
use crate::settings::args::{BounceArg, ClockArg, EngineArg, RecordArgs, VectorsArg};
use crate::settings::choices::{self, Choices};
use crate::settings::recording::Recording;
use crate::settings::watched;
use machine::system::memory;
use machine::system::processors::Processors;
use machine::system::procfs;
use pipeline::collector::{Collector, Settings, Totals};
use pipeline::raw;
use pipeline::steps::Steps;
use store::{Saved, Store};

/// Exit status when vcpid itself failed: it could not begin, or could not save.
pub(crate) const OWN_FAILURE: u8 = 125;

/// How long a command that was asked to end is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the collector sleeps at most: at a thousand samples a second, until as many wait as are
/// looked at together.
const LONGEST_SLEEP: Duration = Duration::from_secs(16);
/// How often it is looked at what changes seldom.
const SECOND: Duration = Duration::from_secs(1);

/// Runs a recording; returns the exit status.
pub(crate) fn run(args: &RecordArgs) -> Result<u8> {
    if let Some(status) = refused(args) {
        return Ok(status);
    }
    collect(args).map(|(status, _)| status)
}

/// The exit status where nothing is to be recorded, once it was said why.
fn refused(args: &RecordArgs) -> Option<u8> {
    if args.command.is_empty() && args.pid.is_empty() && !args.all {
        eprintln!(
            "vcpid: nothing to profile: name a command (vcpid record -- CMD), processes \
             (-p PID), or everything (-a)"
        );
        return Some(2);
    }
    if let Some(word) = args.command.first()
        && word.as_encoded_bytes().starts_with(b"-")
        && !follows_double_dash(&args.command)
    {
        eprintln!(
            "vcpid: there is no option '{}'; see 'vcpid record --help'",
            word.display()
        );
        return Some(2);
    }
    if let Some(missing) = missing_feature(args) {
        eprintln!("vcpid: {missing}");
        return Some(2);
    }
    if let Some(name) = args.command.first()
        && let Err(error) = command::resolve(name)
    {
        eprintln!("vcpid: {}", error.message);
        return Some(error.status);
    }
    None
}

/// Records; the exit status, and what was collected.
pub(crate) fn collect(args: &RecordArgs) -> Result<(u8, Totals)> {
    let wanted = Recording::from(args);
    let mut choices = Choices::new(&wanted)?;
    let _raised = choices::limits(&wanted, &choices)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("cannot handle signals")?;
    }
    // A file larger than this process may write is an error to report, not a way to die.
    let too_large = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, too_large).context("cannot handle signals")?;
    let waiting = match args.command.as_slice() {
        [] => None,
        command => Some(Waiting::spawn(command)?),
    };
    // The command has been started by now.
    memory::without_huge_pages();
    // Without the privilege it waits for its turn like others, and losses are counted.
    let _ = sampler::hasten();
    // Beside -a or -p the command only says how long to go on.
    let target = match &waiting {
        _ if args.all => Target::System,
        _ if !args.pid.is_empty() => Target::Processes(args.pid.iter().copied().map(Pid).collect()),
        Some(waiting) => Target::Command(Pid(waiting.pid().as_raw().unsigned_abs())),
        None => bail!("nothing to profile"),
    };
    let settings = choices.settings(&wanted);
    // The command waits before its exec: where something is refused, nothing has run, and
    // where sampling is, no file has been touched.
    let opened = choices
        .open(&wanted, &target)
        .and_then(|(config, sampler)| {
            let (writer, raw) = open_files(args, &wanted, &choices, &settings)?;
            Ok((config, sampler, writer, raw))
        });
    let (config, sampler, writer, raw) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            if let Some(waiting) = waiting {
                waiting.abandon();
            }
            return Err(error);
        }
    };
    let setup = sampler.setup().clone();
    if !args.quiet {
        for line in choices.lines(&setup) {
            eprintln!("vcpid: {line}");
        }
    }
    let (sender, batches) = sync_channel(queue(config.batch_bytes));
    let mut running = sampler.start(sender).context("cannot sample")?;
    let mut collector = Collector::new(settings);
    if let Some(raw) = raw {
        collector.write_raw(raw);
    }
    if let Some(handler) = running.handler() {
        collector.tell(handler);
    }
    if running.setup().vectors {
        if wanted.vectors != VectorsArg::Off {
            collector.expect_vectors();
        }
    } else if let Some(why) = &running.setup().no_vectors
        && !args.quiet
    {
        eprintln!("vcpid: no vector registers: {why}");
    } else if args.vectors.is_some_and(|of| of != VectorsArg::Off) && !args.quiet {
        eprintln!("vcpid: no vector registers: they need the engine bpf, and no --raw");
    }
    let mut sleep = LONGEST_SLEEP;
    if let Some(most) = choices::pairs(&wanted) {
        sleep = choices::PAIRED_SLEEP;
        let bounce = choices::bounce(&mut running, most);
        collector.bounce(bounce.context("cannot set breakpoints")?);
    } else if let Some(most) = choices::stepped(&wanted) {
        sleep = choices::PAIRED_SLEEP;
        collector.step(Steps::start(most).context("cannot step threads")?);
    } else if args.bounce != BounceArg::Off && !args.quiet {
        eprintln!("vcpid: no bounces: a raw recording cannot hold what they show");
    }
    if let Some(entries) = wanted
        .start_entries(&running)
        .context("cannot watch entries")?
    {
        sleep = choices::PAIRED_SLEEP;
        collector.watch_entries(entries);
    } else if args.entries != watched::EntriesArg::Off && !args.quiet {
        eprintln!("vcpid: no entries: a raw recording cannot hold what they show");
    }
    let store = Store::new(writer)?;
    let mut session = Session::new(&setup.cpus, collector, store, sleep);
    let pids: Vec<Pid> = args.pid.iter().copied().map(Pid).collect();
    session.scan(if args.all {
        procfs::all_pids()
    } else {
        pids.clone()
    });
    let child = match waiting {
        Some(waiting) => Some(waiting.go()?),
        None => None,
    };
    let mut ending = Ending {
        child,
        running: Some(running),
        stopped: false,
    };
    let mut driver = RecordDriver {
        args,
        pids,
        deadline: args
            .duration
            .map(|s| Instant::now() + Duration::from_secs_f64(s)),
        interrupted: &interrupted,
        ending: &mut ending,
        failing: false,
        processors: args.all.then(|| Processors::new(setup.cpus.clone())),
        next_second: Instant::now(),
    };
    session.collect(&batches, &mut driver)?;
    if let Some(stats) = ending.stats() {
        session.close_sampling(&stats);
    }
    let saved = finish(&mut session, args.raw.as_deref());
    let status = ending.status()?;
    if let Err(error) = &saved {
        eprintln!("vcpid: what was collected could not be saved: {error:#}");
    }
    let unsaved = match &saved {
        Ok(()) => None,
        Err(_) => Some(session.store.unsaved_samples(&session.collector)),
    };
    say_result(args, &choices, &session.collector.totals, unsaved);
    let status = if saved.is_ok() { status } else { OWN_FAILURE };
    Ok((status, session.collector.totals))
}

/// Makes both files, or neither: the raw recording first, which must not be there yet.
fn open_files(
    args: &RecordArgs,
    wanted: &Recording,
    choices: &Choices,
    settings: &Settings,
) -> Result<(Writer, Option<raw::Writer>)> {
    let raw = match &args.raw {
        Some(path) => Some(raw::Writer::create(
            path,
            &choices.header(wanted, settings),
        )?),
        None => None,
    };
    let writer = match &args.raw {
        Some(path) if is_same_file(path, &args.output) => Err(anyhow!(
            "{} is both the database (-o) and the raw recording (--raw): name two files",
            path.display()
        )),
        _ => {
            Writer::create_epoch(&args.output, &choices.epoch(wanted)).context(output::CANNOT_WRITE)
        }
    };
    let writer = writer.map(|mut writer| {
        writer.set_budget(args.hour_mib.map(|mib| mib << 20), rand::random());
        writer
    });
    if let (Err(_), Some(path)) = (&writer, &args.raw) {
        // Its header is all that it has; should it stay, the next recording says so.
        let _ = std::fs::remove_file(path);
    }
    Ok((writer?, raw))
}

/// Whether both are there, and one.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((of(one), of(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether `--` stands before the command: what looks like an option is meant then.
fn follows_double_dash(command: &[OsString]) -> bool {
    let words: Vec<OsString> = std::env::args_os().collect();
    let before = words.len().checked_sub(command.len() + 1);
    before
        .and_then(|index| words.get(index))
        .is_some_and(|word| word == "--")
}

/// What cannot be had with these arguments, or not in this version.
fn missing_feature(args: &RecordArgs) -> Option<&'static str> {
    if args.clock == ClockArg::Timer && args.engine == EngineArg::Ring {
        Some("the clock timer needs the engine bpf: leave --engine out, or use --clock cpu-clock")
    } else {
        None
    }
}

/// What ends a collection, and how it is brought to its end.
struct Ending {
    child: Option<command::Running>,
    running: Option<sampler::Running>,
    stopped: bool,
}

impl Ending {
    /// Asks sampling to stop; the readers' last batches still come.
    fn stop(&mut self) {
        self.stopped = true;
        if let Some(running) = &self.running {
            running.request_stop();
        }
    }

    /// What came of sampling, once its last batch has come.
    fn stats(&mut self) -> Option<sampler::Stats> {
        self.running.take().map(sampler::Running::stop)
    }

    /// The command's exit status, or success where there is none. A command that still runs is
    /// asked to end.
    fn status(mut self) -> Result<u8> {
        let Some(child) = &mut self.child else {
            return Ok(0);
        };
        if let Some(status) = child.try_wait()? {
            return Ok(command::exit_code(status));
        }
        child.terminate();
        let asked = Instant::now();
        let mut is_told = false;
        while asked.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait()? {
                return Ok(command::exit_code(status));
            }
            if !is_told && asked.elapsed() >= SECOND {
                eprintln!(
                    "vcpid: waiting for the command, which was asked to end, for a few seconds"
                );
                is_told = true;
            }
            std::thread::sleep(TICK);
        }
        eprintln!("vcpid: the command did not end at SIGTERM and is left running");
        Ok(128 + 15)
    }
}

/// A recording on its way.
struct RecordDriver<'a> {
    args: &'a RecordArgs,
    pids: Vec<Pid>,
    deadline: Option<Instant>,
    interrupted: &'a AtomicBool,
    ending: &'a mut Ending,
    /// The last flush failed.
    failing: bool,
    /// Those that are sampled, until it was said that they have changed; only of the whole machine
    /// can that be told.
    processors: Option<Processors>,
    /// When they are looked at next.
    next_second: Instant,
}

impl RecordDriver<'_> {
    /// A processor that was offline is not sampled any more: that is said, and shown by `vcpi
    /// status`.
    fn look_at_processors(&mut self, session: &mut Session) {
        let now = Instant::now();
        if now < self.next_second {
            return;
        }
        self.next_second = now + SECOND;
        let (Some(processors), Some(running)) = (&mut self.processors, &self.ending.running) else {
            return;
        };
        if self.ending.stopped {
            return;
        }
        if let Some(why) = processors.look(running) {
            eprintln!(
                "vcpid: {why}: what runs on those that came or went is not sampled; record anew"
            );
            let tables = &mut session.collector.tables;
            tables.count(Counter::ProcessorsChanged, 1);
            self.processors = None;
        }
    }

    /// A failure is said once, when it begins, and so is its end.
    fn say(&mut self, saved: Result<()>) {
        match (self.failing, &saved) {
            (false, Err(error)) => eprintln!(
                "vcpid: {error:#}; what was collected is kept in memory, and every flush tries again"
            ),
            (true, Ok(())) => eprintln!("vcpid: flushing works again; nothing was lost by it"),
            _ => {}
        }
        self.failing = saved.is_err();
    }
}

impl Driver for RecordDriver<'_> {
    fn look(&mut self, session: &mut Session) -> Result<()> {
        self.look_at_processors(session);
        let command_ended = match &mut self.ending.child {
            Some(child) => child.try_wait()?.is_some(),
            None => false,
        };
        let targets_ended =
            !self.pids.is_empty() && session.collector.loadmap.all_exited(&self.pids);
        let timeout = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline);
        if command_ended || targets_ended || timeout || self.interrupted.load(Ordering::Relaxed) {
            self.ending.stop();
        }
        Ok(())
    }

    fn flush(&mut self, session: &mut Session) {
        if let Err(error) = session.begin_flush() {
            self.say(Err(error.into()));
        }
    }

    fn saved(&mut self, _session: &mut Session, saved: Result<Saved, store::Error>) {
        self.say(saved.map(|_| ()).map_err(Into::into));
    }

    fn next_look(&self) -> Option<Instant> {
        self.deadline.filter(|_| !self.ending.stopped)
    }

    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.args.flush)
    }

    fn is_ending(&self) -> bool {
        self.ending.stopped
    }

    /// Nobody waits for a recording in vain.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// The last flush, and the ends of both files.
fn finish(session: &mut Session, raw: Option<&Path>) -> Result<()> {
    session.flush(&|| true)?;
    session.store.end()?;
    match (session.collector.take_raw(), raw) {
        (Some(writer), Some(path)) => writer
            .finish()
            .with_context(|| format!("cannot write {}", path.display())),
        _ => Ok(()),
    }
}

fn say_result(args: &RecordArgs, choices: &Choices, totals: &Totals, unsaved: Option<u64>) {
    let filtered = args.cgroup.is_some() || args.uid.is_some() || args.comm.is_some();
    if totals.samples == 0 && filtered {
        eprintln!(
            "vcpid: not one sample: nothing ran that --cgroup, --uid and --comm let through, or what did used \
             no processor time to speak of"
        );
    } else if totals.samples == 0 && !args.command.is_empty() {
        eprintln!(
            "vcpid: not one sample: the command used less processor time than a sample stands for (see --rate), \
             or it is one that the kernel keeps this user from watching (not readable, set-uid)"
        );
    }
    if totals.gone * 10 > totals.samples {
        eprintln!(
            "vcpid: {} of {} gave no values, because their processes ended before \
                 their pages could be checked; cycles are complete",
            totals.gone,
            output::count(totals.samples, "sample")
        );
    }
    if totals.unsampled * 20 > totals.samples {
        eprintln!(
            "vcpid: time worth {} has none: each thread is sampled by a clock of its own, which those \
             that end within an interval never hear; sample more often, or with the engine bpf",
            output::count(totals.unsampled, "sample")
        );
    }
    if totals.throttled > 0 {
        eprintln!(
            "vcpid: the kernel throttled sampling {} (kernel.perf_event_max_sample_rate \
                 is {}): times are underestimated; sample less often, or raise the limit",
            output::count(totals.throttled, "time"),
            probe::max_sample_rate().map_or_else(|| "unknown".to_owned(), |n| n.to_string()),
        );
    }
    if !args.quiet {
        let (collected, path) = (output::collected(totals), args.output.display());
        match unsaved {
            None => eprintln!("vcpid: {collected}; written to {path}"),
            Some(samples) => eprintln!(
                "vcpid: {collected}; not all of it is in {path}: {} could not be saved",
                output::count(samples, "sample")
            ),
        }
        if totals.lost * 100 > totals.samples {
            eprintln!(
                "vcpid: `vcpi status -i {}` says what was lost, and what to do",
                args.output.display()
            );
        }
        let affordable = choices.affordable.as_ref();
        if let Some(advice) = affordable.and_then(|rate| rate.advice(totals.samples)) {
            eprintln!("vcpid: {advice}");
        }
    }
}
