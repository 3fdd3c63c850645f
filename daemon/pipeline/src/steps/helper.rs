//! `vcpid __step`: the process that steps threads, and does nothing else.
//!
//! Who dies between a step and its end takes the stepped program along ([`sampler::Stepper`]). So
//! this is no thread of the collector, whose death it outlives: it sees that nobody asks any more
//! only when no thread stands. Besides, who waits for children would be told of stops of threads
//! that the same process traces, and take them for ends.

use std::fs;
use std::io::{stdin, stdout};

use nix::sys::prctl;
use sampler::{Hitch, Stepper, Visit};

use super::Error;
use super::plan::Plan;
use super::wire::{self, Ask};

/// Answers what it is asked, until it is asked no more.
///
/// # Errors
/// This process cannot keep signals from stepping, or cannot read what it is asked.
pub fn run() -> Result<(), Error> {
    let stepper = Stepper::new().map_err(Error::Signals)?;
    // Who kills collectors by their name, or for want of memory, is not to meet this one. Where
    // that is not allowed, it is as it is.
    let _ = prctl::set_name(c"stepping");
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    // Who is looked at stands meanwhile.
    let _ = sampler::hasten();
    let (mut asked, mut answers) = (stdin().lock(), stdout().lock());
    while let Some(Ask { pid, tid }) = wire::read(&mut asked).map_err(Error::Requests)? {
        let mut plan = Plan::default();
        let visit: Result<Visit, Hitch> = stepper.visit(pid, tid, &mut |moment| plan.next(moment));
        if wire::write(&mut answers, &visit).is_err() {
            // Nobody wants to know.
            break;
        }
    }
    Ok(())
}
