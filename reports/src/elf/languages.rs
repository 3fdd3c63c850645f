//! Of which languages with calling conventions of their own an image has code.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use object::{Object as _, ObjectSymbol as _, SymbolKind};
use symbols::Binary;

use super::Elf;
use crate::guard::fenced;

/// Languages with calling conventions of their own that an image has code of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Languages {
    pub(crate) go: Option<GoText>,
    pub(crate) ocaml: bool,
    pub(crate) haskell: bool,
}

/// Where an image's Go code lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoText {
    pub(crate) text: Range<u64>,
    /// It passes arguments in registers.
    pub(crate) by_register: bool,
}

impl Languages {
    /// Whether there is any.
    pub(crate) fn are_special(&self) -> bool {
        self.go.is_some() || self.ocaml || self.haskell
    }
}

impl Elf {
    /// The languages of the image, as its sections and symbols show them.
    pub(crate) fn languages(&self) -> Languages {
        fenced(|| languages(&self.binary)).unwrap_or_default()
    }

    /// The names of the functions at these addresses, as the symbol tables have them.
    pub(crate) fn names(&self, entries: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let apart = self.binary.apart();
        let read = || {
            let file = apart.parsed()?;
            let symbols = file.symbols().chain(file.dynamic_symbols());
            let wanted = symbols.filter(|symbol| {
                symbol.is_definition()
                    && symbol.kind() == SymbolKind::Text
                    && entries.contains(&symbol.address())
            });
            let named = wanted.filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                Some((symbol.address(), name.to_owned()))
            });
            Some(named.collect())
        };
        fenced(read).flatten().unwrap_or_default()
    }
}

/// What an OCaml program gives its plug-ins, and they take from it.
const OCAML: &[u8] = b"\0caml_call_gc\0";

fn languages(file: &Binary) -> Languages {
    // The dynamic linker's names are there when all others are stripped.
    let names = file
        .section(".dynstr")
        .or_else(|| file.section(".strtab"))
        .unwrap_or_default();
    Languages {
        go: go_text(file),
        ocaml: memchr::memmem::find(&names, OCAML).is_some(),
        haskell: file.has_section(".debug-ghc-link-info"),
    }
}

/// The extent of Go code by the table that Go's own unwinder goes by.
fn go_text(file: &Binary) -> Option<GoText> {
    let table = file
        .section(".gopclntab")
        .or_else(|| file.section(".data.rel.ro.gopclntab"))?;
    let text = file.ranges(|name, _| name == ".text");
    let all = text.first().map_or(0..u64::MAX, |text| text.0..text.1);
    let version = table.get(..4)?.try_into().map(u32::from_le_bytes).ok()?;
    // The number changes with the table's form. From Go 1.18 on arguments are in registers, in
    // 1.17 they are, in 1.16 they are not.
    let by_register = match version {
        0xffff_fff0 | 0xffff_fff1 => true,
        0xffff_fffa => {
            let constants = file.section(".rodata").unwrap_or_default();
            memchr::memmem::find(&constants, b"go1.17").is_some()
        }
        0xffff_fffb => false,
        // A later form.
        _ => true,
    };
    let extent = match version {
        0xffff_fff0 | 0xffff_fff1 => extent(&table),
        _ => None,
    };
    Some(GoText {
        text: extent.unwrap_or(all),
        by_register,
    })
}

/// From the first function to the end of the last, as the table of Go 1.18 and later has it.
/// `None` where that is filled in when the image is loaded.
fn extent(table: &[u8]) -> Option<Range<u64>> {
    let word = |index: usize| {
        let at = 8 + 8 * index;
        let word = table.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(word))
    };
    let (functions, start, offsets) = (word(0)?, word(2)?, word(7)?);
    // Two numbers for each function, and the end behind them.
    let at = offsets.checked_add(functions.checked_mul(8)?)?;
    let at = usize::try_from(at).ok()?;
    let end = table.get(at..at.checked_add(4)?)?.try_into().ok()?;
    let end = start.checked_add(u32::from_le_bytes(end).into())?;
    (start > 0 && end > start).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions.
    fn table(start: u64) -> Vec<u8> {
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        for word in [2, 0, start, 0, 0, 0, 0, 72_u64] {
            table.extend(word.to_le_bytes());
        }
        for half in [0, 0, 0x40, 0, 0x100_u32] {
            table.extend(half.to_le_bytes());
        }
        table
    }

    /// Go's code reaches from the first function to the end of the last.
    #[test]
    fn extent_of_go() {
        assert_eq!(extent(&table(0x1000)), Some(0x1000..0x1100));
        assert_eq!(extent(&table(0)), None);
        assert_eq!(extent(&table(0x1000)[..80]), None);
        assert_eq!(extent(&[]), None);
    }

    /// This program has code of no such language.
    #[test]
    fn own_image_is_plain() {
        let elf = crate::elf::tests::own();
        assert!(!elf.languages().are_special());
    }
}
