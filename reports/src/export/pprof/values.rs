//! Values as labels: the most frequent value of each argument of what was interrupted.

use std::collections::{BTreeMap, BTreeSet};

use super::proto::Label;
use crate::callee::Callees;
use crate::export::stacks::{Sample, Stacks};
use crate::export::table::{Strings, int};
use crate::render::rounded;
use crate::symbols::FunctionId;
use crate::values::Class;
use crate::view::{Values, View};

/// Fewer known values say little: of few, every value seems invariant.
const LEAST_VALUES: u64 = 10;
/// What an argument's number is counted in.
const VALUE: &str = "value";
const PERCENT: &str = "percent";

/// The most frequent value of an argument.
#[derive(Debug, Clone, PartialEq)]
struct Frequent {
    /// The argument, as reports name it.
    name: String,
    value: i64,
    /// Of its calls, in whole percent.
    percent: i64,
}

/// The most frequent values of arguments, by function and call site; without a site, of all calls
/// of the function.
#[derive(Debug, Default)]
pub(in crate::export) struct Arguments(BTreeMap<(FunctionId, Option<usize>), Vec<Frequent>>);

impl Arguments {
    /// What is known of the functions of a view.
    pub(super) fn new(view: &mut View<'_>) -> Arguments {
        let before = view.look_at(&["arg"]);
        let arguments = Arguments::of_looked_at(view);
        view.parameters = before;
        arguments
    }

    fn of_looked_at(view: &View<'_>) -> Arguments {
        let rows = view.profile.hotlists.iter();
        let entries: BTreeSet<usize> = rows
            .filter(|row| row.parameter.starts_with("arg"))
            .map(|row| row.pc)
            .collect();
        let callees = Callees::new(view, &entries);
        let mut found: BTreeMap<(FunctionId, Option<usize>), Vec<Frequent>> = BTreeMap::new();
        for by_caller in [false, true] {
            for values in view.values_at(by_caller, |pc| callees.canonical(pc)) {
                if let Some(function) = view.symbols.function_of(values.pc)
                    && let Some(frequent) = frequent(&callees, &values)
                {
                    let of_site = found.entry((function, values.caller)).or_default();
                    of_site.push(frequent);
                }
            }
        }
        for of_site in found.values_mut() {
            of_site.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Arguments(found)
    }

    /// The labels of a sample: the values from its call site where these are known, else those of
    /// all calls.
    pub(super) fn labels(
        &self,
        stacks: &Stacks<'_>,
        view: &View<'_>,
        sample: &Sample,
        strings: &mut Strings,
    ) -> Vec<Label> {
        let mut pcs = sample.locations.iter().filter_map(|location| {
            let location = stacks.locations.get(*location)?;
            Some(location.pc)
        });
        let Some(function) = pcs.next().and_then(|pc| view.symbols.function_of(pc)) else {
            return Vec::new();
        };
        let of_site = pcs
            .next()
            .and_then(|site| self.0.get(&(function, Some(site))));
        let of_all = self.0.get(&(function, None));
        let mut labels = Vec::new();
        for frequent in of_site.or(of_all).into_iter().flatten() {
            let name = &frequent.name;
            let share = format!("{name}_share");
            for (key, number, unit) in [
                (name, frequent.value, VALUE),
                (&share, frequent.percent, PERCENT),
            ] {
                labels.push(Label {
                    key: int(strings.place(key)),
                    num: number,
                    num_unit: int(strings.place(unit)),
                    ..Label::default()
                });
            }
        }
        labels
    }
}

/// The most frequent value of an argument that the function has, where nearly all are known. Shares
/// are of the calls that windows saw, as `vcpi args` shows them first.
fn frequent(callees: &Callees, values: &Values) -> Option<Frequent> {
    let live = callees.live(values.pc);
    let argument = live.of_parameter(&values.parameter)?;
    let is_told = values.is_argument()
        && !values.base.is_of_executions()
        && values.samples() >= LEAST_VALUES
        && values.mostly_known()
        && live.known;
    if !is_told {
        return None;
    }
    let narrowed = values.narrowed(argument.bits);
    let share = narrowed.shares.first()?;
    // An estimate that chance alone may have made says nothing.
    if narrowed.threshold > 1.0 && share.low <= 0.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
    let percent = rounded(share.percent, 0) as i64;
    Some(Frequent {
        name: live.name(argument),
        value: signed(
            Class::Integer(argument.bits).mask(share.value),
            argument.bits,
        ),
        percent,
    })
}

/// The number that some bits are; those of a whole register may be an address, of which the format
/// has the bits.
fn signed(value: u64, bits: u32) -> i64 {
    match bits {
        64 => value.cast_signed(),
        _ => int(value),
    }
}
