//! `vcpid record`: one collection from start to end.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profiledb::Writer;
use sampler::{Batch, Pid, Sampler, Target, probe};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::args::{ClockArg, ContextArg, EngineArg, RecordArgs};
use crate::choices::{self, Choices};
use crate::collector::{Collector, Settings};
use crate::command::{self, Waiting};
use crate::merge::Merge;
use crate::raw::{self, Entry};
use crate::store::{Store, wall_now};

/// Exit status when vcpid itself failed: it could not begin, or could not save.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Batches that may wait for the collector. With batches of some ten samples of 2.5 KB this is
/// well below 100 MB, and a flush of several seconds loses nothing.
const QUEUE: usize = 2048;
/// Pages of each CPU's ring: 4 MiB hold some 1,700 samples with their stack copies. Users without
/// privilege get what their allowance of locked memory permits.
const RING_PAGES: u32 = 1024;
/// How often the loop looks at what no batch announces: signals, the command, the time.
const TICK: Duration = Duration::from_millis(20);
/// How often images are looked at for changes of their file.
const CHORES: Duration = Duration::from_secs(1);
/// How long a command that was asked to end is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a recording; returns the exit status.
pub(crate) fn run(args: &RecordArgs) -> Result<u8> {
    if args.command.is_empty() && args.pid.is_empty() && !args.all {
        eprintln!(
            "vcpid: nothing to profile: name a command (vcpid record -- CMD), processes \
             (-p PID), or everything (-a)"
        );
        return Ok(2);
    }
    if let Some(word) = args.command.first()
        && word.as_encoded_bytes().starts_with(b"-")
        && !follows_double_dash(&args.command)
    {
        eprintln!(
            "vcpid: there is no option '{}'; see 'vcpid record --help'",
            word.display()
        );
        return Ok(2);
    }
    if let Some(missing) = missing_feature(args) {
        eprintln!("vcpid: {missing}");
        return Ok(2);
    }
    if let Some(name) = args.command.first()
        && let Err(error) = command::resolve(name)
    {
        eprintln!("vcpid: {}", error.message);
        return Ok(error.status);
    }
    let choices = Choices::new(args)?;
    let _raised = choices::limits(args, &choices)?;
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
    // Beside -a or -p the command only says how long to go on.
    let target = match &waiting {
        _ if args.all => Target::System,
        _ if !args.pid.is_empty() => Target::Processes(args.pid.iter().copied().map(Pid).collect()),
        Some(waiting) => Target::Command(Pid(waiting.pid().as_raw().unsigned_abs())),
        None => bail!("nothing to profile"),
    };
    let mut config = sampler::Config::new(target, choices.clock, choices.period);
    config.seed = choices.seed;
    config.stack_bytes = args.stack_bytes;
    config.ring_pages = RING_PAGES;
    config.engine = choices.engine;
    config.bpf.not_dumpable = args.allow_secrets;
    config.bpf.filter = choices::filter(args, choices.engine)?;
    let settings = Settings {
        window: args.window,
        capture: args.capture,
        allow_secrets: args.allow_secrets,
        by_caller: args.context == ContextArg::Caller,
        seed: choices.seed,
        memory: args.memory as usize * (1 << 20),
        clock_offset: wall_now().wrapping_sub(sampler::clock_now().cast_signed()),
    };
    // The command waits before its exec: where something is refused, nothing has run, and
    // where sampling is, no file has been touched.
    let opened = Sampler::open(&config)
        .context("cannot sample")
        .and_then(|sampler| {
            let writer = Writer::create_epoch(&args.output, &choices.epoch(args))
                .context("cannot write the database")?;
            let raw = match &args.raw {
                Some(path) => Some(raw::Writer::create(path, &choices.header(args, &settings))?),
                None => None,
            };
            Ok((sampler, writer, raw))
        });
    let (sampler, writer, raw) = match opened {
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
        choices.announce(&setup);
    }
    let (sender, batches) = sync_channel(QUEUE);
    let running = sampler.start(sender).context("cannot sample")?;
    let mut collector = Collector::new(settings);
    if let Some(raw) = raw {
        collector.write_raw(raw);
    }
    if let Some(handler) = running.handler() {
        collector.serve(handler);
    }
    let mut session = Session {
        args,
        merge: Merge::new(&setup.cpus),
        collector,
        store: Store::new(writer),
        cpus: setup.cpus.len(),
    };
    session.scan();
    let child = match waiting {
        Some(waiting) => Some(waiting.go()?),
        None => None,
    };
    let mut ending = Ending {
        child,
        running: Some(running),
    };
    session.collect(&batches, &mut ending, &interrupted)?;
    session.close_sampling(ending.stats());
    let saved = session.finish();
    let status = ending.status()?;
    if let Err(error) = &saved {
        eprintln!("vcpid: what was collected could not be saved: {error:#}");
    }
    session.say_result(saved.is_ok());
    Ok(if saved.is_ok() { status } else { OWN_FAILURE })
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
        Some("the clock timer needs the engine bpf: use --clock cycles or cpu-clock")
    } else if args.bounce {
        Some("this version has no bounce-back interrupts (--bounce)")
    } else {
        None
    }
}

/// What ends a collection, and how it is brought to its end.
struct Ending {
    child: Option<command::Running>,
    running: Option<sampler::Running>,
}

impl Ending {
    /// Asks sampling to stop; the readers' last batches still come.
    fn stop(&self) {
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
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                return Ok(command::exit_code(status));
            }
            std::thread::sleep(TICK);
        }
        eprintln!("vcpid: the command did not end at SIGTERM and is left running");
        Ok(128 + 15)
    }
}

/// A running collection.
struct Session<'a> {
    args: &'a RecordArgs,
    merge: Merge,
    collector: Collector,
    store: Store,
    cpus: usize,
}

impl Session<'_> {
    /// Reads the processes that run already. Their records come since before, so nothing is
    /// missed between.
    fn scan(&mut self) {
        let pids = if self.args.all {
            crate::procfs::all_pids()
        } else {
            self.args.pid.iter().copied().map(Pid).collect()
        };
        for pid in pids {
            let now = sampler::clock_now();
            let collector = &mut self.collector;
            collector.loadmap.scan(pid, now, &mut collector.images);
            self.collector.note(&Entry::Scan(pid, now));
        }
    }

    fn collect(
        &mut self,
        batches: &Receiver<Batch>,
        ending: &mut Ending,
        interrupted: &AtomicBool,
    ) -> Result<()> {
        let deadline = self
            .args
            .duration
            .map(|s| Instant::now() + Duration::from_secs_f64(s));
        let interval = Duration::from_secs_f64(self.args.flush);
        let mut next_flush = Instant::now() + interval;
        let mut next_chores = Instant::now() + CHORES;
        let mut next_look = Instant::now();
        let pids: Vec<Pid> = self.args.pid.iter().copied().map(Pid).collect();
        loop {
            match batches.recv_timeout(TICK) {
                Ok(batch) => self.take(batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if now >= next_look {
                next_look = now + TICK;
                let command_ended = match &mut ending.child {
                    Some(child) => child.try_wait()?.is_some(),
                    None => false,
                };
                let targets_ended = !pids.is_empty() && self.collector.loadmap.all_exited(&pids);
                let timeout = deadline.is_some_and(|deadline| now >= deadline);
                if command_ended || targets_ended || timeout || interrupted.load(Ordering::Relaxed)
                {
                    ending.stop();
                }
            }
            if now >= next_chores {
                next_chores = now + CHORES;
                self.collector.drop_changed_images();
            }
            // A failed flush is tried again at the next interval only: a full disk stays full.
            if now >= next_flush || (self.collector.tables.is_full() && !self.store.is_failing()) {
                next_flush = now + interval;
                self.flush_and_say();
            }
        }
        self.merge.finish_all();
        self.drain();
        Ok(())
    }

    fn take(&mut self, batch: Batch) {
        let tables = &mut self.collector.tables;
        tables.count("interval", "redraws", batch.intervals.len() as u64);
        tables.count("interval", "inherited_samples", batch.inherited);
        self.collector.lost("malformed_records", batch.malformed);
        self.merge.push(batch);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some((record, evidence)) = self.merge.pop() {
            self.collector.record(record, evidence);
        }
    }

    /// Counts what no batch could tell.
    fn close_sampling(&mut self, stats: Option<sampler::Stats>) {
        let Some(stats) = stats else { return };
        self.collector.lost("readers_failed", stats.readers_failed);
        self.collector
            .lost("undelivered_records", stats.undelivered);
        let tables = &mut self.collector.tables;
        tables.count("interval", "redraws_failed", stats.redraws_failed);
        tables.count("interval", "drains_displaced", stats.displaced);
    }

    fn flush(&mut self) -> Result<()> {
        self.collector.note(&Entry::Flush);
        self.store.measure(&mut self.collector.tables, self.cpus);
        self.store.flush(&mut self.collector)
    }

    /// A failure is said once, when it begins, and so is its end.
    fn flush_and_say(&mut self) {
        let was_failing = self.store.is_failing();
        match (was_failing, self.flush()) {
            (false, Err(error)) => eprintln!(
                "vcpid: {error:#}; what was collected is kept in memory, and every flush tries again"
            ),
            (true, Ok(())) => eprintln!("vcpid: flushing works again; nothing was lost by it"),
            _ => {}
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.store.end()?;
        match (self.collector.take_raw(), &self.args.raw) {
            (Some(raw), Some(path)) => raw
                .finish()
                .with_context(|| format!("cannot write {}", path.display())),
            _ => Ok(()),
        }
    }

    fn say_result(&self, saved: bool) {
        let totals = &self.collector.totals;
        if totals.samples == 0 && !self.args.command.is_empty() {
            eprintln!(
                "vcpid: not one sample: the command used no processor time to speak of, or it is \
                 one that the kernel keeps this user from watching (not readable, set-uid)"
            );
        }
        if totals.gone * 10 > totals.samples {
            eprintln!(
                "vcpid: {} of {} samples gave no values, because their processes ended before \
                 their pages could be checked; cycles are complete",
                totals.gone, totals.samples
            );
        }
        if totals.throttled > 0 {
            eprintln!(
                "vcpid: the kernel throttled sampling {} times (kernel.perf_event_max_sample_rate \
                 is {}): times are underestimated; sample less often, or raise the limit",
                totals.throttled,
                probe::max_sample_rate().map_or_else(|| "unknown".to_owned(), |n| n.to_string()),
            );
        }
        if !self.args.quiet {
            eprintln!(
                "vcpid: {} samples, {} values, {} lost; {} {}",
                totals.samples,
                totals.values,
                totals.lost,
                if saved {
                    "written to"
                } else {
                    "not all of it is in"
                },
                self.args.output.display()
            );
        }
    }
}
