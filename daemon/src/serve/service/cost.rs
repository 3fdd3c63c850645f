//! The governor's looks at what profiling costs, and what comes of them.

use std::time::{Duration, Instant};

use counters::{Counter, Loss};

use super::{BUDGET, Service};
use crate::serve::governor::{Change, Governor, STEP, Spent};
use crate::serve::losses::{CountedSoFar, LOSSES};
use crate::serve::peers::Peers;
use crate::serve::sampling::Sampling;
use crate::serve::status::Figures;
use crate::session::Session;
use consumers::events::lost::Lost;

/// Of fewer samples nothing is concluded.
const ENOUGH: u64 = 50;

/// The share of samples without room from which on fewer are taken.
const NO_ROOM: f64 = 0.03;

/// Samples that were taken up to a moment, and of these those that found no room in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    samples: u64,
    without_room: u64,
    /// Those that left out what they had no room for, and are no loss.
    crowded: u64,
}

impl Taken {
    fn so_far(sampling: &Sampling, session: &Session, lost: &Lost) -> Self {
        let in_rings = lost.of(Loss::RingSamples) + lost.of(Loss::RingRecords);
        match sampling.handled() {
            Some(handled) => Self {
                samples: handled.samples,
                without_room: handled.without_room,
                crowded: handled.crowded,
            },
            None => Self {
                samples: session.collector.totals.samples + in_rings,
                without_room: in_rings,
                crowded: 0,
            },
        }
    }

    /// The share that found no room since an earlier moment.
    fn share_since(&self, before: &Taken) -> f64 {
        let samples = self.samples.saturating_sub(before.samples);
        let all = |taken: &Taken| taken.without_room.saturating_add(taken.crowded);
        all(self).saturating_sub(all(before)) as f64 / samples.max(1) as f64
    }
}

/// What has been spent up to a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at: Instant,
    /// Processor time of this process, and in it of its flushes and of readers.
    cpu: Duration,
    saving: Duration,
    readers: Duration,
    interrupts: u64,
    /// Wake-ups that bring vector registers.
    wakes: u64,
    /// The handler's time.
    handler: Duration,
}

impl Mark {
    /// Nothing, at this moment.
    pub(super) fn zero(at: Instant) -> Self {
        Self {
            at,
            cpu: Duration::ZERO,
            saving: Duration::ZERO,
            readers: Duration::ZERO,
            interrupts: 0,
            wakes: 0,
            handler: Duration::ZERO,
        }
    }

    pub(super) fn now(sampling: Option<&Sampling>, session: &Session, peers: &Peers) -> Self {
        let handled = sampling.and_then(Sampling::handled);
        Self {
            at: Instant::now(),
            cpu: store::cpu_time(),
            saving: session.store.saving_time(),
            readers: peers.cpu_time(),
            // Where nothing is counted in the kernel, what arrives is.
            interrupts: handled.map_or(session.interrupts, |handled| handled.interrupts),
            wakes: handled.map_or(0, |handled| handled.wakes),
            handler: handled.map_or(Duration::ZERO, |handled| handled.time),
        }
    }
}

impl Service {
    /// A governor for this sampling, which goes on where the last one was if it can, and else
    /// begins with a trial.
    pub(super) fn govern(&mut self, sampling: &Sampling, session: &mut Session) {
        let budget = self.config.governor.budget_percent.0 / 100.0;
        let choices = &sampling.choices;
        let mut governor = Governor::new(budget, choices.period, sampling.cost);
        let before = self.governor.take();
        let before =
            before.filter(|_| !self.is_on_trial && self.figures.clock == choices.clock_name());
        self.is_on_trial = before.is_none();
        if let Some(before) = before {
            governor.resume(before.mean());
            begin_at(sampling, session, &governor, &mut self.figures);
        }
        self.figures.clock = choices.clock_name();
        self.governor = Some(governor);
    }

    /// Ends the trial: whether the configured rate will do is known well enough.
    pub(super) fn end_trial(&mut self, session: &mut Session) {
        self.is_on_trial = false;
        self.spent = Mark::now(self.sampling.as_ref(), session, &self.peers);
        if let (Some(governor), Some(sampling)) = (&mut self.governor, &self.sampling) {
            // What was sampled while the start went on counts, too.
            governor.begin(Spent {
                machine: sampling.age() * cpus(sampling),
                collector: Duration::ZERO,
                interrupts: self.spent.interrupts,
                wakes: self.spent.wakes,
                handler: self.spent.handler,
            });
            begin_at(sampling, session, governor, &mut self.figures);
        }
    }

    /// Tells the governor what a flush cost that has ended.
    pub(super) fn look_at_flush(&mut self, session: &Session) {
        let now = (Instant::now(), session.store.saving_time());
        let before = std::mem::replace(&mut self.flushed, now);
        if let (Some(governor), Some(sampling)) = (&mut self.governor, &self.sampling) {
            let cost = now.1.saturating_sub(before.1);
            governor.flushed(cost / cpus(sampling), now.0 - before.0);
        }
    }

    /// Sees whether much is lost, which is said once and shown for as long as it lasts.
    pub(super) fn look_at_losses(&mut self, session: &Session) {
        let Some(sampling) = &self.sampling else {
            return;
        };
        let lost = session.losses();
        let taken = Taken::so_far(sampling, session, &lost);
        self.losses.look(CountedSoFar {
            at: Instant::now(),
            samples: taken.samples,
            values: session.collector.totals.values,
            without_room: taken.without_room,
            lost,
        });
        match self.losses.trouble() {
            Some(why) => self.troubles.begin(LOSSES, why),
            None => self.troubles.end(LOSSES),
        }
    }

    /// Sees whether samples find room, and takes fewer of them at once where many do not: on a
    /// machine that leaves the collector no processor time, those few are all told.
    pub(super) fn look_at_room(&mut self, session: &mut Session) {
        let Some(sampling) = &self.sampling else {
            return;
        };
        let now = Taken::so_far(sampling, session, &session.losses());
        let before = self.taken;
        if now.samples.saturating_sub(before.samples) < ENOUGH && now.samples >= before.samples {
            return;
        }
        self.taken = now;
        if std::mem::take(&mut self.is_relieved) {
            // Most of these were taken before the rate was lowered.
            return;
        }
        let share = now.share_since(&before);
        // What the start loses says nothing of the rate that follows.
        if share < NO_ROOM || self.is_on_trial {
            return;
        }
        // What was spent until now is counted, and says nothing of the new rate.
        self.count_cost(session);
        self.next_step = Instant::now() + STEP;
        let (Some(governor), Some(sampling)) = (&mut self.governor, &self.sampling) else {
            return;
        };
        let Some(change) = governor.overrun(share) else {
            return;
        };
        // What waits would be in the way of what comes.
        session
            .collector
            .leave_out_windows_before(sampler::clock_now());
        self.is_relieved = true;
        let tables = &mut session.collector.tables;
        tables.count(Counter::RateLoweredForRoom, 1);
        let percent = share * 100.0;
        let why =
            format!("to what can be taken, since {percent:.0} % of the samples found no room");
        change_rate(sampling, session, governor, &mut self.figures, change, &why);
    }

    /// Counts what was spent since the last time, and has the governor see whether that is right.
    pub(super) fn look_at_cost(&mut self, session: &mut Session) {
        let Some(spent) = self.count_cost(session) else {
            return;
        };
        let now = self.spent;
        let (Some(governor), Some(sampling)) = (&mut self.governor, &self.sampling) else {
            return;
        };
        let flushing = now.saving.saturating_sub(self.flushed.1) / cpus(sampling);
        governor.flushing(flushing, now.at.saturating_duration_since(self.flushed.0));
        let change = governor.look(spent);
        if governor.is_at_its_end() {
            let why = "even the lowest rate costs more";
            self.troubles.begin(BUDGET, why);
        } else {
            self.troubles.end(BUDGET);
        }
        let Some(change) = change else {
            return;
        };
        let why = match change {
            Change::Lower(_) => "to keep within the budget",
            Change::Raise(_) => "as the budget allows",
        };
        change_rate(sampling, session, governor, &mut self.figures, change, why);
    }

    /// Counts what was spent since the last time.
    fn count_cost(&mut self, session: &mut Session) -> Option<Spent> {
        let now = Mark::now(self.sampling.as_ref(), session, &self.peers);
        let before = std::mem::replace(&mut self.spent, now);
        let (governor, sampling) = (self.governor.as_ref()?, self.sampling.as_ref()?);
        let saving = now.saving.saturating_sub(before.saving);
        // What readers ask for is theirs to answer for, and bounded for each of them: nobody shall
        // have others sampled less by asking.
        let readers = now.readers.saturating_sub(before.readers);
        let cpu = now.cpu.saturating_sub(before.cpu);
        let spent = Spent {
            machine: (now.at - before.at) * cpus(sampling),
            collector: cpu.saturating_sub(saving).saturating_sub(readers),
            interrupts: now.interrupts.saturating_sub(before.interrupts),
            wakes: now.wakes.saturating_sub(before.wakes),
            handler: now.handler.saturating_sub(before.handler),
        };
        let tables = &mut session.collector.tables;
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(0);
        let all = spent.interrupts.saturating_add(spent.wakes);
        let cost = nanoseconds(governor.cost()).saturating_mul(all);
        tables.count(Counter::Interrupts, spent.interrupts);
        tables.count(Counter::Wakes, spent.wakes);
        tables.count(Counter::InterruptsNs, cost);
        tables.count(Counter::OverheadHandlerNs, nanoseconds(spent.handler));
        let budget = spent.machine.mul_f64(governor.budget());
        tables.count(Counter::BudgetNs, nanoseconds(budget));
        tables.count(Counter::ReadersCpuNs, nanoseconds(readers));
        tables.count(Counter::Looks, 1);
        tables.count(Counter::PeriodSum, governor.mean());
        Some(spent)
    }
}

/// Has sampling begin at the governor's rate, and says so if it is not the configured one.
fn begin_at(
    sampling: &Sampling,
    session: &mut Session,
    governor: &Governor,
    figures: &mut Figures,
) {
    if !governor.is_lowered() {
        return;
    }
    set_period(sampling, session, governor.mean());
    session.collector.tables.count(Counter::StartsLowered, 1);
    figures.starts_lowered += 1;
    tracing::info!(
        "sampling begins at a lower rate to keep within the budget: {}",
        rate(sampling, governor)
    );
}

/// Has sampling go on at the rate that the governor changed to, counts that, and says so.
fn change_rate(
    sampling: &Sampling,
    session: &mut Session,
    governor: &Governor,
    figures: &mut Figures,
    change: Change,
    why: &str,
) {
    let (counter, word) = match change {
        Change::Lower(_) => (Counter::RateLowered, "lowered"),
        Change::Raise(_) => (Counter::RateRaised, "raised"),
    };
    session.collector.tables.count(counter, 1);
    figures.changed(change);
    set_period(sampling, session, governor.mean());
    tracing::info!("the rate was {word} {why}: {}", rate(sampling, governor));
}

/// The rate that is used, and the configured one.
fn rate(sampling: &Sampling, governor: &Governor) -> String {
    let Sampling { choices, .. } = sampling;
    let unit = choices.unit();
    let configured = match governor.is_lowered() {
        true => format!("configured: {}", choices.period),
        false => "as configured".to_owned(),
    };
    format!("a sample every {} {unit} ({configured})", governor.mean())
}

fn cpus(sampling: &Sampling) -> u32 {
    u32::try_from(sampling.setup.cpus.len())
        .unwrap_or(u32::MAX)
        .max(1)
}

fn set_period(sampling: &Sampling, session: &mut Session, mean: u64) {
    match sampling.running.set_period(mean) {
        Ok(()) => session.collector.set_mean_interval(mean),
        Err(error) => tracing::warn!("the rate cannot be changed: {error}"),
    }
}
