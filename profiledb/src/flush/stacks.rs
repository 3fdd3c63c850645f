//! Call stacks of a flush.

use super::Flush;
use crate::chunk::{MOST_FRAMES, StackOf};
use crate::writer::{PcRowId, ProcessRowId, SubjectRowId};
use crate::{Error, StackEnd};

impl Flush<'_> {
    /// Adds samples of a call stack, and what they stand for in the epoch's unit. The frames come
    /// innermost first: the interrupted instruction, then the calls that led there.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no frame, and for more than 128; [`Error::StaleId`], and those of the
    /// database.
    pub fn stack(
        &mut self,
        process: ProcessRowId,
        subject: SubjectRowId,
        frames: &[PcRowId],
        end: StackEnd,
        samples: u64,
        weight: u64,
    ) -> Result<(), Error> {
        let Some(leaf) = frames.first().filter(|_| frames.len() <= MOST_FRAMES) else {
            let what = format!("a call stack of {} frames", frames.len());
            return Err(Error::Invalid { what });
        };
        for frame in frames {
            self.check_all(process, subject, *frame, None)?;
        }
        self.check_failed()?;
        let path = frames.iter().rev().map(|pc| (pc.image, pc.address));
        let row = StackOf {
            process: process.row,
            path: path.collect(),
            end,
            samples,
            weight,
        };
        self.stage.stacks.push((leaf.image, subject.row, row));
        Ok(())
    }
}
