//! `copies`: how much memory is copied, set, compared and searched at a time, by call site.
//!
//! The sizes are arguments of the C library's functions. A function is one of these by its name or,
//! where it has none, by that of the PLT stubs that lead to it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use protocol::Kinds;
use serde::{Serialize, Serializer};

use super::{JsonShare, json_shares, nothing, shares_with};
use crate::args::OneFunction;
use crate::code::direct_target;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count, cycles, percent, rounded, whole};
use crate::symbols::{FunctionId, STUB};
use crate::view::{Base, Heat, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: how much does memcpy copy at a time, and for whom?
  vcpi copies -n 2

  time%  cycles  calls  function                        sizes
  13.37   1.12G   9481  __memcpy_avx512_unaligned_erms  (72.4% 16) (21.2% 100) (6.4% 2000)
  13.37   1.12G   9481    from take (0x1394)            (72.6% 16) (21.1% 100) (6.3% 2000)

  Where a call site copies the same few bytes each time, plain moves would do.";

/// How much memory is copied, set, compared and searched at a time, by call site (of the
/// functions that call).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Copies {
    #[command(flatten)]
    of: OneFunction,
    /// Sizes shown for each call site in text.
    #[arg(long, value_name = "N", default_value_t = 4)]
    values: usize,
}

/// What tells the size at a call: how the parameter begins that holds it.
const THIRD: &str = "arg2";
/// The size is what is returned.
const RETURNED: &str = "ret";

/// The functions, and where their sizes are.
const FUNCTIONS: [(&str, &str); 13] = [
    ("bcmp", THIRD),
    ("bcopy", THIRD),
    ("memchr", THIRD),
    ("memcmp", THIRD),
    ("memcmpeq", THIRD),
    ("memcpy", THIRD),
    ("memmove", THIRD),
    ("mempcpy", THIRD),
    ("memrchr", THIRD),
    ("memset", THIRD),
    ("strlen", RETURNED),
    ("strnlen", RETURNED),
    ("wcslen", RETURNED),
];

/// Words that names of implementations have behind that of the function.
const IMPLEMENTATIONS: [&str; 18] = [
    "avx",
    "avx2",
    "avx512",
    "back",
    "chk",
    "erms",
    "evex",
    "evex512",
    "generic",
    "ifunc",
    "movbe",
    "no",
    "orig",
    "rtm",
    "slow",
    "unaligned",
    "vzeroupper",
    "x86",
];

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Sizes {
    rows: Vec<CopyCalls>,
    #[serde(skip)]
    most: usize,
    /// Some call sites alone are shown.
    #[serde(skip)]
    of_some: bool,
}

/// Calls of one function from one site, or from all sites together.
#[derive(Debug, Serialize)]
pub(super) struct CopyCalls {
    /// `memcpy` and the like.
    pub(super) function: &'static str,
    /// The implementation.
    callee: String,
    caller: Option<String>,
    call_site: Option<String>,
    /// The call site's PC.
    #[serde(skip)]
    pub(super) site: Option<usize>,
    /// Calls seen in windows.
    calls: u64,
    base: &'static str,
    /// Time in the function, as far as the call site is known.
    #[serde(rename = "cycles", serialize_with = "super::whole_cycles")]
    pub(super) heat: Heat,
    /// Of all cycles.
    percent: f64,
    cycle_samples: u64,
    pub(super) sizes: Vec<SizeValues>,
}

/// Sizes, of one base.
#[derive(Debug)]
pub(super) struct SizeValues(pub(super) Values);

#[derive(Serialize)]
struct JsonProfile {
    base: Base,
    reached: u64,
    unknown: u64,
    samples: u64,
    windows: u64,
    values: Vec<JsonShare>,
}

impl Serialize for SizeValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SizeValues(values) = self;
        let profile = JsonProfile {
            base: values.base,
            reached: values.reached,
            unknown: values.unknown,
            samples: values.samples(),
            windows: values.windows,
            values: json_shares(values, values.class()),
        };
        profile.serialize(serializer)
    }
}

impl Query for Copies {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                cycles: true,
                values: true,
                calls: true,
                ..NO_ROWS
            },
            parameters: &[THIRD, RETURNED],
            // A call site is in one function, and what is called in another.
            one_function: false,
            stubs: true,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = rows(view);
        if rows.is_empty() {
            return Err(nothing("calls of memcpy and the like"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Sizes {
            rows,
            most: self.values,
            of_some: !view.wants_all(),
        }))
    }
}

/// What is called, and from where; `None`: from all sites.
type Place = (usize, Option<usize>);

/// A function that has a size, and what tells it.
type SizedFunction = (&'static str, &'static str);

/// All rows: functions by their time, each with its call sites by theirs.
pub(super) fn rows(view: &View<'_>) -> Vec<CopyCalls> {
    let entries = entries(view);
    let of_function: BTreeMap<FunctionId, usize> = entries
        .keys()
        .filter_map(|pc| Some((view.symbols.function_of(*pc)?, *pc)))
        .collect();
    let mut sizes = sizes(view, &entries, &of_function);
    let mut calls: BTreeMap<Place, u64> = BTreeMap::new();
    for row in &view.profile.calls {
        // A stub's jump is not another call.
        if super::targets::kind(view, row.site) == Some("jump") {
            continue;
        }
        if let Some(callee) = row.callee.filter(|callee| entries.contains_key(callee)) {
            for site in [None, Some(row.site)] {
                let sum = calls.entry((callee, site)).or_default();
                *sum = sum.saturating_add(row.calls);
            }
        }
    }
    // Who comes by a jump was not counted as a call.
    for (place, profiles) in &sizes {
        let of_time = profiles.iter().filter(|of| !of.base.is_of_executions());
        if let Some(reached) = of_time.map(|of| of.reached).max() {
            let sum = calls.entry(*place).or_default();
            *sum = reached.max(*sum);
        }
    }
    let heats = heats(view, &of_function);
    let heat_of = |place| heats.get(&place).copied().unwrap_or_default();
    let is_shown = |(_, site): Place| match site {
        Some(site) => view.wants(site),
        None => view.wants_all(),
    };
    let mut places: Vec<(Place, u64)> = calls
        .into_iter()
        .filter(|(place, calls)| is_shown(*place) && view.is_enough(*calls))
        .collect();
    let weight = |place, calls| (whole(heat_of(place).cycles), calls);
    let mut of_callee: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for ((callee, _), calls) in &places {
        let most = of_callee.entry(*callee).or_default();
        *most = weight((*callee, None), *calls).max(*most);
    }
    places.sort_by_key(|(place, calls)| {
        let (callee, site) = *place;
        let of_callee = Reverse(of_callee.get(&callee).copied());
        (
            of_callee,
            callee,
            site.is_some(),
            Reverse(weight(*place, *calls)),
            site,
        )
    });
    let total = view.total();
    let row = |(place, calls): (Place, u64)| {
        let (callee, site) = place;
        let (function, tells) = *entries.get(&callee)?;
        // One implementation may stand for memcpy and memmove: a site's stub has the name.
        let called = site.and_then(|site| stub_at(view, site));
        let called = called.and_then(|name| kind(&name));
        let called = called.filter(|(_, own)| *own == tells);
        let function = called.map_or(function, |(function, _)| function);
        let heat = heat_of(place);
        let profiles = sizes.remove(&place).unwrap_or_default();
        Some(CopyCalls {
            function,
            callee: view.symbols.name_of_pc(callee),
            caller: site.map(|pc| view.symbols.name_of(pc)),
            call_site: site.map(|pc| view.address(pc)),
            site,
            calls,
            base: "calls",
            heat,
            percent: rounded(percent(heat.cycles, total.cycles), 2),
            cycle_samples: heat.samples,
            sizes: profiles.into_iter().map(SizeValues).collect(),
        })
    };
    places.into_iter().filter_map(row).collect()
}

/// Sizes of what is copied, set or compared, by the call's PC: each with its share of all.
pub(crate) fn sizes_at(view: &View<'_>) -> Vec<(usize, Vec<(u64, f64)>)> {
    /// The functions whose sizes compilers look at.
    const KNOWN: [&str; 5] = ["bcmp", "memcmp", "memcpy", "memmove", "memset"];
    let rows = rows(view).into_iter();
    let rows = rows.filter(|row| KNOWN.contains(&row.function));
    rows.filter_map(|row| {
        let of_executions = |profile: &&SizeValues| profile.0.base.is_of_executions();
        let profile = row.sizes.iter().find(of_executions).or(row.sizes.first())?;
        let shares = profile.0.shares.iter();
        let shares = shares.map(|share| (share.value, share.percent / 100.0));
        Some((row.site?, shares.collect()))
    })
    .collect()
}

/// The entries of functions that have a size.
fn entries(view: &View<'_>) -> BTreeMap<usize, SizedFunction> {
    let mut called_as: BTreeMap<usize, BTreeSet<SizedFunction>> = BTreeMap::new();
    for row in &view.profile.calls {
        if let Some(callee) = row.callee {
            let names = called_as.entry(callee).or_default();
            names.extend(stub_at(view, row.site).and_then(|name| kind(&name)));
        }
    }
    for row in &view.profile.hotlists {
        if row.parameter.ends_with(THIRD) {
            called_as.entry(row.pc).or_default();
        }
    }
    let entry = |(pc, called_as): (usize, BTreeSet<SizedFunction>)| {
        let function = view.symbols.function_of(pc);
        let is_named = function.is_some_and(|id| {
            let function = view.symbols.function(id);
            function.is_some_and(|function| function.named)
        });
        // One implementation may stand for memcpy and memmove: the size is in one place.
        let tells: BTreeSet<&str> = called_as.iter().map(|(_, tells)| *tells).collect();
        let by_stubs = called_as.iter().next().copied();
        let by_stubs = by_stubs.filter(|_| !is_named && tells.len() == 1);
        let kind = kind(&view.symbols.name_of_pc(pc)).or(by_stubs)?;
        Some((pc, kind))
    };
    called_as.into_iter().filter_map(entry).collect()
}

/// The name of the PLT stub that the instruction at a PC is in, or calls.
fn stub_at(view: &View<'_>, site: usize) -> Option<String> {
    let pc = view.profile.pcs.get(site)?;
    let elf = view.symbols.elf(pc.image)?;
    if let Some((_, _, name)) = elf.plt(pc.address) {
        return Some(name.to_owned());
    }
    let target = direct_target(&view.instruction(site)?)?;
    let (_, _, name) = elf.plt(target)?;
    Some(name.to_owned())
}

/// The function that a name is of, or of an implementation of.
fn kind(name: &str) -> Option<SizedFunction> {
    let name = name
        .strip_suffix(STUB)
        .unwrap_or(name)
        .trim_start_matches('_');
    let name = name
        .strip_prefix("GI_")
        .unwrap_or(name)
        .trim_start_matches('_');
    let (stem, rest) = name.split_once('_').unwrap_or((name, ""));
    let is_implementation = rest.split('_').filter(|word| !word.is_empty()).all(|word| {
        let is_sse = word.starts_with("sse") || word.starts_with("ssse");
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        is_sse || is_number || IMPLEMENTATIONS.binary_search(&word).is_ok()
    });
    let found = FUNCTIONS.iter().find(|(name, _)| *name == stem);
    found.filter(|_| is_implementation).copied()
}

/// The sizes at each place.
fn sizes(
    view: &View<'_>,
    entries: &BTreeMap<usize, SizedFunction>,
    of_function: &BTreeMap<FunctionId, usize>,
) -> BTreeMap<Place, Vec<Values>> {
    // What is returned is known wherever a function returns.
    let entry_of = |pc: usize| {
        let function = view.symbols.function_of(pc);
        let entry = function.and_then(|id| of_function.get(&id)).copied();
        let returns = entry.filter(|entry| tells(entries, *entry) == Some(RETURNED));
        returns.or_else(|| entries.contains_key(&pc).then_some(pc))
    };
    let mut sizes: BTreeMap<Place, Vec<Values>> = BTreeMap::new();
    for by_caller in [false, true] {
        for values in view.values_where(by_caller, entry_of) {
            // What has no caller is in the sum over all sites already.
            let counted = !by_caller || values.caller.is_some();
            if counted && tells(entries, values.pc) == Some(values.parameter.as_str()) {
                let place = (values.pc, values.caller);
                sizes.entry(place).or_default().push(values);
            }
        }
    }
    for profiles in sizes.values_mut() {
        profiles.sort_by_key(|values| values.base);
    }
    sizes
}

fn tells(entries: &BTreeMap<usize, SizedFunction>, entry: usize) -> Option<&'static str> {
    entries.get(&entry).map(|(_, parameter)| *parameter)
}

/// The time in each function, under each call site and in all.
fn heats(view: &View<'_>, of_function: &BTreeMap<FunctionId, usize>) -> BTreeMap<Place, Heat> {
    let mut heats: BTreeMap<Place, Heat> = BTreeMap::new();
    for row in &view.profile.cycles {
        let function = view.symbols.function_of(row.pc);
        let Some(callee) = function.and_then(|id| of_function.get(&id)) else {
            continue;
        };
        let heat = Heat {
            samples: row.samples,
            cycles: row.cycles,
        };
        heats.entry((*callee, None)).or_default().add(heat);
        if let Some(site) = row.caller {
            heats.entry((*callee, Some(site))).or_default().add(heat);
        }
    }
    heats
}

/// What stands above the rows.
const ABOUT: &str = "Sizes in bytes at calls of memcpy and the like.";

/// What else there is to know of it.
const MORE: &str = "\
    time%: spent in the function, of all cycles;\n\
    of a call site, as far as it is known who called. Shares are of the calls known in windows,\n\
    which begin where time is spent: of time, not of calls, where it does not say by executions.\n\
    from..to%: less than 90% known, the unknown may be this size or not.";

impl Model for Sizes {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("time%", Align::Right),
            ("cycles", Align::Right),
            ("calls", Align::Right),
            ("function", Align::Left),
            ("sizes", Align::Left),
        ]);
        for row in &self.rows {
            let function = match kind(&row.callee) {
                Some(_) => names.shown(&row.callee),
                None => format!("{} ({})", row.function, names.shown(&row.callee)),
            };
            let place = match (&row.caller, &row.call_site) {
                (Some(caller), Some(site)) => {
                    let start = if self.of_some { &function } else { " " };
                    format!("{start} from {} ({site})", names.shown(caller))
                }
                _ => function,
            };
            let bases: Vec<String> = row.sizes.iter().map(|of| of.text(self.most)).collect();
            table.row(vec![
                format!("{:.2}", row.percent),
                cycles(row.heat.cycles),
                count(row.calls),
                place,
                bases.join("; "),
            ]);
        }
        page.table(table);
        page
    }
}

impl SizeValues {
    fn text(&self, most: usize) -> String {
        let SizeValues(values) = self;
        let shares = shares_with(values, most, |size| size.to_string());
        format!("{shares}{}", values.base.of_parameter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of implementations are those of their function; others that begin alike are not.
    #[test]
    fn names() {
        assert!(IMPLEMENTATIONS.is_sorted());
        for (name, expected) in [
            ("memcpy", Some("memcpy")),
            ("memcpy@plt", Some("memcpy")),
            ("__memmove_avx_unaligned_erms", Some("memmove")),
            ("__memcpy_avx512_no_vzeroupper", Some("memcpy")),
            ("__memcmp_sse4_1", Some("memcmp")),
            ("__memcmpeq_evex", Some("memcmpeq")),
            ("__GI_memset", Some("memset")),
            ("__memcpy_chk", Some("memcpy")),
            ("__strlen_avx2_rtm", Some("strlen")),
            ("memcpy_fromio", None),
            ("memcpy2", None),
            ("my_memcpy", None),
            ("memory", None),
            ("", None),
        ] {
            assert_eq!(kind(name).map(|(name, _)| name), expected, "{name}");
        }
    }
}
