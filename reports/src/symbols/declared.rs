//! What debug information declares of functions.

use std::collections::BTreeSet;

use super::Symbols;
use crate::dwarf::{self, Declared};
use crate::elf::Elf;
use crate::guard::fenced;

impl Symbols<'_> {
    /// What debug information declares of functions of an image, in the file itself or in its debug
    /// file.
    pub(crate) fn declared(&self, image: usize, entries: &BTreeSet<u64>) -> Declared {
        let read = |file: &Elf| dwarf::declared(file, entries);
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
        let read = |file: &Elf| dwarf::without_result(file, addresses, place);
        self.ask_debug_files(image, read, BTreeSet::is_empty)
    }

    /// What the debug information of an image says: that in the file itself, or where that is
    /// nothing, in its debug file.
    fn ask_debug_files<T: Default>(
        &self,
        image: usize,
        read: impl Fn(&Elf) -> T,
        is_nothing: impl Fn(&T) -> bool,
    ) -> T {
        let asked = self.elf(image).into_iter().chain(self.debug(image));
        let said = asked.map(|file| fenced(|| read(file)).unwrap_or_default());
        said.into_iter()
            .find(|said| !is_nothing(said))
            .unwrap_or_default()
    }
}
