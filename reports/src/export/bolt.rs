//! `bolt`: counts of branches as BOLT reads them before it lays out a program anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgMatches, Args as _};
use flow::Way;

use super::Export;
use super::profgen::count;
use super::program::{CODE, Options, Program, options, write_program};
use crate::failure::Failure;
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "bolt",
    about: "Counts of a program's branches for perf2bolt --pa, and so for llvm-bolt",
    more: "Name the program with --image. The counts are computed from directions of branches. \
           What they rest on, and the commands that use them, are told on standard error.",
    is_binary: false,
    by_flush: false,
    stubs: false,
    rows: CODE,
    options: Options::augment_args,
    write,
};

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Vec<u8>, Failure> {
    let Options { few } = options(matches)?;
    write_program(
        view,
        matches.get_one("output"),
        (EXPORT.name, few),
        "no branch of it ran",
        |_, program, _| Ok(text(program)),
        commands,
    )
}

/// The profile: a line for each branch, and for each way from a block to the one behind it.
fn text(program: &Program) -> String {
    let base = program.base();
    let mut branches = BTreeMap::<(u64, u64), f64>::new();
    let mut falls = BTreeMap::<(u64, u64), f64>::new();
    for function in &program.functions {
        for edge in &function.counts.edges {
            match edge.way {
                Way::Falls => {
                    let block = function.code.around(edge.from);
                    if let Some(block) = block.and_then(|at| function.code.blocks.get(at)) {
                        *falls.entry((block.start, edge.to)).or_default() += edge.count;
                    }
                }
                Way::Jumps | Way::Indirect | Way::Calls => {
                    *branches.entry((edge.from, edge.to)).or_default() += edge.count;
                }
            }
        }
    }
    let mut text = String::new();
    let at = |address: u64| address.wrapping_sub(base);
    for ((from, to), sum) in branches {
        if let Some(count) = count(sum) {
            let _ = writeln!(text, "B {:x} {:x} {count} 0", at(from), at(to));
        }
    }
    for ((from, to), sum) in falls {
        if let Some(count) = count(sum) {
            let _ = writeln!(text, "F {:x} {:x} {count}", at(from), at(to));
        }
    }
    text
}

/// How the file is used, and what its program lacks for that.
fn commands(program: &Program, output: Option<&PathBuf>) -> Vec<String> {
    let file = output.map_or("FILE".to_owned(), |path| path.display().to_string());
    let binary = program.path.display();
    let mut said = Vec::new();
    if !program.has_section(&[".rela.text", ".rel.text"]) {
        said.push(format!(
            "{binary} has no relocations, without which BOLT cannot move functions: link it with \
             -Wl,--emit-relocs, and record that"
        ));
    }
    said.push(format!(
        "next: perf2bolt {binary} --pa -p {file} -o {file}.fdata"
    ));
    said.push(format!(
        "then: llvm-bolt {binary} -o {binary}.bolt -data {file}.fdata -reorder-blocks=ext-tsp \
         -reorder-functions=cdsort -split-functions -split-all-cold -dyno-stats"
    ));
    said
}
