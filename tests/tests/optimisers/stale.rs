//! Profiles of an older build: what the tools make of them.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::programs::root;

use crate::{Recorded, recorded, tool, tools};

/// Where the newer source differs: a check at the head of the loop that interprets. All lines of
/// that function behind it are others than before.
const HEAD: &str = "const struct code *now = &code[at++];\n";
const CHECK: &str = "        if (at > 1000)\n            return 0;\n\n\n\n";

/// The fixture as it is in the newer build.
fn newer(of: &Recorded) -> Result<PathBuf> {
    let source = std::fs::read_to_string(root().join("tests/fixtures/optimised.c"))?;
    let changed = source.replacen(HEAD, &format!("{HEAD}{CHECK}"), 1);
    ensure!(changed != source, "the fixture has no such line");
    let path = of.path("newer.c");
    std::fs::write(&path, changed)?;
    Ok(path)
}

pub(crate) const OLDER: Test = test(
    "profiles of an older build fit where the code did not change",
    older,
    &[tools],
);
/// An export is of one build. What llvm-profgen made of it names functions and lines, what
/// perf2bolt made of it has the shape of blocks: so both fit a newer build where that is alike,
/// and where lines moved, too, with the options that look for them.
fn older() -> Result<()> {
    let recorded = recorded()?;
    let newer = newer(recorded)?;
    // Unique names of functions have a hash of the file's path, which both builds have to share.
    let older = root().join("tests/fixtures/optimised.c");
    let path = format!("-fmacro-prefix-map={}={}", newer.display(), older.display());
    let output = recorded.export("profgen", "./opt", "old.raw")?;
    ensure!(output.status.success(), text(&output));
    recorded.symbolize("old.raw", "old.prof")?;
    let promoted = |more: &[&str]| -> Result<[bool; 2]> {
        let words = [
            &[
                "-fprofile-sample-use=old.prof",
                "-Rpass=pgo-icall-prom",
                &path,
            ],
            more,
        ]
        .concat();
        let said = text(&recorded.compile_file(&newer, &words, "salvaged")?);
        let is_promoted = |name: &str| {
            let mut lines = said.lines();
            lines.any(|line| line.contains("Promote indirect call") && line.contains(name))
        };
        Ok([is_promoted("upwards"), is_promoted("doubled")])
    };
    let without = promoted(&[])?;
    let with = promoted(&["-mllvm", "-salvage-stale-profile"])?;
    // The function that calls `doubled` changed, the one that calls `upwards` did not.
    ensure!(
        without == [true, false] && with == [true, true],
        "promoted: {without:?}, and with the option {with:?}"
    );
    recorded.compile_file(&newer, &[], "new")?;
    let output = recorded.export("bolt", "./opt", "old.bolt")?;
    ensure!(output.status.success(), text(&output));
    let words = [
        "opt",
        "--pa",
        "-p",
        "old.bolt",
        "-o",
        "old.yaml",
        "--profile-format=yaml",
    ];
    recorded.run(tool("perf2bolt"), &words)?;
    let words = [
        "new",
        "-o",
        "new.laid",
        "-data",
        "old.yaml",
        "-infer-stale-profile",
        "-reorder-blocks=ext-tsp",
    ];
    let said = text(&recorded.run(tool("llvm-bolt"), &words)?);
    ensure!(said.contains("inferred profile for 1 "), "{said}");
    for name in ["salvaged", "new.laid"] {
        ensure!(
            recorded.result(name)? == recorded.result("new")?,
            "{name} prints something else"
        );
    }
    Ok(())
}
