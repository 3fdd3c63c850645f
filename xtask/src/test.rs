//! `cargo xtask test`: every test that this machine can run, and a closing line.

use std::io::{BufRead, BufReader, Write};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};
use vcpi_tests::programs::target_dir;

use crate::deb;
use crate::harness::Tally;
use crate::process::{cargo, progress, run as run_command, shown};

/// Sets up, builds both programs and the extension for release (the end-to-end tests run those) and
/// their Debian package, and runs the tests. Ends unsuccessfully if a test fails or is skipped for
/// any reason but the missing hardware counter.
pub(crate) fn run() -> Result<ExitCode> {
    deb::run()?;

    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    command.stdout(Stdio::piped());
    progress(&shown(&command));
    let mut child = command.spawn().context("running cargo test")?;
    let output = child.stdout.take().context("the output of cargo test")?;
    let tally = follow(BufReader::new(output)).context("reading the output of cargo test")?;
    let status = child.wait().context("waiting for cargo test")?;

    println!();
    for line in &tally.failures {
        println!("{line}");
    }
    for skip in &tally.skips {
        println!("skipped: {}: {}", skip.name, skip.reason);
    }
    if tally.crashed > 0 {
        println!(
            "{} test programs ended without a result; they count as failed",
            tally.crashed
        );
    }
    let complaints = tally.complaints();
    for complaint in &complaints {
        println!("not permitted: {complaint}");
    }
    if !status.success() && tally.failed == 0 {
        println!("cargo test failed ({status}) without a failed test: see above");
    }
    println!("{}", tally.summary());
    Ok(
        if status.success() && tally.failed == 0 && complaints.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
    )
}

/// Builds `vcpid` and `vcpi` for release.
pub(crate) fn build() -> Result<()> {
    run_command(&mut cargo([
        "build",
        "--release",
        "--bin",
        "vcpid",
        "--bin",
        "vcpi",
    ]))
}

/// Builds the extension for `sqlite3` for release. It is a workspace of its own: its SQLite is that
/// of whoever loads it. The library lies beside the programs.
pub(crate) fn build_extension() -> Result<()> {
    let words = ["build", "--release", "--locked"];
    run_command(
        cargo(words)
            .args(["--manifest-path", "sqlite/Cargo.toml", "--target-dir"])
            .arg(target_dir()?),
    )
}

/// Passes the output on, as it comes, and adds it up.
fn follow(mut output: impl BufRead) -> std::io::Result<Tally> {
    let mut tally = Tally::default();
    let mut out = std::io::stdout();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        out.flush()?;
        tally.line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    tally.end();
    Ok(tally)
}
