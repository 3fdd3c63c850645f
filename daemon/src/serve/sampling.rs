//! Begins sampling with the best that there is, and notices when the machine has changed under it.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};
use sampler::{Batch, HandlerCounter, HandlerCounters, Running, Sampler, Setup, Target};

use crate::session::queue;
use crate::settings::affordable::ASSUMED_COST;
use crate::settings::args::{ClockArg, EngineArg};
use crate::settings::choices::Choices;
use crate::settings::recording::Recording;
use machine::system::clock::wall_now;
use machine::system::processors::Processors;
use machine::system::procfs;

/// How far the wall clock may be from where it was, by the clock of samples, before the times of
/// what is collected are wrong: 2 s in nanoseconds. Slewing moves both clocks alike.
const STEP: i64 = 2_000_000_000;

/// The handler's counters that together count its interrupts.
const INTERRUPTS: [HandlerCounter; 6] = [
    HandlerCounter::Samples,
    HandlerCounter::Own,
    HandlerCounter::Filtered,
    HandlerCounter::NoScratch,
    HandlerCounter::TimerInThread,
    HandlerCounter::TimerMoved,
];

/// What the handler has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handled {
    pub(super) interrupts: u64,
    /// Those of which samples were made, and of these those that found no room in its buffers.
    pub(super) samples: u64,
    pub(super) without_room: u64,
    /// Those that went without a way because half of a buffer waited.
    pub(super) crowded: u64,
    /// What it took for them, all CPUs together.
    pub(super) time: Duration,
    /// Threads that were woken up to bring vector registers.
    pub(super) wakes: u64,
}

/// Sampling that runs.
pub(super) struct Sampling {
    pub(super) wanted: Recording,
    pub(super) choices: Choices,
    pub(super) setup: Setup,
    pub(super) running: Running,
    /// What an interrupt costs.
    pub(super) cost: Duration,
    /// When that had been found out: samples from before were taken for it alone. By their clock,
    /// in nanoseconds.
    pub(super) begun: u64,
    /// Memory that the kernel set aside for the handler, which does not grow.
    pub(super) kernel_bytes: u64,
    /// What the handler had counted when it began; nothing without one.
    counted: Option<HandlerCounters>,
    /// Wall clock minus sample clock when it began, ns.
    offset: i64,
    processors: Processors,
}

impl Sampling {
    /// Begins. What does not work of what was configured is done without, and said.
    ///
    /// # Errors
    /// Not even the plainest way works.
    pub(super) fn start(wanted: Recording) -> Result<(Self, Receiver<Batch>)> {
        let (wanted, choices, batch_bytes, sampler) = open(wanted)?;
        let setup = sampler.setup().clone();
        for line in choices.lines(&setup) {
            tracing::info!("{line}");
        }
        let cost = cost(&sampler);
        let (sender, batches) = sync_channel(queue(batch_bytes));
        let begun = sampler::clock_now();
        let running = sampler.start(sender).context("cannot sample")?;
        let sampling = Self {
            processors: Processors::new(setup.cpus.clone()),
            counted: counters(&running),
            wanted,
            choices,
            setup,
            running,
            cost,
            begun,
            kernel_bytes: procfs::map_bytes(),
            offset: offset(),
        };
        Ok((sampling, batches))
    }

    /// For how long it has sampled.
    pub(super) fn age(&self) -> Duration {
        Duration::from_nanos(sampler::clock_now().saturating_sub(self.begun))
    }

    /// What the handler has counted since it began, if there is one that can tell. It counts all
    /// interrupts, those too of which nothing arrives here.
    pub(super) fn handled(&self) -> Option<Handled> {
        let (before, now) = (self.counted.as_ref()?, counters(&self.running)?);
        let sum = |counters: &[HandlerCounter]| -> u64 {
            let since = |of: &HandlerCounter| now.get(*of).saturating_sub(before.get(*of));
            counters.iter().map(since).sum()
        };
        Some(Handled {
            interrupts: sum(&INTERRUPTS),
            samples: sum(&[HandlerCounter::Samples]),
            without_room: sum(&[HandlerCounter::BufferFull, HandlerCounter::BufferBusy]),
            crowded: sum(&[HandlerCounter::Crowded]),
            time: Duration::from_nanos(sum(&[HandlerCounter::HandlerNs])),
            wakes: sum(&[HandlerCounter::VectorsAwaited]),
        })
    }

    /// What has changed since the last look so that sampling must begin anew.
    pub(super) fn outdated(&mut self) -> Option<&'static str> {
        let jump = offset().wrapping_sub(self.offset);
        if jump.unsigned_abs() > STEP.unsigned_abs() {
            return Some("the clock was set, or the machine was suspended");
        }
        self.processors.look(&self.running)
    }
}

/// What an interrupt costs. On a machine that is so busy that it seems to be nothing, it is taken
/// to be dear.
fn cost(sampler: &Sampler) -> Duration {
    let cost = sampler.interrupt_cost().unwrap_or_else(|error| {
        tracing::debug!(%error, "what an interrupt costs cannot be found out");
        Duration::ZERO
    });
    if cost.is_zero() { ASSUMED_COST } else { cost }
}

/// Opens what was asked for, or else the next plainer.
fn open(wanted: Recording) -> Result<(Recording, Choices, usize, Sampler)> {
    let first = match attempt(wanted.clone()) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    let plainer = [
        (EngineArg::Ring, wanted.clock),
        (EngineArg::Auto, ClockArg::Auto),
        (EngineArg::Ring, ClockArg::CpuClock),
    ];
    for (engine, clock) in plainer {
        let plain = Recording {
            engine,
            clock,
            // It is in the unit of the clock that was asked for.
            period: wanted.period.filter(|_| clock == wanted.clock),
            ..wanted.clone()
        };
        if let Ok(opened) = attempt(plain) {
            tracing::warn!("what was configured does not work, so it is done without: {first:#}");
            return Ok(opened);
        }
    }
    Err(first)
}

fn attempt(wanted: Recording) -> Result<(Recording, Choices, usize, Sampler)> {
    let mut choices = Choices::new(&wanted)?;
    let (config, sampler) = choices.open(&wanted, &Target::System)?;
    Ok((wanted, choices, config.batch_bytes, sampler))
}

fn counters(running: &Running) -> Option<HandlerCounters> {
    running.handler()?.counters().ok()
}

fn offset() -> i64 {
    wall_now().wrapping_sub(sampler::clock_now().cast_signed())
}
