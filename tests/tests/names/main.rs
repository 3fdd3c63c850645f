//! Whether programs whose files are elsewhere, gone, replaced or in memory have names.
//!
//! Needs the release build of both programs and root; all of it runs on the software clock.

#[path = "../record/bench.rs"]
#[expect(dead_code, reason = "shared with the tests of `record`")]
mod bench;
#[path = "../common/mod.rs"]
mod common;
mod exported;
mod files;
mod generated;
mod modes;
mod named;
mod remote;
#[path = "../common/trial.rs"]
mod trial;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use trial::{Test, TestResult, done, trials};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 13] = [
        (
            "a program that was deleted or replaced while it runs keeps its names",
            files::gone,
        ),
        (
            "two programs in one inode, one after the other, keep their names",
            files::overwritten,
        ),
        (
            "a program run from memory has names, and no note",
            files::in_memory,
        ),
        (
            "without a build id a program is known by its content, wherever it lies",
            files::by_content,
        ),
        ("a program of more than a gigabyte has names", files::large),
        (
            "text that was moved to memory keeps its names, and changed text does not",
            files::moved,
        ),
        (
            "code made at run time has the names of its moment, and is listed",
            generated::generations,
        ),
        (
            "a map of another's, or behind a link, names nothing",
            generated::not_theirs,
        ),
        (
            "code has the names and times that a jitdump tells",
            generated::dumped,
        ),
        (
            "a debuginfod server gives names, lines and programs, once, to whoever asks it",
            remote::fetched,
        ),
        ("the time functions of the vdso have names", modes::vdso),
        (
            "32-bit code is named and listed as such, in processes of both kinds",
            modes::of_32_bits,
        ),
        (
            "an export has the totals, callers and inlined functions of a recording",
            exported::totals,
        ),
    ];
    libtest_mimic::run(&arguments, trials(tests)).exit_code()
}
