//! The ground moves under the loads: no value is outside the set of true ones.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, cpu_clock, query, samples, seconds};
use crate::checks::{self, Check, CodeIn, Verdict};

/// Samples of each program in the ordinary run; a long run takes a quarter of what is asked for.
const SAMPLES: u32 = 10_000;
/// Two constants that differ in every part.
const VALUES: [&str; 2] = ["0x1111222233334444", "0x5555666677778888"];

fn time() -> Result<String> {
    Ok(seconds(samples(4 * SAMPLES)? / 4))
}

fn judged(bench: &Bench, title: &str, images: &[(CodeIn<'_>, &[Check])]) -> Result<()> {
    let database = bench.open("moving.db")?;
    let mut verdict = Verdict::default();
    for (place, checks) in images {
        checks::judge(&database, *place, checks, &mut verdict)?;
    }
    verdict.settle(title, 200.0)?;
    Ok(())
}

/// Records a fixture of one program and judges its checks.
fn one_program(bench: &Bench, name: &str, more: &[&str]) -> Result<()> {
    one_program_for(&time()?, bench, name, more)
}

fn one_program_for(time: &str, bench: &Bench, name: &str, more: &[&str]) -> Result<()> {
    by_engine("bpf", time, bench, name, more)
}

pub(crate) const GUARDED: Test = test(
    "exceptions of pages that a program asks for",
    guarded,
    &[as_root, gcc, cpu_clock],
);
/// Pages that raise an exception although their mapping allows the access: guard regions, and those
/// of a `userfaultfd` that asks for SIGBUS.
fn guarded(bench: &Bench) -> Result<()> {
    guarded_by("bpf", bench)
}

pub(crate) const GUARDED_BY_RING: Test = test(
    "exceptions of pages that a program asks for, engine ring",
    guarded_by_ring,
    &[as_root, gcc, cpu_clock],
);
/// The same with the engine `ring`.
fn guarded_by_ring(bench: &Bench) -> Result<()> {
    guarded_by("ring", bench)
}

fn guarded_by(engine: &str, bench: &Bench) -> Result<()> {
    let time = seconds(samples(3 * SAMPLES)?);
    for (name, option) in [("guard regions", "-DREGIONS"), ("userfaultfd", "-DBY_USER")] {
        let program = bench.compile("guarded.c", "guarded", &[option])?;
        bench.watch_with(engine, &program, &[&time], "moving.db")?;
        let checks = checks::of_image(&program)?;
        judged(bench, name, &[(CodeIn::File(&program), &checks)])?;
        fs::remove_file(bench.path("moving.db"))?;
    }
    Ok(())
}

pub(crate) const ANSWERED: Test = test(
    "accesses that another thread answers",
    answered,
    &[as_root, gcc, cpu_clock],
);
/// Behind an access to memory of a `userfaultfd`, memory is what the thread made of it that
/// answered the access; with both engines.
fn answered(bench: &Bench) -> Result<()> {
    let program = bench.compile("answered.c", "answered", &["-pthread"])?;
    let (time, checks) = (seconds(samples(2 * SAMPLES)?), checks::of_image(&program)?);
    for engine in ["bpf", "ring"] {
        bench.watch_with(engine, &program, &[&time], "moving.db")?;
        let mut verdict = Verdict::default();
        let database = bench.open("moving.db")?;
        checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
        // No value is known behind what nobody can tell the result of.
        verdict.settle(&format!("answered, {engine}"), 0.0)?;
        fs::remove_file(bench.path("moving.db"))?;
    }
    Ok(())
}

fn by_engine(engine: &str, time: &str, bench: &Bench, name: &str, more: &[&str]) -> Result<()> {
    let program = bench.compile(&format!("{name}.c"), name, &["-lm"])?;
    let arguments: Vec<&str> = std::iter::once(time).chain(more.iter().copied()).collect();
    bench.watch_with(engine, &program, &arguments, "moving.db")?;
    let checks = checks::of_image(&program)?;
    judged(bench, name, &[(CodeIn::File(&program), &checks)])
}

pub(crate) const FLIP: Test = test(
    "fields that another thread writes are whole",
    flip,
    &[as_root, gcc],
);
/// A load sees a value that was written, never parts of two.
fn flip(bench: &Bench) -> Result<()> {
    one_program(bench, "flip", &[])
}

pub(crate) const ALIAS: Test = test(
    "stores and loads through two pointers",
    alias,
    &[as_root, gcc],
);
/// A load behind a store in the same window sees the store exactly where it reaches.
fn alias(bench: &Bench) -> Result<()> {
    one_program(bench, "alias", &[])
}

pub(crate) const WRITES: Test = test("stores that no operand names", writes, &[as_root, gcc]);
/// What an instruction stores where no operand says is seen by a load behind it, or unknown.
fn writes(bench: &Bench) -> Result<()> {
    one_program(bench, "writes", &[])
}

pub(crate) const RAISED: Test = test("exceptions that a program handles", raised, &[as_root, gcc]);
/// No window goes on past an instruction that raises an exception, which the program handles.
fn raised(bench: &Bench) -> Result<()> {
    // Nearly all of its time is the kernel's.
    one_program_for(&seconds(samples(6 * SAMPLES)?), bench, "raised", &[])
}

pub(crate) const ASKED: Test = test("exceptions that a program asks for", asked, &[as_root, gcc]);
/// The same where what raises the exception is in no sample: MXCSR, the control word of x87, what
/// the processor lacks, an address in a vector register.
fn asked(bench: &Bench) -> Result<()> {
    one_program_for(&seconds(samples(6 * SAMPLES)?), bench, "asked", &[])
}

pub(crate) const ASKED_BY_RING: Test = test(
    "exceptions that a program asks for, engine ring",
    asked_by_ring,
    &[as_root, gcc, cpu_clock],
);
/// The same where the collector looks for handlers itself.
fn asked_by_ring(bench: &Bench) -> Result<()> {
    let time = seconds(samples(6 * SAMPLES)?);
    by_engine("ring", &time, bench, "asked", &[])
}

pub(crate) const DEATHS: Test = test(
    "processes that end by an exception",
    deaths,
    &[as_root, gcc],
);
/// Of processes that end by an exception without a handler, nothing is told that stands behind it,
/// though they are gone when their samples are looked at.
fn deaths(bench: &Bench) -> Result<()> {
    one_program_for(&seconds(samples(4 * SAMPLES)?), bench, "deaths", &[])
}

pub(crate) const PAGES: Test = test(
    "pages are thrown out under the loads",
    pages,
    &[as_root, gcc],
);
/// A value loaded from a page is one that the page held, whether or not the page was there.
fn pages(bench: &Bench) -> Result<()> {
    let file = bench.path("pages.file");
    one_program(bench, "pages", &[&file.display().to_string()])
}

pub(crate) const OBJECTS: Test = test(
    "another shared object at the same address",
    objects,
    &[as_root, gcc],
);
/// Two objects with the same layout that lie at one address in turn: neither yields the other's
/// values.
fn objects(bench: &Bench) -> Result<()> {
    let loader = bench.compile("swapped.c", "loader", &["-DLOADER", "-ldl"])?;
    let object = |name: &str, value: &str| {
        let value = format!("-DVALUE={value}");
        let options = ["-shared", "-fPIC", "-DOBJECT", &value];
        bench.compile("swapped.c", name, &options)
    };
    let (one, two) = (object("one.so", VALUES[0])?, object("two.so", VALUES[1])?);
    let (time, paths) = (
        time()?,
        [one.display().to_string(), two.display().to_string()],
    );
    let same = bench.watch(&loader, &[&time, &paths[0], &paths[1]], "moving.db")?;
    let same: u64 = same.trim().parse()?;
    if same < 2 {
        bail!("only {same} objects at the place of the other one");
    }
    println!("{same} times an object lay where the other one had been");
    judged_pair(bench, "objects", &one, &two)
}

pub(crate) const EXEC: Test = test(
    "an exec in a loop at the same addresses",
    exec,
    &[as_root, gcc],
);
/// A process that becomes one program and the other in turn, at the same addresses.
fn exec(bench: &Bench) -> Result<()> {
    let program = |name: &str, value: &str| {
        let value = format!("-DVALUE={value}");
        bench.compile("swapped.c", name, &["-no-pie", &value])
    };
    let (one, two) = (program("one", VALUES[0])?, program("two", VALUES[1])?);
    // Each program runs for some milliseconds.
    let execs = (samples(4 * SAMPLES)? / 800).to_string();
    bench.watch(&one, &[&execs, &two.display().to_string()], "moving.db")?;
    let database = bench.open("moving.db")?;
    let programs: i64 = query(&database, "SELECT count(*) FROM process")?;
    println!("{programs} programs in one process");
    judged_pair(bench, "exec", &one, &two)
}

fn judged_pair(bench: &Bench, title: &str, one: &Path, two: &Path) -> Result<()> {
    let checks = (checks::of_image(one)?, checks::of_image(two)?);
    judged(
        bench,
        title,
        &[
            (CodeIn::File(one), &checks.0),
            (CodeIn::File(two), &checks.1),
        ],
    )
}

pub(crate) const JIT: Test = test(
    "code that is written and written anew",
    jit,
    &[as_root, gcc],
);
/// Generated code that says one number in several places: they agree in every window.
fn jit(bench: &Bench) -> Result<()> {
    let program = bench.compile("jit.c", "jit", &[])?;
    let said = bench.watch(&program, &[&time()?], "moving.db")?;
    let checks = checks::printed(&said)?;
    judged(bench, "jit", &[(CodeIn::Anonymous, &checks)])
}
