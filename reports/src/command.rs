//! The command line: the reports, and what else `vcpi` does ([`tools`]). The doc comments here are
//! the help text. What a shell completes and the manual pages follow from them ([`complete`],
//! [`document`]).

mod complete;
mod document;
mod tools;

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::Common;
use crate::report::Report;

pub(crate) use self::tools::Tool;

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
