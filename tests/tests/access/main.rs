//! Who may see what: real processes under root and two users, the service watching them, and
//! readers under the same users and others.
//!
//! Needs the release build of both programs, root, the engine `bpf`, gcc, setcap and setpriv.

use std::process::ExitCode;

use vcpi_tests::harness::{one_at_a_time, run};

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
    let tests = [
        sight::EACH_THEIR_OWN,
        newest::BEFORE_THE_FLUSH,
        sight::OF_RING,
        secrets::KEYS,
        forged::REQUESTS,
        forged::HANDED_OVER,
        forged::FILES,
        crowd::FIVE_HUNDRED,
        crowd::BAD_COMPANY,
        crowd::TIRELESS,
    ];
    // One at a time: each has a service that samples the machine.
    run(&one_at_a_time(), tests).exit_code()
}
