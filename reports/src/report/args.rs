//! `args`: the most frequent value of each argument, per function and call site.

mod arguments;
mod next;

use std::collections::{BTreeMap, BTreeSet};

use protocol::Kinds;
use serde::{Serialize, Serializer};
use serde_json::Value;

use self::arguments::{Argument, declared_arguments, live_arguments};
use self::next::no_functions;
use super::{JsonShare, json_shares, nothing, shares_text, shares_with};
use crate::args::OneFunction;
use crate::callee::{self, Live, not_known};
use crate::convention::Convention;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{count, counted};
use crate::symbols::STUB;
use crate::variables::{Declaration, Parameter};
use crate::view::{Base, Results, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which arguments do calls have that are nearly always the same?
  vcpid record --context caller --capture args,vector --vectors auto -- povray +Iscene.pov
  vcpi args numchanges

  pov::numchanges: (87.8% 0x4) (65.6% 0x7fc429801b40) (9.6% 4882.8125)  [270 calls]
      (int np, const polynomial *sseq, double a)
      208 from pov::sbisect (0x2238a5): (93.8% 0x4) (68.8% 0x7fc429801b40) (14.7% 4882.8125)

  The first argument is 4 in most calls: a version of numchanges for 4 would do. The third one is
  10,000,000 / 2048: the caller halves an interval that is far too long.";

/// The most frequent value of each argument, per function and call site.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    of: OneFunction,
    /// Show bare numbers: no types, and no names for values.
    #[arg(long)]
    raw: bool,
    /// Show with each share its 95 % interval.
    #[arg(long)]
    intervals: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Callees {
    rows: Vec<FunctionCalls>,
    #[serde(skip)]
    options: Args,
}

/// Calls of one function, from all sites together or from one.
#[derive(Debug, Serialize)]
struct FunctionCalls {
    function: String,
    /// Where it is entered, in its image; `null` of a stub.
    entry: Option<String>,
    image: Option<String>,
    caller: Option<String>,
    call_site: Option<String>,
    calls: u64,
    base: &'static str,
    /// How arguments are passed: `sysv`, `go`, `ocaml`, and the like; `unknown`.
    convention: &'static str,
    /// Positions of the arguments that are live; `null` where that is not known.
    live: Option<Vec<u8>>,
    args: Vec<Argument>,
    /// What the calls returned that breakpoints at the entry saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Returned>,
    #[serde(skip)]
    passed: Convention,
    /// The parameters as they are declared, in row for all call sites.
    #[serde(skip)]
    declared: Option<String>,
}

/// The parameters of what calls returned: in `rax`, and in `xmm0`.
const RESULT: &str = "result";
const VECTOR_RESULT: &str = "vresult";

/// Results of calls.
#[derive(Debug)]
struct Returned(Values);

/// They in JSON.
#[derive(Debug, Serialize)]
struct JsonReturned {
    base: Base,
    reached: u64,
    unknown: u64,
    samples: u64,
    values: Vec<JsonShare>,
}

impl Serialize for Returned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Returned(values) = self;
        let returned = JsonReturned {
            base: values.base,
            reached: values.reached,
            unknown: values.unknown,
            samples: values.samples(),
            values: json_shares(values, values.class()),
        };
        returned.serialize(serializer)
    }
}

/// Calls of a function (PC index) from a site; `None`: all sites together.
type Calls = BTreeMap<(usize, Option<usize>), u64>;
/// Arguments by the same key.
type Arguments = BTreeMap<(usize, Option<usize>), Vec<Values>>;

impl Query for Args {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                values: true,
                calls: true,
                ..NO_ROWS
            },
            parameters: &["arg", "varg", "text", RESULT, VECTOR_RESULT],
            stubs: true,
            trends: 1,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let (mut rows, unknown) = rows(view);
        if rows.is_empty() {
            return Err(nothing("calls with arguments"));
        }
        view.notes.extend(not_known(unknown));
        view.keep_first(&mut rows);
        Ok(Box::new(Callees {
            rows,
            options: self.clone(),
        }))
    }
}

/// The rows, and the number of functions among them whose live arguments are not known.
fn rows(view: &View<'_>) -> (Vec<FunctionCalls>, usize) {
    let profile = view.profile;
    let no_functions = no_functions(view);
    let entries: BTreeSet<usize> = profile
        .hotlists
        .iter()
        .filter(|row| Values::names_argument(&row.parameter))
        .map(|row| row.pc)
        .chain(
            profile
                .calls
                .iter()
                .filter(|row| super::targets::kind(view, row.site) != Some("jump"))
                .filter_map(|row| row.callee),
        )
        .filter(|callee| !no_functions.contains(callee))
        .collect();
    let callees = callee::Callees::new(view, &entries);
    let mut calls = Calls::new();
    for row in &profile.calls {
        // Jumps through a table stay within their function.
        if super::targets::kind(view, row.site) == Some("jump") {
            continue;
        }
        let Some(callee) = row.callee.map(|callee| callees.canonical(callee)) else {
            continue;
        };
        if !view.wants(callee) || no_functions.contains(&callee) {
            continue;
        }
        for key in [(callee, None), (callee, Some(row.site))] {
            let sum = calls.entry(key).or_default();
            *sum = sum.saturating_add(row.calls);
        }
    }
    let mut arguments = Arguments::new();
    for by_caller in [false, true] {
        for values in view.values_at(by_caller, |pc| callees.canonical(pc)) {
            let is_argument = values.is_argument()
                || values.vector_argument().is_some()
                || values.text_of_argument().is_some();
            if no_functions.contains(&values.pc) {
                continue;
            }
            if is_argument || [RESULT, VECTOR_RESULT].contains(&values.parameter.as_str()) {
                arguments
                    .entry((values.pc, values.caller))
                    .or_default()
                    .push(values);
            }
        }
    }
    settle_results(view, &mut arguments);
    // Calls without a single argument captured have nothing to show here.
    let captured: BTreeSet<usize> = arguments.keys().map(|(callee, _)| *callee).collect();
    let mut order: Vec<(usize, u64)> = captured
        .iter()
        .map(|callee| (*callee, calls_at(&calls, &arguments, (*callee, None))))
        .filter(|(_, calls)| view.is_enough(*calls))
        .collect();
    order.sort_by_key(|(callee, calls)| (std::cmp::Reverse(*calls), *callee));
    let mut rows = Vec::new();
    let mut unknown = 0;
    for (callee, _) in order {
        let live = callees.live(callee);
        let declared = callees.declared(callee);
        let has_some = !live.arguments.is_empty()
            || declared.is_some_and(|declared| !declared.parameters.is_empty());
        if !has_some && view.selected().is_none() {
            continue;
        }
        unknown += usize::from(!live.known);
        let all_sites = (callee, None)..=(callee, Some(usize::MAX));
        let mut sites: Vec<(Option<usize>, u64)> = calls
            .range(all_sites.clone())
            .map(|(key, _)| key.1)
            .chain(arguments.range(all_sites).map(|(key, _)| key.1))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|site| (site, calls_at(&calls, &arguments, (callee, site))))
            .collect();
        // What is told of all sites is no less than what is told of each.
        let of_sites = sites.iter().filter(|(site, _)| site.is_some());
        let of_sites = of_sites.fold(0_u64, |all, (_, calls)| all.saturating_add(*calls));
        for (_, calls) in sites.iter_mut().filter(|(site, _)| site.is_none()) {
            *calls = of_sites.max(*calls);
        }
        sites.retain(|(_, calls)| view.is_enough(*calls));
        sites.sort_by_key(|(site, calls)| (site.is_some(), std::cmp::Reverse(*calls), *site));
        for (site, calls) in sites {
            let values = arguments
                .get(&(callee, site))
                .map(Vec::as_slice)
                .unwrap_or_default();
            rows.push(row(view, (callee, site), calls, (&live, declared), values));
        }
    }
    (rows, unknown)
}

/// Leaves out what a function that returns nothing in a register left there, and takes results for
/// what they are declared to be.
fn settle_results(view: &View<'_>, arguments: &mut Arguments) {
    let returning = |parameter: &str| -> BTreeSet<usize> {
        let has_some = |of: &[Values]| of.iter().any(|values| values.parameter == parameter);
        let callees = arguments.iter().filter(|(_, of)| has_some(of));
        callees.map(|((callee, _), _)| *callee).collect()
    };
    let results = Results::new(view, &returning(RESULT), &returning(VECTOR_RESULT));
    for of in arguments.values_mut() {
        let all = std::mem::take(of).into_iter();
        of.extend(all.filter_map(|values| results.settled(values)));
    }
}

/// Calls counted, or those whose arguments were looked at, where they are more: who comes by a
/// jump, a function's last act, was not counted as a call. Where windows saw none, those that
/// breakpoints saw.
fn calls_at(calls: &Calls, arguments: &Arguments, key: (usize, Option<usize>)) -> u64 {
    let values = arguments.get(&key).map(Vec::as_slice).unwrap_or_default();
    let of_time = values
        .iter()
        .filter(|values| !values.base.is_of_executions());
    let reached = of_time.map(|values| values.reached).max();
    let counted = calls.get(&key).copied();
    let at_entry = values.iter().filter(|values| values.base == Base::Entries);
    let entered = at_entry.map(|values| values.reached).max();
    counted.max(reached).or(entered).unwrap_or(0)
}

fn row(
    view: &View<'_>,
    (callee, site): (usize, Option<usize>),
    calls: u64,
    (live, declared): (&Live, Option<&Declaration>),
    values: &[Values],
) -> FunctionCalls {
    let mut args = match declared {
        Some(declared) => declared_arguments(live, declared, values),
        None => live_arguments(live, values),
    };
    for argument in &mut args {
        view.tell(&mut argument.values);
        argument.find_text(values, live.convention);
    }
    let of = |parameter| {
        let mut all = values.iter();
        all.find(|values| values.parameter == parameter && values.samples() > 0)
    };
    // Where it is not known which of them the function returns in, it is the first more often.
    let result = of(RESULT).or_else(|| of(VECTOR_RESULT));
    let result = result.map(|values| Returned(view.told(values.clone())));
    let function = view.symbols.name_of_pc(callee);
    // A stub is not in the image of the function that it stands for.
    let pc = view
        .profile
        .pcs
        .get(callee)
        .filter(|_| !function.ends_with(STUB));
    let image = pc.map(|pc| view.image_path(pc.image).to_owned());
    FunctionCalls {
        function: function.strip_suffix(STUB).unwrap_or(&function).to_owned(),
        image,
        entry: pc.map(|_| view.address(callee)),
        caller: site.map(|pc| view.symbols.name_of(pc)),
        call_site: site.map(|pc| view.address(pc)),
        calls,
        base: "calls",
        convention: live.convention.key(),
        live: live.known.then(|| {
            let arguments = live.arguments.iter();
            arguments.map(|argument| argument.index).collect()
        }),
        args,
        result,
        passed: live.convention,
        declared: declared.map(|declared| {
            let parameters = declared.parameters.iter().map(Parameter::text);
            parameters.collect::<Vec<String>>().join(", ")
        }),
    }
}

/// What stands above the rows.
const ABOUT: &str =
    "Calls seen in windows: of each argument its most frequent value and that value's share.";

/// What else there is to know of it.
const MORE: &str = "\
    Where debug information declares a function, all arguments in their order; elsewhere integer\n\
    ones (rdi rsi rdx rcx r8 r9). (-) not known or not an argument; ? not known which are\n\
    arguments; floating-point ones need vcpid record --capture args,vector. Below a function,\n\
    its call sites as far as they are known: not where a window began in a stub.\n\
    Windows begin where time is spent: calls near it are likelier to be seen than others.\n\
    Shares are of such calls, of all calls where it says by executions, and by entries: there\n\
    breakpoints at the function's entry saw the calls (vcpid record --entries).";

impl Model for Callees {
    /// One row at a time is in memory in this form, which takes much of it.
    fn each_row(&self, take: &mut dyn FnMut(Value)) -> Result<(), serde_json::Error> {
        for row in &self.rows {
            take(serde_json::to_value(row)?);
        }
        Ok(())
    }

    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let conventions: BTreeSet<Convention> = self.rows.iter().map(|row| row.passed).collect();
        let legends: Vec<String> = conventions.iter().filter_map(|of| of.legend()).collect();
        for legend in &legends {
            page.text(format!("Marked {legend}"));
        }
        if !legends.is_empty() {
            page.gap();
        }
        for row in &self.rows {
            let values = row.values(&self.options);
            match (&row.caller, &row.call_site) {
                (Some(caller), Some(site)) => page.item(
                    1,
                    format!(
                        "{} from {} ({site}): {values}",
                        count(row.calls),
                        names.shown(caller)
                    ),
                ),
                _ => {
                    let mark = match row.passed {
                        Convention::Platform => String::new(),
                        other => format!(" {}", other.key()),
                    };
                    page.item(
                        0,
                        format!(
                            "{}: {values}  [{}]{mark}",
                            names.shown(&row.function),
                            counted(row.calls, "call")
                        ),
                    );
                    if let Some(declared) = row.declared.as_ref().filter(|_| !self.options.raw) {
                        page.item(1, format!("({declared})"));
                    }
                }
            }
        }
        page
    }
}

impl FunctionCalls {
    /// The values of all arguments on one line.
    fn values(&self, options: &Args) -> String {
        let mut texts: Vec<(usize, String)> = Vec::new();
        for of_one in self.args.chunk_by(|a, b| a.position == b.position) {
            let shares: Vec<String> = of_one
                .iter()
                .map(|of| of.text(options.raw, options.intervals))
                .collect();
            let shares = shares.join(" ");
            let Some(first) = of_one.first() else {
                continue;
            };
            let text = match self.passed {
                Convention::Unknown => {
                    format!("{}={shares}", instructions::register_name(first.register))
                }
                _ => shares,
            };
            texts.push((first.position, text));
        }
        let mut values = match self.passed {
            Convention::Unknown => named(&texts),
            _ => positional(&texts),
        };
        if self.live.is_none() {
            values.push_str(" ?");
        }
        if let Some(Returned(result)) = &self.result {
            let shares = match options.raw {
                true => shares_with(result, 1, |value| result.class().text(value)),
                false => shares_text(result, 1),
            };
            let shares = shares.replace(" ...", "");
            values += &format!(" -> {shares}{}", result.base.of_parameter());
        }
        values
    }
}

/// The arguments that name their registers themselves.
fn named(arguments: &[(usize, String)]) -> String {
    if arguments.is_empty() {
        return "no argument known".to_owned();
    }
    let texts = arguments.iter().map(|(_, text)| text.as_str());
    texts.collect::<Vec<_>>().join(" ")
}

/// The arguments in their positions, gaps filled.
fn positional(arguments: &[(usize, String)]) -> String {
    let Some((last, _)) = arguments.last() else {
        return "no argument known".to_owned();
    };
    let at = |index: usize| {
        arguments
            .iter()
            .find(|(of, _)| *of == index)
            .map(|(_, text)| text.as_str())
    };
    (0..=*last)
        .map(|index| at(index).unwrap_or("(-)"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments stand in their positions, and gaps show.
    #[test]
    fn arguments_keep_their_positions() {
        assert_eq!(positional(&[]), "no argument known");
        let some = [(1, "(1.0% 0x1)".to_owned()), (3, "(2.0% 0x2)".to_owned())];
        assert_eq!(positional(&some), "(-) (1.0% 0x1) (-) (2.0% 0x2)");
    }

    /// Calls that came by a jump were not counted as such, but their arguments were.
    #[test]
    fn calls_by_jumps() {
        let reached = |reached| Values {
            pc: 1,
            caller: None,
            base: Base::Time,
            independent: true,
            parameter: "arg0".to_owned(),
            reached,
            unknown: 0,
            windows: reached,
            threshold: 1.0,
            by_process: Vec::new(),
            typed: None,
            name: None,
            words: crate::variables::Words::None,
            pointed: BTreeMap::new(),
            live: true,
            shares: Vec::new(),
        };
        let (counted, looked_at, neither) = ((1, None), (1, Some(2)), (1, Some(3)));
        let calls = Calls::from([(counted, 1)]);
        let arguments = Arguments::from([
            (counted, vec![reached(20), reached(227)]),
            (looked_at, vec![reached(226)]),
        ]);
        assert_eq!(calls_at(&calls, &arguments, counted), 227);
        assert_eq!(calls_at(&calls, &arguments, looked_at), 226);
        assert_eq!(calls_at(&calls, &arguments, neither), 0);
        let more = Calls::from([(counted, 300)]);
        assert_eq!(calls_at(&more, &arguments, counted), 300);
    }
}
