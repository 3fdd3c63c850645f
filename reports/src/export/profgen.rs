//! `profgen`: counts of code as llvm-profgen reads them, for sample-based optimisation by clang
//! and rustc.

mod contexts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgMatches, Args};
use flow::Way;
use protocol::Kinds;

use self::contexts::{Callers, ContextProfile};
use super::Export;
use super::program::{CODE, Program, options, write_program};
use crate::failure::Failure;
use crate::render::{counted, whole};
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "profgen",
    about: "Counts of a program's code for llvm-profgen, and so for clang -fprofile-sample-use",
    more: "Name the program with --image. The counts are computed from directions of branches. \
           What they rest on, and the commands that use them, are told on standard error.",
    is_binary: false,
    by_flush: false,
    stubs: false,
    rows: Kinds {
        stacks: true,
        ..CODE
    },
    options: Options::augment_args,
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
/// Those of rustc. cargo has it strip what was not asked for by a profile of `Cargo.toml`.
pub(crate) const RUST_FLAGS: &str = "-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling";

/// A count as it is written; `None`: too small.
pub(super) fn count(count: f64) -> Option<u64> {
    let units = count * UNIT;
    (units >= LEAST).then(|| whole(units).max(1))
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Vec<u8>, Failure> {
    let Options { few, contexts } = options(matches)?;
    write_program(
        view,
        matches.get_one("output"),
        (EXPORT.name, few),
        "no code of it ran",
        |view, program, said| match contexts {
            true => by_contexts(view, program, said),
            false => Ok(text(program)),
        },
        commands,
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

/// How the file is used, and what its program lacks for that.
fn commands(program: &Program, output: Option<&PathBuf>) -> Vec<String> {
    let file = output.map_or("FILE".to_owned(), |path| path.display().to_string());
    let binary = program.path.display();
    let is_rust = program.is_rust();
    let flags = if is_rust { RUST_FLAGS } else { FLAGS };
    let mut said = Vec::new();
    if !program.has_section(&[".debug_info", ".zdebug_info"]) {
        said.push(format!(
            "{binary} has no debug information, which the next command needs: build it with \
             {flags}, and record that"
        ));
    }
    said.push(format!(
        "next: llvm-profgen --unsymbolized-profile={file} --binary={binary} --use-offset=0 \
         --format=text --output={file}.prof"
    ));
    let build = |hot: &str| match is_rust {
        true => {
            let hot = hot.replace("-mllvm ", "-Cllvm-args=");
            format!(
                "RUSTC_BOOTSTRAP=1 RUSTFLAGS='{flags} -Zprofile-sample-use={file}.prof{hot}' \
                 cargo build --release"
            )
        }
        false => format!("clang -O2 {flags} -fprofile-sample-use={file}.prof{hot}"),
    };
    said.push(format!("then build with: {}", build("")));
    said.push(format!(
        "and again with: {}; keep the faster one",
        build(" -mllvm -profile-summary-cutoff-hot=999000")
    ));
    said
}
