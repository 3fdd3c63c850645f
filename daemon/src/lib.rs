//! The program `vcpid`: collects, aggregates and stores value profiles. `main.rs` calls [`run`].
//!
//! The way of a sample is libraries of their own: `sampler` takes samples, `pipeline` makes values
//! of them, with `machine` (what runs) and `interpreter`, `consumers` keeps these, and `store`
//! writes them to a database. What is here is the program around it. Its rooms, each of which uses
//! only those above it:
//!
//! - `output`: words for what is printed often.
//! - `session`: the loop that hands batches to a collector, flushes, and sleeps.
//! - `settings`: the command line, the configuration, and what of it this machine can afford.
//! - `command`: what `record` starts, and stops until the clocks run.
//! - `record` drives a session for one recording, `serve` for as long as the machine runs; `replay`
//!   runs a recording again; `ctl` asks a service, `check` the machine.

mod check;
mod command;
mod ctl;
mod output;
mod record;
mod replay;
mod serve;
mod session;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::settings::args::{Args, Command};

/// Does what the arguments of this process say, and gives the status that it is to end with. Errors
/// and the help go to the standard streams. With arguments that cannot be understood, it ends the
/// process.
pub fn run() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Command::Record(args) => record::run(args),
        Command::Check(args) => check::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Document { folder } => settings::args::document(folder)
            .map(|()| 0)
            .map_err(Into::into),
        Command::Step => pipeline::steps::helper::run()
            .map(|()| 0)
            .map_err(Into::into),
        Command::Exec { command } => {
            let error = command::stand_in(command);
            eprintln!("vcpid: {}", error.message);
            return ExitCode::from(error.status);
        }
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("vcpid: {error:#}");
            ExitCode::from(record::OWN_FAILURE)
        }
    }
}
