//! Interrupts that are told apart by their instruction alone. A service's weeks have them over and
//! over at the same instructions: those of a stretch of code are added up side by side, in the
//! order of addresses, and are looked for in the profile once each.

use std::collections::BTreeMap;
use std::thread;

use crate::join::join_equal;

/// The interrupts so far, by image and stretch of its addresses.
#[derive(Default)]
pub(super) struct Instructions {
    stretches: BTreeMap<(usize, u64), Stretch>,
    /// Instructions of all runs.
    len: usize,
    /// How many there were when each was there once.
    distinct: usize,
}

/// What rows say of interrupts beside where they are, and how many: that of the first.
#[derive(Clone, Copy)]
pub(super) struct First {
    pub(super) process: usize,
    pub(super) subject: usize,
    /// As [`CyclesRow::time`](crate::CyclesRow::time).
    pub(super) time: (i64, i64),
}

/// The interrupts at an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct At {
    pub(super) address: u64,
    pub(super) samples: u64,
    pub(super) cycles: f64,
}

/// The interrupts of a stretch of code.
struct Stretch {
    first: First,
    /// Each in the order of addresses, and with each of these once.
    runs: Vec<Vec<At>>,
}

impl Instructions {
    /// As many are left as they came: some 24 MiB.
    const FEW: usize = 1 << 20;
    /// Threads that add up.
    const THREADS: usize = 2;

    /// Adds interrupts of a stretch of an image's code, in the order of addresses.
    pub(super) fn add(&mut self, place: (usize, u64), first: First, run: Vec<At>) {
        let known = self.stretches.entry(place).or_insert_with(|| Stretch {
            first,
            runs: Vec::new(),
        });
        self.len += run.len();
        known.runs.push(run);
        if self.len > Self::FEW + 2 * self.distinct {
            self.settle();
        }
    }

    /// Adds all of another file, whose images, processes and access tags have other indices here.
    pub(super) fn absorb(
        &mut self,
        other: Instructions,
        image: impl Fn(usize) -> usize,
        first: impl Fn(First) -> First,
    ) {
        for ((of, stretch), more) in other.stretches {
            for run in more.runs {
                self.add((image(of), stretch), first(more.first), run);
            }
        }
    }

    /// Has each instruction once; how many there are.
    pub(super) fn settle(&mut self) -> usize {
        let mut stretches: Vec<&mut Stretch> = self.stretches.values_mut().collect();
        let part = stretches.len().div_ceil(Self::THREADS).max(1);
        thread::scope(|scope| {
            for some in stretches.chunks_mut(part) {
                scope.spawn(|| {
                    let mut room = Vec::new();
                    for stretch in some {
                        stretch.join(&mut room);
                    }
                });
            }
        });
        let runs = self.stretches.values().flat_map(|stretch| &stretch.runs);
        self.len = runs.map(Vec::len).sum();
        self.distinct = self.len;
        self.len
    }

    /// Takes those of an image out, each once and in the order of addresses, if they are settled.
    pub(super) fn take(&mut self, image: usize, mut take: impl FnMut(First, At)) {
        let of_image = self.stretches.range_mut((image, 0)..=(image, u64::MAX));
        for (_, stretch) in of_image {
            for at in stretch.runs.drain(..).flatten() {
                take(stretch.first, at);
            }
        }
    }
}

impl Stretch {
    /// Makes one of its runs. The room of `sum` is used again.
    fn join(&mut self, sum: &mut Vec<At>) {
        if self.runs.len() < 2 {
            return;
        }
        sum.clear();
        for run in self.runs.drain(..) {
            sum.extend(run);
        }
        let key = |at: &At| at.address;
        join_equal(sum, key, |sum, more| {
            sum.samples = sum.samples.saturating_add(more.samples);
            sum.cycles += more.cycles;
        });
        self.runs.push(sum.as_slice().to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever comes together, each instruction has all of its interrupts once.
    #[test]
    fn all_are_counted_once() {
        let first = First {
            process: 0,
            subject: 0,
            time: (0, 1),
        };
        let run = |of: &[u64]| {
            let at = |address: &u64| At {
                address: *address,
                samples: 1,
                cycles: 0.5,
            };
            of.iter().map(at).collect::<Vec<At>>()
        };
        // They are settled before the last of them is there.
        let many: Vec<u64> = (0..Instructions::FEW as u64 / 4).collect();
        let mut sums = Instructions::default();
        for turn in 0..9 {
            let mut of_file = Instructions::default();
            of_file.add((1, 0), first, run(&many));
            of_file.add((1, 1), first, run(&[1 << 20, (1 << 20) + turn + 1]));
            of_file.add((0, 0), first, run(&[7]));
            // Images are the other way round here.
            sums.absorb(of_file, |image| 1 - image, |first| first);
        }
        assert!(sums.len < 9 * many.len());
        assert_eq!(sums.settle(), many.len() + 11);
        let mut of = |image: usize| {
            let mut all = Vec::new();
            sums.take(image, |_, at| all.push(at));
            assert!(all.is_sorted_by_key(|at| at.address));
            let samples: Vec<(u64, u64)> = all.iter().map(|at| (at.address, at.samples)).collect();
            assert!(all.iter().all(|at| at.cycles * 2.0 == at.samples as f64));
            samples
        };
        assert_eq!(of(1), [(7, 9)]);
        let all = of(0);
        let (low, high) = all.split_at(many.len());
        assert!(low.iter().zip(&many).all(|(at, of)| *at == (*of, 9)));
        assert_eq!(high.first(), Some(&(1 << 20, 9)));
        assert_eq!(high.len(), 10);
        assert_eq!(of(0), []);
    }
}
