//! Names of an image's data, as its symbol tables have them.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _, SymbolKind};

use super::Symbols;
use crate::elf::{Elf, demangle};
use crate::guard::fenced;

/// The data of an image by their addresses: the end of each, and its name.
#[derive(Debug, Default)]
pub(crate) struct Data(BTreeMap<u64, (u64, String)>);

impl Data {
    /// What the image's own file and its debug file name.
    pub(crate) fn of(symbols: &Symbols<'_>, image: usize) -> Data {
        let mut data = Data::default();
        if symbols.has_names() {
            for file in symbols.debug(image).into_iter().chain(symbols.elf(image)) {
                // What cannot be parsed names nothing.
                data.0.extend(fenced(|| named(file)).unwrap_or_default());
            }
        }
        data
    }

    /// The name at an address, with how far it is into what is named.
    pub(crate) fn at(&self, address: u64) -> Option<String> {
        let (start, (end, name)) = self.0.range(..=address).next_back()?;
        match address - start {
            _ if address >= *end => None,
            0 => Some(name.clone()),
            offset => Some(format!("{name}+0x{offset:x}")),
        }
    }
}

fn named(file: &Elf) -> BTreeMap<u64, (u64, String)> {
    let Some(parsed) = file.binary().parsed() else {
        return BTreeMap::new();
    };
    let symbols = parsed.dynamic_symbols().chain(parsed.symbols());
    let mut data = BTreeMap::new();
    for symbol in symbols.filter(|symbol| symbol.kind() == SymbolKind::Data) {
        let end = symbol.address().checked_add(symbol.size());
        if let Some((end, name)) = end.zip(symbol.name().ok()) {
            data.insert(symbol.address(), (end, demangle(name)));
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address within data goes by its name; one behind it by none.
    #[test]
    fn names() {
        let data = Data(BTreeMap::from([(0x10, (0x20, "table".to_owned()))]));
        assert_eq!(data.at(0x10).as_deref(), Some("table"));
        assert_eq!(data.at(0x18).as_deref(), Some("table+0x8"));
        assert_eq!(data.at(0x20), None);
        assert_eq!(data.at(0xf), None);
    }
}
