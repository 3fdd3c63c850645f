//! What was mapped in processes that went.

use rustc_hash::FxHashMap;

use super::{Process, ProcessId};
use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::place::ImageId;
use crate::system::memory::of_map;

/// Mappings kept of processes that have ended, in some 6 MB.
const MOST_KEPT: usize = 1 << 17;

/// Layouts of processes that have ended since the last flush, or that run another program now.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    layouts: FxHashMap<ProcessId, Layout>,
    mappings: usize,
    /// Those that found no room.
    pub(crate) dropped: u64,
}

impl Remains {
    /// Keeps the layout of a process that goes, if it was sampled.
    pub(crate) fn keep(&mut self, process: &Process) {
        if !process.sampled {
            return;
        }
        if self.mappings >= MOST_KEPT {
            self.dropped += 1;
            return;
        }
        let layout = process.layout();
        self.mappings += layout.len();
        self.layouts.insert(process.id, layout);
    }

    /// The layout of a process that went.
    pub(crate) fn take(&mut self, process: ProcessId) -> Option<Layout> {
        let layout = self.layouts.remove(&process)?;
        self.mappings = self.mappings.saturating_sub(layout.len());
        Some(layout)
    }

    /// The images that were mapped.
    pub(crate) fn images(&self) -> impl Iterator<Item = ImageId> {
        self.layouts.values().flat_map(Layout::images)
    }

    /// Gives up what nobody asked for.
    pub(crate) fn clear(&mut self) {
        self.layouts.clear();
        self.mappings = 0;
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        of_map(&self.layouts) + self.mappings * size_of::<Mapping>()
    }
}

#[cfg(test)]
mod tests {
    use addresses::ProcessAddress;

    use super::*;

    /// What was not sampled is not kept, and what is kept has an end.
    #[test]
    fn remains() {
        let mut remains = Remains::default();
        let mut process = Process::of_kernel(ImageId(0), ProcessAddress(0));
        remains.keep(&process);
        assert!(remains.take(process.id).is_none());
        process.sampled = true;
        remains.keep(&process);
        assert_eq!(remains.mappings, 1);
        assert!(remains.take(process.id).is_some() && remains.mappings == 0);
        remains.mappings = MOST_KEPT;
        remains.keep(&process);
        assert_eq!(remains.dropped, 1);
        remains.clear();
        assert_eq!(remains.mappings, 0);
    }
}
