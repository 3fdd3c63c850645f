//! Others write while the handler reads; and segments' bases that the kernel does not know.

use std::path::Path;

use anyhow::{Result, bail};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{Missing, as_root, gcc};

use crate::bench::{Bench, Test, cpu_clock, samples, seconds};
use crate::checks::{self, Check, CodeIn, Verdict};

/// Samples of each program in the ordinary run; a long run takes a quarter of what is asked for.
const SAMPLES: u32 = 10_000;
/// Values of each check that must be there.
const LEAST: f64 = 200.0;
/// Part of the values that must be known where bases are. Without bases it is a few hundredths.
const KNOWN: f64 = 0.8;

fn time() -> Result<String> {
    Ok(seconds(samples(4 * SAMPLES)? / 4))
}

/// A processor that stores 32 bytes at once.
fn avx2() -> Result<(), Missing> {
    match std::is_x86_feature_detected!("avx2") {
        true => Ok(()),
        false => Err(Missing::new("needs a processor with AVX2")),
    }
}

/// A kernel that lets programs move the bases of FS and GS.
fn wrfsbase() -> Result<(), Missing> {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match flags.split_whitespace().any(|flag| flag == "fsgsbase") {
        true => Ok(()),
        false => Err(Missing::new("needs wrfsbase in user code")),
    }
}

pub(crate) const ORDER: Test = test(
    "words that others write are seen in order",
    order,
    &[as_root, gcc, cpu_clock, avx2],
);
/// Words that others write are seen as the thread could see them: written by another thread; by
/// another process of one thread, also where they were moved, or are mapped privately from the file
/// that it writes, or are the reader's alone, whose memory it writes by a system call; and on the
/// own stack, by both.
fn order(bench: &Bench) -> Result<()> {
    let program = bench.compile("order.c", "order", &["-mavx2"])?;
    let checks = checks::of_image(&program)?;
    for how in [
        "threads",
        "processes",
        "moved",
        "file",
        "pinned",
        "stack",
        "lent",
    ] {
        in_order(bench, "bpf", (&program, &checks), how, LEAST)?;
    }
    Ok(())
}

/// Records the fixture with an engine, and judges its checks: so many values must be there.
fn in_order(
    bench: &Bench,
    engine: &str,
    (program, checks): (&Path, &[Check]),
    how: &str,
    least: f64,
) -> Result<()> {
    bench.watch_with(engine, program, &[&time()?, how], "order.db")?;
    let mut verdict = Verdict::default();
    let database = bench.open("order.db")?;
    checks::judge(&database, CodeIn::File(program), checks, &mut verdict)?;
    verdict.settle(&format!("order, {how}, {engine}"), least)?;
    std::fs::remove_file(bench.path("order.db"))?;
    Ok(())
}

pub(crate) const ON_THE_STACK: Test = test(
    "words on the stack that others write",
    on_the_stack,
    &[as_root, gcc, cpu_clock, avx2],
);
/// The kernel copies the stack for the engine `ring` in an order of its own, and nobody looks
/// twice: where there are other threads, or another process uses the memory, the copy serves
/// callers alone.
fn on_the_stack(bench: &Bench) -> Result<()> {
    let program = bench.compile("order.c", "order", &["-mavx2"])?;
    let checks = checks::of_image(&program)?;
    for how in ["stack", "lent"] {
        in_order(bench, "ring", (&program, &checks), how, 0.0)?;
    }
    Ok(())
}

pub(crate) const BASES: Test = test("memory by the bases of FS and GS", bases, &[as_root, gcc]);
/// Thread-local memory, and what is found by GS, is each thread's own. It is known where no code of
/// the process can change a base without the kernel's knowledge.
fn bases(bench: &Bench) -> Result<()> {
    let program = bench.compile("bases.c", "bases", &[])?;
    // Long enough that the start, when there are no verdicts on code, is little of it.
    let time = seconds(samples(4 * SAMPLES)? * 3 / 4);
    bench.watch(&program, &[&time], "bases.db")?;
    let mut verdict = Verdict::default();
    let checks = checks::of_image(&program)?;
    let database = bench.open("bases.db")?;
    checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
    verdict.settle("bases", LEAST)?;
    let known = ["thread-local", "control block", "gs, by a system call"];
    for name in known.iter().chain(&["fs, by a system call"]) {
        let values = verdict.known.get(*name).copied().unwrap_or(0.0);
        if values < KNOWN {
            bail!("{name}: {:.0} % known", 100.0 * values);
        }
    }
    Ok(())
}

pub(crate) const MOVED_BASES: Test = test(
    "bases that are moved without the kernel",
    moved_bases,
    &[as_root, gcc, cpu_clock, wrfsbase],
);
/// A shared object moves FS and GS without the kernel, as schedulers of user-level threads do: no
/// value is taken from where they pointed before.
fn moved_bases(bench: &Bench) -> Result<()> {
    let program = bench.compile("bases.c", "moved", &["-ldl"])?;
    let object = bench.compile("bases.c", "moved.so", &["-DLIBRARY", "-shared", "-fPIC"])?;
    let path = object.display().to_string();
    bench.watch(&program, &[&time()?, &path], "moved.db")?;
    let mut verdict = Verdict::default();
    let database = bench.open("moved.db")?;
    for image in [&program, &object] {
        let checks = checks::of_image(image)?;
        checks::judge(&database, CodeIn::File(image), &checks, &mut verdict)?;
    }
    verdict.settle("moved bases", LEAST)?;
    Ok(())
}
