//! `cargo xtask hunt`: random programs that know which values are possible, against what `vcpid`
//! records of them; and `cargo xtask nightly`, which gives it, and others, the time for which no
//! change can wait.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::fuzz;
use crate::process::{cargo, run as run_command};
use crate::setup::{self, Need};
use crate::test;

/// Minutes of a nightly hunt.
const NIGHTLY_MINUTES: u64 = 10;
/// Random instructions of a night.
const NIGHTLY_CASES: u64 = 10_000_000;

/// What is hunted, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// How long.
    #[arg(long, default_value_t = NIGHTLY_MINUTES, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Seed of the first program; each next one has one more. By default another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// Programs, at most: with one, its folder is kept whatever comes of it.
    #[arg(long)]
    programs: Option<u64>,
    /// Only kinds whose name begins so.
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,
    /// Engines, or `none`: whether the programs always do the same.
    #[arg(long, value_name = "ENGINE,...")]
    engines: Option<String>,
}

/// Builds both programs and has the test `hunt` run programs until the time is over. Fails if any
/// of them shows an impossible value.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::run(Need::Test)?;
    test::build()?;
    let seed = options.seed.unwrap_or_else(seed_of_now);
    let mut command = cargo(["test", "-p", "vcpi-tests", "--test", "hunt"]);
    command
        .env("VCPI_HUNT_SECONDS", (60 * options.minutes).to_string())
        .env("VCPI_HUNT_SEED", seed.to_string())
        .env(
            "VCPI_HUNT_KIND",
            options.kind.as_deref().unwrap_or_default(),
        );
    if let Some(programs) = options.programs {
        command.env("VCPI_HUNT_PROGRAMS", programs.to_string());
    }
    if let Some(engines) = &options.engines {
        command.env("VCPI_HUNT_ENGINES", engines);
    }
    run_command(&mut command)
}

/// What is run each night, each time with other seeds.
pub(crate) fn nightly() -> Result<()> {
    let seed = seed_of_now();
    run(&Options {
        minutes: NIGHTLY_MINUTES,
        seed: Some(seed),
        programs: None,
        kind: None,
        engines: None,
    })?;
    fuzz::isa(NIGHTLY_CASES, seed, 0, None)
}

/// Seconds: far enough apart that no two nights share a program.
fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| now.as_secs())
}
