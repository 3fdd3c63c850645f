//! `vcpid check --truth`: whether this processor makes of instructions what is worked out.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use clap::Parser as _;
use sampler::probe;
use serde::Serialize;

use crate::output;
use crate::record;
use crate::settings::args::{Args, Command, FormatArg};
use pipeline::bounce::truth;

/// Pairs or stops a second, at most.
const MOST: u32 = 200;

/// What was found.
#[derive(Debug, Serialize)]
struct Truth {
    seconds: f64,
    /// Why no breakpoints can be had here, if so: threads were stepped instead.
    no_breakpoints: Option<String>,
    /// Pairs of breakpoints, or stepped instructions, that were seen.
    pairs: u64,
    /// Pairs that had vector registers, or those of x87, at both ends.
    with_vectors: u64,
    /// Blocks between pairs, or stepped instructions, that were worked out, and results of these.
    compared: u64,
    results: u64,
    agreed: u64,
    /// Those that load what others may write, and that found something else there.
    raced: u64,
    disagreed: u64,
    /// Where, and in what.
    disagreements: Vec<&'static str>,
}

/// Looks at the whole machine for so long; exits with 1 if anything is not as it was worked out.
/// Where no breakpoints can be had it steps threads.
pub(super) fn check_truth(seconds: f64, format: FormatArg) -> Result<u8> {
    let folder = tempfile::tempdir().context("cannot make a folder for the recording")?;
    let database = folder.path().join("truth.db");
    let no_breakpoints = probe::breakpoints().err().map(|refused| refused.why);
    let kind = no_breakpoints.as_ref().map_or("", |_| "step:");
    let args = Args::try_parse_from([
        "vcpid",
        "record",
        "--all",
        "--quiet",
        &format!("--bounce={kind}{MOST}"),
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
        no_breakpoints,
        pairs: totals.pairs,
        with_vectors: totals.with_vectors,
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
        let (name, seen, compared) = match &self.no_breakpoints {
            Some(why) => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  threads are stepped: {why}");
                (
                    "steps",
                    "single instructions, on the whole machine",
                    "of these were worked out",
                )
            }
            None => (
                "pairs",
                "of breakpoints, on the whole machine",
                "blocks of instructions between them",
            ),
        };
        for (name, count, note) in [
            (name, self.pairs, seen),
            (
                "vectors",
                self.with_vectors,
                "pairs with vector registers at both ends",
            ),
            ("compared", self.compared, compared),
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
            if name == "vectors" && count == 0 {
                continue;
            }
            // Writing to a string cannot fail.
            let line = format!("  {name:<12} {count:>8}  {note}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for disagreement in &self.disagreements {
            let _ = writeln!(text, "  {disagreement}");
        }
        if self.compared == 0 {
            text += "  nothing was compared: nothing ran, or none of it may be looked at\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Truth;

    fn found(no_breakpoints: Option<&str>, disagreements: &[&'static str]) -> Truth {
        let disagreed = disagreements.len() as u64;
        Truth {
            seconds: 10.0,
            no_breakpoints: no_breakpoints.map(str::to_owned),
            pairs: 40,
            with_vectors: 0,
            compared: 30,
            results: 25,
            agreed: 29 - disagreed,
            raced: 1,
            disagreed,
            disagreements: disagreements.to_vec(),
        }
    }

    /// The text says what was compared, and of what.
    #[test]
    fn pairs() {
        let text = found(None, &[]).text();
        assert!(text.contains("pairs              40  of breakpoints"));
        assert!(text.contains("agreed             29\n"));
        assert!(!text.contains("step"));
    }

    /// Where no breakpoints can be had the text says so, and that instructions are counted.
    #[test]
    fn steps_instead() {
        let text = found(Some("the processor has none"), &[]).text();
        assert!(text.contains("threads are stepped: the processor has none\n"));
        assert!(text.contains("steps              40  single instructions"));
        assert!(!text.contains("pairs"));
    }

    /// Each disagreement stands in the text, and that nothing was compared.
    #[test]
    fn findings() {
        let text = found(None, &["libc.so.6+0x10 add rax"]).text();
        assert!(text.ends_with("disagreed           1\n  libc.so.6+0x10 add rax\n"));
        let mut nothing = found(None, &[]);
        (nothing.compared, nothing.agreed) = (0, 0);
        assert!(nothing.text().contains("nothing was compared"));
    }
}
