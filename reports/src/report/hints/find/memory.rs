//! Opportunities at loads: addresses in steps, and what was loaded just before.

use std::collections::{BTreeMap, BTreeSet};

use parameters::Parameter;

use super::{Opportunity, Search};
use crate::report::access::{heat_around, is_of_stack, signed};
use crate::report::hints::patch::HintKind;
use crate::view::Values;

/// Steps below a line of memory are what every processor fetches ahead.
const LINE: u64 = 64;

impl Search<'_, '_> {
    /// Loads whose addresses come in steps, and those of what the thread has loaded just before.
    pub(super) fn loads(&self) -> Vec<Opportunity> {
        let view = self.view;
        let mut all: BTreeMap<(usize, HintKind), Values> = BTreeMap::new();
        let kind = |parameter: &str| match parameter.parse() {
            Ok(Parameter::Stride) => Some(HintKind::StridedPrefetch),
            Ok(Parameter::Reload) => Some(HintKind::RedundantLoad),
            _ => None,
        };
        for values in view.values_of_any(|parameter| kind(parameter).is_some()) {
            let Some(kind) = kind(&values.parameter) else {
                continue;
            };
            // Of first events and later ones, those that are more.
            match all.get(&(values.pc, kind)) {
                Some(held) if held.reached >= values.reached => {}
                _ => {
                    all.insert((values.pc, kind), values);
                }
            }
        }
        let own = all
            .into_iter()
            .filter(|((pc, _), _)| !is_of_stack(view, *pc));
        own.filter_map(|((pc, kind), values)| self.load(pc, kind, &values))
            .collect()
    }

    fn load(&self, pc: usize, kind: HintKind, values: &Values) -> Option<Opportunity> {
        let view = self.view;
        let share = match kind {
            HintKind::StridedPrefetch => values.shares.first(),
            _ => values.shares.iter().find(|share| share.value == 1),
        }?;
        let step = share.value.cast_signed();
        let fits = share.percent >= self.share
            && values.samples() >= view.min_samples
            && values.supports(share)
            && (kind == HintKind::RedundantLoad || step.unsigned_abs() >= LINE);
        // Who waits for a load is behind it. A load that goes takes its own time along.
        let heat = match kind {
            HintKind::StridedPrefetch => heat_around(view, pc),
            _ => self.heat(pc, None),
        };
        let function = view.symbols.function_of(pc);
        let under = function.map_or(0.0, |function| self.under(function, None).cycles);
        fits.then(|| Opportunity {
            kind,
            pc,
            division: None,
            site: None,
            function,
            callee: None,
            parameter: values.parameter.clone(),
            argument: None,
            is_argument: false,
            known: None,
            value: match kind {
                HintKind::StridedPrefetch => signed(share.value),
                _ => "redundant".to_owned(),
            },
            bits: None,
            extended: None,
            base: values.base,
            samples: values.samples(),
            share: [share.percent, share.low, share.high],
            under,
            folded: heat.cycles,
            folded_samples: heat.samples,
            constant: BTreeSet::new(),
            divisions: BTreeSet::new(),
            places: BTreeMap::new(),
        })
    }
}
