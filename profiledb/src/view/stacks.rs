//! Call stacks into a view.

use super::Stop;
use super::chunks::ChunkOfSource;
use super::copy::Copy;
use crate::StackEnd;
use crate::chunk::{Bad, FrameOf, StackOf, decode_stacks, encode_stacks};

impl Copy<'_> {
    /// The call stacks of a chunk that are for this view, under its ids. A stack is cut at the
    /// innermost frame that the viewer may not see.
    pub(super) fn stacks(&mut self, chunk: &ChunkOfSource, data: &[u8]) -> Result<(), Stop> {
        let rows = decode_stacks(data).map_err(|bad| self.bad_chunk(chunk.id, bad))?;
        self.view.look_behind(rows.len())?;
        let mut shown: Vec<StackOf> = Vec::with_capacity(rows.len());
        for row in rows {
            if row.leaf().0 != chunk.image {
                let bad = Bad("has a call stack of another image");
                return Err(self.bad_chunk(chunk.id, bad));
            }
            if !self.wants_stack(&row) {
                continue;
            }
            let mut path: Vec<FrameOf> = Vec::with_capacity(row.path.len());
            let mut end = row.end;
            // From the innermost on: what is behind a hidden frame is not looked at.
            for &(image, address) in row.path.iter().rev() {
                let Some(frame) = self.put_other(image, address)? else {
                    end = StackEnd::Hidden;
                    break;
                };
                path.push(frame);
            }
            if path.is_empty() {
                continue;
            }
            path.reverse();
            let process = self.put_process(row.process, chunk.flush)?;
            shown.push(StackOf {
                process,
                path: path.into(),
                end,
                ..row
            });
        }
        self.put_chunks(chunk, shown, encode_stacks)
    }

    /// Whether a call stack is asked for: its process, and any of its frames.
    fn wants_stack(&self, row: &StackOf) -> bool {
        let processes = self.wanted_processes.as_ref();
        let is_asked = |(image, address): &FrameOf| {
            let image = self.images.get(image);
            image.is_some_and(|image| image.wants_all() || image.is_in_range(*address))
        };
        processes.is_none_or(|wanted| wanted.contains(&row.process))
            && row.path.iter().any(is_asked)
    }
}
