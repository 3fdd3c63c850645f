//! Where control went: directions of branches, and calls.
//!
//! A window that began behind a stall is met too often ([`crate::blocks`]). Branches and calls of
//! such a window count in part, with the probability that a coin would have; a coin has the same
//! bias, and throws away what was paid for (`docs/decisions/059-which-windows-count.md`). Parts are
//! fixed-point numbers, so that sums do not depend on their order.
//!
//! Events of one window are no independent draws, and windows have weights that differ. So the
//! square of what the events of each window weigh together is added up. The square of all weights
//! over this sum is the number of draws that a share is worth at least (L. Kish, Survey Sampling,
//! 1965, chapter 11): it takes the events of a window for one draw.

use super::{NONE, Owner, Pc, PcId, SiteId, Tables};
use profiledb::Loss;

/// The weight of an event of a window that counts once, in full.
const ONE: f64 = 65_536.0;

/// The weight of the events of a window that counts so often, in part.
pub(super) fn weight(times: u32, part: f64) -> u32 {
    // Saturates; a window that counts has a weight.
    ((f64::from(times) * part * ONE).round() as u32).max(1)
}

/// What the events of windows weigh together, squared and added up.
#[derive(Clone, Copy, Debug, Default)]
struct Squares {
    sum: f64,
    last_window: u32,
    /// Events of the last window.
    events: u32,
}

impl Squares {
    fn add(&mut self, window: u32, weight: u32) {
        if self.last_window != window {
            (self.last_window, self.events) = (window, 0);
        }
        // What the square of (events + 1) weights is more than that of so many events.
        let weight = f64::from(weight) / ONE;
        self.sum += weight * weight * f64::from(2 * self.events + 1);
        self.events = self.events.saturating_add(1).min(u32::MAX / 4);
    }
}

/// Directions of a branch: a line of the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Branch {
    /// Times that it was taken, that it was not, and that it is not known.
    times: [u64; 3],
    weights: [u64; 3],
    /// Of what is known.
    squares: Squares,
}

const _: () = assert!(size_of::<Branch>() == 64);

/// Calls from one site to one callee.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    times: u64,
    weight: u64,
    squares: Squares,
}

impl Branch {
    fn add(&mut self, taken: Option<bool>, window: u32, weight: u32) {
        let place = match taken {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        };
        self.times[place] += 1;
        self.weights[place] += u64::from(weight);
        if taken.is_some() {
            self.squares.add(window, weight);
        }
    }

    fn told(&self) -> profiledb::Directions {
        let [taken, not_taken, unknown] = self.times;
        profiledb::Directions {
            taken,
            not_taken,
            unknown,
            weights: self.weights.map(|weight| weight as f64 / ONE),
            squares: Some(self.squares.sum),
        }
    }
}

impl Calls {
    fn add(&mut self, window: u32, weight: u32) {
        self.times += 1;
        self.weight += u64::from(weight);
        self.squares.add(window, weight);
    }

    fn told(&self) -> profiledb::Calls {
        profiledb::Calls {
            times: self.times,
            weight: self.weight as f64 / ONE,
            squares: Some(self.squares.sum),
        }
    }
}

impl Tables {
    /// Counts a direction of a conditional branch. What finds no room is counted.
    #[inline]
    pub(crate) fn add_branch(&mut self, site: SiteId, taken: Option<bool>) {
        let Some(of_site) = self.sites.get(site.0 as usize) else {
            return;
        };
        let (window, weight) = (self.opened, self.weight);
        match self.branches.get_mut(of_site.branch as usize) {
            Some(branch) => branch.add(taken, window, weight),
            None => self.new_branch(site, taken),
        }
    }

    #[inline(never)]
    fn new_branch(&mut self, site: SiteId, taken: Option<bool>) {
        let new = u32::try_from(self.branches.len()).unwrap_or(NONE);
        if self.is_over_full() || new == NONE {
            return self.lost.count(Loss::TableFullSites, 1);
        }
        let mut branch = Branch::default();
        branch.add(taken, self.opened, self.weight);
        self.branches.push(branch);
        self.sites[site.0 as usize].branch = new;
    }

    /// The branches that windows met.
    pub(crate) fn branches(&self) -> impl Iterator<Item = (Owner, PcId, profiledb::Directions)> {
        self.sites.iter().filter_map(|site| {
            let branch = self.branches.get(site.branch as usize)?;
            Some((site.owner, site.id, branch.told()))
        })
    }

    /// Counts a call of what is there, if that is known, and returns its index.
    pub(crate) fn add_call(
        &mut self,
        owner: Owner,
        site: PcId,
        callee: Option<Pc>,
    ) -> Option<PcId> {
        let id = callee.and_then(|pc| self.pc(pc));
        let key = (owner, site, id);
        let unknown = id.is_none() && callee.is_some();
        if unknown || self.is_over_full() && !self.calls.contains_key(&key) {
            self.lost.count(Loss::TableFullCalls, 1);
        } else {
            let calls = self.calls.entry(key).or_default();
            calls.add(self.opened, self.weight);
        }
        id
    }

    /// The calls that windows met: from where, and where to, if that is known.
    pub(crate) fn calls(
        &self,
    ) -> impl Iterator<Item = (Owner, PcId, Option<PcId>, profiledb::Calls)> {
        let all = self.calls.iter();
        all.map(|(&(owner, site, callee), calls)| (owner, site, callee, calls.told()))
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

    /// Times, weights and the unknown are told apart.
    #[test]
    fn directions() {
        let mut branch = Branch::default();
        for (window, taken, part) in [
            (1, Some(true), 0.5),
            (1, Some(false), 0.5),
            (2, None, 1.0),
            (3, Some(true), 1.0),
        ] {
            branch.add(taken, window, weight(1, part));
        }
        let told = branch.told();
        assert_eq!((told.taken, told.not_taken, told.unknown), (2, 1, 1));
        assert_eq!(told.weights, [1.5, 0.5, 1.0]);
        assert_eq!(told.squares, Some(2.0));
    }
}
