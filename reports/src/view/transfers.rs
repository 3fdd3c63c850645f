//! Where indirect calls and jumps lead, by executions.

use std::collections::BTreeMap;

use super::View;

/// Windows that came back to a site, for its executions to be told: chance moves shares by up to
/// ten points in a hundred. What windows meet is off by as much behind stalls.
const ENOUGH: u64 = 100;

/// Where one site leads, by executions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecutedTargets {
    /// Executions whose target is known.
    pub(crate) known: u64,
    /// Executions whose target is not.
    pub(crate) unknown: u64,
    /// The targets by image and address.
    pub(crate) targets: BTreeMap<(usize, u64), TargetShare>,
}

/// The share of a target.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TargetShare {
    /// Estimated executions.
    pub(crate) estimate: f64,
    /// Of those with a known target, 0 to 100.
    pub(crate) percent: f64,
    /// A 95 % interval of that.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
}

impl View<'_> {
    /// Where the indirect calls and jumps lead that were asked for, by executions: those that
    /// enough windows came back to, and whose targets are all places of images. By the site's PC.
    ///
    /// Calls are counted in all windows, and windows begin where time goes: what stands behind a
    /// stall is met too often (`docs/decisions/059-which-windows-count.md`). Values behind the
    /// first of their window have forgotten that.
    pub(crate) fn executed_targets(&self) -> BTreeMap<usize, ExecutedTargets> {
        let mut sites = BTreeMap::new();
        self.each_executed("target", &mut |values| {
            let shares = values.shares.iter();
            let shares: Option<Vec<_>> = shares
                .map(|share| Some((self.pointers.image_at(share.value)?, share)))
                .collect();
            let Some(shares) = shares.filter(|_| values.windows >= ENOUGH) else {
                return;
            };
            let mut targets: BTreeMap<(usize, u64), TargetShare> = BTreeMap::new();
            for (place, share) in shares {
                // A target has an address in each process. Bounds of a sum are no further apart
                // than those of its parts together.
                let sum = targets.entry(place).or_default();
                sum.estimate += share.estimate;
                sum.percent += share.percent;
                sum.low += share.low;
                sum.high = (sum.high + share.high).min(100.0);
            }
            let executed = ExecutedTargets {
                known: values.samples(),
                unknown: values.unknown,
                targets,
            };
            sites.insert(values.pc, executed);
        });
        sites
    }
}
