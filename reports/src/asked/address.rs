//! Functions that are asked for by an address in them.

use profiledb::rows::Image;
use profiledb::{Places, SymbolRow};
use symbols::{Around, around};

use super::{Asked, Files, end_of, is_told_by_code};
use crate::elf::Elf;

/// An address that functions are asked for by.
pub(super) struct AskedAddress(u64);

impl AskedAddress {
    /// That of whatever has it.
    pub(super) fn new(address: u64) -> AskedAddress {
        AskedAddress(address)
    }
}

impl Asked for AskedAddress {
    fn in_others(&self) -> bool {
        false
    }

    fn look_at_stored(&self, image: &Image, symbols: &[&SymbolRow], places: &mut Places) {
        let AskedAddress(address) = *self;
        for (index, symbol) in symbols.iter().enumerate() {
            let end = end_of(symbols, index);
            if (symbol.address..end).contains(&address) {
                places.add(image, symbol.address, end);
            }
        }
    }

    fn look_at_file(
        &self,
        image: &Image,
        files: Option<&Files>,
        _is_wanted: bool,
        places: &mut Places,
    ) {
        let AskedAddress(address) = *self;
        let Some(Files { elf, debug }) = files else {
            // Of code without names all is one function.
            if !places.has(image, address) {
                places.add_all(image);
            }
            return;
        };
        let beside = debug.as_ref().map(Elf::binary);
        match around(elf.binary(), beside, address) {
            Around::NoCode => {}
            Around::Within(_) if is_told_by_code(image) => places.add_all(image),
            Around::Within(ranges) => {
                for (start, end) in ranges {
                    places.add(image, start, end);
                }
            }
            Around::Untold => places.add_all(image),
        }
        if let Some((start, end)) = stub_section(elf, address) {
            places.add(image, start, end);
        }
    }
}

/// The section of PLT stubs that an address is in.
fn stub_section(elf: &Elf, address: u64) -> Option<(u64, u64)> {
    let mut sections = elf.stub_sections().into_iter();
    sections.find(|(start, end)| (*start..*end).contains(&address))
}
