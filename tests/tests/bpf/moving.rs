//! The ground moves under the loads: no value is outside the set of true ones.

use std::fs;
use std::path::Path;

use libtest_mimic::{Completion, Failed};

use crate::bench::{Bench, query, samples, seconds};
use crate::checks::{self, Check, Place, Verdict};

/// Samples of each program in the ordinary run; a long run takes a quarter of what is asked for.
const SAMPLES: u32 = 10_000;
/// Two constants that differ in every part.
const VALUES: [&str; 2] = ["0x1111222233334444", "0x5555666677778888"];

fn time() -> Result<String, Failed> {
    Ok(seconds(samples(4 * SAMPLES)? / 4))
}

fn judged(
    bench: &Bench,
    title: &str,
    images: &[(Place<'_>, &[Check])],
) -> Result<Completion, Failed> {
    let database = bench.open("moving.db")?;
    let mut verdict = Verdict::default();
    for (place, checks) in images {
        checks::judge(&database, *place, checks, &mut verdict)?;
    }
    verdict.settle(title, 200.0)?;
    Ok(Completion::Completed)
}

/// Records a fixture of one program and judges its checks.
fn one_program(bench: &Bench, name: &str, more: &[&str]) -> Result<Completion, Failed> {
    one_program_for(&time()?, bench, name, more)
}

fn one_program_for(
    time: &str,
    bench: &Bench,
    name: &str,
    more: &[&str],
) -> Result<Completion, Failed> {
    by_engine("bpf", time, bench, name, more)
}

/// Pages that raise an exception although their mapping allows the access: guard regions, and those
/// of a `userfaultfd` that asks for SIGBUS.
pub(crate) fn guarded(bench: &Bench) -> Result<Completion, Failed> {
    guarded_by("bpf", bench)
}

/// The same with the engine `ring`.
pub(crate) fn guarded_by_ring(bench: &Bench) -> Result<Completion, Failed> {
    guarded_by("ring", bench)
}

fn guarded_by(engine: &str, bench: &Bench) -> Result<Completion, Failed> {
    let time = seconds(samples(3 * SAMPLES)?);
    for (name, option) in [("guard regions", "-DREGIONS"), ("userfaultfd", "-DBY_USER")] {
        let program = bench.compile("guarded.c", "guarded", &[option])?;
        bench.watch_with(engine, &program, &[&time], "moving.db")?;
        let checks = checks::of_image(&program)?;
        judged(bench, name, &[(Place::File(&program), &checks)])?;
        fs::remove_file(bench.path("moving.db"))?;
    }
    Ok(Completion::Completed)
}

fn by_engine(
    engine: &str,
    time: &str,
    bench: &Bench,
    name: &str,
    more: &[&str],
) -> Result<Completion, Failed> {
    let program = bench.compile(&format!("{name}.c"), name, &["-lm"])?;
    let arguments: Vec<&str> = std::iter::once(time).chain(more.iter().copied()).collect();
    bench.watch_with(engine, &program, &arguments, "moving.db")?;
    let checks = checks::of_image(&program)?;
    judged(bench, name, &[(Place::File(&program), &checks)])
}

/// A load sees a value that was written, never parts of two.
pub(crate) fn flip(bench: &Bench) -> Result<Completion, Failed> {
    one_program(bench, "flip", &[])
}

/// A load behind a store in the same window sees the store exactly where it reaches.
pub(crate) fn alias(bench: &Bench) -> Result<Completion, Failed> {
    one_program(bench, "alias", &[])
}

/// What an instruction stores where no operand says is seen by a load behind it, or unknown.
pub(crate) fn writes(bench: &Bench) -> Result<Completion, Failed> {
    one_program(bench, "writes", &[])
}

/// No window goes on past an instruction that raises an exception, which the program handles.
pub(crate) fn raised(bench: &Bench) -> Result<Completion, Failed> {
    // Nearly all of its time is the kernel's.
    one_program_for(&seconds(samples(6 * SAMPLES)?), bench, "raised", &[])
}

/// The same where what raises the exception is in no sample: MXCSR, the control word of x87, what
/// the processor lacks, an address in a vector register.
pub(crate) fn asked(bench: &Bench) -> Result<Completion, Failed> {
    one_program_for(&seconds(samples(6 * SAMPLES)?), bench, "asked", &[])
}

/// The same where the collector looks for handlers itself.
pub(crate) fn asked_by_ring(bench: &Bench) -> Result<Completion, Failed> {
    let time = seconds(samples(6 * SAMPLES)?);
    by_engine("ring", &time, bench, "asked", &[])
}

/// Of processes that end by an exception without a handler, nothing is told that stands behind it,
/// though they are gone when their samples are looked at.
pub(crate) fn deaths(bench: &Bench) -> Result<Completion, Failed> {
    one_program_for(&seconds(samples(4 * SAMPLES)?), bench, "deaths", &[])
}

/// A value loaded from a page is one that the page held, whether or not the page was there.
pub(crate) fn pages(bench: &Bench) -> Result<Completion, Failed> {
    let file = bench.path("pages.file");
    one_program(bench, "pages", &[&file.display().to_string()])
}

/// Two objects with the same layout that lie at one address in turn: neither yields the other's
/// values.
pub(crate) fn objects(bench: &Bench) -> Result<Completion, Failed> {
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
        return Err(format!("only {same} objects at the place of the other one").into());
    }
    println!("{same} times an object lay where the other one had been");
    judged_pair(bench, "objects", &one, &two)
}

/// A process that becomes one program and the other in turn, at the same addresses.
pub(crate) fn exec(bench: &Bench) -> Result<Completion, Failed> {
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

fn judged_pair(bench: &Bench, title: &str, one: &Path, two: &Path) -> Result<Completion, Failed> {
    let checks = (checks::of_image(one)?, checks::of_image(two)?);
    judged(
        bench,
        title,
        &[(Place::File(one), &checks.0), (Place::File(two), &checks.1)],
    )
}

/// Generated code that says one number in several places: they agree in every window.
pub(crate) fn jit(bench: &Bench) -> Result<Completion, Failed> {
    let program = bench.compile("jit.c", "jit", &[])?;
    let said = bench.watch(&program, &[&time()?], "moving.db")?;
    let checks = checks::printed(&said)?;
    judged(bench, "jit", &[(Place::Anonymous, &checks)])
}
