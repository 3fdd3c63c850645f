//! What `vcpi` does beside reporting.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use super::{complete, document};
use crate::args::{self, Common};
use crate::failure::Failure;
use crate::{conversion, export, html, live, packing, pgo, stdout};

/// Commands that are no reports.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Tool {
    /// Walk through a profile on the whole screen: functions, and their instructions (`?` names the
    /// keys; q leaves).
    Browse,
    /// Write a database anew in the newest layout: the same reports, far fewer bytes where an older
    /// version wrote it.
    Convert {
        /// The database.
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// Where to write it; what is there already is left alone.
        #[arg(short, long, value_name = "NEW")]
        output: PathBuf,
        /// Write a row for each count and value instead, to be asked with SQL: many times larger.
        #[arg(long)]
        unpack: bool,
    },
    /// Pack a profile with the programs, libraries and debug files that its reports read, into one
    /// file: `-i FILE` gives all reports on another machine, and years later.
    Bundle {
        /// Where to write it; what is there already is left alone.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Leave out the files of images that have less than this share of all cycles, in percent.
        #[arg(long, value_name = "PCT", default_value_t = 0.1, value_parser = args::percentage)]
        least: f64,
        /// Leave out the lines of source files.
        #[arg(long)]
        no_source: bool,
    },
    /// Write the manual pages and the shells' completions of this program: how it is packaged.
    #[command(name = "__document", hide = true)]
    Document {
        /// An existing folder.
        folder: PathBuf,
    },
    /// Print the names of functions that complete a line, one a line: for shells.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words of the line.
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<OsString>,
    },
    /// Write the profile in the form of another tool.
    Export {
        /// The form, and its options.
        #[command(subcommand)]
        asked: export::ExportRequest,
    },
    /// Make a program faster from its profile: each step is printed as the plain command it is.
    Pgo {
        /// The step.
        #[command(subcommand)]
        asked: pgo::PgoCommand,
    },
    /// Write the profile as a page for a browser: one file, without network.
    Html(html::Options),
}

impl Tool {
    /// Does it.
    ///
    /// # Errors
    /// If it cannot be done.
    pub(crate) fn run(&self, common: &Common) -> Result<(), Failure> {
        match self {
            Tool::Browse => live::browse(common),
            Tool::Convert {
                old,
                output,
                unpack,
            } => conversion::write(old, output, *unpack, common),
            Tool::Bundle {
                output,
                least,
                no_source,
            } => packing::write(common, output, *least, !no_source),
            Tool::Document { folder } => Ok(document::write(folder)?),
            Tool::Complete { words } => Ok(stdout::write(complete::names(words).as_bytes())?),
            Tool::Export { asked } => asked.run(common),
            Tool::Pgo { asked } => asked.run(common),
            Tool::Html(options) => html::write(options, common),
        }
    }
}
