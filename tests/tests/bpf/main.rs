//! The engine `bpf` from end to end: no value is wrong, however the ground moves; how much is
//! known; and that samples are attributed to what ran.
//!
//! Needs the release build of both programs, root, and a kernel with BPF and BTF. Takes two minutes
//! at most. `VCPI_TEST_SAMPLES=100000` makes the loads of the first test a long run, and the others
//! as much longer. Values and shares that were found are printed (`-- --nocapture` is not needed).

use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::bench::{Bench, Clock, succeeded};

mod bench;
mod bounced;
mod callers;
mod checks;
mod clocks;
mod code;
mod compile;
mod entered;
mod killed;
mod mapped;
mod meanwhile;
mod moving;
mod real;
mod stepped;
mod truth;
mod vectors;

type Test = fn(&Bench) -> Result<Completion, Failed>;

/// The tests that run with every clock.
const OF_CLOCKS: &[(&str, Test)] = &[
    ("loads of every kind have their true values", truth::loads),
    ("fields that another thread writes are whole", moving::flip),
    (
        "words that others write are seen in order",
        meanwhile::order,
    ),
    ("memory by the bases of FS and GS", meanwhile::bases),
    (
        "bases that are moved without the kernel",
        meanwhile::moved_bases,
    ),
    ("stores and loads through two pointers", moving::alias),
    ("stores that no operand names", moving::writes),
    ("exceptions that a program handles", moving::raised),
    ("exceptions that a program asks for", moving::asked),
    (
        "exceptions of pages that a program asks for",
        moving::guarded,
    ),
    ("processes that end by an exception", moving::deaths),
    ("another shared object at the same address", moving::objects),
    ("code that is written and written anew", moving::jit),
    ("an exec in a loop at the same addresses", moving::exec),
    ("pages are thrown out under the loads", moving::pages),
    ("memory that is mapped twice", mapped::views),
    ("accesses that raise exceptions", mapped::faults),
    ("callers are those that perf finds", callers::against_perf),
];

/// Those that run with windows as long as usual, too.
const OF_LONG_WINDOWS: &[&str] = &[
    "loads of every kind have their true values",
    "fields that another thread writes are whole",
    "words that others write are seen in order",
    "stores and loads through two pointers",
    "stores that no operand names",
    "another shared object at the same address",
    "code that is written and written anew",
    "memory that is mapped twice",
    "accesses that raise exceptions",
];
/// Instructions of short windows. Long ones are as long as usual.
const SHORT_WINDOW: u32 = 16;

/// Those that need one clock, or say themselves which.
const OTHERS: &[(&str, Clock, Test)] = &[
    (
        "callers that unwind rules do not tell",
        Clock::CpuClock,
        code::callers,
    ),
    (
        "callers in code that is made at run time",
        Clock::CpuClock,
        code::made,
    ),
    (
        "arguments in the registers of other languages",
        Clock::CpuClock,
        code::languages,
    ),
    (
        "real programs: more is known than by the engine ring",
        Clock::CpuClock,
        real::programs,
    ),
    (
        "memory that is mapped twice, engine ring",
        Clock::CpuClock,
        mapped::views_by_ring,
    ),
    (
        "accesses that raise exceptions, engine ring",
        Clock::CpuClock,
        mapped::faults_by_ring,
    ),
    (
        "exceptions that a program asks for, engine ring",
        Clock::CpuClock,
        moving::asked_by_ring,
    ),
    (
        "exceptions of pages that a program asks for, engine ring",
        Clock::CpuClock,
        moving::guarded_by_ring,
    ),
    (
        "a compile of many files is attributed to what ran",
        Clock::CpuClock,
        compile::many_files,
    ),
    (
        "values that live in vector registers",
        Clock::CpuClock,
        vectors::across_windows,
    ),
    (
        "results that only the processor can tell",
        Clock::CpuClock,
        bounced::results,
    ),
    (
        "collectors that are killed leave no breakpoints",
        Clock::CpuClock,
        bounced::kills,
    ),
    ("results that steps show", Clock::CpuClock, stepped::results),
    (
        "programs that are stepped are right, in a storm of signals",
        Clock::CpuClock,
        stepped::storm,
    ),
    (
        "programs that are stepped are right, from exec to exec",
        Clock::CpuClock,
        stepped::exec,
    ),
    (
        "threads that are not stepped",
        Clock::CpuClock,
        stepped::refusals,
    ),
    (
        "collectors that are killed leave nobody stepped",
        Clock::CpuClock,
        stepped::kills,
    ),
    (
        "calls by breakpoints at entries are shares of executions",
        Clock::CpuClock,
        entered::shares,
    ),
    (
        "collectors that are killed leave no breakpoints at entries",
        Clock::CpuClock,
        entered::kills,
    ),
    (
        "both clocks see the same, and what is true",
        Clock::Timer,
        clocks::agree,
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One at a time: their programs would take processor time from each other.
    arguments.test_threads.get_or_insert(1);
    let clocks = [Clock::CpuClock, Clock::Timer];
    let missing = clocks.map(|clock| (clock, missing(clock)));
    let trial = |name: String, clock, window: Option<u32>, test: Test| {
        let found = missing.iter().find(|(of, _)| *of == clock);
        let missing = found.and_then(|(_, missing)| missing.clone());
        Trial::ignorable_test(name, move || match missing {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => {
                let bench = Bench::new(clock)?;
                match window {
                    Some(window) => test(&bench.with_window(window)),
                    None => test(&bench),
                }
            }
        })
    };
    let mut tests = Vec::new();
    for clock in clocks {
        for &(name, test) in OF_CLOCKS {
            let title = format!("{name} ({})", clock.name());
            tests.push(trial(title, clock, Some(SHORT_WINDOW), test));
        }
    }
    let long = |(name, _): &&(&str, Test)| OF_LONG_WINDOWS.contains(name);
    for &(name, test) in OF_CLOCKS.iter().filter(long) {
        let title = format!("{name} (long windows)");
        tests.push(trial(title, Clock::CpuClock, None, test));
    }
    for &(name, clock, test) in OTHERS {
        tests.push(trial(name.to_owned(), clock, None, test));
    }
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// What is missing for recording with the engine `bpf` and a clock, if anything is.
fn missing(clock: Clock) -> Option<String> {
    let recorded = || -> Result<(), Failed> {
        let bench = Bench::new(clock)?;
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
        "needs the engine bpf with the clock {}: {why}",
        clock.name()
    ))
}
