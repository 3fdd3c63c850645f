//! What lay where in the memory of processes that rows of the view are about.

use super::Stop;
use super::copy::Copy;
use crate::tables::stored::StoredRegion;

impl Copy<'_> {
    /// The regions whose access tag the viewer may see, of processes that are in the view.
    pub(super) fn regions(&mut self) -> Result<(), Stop> {
        self.rows("", |copy, _, region: StoredRegion| {
            // One that is not for the viewer is not among these.
            if !copy.subjects.contains_key(&region.subject) {
                return Ok(());
            }
            let Some(process) = copy.processes.get(&region.process).copied() else {
                return Ok(());
            };
            let subject = copy.put_subject(region.subject)?;
            let image = region
                .image
                .map(|image| copy.put_image(image))
                .transpose()?;
            copy.view.merge(&StoredRegion {
                process,
                subject,
                image,
                ..region
            })
        })
    }
}
