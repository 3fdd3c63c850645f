//! Recording a script, and what its reports name.

use std::process::Command;

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use vcpi_tests::harness::text;

use crate::bench::Bench;

/// Records what a shell does in the folder of a bench.
pub(crate) fn record(bench: &Bench, script: &str) -> Result<()> {
    // Not joined to it: the first command of a script may go to the background.
    let script = format!("cd {}; {script}", bench.folder.path().display());
    let output = bench.record(&["-q", "--", "sh", "-c", &script]).output()?;
    ensure!(output.status.success(), text(&output));
    Ok(())
}

/// The share of all cycles that functions of this name have, in percent.
pub(crate) fn share(bench: &Bench, name: &str) -> Result<f64> {
    let rows = bench.programs.report(&bench.path("db"), &["top"])?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let own = rows.iter().filter(|row| row["key"] == name);
    Ok(own.filter_map(|row| row["percent"].as_f64()).sum())
}

/// Fails unless a function has at least this share.
pub(crate) fn has(bench: &Bench, name: &str, least: f64) -> Result<()> {
    let found = share(bench, name)?;
    if found >= least {
        return Ok(());
    }
    bail!(format!(
        "{name}: {found} %, not {least}\n{}",
        printed(bench, &["top"])?
    ))
}

/// A report as text, with what it says beside.
pub(crate) fn printed(bench: &Bench, arguments: &[&str]) -> Result<String> {
    let output = Command::new(&bench.programs.vcpi)
        .args(arguments)
        .arg("-i")
        .arg(bench.path("db"))
        .output()?;
    Ok(text(&output))
}

/// The rows of a listing.
pub(crate) fn listed(bench: &Bench, function: &str) -> Result<Vec<Value>> {
    let rows = bench
        .programs
        .report(&bench.path("db"), &["list", function])?;
    Ok(rows.as_array().cloned().unwrap_or_default())
}

/// A program whose time goes to one function of this name, as often as its argument says.
pub(crate) fn spinner(name: &str, factor: u32) -> String {
    format!(
        "#include <stdlib.h>\n\
         __attribute__((noinline)) unsigned long {name}(unsigned long a, long n) {{\n\
         for (long i = 0; i < n; i++) a = a * {factor} + i; return a; }}\n\
         int main(int c, char **v) {{ unsigned long r = 1;\n\
         for (long i = 0; i < atol(v[1]); i++) r = {name}(r, 100000);\n\
         return r == 42; }}\n"
    )
}
