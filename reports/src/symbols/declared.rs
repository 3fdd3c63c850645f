//! What debug information declares of functions.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Register;

use super::Symbols;
use crate::dwarf::{self, Declared};
use crate::elf::{self, Elf};
use crate::guard::fenced;
use crate::symbolize::{self, SourcePlace, SymbolizedFrame};
use crate::variables::{self, Declaration, Language, Returned, Variable};

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
        place: dwarf::ResultRegister,
    ) -> BTreeSet<u64> {
        let read = |file: &Elf| dwarf::without_result(file, addresses, place);
        self.ask_debug_files(image, read, BTreeSet::is_empty)
    }

    /// The parameters of functions with their names and types, by the functions' entries.
    pub(crate) fn parameters(
        &self,
        image: usize,
        entries: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Declaration> {
        let names = self.linked_names(image, entries);
        let read = |file: &Elf| variables::parameters(file, entries, &names);
        self.ask_debug_files(image, read, BTreeMap::is_empty)
    }

    /// All names that symbol tables have of an address of an image, as programmers wrote them.
    pub(crate) fn names_at(&self, image: usize, address: u64) -> Vec<String> {
        let names = self.linked_names(image, &BTreeSet::from([address]));
        let demangled = |name: &String| fenced(|| elf::demangle(name));
        names.values().flatten().filter_map(demangled).collect()
    }

    /// All names that symbol tables have of code at these addresses of an image, mangled.
    fn linked_names(&self, image: usize, addresses: &BTreeSet<u64>) -> BTreeMap<u64, Vec<String>> {
        let Some((functions, _)) = self.functions_of(image) else {
            return BTreeMap::new();
        };
        let names = |address: &u64| fenced(|| functions.names_at(*address)).unwrap_or_default();
        let all = addresses.iter();
        all.map(|address| (*address, names(address))).collect()
    }

    /// The variable that a register holds at an address of an image.
    pub(crate) fn held(&self, image: usize, address: u64, register: Register) -> Option<Variable> {
        let read = |file: &Elf| variables::held(file, address, register);
        self.ask_debug_files(image, read, Option::is_none)
    }

    /// The variable of a name that code at an address of an image means.
    pub(crate) fn variable(&self, image: usize, address: u64, name: &str) -> Option<Variable> {
        let read = |file: &Elf| variables::named(file, address, name);
        self.ask_debug_files(image, read, Option::is_none)
    }

    /// The language of the unit with the code at an address of an image.
    pub(crate) fn language(&self, image: usize, address: u64) -> Option<Language> {
        let read = |file: &Elf| variables::language(file, address);
        self.ask_debug_files(image, read, Option::is_none)
    }

    /// What the functions with code at these addresses of an image return.
    pub(crate) fn results(
        &self,
        image: usize,
        addresses: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Returned> {
        let read = |file: &Elf| variables::results(file, addresses);
        self.ask_debug_files(image, read, BTreeMap::is_empty)
    }

    /// The lines where functions of an image are declared, by their names.
    pub(crate) fn first_lines(
        &self,
        image: usize,
        names: &BTreeSet<&str>,
    ) -> BTreeMap<String, u32> {
        let read = |file: &Elf| symbolize::first_lines(file, names);
        self.ask_debug_files(image, read, BTreeMap::is_empty)
    }

    /// Source places of addresses of one image, in their order.
    pub(crate) fn places(&self, image: usize, addresses: &[u64]) -> Vec<SourcePlace> {
        let has_line = |place: &SourcePlace| place.line.is_some();
        self.source(image, addresses, symbolize::places, has_line)
    }

    /// The functions that addresses of one image are in, in the order of the addresses: the
    /// innermost first, and the last one is not inlined.
    pub(crate) fn chains(&self, image: usize, addresses: &[u64]) -> Vec<Vec<SymbolizedFrame>> {
        let has_line =
            |chain: &Vec<SymbolizedFrame>| chain.iter().any(|frame| frame.line.is_some());
        self.source(image, addresses, symbolize::chains, has_line)
    }

    fn source<T: Clone + Default>(
        &self,
        image: usize,
        addresses: &[u64],
        read: impl Fn(&Elf, &[u64]) -> Option<Vec<T>>,
        has_line: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let nothing = || vec![T::default(); addresses.len()];
        if !self.names || addresses.is_empty() {
            return nothing();
        }
        let files = self.elf(image).into_iter().chain(self.debug(image));
        let found = files.filter_map(|file| read(file, addresses));
        // A stripped file has none, and its debug file all of them.
        let mut found = found.filter(|found| found.iter().any(&has_line));
        found.next().unwrap_or_else(nothing)
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
