//! `list`: the instructions of a function with cycles and value profiles.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::{JsonShare, JsonSite, finish, json_shares, nothing, shares_text, threshold_text};
use crate::args::Format;
use crate::callee::{Callees, not_known};
use crate::code::{Disassembler, Mode, Spacing};
use crate::dwarf;
use crate::failure::Failure;
use crate::listing::{Line, lines};
use crate::names::Names;
use crate::render::{Align, Table, clean, count, counted, cycles, percent, rounded, whole};
use crate::symbolize::Place;
use crate::symbols::FunctionId;
use crate::values::is_destination;
use crate::view::{Base, Heat, Values, View};

/// How to list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Keep the values of different callers apart.
    pub(crate) by_caller: bool,
    /// Values shown per parameter in text.
    pub(crate) values: usize,
    /// Leave nothing out of the text.
    pub(crate) all: bool,
}

/// As many instructions in a row, none of which was sampled or reached, are listed in text.
const QUIET: usize = 6;

/// One instruction in JSON.
#[derive(Debug, Serialize)]
struct Row {
    image: String,
    build_id: Option<String>,
    function: String,
    address: String,
    offset: Option<u64>,
    text: Option<String>,
    cycles: u64,
    cycle_samples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlined: Vec<String>,
    profiles: Vec<JsonProfile>,
}

/// One value profile in JSON.
#[derive(Debug, Serialize)]
struct JsonProfile {
    parameter: String,
    /// For arguments: `true`, or `null` where it is not known whether they are live.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Value>,
    base: Base,
    caller: Option<JsonSite>,
    reached: u64,
    unknown: u64,
    samples: u64,
    windows: u64,
    distinct: usize,
    threshold: f64,
    values: Vec<JsonShare>,
}

/// The report.
pub(crate) fn report(
    view: &mut View<'_>,
    options: Options,
    format: Format,
) -> Result<String, Failure> {
    let functions: Vec<FunctionId> = view
        .selected()
        .map(|ids| ids.iter().copied().collect())
        .unwrap_or_default();
    let by_pc = profiles(view, options);
    let mut rows = Vec::new();
    let mut text = String::new();
    for id in functions {
        let lines = lines(view, id);
        if lines.is_empty() {
            continue;
        }
        match format {
            Format::Json => rows.extend(json_rows(view, id, &lines, &by_pc)),
            Format::Text => {
                if !text.is_empty() {
                    text.push('\n');
                }
                function_text(view, id, &lines, &by_pc, options, &mut text);
            }
        }
    }
    match format {
        Format::Text if text.is_empty() => Err(nothing("instructions")),
        Format::Text => Ok(text),
        Format::Json if rows.is_empty() => Err(nothing("instructions")),
        Format::Json => finish(&rows, format, |_, _| {}),
    }
}

/// The value profiles of each PC. Of a function's arguments only the live ones, as
/// in the report about them, and no result of a function that is declared to have none or to leave
/// it elsewhere: the rest is what happened to be in the registers.
fn profiles(view: &mut View<'_>, options: Options) -> BTreeMap<usize, Vec<Values>> {
    let all = view.values(options.by_caller);
    let entries: BTreeSet<usize> = all
        .iter()
        .filter(|values| values.is_argument())
        .map(|values| values.pc)
        .collect();
    let callees = Callees::new(view, &entries);
    let without_result = |place| {
        let returns = all.iter().filter(|values| values.result() == Some(place));
        view.without_result(returns.map(|values| values.pc), place)
    };
    let integer = without_result(dwarf::Place::Integer);
    let vector = without_result(dwarf::Place::Vector);
    let mut by_pc: BTreeMap<usize, Vec<Values>> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for mut values in all {
        let without = match values.result() {
            Some(dwarf::Place::Integer) => integer.contains(&values.pc),
            Some(dwarf::Place::Vector) => vector.contains(&values.pc),
            None => false,
        };
        if without {
            continue;
        }
        if values.is_argument() {
            let live = callees.live(values.pc);
            let argument = live.of_parameter(&values.parameter);
            let Some(argument) = argument else { continue };
            values = values.narrowed(argument.bits);
            values.parameter = live.name(argument);
            values.live = live.known;
            if !live.known {
                unknown.insert(values.pc);
            }
        }
        by_pc.entry(values.pc).or_default().push(values);
    }
    view.notes.extend(not_known(unknown.len()));
    for profiles in by_pc.values_mut() {
        profiles.sort_by(|a, b| {
            let rank = rank(&a.parameter).cmp(&rank(&b.parameter));
            let key = |of: &Values| (of.parameter.clone(), of.caller, of.base);
            rank.then_with(|| key(a).cmp(&key(b)))
        });
    }
    by_pc
}

/// Order of the parameters of one instruction: what it computes is why it is listed.
fn rank(parameter: &str) -> u8 {
    if is_destination(parameter) {
        return 0;
    }
    match parameter {
        "taken" | "target" | "ret" | "vret" => 1,
        _ if parameter.starts_with("op") => 3,
        _ if parameter.starts_with("arg") || parameter.starts_with("varg") => 4,
        // Addresses and what lies there.
        _ => 2,
    }
}

fn heat(view: &View<'_>, line: &Line) -> Heat {
    line.pc
        .and_then(|pc| view.heat.get(pc).copied())
        .unwrap_or_default()
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

fn places(view: &View<'_>, image: usize, lines: &[Line]) -> Vec<Place> {
    let addresses: Vec<u64> = lines.iter().map(|line| line.address).collect();
    view.symbols.places(image, &addresses)
}

fn source_text(place: &Place) -> Option<String> {
    let file = place.file.as_ref()?.display();
    Some(match place.line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_string(),
    })
}

fn json_rows(
    view: &mut View<'_>,
    id: FunctionId,
    lines: &[Line],
    by_pc: &BTreeMap<usize, Vec<Values>>,
) -> Vec<Row> {
    let Some(function) = view.symbols.function(id).cloned() else {
        return Vec::new();
    };
    let places = places(view, function.image, lines);
    let mut disassembler = Disassembler::new(Spacing::Json);
    let image = view.profile.images.get(function.image);
    let mut rows = Vec::new();
    for (line, place) in lines.iter().zip(places) {
        let heat = heat(view, line);
        let profiles = line
            .pc
            .and_then(|pc| by_pc.get(&pc))
            .map(Vec::as_slice)
            .unwrap_or_default();
        rows.push(Row {
            image: view.image_path(function.image).to_owned(),
            build_id: image.and_then(|image| image.build_id.clone()),
            function: function.name.clone(),
            address: format!("0x{:x}", line.address),
            offset: function
                .start
                .and_then(|start| line.address.checked_sub(start)),
            text: line.instruction.map(|instruction| {
                disassembler.text(&instruction, |target| {
                    Some(name_target(view, function.image, id, target))
                })
            }),
            cycles: whole(heat.cycles),
            cycle_samples: heat.samples,
            source: source_text(&place),
            inlined: place.inlined,
            profiles: profiles
                .iter()
                .map(|values| json_profile(view, values))
                .collect(),
        });
    }
    rows
}

fn json_profile(view: &View<'_>, values: &Values) -> JsonProfile {
    JsonProfile {
        parameter: values.parameter.clone(),
        live: values.is_argument().then_some(match values.live {
            true => Value::Bool(true),
            false => Value::Null,
        }),
        base: values.base,
        caller: values.caller.map(|pc| JsonSite::new(view, pc)),
        reached: values.reached,
        unknown: values.unknown,
        samples: values.samples(),
        windows: values.windows,
        distinct: values.shares.len(),
        threshold: rounded(values.threshold, 3),
        values: json_shares(values, values.class()),
    }
}

fn function_text(
    view: &mut View<'_>,
    id: FunctionId,
    lines: &[Line],
    by_pc: &BTreeMap<usize, Vec<Values>>,
    options: Options,
    out: &mut String,
) {
    let Some(function) = view.symbols.function(id).cloned() else {
        return;
    };
    heading(view, id, lines, out);
    let mut table = Table::new(&[
        ("cycles", Align::Right),
        ("s#", Align::Right),
        ("v#", Align::Right),
        ("1/p", Align::Right),
        ("address", Align::Right),
        ("instruction", Align::Left),
        ("value profile", Align::Left),
    ]);
    let places = places(view, function.image, lines);
    let mut disassembler = Disassembler::new(Spacing::Text);
    let mut last = Place::default();
    let mut sources = Sources::default();
    let quiet = if options.all {
        vec![0; lines.len()]
    } else {
        quiet_runs(view, lines, by_pc)
    };
    let mut skip = 0;
    for ((line, place), run) in lines.iter().zip(places).zip(quiet) {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        if run > QUIET {
            table.line(&format!("  ... {run} instructions without samples"));
            skip = run - 1;
            continue;
        }
        if place != last {
            if let Some(text) = place_line(&place, view.names, &mut sources) {
                table.line(&text);
            }
            last = place;
        }
        let text = match line.instruction {
            Some(instruction) => disassembler.text(&instruction, |target| {
                let name = name_target(view, function.image, id, target);
                Some(view.names.shown(&name))
            }),
            None => "?".to_owned(),
        };
        let profiles = line
            .pc
            .and_then(|pc| by_pc.get(&pc))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let cycles = cycles(heat(view, line).cycles);
        let address = format!("0x{:x}", line.address);
        let Some((first, rest)) = profiles.split_first() else {
            let blank = String::new;
            table.row(vec![
                cycles,
                blank(),
                blank(),
                blank(),
                address,
                text,
                blank(),
            ]);
            continue;
        };
        table.row(cells(view, first, options, [cycles, address, text]));
        for values in rest {
            table.row(cells(view, values, options, Default::default()));
        }
    }
    table.print(out);
}

/// For each line that begins a run of instructions without samples and values: the length of
/// the run; 0 for the other lines.
fn quiet_runs(view: &View<'_>, lines: &[Line], by_pc: &BTreeMap<usize, Vec<Values>>) -> Vec<usize> {
    let is_quiet = |line: &Line| {
        heat(view, line).samples == 0 && line.pc.is_none_or(|pc| !by_pc.contains_key(&pc))
    };
    let mut runs = vec![0; lines.len()];
    let mut start = None;
    for (index, line) in lines.iter().enumerate() {
        if is_quiet(line) {
            runs[*start.get_or_insert(index)] += 1;
        } else {
            start = None;
        }
    }
    runs
}

fn heading(view: &View<'_>, id: FunctionId, lines: &[Line], out: &mut String) {
    let Some(function) = view.symbols.function(id) else {
        return;
    };
    let mut sum = Heat::default();
    for line in lines {
        sum.add(heat(view, line));
    }
    let build = view
        .profile
        .images
        .get(function.image)
        .and_then(|image| image.build_id.as_deref())
        .map(|id| format!(", build id {id}"))
        .unwrap_or_default();
    let mode = match view.symbols.mode(function.image) {
        Mode::Long => "",
        Mode::Compatibility => ", 32-bit code",
    };
    out.push_str(&format!(
        "{}  ({}{build}{mode})\n{:.1}% of all cycles, {}. Shares are of the values known in windows,\n\
         which begin where time is spent: of time, not of executions where it does not say so.\n\
         s#: values known, v#: distinct kept, 1/p: events per entry of the list;\n\
         from..to%: less than 90% known, the unknown may be this value or not.\n\n",
        clean(&function.name),
        clean(view.image_path(function.image)),
        percent(sum.cycles, view.total().cycles),
        counted(sum.samples, "sample"),
    ));
}

/// One line of the table: an instruction with its first profile, or a further one.
fn cells(
    view: &View<'_>,
    values: &Values,
    options: Options,
    [cycles, address, text]: [String; 3],
) -> Vec<String> {
    let from = match values.caller {
        Some(pc) => format!(
            " from {} ({})",
            view.names.shown(&view.symbols.name_of(pc)),
            view.address(pc)
        ),
        None => String::new(),
    };
    let shares = shares_text(values, values.class(), options.values);
    vec![
        cycles,
        count(values.samples()),
        values.shares.len().to_string(),
        threshold_text(values.threshold),
        address,
        text,
        format!(
            "{}{}{from}{}: {shares}",
            values.parameter,
            if values.live { "" } else { "?" },
            values.base.words(),
        ),
    ]
}

/// The source line above the instructions made from it.
fn place_line(place: &Place, names: Names, sources: &mut Sources) -> Option<String> {
    let mut text = source_text(place)?;
    if !place.inlined.is_empty() {
        let inlined = place.inlined.iter().map(|name| names.shown(name));
        let inlined: Vec<String> = inlined.collect();
        text.push_str(&format!(" (inlined: {})", inlined.join(" > ")));
    }
    if let Some(source) = place
        .file
        .as_deref()
        .zip(place.line)
        .and_then(|(f, l)| sources.line(f, l))
    {
        text.push_str("  ");
        text.push_str(source);
    }
    Some(text)
}

/// Source files, read once.
#[derive(Default)]
struct Sources {
    files: BTreeMap<std::path::PathBuf, Vec<String>>,
}

impl Sources {
    /// Largest source file that is read, in bytes.
    const MAX: u64 = 16 << 20;

    fn line(&mut self, file: &std::path::Path, line: u32) -> Option<&str> {
        let lines = self.files.entry(file.to_owned()).or_insert_with(|| {
            // What debug information names need not be a file, or small.
            let small = std::fs::metadata(file).is_ok_and(|metadata| {
                metadata.is_file() && (1..=Self::MAX).contains(&metadata.len())
            });
            let text = if small {
                std::fs::read(file).unwrap_or_default()
            } else {
                Vec::new()
            };
            String::from_utf8_lossy(&text)
                .lines()
                .map(|line| line.trim().to_owned())
                .collect()
        });
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        lines
            .get(index)
            .map(String::as_str)
            .filter(|line| !line.is_empty())
    }
}
