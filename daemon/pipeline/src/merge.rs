//! Brings the records of all CPUs into one order of time.
//!
//! A mapping is reported on the CPU where it was made, and a sample taken a moment later in the
//! same process may sit in another CPU's buffer. Each batch says up to which time its CPU has
//! been drained; what is older than the least of these is complete and can be given out.

use std::collections::VecDeque;

use sampler::{Batch, Record};

use machine::system::memory::of_queue;
use machine::system::page_check::{PageCheck, PageEvidence};

/// Records for which a queue keeps its room when it is empty. It grows where a collector was kept
/// waiting.
const USUAL: usize = 4096;

/// Merges per-CPU batches by time. Memory is bounded by how much is pushed before what is complete
/// is taken, and by what the slowest CPU lets the others pile up, which the readers' time-outs
/// limit to a fraction of a second.
#[derive(Debug)]
pub struct Merge {
    cpus: Vec<Cpu>,
    page_check: PageCheck,
}

#[derive(Debug)]
struct Cpu {
    number: u32,
    queue: VecDeque<Merged>,
    drained_to: u64,
}

/// A record, and what was looked up for it: seldom anything.
pub type Merged = (Record, Option<Box<PageEvidence>>);

fn time((record, _): &Merged) -> u64 {
    record.time()
}

fn find(cpus: &mut [Cpu], number: u32) -> Option<&mut Cpu> {
    cpus.iter_mut().find(|cpu| cpu.number == number)
}

impl Merge {
    /// For the CPUs named, all of which must deliver before anything is given out.
    pub fn new(cpus: &[u32]) -> Self {
        let cpu = |&number| Cpu {
            number,
            queue: VecDeque::new(),
            drained_to: 0,
        };
        Self {
            cpus: cpus.iter().map(cpu).collect(),
            page_check: PageCheck::default(),
        }
    }

    /// Takes a batch.
    pub fn push(&mut self, batch: Batch) {
        let own = (batch.cpu, batch.drained_to);
        for (number, drained_to) in batch.others_drained_to.into_iter().chain([own]) {
            if let Some(cpu) = find(&mut self.cpus, number) {
                cpu.drained_to = cpu.drained_to.max(drained_to);
            }
        }
        let Some(cpu) = find(&mut self.cpus, batch.cpu) else {
            return;
        };
        let unsorted = cpu.queue.len();
        let page_check = &mut self.page_check;
        cpu.queue.extend(batch.records.into_iter().map(|record| {
            // The pages of others are not looked at.
            let record = match record {
                Record::Packed(ref packed) if packed.has_stack() && packed.is_not_tried() => {
                    record.unpacked()
                }
                other => other,
            };
            let evidence = match &record {
                Record::Sample(sample) => page_check.look(sample).map(Box::new),
                _ => None,
            };
            (record, evidence)
        }));
        // Of what the kernel's ring and the handler's buffer had at a drain, the one lies behind
        // the other, each all but sorted: an interrupt may write its record between the time stamp
        // and the writing of another. The sort finds such runs and merges them.
        let queue = cpu.queue.make_contiguous();
        let (before, new) = queue.split_at(unsorted);
        if let Some(earliest) = new.iter().map(time).min() {
            let start = before.partition_point(|entry| time(entry) <= earliest);
            let touched = &mut queue[start..];
            if !touched.is_sorted_by_key(time) {
                touched.sort_by_key(time);
            }
        }
    }

    /// Records that wait.
    pub fn waiting(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.queue.len()).sum()
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> usize {
        let one = |(record, _): &Merged| record.captured_bytes();
        let queues = self.cpus.iter().map(|cpu| &cpu.queue);
        queues
            .map(|queue| of_queue(queue) + queue.iter().map(one).sum::<usize>())
            .sum()
    }

    /// All readers ended: give out what is left.
    pub fn finish_all(&mut self) {
        for cpu in &mut self.cpus {
            cpu.drained_to = u64::MAX;
        }
    }

    /// The next record in order of time, if it is certain that no older one can follow.
    pub fn pop(&mut self) -> Option<Merged> {
        let safe = self.cpus.iter().map(|cpu| cpu.drained_to).min()?;
        let oldest = self
            .cpus
            .iter_mut()
            .filter(|cpu| !cpu.queue.is_empty())
            .min_by_key(|cpu| cpu.queue.front().map(time))?;
        if time(oldest.queue.front()?) > safe {
            return None;
        }
        let entry = oldest.queue.pop_front()?;
        if oldest.queue.is_empty() {
            oldest.queue.shrink_to(USUAL);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use sampler::{Pid, Tid};

    use super::*;

    fn batch(cpu: u32, drained_to: u64, times: &[u64]) -> Batch {
        let records = times
            .iter()
            .map(|&time| Record::Throttle { time })
            .collect();
        Batch {
            records,
            ..Batch::empty(cpu, drained_to)
        }
    }

    fn pop_all(merge: &mut Merge) -> Vec<u64> {
        std::iter::from_fn(|| merge.pop().map(|(record, _)| record.time())).collect()
    }

    /// Nothing is given out before every CPU has been drained up to its time.
    #[test]
    fn waits_for_the_slowest() {
        let mut merge = Merge::new(&[0, 1]);
        merge.push(batch(0, 10, &[1, 5, 9]));
        assert!(pop_all(&mut merge).is_empty());
        merge.push(batch(1, 6, &[3]));
        assert_eq!(pop_all(&mut merge), [1, 3, 5]);
        merge.push(batch(1, 20, &[]));
        assert_eq!(pop_all(&mut merge), [9]);
    }

    /// A CPU that has nothing to tell holds up nobody, whoever tells of it.
    #[test]
    fn told_by_others() {
        let mut merge = Merge::new(&[0, 1, 2]);
        let mut of_one = batch(1, 8, &[3, 7]);
        of_one.others_drained_to = vec![(0, 5), (2, 9), (77, 1)];
        merge.push(of_one);
        assert_eq!(pop_all(&mut merge), [3]);
        let mut of_none = batch(2, 9, &[]);
        // What was said once holds.
        of_none.others_drained_to = vec![(1, 2), (0, 8)];
        merge.push(of_none);
        assert_eq!(pop_all(&mut merge), [7]);
    }

    /// Records of one CPU that arrive slightly out of order are put right.
    #[test]
    fn sorts_within_a_cpu() {
        let mut merge = Merge::new(&[4]);
        merge.push(batch(4, 4, &[2, 1, 4]));
        merge.push(batch(4, 9, &[3, 8]));
        assert_eq!(pop_all(&mut merge), [1, 2, 3, 4, 8]);
    }

    /// Two runs of the same time, one behind the other and both behind what waited before, are one;
    /// records of one time keep their order.
    #[test]
    fn merges_runs() {
        let mut merge = Merge::new(&[0]);
        let run = |step: usize| (500..10_000).step_by(step);
        merge.push(batch(0, 0, &[1, 600, 700]));
        merge.push(batch(0, 0, &run(2).chain(run(3)).collect::<Vec<_>>()));
        let comm = |pid| Record::Comm {
            time: 600,
            pid: Pid(pid),
            tid: Tid(pid),
            name: String::new(),
            exec: false,
        };
        let mut late = batch(0, u64::MAX, &[]);
        late.records = vec![comm(1), comm(2)];
        merge.push(late);
        let popped: Vec<Record> =
            std::iter::from_fn(|| merge.pop().map(|(record, _)| record)).collect();
        assert!(popped.is_sorted_by_key(Record::time));
        assert_eq!(popped.len(), 3 + run(2).count() + run(3).count() + 2);
        let comms: Vec<&Record> = popped
            .iter()
            .filter(|record| matches!(record, Record::Comm { .. }))
            .collect();
        assert_eq!(comms, [&comm(1), &comm(2)]);
    }

    /// At the end everything comes out, whatever the marks said.
    #[test]
    fn finish_gives_out_the_rest() {
        let mut merge = Merge::new(&[0, 1, 2]);
        merge.push(batch(2, 0, &[7]));
        merge.push(batch(0, 0, &[6]));
        merge.finish_all();
        assert_eq!(pop_all(&mut merge), [6, 7]);
    }
}
