//! What the interrupts of a chunk add up to.

use super::head::{Front, Sums, open, unpack};
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
    /// Of these of a chunk's interrupts.
    pub(super) fn of(front: &Front, (samples, weight): Sums) -> Self {
        let processes = front.ids.processes.iter();
        Self {
            rows: front.rows,
            processes: processes.map(|(process, _)| *process).collect(),
            samples,
            weight,
        }
    }

    /// How many these are, and what they stand for.
    pub(super) fn sums(&self) -> Sums {
        (self.samples, self.weight)
    }

    pub(super) fn add(&mut self, samples: u64, weight: u64) {
        self.samples = self.samples.saturating_add(samples);
        self.weight = self.weight.saturating_add(weight);
    }
}

/// Adds up interrupts without a look at where they are: of most of the chunks of a long time,
/// nothing else is asked. Nearly all have their sums in front.
pub(crate) fn sum_cycles(blob: &[u8]) -> Result<CyclesSum, Bad> {
    let (front, reader) = open(blob)?;
    if let Some(sums) = front.sums {
        return Ok(CyclesSum::of(&front, sums));
    }
    let unpacked = front.unpack(reader)?;
    let [_, _, _, _, mut counts, _, mut weights, _] = unpacked.columns()?;
    let mut sum = CyclesSum::of(&unpacked.front, (0, 0));
    for _ in 0..unpacked.front.rows {
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
    let mut all = CyclesSum::of(&unpacked.front, (0, 0));
    let [mut runs, mut addresses, _, _, mut counts, _, mut weights, _] = unpacked.columns()?;
    let bits = ChunkKind::Cycles.bits();
    let mut left = unpacked.front.rows;
    for _ in &unpacked.front.ids.processes {
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
    unpacked.front.check(all.sums())?;
    if unpacked.front.ids.processes.len() > 1 {
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
