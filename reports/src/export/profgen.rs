//! `profgen`: counts of code as llvm-profgen reads them, for sample-based optimisation by clang
//! and rustc.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgMatches, Args as _};
use flow::Way;

use super::Export;
use super::program::{CODE, Options, Program, write_program};
use crate::failure::Failure;
use crate::render::whole;
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
    rows: CODE,
    options: Options::augment_args,
    write,
};

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
    write_program(
        view,
        matches,
        EXPORT.name,
        "no code of it ran",
        text,
        commands,
    )
}

/// The profile; empty without a range.
pub(super) fn text(program: &Program) -> String {
    let mut ranges = BTreeMap::<(u64, u64), f64>::new();
    let mut branches = BTreeMap::<(u64, u64), f64>::new();
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
    let mut text = String::new();
    let parts = [(ranges, "-"), (branches, "->")];
    for (index, (rows, arrow)) in parts.into_iter().enumerate() {
        let rows = rows
            .into_iter()
            .filter_map(|(key, sum)| Some((key, count(sum)?)));
        let rows: Vec<((u64, u64), u64)> = rows.collect();
        if index == 0 && rows.is_empty() {
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
