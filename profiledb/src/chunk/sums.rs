//! What the interrupts of a chunk add up to.

use super::head::{Unpacked, unpack};
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
        let processes = unpacked.ids.processes.iter();
        Self {
            rows: unpacked.rows,
            processes: processes.map(|(process, _)| *process).collect(),
            samples: 0,
            weight: 0,
        }
    }

    pub(super) fn add(&mut self, samples: u64, weight: u64) {
        self.samples = self.samples.saturating_add(samples);
        self.weight = self.weight.saturating_add(weight);
    }
}

/// Adds up interrupts without a look at where they are: of most of the chunks of a long time,
/// nothing else is asked.
pub(crate) fn sum_cycles(blob: &[u8]) -> Result<CyclesSum, Bad> {
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
