//! `hints`: values worth a special case in the source, for programs that apply or collect them.

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use profiledb::Apart;
use serde_json::Value;

use super::{Export, Exported};
use crate::failure::Failure;
use crate::needs::Needs;
use crate::report::hints::{Least, SAMPLES};
use crate::turns::Turns;
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "hints",
    about: "Values that are worth a special case in the source, as JSON",
    more: "The rows are those of `vcpi hints --format json`, each with the text of a patch.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Calls,
    stubs: true,
    rows: Needs::ROWS.kinds,
    options: Least::augment_args,
    turns: in_turns,
    write,
};

/// The least that hints have.
fn least(matches: &ArgMatches) -> Result<Least, Failure> {
    let least = Least::from_arg_matches(matches);
    least.map_err(|error| Failure::Usage(error.to_string()))
}

fn in_turns(matches: &ArgMatches) -> Result<Turns<'static>, Failure> {
    Ok(least(matches)?.turns())
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let least = least(matches)?;
    view.min_samples = view.min_samples.max(SAMPLES);
    let mut rows = Vec::new();
    least.ranked(view)?.each_row(&mut |row| rows.push(row))?;
    let mut bytes = serde_json::to_vec_pretty(&Value::Array(rows))?;
    bytes.push(b'\n');
    Ok(Exported::from(bytes))
}
