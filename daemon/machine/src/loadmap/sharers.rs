//! Who else uses the memory of a process.

use sampler::{Pid, clock_now, share_memory};

use crate::system::procfs;

/// Looks through all processes for those that use the memory of one. With thousands of them a look
/// takes milliseconds: it is taken for one part in [`PAUSE`] of the time at most.
#[derive(Debug, Default)]
pub(super) struct Sharers {
    /// When the next look may begin.
    next: u64,
}

/// How many times as long as the last look took nobody is looked at again.
const PAUSE: u64 = 100;

impl Sharers {
    /// Whether another process uses this one's memory, and the times before and behind the look.
    /// None: not looked at, since the last look is not long ago, or the kernel does not tell.
    pub(super) fn look(&mut self, pid: Pid) -> Option<(bool, u64, u64)> {
        let before = clock_now();
        if before < self.next {
            return None;
        }
        let found = are_there(pid);
        let behind = clock_now();
        self.next = behind + PAUSE * (behind - before);
        Some((found?, before, behind))
    }
}

/// None: the process is gone, or the kernel does not tell.
fn are_there(pid: Pid) -> Option<bool> {
    share_memory(pid, pid).ok()?;
    // Others come and go. Who may not be looked at is another user's: whoever shares memory with it
    // had the privilege to become that.
    let others = procfs::all_pids().into_iter().filter(|other| *other != pid);
    let found = others
        .filter_map(|other| share_memory(pid, other).ok())
        .any(|is_shared| is_shared);
    // If it has gone meanwhile, none was compared with it.
    share_memory(pid, pid).ok()?;
    Some(found)
}
