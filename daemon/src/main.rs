//! `vcpid`: collects, aggregates and stores value profiles.
//!
//! The way of a sample:
//!
//! 1. Readers (crate `sampler`) send batches. `merge` puts them into one order of time.
//! 2. `loadmap` and `images` say which image lies at the PC, and `unwind` who called.
//! 3. `blocks` and `acceptance` say whether the window counts.
//! 4. `window` runs it (crate `interpreter`), on memory that `view` vouches for.
//! 5. `tables` count what it yields (crate `hotlist`).
//! 6. `flush` and `saver` write the tables (crate `profiledb`).
//!
//! `collector` holds these together. `session` is the loop around them: `record` drives it for one
//! recording, `replay` from a file, `serve` for as long as the machine runs. `serve` also answers
//! readers (crate `protocol`), each with a view of what is theirs.
//!
//! Not responsible for: names and text. Crate `reports` shows what this program stores.

mod acceptance;
mod access;
mod affordable;
mod args;
mod blocks;
mod callsite;
mod check;
mod checkpointer;
mod choices;
mod code;
mod collector;
mod command;
mod config;
mod ctl;
mod devices;
mod elf;
mod files;
mod flow;
mod flush;
mod grants;
mod guards;
mod host;
mod images;
mod kernel;
mod loadmap;
mod lost;
mod made;
mod mapping;
mod maps;
mod memory;
mod merge;
mod nap;
mod output;
mod pages;
mod perfmap;
mod processors;
mod procfs;
mod raw;
mod record;
mod replay;
mod rules;
mod saver;
mod serve;
mod session;
mod signals;
mod store;
mod sysctl;
mod tables;
mod threads;
mod told;
mod unwind;
mod view;
mod views;
mod vmas;
mod window;
mod witness;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

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
        Command::Document { folder } => args::document(folder).map(|()| 0).map_err(Into::into),
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
