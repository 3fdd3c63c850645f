//! What lies where in the memory of processes.

use super::Flush;
use crate::regions::PAGE;
use crate::tables::stored::StoredRegion;
use crate::writer::{ImageRowId, ProcessRowId, SubjectRowId};
use crate::{Error, Mapped, Region};

impl Flush<'_> {
    /// Says what lay where in a process, for those who may see what has this access tag. Said
    /// again of a longer region, that is the one that stays. Parts of pages count as pages.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a region of no bytes, [`Error::StaleId`], and those of the database.
    pub fn region(
        &mut self,
        process: ProcessRowId,
        subject: SubjectRowId,
        region: &Region<ImageRowId>,
    ) -> Result<(), Error> {
        self.check(process.generation)?;
        self.check(subject.generation)?;
        if region.start >= region.end {
            return Err(Error::Invalid {
                what: "a region of no bytes".to_owned(),
            });
        }
        let first = region.start / PAGE;
        let pages = region.end.div_ceil(PAGE) - first;
        let kind = region.what.kind();
        let (image, shown) = match region.what {
            Mapped::Image { image, address } => {
                self.check(image.generation)?;
                (Some(image.row), Some(address / PAGE))
            }
            Mapped::Heap | Mapped::Stack | Mapped::Anon => (None, None),
        };
        let key = (process.row, subject.row, first, kind);
        let regions = &self.writer.caches.regions;
        if regions.get(&key).is_some_and(|written| written >= pages) {
            return Ok(());
        }
        self.merge(&StoredRegion {
            process: process.row,
            subject: subject.row,
            first,
            kind,
            pages,
            image,
            shown,
        })?;
        self.writer.caches.regions.put(key, pages);
        Ok(())
    }
}
