//! `folded`: a stack to a line, as flame graph tools read them.

use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};

use super::stacks::{Location, Stacks, UNKNOWN_CALLERS, process_name};
use super::{Export, Exported, STACKS, at_once};
use crate::failure::Failure;
use crate::render::whole;
use crate::view::View;
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "folded",
    about: "Stacks, one to a line with its weight, for flame graphs",
    more: "Kernel frames end in `_[k]`, inlined ones in `_[i]`. The first frame is the process; \
           `[unknown callers]` behind it stands for frames that are not known.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Programs,
    stubs: false,
    rows: STACKS,
    options: Options::augment_args,
    turns: at_once,
    write,
};

/// Options of this export.
#[derive(Debug, Args)]
struct Options {
    /// What the number of a line counts.
    #[arg(long, value_enum, default_value_t = Weight::Cycles)]
    weight: Weight,
}

/// What the number of a line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Weight {
    /// Cycles.
    Cycles,
    /// Interrupts.
    Samples,
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let options =
        Options::from_arg_matches(matches).map_err(|error| Failure::Usage(error.to_string()))?;
    let stacks = Stacks::of_programs(view)?;
    let mut lines = std::collections::BTreeMap::<String, f64>::new();
    for sample in &stacks.samples {
        let mut line = escaped(&process_name(stacks.process(sample)));
        if sample.cut.is_some() {
            line.push(';');
            line.push_str(UNKNOWN_CALLERS);
        }
        for (location, frame) in stacks.frames(sample).rev() {
            line.push(';');
            let function = stacks.functions.get(frame.function);
            line.push_str(&escaped(function.map_or("?", |function| &function.name)));
            line.push_str(mark(&stacks, location, frame.is_inlined));
        }
        // What differs in lines alone is one stack here.
        *lines.entry(line).or_default() += match options.weight {
            Weight::Cycles => sample.heat.cycles,
            Weight::Samples => crate::view::as_float(sample.heat.samples),
        };
    }
    let mut out = String::new();
    for (line, weight) in lines {
        out.push_str(&format!("{line} {}\n", whole(weight)));
    }
    Ok(Exported::from(out.into_bytes()))
}

fn mark(stacks: &Stacks<'_>, location: &Location, is_inlined: bool) -> &'static str {
    match (stacks.is_kernel(location.image), is_inlined) {
        (true, _) => "_[k]",
        (false, true) => "_[i]",
        (false, false) => "",
    }
}

/// A name without what would end a frame; it has no line ends.
fn escaped(name: &str) -> String {
    name.replace(';', ":")
}
