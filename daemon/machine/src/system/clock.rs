//! The wall clock, beside the clock of samples.

use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time in nanoseconds of the Unix epoch.
pub fn wall_now() -> i64 {
    since_epoch(SystemTime::now())
}

/// What the wall clock would have shown at a time of the samples' clock, by what both show now: it
/// may have been set since.
pub fn wall_at(time: u64) -> i64 {
    let ago = sampler::clock_now().saturating_sub(time);
    wall_now().saturating_sub_unsigned(ago)
}

/// Nanoseconds of the Unix epoch; 0 for what was before it.
pub(crate) fn since_epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}
