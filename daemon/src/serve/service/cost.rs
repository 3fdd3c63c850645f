//! The governor's looks at what profiling costs, and what comes of them.

use std::time::{Duration, Instant};

use super::{BUDGET, LOSSES, Service};
use crate::serve::governor::{Change, Governor, Spent};
use crate::serve::losses::Counted;
use crate::serve::peers::Peers;
use crate::serve::sampling::Sampling;
use crate::serve::status::Figures;
use crate::session::Session;
use crate::store;

/// What has been spent up to a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at: Instant,
    /// Processor time of this process, and in it of its flushes and of readers.
    cpu: Duration,
    saving: Duration,
    readers: Duration,
    interrupts: u64,
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
        }
    }
}

impl Service {
    /// A governor for this sampling, which goes on where the last one was if it can, and else begins
    /// with a trial.
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
        let totals = &session.collector.totals;
        let lost = session.losses();
        let in_rings: u64 = ["ring_samples", "ring_records"]
            .iter()
            .filter_map(|name| lost.get(name))
            .sum();
        let (samples, without_room) = match sampling.handled() {
            Some(handled) => (handled.samples, handled.without_room),
            None => (totals.samples + in_rings, in_rings),
        };
        self.losses.look(Counted {
            at: Instant::now(),
            samples,
            values: totals.values,
            without_room,
            lost,
        });
        match self.losses.trouble() {
            Some(why) => self.troubles.begin(LOSSES, why),
            None => self.troubles.end(LOSSES),
        }
    }

    pub(super) fn look_at_cost(&mut self, session: &mut Session) {
        let now = Mark::now(self.sampling.as_ref(), session, &self.peers);
        let before = std::mem::replace(&mut self.spent, now);
        let (Some(governor), Some(sampling)) = (&mut self.governor, &self.sampling) else {
            return;
        };
        let saving = now.saving.saturating_sub(before.saving);
        // What readers ask for is theirs to answer for, and bounded for each of them: nobody shall
        // have others sampled less by asking.
        let readers = now.readers.saturating_sub(before.readers);
        let cpu = now.cpu.saturating_sub(before.cpu);
        let spent = Spent {
            machine: (now.at - before.at) * cpus(sampling),
            collector: cpu.saturating_sub(saving).saturating_sub(readers),
            interrupts: now.interrupts.saturating_sub(before.interrupts),
        };
        let tables = &mut session.collector.tables;
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(0);
        let cost = nanoseconds(governor.cost()).saturating_mul(spent.interrupts);
        tables.count("overhead", "interrupts", spent.interrupts);
        tables.count("overhead", "interrupts_ns", cost);
        let budget = spent.machine.mul_f64(governor.budget());
        tables.count("overhead", "budget_ns", nanoseconds(budget));
        tables.count("overhead", "readers_cpu_ns", nanoseconds(readers));
        tables.count("overhead", "looks", 1);
        tables.count("overhead", "period_sum", governor.mean());
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
        let (counter, word) = match change {
            Change::Lower(_) => ("rate_lowered", "lowered to keep within the budget"),
            Change::Raise(_) => ("rate_raised", "raised"),
        };
        tables.count("overhead", counter, 1);
        self.figures.changed(change);
        set_period(sampling, session, governor.mean());
        tracing::info!("the rate was {word}: {}", rate(sampling, governor));
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
    session
        .collector
        .tables
        .count("overhead", "starts_lowered", 1);
    figures.starts_lowered += 1;
    tracing::info!(
        "sampling begins at a lower rate to keep within the budget: {}",
        rate(sampling, governor)
    );
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
