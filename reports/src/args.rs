//! What commands have in common on the command line: the options that every report takes, and how
//! arguments are read. The doc comments here are the help text.

use std::path::PathBuf;

use clap::Args;

use crate::names::Names;
use crate::renderers::Format;

/// Options that every report takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Profile database, or a directory of them, or the socket of the service; databases may be
    /// repeated [default: ./vcpi.db if there is one, else the service].
    #[arg(short, long = "input", value_name = "FILE|DIR", global = true)]
    pub(crate) input: Vec<PathBuf>,
    /// Only code of this image: its path, file name, or (the start of) its build id; or a file of
    /// the same build, if no image of the profile has that path or name.
    #[arg(long, value_name = "PATH-or-build-id", global = true)]
    pub(crate) image: Vec<String>,
    /// Only this function: a name, an instruction in it (`name+0xoffset`, `image+0xaddress`,
    /// `0xaddress`), or a part of one name only.
    #[arg(long = "function", value_name = "NAME", global = true)]
    pub(crate) only_function: Option<String>,
    /// Only what was collected in this process; may be repeated.
    #[arg(long, value_name = "PID", global = true)]
    pub(crate) pid: Vec<u32>,
    /// Only processes of this user (name or id); may be repeated.
    #[arg(long, value_name = "USER", global = true)]
    pub(crate) user: Vec<String>,
    /// Only this epoch, by its id in the database; may be repeated.
    #[arg(long, value_name = "ID", global = true)]
    pub(crate) epoch: Vec<i64>,
    /// Only what was saved after this time: `14:30`, `2026-05-01`, '2026-05-01 14:30:15', `today`,
    /// `yesterday`, `-10min` or '10min ago', `@SECONDS`; local time unless it ends in `UTC`, `Z` or
    /// an offset. What was saved at once (by the service each minute, unless configured otherwise)
    /// is not divided: all of it counts at the moment when it was saved.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, global = true)]
    pub(crate) since: Option<String>,
    /// Only what was saved before this time or at it, in the forms of `--since`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, global = true)]
    pub(crate) until: Option<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text, global = true)]
    pub(crate) format: Format,
    /// Leave out what rests on fewer samples than this [default: 1; blks and diff: 10;
    /// hints: 20].
    #[arg(long, value_name = "N", global = true)]
    pub(crate) min_samples: Option<u64>,
    /// Print no more than this many rows, the first of them; `list` and `status` are whole.
    #[arg(short = 'n', long, value_name = "N", global = true)]
    pub(crate) lines: Option<usize>,
    /// Do not look for function names; print `image+0xoffset`.
    #[arg(long, global = true)]
    pub(crate) no_symbols: bool,
    /// Do not ask the servers of `DEBUGINFOD_URLS` for debug files and programs.
    #[arg(long, global = true)]
    pub(crate) no_debuginfod: bool,
    /// Neither use nor keep functions that were looked up before (`~/.cache/vcpi`).
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Show names in text with all their parameters and type arguments.
    #[arg(long, global = true)]
    pub(crate) full_names: bool,
    /// Explain above a report what its numbers are, at length.
    #[arg(long, global = true)]
    pub(crate) explain: bool,
    /// Do not show text through a pager: on a terminal, `VCPI_PAGER`, `PAGER` or less is one.
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
}

impl Common {
    /// The options that choose among rows, and whether each is given.
    pub(crate) fn choices(&self) -> [(&'static str, bool); 7] {
        [
            ("--image", !self.image.is_empty()),
            ("--function", self.only_function.is_some()),
            ("--pid", !self.pid.is_empty()),
            ("--user", !self.user.is_empty()),
            ("--epoch", !self.epoch.is_empty()),
            ("--since", self.since.is_some()),
            ("--until", self.until.is_some()),
        ]
    }

    /// How text shows names.
    pub(crate) fn names(&self) -> Names {
        match self.full_names {
            true => Names::Full,
            false => Names::Short,
        }
    }
}

/// The argument of reports that can be of one function.
#[derive(Debug, Clone, Args)]
pub(crate) struct OneFunction {
    /// A name, an instruction in it (`name+0xoffset`, `image+0xaddress`, `0xaddress`), or a
    /// part of one name only.
    pub(crate) function: Option<String>,
}

impl OneFunction {
    /// The name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.function.as_deref()
    }
}

/// A share as a number of percent.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not a percentage between 0 and 100".to_owned()),
    }
}
