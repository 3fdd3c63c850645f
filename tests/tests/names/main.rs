//! Whether programs whose files are elsewhere, gone, replaced or in memory have names.
//!
//! Needs the release build of both programs and root; all of it runs on the software clock.

#[path = "../record/bench.rs"]
#[expect(dead_code, reason = "shared with the tests of `record`")]
mod bench;
mod exported;
mod files;
mod generated;
mod modes;
mod named;
mod remote;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use vcpi_tests::harness::run;

fn main() -> ExitCode {
    let tests = [
        files::GONE,
        files::OVERWRITTEN,
        files::TAKE_TURNS,
        files::IN_MEMORY,
        files::BY_CONTENT,
        files::LARGE,
        files::MOVED,
        generated::GENERATIONS,
        generated::NOT_THEIRS,
        generated::DUMPED,
        remote::FETCHED,
        modes::VDSO,
        modes::OF_32_BITS,
        exported::TOTALS,
    ];
    run(&Arguments::from_args(), tests).exit_code()
}
