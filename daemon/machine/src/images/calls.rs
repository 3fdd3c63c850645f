//! Where calls were found before return addresses: the same few come with every sample.

use addresses::ImageAddress;
use rustc_hash::FxHashMap;

use super::ImageId;
use crate::place::Pc;
use crate::system::memory::of_map;

/// Return addresses kept: about a megabyte. When it is full, it begins anew.
const MAX_CALLS: usize = 1 << 14;

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The instruction itself.
    pub site: Pc,
    /// What it names in the same image.
    pub(crate) names: Option<ImageAddress>,
}

impl Call {
    /// Where the instruction leads, as its code names it; `None`: it is indirect.
    pub fn target(&self) -> Option<Pc> {
        let target = |address| Pc {
            address,
            ..self.site
        };
        self.names.map(target)
    }
}

/// By image and address in it, the call before, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Calls(FxHashMap<(ImageId, ImageAddress), Option<Call>>);

impl Calls {
    /// What was found there, if that was looked for.
    pub(crate) fn get(&self, image: ImageId, behind: ImageAddress) -> Option<Option<Call>> {
        self.0.get(&(image, behind)).copied()
    }

    /// Keeps what was found.
    pub(crate) fn put(&mut self, image: ImageId, behind: ImageAddress, call: Option<Call>) {
        if self.0.len() >= MAX_CALLS {
            self.0.clear();
        }
        self.0.insert((image, behind), call);
    }

    /// Forgets images whose files have changed.
    pub(super) fn forget(&mut self, changed: &[ImageId]) {
        self.0.retain(|(image, _), _| !changed.contains(image));
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        of_map(&self.0)
    }
}
