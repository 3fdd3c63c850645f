//! Whether threads can be stopped at breakpoints here.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::BpfRefusal;
use crate::{Breakpoints, Miss, Tid};

/// How long the thread may take to come by: the machine may be busy.
const ALLOWED: Duration = Duration::from_secs(2);

/// What a thread runs that is to be stopped.
#[inline(never)]
fn turn(number: u64) -> u64 {
    black_box(number).wrapping_add(1)
}

/// Stops a thread of this process at a breakpoint.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn breakpoints() -> Result<(), BpfRefusal> {
    let ends = AtomicBool::new(false);
    let (sender, receiver) = channel();
    let stopped = thread::scope(|scope| {
        scope.spawn(|| {
            // The other end waits for it.
            let _ = sender.send(nix::unistd::gettid().as_raw().cast_unsigned());
            let mut number = 0;
            while !ends.load(Ordering::Relaxed) {
                number = turn(number);
            }
            number
        });
        let tid = receiver.recv().map_err(|_| Miss::Gone);
        let entry = turn as fn(u64) -> u64 as usize as u64;
        let stopped = tid.and_then(|tid| Breakpoints::stop_own(Tid(tid), entry, ALLOWED));
        ends.store(true, Ordering::Relaxed);
        stopped
    });
    let mend = |miss| match miss {
        Miss::NoRegister => "let the debuggers end that use the processor's debug registers",
        Miss::NoEntry => {
            "use another machine: this processor, or the one that it is made to look like, does \
             not stop there"
        }
        _ => "run as root, or with CAP_PERFMON, on Linux 5.15 or newer",
    };
    stopped.map_err(|miss| BpfRefusal {
        why: miss.meaning().to_owned(),
        mend: mend(miss).to_owned(),
    })
}
