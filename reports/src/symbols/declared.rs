//! What debug information declares of functions.

use std::collections::BTreeSet;

use super::{MAX_TOTAL, Symbols};
use crate::dwarf::{self, Declared};
use crate::elf::{self, Elf};
use crate::guard::fenced;

impl Symbols<'_> {
    /// What debug information declares of functions of an image, in the file itself or in the
    /// debug file of its build id.
    pub(crate) fn declared(&self, image: usize, entries: &BTreeSet<u64>) -> Declared {
        let read = |file: &Elf| dwarf::declared(file.data(), entries);
        self.ask_debug_files(image, read, Declared::is_empty)
    }

    /// Those of some addresses of an image that are in functions without a result there, as debug
    /// information declares them.
    pub(crate) fn without_result(
        &self,
        image: usize,
        addresses: &BTreeSet<u64>,
        place: dwarf::Place,
    ) -> BTreeSet<u64> {
        let read = |file: &Elf| dwarf::without_result(file.data(), addresses, place);
        self.ask_debug_files(image, read, BTreeSet::is_empty)
    }

    /// What the debug information of an image says: that in the file itself, or where that is
    /// nothing, in the debug file of its build id.
    fn ask_debug_files<T: Default>(
        &self,
        image: usize,
        read: impl Fn(&Elf) -> T,
        is_nothing: impl Fn(&T) -> bool,
    ) -> T {
        let Some(elf) = self.elf(image) else {
            return T::default();
        };
        let said = fenced(|| read(elf)).unwrap_or_default();
        if is_nothing(&said)
            && let Some(debug) = elf.build_id().and_then(elf::debug_file)
            && let Some(Ok(debug)) = fenced(|| Elf::open(&debug, MAX_TOTAL))
            && debug.build_id() == elf.build_id()
        {
            return fenced(|| read(&debug)).unwrap_or_default();
        }
        said
    }
}
