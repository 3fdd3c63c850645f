//! Directions of the conditional branches that windows run through.

use counters::Loss;

use super::squares::{ONE, Squares, weight};
use crate::events::{At, Consumer, Context, NONE, Options, Owner, PcId, Shared, Site, SiteId};

/// Directions of a branch: a line of the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Branch {
    /// Times that it was taken, that it was not, and that it is not known.
    times: [u64; 3],
    weights: [u64; 3],
    /// Of what is known.
    squares: Squares,
}

const _: () = assert!(size_of::<Branch>() == 64);

/// Counts the directions of branches.
#[derive(Debug)]
pub struct Branches {
    branches: Vec<Branch>,
    /// What each branch of the present window weighs.
    weight: u32,
}

/// Rough size of an entry, in bytes.
const BRANCH_BYTES: usize = 2 * size_of::<Branch>();

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
            squares: Some(self.squares.sum()),
        }
    }
}

impl Branches {
    #[inline(never)]
    fn add_new(&mut self, shared: &mut Shared, site: SiteId, taken: Option<bool>, window: u32) {
        let new = u32::try_from(self.branches.len()).unwrap_or(NONE);
        if shared.budget.is_over_full() || new == NONE {
            return shared.lost.count(Loss::TableFullSites, 1);
        }
        let mut branch = Branch::default();
        branch.add(taken, window, self.weight);
        self.put(shared, branch);
        shared.sites[site.0 as usize].branch = new;
    }

    /// Keeps a branch; its index.
    fn put(&mut self, shared: &mut Shared, branch: Branch) -> u32 {
        shared.budget.charge(BRANCH_BYTES);
        self.branches.push(branch);
        u32::try_from(self.branches.len() - 1).unwrap_or(NONE)
    }

    /// The branches that windows met.
    pub fn each(
        &self,
        shared: &Shared,
    ) -> impl Iterator<Item = (Owner, PcId, profiledb::Directions)> {
        shared.sites.iter().filter_map(|site| {
            let branch = self.branches.get(site.branch as usize)?;
            Some((site.owner, site.id, branch.told()))
        })
    }

    /// Takes over the branches of owners that pass the test, with their sites; `pc` gives their PCs
    /// in the copy.
    pub(crate) fn copy(
        &mut self,
        (from, of): (&Self, &Shared),
        shared: &mut Shared,
        takes: impl Fn(&Owner) -> bool,
        mut pc: impl FnMut(PcId) -> PcId,
    ) {
        for site in of.sites.iter().filter(|site| takes(&site.owner)) {
            if let Some(branch) = from.branches.get(site.branch as usize) {
                let branch = self.put(shared, *branch);
                shared.put_site(Site {
                    id: pc(site.id),
                    profile: NONE,
                    branch,
                    ..*site
                });
            }
        }
    }
}

impl Consumer for Branches {
    fn new(_: &Options) -> Self {
        Self {
            branches: Vec::new(),
            weight: weight(1, 1.0),
        }
    }

    fn begins(&mut self, _: &mut Shared, window: &Context) {
        self.weight = weight(window.times, window.part);
    }

    #[inline(always)]
    fn branch(&mut self, shared: &mut Shared, at: &At<'_>, taken: Option<bool>) {
        let Some(site) = at.site else { return };
        let Some(of_site) = shared.sites.get(site.0 as usize) else {
            return;
        };
        let window = at.window.number as u32;
        match self.branches.get_mut(of_site.branch as usize) {
            Some(branch) => branch.add(taken, window, self.weight),
            None => self.add_new(shared, site, taken, window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
