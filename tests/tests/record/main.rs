//! `vcpid record` from outside: exit statuses, refusals, signals, faults, and losses.
//!
//! Needs the release build of both programs and root (for the whole machine, a file system of
//! its own, and other users); all of it runs on the software clock.

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod life;
mod machine;
mod rights;
#[path = "../common/trial.rs"]
mod trial;
mod truth;
mod wrong;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use trial::{Test, TestResult, done, trials};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 30] = [
        ("the command's status is vcpid's", life::statuses),
        (
            "a command that does not exist is 127 and leaves no file",
            wrong::no_command,
        ),
        (
            "a file that is no vcpi database is refused untouched",
            wrong::foreign_files,
        ),
        (
            "a raw recording that is there is refused, and no database made",
            wrong::raw_that_is_there,
        ),
        ("a second recording is a second epoch", life::appends),
        (
            "what a killed recording left open the next one ends",
            life::killed,
        ),
        ("SIGINT, SIGTERM and SIGHUP flush, then end", life::signals),
        (
            "a process that exits in the middle ends -p",
            life::attached_process,
        ),
        (
            "descendants are profiled, each under its own name",
            truth::descendants,
        ),
        (
            "the time of short lives is sampled or told to be missing",
            truth::short_lives,
        ),
        (
            "a truncated and a foreign ELF are profiled without harm",
            wrong::broken_elf,
        ),
        (
            "a full disk is said, and is 125 at the end",
            disk::full_disk,
        ),
        (
            "a disk that is full for a while loses nothing",
            disk::full_disk_mended,
        ),
        (
            "an unprivileged user records an own command",
            rights::unprivileged,
        ),
        (
            "without permission the message says what would do",
            rights::no_permission,
        ),
        (
            "a report into a closed pipe ends quietly",
            life::closed_pipe,
        ),
        (
            "the whole machine: every loss is in the status",
            truth::whole_machine,
        ),
        (
            "RELRO, written and remapped pages give no values",
            truth::written_pages,
        ),
        ("hardware cycles count", machine::hardware_cycles),
        ("what looks like an option is no command", wrong::options),
        ("a filter that cannot be is refused", wrong::filters),
        (
            "-a goes on for as long as a command beside it",
            life::beside,
        ),
        (
            "another user's process is refused with what is true",
            rights::another_users_process,
        ),
        (
            "nothing is written where sampling is refused",
            rights::refused,
        ),
        (
            "an exec in a loop attributes each sample to its program",
            truth::exec_loop,
        ),
        ("check says what works, as text and JSON", machine::check),
        (
            "check compares with the processor, by breakpoints or steps",
            machine::check_truth,
        ),
        (
            "the rate is what one percent affords",
            machine::default_rate,
        ),
        (
            "a rate that costs a program much is said to",
            machine::dear_rate,
        ),
        (
            "the recorder does without huge pages, the command does not",
            machine::huge_pages,
        ),
    ];
    libtest_mimic::run(&arguments, trials(tests)).exit_code()
}
