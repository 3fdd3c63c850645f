//! Programs in C++ and Rust, whose functions have mangled names: from a recording to a build.

use anyhow::{Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::programs::root;

use crate::{FLAGS, Recorded, tool, tools};

/// Rounds of the fixtures: some seconds.
pub(crate) const ROUNDS: &str = "1000000";

fn fixture(name: &str) -> String {
    let path = root().join("tests/fixtures").join(name);
    path.display().to_string()
}

/// Records the program `opt`, exports, has llvm-profgen read that, and builds `better`, of which
/// the compiler must say that it calls directly what is mostly called.
fn better(
    of: &Recorded,
    build: impl Fn(&[&str], &str) -> Result<String>,
    profile: &[&str],
    commands: &str,
) -> Result<()> {
    build(&[], "opt")?;
    of.record(ROUNDS)?;
    let output = of.export("profgen", "./opt", "opt.raw")?;
    let said = text(&output);
    ensure!(output.status.success() && said.contains(commands), "{said}");
    let names = of.symbolize("opt.raw", "opt.prof")?;
    let mangled = |line: &str| line.starts_with("_Z") || line.starts_with("_R");
    let is_there = |line: &str| mangled(line) && line.contains("total");
    ensure!(names.lines().any(is_there), "no `total` in {names}");
    let said = build(profile, "better")?;
    let promoted = |line: &str| line.contains("romote indirect call") && line.contains("area");
    ensure!(said.lines().any(promoted), "nothing is promoted: {said}");
    ensure!(
        of.result("better")? == of.result("opt")?,
        "the program that was compiled with the profile prints something else"
    );
    Ok(())
}

pub(crate) const CPP: Test = test(
    "clang++ takes the profile by mangled names, and calls virtual functions directly",
    cpp,
    &[tools],
);
/// Virtual functions have mangled names, templates have long ones: the compiler finds both.
fn cpp() -> Result<()> {
    let of = Recorded::empty()?;
    let source = fixture("optimised.cpp");
    let build = |more: &[&str], name: &str| {
        let words = [FLAGS, &["-o", name, &source], more].concat();
        Ok(text(&of.run(tool("clang++"), &words)?))
    };
    let profile = ["-fprofile-sample-use=opt.prof", "-Rpass=pgo-icall-prom"];
    better(&of, build, &profile, " -O2 -g1 -fdebug-info-for-profiling ")
}

pub(crate) const RUST: Test = test(
    "rustc takes the profile by mangled names, and calls through traits directly",
    rust,
    &[tools],
);
/// Stable compilers have the flags for samples, and take them when they are told that they may.
/// The export names those flags for a program that was written in Rust.
fn rust() -> Result<()> {
    let of = Recorded::empty()?;
    let source = fixture("optimised.rs");
    let build = |more: &[&str], name: &str| {
        let words = [
            "--edition=2024",
            "-Copt-level=3",
            "-Cdebuginfo=1",
            "-Zdebug-info-for-profiling",
            "-Ccodegen-units=1",
            "-o",
            name,
            &source,
        ];
        let mut command = of.command("rustc");
        command.env("RUSTC_BOOTSTRAP", "1").args(words).args(more);
        let output = command.output()?;
        ensure!(output.status.success(), text(&output));
        Ok(text(&output))
    };
    let profile = ["-Zprofile-sample-use=opt.prof", "-Cremark=pgo-icall-prom"];
    better(&of, build, &profile, "RUSTFLAGS='-Cdebuginfo=1 ")
}
