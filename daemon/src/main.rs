//! `vcpid`: collects, aggregates and stores value profiles.
//!
//! The way of a sample is the crates `pipeline` and `store`, with `machine` and `consumers`. The
//! rooms of this program are the service around it:
//!
//! - `session`: the loop around a collector.
//! - `settings`: arguments and configuration.
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

/// Samples are made on one thread and freed on another, and what a flush frees lies between what
/// stays. The usual allocator gives little of that back, and takes its time over it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
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
        Command::Step => pipeline::steps::helper::run(),
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
