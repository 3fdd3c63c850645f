//! Names and code that are not on this machine: those of a debuginfod server.

#[path = "../../../reports/tests/common/loopback.rs"]
#[expect(dead_code, reason = "no server fails here")]
mod loopback;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{as_root, gcc};

use self::loopback::{Loopback, Says};
use crate::bench::Bench;
use crate::named::{printed, record, spinner};

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(())
}

/// What a listing of a function has: how many instructions, and how many of them have source
/// lines; with these options of `vcpi`, this cache, and this server.
fn listing(bench: &Bench, options: &[&str], cache: &Path, url: &str) -> Result<(usize, usize)> {
    let output = Command::new(&bench.programs.vcpi)
        .args(["list", "served_one", "--format", "json", "-i"])
        .arg(bench.path("db"))
        .args(options)
        .env("DEBUGINFOD_URLS", url)
        .env("DEBUGINFOD_CACHE_PATH", cache)
        .output()?;
    let rows: Value = serde_json::from_slice(&output.stdout)?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let with = |key: &str| rows.iter().filter(|row| !row[key].is_null()).count();
    Ok((with("text"), with("source")))
}

pub(crate) const FETCHED: Test = test(
    "a debuginfod server gives names, lines and programs, once, to whoever asks it",
    fetched,
    &[as_root, gcc],
);
fn fetched() -> Result<()> {
    let bench = Bench::new()?;
    fs::write(bench.path("p.c"), spinner("served_one", 3))?;
    let folder = bench.folder.path();
    run(
        folder,
        "gcc",
        &["-O1", "-g", "-Wl,--build-id", "-o", "p", "p.c"],
    )?;
    run(folder, "objcopy", &["--only-keep-debug", "p", "debug"])?;
    run(folder, "strip", &["-s", "p"])?;
    fs::copy(bench.path("p"), bench.path("program"))?;
    record(&bench, "./p 9000")?;
    let shown = printed(&bench, &["top"])?;
    ensure!(shown.contains("p!fn_"), "{shown}");
    let id: String = bench.query("SELECT identity FROM image WHERE path LIKE '%/p'")?;
    let id = id.rsplit(':').next().unwrap_or_default().to_owned();
    let at = |artifact: &str| format!("/buildid/{id}/{artifact}");
    let server = Loopback::start(BTreeMap::from([
        (at("debuginfo"), Says::File(fs::read(bench.path("debug"))?)),
        (
            at("executable"),
            Says::File(fs::read(bench.path("program"))?),
        ),
    ]))?;
    let other = Loopback::start(BTreeMap::new())?;
    let (first, second, off) = (bench.path("one"), bench.path("two"), bench.path("off"));
    // Who does not want to ask does not.
    for (options, url) in [(&["--no-debuginfod"][..], &*server.url), (&[], "")] {
        let found = listing(&bench, options, &off, url);
        ensure!(
            found.is_err() || found.is_ok_and(|found| found == (0, 0)),
            "{options:?} {url}: named"
        );
    }
    ensure!(server.asked().is_empty(), "asked");
    // The debug file, from the second of two servers; then from the cache.
    let both = format!("{} {}", other.url, server.url);
    for url in [&*both, "http://127.0.0.1:1"] {
        let (code, lines) = listing(&bench, &[], &first, url)?;
        ensure!(code >= 3 && lines >= 3, "{url}: {code} {lines}");
    }
    // The program too, when it is gone.
    fs::remove_file(bench.path("p"))?;
    let (code, lines) = listing(&bench, &[], &second, &server.url)?;
    ensure!(code >= 3 && lines >= 3, "gone: {code} {lines}");
    Ok(())
}
