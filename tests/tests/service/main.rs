//! `vcpid serve` and `vcpid ctl` from outside: configuration, life, epochs, faults, cost.
//!
//! Needs the release build of both programs, and root (to sample the whole machine, and for file
//! systems of its own); all of it runs on the software clock. The service manager is a socket of
//! the test's.

mod bench;
mod clock;
mod configuration;
mod cost;
mod crowded;
mod epochs;
mod faults;
mod kill;
mod life;
mod processors;
mod readers;
mod requests;
mod rollups;
mod slow;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use vcpi_tests::harness::{Test, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: Vec<Test> = vec![
        configuration::DEFAULT_FILE,
        configuration::WRONG,
        configuration::WRONG_PLACES,
        configuration::WRONG_SOCKETS,
        configuration::EXPOSED_SOCKETS,
        configuration::AS_JSON,
        configuration::AS_NOBODY,
        configuration::REFUSED_DIRECTORIES,
        life::WHOLE,
        life::CLOSED_TO_OTHERS,
        life::CHANGED_RIGHTS,
        life::ONE_AT_A_TIME,
        life::REMOVED_SOCKET,
        life::REMOVED_SOCKET_OF_THE_MANAGER,
        life::RELOAD,
        life::PER_PROCESS,
        life::MANY_PROCESSES,
        epochs::STARTS,
        readers::EPOCHS,
        epochs::AGE,
        epochs::SIZE,
        epochs::MOVED_ASIDE,
        epochs::DAMAGED_AT_RANDOM,
        kill::ROUNDS,
        rollups::EARLIER_EPOCHS,
        rollups::FULL_DISK,
        faults::FULL_DISK,
        faults::FULL_DISK_FOR_READERS,
        slow::DISK,
        faults::READ_ONLY,
        faults::VANISHED,
        faults::LOCKS_ARE_KEPT,
        faults::DAMAGED_WHILE_RUNNING,
        faults::OTHER_SCHEMA_WHILE_RUNNING,
        clock::SET,
        processors::LISTED,
        faults::NO_BPF,
        faults::NO_CLOCK,
        cost::LOWERED,
        cost::READERS,
        cost::WINDOWS,
        cost::STARVED,
        crowded::BESIDE_MANY,
        requests::ALL,
        requests::NO_SERVICE,
        requests::STOPPED_SERVICE,
        requests::ONLY_THE_STATUS_FOR_MONITORS,
    ];
    // It takes a processor away from all programs, so it runs when the others have ended.
    let alone = vec![processors::UNPLUGGED];
    let failed = [tests, alone].map(|tests| run(&arguments, tests).has_failed());
    ExitCode::from(if failed.contains(&true) { 101 } else { 0 })
}
