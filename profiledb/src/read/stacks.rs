//! Call stacks into the calling-context tree of a profile.

use super::chunks::ChunkOfFile;
use super::file::File;
use super::referred::Referred;
use super::taken::ROW;
use crate::Error;
use crate::chunk::{Bad, StackOf};
use crate::profile::{StackNode, StackRow};

impl File<'_> {
    /// Takes the call stacks of a chunk. Where places are asked for, a stack counts that has any
    /// frame there.
    pub(super) fn take_stacks(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        rows: &[StackOf],
    ) -> Result<(), Error> {
        if rows.iter().any(|row| row.leaf().0 != chunk.image) {
            let bad = Bad("has a call stack of another image");
            return Err(self.bad_chunk(chunk.id, bad));
        }
        if chunk.only_places {
            return self.pass_over_stacks(referred, chunk, rows);
        }
        let frames: usize = rows.iter().map(|row| row.path.len()).sum();
        self.charge_unpacked(rows.len() * ROW + frames * size_of::<StackNode>())?;
        for row in rows {
            self.take_stack(referred, chunk, row)?;
        }
        Ok(())
    }

    /// Notes where the frames of call stacks are.
    fn pass_over_stacks(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        rows: &[StackOf],
    ) -> Result<(), Error> {
        for row in rows {
            if !self.takes(referred, chunk, row.process)? {
                continue;
            }
            for frame in row.path.iter() {
                if referred.is_place(*frame) {
                    let image = self.packed_image(referred, frame.0)?;
                    self.builder.pass_over(image, frame.1);
                }
            }
        }
        Ok(())
    }

    fn take_stack(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        row: &StackOf,
    ) -> Result<(), Error> {
        let is_asked =
            self.filter.places.is_none() || row.path.iter().any(|frame| referred.is_place(*frame));
        if !is_asked {
            return Ok(());
        }
        let at = (row.process, row.leaf().1, None);
        let Some((process, subject, ..)) = self.at(referred, chunk, at)? else {
            return Ok(());
        };
        let mut node = None;
        for frame in row.path.iter() {
            let pc = self.packed_pc(referred, *frame)?;
            node = Some(self.builder.node(node, pc));
        }
        if let Some(node) = node {
            self.builder.profile.stacks.push(StackRow {
                process,
                subject,
                node,
                end: row.end,
                samples: row.samples,
                cycles: row.weight as f64 * chunk.cycles_per_unit,
                time: chunk.place.time,
            });
        }
        Ok(())
    }
}

/// Makes one row of all flushes' rows of a path, or of those of each flush.
pub(super) fn add_up(rows: &mut Vec<StackRow>, by_flush: bool) {
    let key = |row: &StackRow| {
        let time = by_flush.then_some(row.time);
        (row.process, row.subject, row.node, row.end, time)
    };
    rows.sort_by_key(key);
    rows.dedup_by(|more, sum| {
        let is_same = key(more) == key(sum);
        if is_same {
            sum.samples = sum.samples.saturating_add(more.samples);
            sum.cycles += more.cycles;
        }
        is_same
    });
}
