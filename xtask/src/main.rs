//! The project's front door: `cargo xtask demo | test | fuzz-isa | hunt | nightly | bench | yield |
//! coverage | soak | storage | pgo-demo | kernels | povray | ci | deb | check-layers | check-docs |
//! setup`.
//!
//! Each command does all set-up that it needs, so that one command on a fresh
//! machine suffices. There are no shell scripts beside it.

mod bench;
mod ci;
mod coverage;
mod deb;
mod demo;
mod documents;
mod fuzz;
mod harness;
mod hunt;
mod kernels;
mod layers;
mod pgo;
mod povray;
mod process;
mod rooms;
mod setup;
mod soak;
mod storage;
mod test;
mod tools;
mod yields;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Sets up, builds, shows, tests and measures vcpi.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up, build, profile a fixture and a real program, and print the reports.
    Demo,
    /// Set up, build, and run every test that this machine can run.
    Test,
    /// Set up, build, and measure what profiling costs, next to perf.
    Bench(bench::Options),
    /// Set up, build, and print what recordings of real programs bring and take.
    Yield(yields::Options),
    /// Set up, build, and measure what profiles are worth to real programs.
    PgoDemo(pgo::Options),
    /// Runs a command and writes its processor time to a file.
    #[command(name = "__timed", hide = true)]
    Timed {
        /// Where to.
        file: std::path::PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Set up, build, and measure how often the printed intervals hold the truth.
    Coverage(coverage::Options),
    /// Set up, build, and print what the service takes of this machine over time (root).
    Soak {
        /// How long; a recording of the whole machine runs as long after it.
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        minutes: u64,
        /// Only the recording, with so many samples per second and CPU.
        #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
    },
    /// Build, make days of a service, and print what they take and how long reports on them do.
    Storage(storage::Options),
    /// Makes such days alone.
    #[command(name = "__days", hide = true)]
    Days {
        /// The folder to make them in.
        folder: std::path::PathBuf,
        #[command(flatten)]
        amounts: storage::Amounts,
    },
    /// Rolls up such days.
    #[command(name = "__roll", hide = true)]
    Roll {
        /// Their folder.
        folder: std::path::PathBuf,
        /// Say so at each piece, and thin nothing.
        #[arg(long)]
        tell: bool,
        /// MiB of an hour.
        #[arg(long, default_value_t = 7.0)]
        hour_mib: f64,
    },
    /// Set up, build, and try the handler on other kernels, under emulation.
    Kernels {
        /// Kernels, as /boot/vmlinuz is one; without any, Debian's newest for this release.
        images: Vec<std::path::PathBuf>,
    },
    /// Set up, build POV-Ray of Debian's source, record it, and print its reports.
    Povray(povray::Options),
    /// Run random instructions on the interpreter and on the processor, and compare.
    FuzzIsa {
        /// How many.
        #[arg(long, default_value_t = 100_000_000)]
        cases: u64,
        /// Seed of the random cases.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of the first case: to run a case again that a difference names.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Only instructions whose name in the interpreter's coverage table begins so.
        #[arg(long, value_name = "NAME")]
        code: Option<String>,
    },
    /// Set up, build, and hunt for impossible values in recordings of random programs.
    Hunt(hunt::Options),
    /// What is run each night: ten minutes of the hunt, ten million random instructions.
    Nightly,
    /// Everything a change must pass: formatting, lints, docs, layers, documents, tests.
    Ci,
    /// Set up, build, and make the Debian package of both programs.
    Deb,
    /// Check that the crates depend on each other in one direction only.
    CheckLayers,
    /// Check widths and links of documents and comments, and the options that documents name.
    CheckDocs,
    /// Install what is missing on this machine.
    Setup,
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo => demo::run()?,
        Command::Test => return test::run(),
        Command::Bench(options) => bench::run(&options)?,
        Command::Yield(options) => yields::run(&options)?,
        Command::PgoDemo(options) => pgo::run(&options)?,
        Command::Timed { file, command } => return yields::timed(&file, &command),
        Command::Coverage(options) => coverage::run(&options)?,
        Command::Soak { minutes, rate } => soak::run(minutes, rate)?,
        Command::Storage(options) => storage::run(&options)?,
        Command::Days { folder, amounts } => storage::make_days(&folder, &amounts)?,
        Command::Roll {
            folder,
            tell,
            hour_mib,
        } => storage::roll(&folder, tell, hour_mib)?,
        Command::Kernels { images } => kernels::run(&images)?,
        Command::Povray(options) => povray::run(&options)?,
        Command::FuzzIsa {
            cases,
            seed,
            first,
            code,
        } => fuzz::isa(cases, seed, first, code.as_deref())?,
        Command::Hunt(options) => hunt::run(&options)?,
        Command::Nightly => hunt::nightly()?,
        Command::Ci => ci::run()?,
        Command::Deb => drop(deb::run()?),
        Command::CheckLayers => layers::run()?,
        Command::CheckDocs => {
            documents::check_text()?;
            test::build()?;
            documents::check_options()?;
        }
        Command::Setup => setup::run(setup::Need::Test)?,
    }
    Ok(ExitCode::SUCCESS)
}
