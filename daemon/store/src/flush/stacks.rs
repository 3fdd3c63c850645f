//! Call stacks into the database.

use profiledb::{Error, Flush, PcRowId, ProcessRowId, SubjectRowId};

use consumers::events::{Owner, PcId};
use consumers::tables::Tables;

/// Writes all call stacks; `owner` and `pc` give the rows of what they refer to.
pub(super) fn write_stacks(
    flush: &mut Flush<'_>,
    tables: &Tables,
    owner: impl Fn(&Owner) -> Option<(ProcessRowId, SubjectRowId)>,
    pc: impl Fn(PcId) -> Option<PcRowId>,
) -> Result<(), Error> {
    let stacks = &tables.consumers.stacks;
    let mut frames: Vec<PcRowId> = Vec::new();
    for (who, node, end, seen) in stacks.each() {
        frames.clear();
        frames.extend(stacks.frames(node).map_while(&pc));
        let is_whole = frames.len() == stacks.frames(node).count();
        if let Some((process, subject)) = owner(&who).filter(|_| is_whole) {
            flush.stack(process, subject, &frames, end, seen.samples, seen.weight)?;
        }
    }
    Ok(())
}
