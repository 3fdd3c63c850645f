//! `list`: the instructions of a function with cycles and value profiles.

mod json;
mod meaning;
mod profiles;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iced_x86::Instruction;
use profiledb::rows::ImageKind;

use self::meaning::{Meaning, compared, meaning};
pub(super) use self::profiles::profiles;
use self::profiles::{Signatures, profiles_with};
use super::{JsonSite, nothing};
use crate::args::{Common, OneFunction};
use crate::callee::not_known;
use crate::code::{ProcessorMode, direct_target};
use crate::failure::Failure;
use crate::listing;
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::query::{Answer, Query};
use crate::render::percent;
use crate::sources::{For, Sources};
use crate::symbolize::SourcePlace;
use crate::symbols::FunctionId;
use crate::variables::Words;
use crate::view::{Heat, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which values does a function see?
  vcpi list sqlite3BtreeCursorHasMoved

  cycles    s#  v#  1/p  address  instruction            value profile
       0  1073  25  1.0  0x3b8b0  xor eax, eax           arg0: (8.0% 0x55713b7aa180) ...
   84.4M  1074   1  1.0  0x3b8b5  setne al               al: (100.0% 0x0)

  1074 values of al were known, one of them distinct: in all windows the function said no. Its
  argument took 25 values.";

/// The instructions of a function with cycles, samples and the values they produced.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct List {
    #[command(flatten)]
    of: OneFunction,
    /// Show the values of each call site of the function separately.
    #[arg(long)]
    by_caller: bool,
    /// Values shown for each instruction in text.
    #[arg(long, value_name = "N", default_value_t = 4)]
    values: usize,
    /// Show every instruction, also where many in a row were neither sampled nor reached.
    #[arg(long)]
    all: bool,
    /// Show how much of the function's time each source line has, with a bar, and say which source
    /// files are missing.
    #[arg(long)]
    source: bool,
    /// Show bare numbers: no characters, and no names for addresses, arguments and their values.
    #[arg(long)]
    raw: bool,
    /// Show with each share its 95 % interval.
    #[arg(long)]
    intervals: bool,
}

/// The answer.
#[derive(Debug)]
struct Listings {
    functions: Vec<Listing>,
    options: List,
}

/// A function with its instructions.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) build_id: Option<String>,
    pub(crate) start: Option<u64>,
    pub(crate) mode: ProcessorMode,
    kind: ImageKind,
    cycles: f64,
    /// Of all cycles.
    pub(crate) percent: f64,
    pub(crate) samples: u64,
    pub(crate) lines: Vec<ListedInstruction>,
}

/// An instruction of a listing.
#[derive(Debug)]
pub(crate) struct ListedInstruction {
    pub(crate) address: u64,
    pub(crate) instruction: Option<Instruction>,
    /// What a direct branch goes to.
    pub(crate) target: Option<String>,
    pub(crate) heat: Heat,
    pub(crate) place: SourcePlace,
    /// The source line there.
    pub(crate) source: Option<String>,
    pub(crate) profiles: Vec<ParameterValues>,
    /// The character that it compares with.
    compared: Option<String>,
}

/// The values of one parameter.
#[derive(Debug)]
pub(crate) struct ParameterValues {
    pub(crate) values: Values,
    meaning: Meaning,
    /// The name of the argument.
    name: Option<String>,
    pub(crate) caller: Option<JsonSite>,
}

impl List {
    /// Whether it is of the function of this name.
    #[cfg(test)]
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.of.name() == Some(name)
    }
}

impl Query for List {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            enough: Some(CYCLES_AND_VALUES),
            others: self.by_caller,
            trends: self.values.max(1),
            ..Needs::ROWS
        }
    }

    fn check(&self, common: &Common) -> Result<(), Failure> {
        if self.of.name().or(common.only_function.as_deref()).is_none() {
            return Err(Failure::Usage(
                "list: which function? (`vcpi top` names the hot ones)".into(),
            ));
        }
        Ok(())
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let functions: Vec<FunctionId> = view
            .selected()
            .map(|ids| ids.iter().copied().collect())
            .unwrap_or_default();
        let mut sources = Sources::new(For::Reader);
        let functions = listings(view, &functions, self.by_caller, &mut sources);
        let unknown: Vec<String> = functions.iter().filter_map(Listing::without_code).collect();
        view.notes.extend(unknown);
        if self.source {
            view.notes.extend(sources.notes());
        }
        if functions.is_empty() {
            return Err(nothing("instructions"));
        }
        Ok(Box::new(Listings {
            functions,
            options: self.clone(),
        }))
    }
}

/// The name behind a direct branch's target.
fn name_target(view: &mut View<'_>, image: usize, function: FunctionId, target: u64) -> String {
    match view.symbols.function(function) {
        // A jump within the function: its address says enough with the offset.
        Some(own)
            if own.start.is_some_and(|start| start < target)
                && own.end.is_some_and(|end| target < end) =>
        {
            format!("+0x{:x}", target - own.start.unwrap_or(0))
        }
        _ => view.symbols.describe(image, target),
    }
}

fn source_text(place: &SourcePlace) -> Option<String> {
    let file = place.file.as_ref()?.display();
    Some(match place.line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_string(),
    })
}

/// Functions with their instructions, of those that have any.
fn listings(
    view: &mut View<'_>,
    functions: &[FunctionId],
    by_caller: bool,
    sources: &mut Sources,
) -> Vec<Listing> {
    let mut all = Vec::new();
    let mut take = |listing| {
        all.push(listing);
        true
    };
    each_listing(view, functions, by_caller, sources, &mut take);
    all
}

/// Instructions whose values are in memory at a time, unless one function has more. In weeks of a
/// service each has some hundreds of values, which take some eighty bytes.
const AT_A_TIME: usize = 1 << 10;

/// Functions in their order, each group with so many instructions in the profile.
fn groups<'f>(view: &View<'_>, functions: &'f [FunctionId]) -> Vec<&'f [FunctionId]> {
    let (mut groups, mut begin, mut count) = (Vec::new(), 0, 0);
    for (index, id) in functions.iter().enumerate() {
        let more = view.pcs_of(*id).len();
        if count + more > AT_A_TIME && begin < index {
            groups.extend(functions.get(begin..index));
            (begin, count) = (index, 0);
        }
        count += more;
    }
    groups.extend(functions.get(begin..).filter(|rest| !rest.is_empty()));
    groups
}

/// Gives functions with their instructions, of those that have any, to `take` in their order, as
/// long as that says so. The values of few instructions at a time are in memory.
pub(crate) fn each_listing(
    view: &mut View<'_>,
    functions: &[FunctionId],
    by_caller: bool,
    sources: &mut Sources,
    take: &mut dyn FnMut(Listing) -> bool,
) {
    // Debug information is opened once for each image.
    let signatures = Signatures::new(view);
    let mut addresses: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for id in functions {
        if let Some(function) = view.symbols.function(*id) {
            let of_image = addresses.entry(function.image).or_default();
            let lines = listing::lines(view, *id).into_iter();
            of_image.extend(lines.map(|line| line.address));
        }
    }
    let mut places: BTreeMap<usize, (Vec<u64>, Vec<SourcePlace>)> = BTreeMap::new();
    for (image, mut addresses) in addresses {
        addresses.sort_unstable();
        addresses.dedup();
        let found = view.symbols.places(image, &addresses);
        if found.iter().any(|place| *place != SourcePlace::default()) {
            places.insert(image, (addresses, found));
        }
    }
    let mut found = ListingFacts {
        by_pc: BTreeMap::new(),
        places,
        sources,
    };
    let mut unknown = BTreeSet::new();
    'all: for some in groups(view, functions) {
        let before = view.ask_for(Some(some.iter().copied().collect()));
        found.by_pc = profiles_with(view, by_caller, &signatures, &mut unknown);
        view.ask_for(before);
        for id in some {
            let lines = listing::lines(view, *id);
            if let Some(listing) = listing(view, *id, &lines, &mut found)
                && !take(listing)
            {
                break 'all;
            }
        }
    }
    view.notes.extend(not_known(unknown.len()));
}

/// What was found out for the listings of several functions.
struct ListingFacts<'a> {
    by_pc: BTreeMap<usize, Vec<Values>>,
    /// Addresses of an image in their order, and the place of each; of images that tell any.
    places: BTreeMap<usize, (Vec<u64>, Vec<SourcePlace>)>,
    sources: &'a mut Sources,
}

impl ListingFacts<'_> {
    fn place(&self, image: usize, address: u64) -> SourcePlace {
        let place = self.places.get(&image).and_then(|(addresses, places)| {
            let index = addresses.binary_search(&address).ok()?;
            places.get(index).cloned()
        });
        place.unwrap_or_default()
    }
}

/// Marks words of vector registers whose number was captured under its own name as well.
fn leave_out_twins(profiles: &mut [ParameterValues]) {
    let key =
        |of: &ParameterValues, name: &str| (name.to_owned(), of.values.caller, of.values.base);
    let own: BTreeSet<_> = profiles
        .iter()
        .map(|of| key(of, &of.values.parameter))
        .collect();
    for profile in profiles {
        let name = profile.meaning.name();
        if name.is_some_and(|name| own.contains(&key(profile, name))) {
            profile.meaning = Meaning::Beside;
        }
    }
}

/// A function with its instructions, if there are any.
fn listing(
    view: &mut View<'_>,
    id: FunctionId,
    code: &[listing::FunctionInstruction],
    found: &mut ListingFacts<'_>,
) -> Option<Listing> {
    let function = view.symbols.function(id)?.clone();
    if code.is_empty() {
        return None;
    }
    let mut sum = Heat::default();
    let mut lines = Vec::with_capacity(code.len());
    let image = Path::new(view.image_path(function.image));
    for line in code {
        let place = found.place(function.image, line.address);
        let heat = line.pc.and_then(|pc| view.heat.get(pc).copied());
        let heat = heat.unwrap_or_default();
        sum.add(heat);
        let target = line.instruction.as_ref().and_then(direct_target);
        let of_line = line.pc.and_then(|pc| found.by_pc.remove(&pc));
        let mut profiles = Vec::new();
        for values in of_line.into_iter().flatten() {
            let place = |address| view.pointers.place(&view.symbols, function.image, address);
            profiles.push(ParameterValues {
                meaning: match (&values.words, &line.instruction) {
                    (Words::None, Some(instruction)) => {
                        meaning(instruction, &values.parameter, place)
                    }
                    (words, _) => Meaning::Typed(words.clone()),
                },
                name: values.name.clone(),
                caller: values.caller.map(|pc| JsonSite::new(view, pc)),
                values,
            });
        }
        leave_out_twins(&mut profiles);
        lines.push(ListedInstruction {
            address: line.address,
            instruction: line.instruction,
            target: target.map(|target| name_target(view, function.image, id, target)),
            heat,
            source: found.sources.at(&place, image),
            place,
            profiles,
            compared: line.instruction.as_ref().and_then(compared),
        });
    }
    let image = view.profile.images.get(function.image);
    Some(Listing {
        image: view.image_path(function.image).to_owned(),
        build_id: image.and_then(|image| image.build_id.clone()),
        start: function.start,
        mode: view.symbols.mode(function.image),
        cycles: sum.cycles,
        kind: image.map_or(ImageKind::File, |image| image.kind),
        percent: percent(sum.cycles, view.total().cycles),
        samples: sum.samples,
        lines,
        name: function.name,
    })
}
