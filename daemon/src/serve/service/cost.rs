//! The governor's looks at what profiling costs, and what comes of them.

use std::time::{Duration, Instant};

use super::{BUDGET, Service};
use crate::serve::governor::{Change, Governor, Spent};
use crate::serve::sampling::Sampling;
use crate::session::Session;
use crate::store;

/// What is said when the rate is no more the configured one.
const LOWERED: &str = "the rate was lowered to keep within the budget";

impl Service {
    /// A governor for this sampling, which goes on where the last one was if it can.
    pub(super) fn govern(&mut self, sampling: &Sampling) {
        let budget = self.config.governor.budget_percent.0 / 100.0;
        let choices = &sampling.choices;
        let mut governor = Governor::new(budget, choices.period, sampling.cost);
        match &self.governor {
            Some(before) if self.figures.clock == choices.clock_name() => {
                governor.resume(before.mean());
            }
            _ => governor.begin(sampling.interval()),
        }
        set_period(sampling, governor.mean());
        if governor.is_lowered() {
            tracing::info!("{LOWERED}");
        }
        self.figures.clock = choices.clock_name();
        self.governor = Some(governor);
    }

    pub(super) fn look_at_cost(&mut self, session: &mut Session) {
        let (cpu, interrupts, at) = self.spent;
        let now = (store::cpu_time(), session.interrupts, Instant::now());
        self.spent = now;
        let (Some(governor), Some(sampling)) = (&mut self.governor, &self.sampling) else {
            return;
        };
        let cpus = u32::try_from(sampling.setup.cpus.len()).unwrap_or(u32::MAX);
        let spent = Spent {
            machine: (now.2 - at) * cpus,
            collector: now.0.saturating_sub(cpu),
            interrupts: now.1.saturating_sub(interrupts),
        };
        let tables = &mut session.collector.tables;
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(0);
        let cost = nanoseconds(governor.cost()).saturating_mul(spent.interrupts);
        tables.count("overhead", "interrupts", spent.interrupts);
        tables.count("overhead", "interrupts_ns", cost);
        let budget = spent.machine.mul_f64(governor.budget());
        tables.count("overhead", "budget_ns", nanoseconds(budget));
        tables.count("overhead", "looks", 1);
        tables.count("overhead", "period_sum", governor.mean());
        let was_lowered = governor.is_lowered();
        let Some(change) = governor.look(spent) else {
            return;
        };
        let name = match change {
            Change::Lower(_) => "rate_lowered",
            Change::Raise(_) => "rate_raised",
        };
        tables.count("overhead", name, 1);
        self.figures.changed(change);
        set_period(sampling, governor.mean());
        // How far it is lowered is in each flush and in the status.
        match (was_lowered, governor.is_lowered()) {
            (false, true) => tracing::info!("{LOWERED}"),
            (true, false) => tracing::info!("the rate is as configured again"),
            _ => {}
        }
        if governor.is_at_its_end() {
            let why = "even the lowest rate costs more";
            self.troubles.begin(BUDGET, why);
        } else {
            self.troubles.end(BUDGET);
        }
    }
}

fn set_period(sampling: &Sampling, mean: u64) {
    if let Err(error) = sampling.running.set_period(mean) {
        tracing::warn!("the rate cannot be changed: {error}");
    }
}
