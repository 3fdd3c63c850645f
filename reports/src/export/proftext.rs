//! `proftext`: counters and values as clang and rustc read them in place of those of an
//! instrumented run (`-fprofile-use`, `-Cprofile-use`).
//!
//! A profile of that kind has a number for each counter that an instrumented build would have, and
//! values for each of its places. Which blocks they count is told by the compiler's own code after
//! its pass that instruments: the skeleton ([`skeleton`]). The program that was recorded is another
//! build of the same source. What is in both are places in the source, with the calls that were
//! inlined around them, and so the counts of the recorded code become counts of the skeleton's
//! blocks ([`edges`]).

mod commands;
mod edges;
mod skeleton;
mod tally;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args};
use profiledb::Apart;
use protocol::Kinds;

use self::commands::commands;
use self::skeleton::{InstrumentedFunction, Spot};
use self::tally::Tally;
use super::profgen::{RUST_FLAGS, count};
use super::program::positions::{LookUp, PositionFrame, positions};
use super::program::{Asked, CODE, CountedFunction, Program, options};
use super::{Export, Exported, at_once, next};
use crate::failure::Failure;
use crate::report::sizes_at;
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "proftext",
    about: "Counters and values for clang -fprofile-use and rustc -Cprofile-use",
    more: "Name the program with --image, and with --skeleton what the compiler prints of the code \
           that it would instrument. The counts are computed from directions of branches. What \
           they rest on, and the commands that use them, are told on standard error.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Calls,
    stubs: false,
    rows: Kinds {
        values: true,
        ..CODE
    },
    options: Options::augment_args,
    turns: at_once,
    write,
};

/// Options of this export.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Export also what rests on fewer than 2500 samples.
    #[arg(long)]
    few: bool,
    /// A file, or a folder of files, that a build with `-fprofile-generate -mllvm
    /// -print-after=pgo-instr-gen,ctx-instr-gen -mllvm -ir-dump-directory=FOLDER` left.
    #[arg(long, value_name = "PATH", required = true)]
    skeleton: PathBuf,
}

/// Flags of the recorded build: lines and columns of all code, and of what is inlined.
const FLAGS: &str = "-O2 -g1 -fdebug-info-for-profiling";
/// The flag that makes counters of blocks of all counters.
const NO_SELECTS: &str = "-mllvm -pgo-instr-select=false";
/// Bytes of a skeleton's files that are read in all, and files.
const MOST_BYTES: u64 = 2 << 30;
const MOST_FILES: usize = 1 << 16;
/// Targets and sizes of a place, at most.
const MOST_VALUES: usize = 24;
/// Kinds of values, as the compiler numbers them.
const TARGETS: u32 = 0;
const SIZES: u32 = 1;

/// Places of the skeleton by number, the innermost function first.
type Places = HashMap<Vec<Spot>, usize>;

/// What was seen of the skeleton's places.
#[derive(Debug, Default)]
struct SkeletonCounts {
    /// How often each place ran, as far as the recorded build has its code.
    ran: Vec<Option<f64>>,
    /// Names of what was called from it, and how often.
    targets: BTreeMap<usize, BTreeMap<String, f64>>,
    /// Sizes of what was copied there, and how often.
    sizes: BTreeMap<usize, BTreeMap<u64, f64>>,
}

/// How often a copy of a place's code ran.
#[derive(Debug, Default)]
struct CopyRuns {
    /// In blocks that are no parts of an unrolled loop.
    blocks: BTreeMap<usize, f64>,
    /// In an unrolled loop, all copies of its body together.
    unrolled: f64,
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let Options { few, skeleton } = options(matches)?;
    let asked = Asked {
        kind: EXPORT.name,
        flags: FLAGS,
        is_for_compilers: true,
    };
    let program = Program::new(view, asked)?;
    let mut tally = Tally::default();
    let functions = read(&skeleton, &mut tally)?;
    let places = places(&functions);
    let sizes = sizes(view, &program);
    let seen = SkeletonCounts::of(&program, &places, &sizes).ok_or_else(|| {
        Failure::Nothing(format!(
            "{}: no line of its source is known, which counters are found by: build it with clang \
             {FLAGS} (rustc {RUST_FLAGS}), and record that",
            program.path.display()
        ))
    })?;
    program.has_enough(few)?;
    let text = text(&functions, &places, &seen, &mut tally);
    if tally.written == 0 {
        return Err(Failure::Nothing(format!(
            "{}: none of its functions that ran is in {}: a skeleton is of the same source, and is \
             built with the same flags",
            program.path.display(),
            skeleton.display()
        )));
    }
    view.notes.extend(program.coverage());
    view.notes.push(tally.coverage());
    let file = next::file(matches.get_one("output"));
    Ok(Exported {
        bytes: text.into_bytes(),
        next: commands(&program, &file),
    })
}

/// The functions of a skeleton.
fn read(path: &Path, tally: &mut Tally) -> Result<Vec<InstrumentedFunction>, Failure> {
    let failed = |path: &Path, source: std::io::Error| {
        Failure::Input(format!("skeleton {}: {source}", path.display()))
    };
    let mut files = Vec::new();
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| failed(path, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(path, error))?.path();
            if entry.extension().is_some_and(|ending| ending == "ll") {
                files.push(entry);
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut left = MOST_BYTES;
    let mut functions: Vec<InstrumentedFunction> = Vec::new();
    let mut known: HashSet<(String, u64)> = HashSet::new();
    for file in files.iter().take(MOST_FILES) {
        let size = std::fs::metadata(file).map_err(|error| failed(file, error))?;
        left = left.checked_sub(size.len()).ok_or_else(|| {
            Failure::Input(format!(
                "skeleton {}: more than {} GiB; leave out files that hardly run",
                path.display(),
                MOST_BYTES >> 30
            ))
        })?;
        let bytes = std::fs::read(file).map_err(|error| failed(file, error))?;
        let (found, broken) = skeleton::functions(&String::from_utf8_lossy(&bytes));
        tally.broken += broken;
        // Functions of headers are in several files, and count once.
        functions.extend(
            found
                .into_iter()
                .filter(|one| known.insert((one.name.clone(), one.hash))),
        );
    }
    if functions.is_empty() {
        return Err(Failure::Input(format!(
            "skeleton {}: there is no instrumented function in it; build the program's files with \
             {FLAGS} -fprofile-generate {NO_SELECTS} -mllvm \
             -print-after=pgo-instr-gen,ctx-instr-gen -mllvm -ir-dump-directory=FOLDER, and name \
             that folder",
            path.display()
        )));
    }
    Ok(functions)
}

/// The places of functions, each with a number.
fn places(functions: &[InstrumentedFunction]) -> Places {
    let mut places = Places::new();
    for function in functions {
        let blocks = function.blocks.iter().flat_map(|block| &block.at);
        let sites = function.sites.iter().map(|site| &site.at);
        for at in blocks.chain(sites).filter(|at| !at.is_empty()) {
            let next = places.len();
            places.entry(at.clone()).or_insert(next);
        }
    }
    places
}

/// Sizes of copies by call site, with their shares.
fn sizes(view: &View<'_>, program: &Program) -> BTreeMap<u64, Vec<(u64, f64)>> {
    let mut found: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
    for (site, shares) in sizes_at(view) {
        let Some(pc) = view.profile.pcs.get(site) else {
            continue;
        };
        if program.images.contains(&pc.image) {
            found.entry(pc.address).or_insert(shares);
        }
    }
    found
}

/// A size as the compiler tells sizes apart: exact up to 8 and where it is a power of two, else by
/// the range between these that it is in, and from 513 on as one.
fn bucket(size: u64) -> u64 {
    match size {
        0..=8 => size,
        513.. => 513,
        _ if size.is_power_of_two() => size,
        _ => (1 << size.ilog2()) + 1,
    }
}

impl SkeletonCounts {
    /// What was seen of a program; `None`: there is no debug information.
    fn of(
        program: &Program,
        places: &Places,
        sizes: &BTreeMap<u64, Vec<(u64, f64)>>,
    ) -> Option<SkeletonCounts> {
        let debug = program.debug()?;
        positions(&debug, |look_up| {
            let mut seen = SkeletonCounts {
                ran: vec![None; places.len()],
                ..SkeletonCounts::default()
            };
            for function in &program.functions {
                seen.add(program, function, look_up, places, sizes);
            }
            seen
        })
    }

    fn add(
        &mut self,
        program: &Program,
        function: &CountedFunction,
        look_up: &mut LookUp<'_>,
        places: &Places,
        sizes: &BTreeMap<u64, Vec<(u64, f64)>>,
    ) {
        let mut at: Vec<(u64, usize, f64)> = Vec::new();
        for (index, (block, count)) in
            (0..).zip(function.code.blocks.iter().zip(&function.counts.blocks))
        {
            let instructions = program.instructions(block.start, block.end);
            at.extend(
                instructions
                    .into_iter()
                    .map(|address| (address, index, *count)),
            );
        }
        let addresses: Vec<u64> = at.iter().map(|(address, ..)| *address).collect();
        let positions = look_up(&addresses);
        // Each copy that was inlined, by the calls around it, has its own code of a place, in one
        // block or, where code was duplicated, in several.
        let mut copies: BTreeMap<(usize, &[PositionFrame]), CopyRuns> = BTreeMap::new();
        for ((address, block, count), position) in at.iter().zip(&positions) {
            let chain = &position.frames;
            let all = count * f64::from(position.copies);
            let spots: Vec<Spot> = chain
                .iter()
                .map(|frame| Spot {
                    name: frame.name.clone(),
                    line: frame.line,
                    column: frame.column,
                })
                .collect();
            for depth in 1..=spots.len() {
                let (inner, outer) = (spots.get(..depth), chain.get(depth..));
                let place = inner.and_then(|inner| places.get(inner)).copied();
                let (Some(place), Some(outer)) = (place, outer) else {
                    continue;
                };
                let ran = copies.entry((place, outer)).or_default();
                match position.copies {
                    // The copies of a loop's body run equally often, in one block or several.
                    2.. => ran.unrolled = ran.unrolled.max(all),
                    _ => {
                        ran.blocks.insert(*block, all);
                    }
                }
                // Calls of each copy are told by its own instruction.
                self.call(program, *address, place, *count);
                if let Some(shares) = sizes.get(address) {
                    let sums = self.sizes.entry(place).or_default();
                    for (size, share) in shares {
                        *sums.entry(bucket(*size)).or_default() += count * share;
                    }
                }
            }
        }
        for ((place, _), ran) in copies {
            if let Some(sum) = self.ran.get_mut(place) {
                *sum.get_or_insert(0.0) += ran.unrolled + ran.blocks.values().sum::<f64>();
            }
        }
    }

    /// Adds whom an instruction calls.
    fn call(&mut self, program: &Program, address: u64, place: usize, count: f64) {
        let Some(targets) = program.evidence.targets.get(&address) else {
            return;
        };
        let elsewhere = program.evidence.elsewhere.get(&address).copied();
        let sum = targets.values().sum::<f64>() + elsewhere.unwrap_or(0.0);
        for (target, weight) in targets {
            if let Some(name) = program.name_at(*target).filter(|_| sum > 0.0) {
                let sums = self.targets.entry(place).or_default();
                *sums.entry(name).or_default() += count * weight / sum;
            }
        }
    }
}

/// The profile.
fn text(
    functions: &[InstrumentedFunction],
    places: &Places,
    seen: &SkeletonCounts,
    tally: &mut Tally,
) -> String {
    let names = skeleton::names(functions);
    let mut text = ":ir\n".to_owned();
    for function in functions {
        if function.has_steps {
            tally.steps += 1;
            continue;
        }
        let known = known(function, places, seen);
        if !known.iter().flatten().any(|ran| count(*ran).is_some()) {
            tally.unseen += 1;
            continue;
        }
        let next: Vec<Vec<usize>> = function
            .blocks
            .iter()
            .map(|block| block.next.clone())
            .collect();
        let Some(counts) = edges::counts(&next, &known) else {
            tally.large += 1;
            continue;
        };
        let mut counters = vec![0.0; function.counters];
        for ((block, ran), known) in function.blocks.iter().zip(&counts).zip(&known) {
            tally.all += ran;
            tally.known += if known.is_some() { *ran } else { 0.0 };
            for counter in &block.counters {
                if let Some(sum) = counters.get_mut(*counter) {
                    *sum += ran;
                }
            }
        }
        tally.written += 1;
        let _ = writeln!(
            text,
            "{}\n{}\n{}",
            function.name,
            function.hash,
            counters.len()
        );
        for sum in counters {
            let _ = writeln!(text, "{}", count(sum).unwrap_or(0));
        }
        values(&mut text, function, places, seen, &names, tally);
        text.push('\n');
    }
    text
}

/// What is known of a function's blocks: how often the places ran that no other block has.
fn known(
    function: &InstrumentedFunction,
    places: &Places,
    seen: &SkeletonCounts,
) -> Vec<Option<f64>> {
    let mut blocks_at: HashMap<usize, usize> = HashMap::new();
    let numbers: Vec<Vec<usize>> = function
        .blocks
        .iter()
        .map(|block| {
            let at = block.at.iter().filter_map(|at| places.get(at).copied());
            at.collect()
        })
        .collect();
    for number in numbers.iter().flatten() {
        *blocks_at.entry(*number).or_default() += 1;
    }
    numbers
        .iter()
        .map(|numbers| {
            let own = numbers.iter().filter(|one| blocks_at.get(one) == Some(&1));
            let mut ran: Vec<f64> = own
                .filter_map(|one| seen.ran.get(*one).copied().flatten())
                .collect();
            ran.sort_by(f64::total_cmp);
            // Code was moved in front of the block, or out of a loop: the middle one was not.
            ran.get(ran.len() / 2).copied()
        })
        .collect()
}

/// The values of a function's places.
fn values(
    text: &mut String,
    function: &InstrumentedFunction,
    places: &Places,
    seen: &SkeletonCounts,
    names: &BTreeMap<&str, &str>,
    tally: &mut Tally,
) {
    let mut kinds: BTreeMap<u32, BTreeMap<u32, Vec<(String, u64)>>> = BTreeMap::new();
    for site in &function.sites {
        let place = places.get(&site.at);
        let mut found: Vec<(String, u64)> = match site.kind {
            TARGETS => {
                let targets = place.and_then(|place| seen.targets.get(place));
                let targets = targets.into_iter().flatten();
                let named = targets.filter_map(|(symbol, sum)| {
                    let name = names.get(symbol.as_str()).copied().unwrap_or(symbol);
                    Some((name.to_owned(), count(*sum)?))
                });
                named.collect()
            }
            SIZES => {
                let sizes = place.and_then(|place| seen.sizes.get(place));
                let sizes = sizes.into_iter().flatten();
                let sized = sizes.filter_map(|(size, sum)| Some((size.to_string(), count(*sum)?)));
                sized.collect()
            }
            // What else there is was not seen.
            _ => Vec::new(),
        };
        found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        found.truncate(MOST_VALUES);
        if !found.is_empty() {
            match site.kind {
                TARGETS => tally.targets += 1,
                _ => tally.sizes += 1,
            }
        }
        let sites = kinds.entry(site.kind).or_default();
        sites.insert(site.number, found);
    }
    // The compiler compares how many places there are, also where nothing was seen.
    if kinds.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", kinds.len());
    for (kind, sites) in kinds {
        let most = sites.keys().next_back().map_or(0, |last| last + 1);
        let _ = writeln!(text, "{kind}\n{most}");
        for number in 0..most {
            let values = sites.get(&number).map(Vec::as_slice).unwrap_or_default();
            let _ = writeln!(text, "{}", values.len());
            for (value, count) in values {
                let _ = writeln!(text, "{value}:{count}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
