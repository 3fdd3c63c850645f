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
