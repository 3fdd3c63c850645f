//! What lay where in the memory of processes.

use super::file::File;
use super::referred::Referred;
use crate::regions::Region;
use crate::tables::stored::StoredRegion;
use crate::{Error, Mapped};

impl File<'_> {
    /// The regions of processes that the filter takes.
    pub(super) fn read_regions(&mut self, referred: &Referred) -> Result<(), Error> {
        let mut regions = Vec::new();
        self.rows("", |file, _, row: StoredRegion| {
            let StoredRegion {
                process, subject, ..
            } = row;
            let Some(process) = referred.processes.get(&process) else {
                return Err(file.dangling("process", process));
            };
            let Some(subject) = referred.subjects.get(&subject) else {
                return Err(file.dangling("subject", subject));
            };
            let columns = (row.first, row.kind, row.pages);
            let Some(region) = Region::of_columns(columns, row.image.zip(row.shown)) else {
                return Err(file.corrupt("a region is none"));
            };
            if let Mapped::Image { image, .. } = region.what
                && !referred.images.contains_key(&image)
            {
                return Err(file.dangling("image", image));
            }
            let epoch = referred.epochs.get(&process.row.epoch);
            if epoch.is_some_and(|epoch| epoch.taken)
                && file.filter.takes_pid(process.row.process.pid)
                && file.filter.takes_subject(&subject.row)
            {
                regions.push(region);
            }
            Ok(())
        })?;
        let builder = &mut *self.builder;
        let mut known = |image: i64| match referred.images.get(&image) {
            Some(image) => builder.image(&image.row),
            None => usize::MAX,
        };
        let regions: Vec<Region<usize>> = regions
            .into_iter()
            .map(|region| region.with_image(&mut known))
            .collect();
        self.builder.profile.regions.extend(regions);
        Ok(())
    }
}
