//! `bolt`: counts of branches as BOLT reads them before it lays out a program anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{ArgMatches, Args as _};
use flow::Way;
use symbols::{Binary, Room};

use super::profgen::count;
use super::program::{Asked, CODE, Options, Program, options, write_program};
use super::{Export, Exported, at_once, next};
use crate::failure::Failure;
use crate::guard::fenced;
use crate::symbols::MAX_TOTAL;
use crate::toolchain;
use crate::view::View;
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "bolt",
    about: "Counts of a program's branches for perf2bolt --pa, and so for llvm-bolt",
    more: "Name the program with --image. The counts are computed from directions of branches. \
           What they rest on, and the commands that use them, are told on standard error.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Calls,
    stubs: false,
    rows: CODE,
    options: Options::augment_args,
    turns: at_once,
    write,
};

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let Options { few } = options(matches)?;
    let asked = Asked {
        kind: EXPORT.name,
        flags: FLAG,
        is_for_compilers: false,
    };
    let file = next::file(matches.get_one("output"));
    write_program(
        view,
        asked,
        few,
        "no branch of it ran",
        |_, program, said| {
            let binary = program.path.display();
            if !program.has_section(&[".symtab"]) {
                return Err(Failure::Nothing(format!(
                    "{binary} has no symbols of its own, without which BOLT takes no program: name \
                     its file from before strip, or link it without -s and with {FLAG}, and record \
                     that"
                )));
            }
            let has_relocations = program.has_section(&RELOCATIONS);
            if !has_relocations {
                said.push(format!(
                    "{binary} has no relocations, without which BOLT lays out blocks alone and \
                     moves no function: link it with {FLAG}, and record that"
                ));
            }
            Ok((text(program), commands(program, &file, has_relocations)))
        },
    )
}

/// The flag that keeps relocations.
const FLAG: &str = "-Wl,--emit-relocs";
/// Sections that tell them.
const RELOCATIONS: [&str; 2] = [".rela.text", ".rel.text"];

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

/// How BOLT lays out programs.
const LAYOUT: [&str; 5] = [
    "-reorder-blocks=ext-tsp",
    FUNCTIONS,
    "-split-functions",
    "-split-all-cold",
    "-dyno-stats",
];
/// What BOLT does with relocations alone: without them functions stay where they are, and their
/// blocks are laid out anew.
const FUNCTIONS: &str = "-reorder-functions=cdsort";

/// What BOLT is told about the layout of a program that has relocations, or none.
pub(crate) fn layout(has_relocations: bool) -> impl Iterator<Item = &'static str> {
    let words = LAYOUT.into_iter();
    words.filter(move |word| has_relocations || *word != FUNCTIONS)
}

/// Whether a file has relocations, as far as it can be read: another step says why it cannot.
pub(crate) fn has_relocations(path: &Path) -> bool {
    let opened = fenced(|| Binary::open(path, &Room::new(MAX_TOTAL)));
    let Some(Ok(binary)) = opened else {
        return true;
    };
    fenced(|| RELOCATIONS.iter().any(|name| binary.has_section(name))).unwrap_or(true)
}

/// How the file is used.
fn commands(program: &Program, file: &str, has_relocations: bool) -> Vec<String> {
    let binary = program.path.to_string_lossy();
    let version = next::version(&[toolchain::PERF2BOLT, toolchain::BOLT]);
    let data = format!("{file}.fdata");
    let perf2bolt = toolchain::PERF2BOLT.of(&version);
    let read = [perf2bolt.as_str(), &binary, "--pa", "-p", file, "-o", &data];
    let (bolt, new) = (toolchain::BOLT.of(&version), format!("{binary}.new"));
    let lay_out = [bolt.as_str(), &binary, "-o", &new, "-data", &data];
    let lay_out = lay_out.into_iter().map(str::to_owned);
    let lay_out = lay_out.chain(layout(has_relocations).map(str::to_owned));
    vec![
        format!("next: {}", next::command(read)),
        format!("then: {}", next::command(lay_out)),
    ]
}
