//! `vcpi`: reports on profile databases.
//!
//! A report is a question ([`query`]), which says what it needs to have read ([`needs`]). A run
//! ([`reading`]) reads the inputs as one [`profiledb::Profile`] ([`source`]), names its addresses
//! ([`symbols`]), adds up what was asked for ([`view`]), has the report answer ([`mod@report`]),
//! and puts the answer ([`model`]) into the form asked for ([`renderers`]). A report of one
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
mod command;
mod convention;
mod conversion;
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
mod live;
mod liveness;
mod messages;
mod model;
mod names;
mod needs;
mod packing;
mod page;
mod pager;
mod pgo;
mod pointers;
mod query;
mod reading;
mod render;
mod renderers;
mod report;
mod sections;
mod shell;
mod source;
mod sources;
mod split;
mod stdout;
mod symbolize;
mod symbols;
mod terminal;
mod time;
mod toolchain;
mod trial;
mod turns;
mod values;
mod variables;
mod view;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use crate::command::{Cli, Command, Tool};
use crate::failure::Failure;
use crate::messages::{hush, say};
use crate::renderers::Format;
use crate::report::Report;

/// What a shell shows for a program that SIGPIPE ended.
const PIPE_CLOSED: u8 = 128 + 13;

fn main() -> ExitCode {
    guard::install();
    let cli = match command::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(answer) => return help(&answer),
    };
    terminal::configure(cli.common.explain);
    let may_page = !cli.common.no_pager && cli.common.format == Format::Text;
    let result = run(&cli);
    bundle::close();
    let result = result.and_then(|text| pager::write(&text, may_page).map_err(Failure::from));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::from(PIPE_CLOSED)
        }
        Err(failure) => {
            hush(false);
            say(&failure.to_string());
            if matches!(failure, Failure::Nothing(_)) {
                print_nothing(&cli);
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Prints what clap has to say: help, or what is wrong with the command line.
fn help(answer: &clap::Error) -> ExitCode {
    let code = u8::try_from(answer.exit_code()).unwrap_or(2);
    let can_print = match answer.use_stderr() {
        true => Ok(()),
        false => stdout::check(),
    };
    let printed = can_print.and_then(|()| answer.print());
    match printed.and_then(|()| std::io::stdout().flush()) {
        Err(error) if !answer.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            let failure = Failure::Output(error);
            say(&failure.to_string());
            ExitCode::from(failure.code())
        }
        _ => ExitCode::from(code),
    }
}

/// What is to be printed.
fn run(cli: &Cli) -> Result<String, Failure> {
    // Who waits for a line to be completed does not wait for a server.
    let completes = matches!(&cli.command, Command::Tool(Tool::Complete { .. }));
    debuginfod::configure(!cli.common.no_debuginfod && !completes);
    symbols::configure(!cli.common.no_cache);
    symbols::name_files(&cli.common.image);
    match &cli.command {
        Command::Report(Report::Top(top)) if top.is_live() => {
            live::top(&cli.common).map(|()| String::new())
        }
        Command::Report(report) => reading::report(report.ask(), &cli.common),
        Command::Tool(tool) => tool.run(&cli.common).map(|()| String::new()),
    }
}

/// A report of nothing, for programs. Whether it arrives changes nothing in the exit code.
fn print_nothing(cli: &Cli) {
    if let Command::Report(report) = &cli.command {
        let renderer = cli.common.format.renderer();
        if let Some(nothing) = renderer.nothing(report.ask().shape()) {
            let _ = stdout::write(format!("{nothing}\n").as_bytes());
        }
    }
}
