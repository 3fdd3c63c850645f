//! Opportunities at calls and branches: sizes of copies, targets, directions.

use std::collections::{BTreeMap, BTreeSet};

use hotlist::weighted_interval;
use iced_x86::Instruction;

use super::{Opportunity, Search};
use crate::code::direct_target;
use crate::elf::Elf;
use crate::report::copies;
use crate::report::hints::patch::{HintKind, SIZE_OF};
use crate::report::targets::{self, ExecutedTargets};
use crate::view::{Base, View};

/// The part of a branch's time that it does not take where it is not taken.
const BRANCH: f64 = 0.25;
/// The least share of a branch's direction that is worth a word, in percent.
const DIRECTION: f64 = 95.0;
/// Functions that compilers write out where they know the size.
pub(in crate::report::hints) const COPIES: [&str; 6] =
    ["bcmp", "memcmp", "memcpy", "memmove", "mempcpy", "memset"];
/// Longer copies stay calls, whatever is known of their sizes.
const LONGEST_COPY: u64 = 128;

/// Where an indirect call mostly goes.
struct MainTarget {
    callee: usize,
    /// With its 95 % interval, in percent.
    share: [f64; 3],
    samples: u64,
    base: Base,
}

/// Times that windows came by, what they weigh, and the sum of the squares of that.
type Sum = (u64, f64, Option<f64>);

/// By the callee; `None`: it is not known.
type Callees = BTreeMap<Option<usize>, Sum>;

impl Search<'_, '_> {
    /// Sizes of small copies.
    pub(super) fn copies(&self) -> Vec<Opportunity> {
        let view = self.view;
        let rows = copies::rows(view).into_iter();
        let found = rows.filter_map(|row| {
            let site = row.site?;
            let copies::SizeValues(values) = row.sizes.first()?;
            let share = values.shares.first()?;
            let size = values.class().mask(share.value);
            let fits = share.percent >= self.share
                && values.supports(share)
                && values.samples() >= view.min_samples
                && size <= LONGEST_COPY
                && COPIES.contains(&row.function);
            fits.then(|| Opportunity {
                kind: HintKind::CopySize,
                pc: site,
                division: None,
                site: None,
                function: view.symbols.function_of(site),
                callee: Some(row.function.to_owned()),
                parameter: format!("{SIZE_OF}{}", row.function),
                argument: None,
                is_argument: false,
                known: None,
                bits: None,
                extended: None,
                value: size.to_string(),
                base: values.base,
                samples: values.samples(),
                share: [share.percent, share.low, share.high],
                under: row.heat.cycles,
                folded: row.heat.cycles,
                folded_samples: row.heat.samples,
                constant: BTreeSet::new(),
                divisions: BTreeSet::new(),
                places: BTreeMap::new(),
            })
        });
        found.collect()
    }

    /// Indirect calls that mostly go to one place: what the call takes itself, and where it lands.
    pub(super) fn targets(&self) -> Vec<Opportunity> {
        let view = self.view;
        let mut sites: BTreeMap<usize, Callees> = BTreeMap::new();
        for row in &view.profile.calls {
            if view.wants(row.site) && targets::kind(view, row.site) == Some("call") {
                let callees = sites.entry(row.site).or_default();
                let sum = callees.entry(row.callee).or_insert((0, 0.0, Some(0.0)));
                sum.0 = sum.0.saturating_add(row.calls);
                sum.1 += row.weight;
                sum.2 = sum.2.zip(row.squares).map(|(sum, more)| sum + more);
            }
        }
        let executed = ExecutedTargets::of_all(view);
        let mut found = Vec::new();
        for (site, callees) in sites {
            let of_executions = executed
                .get(&site)
                .and_then(|executed| executed_target(view, &callees, executed));
            let most = of_executions.or_else(|| met_target(&callees));
            let Some(MainTarget {
                callee,
                share,
                samples,
                base,
            }) = most
            else {
                continue;
            };
            let is_import = is_import(view, site, callee);
            if share[0] < self.share || samples < view.min_samples || is_import {
                continue;
            }
            // What stands in another file cannot be written out in place of the call, and where
            // that lands takes as long.
            let mut heat = self.heat(site, None);
            if !are_in_two_files(view, site, callee) {
                heat.add(self.heat(callee, Some(site)));
            }
            let function = view.symbols.function_of(callee);
            let under = function.map(|function| self.under(function, Some(site)));
            let mut under = under.unwrap_or_default();
            under.add(self.heat(site, None));
            found.push(Opportunity {
                kind: HintKind::IndirectTarget,
                pc: site,
                division: None,
                site: None,
                function: view.symbols.function_of(site),
                callee: None,
                parameter: "target".to_owned(),
                argument: None,
                is_argument: false,
                known: None,
                bits: None,
                extended: None,
                value: view.symbols.name_of_pc(callee),
                base,
                samples,
                share,
                under: under.cycles,
                folded: heat.cycles,
                folded_samples: heat.samples,
                constant: BTreeSet::new(),
                divisions: BTreeSet::new(),
                places: BTreeMap::new(),
            });
        }
        found
    }

    /// Branches ahead that are nearly always taken: in another layout they would not be.
    pub(super) fn branches(&self) -> Vec<Opportunity> {
        let view = self.view;
        let mut sums: BTreeMap<usize, ([f64; 3], u64, Option<f64>)> = BTreeMap::new();
        for row in view
            .profile
            .branches
            .iter()
            .filter(|row| view.wants(row.pc))
        {
            let sum = sums.entry(row.pc).or_insert(([0.0; 3], 0, Some(0.0)));
            for (sum, weight) in sum.0.iter_mut().zip(row.weights) {
                *sum += weight;
            }
            sum.1 = sum
                .1
                .saturating_add(row.taken)
                .saturating_add(row.not_taken);
            sum.2 = sum.2.zip(row.squares).map(|(sum, more)| sum + more);
        }
        let found = sums
            .into_iter()
            .filter_map(|(pc, ([taken, not, unknown], times, squares))| {
                let known = taken + not;
                let percent = 100.0 * taken / known;
                if known <= 0.0 || percent < DIRECTION || times < view.min_samples {
                    return None;
                }
                let instruction = view.instruction(pc)?;
                direct_target(&instruction).filter(|target| *target > instruction.ip())?;
                let interval = |squares| weighted_interval(taken, known, squares, known + unknown);
                let (low, high) = squares.map_or((0.0, 100.0), interval);
                let heat = self.heat(pc, None);
                let function = view.symbols.function_of(pc);
                Some(Opportunity {
                    kind: HintKind::PredictableBranch,
                    pc,
                    division: None,
                    site: None,
                    under: function.map_or(0.0, |function| self.under(function, None).cycles),
                    function,
                    callee: None,
                    parameter: "branch".to_owned(),
                    argument: None,
                    is_argument: false,
                    known: None,
                    bits: None,
                    extended: None,
                    value: "taken".to_owned(),
                    base: Base::Windows,
                    samples: times,
                    share: [percent, low, high],
                    folded: heat.cycles * BRANCH,
                    folded_samples: heat.samples,
                    constant: BTreeSet::new(),
                    divisions: BTreeSet::new(),
                    places: BTreeMap::new(),
                })
            });
        found.collect()
    }
}

/// The one that windows met most often.
fn met_target(callees: &Callees) -> Option<MainTarget> {
    let told = || {
        callees
            .iter()
            .filter_map(|(callee, sum)| Some(((*callee)?, *sum)))
    };
    let known: f64 = told().map(|(_, (_, weight, _))| weight).sum();
    let unknown = callees.get(&None).map_or(0.0, |(_, weight, _)| *weight);
    let most = told().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
    let (callee, (_, weight, _)) = most.filter(|_| known > 0.0)?;
    let roots = told().map(|(_, (.., squares))| squares.map(f64::sqrt));
    let squares = roots.sum::<Option<f64>>().map(|root| root * root);
    let interval = |squares| weighted_interval(weight, known, squares, known + unknown);
    let (low, high) = squares.map_or((0.0, 100.0), interval);
    Some(MainTarget {
        callee,
        share: [100.0 * weight / known, low, high],
        samples: told().fold(0, |all, (_, (times, ..))| all.saturating_add(times)),
        base: Base::Windows,
    })
}

/// The one that has most executions, if it is among the callees.
fn executed_target(
    view: &View<'_>,
    callees: &Callees,
    executed: &ExecutedTargets,
) -> Option<MainTarget> {
    let (place, share, samples) = executed.most_frequent()?;
    let is_there = |callee: &usize| {
        let pc = view.profile.pcs.get(*callee);
        pc.is_some_and(|pc| (pc.image, pc.address) == place)
    };
    Some(MainTarget {
        callee: callees.keys().flatten().copied().find(is_there)?,
        share,
        samples,
        base: Base::Executions,
    })
}

/// Whether debug information says that two instructions come from different files.
fn are_in_two_files(view: &View<'_>, one: usize, other: usize) -> bool {
    let file = |pc: usize| {
        let pc = view.profile.pcs.get(pc)?;
        let mut chain = view.symbols.chains(pc.image, &[pc.address]).pop()?;
        // The last one is not inlined.
        chain.pop()?.file
    };
    let files = file(one).zip(file(other));
    files.is_some_and(|(one, other)| one != other)
}

/// Whether a call goes through a word that the linker fills: that has one target, which the source
/// names.
fn is_import(view: &View<'_>, site: usize, callee: usize) -> bool {
    let image = |pc: usize| view.profile.pcs.get(pc).map(|pc| pc.image);
    let call = view.instruction(site);
    let Some(call) = call.filter(Instruction::is_ip_rel_memory_operand) else {
        return false;
    };
    let slot = call.ip_rel_memory_address();
    let elf = image(site).and_then(|image| view.symbols.elf(image));
    image(site) != image(callee) || elf.is_some_and(|elf| is_linked(elf, slot))
}

/// Whether the linker fills the word at an address.
fn is_linked(elf: &Elf, slot: u64) -> bool {
    let tables = elf.linkage_tables();
    tables
        .iter()
        .any(|(start, end)| (*start..*end).contains(&slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::own;

    /// What a call finds in the linker's tables is no pointer of the source, though the function is
    /// in the same image; other data may be one.
    #[test]
    fn words_of_the_linker() {
        let elf = own();
        let tables = elf.linkage_tables();
        let (start, end) = tables.first().copied().expect("it has such a table");
        assert!(is_linked(&elf, start) && is_linked(&elf, end - 8));
        assert!(!is_linked(&elf, 0) && !is_linked(&elf, u64::MAX));
    }
}
