//! What flushes cost. Each comes in one go and long after the one before, so a few looks either
//! miss it or see nothing else: it is kept apart, and spread over the time between flushes.

use std::collections::VecDeque;
use std::time::Duration;

/// Over so much time it is averaged at least: flushes that were asked for come close together.
const SPREAD: Duration = Duration::from_secs(60);

/// The last flushes.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// Seconds of each processor that a flush took, and how long after the one before it ended.
    last: VecDeque<(f64, Duration)>,
}

impl Flushes {
    /// A flush took `cost` of each processor, and ended `apart` after the one before.
    pub(super) fn add(&mut self, cost: Duration, apart: Duration) {
        self.last.push_back((cost.as_secs_f64(), apart));
        while let Some((_, first)) = self.last.front()
            && self.time() - *first >= SPREAD
        {
            self.last.pop_front();
        }
    }

    /// The rate has changed, to so many times what it was. Until the next flush tells, flushes are
    /// taken to cost in proportion.
    pub(super) fn rate_changed(&mut self, factor: f64) {
        for (cost, _) in &mut self.last {
            *cost *= factor;
        }
    }

    /// The share of the machine that they take; `None` before the first.
    pub(super) fn share(&self) -> Option<f64> {
        let cost: f64 = self.last.iter().map(|(cost, _)| cost).sum();
        let time = self.time().max(SPREAD);
        (!self.last.is_empty()).then(|| cost / time.as_secs_f64())
    }

    fn time(&self) -> Duration {
        self.last.iter().map(|(_, apart)| *apart).sum()
    }
}
