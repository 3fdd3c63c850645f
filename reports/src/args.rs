//! The command line; the doc comments here are the help text.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::{Shell, generate_to};

use crate::complete;
use crate::names::Names;
use crate::renderers::Format;
use crate::report::Report;
use crate::tools::Tool;

/// Reports on value profiles: which instructions are hot, and with which values.
#[derive(Debug, Parser)]
#[command(name = "vcpi", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Options that every report takes.
    #[command(flatten)]
    pub(crate) common: Common,
    /// The report, or what else is to be done.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is to be done.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// To report.
    #[command(flatten)]
    Report(Report),
    /// Something else.
    #[command(flatten)]
    Tool(Tool),
}

/// Options that every report takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Profile database, or a directory of them, or the socket of the service; databases may be
    /// repeated [default: ./vcpi.db if there is one, else the service].
    #[arg(short, long = "input", value_name = "FILE|DIR", global = true)]
    pub(crate) input: Vec<PathBuf>,
    /// Only code of this image: its path, file name, or (the start of) its build id.
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
    /// Leave out what rests on fewer samples than this [default: 1; blks and diff: 10].
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

/// Writes the manual pages of this program, and what shells complete it with, to a folder.
pub(crate) fn document(folder: &Path) -> io::Result<()> {
    let whole = Cli::command();
    // Pages are written of what is shown; completions would be of all.
    let shown = whole.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut shown = clap::Command::new("vcpi")
        .args(whole.get_arguments().cloned())
        .subcommands(shown.cloned());
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = generate_to(shell, &mut shown, "vcpi", folder)?;
        let own = fs::read_to_string(&path)?;
        fs::write(&path, complete::with_names(shell, own))?;
    }
    clap_mangen::generate_to(whole, folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            // The only text of that kind that there is are examples.
            let page = fs::read_to_string(&path)?.replace(".SH EXTRA\n", ".SH EXAMPLES\n");
            fs::write(&path, page)?;
        }
    }
    Ok(())
}

/// A share as a number of percent.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not a percentage between 0 and 100".to_owned()),
    }
}

/// The classic names of reports, under each of which this program is that report.
const CLASSIC: [(&str, &str); 4] = [
    ("dcpivlist", "list"),
    ("dcpivargs", "args"),
    ("dcpivcg", "cg"),
    ("dcpivblks", "blks"),
];

/// The classic name that the program was called by, and the report it means.
fn classic(program: &OsString) -> Option<(&'static str, &'static str)> {
    let name = Path::new(program).file_name()?;
    CLASSIC.into_iter().find(|(classic, _)| name == *classic)
}

/// Reads a command line; one that begins with the classic name of a report is that report's.
///
/// # Errors
/// If it cannot be read, and where it asks for help or the version, which the error then is.
pub(crate) fn parse(mut args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    if let Some((name, report)) = args.first().and_then(classic) {
        args.insert(1, OsString::from(report));
        let of_report = command.find_subcommand(report);
        let example = of_report.and_then(clap::Command::get_after_long_help);
        let example = example.map_or_else(String::new, ToString::to_string);
        let example = example.replace(&format!("vcpi {report}"), name);
        command = command.mut_subcommand(report, |report| {
            report
                .after_long_help(example)
                .display_name(name)
                .version(env!("CARGO_PKG_VERSION"))
                .override_usage(format!("{name} [OPTIONS] [FUNCTION]"))
        });
    }
    Cli::from_arg_matches(&command.try_get_matches_from_mut(args)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Cli, clap::Error> {
        parse(words.iter().map(OsString::from).collect())
    }

    /// The command line has no contradictions that clap would only find when it is used.
    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A link named as one of the classic reports is that report, which goes by this name.
    #[test]
    fn program_name_selects_report() {
        let cli = parsed(&["/usr/bin/dcpivlist", "hot"]).expect("parses");
        assert!(matches!(cli.command, Command::Report(Report::List(list)) if list.is_of("hot")));
        let cli = parsed(&["vcpi", "top"]).expect("parses");
        assert!(matches!(cli.command, Command::Report(Report::Top(_))));
        for (name, _) in CLASSIC {
            let asked = |word| parsed(&[name, word]).expect_err("no report").to_string();
            let version = env!("CARGO_PKG_VERSION");
            assert_eq!(asked("--version"), format!("{name} {version}\n"));
            let help = asked("--help");
            assert!(
                help.contains(&format!("Usage: {name} [OPTIONS] [FUNCTION]\n")),
                "{help}"
            );
            assert!(!help.contains("vcpi list"), "{help}");
            let wrong = asked("--no-such-option");
            assert!(wrong.contains(&format!("Usage: {name} ")), "{wrong}");
        }
    }

    /// Each report has an example in its help, of itself.
    #[test]
    fn each_report_has_an_example() {
        let reports = Report::augment_subcommands(clap::Command::new("reports"));
        for report in reports.get_subcommands() {
            let name = report.get_name();
            let example = report.get_after_long_help().map(ToString::to_string);
            let example = example.unwrap_or_default();
            assert!(example.contains(&format!("  vcpi {name}")), "{name}");
            assert!(example.lines().all(|line| line.len() <= 100), "{name}");
        }
    }

    /// A relative time with its leading minus is taken as a value, not as an option.
    #[test]
    fn relative_time_is_a_value() {
        let cli = parsed(&["vcpi", "top", "--since", "-5min"]).expect("parses");
        assert_eq!(cli.common.since.as_deref(), Some("-5min"));
    }

    /// A share outside 0 to 100 percent is a usage error.
    #[test]
    fn percentages_are_checked() {
        assert!(parsed(&["vcpi", "blks", "--invariant", "101"]).is_err());
        assert!(parsed(&["vcpi", "blks", "--invariant", "nan"]).is_err());
        assert!(parsed(&["vcpi", "blks", "--invariant", "90"]).is_ok());
    }
}
