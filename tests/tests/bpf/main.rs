//! The engine `bpf` from end to end: no value is wrong, however the ground moves; how much is known;
//! and that samples are attributed to what ran.
//!
//! Needs the release build of both programs, root, and a kernel with BPF and BTF. Takes a minute at
//! most. `VCPI_TEST_SAMPLES=100000` makes the loads of the first test a long run, and the others as
//! much longer. Values and shares that were found are printed (`-- --nocapture` is not needed).

use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::bench::{Bench, succeeded};

mod bench;
mod callers;
mod checks;
mod compile;
mod moving;
mod real;
mod truth;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One at a time: their programs would take processor time from each other.
    arguments.test_threads.get_or_insert(1);
    let missing = missing();
    let trial = |name: &str, test: fn(&Bench) -> Result<Completion, Failed>| {
        let missing = missing.clone();
        Trial::ignorable_test(name, move || match missing {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => test(&Bench::new()?),
        })
    };
    let tests = vec![
        trial("loads of every kind have their true values", truth::loads),
        trial("fields that another thread writes are whole", moving::flip),
        trial("stores and loads through two pointers", moving::alias),
        trial("another shared object at the same address", moving::objects),
        trial("code that is written and written anew", moving::jit),
        trial("an exec in a loop at the same addresses", moving::exec),
        trial("pages are thrown out under the loads", moving::pages),
        trial(
            "real programs: more is known than by the engine ring",
            real::programs,
        ),
        trial("callers are those that perf finds", callers::against_perf),
        trial(
            "a compile of many files is attributed to what ran",
            compile::many_files,
        ),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// What is missing for recording with the engine `bpf`, if anything is.
fn missing() -> Option<String> {
    let recorded = || -> Result<(), Failed> {
        let bench = Bench::new()?;
        let output = bench
            .record("bpf", 1000, "probe")
            .args(["--", "true"])
            .stdout(Stdio::null())
            .output()?;
        succeeded(&output)
    };
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if Command::new("gcc").arg("--version").output().is_err() {
        return Some("needs gcc".to_owned());
    }
    let failed = recorded().err()?;
    let why = failed.message().unwrap_or("no reason given").to_owned();
    Some(format!(
        "needs the engine bpf with the clock cpu-clock: {why}"
    ))
}
