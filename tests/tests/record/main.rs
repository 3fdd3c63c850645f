//! `vcpid record` from outside: exit statuses, refusals, signals, faults, and losses.
//!
//! Needs the release build of both programs; all of it runs on the software clock.

mod bench;
mod disk;
mod life;
mod machine;
mod rights;
mod truth;
mod wrong;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use vcpi_tests::harness::run;

fn main() -> ExitCode {
    let tests = [
        life::STATUSES,
        wrong::NO_COMMAND,
        wrong::FOREIGN_FILES,
        wrong::RAW_THAT_IS_THERE,
        life::APPENDS,
        life::KILLED,
        life::SIGNALS,
        life::ATTACHED_PROCESS,
        truth::DESCENDANTS,
        truth::SHORT_LIVES,
        wrong::BROKEN_ELF,
        disk::FULL_DISK,
        disk::FULL_DISK_MENDED,
        rights::UNPRIVILEGED,
        rights::NO_PERMISSION,
        life::CLOSED_PIPE,
        truth::WHOLE_MACHINE,
        truth::WRITTEN_PAGES,
        machine::HARDWARE_CYCLES,
        wrong::OPTIONS,
        wrong::FILTERS,
        life::BESIDE,
        rights::ANOTHER_USERS_PROCESS,
        rights::REFUSED,
        truth::EXEC_LOOP,
        machine::CHECK,
        machine::CHECK_TRUTH,
        machine::DEFAULT_RATE,
        machine::DEAR_RATE,
        machine::HUGE_PAGES,
    ];
    run(&Arguments::from_args(), tests).exit_code()
}
