//! Whether the processors are still those that are sampled.

use std::mem;

use sampler::Running;

/// The processors of a collection of the whole machine. One that goes offline takes its events with
/// it, and comes back without them.
pub struct Processors {
    sampled: Vec<u32>,
    /// For how long the events of each were enabled at the last look, ns.
    enabled: Vec<u64>,
}

impl Processors {
    /// Those that were online when [`sampler::Target::System`] was opened.
    pub fn new(sampled: Vec<u32>) -> Self {
        Self {
            sampled,
            enabled: Vec::new(),
        }
    }

    /// What has changed, if anything has: they are looked at every second or so, since what was
    /// enabled must have been for longer than at the last look.
    pub fn look(&mut self, running: &Running) -> Option<&'static str> {
        let before = mem::replace(&mut self.enabled, running.enabled_times());
        match sampler::online_cpus() {
            Ok(online) if online != self.sampled => Some("other processors are online"),
            _ if has_stopped(&before, &self.enabled) => Some("a processor was offline"),
            _ => None,
        }
    }
}

/// Whether events that were enabled for so long before and are for so long now have gone, though
/// their processor is there. Where the kernel does not tell, it cannot be said.
fn has_stopped(before: &[u64], now: &[u64]) -> bool {
    before
        .iter()
        .zip(now)
        .any(|(before, now)| *now != 0 && before == now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time that stands still for one processor is noticed, but neither at the first look nor where
    /// it cannot be known.
    #[test]
    fn stopped() {
        assert!(!has_stopped(&[], &[5, 7]));
        assert!(!has_stopped(&[5, 7], &[6, 8]));
        assert!(has_stopped(&[5, 7], &[6, 7]));
        assert!(!has_stopped(&[0, 0], &[0, 0]));
    }
}
