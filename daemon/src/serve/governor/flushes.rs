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
    /// As much for the one that comes next, so far.
    next: (f64, Duration),
}

impl Flushes {
    /// A flush took `cost` of each processor, and ended `apart` after the one before.
    pub(super) fn add(&mut self, cost: Duration, apart: Duration) {
        self.last.push_back((cost.as_secs_f64(), apart));
        self.next = (0.0, Duration::ZERO);
        while let Some((_, first)) = self.last.front()
            && self.time() - *first >= SPREAD
        {
            self.last.pop_front();
        }
    }

    /// So much was spent on flushes since the last one ended, so long ago.
    pub(super) fn since(&mut self, cost: Duration, apart: Duration) {
        self.next = (cost.as_secs_f64(), apart);
    }

    /// Whether one has ended.
    pub(super) fn are_known(&self) -> bool {
        !self.last.is_empty()
    }

    /// The rate has changed, to so many times what it was. Until the next flush tells, flushes are
    /// taken to cost in proportion.
    pub(super) fn rate_changed(&mut self, factor: f64) {
        for (cost, _) in &mut self.last {
            *cost *= factor;
        }
    }

    /// The share of the machine that they take. One that is late, because it takes long, counts
    /// before it has ended.
    pub(super) fn share(&self) -> f64 {
        let cost: f64 = self.last.iter().map(|(cost, _)| cost).sum();
        let ended = cost / self.time().max(SPREAD).as_secs_f64();
        let (more, since) = self.next;
        if since < SPREAD {
            return ended;
        }
        ended.max((cost + more) / (self.time() + since).as_secs_f64())
    }

    fn time(&self) -> Duration {
        self.last.iter().map(|(_, apart)| *apart).sum()
    }
}
