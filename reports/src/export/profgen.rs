//! `profgen`: counts of code as llvm-profgen reads them, for sample-based optimisation by clang
//! and rustc.

mod contexts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args};
use flow::Way;
use profiledb::Apart;
use protocol::Kinds;
use symbols::{Binary, Room};

use self::contexts::{Callers, ContextProfile};
use super::program::{Asked, CODE, Program, debug, options, write_program};
use super::{Export, Exported, at_once, next};
use crate::elf::Elf;
use crate::failure::Failure;
use crate::guard::fenced;
use crate::render::{counted, whole};
use crate::symbols::MAX_TOTAL;
use crate::toolchain;
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "profgen",
    about: "Counts of a program's code for llvm-profgen, and so for clang -fprofile-sample-use",
    more: "Name the program with --image. The counts are computed from directions of branches. \
           What they rest on, and the commands that use them, are told on standard error.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Calls,
    stubs: false,
    rows: Kinds {
        stacks: true,
        ..CODE
    },
    options: Options::augment_args,
    turns: at_once,
    write,
};

/// Options of this export.
#[derive(Debug, Args)]
struct Options {
    /// Export also what rests on fewer than 2500 samples.
    #[arg(long)]
    few: bool,
    /// Tell the counts of a function apart by the calls that lead there.
    #[arg(long)]
    contexts: bool,
}

/// Counts are whole numbers there: this many stand for one sample.
pub(super) const UNIT: f64 = 1000.0;
/// Smaller counts are left out.
const LEAST: f64 = 0.3;
/// Flags without which a profile cannot be matched with source code.
pub(crate) const FLAGS: &str = "-g1 -fdebug-info-for-profiling -funique-internal-linkage-names";
/// The same for a build with probes.
const PROBE_FLAGS: &str = "-fpseudo-probe-for-profiling -funique-internal-linkage-names";
/// Those of rustc. cargo has it strip what was not asked for by a profile of `Cargo.toml`.
pub(crate) const RUST_FLAGS: &str = "-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling";

/// A count as it is written; `None`: too small.
pub(super) fn count(count: f64) -> Option<u64> {
    let units = count * UNIT;
    (units >= LEAST).then(|| whole(units).max(1))
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let Options { few, contexts } = options(matches)?;
    let asked = Asked {
        kind: EXPORT.name,
        flags: &format!("{FLAGS} (rustc {RUST_FLAGS})"),
        is_for_compilers: true,
    };
    let file = next::file(matches.get_one("output"));
    write_program(
        view,
        asked,
        few,
        "no code of it ran",
        |view, program, said| {
            let places = SourcePlaces::of(program)?;
            let text = match contexts {
                true => by_contexts(view, program, said)?,
                false => text(program),
            };
            Ok((text, commands(program, &places, &file)))
        },
    )
}

/// The profile by contexts; what it rests on is said.
fn by_contexts(
    view: &View<'_>,
    program: &Program,
    said: &mut Vec<String>,
) -> Result<String, Failure> {
    let callers = Callers::of(view, program);
    let path = program.path.display();
    if callers.known == 0.0 {
        return Err(Failure::Nothing(format!(
            "{path}: no caller is known that contexts could be told apart by: record with \
             --frames 16"
        )));
    }
    let profile = ContextProfile::of(program, &callers).ok_or_else(|| {
        Failure::Nothing(format!(
            "{path} has no debug information, by which contexts are named: build it with {FLAGS}, \
             and record that"
        ))
    })?;
    said.push(format!(
        "callers are known of {:.0} % of the samples: {}",
        100.0 * callers.known,
        counted(profile.len() as u64, "context"),
    ));
    Ok(profile.text())
}

/// The profile; empty without a range.
pub(super) fn text(program: &Program) -> String {
    let mut ranges = PlaceSums::new();
    let mut branches = PlaceSums::new();
    for function in &program.functions {
        for (block, count) in function.code.blocks.iter().zip(&function.counts.blocks) {
            *ranges.entry((block.start, block.last)).or_default() += count;
        }
        for edge in &function.counts.edges {
            if edge.way != Way::Falls {
                *branches.entry((edge.from, edge.to)).or_default() += edge.count;
            }
        }
    }
    rows(&ranges, &branches)
}

/// Counts by two addresses.
type PlaceSums = BTreeMap<(u64, u64), f64>;

/// Ranges and branches as lines; empty without a range.
fn rows(ranges: &PlaceSums, branches: &PlaceSums) -> String {
    let mut text = String::new();
    for (sums, arrow) in [(ranges, "-"), (branches, "->")] {
        let rows = sums
            .iter()
            .filter_map(|(key, sum)| Some((key, count(*sum)?)));
        let rows: Vec<(&(u64, u64), u64)> = rows.collect();
        if arrow == "-" && rows.is_empty() {
            return String::new();
        }
        let _ = writeln!(text, "{}", rows.len());
        for ((from, to), count) in rows {
            let _ = writeln!(text, "{from:x}{arrow}{to:x}:{count}");
        }
    }
    text
}

/// By what llvm-profgen finds places of the source.
#[derive(Debug)]
enum SourcePlaces {
    /// Lines of the program itself, or of its debug file.
    Lines(Option<PathBuf>),
    /// Probes, which need no debug information.
    Probes,
}

impl SourcePlaces {
    /// What a program has of them.
    ///
    /// # Errors
    /// If it has nothing.
    fn of(program: &Program) -> Result<SourcePlaces, Failure> {
        if program.has_section(&[".pseudo_probe"]) {
            return Ok(SourcePlaces::Probes);
        }
        let debug = program.debug();
        match debug.filter(|debug| debug.has_section(".debug_line")) {
            Some(debug) => Ok(SourcePlaces::Lines(apart(&debug, &program.path))),
            None => Err(Failure::Nothing(format!(
                "{} has no debug information, by which llvm-profgen finds lines: build it with \
                 {}, and record that",
                program.path.display(),
                if program.is_rust() { RUST_FLAGS } else { FLAGS },
            ))),
        }
    }
}

/// Where debug information is, if not in the program's file.
fn apart(debug: &Elf, program: &Path) -> Option<PathBuf> {
    let path = debug.path().filter(|path| *path != program)?;
    Some(path.to_owned())
}

/// The file with a program's debug information, which llvm-profgen has to be told where the
/// program has none itself.
pub(crate) fn debug_binary(program: &Path) -> Option<PathBuf> {
    let opened = fenced(|| Binary::open(program, &Room::new(MAX_TOTAL)));
    apart(&debug(program, &opened?.ok()?)?, program)
}

/// How the file is used.
fn commands(program: &Program, places: &SourcePlaces, file: &str) -> Vec<String> {
    let version = next::version(&[toolchain::PROFGEN, toolchain::CLANG]);
    let profile = format!("{file}.prof");
    let mut symbolize = vec![
        toolchain::PROFGEN.of(&version),
        format!("--unsymbolized-profile={file}"),
        format!("--binary={}", program.path.display()),
    ];
    if let SourcePlaces::Lines(Some(debug)) = places {
        symbolize.push(format!("--debug-binary={}", debug.display()));
    }
    symbolize.extend(["--use-offset=0", "--format=text"].map(str::to_owned));
    symbolize.push(format!("--output={profile}"));
    let build = |hot: &str| match (program.is_rust(), places) {
        (true, _) => {
            let flags = RUST_FLAGS.split(' ').map(str::to_owned);
            let used = format!("-Zprofile-sample-use={profile}");
            let hot = hot.split_once("-mllvm ");
            let hot = hot.map(|(_, option)| format!("-Cllvm-args={option}"));
            let build = next::cargo(flags.chain([used]).chain(hot));
            format!("RUSTC_BOOTSTRAP=1 {build}")
        }
        (false, places) => {
            let flags = match places {
                SourcePlaces::Lines(_) => FLAGS,
                SourcePlaces::Probes => PROBE_FLAGS,
            };
            let clang = toolchain::CLANG.of(&version);
            let used = next::command([format!("-fprofile-sample-use={profile}")]);
            format!("{clang} -O2 {flags} {used}{hot}")
        }
    };
    vec![
        format!("next: {}", next::command(symbolize)),
        format!("then build with: {}", build("")),
        format!(
            "and again with: {}; keep the faster one",
            build(" -mllvm -profile-summary-cutoff-hot=999000")
        ),
    ]
}
