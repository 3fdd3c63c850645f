//! The symbol library, fenced in: what it says of addresses in a verified file.

use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf as ElfSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use crate::elf::Elf;
use crate::guard::fenced;

/// A place in the source, and the inlined functions around it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// Source file.
    pub(crate) file: Option<PathBuf>,
    /// Line in it.
    pub(crate) line: Option<u32>,
    /// Functions inlined here, outermost first.
    pub(crate) inlined: Vec<String>,
}

/// What is known of the function around an address.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// First address.
    pub(crate) start: u64,
    /// First address behind it, where known.
    pub(crate) end: Option<u64>,
    /// Its name, where known.
    pub(crate) name: Option<String>,
}

impl Bounds {
    /// Whether an address is in it.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.start <= address && self.end.is_none_or(|end| address < end)
    }
}

/// Whether a file's sections are such that a library that adds up offsets and
/// allocates what a header asks for can be let at it.
pub(crate) fn is_plain(elf: &Elf) -> bool {
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    let Ok(file) = object::File::parse(elf.data()) else {
        return false;
    };
    let size = u64::try_from(elf.data().len()).unwrap_or(0);
    let sections_fit = file.sections().all(|section| {
        let in_file = section.compressed_file_range().is_ok_and(|range| {
            range
                .offset
                .checked_add(range.compressed_size)
                .is_some_and(|end| end <= size)
                && range.uncompressed_size <= size.saturating_mul(64).saturating_add(1 << 20)
        });
        in_file && section.address().checked_add(section.size()).is_some()
    });
    let symbols_fit = file
        .symbols()
        .chain(file.dynamic_symbols())
        .all(|symbol| symbol.address().checked_add(symbol.size()).is_some());
    sections_fit && symbols_fit
}

/// A symbolizer for names, or for source lines and inlined functions as well.
pub(crate) fn symbolizer(code: bool) -> Symbolizer {
    Symbolizer::builder()
        .enable_code_info(code)
        .enable_inlined_fns(code)
        .enable_auto_reload(false)
        .build()
}

/// Functions around addresses by the file's symbol tables, or by its debug information.
/// `None` if they cannot be read.
pub(crate) fn bounds(
    symbolizer: &Symbolizer,
    path: &Path,
    addresses: &[u64],
    debug: bool,
) -> Option<Vec<Option<Bounds>>> {
    look_up(symbolizer, path, addresses, debug, |symbol| {
        symbol.map(bounds_of)
    })
}

/// Source places of addresses. `None` if there is no debug information to read.
pub(crate) fn places(path: &Path, addresses: &[u64]) -> Option<Vec<Place>> {
    look_up(&symbolizer(true), path, addresses, true, |symbol| {
        symbol.map(place_of).unwrap_or_default()
    })
}

fn look_up<T>(
    symbolizer: &Symbolizer,
    path: &Path,
    addresses: &[u64],
    debug: bool,
    take: impl Fn(Option<&Sym<'_>>) -> T,
) -> Option<Vec<T>> {
    let mut source = ElfSource::new(path);
    source.debug_syms = debug;
    let found: Vec<T> = fenced(|| {
        let found = symbolizer
            .symbolize(&Source::Elf(source), Input::VirtOffset(addresses))
            .ok()?;
        Some(found.iter().map(Symbolized::as_sym).map(&take).collect())
    })??;
    (found.len() == addresses.len()).then_some(found)
}

fn bounds_of(symbol: &Sym<'_>) -> Bounds {
    let size = symbol
        .size
        .and_then(|size| u64::try_from(size).ok())
        .filter(|size| *size > 0);
    Bounds {
        start: symbol.addr,
        end: size.and_then(|size| symbol.addr.checked_add(size)),
        name: Some(symbol.name.to_string()),
    }
}

fn place_of(symbol: &Sym<'_>) -> Place {
    let innermost = symbol
        .inlined
        .last()
        .and_then(|inlined| inlined.code_info.as_ref());
    let code = innermost.or(symbol.code_info.as_deref());
    Place {
        file: code
            .map(CodeInfo::to_path)
            .map(std::borrow::Cow::into_owned),
        line: code.and_then(|code| code.line),
        inlined: symbol
            .inlined
            .iter()
            .map(|inlined| inlined.name.to_string())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::fixture;

    /// Symbol tables give names and bounds, and debug information lines and inlined names.
    #[test]
    fn names_and_places() {
        let found = bounds(&symbolizer(false), &fixture(), &[0x1024, 0x1095], false);
        let found: Vec<(u64, Option<u64>, Option<String>)> = found
            .expect("fixture has symbols")
            .into_iter()
            .flatten()
            .map(|bounds| (bounds.start, bounds.end, bounds.name))
            .collect();
        assert_eq!(
            found,
            [
                (0x1020, Some(0x1036), Some("local".to_owned())),
                (0x1090, Some(0x10b0), Some("through_stub".to_owned()))
            ]
        );
        let places = places(&fixture(), &[0x1026, 0x10aa]).expect("fixture has lines");
        let seen: Vec<(Option<u32>, &[String])> = places
            .iter()
            .map(|place| (place.line, place.inlined.as_slice()))
            .collect();
        assert_eq!(seen, [(Some(9), &["mix".to_owned()][..]), (Some(19), &[])]);
        let file = places.first().and_then(|place| place.file.clone());
        assert_eq!(file, Some(PathBuf::from("/fixture/declared.c")));
    }

    /// A damaged file gives fewer names; neither it nor a missing one ends the program.
    #[test]
    fn damaged_files_are_harmless() {
        let good = std::fs::read(fixture()).expect("fixture is there");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut state = 5_u64;
        for round in 0..100 {
            let mut bad = good.clone();
            for _ in 0..16 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = usize::try_from(state >> 33).expect("fits") % bad.len();
                bad[at] = u8::try_from(state >> 25 & 0xff).expect("a byte");
            }
            let path = dir.path().join(round.to_string());
            std::fs::write(&path, bad).expect("writes");
            // What is not plain never gets to the library.
            let Ok(elf) = Elf::open(&path, u64::MAX) else {
                continue;
            };
            if is_plain(&elf) {
                for debug in [false, true] {
                    let _ = bounds(&symbolizer(false), &path, &[0x1024, 0x1095, 0], debug);
                }
                let _ = places(&path, &[0x1024, 0x1095, u64::MAX]);
            }
        }
        assert!(bounds(&symbolizer(false), Path::new("/nowhere"), &[1], true).is_none());
    }
}
