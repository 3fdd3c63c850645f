//! How many executions lie so far from their neighbours that no window sees both.
//!
//! Two kinds of events tell that. One in the first quarter of a window leaves three quarters of it
//! for the next one to come. One in the last quarter has three quarters behind it, in which the one
//! before was. As many executions have none behind them as have none before them.
//!
//! The late ones are those that have forgotten where windows begin. Of a loop of twelve rounds
//! whose function is called once in a while, windows mostly begin in the long stretch before it;
//! the first quarter of such a window hardly holds the last round, so the early ones show too few.
//! But a window that ends early has no late ones. Where all end in the long stretch, none that
//! begins behind the first round sees another loop, and only the early ones show that.
//!
//! So it is what the early ones show, or what the late ones do where that is more.

/// Events near the beginnings and ends of windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Apart {
    /// Events in the first quarter of a window, and those of them that had a next one.
    early: u64,
    returned: u64,
    /// Events in the last quarter, and those of them that are the first of their window.
    late: u64,
    opened: u64,
}

/// Late events tell more than early ones do where there are so many of them, and they show more by
/// so many standard errors.
const SOME: u64 = 16;
const ERRORS: f64 = 2.0;

impl Apart {
    /// Takes notice of an event at this instruction of a window of `long` that counts so often,
    /// and of the instruction of the event before; `None` of the window's first.
    pub(crate) fn came_by(&mut self, (before, depth): (Option<u32>, u32), long: u32, times: u32) {
        let times = u64::from(times);
        let is_early = |depth: u32| u64::from(depth <= long / 4);
        self.early += is_early(depth) * times;
        self.returned += before.map_or(0, is_early) * times;
        if depth > long - long / 4 {
            self.late += times;
            self.opened += u64::from(before.is_none()) * times;
        }
    }

    /// The part of the executions that has no other one in its window, as a ratio: those that have
    /// none, and all.
    fn part(&self) -> (u64, u64) {
        let by_early = (self.early.saturating_sub(self.returned), self.early.max(1));
        let by_late = (self.opened, self.late.max(1));
        let [early, late] = [by_early, by_late].map(|(alone, all)| alone as f64 / all as f64);
        // Of few events the error is told as if one more of each kind had been met (A. Agresti and
        // B. A. Coull, The American Statistician 52, 1998).
        let (alone, all) = (self.opened as f64 + 2.0, self.late as f64 + 4.0);
        let error = (alone / all * (1.0 - alone / all) / all).sqrt();
        if self.late >= SOME && late - early > ERRORS * error {
            by_late
        } else {
            by_early
        }
    }

    /// How many executions no window saw as later events, where so many were seen.
    pub(crate) fn unseen(&self, seen: u64) -> u64 {
        let (alone, all) = self.part();
        let others = all.saturating_sub(alone).max(1);
        let unseen = u128::from(seen) * u128::from(alone) / u128::from(others);
        u64::try_from(unseen).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of windows of 200 instructions, one for each of those that it may begin with, in a program
    /// that has an event at each instruction that `is_event` tells.
    fn of_windows(begins: impl Iterator<Item = u32>, is_event: impl Fn(u32) -> bool) -> Apart {
        let mut apart = Apart::default();
        for begin in begins {
            let mut before = None;
            for depth in (1..=200).filter(|depth| is_event(begin + depth)) {
                apart.came_by((before, depth), 200, 1);
                before = Some(depth);
            }
        }
        apart
    }

    /// Twelve rounds of eight instructions in each thousand: one in twelve has no other one near,
    /// wherever windows begin.
    #[test]
    fn where_windows_begin() {
        let round =
            |at: u32| at % 1_000 >= 900 && at % 1_000 < 996 && (at % 1_000 - 900).is_multiple_of(8);
        for begins in [0..1_000, 0..900, 700..900, 880..990] {
            let apart = of_windows(begins.clone(), round);
            let unseen = apart.unseen(1_100);
            assert!((80..=120).contains(&unseen), "{unseen} of {begins:?}");
        }
    }

    /// Few late events tell nothing, and where there are none the early ones tell.
    #[test]
    fn few() {
        let mut apart = Apart::default();
        for _ in 0..100 {
            apart.came_by((None, 10), 200, 1);
            apart.came_by((Some(10), 60), 200, 1);
        }
        assert_eq!(apart.unseen(1_000), 0);
        apart.came_by((None, 180), 200, 1);
        assert_eq!(apart.unseen(1_000), 0);
        for _ in 0..100 {
            apart.came_by((None, 10), 200, 1);
        }
        assert_eq!(apart.unseen(1_000), 1_000);
        assert_eq!(Apart::default().unseen(1_000), 0);
    }
}
