//! `hints`: values worth a special case in the source, for programs that apply or collect them.

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use serde_json::Value;

use super::{Export, Exported};
use crate::failure::Failure;
use crate::needs::Needs;
use crate::report::hints::{Least, SAMPLES};
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "hints",
    about: "Values that are worth a special case in the source, as JSON",
    more: "The rows are those of `vcpi hints --format json`, each with the text of a patch.",
    is_binary: false,
    by_flush: false,
    stubs: true,
    rows: Needs::ROWS.kinds,
    options: Least::augment_args,
    write,
};

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let least = Least::from_arg_matches(matches);
    let least = least.map_err(|error| Failure::Usage(error.to_string()))?;
    view.min_samples = view.min_samples.max(SAMPLES);
    let mut rows = Vec::new();
    least.ranked(view)?.each_row(&mut |row| rows.push(row))?;
    let mut bytes = serde_json::to_vec_pretty(&Value::Array(rows))?;
    bytes.push(b'\n');
    Ok(Exported::from(bytes))
}
