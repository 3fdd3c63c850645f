//! Where control went: directions of branches, and calls.
//!
//! A window that began behind a stall is met too often (`pipeline::blocks`). Branches and
//! calls of such a window count in part, with the probability that a coin would have; a coin has
//! the same bias, and throws away what was paid for (`docs/decisions/059-which-windows-count.md`).
//! Parts are fixed-point numbers, so that sums do not depend on their order.
//!
//! Events of one window are no independent draws, and windows have weights that differ. So the
//! square of what the events of each window weigh together is added up. The square of all weights
//! over this sum is the number of draws that a share is worth at least (L. Kish, Survey Sampling,
//! 1965, chapter 11): it takes the events of a window for one draw.

/// The weight of an event of a window that counts once, in full.
pub(super) const ONE: f64 = 65_536.0;

/// The weight of the events of a window that counts so often, in part.
pub(super) fn weight(times: u32, part: f64) -> u32 {
    // Saturates; a window that counts has a weight.
    ((f64::from(times) * part * ONE).round() as u32).max(1)
}

/// What the events of windows weigh together, squared and added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Squares {
    sum: f64,
    last_window: u32,
    /// Events of the last window.
    events: u32,
}

impl Squares {
    pub(super) fn add(&mut self, window: u32, weight: u32) {
        if self.last_window != window {
            (self.last_window, self.events) = (window, 0);
        }
        // What the square of (events + 1) weights is more than that of so many events.
        let weight = f64::from(weight) / ONE;
        self.sum += weight * weight * f64::from(2 * self.events + 1);
        self.events = self.events.saturating_add(1).min(u32::MAX / 4);
    }

    /// The sum of the squares.
    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of one weight tell as much as there are of them, whatever each of them saw; where
    /// weights differ they tell less.
    #[test]
    fn draws() {
        let draws = |windows: &[(u32, f64)]| {
            let (mut squares, mut all) = (Squares::default(), 0.0);
            for (window, &(events, part)) in (1..).zip(windows) {
                let weight = weight(1, part);
                for _ in 0..events {
                    squares.add(window, weight);
                    all += f64::from(weight) / ONE;
                }
            }
            all * all / squares.sum
        };
        assert_eq!(draws(&[(1, 1.0); 7]), 7.0);
        assert_eq!(draws(&[(20, 0.25); 7]), 7.0);
        assert_eq!(draws(&[(3, 0.5), (1, 0.5)]), 16.0 / 10.0);
        assert_eq!(draws(&[(1, 1.0), (1, 0.5)]), 2.25 / 1.25);
    }

    /// A part is never nothing, and counts as often as its window.
    #[test]
    fn weights() {
        assert_eq!(weight(2, 1.0), 1 << 17);
        assert_eq!(weight(1, 0.25), 1 << 14);
        assert_eq!(weight(1, 1e-9), 1);
    }
}
