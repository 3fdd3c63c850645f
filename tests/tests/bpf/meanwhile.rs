//! Others write while the handler reads; and segments' bases that the kernel does not know.

use libtest_mimic::{Completion, Failed};

use crate::bench::{Bench, samples, seconds};
use crate::checks::{self, Place, Verdict};

/// Samples of each program in the ordinary run; a long run takes a quarter of what is asked for.
const SAMPLES: u32 = 10_000;
/// Values of each check that must be there.
const LEAST: f64 = 200.0;
/// Part of the values that must be known where bases are. Without bases it is a few hundredths.
const KNOWN: f64 = 0.8;

fn time() -> Result<String, Failed> {
    Ok(seconds(samples(4 * SAMPLES)? / 4))
}

/// Words that others write are seen as the thread could see them: written by another thread; by
/// another process of one thread, also where they were moved, or are mapped privately from the file
/// that it writes; and on the own stack.
pub(crate) fn order(bench: &Bench) -> Result<Completion, Failed> {
    if !std::is_x86_feature_detected!("avx2") {
        return Ok(Completion::ignored_with("needs a processor with AVX2"));
    }
    let program = bench.compile("order.c", "order", &["-mavx2"])?;
    let checks = checks::of_image(&program)?;
    let time = time()?;
    for how in ["threads", "processes", "moved", "file", "stack"] {
        bench.watch(&program, &[&time, how], "order.db")?;
        let mut verdict = Verdict::default();
        let database = bench.open("order.db")?;
        checks::judge(&database, Place::File(&program), &checks, &mut verdict)?;
        verdict.settle(&format!("order, {how}"), LEAST)?;
        std::fs::remove_file(bench.path("order.db"))?;
    }
    Ok(Completion::Completed)
}

/// Thread-local memory, and what is found by GS, is each thread's own. It is known where no code of
/// the process can change a base without the kernel's knowledge.
pub(crate) fn bases(bench: &Bench) -> Result<Completion, Failed> {
    let program = bench.compile("bases.c", "bases", &[])?;
    // Long enough that the start, when there are no verdicts on code, is little of it.
    let time = seconds(samples(4 * SAMPLES)? * 3 / 4);
    bench.watch(&program, &[&time], "bases.db")?;
    let mut verdict = Verdict::default();
    let checks = checks::of_image(&program)?;
    let database = bench.open("bases.db")?;
    checks::judge(&database, Place::File(&program), &checks, &mut verdict)?;
    verdict.settle("bases", LEAST)?;
    let known = ["thread-local", "control block", "gs, by a system call"];
    for name in known.iter().chain(&["fs, by a system call"]) {
        let values = verdict.known.get(*name).copied().unwrap_or(0.0);
        if values < KNOWN {
            return Err(format!("{name}: {:.0} % known", 100.0 * values).into());
        }
    }
    Ok(Completion::Completed)
}

/// A shared object moves FS and GS without the kernel, as schedulers of user-level threads do: no
/// value is taken from where they pointed before.
pub(crate) fn moved_bases(bench: &Bench) -> Result<Completion, Failed> {
    let flags = std::fs::read_to_string("/proc/cpuinfo")?;
    if !flags.split_whitespace().any(|flag| flag == "fsgsbase") {
        return Ok(Completion::ignored_with("needs wrfsbase in user code"));
    }
    let program = bench.compile("bases.c", "moved", &["-ldl"])?;
    let object = bench.compile("bases.c", "moved.so", &["-DLIBRARY", "-shared", "-fPIC"])?;
    let path = object.display().to_string();
    bench.watch(&program, &[&time()?, &path], "moved.db")?;
    let mut verdict = Verdict::default();
    let database = bench.open("moved.db")?;
    for image in [&program, &object] {
        let checks = checks::of_image(image)?;
        checks::judge(&database, Place::File(image), &checks, &mut verdict)?;
    }
    verdict.settle("moved bases", LEAST)?;
    Ok(Completion::Completed)
}
