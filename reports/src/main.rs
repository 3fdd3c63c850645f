//! `vcpi`: reports on profile databases.
//!
//! A report is a question ([`query`]). A run reads the inputs as one [`profiledb::Profile`], names
//! its addresses ([`symbols`]), adds up what was asked for ([`view`]), has the report answer
//! ([`mod@report`]), and puts the answer into the form asked for ([`renderers`]). A report of one
//! function reads that function's rows alone ([`mod@asked`]).
//!
//! `vcpi` needs no privilege but to read its inputs and, for names and instructions, the images
//! that were profiled. Databases and images may be hostile. `vcpi` writes a report only when it is
//! whole.

mod absent;
mod args;
mod asked;
mod bundle;
mod callee;
mod code;
mod convention;
mod debugfiles;
mod debuginfod;
mod dwarf;
mod elf;
mod epochs;
mod export;
mod failure;
mod guard;
mod html;
mod images;
mod listing;
mod liveness;
mod names;
mod page;
mod pgo;
mod query;
mod reading;
mod render;
mod renderers;
mod report;
mod sections;
mod source;
mod split;
mod symbolize;
mod symbols;
mod time;
mod tools;
mod trial;
mod values;
mod variables;
mod view;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::render::clean;

/// What a shell shows for a program that SIGPIPE ended.
const PIPE_CLOSED: u8 = 128 + 13;

fn main() -> ExitCode {
    guard::install();
    let cli = args::parse(std::env::args_os().collect()).unwrap_or_else(|error| error.exit());
    let result = run(&cli);
    bundle::close();
    let result = result.and_then(|text| {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(Failure::from)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::from(PIPE_CLOSED)
        }
        Err(failure) => {
            say(&failure.to_string());
            if matches!(failure, Failure::Nothing(_)) {
                print_nothing(&cli);
            }
            ExitCode::from(failure.code())
        }
    }
}

/// What is to be printed.
fn run(cli: &Cli) -> Result<String, Failure> {
    debuginfod::configure(!cli.common.no_debuginfod);
    match &cli.command {
        Command::Report(report) => reading::report(report.ask(), &cli.common),
        Command::Tool(tool) => tool.run(&cli.common).map(|()| String::new()),
    }
}

/// A report of nothing, for programs. Whether it arrives changes nothing in the exit code.
fn print_nothing(cli: &Cli) {
    if let Command::Report(report) = &cli.command {
        let renderer = cli.common.format.renderer();
        if let Some(nothing) = renderer.nothing(report.ask().shape()) {
            let _ = writeln!(std::io::stdout(), "{nothing}");
        }
    }
}

/// One message on stderr, each of its lines marked. Whether it arrives is not
/// worth failing for.
fn say(message: &str) {
    let mut err = std::io::stderr().lock();
    for line in message.lines() {
        let _ = writeln!(err, "vcpi: {}", clean(line));
    }
}
