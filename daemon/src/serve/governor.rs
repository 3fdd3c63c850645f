//! The governor: keeps what profiling costs within its budget, by the rate of samples.
//!
//! Cost is the processor time of this process (which reads, interprets and writes), the time of the
//! handler, which counts it, and the interrupts, each of which costs what a loop loses by it
//! (`Sampler::interrupt_cost`; that loop is not what is sampled, so the handler leaves it at once).
//! What gives way is the rate and not the length of windows: a long window brings more for its cost
//! than another interrupt does (`docs/decisions/061-long-windows.md`).
//!
//! Every [`STEP`] cost is looked at, over the looks since the last change and at most [`LOOKS`];
//! what flushes cost is spread over the time between them (`flushes`). Above the budget the mean
//! interval grows in proportion; below [`LOW`] of it, it shrinks towards what would cost [`AIM`] of
//! it. Between the two nothing changes. It is not waited so long where all of the last
//! [`FEW_LOOKS`] looks say the same: that more than [`GROSS`] budgets are spent, or less than
//! [`FAR`] of one, flushes included.
//!
//! A start costs much that later looks do not: reading what was sampled while it lasted, the
//! images of all processes. So it begins with a trial of [`TRIAL`] at the
//! configured rate, of which the interrupts and the handler are counted: if that many, with what
//! the collector usually spends on a sample, are too dear, the rate is lowered at once to what
//! keeps within the budget. The first look after that is left out, and in the first minute a gross
//! excess is acted on once.
//!
//! Cost is not the only bound. Where samples find no room, because the collector gets too little
//! processor time or waits for a slow disk, fewer are taken at once ([`Governor::overrun`]), and
//! the rate is raised again only after [`LOOKS`] looks without that, by [`MOST_SOON`] at most.
//!
//! Counts stay comparable, since the weight of a sample is the interval that led to it.

mod flushes;

use std::collections::VecDeque;
use std::time::Duration;

use flushes::Flushes;

/// The time between two looks.
pub(super) const STEP: Duration = Duration::from_secs(5);

/// Looks that are taken together.
const LOOKS: usize = 12;

/// Looks after which what all of them say is acted on, if it is far from the budget.
const FEW_LOOKS: usize = 3;

/// How many budgets are a gross excess, and what share of one is far below it.
const GROSS: f64 = 2.0;
const FAR: f64 = 0.25;

/// Looks after the start that see what the start has left to do.
const LEFT_OUT: usize = 1;

/// The share of the budget below which the rate is raised, and the one that is aimed at.
const LOW: f64 = 0.7;
const AIM: f64 = 0.85;

/// How long the configured rate is tried at the start.
pub(super) const TRIAL: Duration = Duration::from_secs(1);

/// What the collector spends on a sample, before that is known: about what it does in the first
/// seconds, with windows of 256 (48 to 76 us were seen).
const GUESS: Duration = Duration::from_micros(70);

/// The most that the interval changes at once, either way, and that it shrinks by after a few
/// looks.
const MOST_AT_ONCE: f64 = 4.0;
const MOST_SOON: f64 = 2.0;

/// How many times the configured interval the mean may become.
const MOST: u64 = 1000;

/// What was spent between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Time of all CPUs together.
    pub(super) machine: Duration,
    /// This process's processor time, without that of flushes.
    pub(super) collector: Duration,
    /// Interrupts, all CPUs together, whatever became of their samples.
    pub(super) interrupts: u64,
    /// Wake-ups that bring vector registers, each of which is another interrupt.
    pub(super) wakes: u64,
    /// The handler's time for those of which it made samples, all CPUs together.
    pub(super) handler: Duration,
}

/// What an interrupt takes on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Each {
    /// Of the interrupted program, without the handler.
    pub(super) interrupt: Duration,
    /// In the handler.
    pub(super) handler: Duration,
    /// In this process, without flushes.
    pub(super) collector: Duration,
}

/// A change of the mean interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Fewer samples: the new mean.
    Lower(u64),
    /// More samples: the new mean.
    Raise(u64),
}

/// The control law, which knows no clock and no machine.
#[derive(Debug)]
pub(super) struct Governor {
    /// The share of the machine that may be spent.
    budget: f64,
    /// What an interrupt costs.
    cost: Duration,
    /// The configured mean interval, which is the shortest.
    shortest: u64,
    mean: u64,
    looks: VecDeque<Spent>,
    flushes: Flushes,
    /// Looks since the start.
    age: usize,
    /// The rate was lowered since the start.
    was_lowered: bool,
    /// Looks since samples last found no room, if they ever did at this rate or a higher one.
    since_overrun: Option<usize>,
}

impl Governor {
    /// A governor that begins with the configured mean interval, in the clock's unit.
    pub(super) fn new(budget: f64, shortest: u64, cost: Duration) -> Self {
        Self {
            budget,
            cost,
            shortest,
            mean: shortest,
            looks: VecDeque::new(),
            flushes: Flushes::default(),
            age: 0,
            was_lowered: false,
            since_overrun: None,
        }
    }

    /// The mean interval that is to be used now.
    pub(super) fn mean(&self) -> u64 {
        self.mean
    }

    /// What an interrupt costs.
    pub(super) fn cost(&self) -> Duration {
        self.cost
    }

    /// The share of the machine that may be spent.
    pub(super) fn budget(&self) -> f64 {
        self.budget
    }

    /// Another budget, from now on.
    pub(super) fn set_budget(&mut self, budget: f64) {
        self.budget = budget;
    }

    /// Begins after a trial of the configured rate, whose interrupts are counted, and all that it
    /// may have cost besides is not: at that rate, or at one that keeps within the budget if the
    /// processors go on being as busy.
    pub(super) fn begin(&mut self, trial: Spent) {
        let each = (self.cost + GUESS).as_secs_f64();
        let wakes = trial.wakes as f64 * self.cost.as_secs_f64();
        let spent = trial.interrupts as f64 * each + wakes + trial.handler.as_secs_f64();
        let share = spent / trial.machine.as_secs_f64();
        let ratio = share / self.budget;
        if ratio > 1.0 {
            self.resume((self.shortest as f64 * ratio / AIM).round() as u64);
        }
    }

    /// Goes on, as far as may be, where another governor was; with another unit it cannot.
    pub(super) fn resume(&mut self, mean: u64) {
        self.mean = mean.clamp(self.shortest, self.longest());
    }

    /// Whether the rate is lower than it was configured.
    pub(super) fn is_lowered(&self) -> bool {
        self.mean > self.shortest
    }

    /// Whether there is no lower rate to go to.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.mean == self.longest()
    }

    fn longest(&self) -> u64 {
        self.shortest.saturating_mul(MOST)
    }

    /// The share of the machine that profiling takes at present; `None` before the first look.
    pub(super) fn share(&self) -> Option<f64> {
        let machine: Duration = self.looks.iter().map(|spent| spent.machine).sum();
        let spent: f64 = self.looks.iter().map(|spent| self.spent(spent)).sum();
        let flushes = self.flushes.share();
        (!machine.is_zero()).then(|| spent / machine.as_secs_f64() + flushes)
    }

    /// Seconds that were spent.
    fn spent(&self, spent: &Spent) -> f64 {
        let interrupts = (spent.interrupts + spent.wakes) as f64 * self.cost.as_secs_f64();
        spent.collector.as_secs_f64() + spent.handler.as_secs_f64() + interrupts
    }

    /// What an interrupt takes at present; `None` before the first look, and where there were none.
    pub(super) fn each(&self) -> Option<Each> {
        let sum = |of: fn(&Spent) -> Duration| self.looks.iter().map(of).sum::<Duration>();
        let interrupts: u64 = self.looks.iter().map(|spent| spent.interrupts).sum();
        let mean = |time: Duration| {
            let mean = time.as_nanos().checked_div(u128::from(interrupts))?;
            Some(Duration::from_nanos(u64::try_from(mean).ok()?))
        };
        Some(Each {
            interrupt: self.cost,
            handler: mean(sum(|spent| spent.handler))?,
            collector: mean(sum(|spent| spent.collector))?,
        })
    }

    /// Why the rate is what it is.
    pub(super) fn why(&self) -> &'static str {
        match (self.is_lowered(), self.is_overrun()) {
            (false, _) => "as configured",
            (true, true) => "lowered, since samples found no room",
            (true, false) => "lowered to keep within the budget",
        }
    }

    /// Takes note of a flush: what it took of each processor, and how long after the one before it
    /// ended.
    pub(super) fn flushed(&mut self, cost: Duration, apart: Duration) {
        self.flushes.add(cost, apart);
    }

    /// Takes note of what the next flush has cost so far of each processor, so long after the last
    /// one ended.
    pub(super) fn flushing(&mut self, cost: Duration, apart: Duration) {
        self.flushes.since(cost, apart);
    }

    /// Takes note that this share of the samples found no room, and says what is to be changed.
    pub(super) fn overrun(&mut self, share: f64) -> Option<Change> {
        self.since_overrun = Some(0);
        // As many as there is room for, and some less.
        let factor = 1.0 / (AIM * (1.0 - share).max(0.0));
        self.lengthen(factor.min(MOST_AT_ONCE))
    }

    /// Whether samples found no room of late.
    pub(super) fn is_overrun(&self) -> bool {
        self.since_overrun.is_some_and(|looks| looks < LOOKS)
    }

    /// Takes a look, and says what is to be changed for it.
    pub(super) fn look(&mut self, spent: Spent) -> Option<Change> {
        self.age = self.age.saturating_add(1);
        self.since_overrun = self.since_overrun.map(|looks| looks.saturating_add(1));
        if self.age <= LEFT_OUT {
            return None;
        }
        if self.looks.len() >= LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(spent);
        let mut factor = self.wanted()?;
        if self.is_overrun() && factor < 1.0 {
            return None;
        }
        if self.since_overrun.is_some() {
            factor = factor.max(1.0 / MOST_SOON);
        }
        self.lengthen(factor)
    }

    /// Makes the mean interval so many times as long.
    fn lengthen(&mut self, factor: f64) -> Option<Change> {
        let mean = (self.mean as f64 * factor).round() as u64;
        let mean = mean.clamp(self.shortest, self.longest());
        let before = std::mem::replace(&mut self.mean, mean);
        if mean == before {
            return None;
        }
        // What the old rate cost says nothing about the new one.
        self.looks.clear();
        self.flushes.rate_changed(before as f64 / mean as f64);
        if mean > before {
            self.was_lowered = true;
            return Some(Change::Lower(mean));
        }
        if mean == self.shortest {
            self.since_overrun = None;
        }
        Some(Change::Raise(mean))
    }

    /// By how much the mean interval should be longer, if it should not stay as it is.
    fn wanted(&self) -> Option<f64> {
        let ratio = self.share()? / self.budget;
        let whole = self.looks.len() >= LOOKS;
        if whole && !(LOW..=1.0).contains(&ratio) {
            return Some((ratio / AIM).clamp(1.0 / MOST_AT_ONCE, MOST_AT_ONCE));
        }
        let (least, greatest) = self.last_few()?;
        if least > GROSS && !(self.was_lowered && self.age <= LOOKS) {
            return Some((least / AIM).min(MOST_AT_ONCE));
        }
        (greatest < FAR && self.flushes.are_known()).then(|| (greatest / AIM).max(1.0 / MOST_SOON))
    }

    /// The least and the most of the last few looks, in budgets.
    fn last_few(&self) -> Option<(f64, f64)> {
        let first = self.looks.len().checked_sub(FEW_LOOKS)?;
        let flushes = self.flushes.share();
        let ratios = self.looks.range(first..).map(|spent| {
            let share = self.spent(spent) / spent.machine.as_secs_f64();
            (share + flushes) / self.budget
        });
        let start = (f64::INFINITY, 0.0_f64);
        Some(ratios.fold(start, |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        }))
    }
}

#[cfg(test)]
mod tests;
