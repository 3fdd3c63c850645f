//! The thread that rolls up what is past: hours, days and weeks of the service's databases.
//!
//! It works in small pieces and rests after each, so that it takes no more than its part of the
//! governor's budget; and it has the processor after all others. Where a piece fails, for want of
//! room and the like, nothing is lost: the pieces before it are whole, and it is tried again later.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use profiledb::rollup::{Limits, RollUpStep, RollUps};
use profiledb::{Directory, Error};

use crate::output::chain;
use machine::system::clock::wall_now;

/// The part of the governor's budget that roll-ups may take. What they take is processor time of
/// this process, so the governor counts it, and samples less meanwhile.
const PART: f64 = 0.2;
/// How long it waits at first: a start has enough to do.
const START: Duration = Duration::from_secs(5);
/// How long it waits where nothing is to be done.
const IDLE: Duration = Duration::from_secs(60);
/// How long it waits after a failure.
const RETRY: Duration = Duration::from_secs(300);

/// The thread, which ends when this is dropped.
pub(super) struct Rolling {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// What the service tells the thread, and what it hears from it.
#[derive(Default)]
struct Orders {
    end: bool,
    /// The database that is written to.
    running: Option<PathBuf>,
    limits: Limits,
    /// The share of one processor that may be taken; 0 until the service samples.
    share: f64,
    /// Why the last piece failed.
    trouble: Option<String>,
}

impl Rolling {
    /// # Errors
    /// The system allows no more threads.
    pub(super) fn start(directory: Directory, limits: Limits) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        shared.lock().limits = limits;
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("roll-ups".to_owned());
        thread
            .spawn(move || work(directory, &own))
            .context("cannot start a thread")?;
        Ok(Self { shared })
    }

    /// Says which database is written to, and how much of all processors the service may take.
    pub(super) fn tell(&self, running: Option<&Path>, budget: f64, cpus: usize) {
        let mut orders = self.shared.lock();
        orders.running = running.map(Path::to_owned);
        orders.share = (budget * PART * cpus as f64).min(1.0);
    }

    /// Other limits, from now on.
    pub(super) fn limit(&self, limits: Limits) {
        self.shared.lock().limits = limits;
    }

    /// Why nothing is rolled up, if something is the matter.
    pub(super) fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }
}

impl Drop for Rolling {
    fn drop(&mut self) {
        self.shared.lock().end = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until the end; whether that has come.
    fn rest(&self, time: Duration) -> bool {
        let (orders, _) = self
            .changed
            .wait_timeout_while(self.lock(), time, |orders| !orders.end)
            .unwrap_or_else(PoisonError::into_inner);
        orders.end
    }
}

fn work(directory: Directory, shared: &Shared) {
    if let Err(error) = sampler::lower_priority() {
        tracing::debug!(%error, "roll-ups have the service's own priority");
    }
    let mut rollups = RollUps::new(directory);
    let mut rest = START;
    while !shared.rest(rest) {
        let (running, limits, share) = {
            let orders = shared.lock();
            (orders.running.clone(), orders.limits, orders.share)
        };
        if share <= 0.0 {
            rest = IDLE;
            continue;
        }
        let begun = (Instant::now(), cpu_time());
        let step = rollups.step(wall_now(), running.as_deref(), &limits);
        let cost = cpu_time().saturating_sub(begun.1);
        shared.lock().trouble = step.as_ref().err().map(|error| chain(error));
        rest = match step {
            Ok(RollUpStep::Idle) => IDLE,
            Ok(RollUpStep::Worked) => cost.div_f64(share).saturating_sub(begun.0.elapsed()),
            Ok(RollUpStep::Finished(what)) => {
                tracing::info!("{what}");
                cost.div_f64(share)
            }
            // Somebody else writes just now.
            Err(Error::Busy { .. }) => IDLE,
            Err(_) => RETRY,
        };
    }
}

/// Processor time of this thread; nothing where the kernel does not tell.
fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}
