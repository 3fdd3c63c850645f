//! What lay where in the memory of processes that rows of the view are about.

use rusqlite::params;

use super::Stop;
use super::copy::Copy;
use crate::regions::INSERT;

impl Copy<'_> {
    /// The regions whose access tag the viewer may see, of processes that are in the view.
    pub(super) fn regions(&mut self) -> Result<(), Stop> {
        let sql = "SELECT process, subject, image, first, kind, pages, shown FROM region";
        self.each(sql, [], |copy, row| {
            let (process, subject): (i64, i64) = (copy.get(row, 0)?, copy.get(row, 1)?);
            // One that is not for the viewer is not among these.
            if !copy.subjects.contains_key(&subject) {
                return Ok(());
            }
            let Some(process) = copy.processes.get(&process).copied() else {
                return Ok(());
            };
            let image: Option<i64> = copy.get(row, 2)?;
            let (first, kind): (i64, i64) = (copy.get(row, 3)?, copy.get(row, 4)?);
            let (pages, shown): (i64, Option<i64>) = (copy.get(row, 5)?, copy.get(row, 6)?);
            let subject = copy.put_subject(subject)?;
            let image = image.map(|image| copy.put_image(image)).transpose()?;
            copy.view.add(
                INSERT,
                params![process, subject, first, kind, pages, image, shown],
            )
        })
    }
}
