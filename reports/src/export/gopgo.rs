//! `gopgo`: call stacks as `go build -pgo` reads them.

use std::collections::{BTreeMap, BTreeSet};

use clap::{ArgMatches, Args as _};

use super::pprof::values::Arguments;
use super::pprof::{packed, profile};
use super::program::{LEAST, Options, may_be_go, more, of_build, options};
use super::stacks::Stacks;
use super::{Export, Exported, STACKS, at_once, next};
use crate::failure::Failure;
use crate::render::{counted, percent};
use crate::view::{View, as_float};
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "gopgo",
    about: "Call stacks for go build -pgo: a pprof with the first lines of functions",
    more: "Name the program with --image. Record it with `vcpid record --frames 16`: the compiler \
           learns from calls, which it finds by their callers.",
    is_binary: true,
    by_flush: false,
    apart: Apart::Rows,
    stubs: false,
    rows: STACKS,
    options: Options::augment_args,
    turns: at_once,
    write,
};

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let Options { few } = options(matches)?;
    let [name] = view.named_images.clone().try_into().map_err(|_| {
        let kind = EXPORT.name;
        Failure::Usage(format!(
            "export {kind}: which program? name it with --image (once)"
        ))
    })?;
    if !may_be_go(view, &name) {
        of_build(view, &name)?;
        return Err(Failure::Nothing(format!(
            "{name} is no Go program, and go build takes the profiles of those alone: make one for \
             clang or rustc by `vcpi export profgen`, or for gcc by `vcpi export gcov`"
        )));
    }
    let stacks = Stacks::new(view)?;
    let samples = stacks.total().samples;
    if samples < LEAST && !few {
        return Err(Failure::Nothing(format!(
            "{name}: {} of it are in this profile; a build needs {} (--few exports them anyway)",
            counted(samples, "sample"),
            counted(LEAST, "sample"),
        )));
    }
    let lines = first_lines(view, &stacks);
    if lines.is_empty() {
        of_build(view, &name)?;
        return Err(Failure::Nothing(format!(
            "{name}: no function's first line is known, which the compiler counts from: build it \
             without -ldflags=-w, by Go 1.21 or newer, and record that"
        )));
    }
    let called = stacks.samples.iter().filter(|one| one.locations.len() > 1);
    let called: u64 = called.map(|one| one.heat.samples).sum();
    view.notes.push(format!(
        "{name}: {}; the callers are known of {:.0} % of them, and the first lines of {} of {}",
        counted(samples, "sample"),
        percent(as_float(called), as_float(samples)),
        lines.len(),
        counted(stacks.functions.len() as u64, "function"),
    ));
    view.notes.extend(more(samples));
    if called == 0 {
        view.notes.push(format!(
            "{name}: without callers the compiler learns nothing of calls: record it with \
             `vcpid record --frames 16`"
        ));
    }
    let mut profile = profile(&stacks, view, &Arguments::default());
    for (place, function) in profile.function.iter_mut().enumerate() {
        function.start_line = lines.get(&place).map_or(0, |line| i64::from(*line));
    }
    let used = format!("-pgo={}", next::file(matches.get_one("output")));
    Ok(Exported {
        bytes: packed(&profile)?,
        next: vec![format!("next: {}", next::command(["go", "build", &used]))],
    })
}

/// The first lines of the functions of some stacks, by their places.
fn first_lines(view: &View<'_>, stacks: &Stacks<'_>) -> BTreeMap<usize, u32> {
    let mut by_image: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for function in &stacks.functions {
        let names = by_image.entry(function.image).or_default();
        names.insert(function.name.as_str());
    }
    let lines: BTreeMap<usize, BTreeMap<String, u32>> = by_image
        .into_iter()
        .map(|(image, names)| (image, view.symbols.first_lines(image, &names)))
        .collect();
    let functions = stacks.functions.iter().enumerate();
    functions
        .filter_map(|(place, function)| {
            let line = lines.get(&function.image)?.get(&function.name)?;
            Some((place, *line))
        })
        .collect()
}
