//! What of the last minute's samples was lost, and whether that is so much that it is a trouble.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use counters::{Cause, Unit};

use consumers::events::lost::Lost;

/// The name of the trouble.
pub(super) const LOSSES: &str = "keeping what is sampled";

/// So much time is looked at.
const SPREAD: Duration = Duration::from_secs(60);

/// The share of samples from which on a loss is a trouble, and the one below which it is over.
const LARGE: f64 = 0.05;
const OVER: f64 = 0.025;

/// Of fewer samples nothing is concluded: on an idle machine a few are soon a large part.
const ENOUGH: u64 = 200;

/// What happens where a cause is a trouble of its own, and what helps a service; of the others
/// another trouble tells.
fn words(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Time => Some(
            "they come faster than they are taken, since vcpid gets too little processor time \
             (Nice= and CPUWeight= of its unit say how much) or waits for a slow disk; a lower \
             `rate` under [sampling] helps in both cases",
        ),
        Cause::Tables => Some(
            "there is no room in the tables, because saving fails or takes too long, or because \
             `memory_mib` under [collection] is too little",
        ),
        Cause::Processes => Some(
            "their processes end before what their values need is looked at, as the engine ring \
             must; the engine bpf needs no such look",
        ),
        Cause::Mappings => Some(
            "nothing is known to be mapped where they are taken: the clock timer does not always \
             see where, and `programs_mib` under [collection] limits what is known of programs",
        ),
        Cause::Saving | Cause::Input | Cause::Defect => None,
    }
}

/// What has been counted since sampling began, up to a moment.
#[derive(Clone, Debug)]
pub(super) struct CountedSoFar {
    pub(super) at: Instant,
    /// Samples that were taken, whatever became of them, and values that were recorded.
    pub(super) samples: u64,
    pub(super) values: u64,
    /// Of the samples those that found no room in the kernel.
    pub(super) without_room: u64,
    pub(super) lost: Lost,
}

impl CountedSoFar {
    /// What was lost by a cause, and of how much: samples, and values.
    fn losses(&self, cause: Cause) -> [(u64, u64); 2] {
        let lost = |units: &[Unit]| -> u64 {
            let of_cause = self.lost.each().filter(|(loss, _)| loss.cause() == cause);
            let counted = of_cause.filter(|(loss, _)| units.contains(&loss.unit()));
            counted.map(|(_, count)| count).sum()
        };
        let samples = match cause {
            // What the kernel counts is known sooner than what the collector is told.
            Cause::Time => self.without_room,
            _ => lost(&[Unit::Samples, Unit::Windows]),
        };
        let values = lost(&[Unit::Values]);
        [(samples, self.samples), (values, self.values + values)]
    }

    /// The share that a cause took since an earlier moment.
    fn share_since(&self, before: &CountedSoFar, cause: Cause) -> f64 {
        let pairs = self.losses(cause).into_iter().zip(before.losses(cause));
        let shares = pairs.map(|((lost, of), (lost_before, of_before))| {
            let of = of.saturating_sub(of_before);
            let lost = lost.saturating_sub(lost_before);
            match of >= ENOUGH {
                true => lost as f64 / of as f64,
                false => 0.0,
            }
        });
        shares.fold(0.0, f64::max)
    }
}

/// The losses of the last minute.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The looks of that time, the oldest from its beginning.
    looks: VecDeque<CountedSoFar>,
    shares: [f64; Cause::ALL.len()],
    large: [bool; Cause::ALL.len()],
}

impl Losses {
    /// Counts begin anew. What was large stays so until the next look.
    pub(super) fn restart(&mut self) {
        self.looks.clear();
    }

    /// Takes a look. What was lost before the first one is the start's.
    pub(super) fn look(&mut self, now: CountedSoFar) {
        while let Some(second) = self.looks.get(1)
            && now.at.saturating_duration_since(second.at) >= SPREAD
        {
            self.looks.pop_front();
        }
        if let Some(before) = self.looks.front() {
            let entries = self.shares.iter_mut().zip(&mut self.large);
            for (cause, (share, large)) in Cause::ALL.into_iter().zip(entries) {
                if words(cause).is_none() {
                    continue;
                }
                *share = now.share_since(before, cause);
                *large = *share >= if *large { OVER } else { LARGE };
            }
        }
        self.looks.push_back(now);
    }

    /// Why so much is lost, if it is; the same words for as long as it lasts.
    pub(super) fn trouble(&self) -> Option<String> {
        let large = Cause::ALL.into_iter().zip(self.large);
        let large = large.filter(|(_, large)| *large);
        let words: Vec<_> = large.filter_map(|(cause, _)| words(cause)).collect();
        (!words.is_empty()).then(|| {
            format!(
                "many samples, or their values, are lost: {}",
                words.join("; and ")
            )
        })
    }

    /// The greatest share that one cause took of late; `None` before the second look.
    pub(super) fn share(&self) -> Option<f64> {
        (self.looks.len() > 1).then(|| self.shares.iter().copied().fold(0.0, f64::max))
    }

    /// The time that this is about.
    pub(super) fn time(&self) -> Duration {
        match (self.looks.front(), self.looks.back()) {
            (Some(first), Some(last)) => last.at.saturating_duration_since(first.at),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use counters::Loss;

    use super::*;

    /// Looks every five seconds, with a thousand samples between them, of which so many are lost.
    struct Machine {
        now: CountedSoFar,
        losses: Losses,
    }

    impl Machine {
        fn new() -> Self {
            let now = CountedSoFar {
                at: Instant::now(),
                samples: 0,
                values: 0,
                without_room: 0,
                lost: Lost::default(),
            };
            let losses = Losses::default();
            Self { now, losses }
        }

        fn look(&mut self, samples: u64, without_room: u64, gone: u64) -> Option<String> {
            self.now.at += Duration::from_secs(5);
            self.now.samples += samples;
            self.now.without_room += without_room;
            self.now.lost.count(Loss::WindowsOfGoneProcesses, gone);
            self.losses.look(self.now.clone());
            self.losses.trouble()
        }
    }

    /// A large loss is a trouble in the same words for as long as it lasts, a minute at most after
    /// the last of it, and a small one is none.
    #[test]
    fn begins_and_ends() {
        let mut machine = Machine::new();
        for _ in 0..30 {
            assert_eq!(machine.look(1000, 40, 0), None);
        }
        let said = machine.look(1000, 900, 0).unwrap();
        assert!(said.contains("Nice="), "{said}");
        for _ in 0..11 {
            assert_eq!(machine.look(1000, 0, 0).as_ref(), Some(&said));
        }
        assert_eq!(machine.look(1000, 0, 0), None);
        assert_eq!(machine.losses.share(), Some(0.0));
        assert_eq!(machine.losses.time(), SPREAD);
    }

    /// What the start lost is not held against what follows, nor are a few of a few samples, and
    /// two causes are both named.
    #[test]
    fn what_counts() {
        let mut machine = Machine::new();
        assert_eq!(machine.look(1000, 1000, 0), None);
        assert_eq!(machine.losses.share(), None);
        assert_eq!(machine.look(100, 50, 0), None);
        let said = machine.look(1000, 100, 100).unwrap();
        assert!(said.contains("Nice=") && said.contains("bpf"), "{said}");
        machine.losses.restart();
        assert_eq!(machine.look(0, 0, 0), Some(said));
        assert_eq!(machine.look(1000, 0, 0), None);
    }

    /// Values that find no room are a part of values.
    #[test]
    fn of_values() {
        let mut machine = Machine::new();
        machine.look(0, 0, 0);
        machine.now.values += 9000;
        machine.now.lost.count(Loss::TableFullValues, 400);
        assert_eq!(machine.look(1000, 0, 0), None);
        machine.now.lost.count(Loss::TableFullValues, 1000);
        let said = machine.look(1000, 0, 0).unwrap();
        assert!(said.contains("memory_mib"), "{said}");
    }
}
