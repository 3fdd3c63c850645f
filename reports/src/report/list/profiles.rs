//! The value profiles of instructions, as listings show them.

use std::collections::{BTreeMap, BTreeSet};

use parameters::Parameter;
use profiledb::bare_parameter;

use crate::callee::{Callees, not_known};
use crate::convention::Convention;
use crate::variables::Passed;
use crate::view::{Results, Values, View};

/// The value profiles of each PC. Of a function's arguments only the live ones, as
/// in the report about them, and no result of a function that is declared to have none or to leave
/// it elsewhere: the rest is what happened to be in the registers.
pub(in crate::report) fn profiles(
    view: &mut View<'_>,
    by_caller: bool,
) -> BTreeMap<usize, Vec<Values>> {
    let signatures = Signatures::new(view);
    let mut unknown = BTreeSet::new();
    let by_pc = profiles_with(view, by_caller, &signatures, &mut unknown);
    view.notes.extend(not_known(unknown.len()));
    by_pc
}

/// What functions take and return, of those asked for.
pub(super) struct Signatures {
    callees: Callees,
    results: Results,
}

impl Signatures {
    pub(super) fn new(view: &View<'_>) -> Signatures {
        let mut entries = BTreeSet::new();
        let (mut integer, mut vector) = (BTreeSet::new(), BTreeSet::new());
        let rows = view.profile.hotlists.iter();
        for row in rows.filter(|row| view.wants(row.pc)) {
            let of = match bare_parameter(&row.parameter).parse() {
                Ok(Parameter::Ret | Parameter::Result) => &mut integer,
                Ok(Parameter::VectorRet | Parameter::VectorResult) => &mut vector,
                Ok(Parameter::Arg(_) | Parameter::ArgIn(_) | Parameter::VectorArg(_)) => {
                    &mut entries
                }
                _ => continue,
            };
            of.insert(row.pc);
        }
        Signatures {
            callees: Callees::new(view, &entries),
            results: Results::new(view, &integer, &vector),
        }
    }
}

/// As [`profiles`], where what functions take and return is known. Entries of functions of which it
/// is not known which arguments are live are added to `unknown`.
pub(super) fn profiles_with(
    view: &View<'_>,
    by_caller: bool,
    signatures: &Signatures,
    unknown: &mut BTreeSet<usize>,
) -> BTreeMap<usize, Vec<Values>> {
    let Signatures { callees, results } = signatures;
    let all = view.values(by_caller);
    let mut by_pc: BTreeMap<usize, Vec<Values>> = BTreeMap::new();
    let key = |of: &Values, number| (of.pc, of.caller, of.base.is_of_executions(), number);
    let mut calls: BTreeMap<_, u64> = BTreeMap::new();
    for values in all.iter().filter(|values| values.is_argument()) {
        if let Some(argument) = callees.live(values.pc).of_parameter(&values.parameter) {
            calls.insert(key(values, argument.index), values.reached);
        }
    }
    for mut values in all.into_iter().filter_map(|values| results.settled(values)) {
        if values.is_argument() {
            let live = callees.live(values.pc);
            let argument = live.of_parameter(&values.parameter);
            let Some(argument) = argument else { continue };
            values = values.narrowed(argument.bits);
            values.parameter = live.name(argument);
            values.live = live.known;
            if let Some(declared) = callees.passed(values.pc, Passed::Integer(argument.index)) {
                values = values.declared(&declared);
            }
            if !live.known {
                unknown.insert(values.pc);
            }
        }
        if let Some(number) = values.text_of_argument() {
            let live = callees.live(values.pc);
            let declared = callees.passed(values.pc, Passed::Integer(number));
            let is_string = declared.as_ref().is_some_and(|of| of.is_string());
            let of_calls = calls.get(&key(&values, number)).copied();
            let Some(of_calls) = of_calls.filter(|_| live.convention == Convention::Platform)
            else {
                continue;
            };
            if !is_string && !values.is_printable() {
                continue;
            }
            values = values.of_calls(of_calls);
            values.name = declared.and_then(|of| of.name.clone());
            values.live = live.known;
        }
        if let Some(number) = values.vector_argument() {
            match callees.declared(values.pc) {
                None => match callees.takes_vector(values.pc, number) {
                    Some(false) => continue,
                    takes => values.live = takes.is_some(),
                },
                Some(declared) => {
                    let number = declared.vector(number);
                    let Some((declared, bits)) = number else {
                        continue;
                    };
                    values = values.as_numbers(bits).unwrap_or(values).declared(declared);
                }
            }
        }
        by_pc.entry(values.pc).or_default().push(view.told(values));
    }
    for profiles in by_pc.values_mut() {
        profiles.sort_by_cached_key(|of| {
            let rank = rank(&of.parameter);
            (rank, of.parameter.clone(), of.caller, of.base)
        });
    }
    by_pc
}

/// Order of the parameters of one instruction: what it computes is why it is listed.
fn rank(parameter: &str) -> u8 {
    match parameter.parse() {
        Ok(parameter) if Parameter::is_destination(parameter) => 0,
        Ok(Parameter::Taken | Parameter::Target | Parameter::Ret | Parameter::VectorRet) => 1,
        Ok(Parameter::Operand(_)) => 3,
        Ok(Parameter::Arg(_) | Parameter::ArgIn(_) | Parameter::VectorArg(_)) => 4,
        Ok(Parameter::Text(_)) => 5,
        // Addresses and what lies there.
        _ => 2,
    }
}
