//! Names and bounds of functions for the addresses of a profile.
//!
//! A file names an address only if it is still the image that was profiled: the
//! build id is the same or, where there is none, every instruction that the
//! profile recorded stands in the file unchanged. Otherwise the address is
//! printed as `image+0xaddress` and a note says why.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf as ElfSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use profiledb::Profile;
use profiledb::rows::{Image, ImageKind};

use crate::dwarf;
use crate::elf::{self, Elf};
use crate::guard::fenced;
use crate::liveness::Argument;

/// A function, or what has to stand for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Index of its image in the profile.
    pub(crate) image: usize,
    /// First address; `None` for all code of an image of which no bounds are known.
    pub(crate) start: Option<u64>,
    /// First address behind it, where known.
    pub(crate) end: Option<u64>,
    /// Its name, or `image+0xaddress`.
    pub(crate) name: String,
}

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

/// Index of a function in [`Symbols::functions`].
pub(crate) type FunctionId = usize;

/// Names for the addresses of one profile.
pub(crate) struct Symbols<'p> {
    profile: &'p Profile,
    names: bool,
    symbolizer: Symbolizer,
    images: Vec<ImageNames>,
    functions: Vec<Function>,
    /// The function of each PC of the profile.
    of_pc: Vec<FunctionId>,
    by_start: BTreeMap<(usize, u64), FunctionId>,
    unbounded: BTreeMap<usize, FunctionId>,
    notes: Vec<String>,
}

/// Where an image's names come from.
#[derive(Default)]
struct ImageNames {
    elf: Option<Elf>,
    /// The image file as a symbol library reads it; only if it was verified.
    path: Option<PathBuf>,
    /// Symbols of the profile itself or of an image in memory: start to (end, name).
    table: BTreeMap<u64, (Option<u64>, String)>,
}

impl<'p> Symbols<'p> {
    /// Reads the images of a profile and names all its PCs; without `names`,
    /// only bounds are looked for.
    pub(crate) fn new(profile: &'p Profile, names: bool) -> Symbols<'p> {
        let mut symbols = Symbols {
            profile,
            names,
            symbolizer: symbolizer(false),
            images: Vec::new(),
            functions: Vec::new(),
            of_pc: Vec::new(),
            by_start: BTreeMap::new(),
            unbounded: BTreeMap::new(),
            notes: Vec::new(),
        };
        let mut addresses: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); profile.images.len()];
        for pc in &profile.pcs {
            if let Some(of_image) = addresses.get_mut(pc.image) {
                of_image.insert(pc.address);
            }
        }
        let mut known: BTreeMap<(usize, u64), FunctionId> = BTreeMap::new();
        for (index, image) in profile.images.iter().enumerate() {
            let addresses: Vec<u64> = addresses
                .get(index)
                .map(|set| set.iter().copied().collect())
                .unwrap_or_default();
            let source = if addresses.is_empty() {
                ImageNames::default()
            } else {
                symbols.open(index, image)
            };
            symbols.images.push(source);
            for (address, function) in addresses.iter().zip(symbols.resolve(index, &addresses)) {
                known.insert((index, *address), function);
            }
        }
        symbols.of_pc = profile
            .pcs
            .iter()
            .map(|pc| match known.get(&(pc.image, pc.address)) {
                Some(function) => *function,
                None => symbols.unbounded(pc.image),
            })
            .collect();
        symbols
    }

    /// All functions found so far.
    pub(crate) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function of a PC of the profile.
    pub(crate) fn function_of(&self, pc: usize) -> Option<FunctionId> {
        self.of_pc.get(pc).copied()
    }

    /// A function by its index.
    pub(crate) fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id)
    }

    /// The name of a PC's function.
    pub(crate) fn name_of(&self, pc: usize) -> String {
        match self.function_of(pc).and_then(|id| self.function(id)) {
            Some(function) => function.name.clone(),
            None => "?".to_owned(),
        }
    }

    /// The verified file of an image.
    pub(crate) fn elf(&self, image: usize) -> Option<&Elf> {
        self.images.get(image)?.elf.as_ref()
    }

    /// What the reader should know about names that are missing, one line each.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// An address of an image as `function`, `function+0xoffset`, or `image+0xaddress`.
    pub(crate) fn describe(&mut self, image: usize, address: u64) -> String {
        let id = self.at(image, address);
        match id.and_then(|id| self.function(id)) {
            Some(Function {
                start: Some(start),
                name,
                ..
            }) if *start == address => name.clone(),
            Some(Function {
                start: Some(start),
                name,
                ..
            }) => {
                format!("{name}+0x{:x}", address.wrapping_sub(*start))
            }
            _ => format!("{}+0x{address:x}", self.short_name(image)),
        }
    }

    /// The function around an address that need not be one of the profile's PCs.
    pub(crate) fn at(&mut self, image: usize, address: u64) -> Option<FunctionId> {
        if let Some((_, id)) = self
            .by_start
            .range((image, 0)..=(image, address))
            .next_back()
            && self
                .functions
                .get(*id)?
                .end
                .is_some_and(|end| address < end)
        {
            return Some(*id);
        }
        self.resolve(image, &[address]).first().copied()
    }

    /// The integer arguments that debug information declares for functions of an
    /// image, in the file itself or in the debug file of its build id.
    pub(crate) fn declared(
        &self,
        image: usize,
        entries: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Vec<Argument>> {
        let Some(elf) = self.elf(image) else {
            return BTreeMap::new();
        };
        let mut declared = fenced(|| dwarf::declared(elf.data(), entries)).unwrap_or_default();
        if declared.is_empty()
            && let Some(debug) = elf.build_id().and_then(elf::debug_file)
            && let Some(Ok(debug)) = fenced(|| Elf::open(&debug))
            && debug.build_id() == elf.build_id()
        {
            declared = fenced(|| dwarf::declared(debug.data(), entries)).unwrap_or_default();
        }
        declared
    }

    /// Source places of addresses of one image, in their order.
    pub(crate) fn places(&self, image: usize, addresses: &[u64]) -> Vec<Place> {
        let nothing = || vec![Place::default(); addresses.len()];
        let path = self
            .images
            .get(image)
            .and_then(|names| names.path.as_deref());
        let Some(path) = path.filter(|_| self.names) else {
            return nothing();
        };
        // A symbolizer of its own: lines and inlining make it parse far more.
        let with_code = symbolizer(true);
        symbolize(&with_code, path, addresses, |symbol| {
            symbol.map(place).unwrap_or_default()
        })
        .unwrap_or_else(nothing)
    }

    /// A short name for an image: its file name.
    pub(crate) fn short_name(&self, image: usize) -> String {
        match self.profile.images.get(image) {
            Some(image) => short_name(image),
            None => "?".to_owned(),
        }
    }

    fn open(&mut self, index: usize, image: &Image) -> ImageNames {
        let mut names = ImageNames {
            table: self.stored(index),
            ..ImageNames::default()
        };
        match image.kind {
            ImageKind::File => {
                let path = PathBuf::from(&image.path);
                match verified(self.profile, index, image, &path) {
                    Ok(elf) => {
                        names.path = is_plain(&elf).then_some(path);
                        names.elf = Some(elf);
                    }
                    Err(reason) => self.notes.push(format!(
                        "{}: {reason}; its code is shown as addresses",
                        image.path
                    )),
                }
            }
            ImageKind::Vdso => {
                let own = elf::own_vdso().filter(|elf| {
                    elf.build_id().is_some() && elf.build_id() == image.build_id.as_deref()
                });
                if let Some(elf) = own {
                    let symbols = elf.symbols().into_iter().map(|(start, size, name)| {
                        let end = start.checked_add(size).filter(|_| size > 0);
                        (start, (end, elf::demangle(&name)))
                    });
                    names.table.extend(symbols);
                    names.elf = Some(elf);
                }
            }
            ImageKind::Kernel | ImageKind::Anon => {}
        }
        names
    }

    /// The symbols that the profile itself holds of an image.
    fn stored(&self, image: usize) -> BTreeMap<u64, (Option<u64>, String)> {
        self.profile
            .symbols
            .iter()
            .filter(|symbol| symbol.image == image)
            .map(|symbol| {
                let end = symbol
                    .address
                    .checked_add(symbol.size)
                    .filter(|_| symbol.size > 0);
                (symbol.address, (end, elf::demangle(&symbol.name)))
            })
            .collect()
    }

    /// The functions around addresses of one image, in their order.
    fn resolve(&mut self, image: usize, addresses: &[u64]) -> Vec<FunctionId> {
        let found = match self
            .images
            .get(image)
            .and_then(|names| names.path.as_deref())
        {
            Some(path) if self.names && !addresses.is_empty() => {
                symbolize(&self.symbolizer, path, addresses, |symbol| {
                    symbol.map(bounds)
                })
            }
            _ => None,
        };
        let found = found.unwrap_or_else(|| vec![None; addresses.len()]);
        addresses
            .iter()
            .zip(found)
            .map(|(address, found)| {
                let bounds = found.filter(|bounds| bounds.covers(*address));
                match bounds.or_else(|| self.bounds_without_library(image, *address)) {
                    Some(bounds) => self.intern(image, bounds),
                    None => self.unbounded(image),
                }
            })
            .collect()
    }

    fn bounds_without_library(&self, image: usize, address: u64) -> Option<Bounds> {
        let names = self.images.get(image)?;
        if let Some((start, (end, name))) = names.table.range(..=address).next_back() {
            // A symbol without a size reaches up to the next.
            let next = names
                .table
                .range(address.saturating_add(1)..)
                .next()
                .map(|(next, _)| *next);
            let end = end.or(next);
            if end.is_none_or(|end| address < end) {
                return Some(Bounds {
                    start: *start,
                    end,
                    name: Some(name.clone()),
                });
            }
        }
        let elf = names.elf.as_ref()?;
        if let Some((start, end, name)) = elf.plt(address) {
            let name = Some(format!("{name}@plt"));
            return Some(Bounds {
                start,
                end: Some(end),
                name,
            });
        }
        let (start, end) = elf.frame(address)?;
        Some(Bounds {
            start,
            end: Some(end),
            name: None,
        })
    }

    fn intern(&mut self, image: usize, bounds: Bounds) -> FunctionId {
        if let Some(id) = self.by_start.get(&(image, bounds.start)) {
            return *id;
        }
        // A symbol without a size has its unwind row's.
        let end = bounds.end.or_else(|| {
            let (start, end) = self.elf(image)?.frame(bounds.start)?;
            (start == bounds.start).then_some(end)
        });
        let name = bounds
            .name
            .filter(|_| self.names)
            .unwrap_or_else(|| format!("{}+0x{:x}", self.short_name(image), bounds.start));
        let id = self.functions.len();
        self.functions.push(Function {
            image,
            start: Some(bounds.start),
            end,
            name,
        });
        self.by_start.insert((image, bounds.start), id);
        id
    }

    /// The stand-in for all code of an image without known bounds.
    fn unbounded(&mut self, image: usize) -> FunctionId {
        if let Some(id) = self.unbounded.get(&image) {
            return *id;
        }
        let id = self.functions.len();
        let name = match self.profile.images.get(image) {
            // In brackets the name says itself that it is no function.
            Some(row) if row.kind != ImageKind::File => row.path.clone(),
            _ => format!("[{}]", self.short_name(image)),
        };
        self.functions.push(Function {
            image,
            start: None,
            end: None,
            name,
        });
        self.unbounded.insert(image, id);
        id
    }
}

/// What is known of the function around an address.
#[derive(Debug, Clone)]
struct Bounds {
    start: u64,
    end: Option<u64>,
    name: Option<String>,
}

impl Bounds {
    fn covers(&self, address: u64) -> bool {
        self.start <= address && self.end.is_none_or(|end| address < end)
    }
}

fn short_name(image: &Image) -> String {
    let name = Path::new(&image.path)
        .file_name()
        .and_then(|name| name.to_str());
    name.unwrap_or(&image.path).to_owned()
}

fn symbolizer(code: bool) -> Symbolizer {
    Symbolizer::builder()
        .enable_code_info(code)
        .enable_inlined_fns(code)
        .enable_auto_reload(false)
        .build()
}

/// The image's file, if it is what was profiled; else a sentence why not.
fn verified(profile: &Profile, index: usize, image: &Image, path: &Path) -> Result<Elf, String> {
    let elf = fenced(|| Elf::open(path))
        .unwrap_or(Err(elf::ElfError::Foreign))
        .map_err(|error| error.to_string())?;
    match (&image.build_id, elf.build_id()) {
        (Some(profiled), Some(now)) if profiled == now => Ok(elf),
        (Some(_), _) => Err("the file is another build than the one profiled".to_owned()),
        (None, _) => {
            let mut compared = false;
            for pc in profile.pcs.iter().filter(|pc| pc.image == index) {
                let Some(bytes) = pc.bytes.as_deref().filter(|bytes| !bytes.is_empty()) else {
                    continue;
                };
                compared = true;
                if !elf
                    .bytes(pc.address)
                    .is_some_and(|code| code.starts_with(bytes))
                {
                    return Err("the file's code is not what was profiled".to_owned());
                }
            }
            if compared {
                Ok(elf)
            } else {
                Err("nothing tells whether the file is what was profiled".to_owned())
            }
        }
    }
}

/// Whether a file's sections are such that a library that adds up offsets and
/// allocates what a header asks for can be let at it.
fn is_plain(elf: &Elf) -> bool {
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

/// Looks addresses up in a file, first with its debug information, then, where
/// that is broken, without. `None` if nothing can be looked up.
fn symbolize<T>(
    symbolizer: &Symbolizer,
    path: &Path,
    addresses: &[u64],
    take: impl Fn(Option<&Sym<'_>>) -> T,
) -> Option<Vec<T>> {
    [true, false].into_iter().find_map(|debug_syms| {
        let mut source = ElfSource::new(path);
        source.debug_syms = debug_syms;
        let found: Vec<T> = fenced(|| {
            let found = symbolizer
                .symbolize(&Source::Elf(source), Input::VirtOffset(addresses))
                .ok()?;
            Some(found.iter().map(Symbolized::as_sym).map(&take).collect())
        })??;
        (found.len() == addresses.len()).then_some(found)
    })
}

fn bounds(symbol: &Sym<'_>) -> Bounds {
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

fn place(symbol: &Sym<'_>) -> Place {
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
