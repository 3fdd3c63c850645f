//! The engine `bpf` from end to end: no value is wrong, however the ground moves; how much is
//! known; and that samples are attributed to what ran.
//!
//! Needs the release build of both programs, root, and a kernel with BPF and BTF. Takes two minutes
//! at most. `VCPI_TEST_SAMPLES=100000` makes the loads of the first test a long run, and the others
//! as much longer. `VCPI_TEST_SECONDS=60` has pairs and steps watched for so long in each test of
//! their results, and `VCPI_TEST_KILLS=50` as many collectors killed. Values and shares that were
//! found are printed (`-- --nocapture` is not needed).

mod bench;
mod bounced;
mod callers;
mod checks;
mod clocks;
mod code;
mod compile;
mod each;
mod entered;
mod killed;
mod mapped;
mod meanwhile;
mod moving;
mod real;
mod stepped;
mod truth;
mod vectors;

use std::process::ExitCode;

use vcpi_tests::harness::{one_at_a_time, trial};

use crate::bench::{Bench, Clock, Test};

/// The tests that run with every clock, and need it.
const OF_CLOCKS: &[Test] = &[
    truth::LOADS,
    moving::FLIP,
    meanwhile::ORDER,
    meanwhile::BASES,
    meanwhile::MOVED_BASES,
    moving::ALIAS,
    moving::WRITES,
    moving::RAISED,
    moving::ASKED,
    moving::GUARDED,
    moving::DEATHS,
    moving::OBJECTS,
    moving::JIT,
    moving::EXEC,
    moving::PAGES,
    mapped::VIEWS,
    mapped::FAULTS,
    callers::AGAINST_PERF,
];

/// Those that run with windows as long as usual, too.
const OF_LONG_WINDOWS: &[Test] = &[
    truth::LOADS,
    moving::FLIP,
    meanwhile::ORDER,
    moving::ALIAS,
    moving::WRITES,
    moving::OBJECTS,
    moving::JIT,
    mapped::VIEWS,
    mapped::FAULTS,
];
/// Instructions of short windows. Long ones are as long as usual.
const SHORT_WINDOW: u32 = 16;

/// Those that need one clock, or say themselves which.
const OTHERS: &[Test] = &[
    meanwhile::ON_THE_STACK,
    code::CALLERS,
    code::MADE,
    code::LANGUAGES,
    real::PROGRAMS,
    mapped::VIEWS_BY_RING,
    mapped::SWAPPED,
    mapped::REWRITTEN,
    mapped::FAULTS_BY_RING,
    moving::ANSWERED,
    moving::ASKED_BY_RING,
    moving::GUARDED_BY_RING,
    compile::MANY_FILES,
    vectors::ACROSS_WINDOWS,
    vectors::KILLS,
    bounced::RESULTS,
    bounced::VECTORS,
    bounced::KILLS,
    stepped::RESULTS,
    stepped::STORM,
    stepped::EXEC,
    stepped::REFUSALS,
    stepped::KILLS,
    each::WAYS_TO_VALUES,
    entered::SHARES,
    entered::UNLIKE,
    entered::KILLS,
    clocks::AGREE,
];

fn main() -> ExitCode {
    let of = |test: &Test, clock: Clock, window: Option<u32>, how: &str| {
        let (name, run) = (format!("{}{how}", test.sentence), test.run);
        let needs = test.needs.iter().copied().chain([clock.need()]);
        trial(name, needs, move || {
            let bench = Bench::new(clock)?;
            match window {
                Some(window) => run(&bench.with_window(window)),
                None => run(&bench),
            }
        })
    };
    let mut tests = Vec::new();
    for clock in [Clock::CpuClock, Clock::Timer] {
        let how = format!(" ({})", clock.name());
        let of = |test| of(test, clock, Some(SHORT_WINDOW), &how);
        tests.extend(OF_CLOCKS.iter().map(of));
    }
    let long = |test| of(test, Clock::CpuClock, None, " (long windows)");
    tests.extend(OF_LONG_WINDOWS.iter().map(long));
    tests.extend(
        OTHERS
            .iter()
            .map(|test| of(test, Clock::CpuClock, None, "")),
    );
    libtest_mimic::run(&one_at_a_time(), tests).exit_code()
}
