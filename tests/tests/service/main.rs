//! `vcpid serve` and `vcpid ctl` from outside: configuration, life, epochs, faults, cost.
//!
//! Needs the release build of both programs, and root (to sample the whole machine, and for file
//! systems of its own); all of it runs on the software clock. The service manager is a socket of
//! the test's.

mod bench;
mod clock;
#[path = "../common/mod.rs"]
mod common;
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
#[path = "../common/trial.rs"]
mod trial;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use trial::{Test, TestResult, done, trials};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: Vec<(&str, Test)> = vec![
        (
            "the default configuration is printed, and good",
            configuration::default_file,
        ),
        (
            "a wrong configuration is refused with its line",
            configuration::wrong,
        ),
        (
            "a configuration whose places are wrong is said to be",
            configuration::wrong_places,
        ),
        (
            "a place where no socket can be is refused",
            configuration::wrong_sockets,
        ),
        (
            "a place where others could put a socket is refused",
            configuration::exposed_sockets,
        ),
        (
            "a configuration is judged for programs, too",
            configuration::as_json,
        ),
        (
            "who may not sample the machine is told what to do",
            configuration::as_nobody,
        ),
        (
            "another's directory is refused",
            configuration::refused_directories,
        ),
        (
            "it is ready, alive, and ends at SIGTERM with all saved",
            life::whole,
        ),
        ("what it writes is closed to others", life::closed_to_others),
        (
            "rights that change under it are put right or said",
            life::changed_rights,
        ),
        (
            "a second service in the directory is refused",
            life::one_at_a_time,
        ),
        (
            "a socket that was removed is made anew",
            life::removed_socket,
        ),
        (
            "a socket of the manager's that was removed is a trouble",
            life::removed_socket_of_the_manager,
        ),
        ("a signal has the configuration read again", life::reload),
        (
            "processes are told apart only if configured",
            life::per_process,
        ),
        (
            "ten thousand processes come and go in bounded memory",
            life::many_processes,
        ),
        (
            "each start is an epoch in a file of its own",
            epochs::starts,
        ),
        ("readers are told which epochs there are", readers::epochs),
        ("old epochs go, the newest stay", epochs::age),
        ("the oldest epochs go when all are too large", epochs::size),
        (
            "a foreign, a newer, an older and a damaged database are moved aside",
            epochs::moved_aside,
        ),
        (
            "a database damaged at random harms nothing",
            epochs::damaged_at_random,
        ),
        ("a killed service leaves whole databases", kill::rounds),
        ("earlier epochs are rolled up", rollups::earlier_epochs),
        (
            "a full disk harms no roll-up, and it goes on when there is room",
            rollups::full_disk,
        ),
        (
            "a full disk is said once, and nothing is lost when it has room again",
            faults::full_disk,
        ),
        (
            "readers of a service with a full disk are told what to do",
            faults::full_disk_for_readers,
        ),
        (
            "a disk that takes next to nothing keeps neither status nor end waiting",
            slow::disk,
        ),
        (
            "a read-only disk is said once, and used when it is writable",
            faults::read_only,
        ),
        (
            "a database that vanishes gives way to a new epoch",
            faults::vanished,
        ),
        (
            "the locks of its own database are kept",
            faults::locks_are_kept,
        ),
        (
            "a running database that is damaged is moved aside",
            faults::damaged_while_running,
        ),
        (
            "a running database that is given another schema is moved aside",
            faults::other_schema_while_running,
        ),
        ("a clock that is set begins a new epoch", clock::set),
        (
            "a processor that comes and goes begins a new epoch",
            processors::listed,
        ),
        (
            "without the right to use BPF it goes on with what remains",
            faults::no_bpf,
        ),
        (
            "without the clock that is configured it takes another",
            faults::no_clock,
        ),
        (
            "the governor lowers the rate, and it is recorded",
            cost::lowered,
        ),
        ("what readers cost is counted apart", cost::readers),
        (
            "long windows, and what the handler takes for them",
            cost::windows,
        ),
        (
            "samples that are lost for want of processor time are a trouble",
            cost::starved,
        ),
        (
            "beside many busy programs few samples are lost",
            crowded::beside_many,
        ),
        (
            "ctl: status in three forms, flush, epoch, reload",
            requests::all,
        ),
        ("ctl without a service says so", requests::no_service),
        (
            "a stopped service is waited for, which is said",
            requests::stopped_service,
        ),
        (
            "ctl has only the status for monitors",
            requests::only_the_status_for_monitors,
        ),
    ];
    // It takes a processor away from all programs, so it runs when the others have ended.
    let alone: Vec<(&str, Test)> = vec![(
        "an unplugged processor is done without, and sampled when it is back",
        processors::unplugged,
    )];
    let failed =
        [tests, alone].map(|tests| libtest_mimic::run(&arguments, trials(tests)).has_failed());
    ExitCode::from(if failed.contains(&true) { 101 } else { 0 })
}
