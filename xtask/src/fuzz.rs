//! `cargo xtask fuzz-isa`: the interpreter against the processor, for as long as one likes.

use anyhow::Result;

use crate::process::{cargo, run};
use crate::setup::{self, Need};

/// Builds the test `isa` for release and has it run these cases.
pub(crate) fn isa(cases: u64, seed: u64, first: u64, code: Option<&str>) -> Result<()> {
    setup::run(Need::Test)?;
    let mut command = cargo(["test", "--release", "-p", "vcpi-tests", "--test", "isa"]);
    command
        .env("VCPI_ISA_CASES", cases.to_string())
        .env("VCPI_ISA_SEED", seed.to_string())
        .env("VCPI_ISA_FIRST", first.to_string())
        .env("VCPI_ISA_CODE", code.unwrap_or_default());
    run(&mut command)
}
