//! `vcpi html`: the profile as one page for a browser.
//!
//! The page is a skeleton, a style, a script and an element of data. The script is plain and the
//! same for every profile. Data is what reports answer, as serde writes it: the page computes
//! nothing that a report says. It is bounded, and says what was left out.

mod apart;
mod code;
mod data;
mod skeleton;
mod tree;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::value_parser;
use profiledb::Apart;
use protocol::Kinds;

use crate::args::Common;
use crate::export::output;
use crate::failure::Failure;
use crate::needs::Needs;
use crate::reading::{self, Said};
use crate::renderers::Format;
use crate::report;
use crate::source::{self, Source};
use crate::stdout;
use crate::view::View;

/// How a page is written.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Where to write it, in place of what is there; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How much the instructions and the source of functions may take, those of the hottest
    /// functions first.
    #[arg(long, value_name = "MIB", default_value_t = 8,
        value_parser = value_parser!(u16).range(0..=256))]
    room: u16,
    /// Leave out the lines of source files.
    #[arg(long)]
    no_source: bool,
}

/// What is read for a page.
const NEEDS: Needs<'static> = Needs {
    kinds: Kinds::ALL,
    // Call stacks are told by process, or by program.
    apart: Apart::Rows,
    one_function: false,
    stubs: true,
    ..Needs::ROWS
};

/// Where a profile was read from.
#[derive(Debug)]
struct Read {
    /// In words.
    from: String,
    /// The service sent it.
    served: bool,
}

impl Options {
    /// Refuses what makes no sense, before anything is read.
    ///
    /// # Errors
    /// If an option of reports is given that a page does not have, or the page would go to a
    /// terminal.
    fn check(&self, common: &Common) -> Result<(), Failure> {
        let refused = |why: &str| Err(Failure::Usage(format!("html: {why}")));
        if common.format != Format::Text {
            return refused("--format is for reports; a page has a form of its own");
        }
        if common.lines.is_some() {
            return refused("--lines is for reports; a page says itself what it leaves out");
        }
        if self.is_for_stdout() && std::io::stdout().is_terminal() {
            return refused("a page is nothing for a terminal; name a file with -o");
        }
        Ok(())
    }

    fn is_for_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    /// How much the instructions and the source of functions may take, in bytes.
    fn room(&self) -> usize {
        usize::from(self.room) << 20
    }
}

/// Reads what is needed, and writes the page.
///
/// # Errors
/// If there is nothing to show, or the file cannot be written.
pub(crate) fn write(options: &Options, common: &Common) -> Result<(), Failure> {
    options.check(common)?;
    // All values of all instructions are many times what a page has room for, and those of all
    // processes much memory.
    let source = source::source(common)?;
    let of_values = report::of_words(data::OF_VALUES)?;
    let mut apart = match source {
        Source::Files(_) if common.only_function.is_none() => {
            // If something is wrong, who reads all of it says what.
            apart::ReadApart::new(&source, &of_values, options, common).ok()
        }
        Source::Files(_) | Source::Service(_) => None,
    };
    let parameters = data::parameters()?;
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let needs = match apart {
        Some(_) => Needs {
            parameters: &parameters,
            apart: Apart::Programs,
            ..NEEDS
        },
        None => NEEDS,
    };
    let mut write = |source: &Source, view: &mut View<'_>| {
        let read = Read {
            from: source::describe(source, view.profile),
            served: source.is_service(),
        };
        page(view, apart.take(), options, common, &read).map(|()| String::new())
    };
    reading::from_source(&needs, common, &mut Said::AtOnce, &mut write).map(drop)
}

/// Writes the page of what was read.
fn page(
    view: &mut View<'_>,
    apart: Option<apart::ReadApart<'_>>,
    options: &Options,
    common: &Common,
    read: &Read,
) -> Result<(), Failure> {
    // A page is large: the data go when they are text.
    let data = serde_json::to_string(&data::Data::new(view, apart, options, common, read)?)?;
    let page = skeleton::page(&data);
    drop(data);
    match options.is_for_stdout() {
        true => Ok(stdout::write(page.as_bytes())?),
        false => output::write(&options.output, page.as_bytes()),
    }
}
