//! Snapshots for readers: of tables that fill, and of a snapshot that waits to be written.

use addresses::ImageAddress;
use rustc_hash::{FxHashMap, FxHashSet};

use profiledb::Subject;

use super::{MOST_BYTES, Snapshot, sampled_code};
use consumers::tables::Wanted;
use machine::images::ImageId;
use pipeline::collector::Collector;

impl Snapshot {
    /// What was collected between these times and is still being added to, of owners whose access
    /// tags pass the test. No file is looked at for it: what that would tell, the flush will.
    pub(crate) fn of_running(
        collector: &mut Collector,
        time: (i64, i64),
        wanted: Wanted,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> Self {
        let (tables, _) = collector.tables.copy(wanted, is_wanted);
        // Where what lay in memory, the flush will tell.
        let mut snapshot = Self::new(collector, tables, time);
        let (images, cache) = (&mut collector.images, &mut collector.cache);
        let mut generated: FxHashMap<ImageId, Vec<ImageAddress>> = FxHashMap::default();
        for pc in &snapshot.tables.shared.pcs {
            if !snapshot.images.contains_key(&pc.image)
                && let Some(image) = images.row(pc.image)
            {
                snapshot.images.insert(pc.image, image);
                if images.base(pc.image).1 {
                    snapshot.in_32_bit_mode.insert(pc.image);
                }
            }
            let mut bytes = [0; MOST_BYTES];
            let mut read = 0;
            if images.is_anon(pc.image) {
                generated.entry(pc.image).or_default().push(pc.address);
                read = sampled_code(cache, *pc, &mut bytes);
            }
            // At most as many as there are.
            snapshot.code.push((bytes, read as u8));
        }
        snapshot.name_generated(images, generated);
        snapshot
    }

    /// What is in it of owners whose access tags pass the test.
    pub fn part(&self, wanted: Wanted, is_wanted: impl Fn(&Subject) -> bool) -> Self {
        let (tables, old) = self.tables.copy(wanted, &is_wanted);
        let code = old.iter().map(|pc| {
            let code = self.code.get(pc.0 as usize).copied();
            code.unwrap_or(([0; MOST_BYTES], 0))
        });
        Self {
            images: self.images.clone(),
            code: code.collect(),
            files: Vec::new(),
            nameless: FxHashSet::default(),
            generated: self.generated.clone(),
            in_32_bit_mode: self.in_32_bit_mode.clone(),
            regions: self.regions_of(is_wanted),
            kernel: self.kernel,
            started: self.started,
            ended: self.ended,
            totals: self.totals,
            tables,
        }
    }
}
