//! A thread of this process that comes by one instruction all the time, to be stopped there.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use addresses::ProcessAddress;

use crate::{Miss, Tid};

/// What the thread calls again and again; a call costs nothing else.
#[inline(never)]
fn turn(number: u64) -> u64 {
    black_box(number).wrapping_add(1)
}

/// Has a thread turn while `stop` stops it: that gets the thread, and the address of the function
/// that it calls.
///
/// # Errors
/// Those of `stop`, or that there is no thread.
pub(crate) fn with_turning<T>(
    stop: impl FnOnce(Tid, ProcessAddress) -> Result<T, Miss>,
) -> Result<T, Miss> {
    let ends = AtomicBool::new(false);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
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
        let address = turn as fn(u64) -> u64 as usize as u64;
        let stopped = tid.and_then(|tid| stop(Tid(tid), ProcessAddress(address)));
        ends.store(true, Ordering::Relaxed);
        stopped
    })
}
