//! Who may see what: real processes under root and two users, the service watching them, and
//! readers under the same users and others.
//!
//! Needs the release build of both programs, root, the engine `bpf`, gcc, setcap and setpriv.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod forged;
mod newest;
mod people;
mod reader;
mod secrets;
mod service;
mod sight;

/// Users who need no entry anywhere.
pub(crate) const ALICE: u32 = 64_001;
/// As above.
pub(crate) const BOB: u32 = 64_002;

fn main() -> ExitCode {
    // As another user: see `reader`.
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(reader::AS_READER) {
        return reader::run(words);
    }
    let mut arguments = Arguments::from_args();
    // One at a time: each has a service that samples the machine.
    arguments.test_threads.get_or_insert(1);
    let missing = missing();
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        let missing = missing.clone();
        Trial::ignorable_test(name, move || match missing {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => test().map(|()| Completion::Completed),
        })
    };
    let tests = vec![
        trial(
            "each user sees what was theirs alone",
            sight::each_their_own,
        ),
        trial(
            "readers see what no flush has saved, each what is theirs",
            newest::before_the_flush,
        ),
        trial(
            "samples of the engine ring are for the privileged",
            sight::of_ring,
        ),
        trial("keys of those who keep them are in no file", secrets::keys),
        trial("forged requests get nothing more", forged::requests),
        trial(
            "a connection shows what its maker may see, whoever holds it",
            forged::handed_over,
        ),
        trial("the databases are closed to all others", forged::files),
        trial("500 readers at once are all served", crowd::five_hundred),
        trial(
            "slow, silent and malformed readers hinder nobody",
            crowd::bad_company,
        ),
        trial(
            "users who ask without end have nobody sampled less",
            crowd::tireless,
        ),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// What is missing, if anything is.
fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    for (program, argument) in [
        ("gcc", "--version"),
        ("setpriv", "--version"),
        ("setcap", "-h"),
    ] {
        if Command::new(program).arg(argument).output().is_err() {
            return Some(format!("needs {program}"));
        }
    }
    service::missing()
}
