//! `vcpid check --truth`: whether this processor makes of instructions what is worked out.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use clap::Parser as _;
use serde::Serialize;

use crate::pipeline::bounce::truth;
use crate::record;
use crate::settings::args::{Args, Command, FormatArg};
use crate::store::output;

/// Pairs a second, at most.
const MOST: u32 = 200;

/// What was found.
#[derive(Debug, Serialize)]
struct Truth {
    seconds: f64,
    /// Pairs of breakpoints that were seen.
    pairs: u64,
    /// Blocks between them that were worked out, and results of instructions in these.
    compared: u64,
    results: u64,
    agreed: u64,
    /// Blocks that load what others may write, and that found something else there.
    raced: u64,
    disagreed: u64,
    /// Where, and in what.
    disagreements: Vec<&'static str>,
}

/// Looks at the whole machine for so long; exits with 1 if anything is not as it was worked out.
pub(super) fn check_truth(seconds: f64, format: FormatArg) -> Result<u8> {
    let folder = tempfile::tempdir().context("cannot make a folder for the recording")?;
    let database = folder.path().join("truth.db");
    let args = Args::try_parse_from([
        "vcpid",
        "record",
        "--all",
        "--quiet",
        &format!("--bounce={MOST}"),
        "--duration",
        &seconds.to_string(),
        "--output",
        database.to_str().context("the folder's name is no text")?,
    ])?;
    let Command::Record(args) = args.command else {
        bail!("this is no recording");
    };
    let (status, totals) = record::collect(&args)?;
    if status != 0 {
        return Ok(status);
    }
    let found = Truth {
        seconds,
        pairs: totals.pairs,
        compared: totals.compared,
        results: totals.compared_results,
        agreed: totals.compared - totals.disagreed - totals.raced,
        raced: totals.raced,
        disagreed: totals.disagreed,
        disagreements: truth::all_lasting(),
    };
    let text = match format {
        FormatArg::Text => found.text(),
        FormatArg::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    output::print(&text)?;
    Ok(u8::from(found.disagreed > 0))
}

impl Truth {
    fn text(&self) -> String {
        let mut text = String::from("truth\n");
        for (name, count, note) in [
            ("pairs", self.pairs, "of breakpoints, on the whole machine"),
            (
                "compared",
                self.compared,
                "blocks of instructions between them",
            ),
            (
                "results",
                self.results,
                "of instructions in these, that are known",
            ),
            ("agreed", self.agreed, ""),
            (
                "raced",
                self.raced,
                "loaded what others may have written meanwhile",
            ),
            ("disagreed", self.disagreed, ""),
        ] {
            // Writing to a string cannot fail.
            let line = format!("  {name:<12} {count:>8}  {note}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for disagreement in &self.disagreements {
            let _ = writeln!(text, "  {disagreement}");
        }
        if self.compared == 0 {
            text += "  nothing was compared: nothing ran, or breakpoints do not work here\n";
        }
        text
    }
}
