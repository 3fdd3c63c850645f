//! The wall clock, beside the clock of samples.

use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time in nanoseconds of the Unix epoch.
pub fn wall_now() -> i64 {
    since_epoch(SystemTime::now())
}

/// What both clocks showed at one time.
#[derive(Clone, Copy, Debug)]
pub struct BothClocks {
    samples: u64,
    wall: i64,
}

impl BothClocks {
    /// What they show now.
    pub fn now() -> Self {
        Self {
            samples: sampler::clock_now(),
            wall: wall_now(),
        }
    }

    /// What the wall clock would have shown, in nanoseconds of the Unix epoch, at an earlier time
    /// of the samples' clock: it may have been set since.
    pub fn wall_at(&self, time: u64) -> i64 {
        let ago = self.samples.saturating_sub(time);
        self.wall.saturating_sub_unsigned(ago)
    }
}

/// Nanoseconds of the Unix epoch; 0 for what was before it.
pub(crate) fn since_epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}
