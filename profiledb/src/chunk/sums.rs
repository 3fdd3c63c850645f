//! What the interrupts of a chunk add up to.

use super::head::{Ids, Sums, Unpacked, front, unpack};
use super::{Bad, ChunkKind, ChunkPlace, address_in, later};
use crate::join::join_equal;

/// What interrupts of a chunk add up to.
pub(crate) struct CyclesSum {
    /// How many rows the chunk has.
    pub(crate) rows: usize,
    /// The rows of their processes.
    pub(crate) processes: Vec<i64>,
    /// Interrupts.
    pub(crate) samples: u64,
    /// What they stand for, in the epoch's unit.
    pub(crate) weight: u64,
}

impl CyclesSum {
    /// Of none of a chunk's interrupts yet.
    pub(super) fn of(unpacked: &Unpacked) -> Self {
        Self::new(&unpacked.ids, unpacked.rows, (0, 0))
    }

    fn new(ids: &Ids, rows: usize, (samples, weight): Sums) -> Self {
        let processes = ids.processes.iter();
        Self {
            rows,
            processes: processes.map(|(process, _)| *process).collect(),
            samples,
            weight,
        }
    }

    /// Checks that this is what all interrupts of a chunk add up to, where it says that.
    pub(super) fn check(&self, unpacked: &Unpacked) -> Result<(), Bad> {
        match unpacked.sums {
            Some(sums) if sums != (self.samples, self.weight) => {
                Err(Bad("has not the sums that it says"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn add(&mut self, samples: u64, weight: u64) {
        self.samples = self.samples.saturating_add(samples);
        self.weight = self.weight.saturating_add(weight);
    }
}

/// Adds up interrupts without a look at where they are: of most of the chunks of a long time,
/// nothing else is asked. Nearly all have their sums in front.
pub(crate) fn sum_cycles(blob: &[u8]) -> Result<CyclesSum, Bad> {
    let front = front(blob)?;
    if let Some(sums) = front.sums {
        return Ok(CyclesSum::new(&front.ids, front.rows, sums));
    }
    let unpacked = unpack(blob)?;
    let [_, _, _, _, mut counts, _, mut weights, _] = unpacked.columns()?;
    let mut sum = CyclesSum::of(&unpacked);
    for _ in 0..unpacked.rows {
        sum.add(counts.number()?, weights.number()?);
    }
    counts.end()?;
    weights.end()?;
    Ok(sum)
}

/// What interrupts at an instruction add up to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InstructionSum {
    /// Its address.
    pub(crate) address: u64,
    /// Interrupts.
    pub(crate) samples: u64,
    /// What they stand for, in the epoch's unit.
    pub(crate) weight: u64,
}

/// Adds up interrupts by their addresses alone, without a look at where they were called from. The
/// room of `sums` is used again: it has each instruction once then, in the order of addresses.
pub(crate) fn sum_instructions(
    place: ChunkPlace,
    blob: &[u8],
    sums: &mut Vec<InstructionSum>,
) -> Result<CyclesSum, Bad> {
    sums.clear();
    let unpacked = unpack(blob)?;
    let mut all = CyclesSum::of(&unpacked);
    let [mut runs, mut addresses, _, _, mut counts, _, mut weights, _] = unpacked.columns()?;
    let bits = ChunkKind::Cycles.bits();
    let mut left = unpacked.rows;
    for _ in &unpacked.ids.processes {
        let run = runs.count(left)?;
        left -= run;
        let mut offset = 0;
        for index in 0..run {
            let step = addresses.number()?;
            offset = later(bits, offset, step)?;
            let sum = InstructionSum {
                address: address_in(bits, place.bucket, offset),
                samples: counts.number()?,
                weight: weights.number()?,
            };
            all.add(sum.samples, sum.weight);
            // Those of one call site come behind those of another.
            match sums.last_mut() {
                Some(last) if index > 0 && step == 0 => last.add(sum),
                _ => sums.push(sum),
            }
        }
    }
    if left > 0 {
        return Err(Bad("has not the rows that it says"));
    }
    for column in [runs, addresses, counts, weights] {
        column.end()?;
    }
    all.check(&unpacked)?;
    if unpacked.ids.processes.len() > 1 {
        join_equal(sums, |sum| sum.address, |sum, more| sum.add(*more));
    }
    Ok(all)
}

impl InstructionSum {
    fn add(&mut self, more: InstructionSum) {
        self.samples = self.samples.saturating_add(more.samples);
        self.weight = self.weight.saturating_add(more.weight);
    }
}
