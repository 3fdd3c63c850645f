//! Profiles in the forms of other tools: `vcpi export KIND`.
//!
//! An export is a file in this folder and a line in [`ALL`]. It says its name, the rows that it
//! needs and its own options, and turns a [`View`] into the bytes of a file. What is common stands
//! here: the command line, and that files are written whole or not at all ([`output`]).

pub(crate) mod about;
pub(crate) mod bolt;
mod callgrind;
mod firefox;
mod folded;
pub(crate) mod gcov;
mod gopgo;
mod hints;
pub(crate) mod next;
mod otlp;
pub(crate) mod output;
pub(crate) mod pprof;
pub(crate) mod profgen;
mod proftext;
mod program;
mod propeller;
mod speedscope;
pub(crate) mod stacks;
pub(crate) mod table;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, FromArgMatches, Subcommand, value_parser};
use profiledb::Apart;
use protocol::Kinds;

use crate::args::Common;
use crate::failure::Failure;
use crate::needs::Needs;
use crate::reading;
use crate::renderers::Format;
use crate::stdout;
use crate::turns::Turns;
use crate::view::View;

/// The exports, in the order of the help.
const ALL: &[Export] = &[
    pprof::EXPORT,
    firefox::EXPORT,
    folded::EXPORT,
    otlp::EXPORT,
    speedscope::EXPORT,
    callgrind::EXPORT,
    profgen::EXPORT,
    bolt::EXPORT,
    gopgo::EXPORT,
    proftext::EXPORT,
    propeller::EXPORT,
    gcov::EXPORT,
    hints::EXPORT,
];

/// A form that profiles are exported in.
#[derive(Debug)]
pub(crate) struct Export {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it is, for the help: a sentence without its full stop.
    pub(crate) about: &'static str,
    /// More for `--help`, such as how to open the file.
    pub(crate) more: &'static str,
    /// Whether a terminal is no place for it.
    pub(crate) is_binary: bool,
    /// The rows that it is made of; with [`VALUES`] also value profiles and calls.
    pub(crate) rows: Kinds,
    /// Whether interrupts are told apart by the flushes that they are of.
    pub(crate) by_flush: bool,
    /// How far they are told apart besides, and branches and calls with them.
    pub(crate) apart: Apart,
    /// PLT stubs go by the names of the functions behind them.
    pub(crate) stubs: bool,
    /// Adds its own options to its command: `Options::augment_args`, or [`no_options`].
    pub(crate) options: fn(Command) -> Command,
    /// In which turns a profile is read for it: [`at_once`], or at two turns.
    pub(crate) turns: fn(&ArgMatches) -> Result<Turns<'static>, Failure>,
    /// Makes it of a profile and the options as given.
    pub(crate) write: fn(&mut View<'_>, &ArgMatches) -> Result<Exported, Failure>,
}

/// What an export makes of a profile.
#[derive(Debug)]
pub(crate) struct Exported {
    /// The bytes of the file.
    pub(crate) bytes: Vec<u8>,
    /// Commands that use the file, each in a sentence. They are said once the file is there.
    pub(crate) next: Vec<String>,
}

impl From<Vec<u8>> for Exported {
    fn from(bytes: Vec<u8>) -> Exported {
        let next = Vec::new();
        Exported { bytes, next }
    }
}

/// The rows of interrupts and their call stacks.
pub(crate) const STACKS: Kinds = Kinds {
    cycles: true,
    values: false,
    branches: false,
    calls: false,
    stacks: true,
    counters: false,
};

/// The option of exports that have values if they are asked for.
pub(crate) const VALUES: &str = "values";

/// The options of an export that has none of its own.
pub(crate) fn no_options(command: Command) -> Command {
    command
}

/// The turns of an export that reads all at once.
#[expect(
    clippy::unnecessary_wraps,
    reason = "others read options, which may be wrong"
)]
pub(crate) fn at_once(_: &ArgMatches) -> Result<Turns<'static>, Failure> {
    Ok(Turns::One)
}

/// The name of the option that all exports have.
const OUTPUT: &str = "output";
/// What stands for standard output.
const STDOUT: &str = "-";

impl Export {
    fn command(&self) -> Command {
        let output = Arg::new(OUTPUT)
            .short('o')
            .long(OUTPUT)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(
                "Where to write it, in place of what is there; `-` is standard output [default: -]",
            );
        // What documents a type of options is no help of a command.
        let command = (self.options)(Command::new(self.name).arg(output));
        let command = command.about(self.about).long_about(self.about);
        match self.more {
            "" => command,
            more => command.after_help(more),
        }
    }
}

/// An export as the command line asks for it.
#[derive(Debug, Clone)]
pub(crate) struct ExportRequest {
    export: &'static Export,
    matches: ArgMatches,
}

impl ExportRequest {
    /// What is to be read for it.
    fn needs(&self) -> Needs<'_> {
        Needs {
            kinds: self.rows(),
            apart: self.export.apart,
            one_function: false,
            by_flush: self.export.by_flush,
            stubs: self.export.stubs,
            ..Needs::ROWS
        }
    }

    /// The rows that it is made of.
    fn rows(&self) -> Kinds {
        let rows = self.export.rows;
        let asked = self.matches.try_get_one::<bool>(VALUES);
        let with_values = asked.is_ok_and(|asked| asked == Some(&true));
        Kinds {
            values: rows.values || with_values,
            calls: rows.calls || with_values,
            ..rows
        }
    }

    /// The file to write; `None`: standard output.
    fn output(&self) -> Option<&Path> {
        let path = self.matches.get_one::<PathBuf>(OUTPUT)?;
        Some(path.as_path()).filter(|path| *path != Path::new(STDOUT))
    }

    /// Refuses what makes no sense, before anything is read.
    ///
    /// # Errors
    /// If an option of reports is given that exports do not have, or the bytes would go to a
    /// terminal or to a file that is read.
    fn check(&self, common: &Common) -> Result<(), Failure> {
        let name = self.export.name;
        if common.format != Format::Text {
            return Err(Failure::Usage(format!(
                "export {name}: --format is for reports; the kind of an export is its form"
            )));
        }
        if common.lines.is_some() {
            return Err(Failure::Usage(format!(
                "export {name}: --lines is for reports; an export is whole"
            )));
        }
        if self.export.is_binary && self.output().is_none() && std::io::stdout().is_terminal() {
            return Err(Failure::Usage(format!(
                "export {name}: this is no text for a terminal; name a file with -o"
            )));
        }
        // The one that is read unless told otherwise.
        let default = common.input.is_empty().then(|| Path::new("vcpi.db"));
        let databases = common.input.iter().map(PathBuf::as_path).chain(default);
        let programs = common.image.iter().map(Path::new);
        let mut read = databases.chain(programs).filter(|path| path.is_file());
        if let Some(output) = self.output()
            && let Some(read) = read.find(|path| output::is_same(path, output))
        {
            return Err(Failure::Usage(format!(
                "export {name}: -o {} would replace {}, which is read; name another file",
                output.display(),
                read.display()
            )));
        }
        Ok(())
    }

    /// Reads what is needed, and writes the export.
    ///
    /// # Errors
    /// If there is nothing to export, or it cannot be written.
    pub(crate) fn run(&self, common: &Common) -> Result<(), Failure> {
        self.check(common)?;
        let turns = (self.export.turns)(&self.matches)?;
        let mut write = |view: &mut View<'_>| self.write(view).map(|()| String::new());
        reading::view(turns, &self.needs(), common, &mut write).map(drop)
    }

    /// Writes the export of what was read.
    fn write(&self, view: &mut View<'_>) -> Result<(), Failure> {
        let Exported { bytes, next } = (self.export.write)(view, &self.matches)?;
        match self.output() {
            Some(path) => output::write(path, &bytes)?,
            None => stdout::write(&bytes)?,
        }
        if !next::is_step() {
            view.notes.extend(next);
        }
        Ok(())
    }
}

impl FromArgMatches for ExportRequest {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ExportRequest, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let export = ALL.iter().find(|export| export.name == name);
        Ok(ExportRequest {
            export: export.ok_or_else(missing)?,
            matches: matches.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ExportRequest::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ExportRequest {
    fn augment_subcommands(command: Command) -> Command {
        command
            .subcommands(ALL.iter().map(Export::command))
            .subcommand_required(true)
            .subcommand_value_name("KIND")
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        ExportRequest::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        ALL.iter().any(|export| export.name == name)
    }
}
