//! `cargo xtask coverage`: how often the 95 % interval that is printed holds the truth, for values
//! that change in many ways, at all rates, and with all engines and clocks.

use anyhow::{Context, Result, bail};
use vcpi_tests::coverage::{self, Cell, Kinds};
use vcpi_tests::programs::{Programs, target_dir};

use crate::process::progress;
use crate::setup::{self, Need};
use crate::test::build;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Recordings of each kind; each gives eight intervals of each kind of value.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each thread in a recording.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only recordings whose name has this in it, as "bpf cpu-clock 1000/s 3 threads".
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Instructions of a window, if it is not to be the usual.
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// Measure the build that is there instead of building.
    #[arg(long)]
    no_build: bool,
    /// Seed of the first recording.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Engines with their clocks.
const CLOCKS: [(&str, &str); 3] = [
    ("bpf", "cpu-clock"),
    ("bpf", "timer"),
    ("ring", "cpu-clock"),
];
const RATES: [Option<u32>; 3] = [None, Some(1000), Some(4000)];
const THREADS: [u32; 3] = [1, 3, 10];

/// Sets up, builds, records, and prints a table for each kind of recording.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::run(Need::Demo)?;
    if !options.no_build {
        build()?;
    }
    let programs = Programs::find()?;
    let folder = target_dir()?.join("coverage");
    let program = coverage::build(&folder)?;
    let mut seed = options.seed;
    let mut is_any = false;
    for (engine, clock) in CLOCKS {
        for rate in RATES {
            for threads in THREADS {
                let at = rate.map_or("the usual rate".to_owned(), |rate| format!("{rate}/s"));
                let name = format!("{engine} {clock} {at} {threads} threads");
                if !name.contains(&options.only) {
                    continue;
                }
                is_any = true;
                let cell = Cell {
                    engine,
                    clock,
                    rate,
                    window: options.window,
                    threads,
                };
                let mut kinds = Kinds::new();
                for run in 1..=options.runs {
                    progress(&format!("{name}: {run} of {}", options.runs));
                    let length = (options.seconds, seed);
                    coverage::run(&programs, &program, &cell, length, &mut kinds)
                        .with_context(|| format!("{name}, seed {seed}"))?;
                    seed += 1;
                }
                println!("{name}\n{}", coverage::table(&kinds));
            }
        }
    }
    if !is_any {
        bail!(
            "no recording has '{}' in its name, as \"bpf timer the usual rate 10 threads\"",
            options.only
        );
    }
    Ok(())
}
