//! Names and bounds of functions for the addresses of a profile.
//!
//! A file names an address only if it is still the image that was profiled: the
//! build id is the same or, where there is none, every instruction that the
//! profile recorded stands in the file unchanged. Otherwise the address is
//! printed as `image+0xaddress` and a note says why.

mod declared;
mod language;
mod lookup;
mod stubs;

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use blazesym::symbolize::Symbolizer;
use profiledb::Profile;
use profiledb::rows::{Image, ImageKind};

use crate::elf::{self, Elf};
use crate::guard::fenced;
use crate::liveness::Code;
use crate::symbolize::{self, Place};

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
    /// The name is one.
    pub(crate) named: bool,
}

/// What is behind the name of a PLT stub's target.
pub(crate) const STUB: &str = "@plt";

/// Bytes of images that are held at a time.
const MAX_TOTAL: u64 = 2 << 30;

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
    /// Why an image cannot name its code, by its index; the hottest come first.
    notes: Vec<(usize, String)>,
    /// Left for the bytes of images that stay in memory.
    room: Cell<u64>,
    /// See [`Symbols::offers`].
    offers: OnceCell<BTreeMap<String, Option<(usize, u64)>>>,
}

impl Code for Symbols<'_> {
    fn elf(&self, image: usize) -> Option<&Elf> {
        Symbols::elf(self, image)
    }

    fn behind_stub(&self, image: usize, address: u64) -> Option<(usize, u64)> {
        let (_, _, name) = self.elf(image)?.plt(address)?;
        *self.offers().get(name)?
    }
}

/// Where an image's names come from.
#[derive(Default)]
struct ImageNames {
    /// Read when it is asked for, and only if it is the one that was profiled.
    elf: OnceCell<Option<Elf>>,
    /// The image file as a symbol library reads it; only if it was verified.
    path: Option<PathBuf>,
    /// Symbols of the profile itself or of an image in memory: start to (end, name).
    table: BTreeMap<u64, (Option<u64>, String)>,
}

impl<'p> Symbols<'p> {
    /// Names the PCs of a profile, in all its images or in those of `only`; without `names`,
    /// only bounds are looked for. Of the images one at a time is in memory.
    pub(crate) fn new(
        profile: &'p Profile,
        names: bool,
        only: Option<&BTreeSet<usize>>,
    ) -> Symbols<'p> {
        let mut symbols = Symbols {
            profile,
            names,
            symbolizer: symbolize::symbolizer(false),
            images: Vec::new(),
            functions: Vec::new(),
            of_pc: Vec::new(),
            by_start: BTreeMap::new(),
            unbounded: BTreeMap::new(),
            notes: Vec::new(),
            room: Cell::new(MAX_TOTAL),
            offers: OnceCell::new(),
        };
        let mut addresses: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); profile.images.len()];
        for pc in &profile.pcs {
            if let Some(of_image) = addresses.get_mut(pc.image) {
                of_image.insert(pc.address);
            }
        }
        let mut known: BTreeMap<(usize, u64), FunctionId> = BTreeMap::new();
        symbols
            .images
            .resize_with(profile.images.len(), ImageNames::default);
        for index in hottest_first(profile) {
            let Some(image) = profile.images.get(index) else {
                continue;
            };
            let addresses: Vec<u64> = addresses
                .get(index)
                .map(|set| set.iter().copied().collect())
                .unwrap_or_default();
            if addresses.is_empty() || only.is_some_and(|only| !only.contains(&index)) {
                continue;
            }
            let names = symbols.open(index, image);
            if let Some(slot) = symbols.images.get_mut(index) {
                *slot = names;
            }
            for (address, function) in addresses.iter().zip(symbols.resolve(index, &addresses)) {
                known.insert((index, *address), function);
            }
            symbols.forget(index);
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

    /// The name of the function that begins at a PC.
    pub(crate) fn name_of_entry(&self, pc: usize) -> String {
        let bounded = self
            .function_of(pc)
            .and_then(|id| self.function(id)?.start)
            .is_some();
        match self.profile.pcs.get(pc) {
            Some(pc) if !bounded => self.plain(pc.image, pc.address),
            _ => self.name_of(pc),
        }
    }

    /// The verified file of an image.
    pub(crate) fn elf(&self, image: usize) -> Option<&Elf> {
        let names = self.images.get(image)?;
        let read = || {
            let elf = self.read(image, self.room.get()).ok()?;
            let left = self.room.get().saturating_sub(elf.data().len() as u64);
            self.room.set(left);
            Some(elf)
        };
        names.elf.get_or_init(read).as_ref()
    }

    /// Reads the file of an image of no more than `room` bytes; if there is none, a sentence why.
    fn read(&self, index: usize, room: u64) -> Result<Elf, String> {
        let Some(image) = self.profile.images.get(index) else {
            return Err("no image of the profile".to_owned());
        };
        match image.kind {
            ImageKind::File => verified(self.profile, index, image, Path::new(&image.path), room),
            ImageKind::Vdso => elf::own_vdso()
                .filter(|elf| {
                    elf.build_id().is_some() && elf.build_id() == image.build_id.as_deref()
                })
                .ok_or_else(|| "another kernel's".to_owned()),
            ImageKind::Kernel | ImageKind::Anon => Err("in no file".to_owned()),
        }
    }

    /// Frees what was read of an image; it is read again when it is asked for.
    fn forget(&mut self, image: usize) {
        self.symbolizer = symbolize::symbolizer(false);
        if let Some(names) = self.images.get_mut(image)
            && names.elf.get().is_some_and(Option::is_some)
        {
            names.elf = OnceCell::new();
        }
    }

    /// What the reader should know about names that are missing, one line for an image.
    pub(crate) fn notes(&self) -> &[(usize, String)] {
        &self.notes
    }

    /// An address of an image as `function`, `function+0xoffset`, or `image+0xaddress`.
    pub(crate) fn describe(&mut self, image: usize, address: u64) -> String {
        let id = self.at(image, address);
        self.described(id, image, address)
    }

    /// A PC of the profile as [`Symbols::describe`] has it.
    pub(crate) fn name_of_pc(&self, pc: usize) -> String {
        match self.profile.pcs.get(pc) {
            Some(at) => self.described(self.function_of(pc), at.image, at.address),
            None => "?".to_owned(),
        }
    }

    fn described(&self, id: Option<FunctionId>, image: usize, address: u64) -> String {
        match id.and_then(|id| self.function(id)) {
            Some(Function {
                start: Some(start),
                name,
                named: true,
                ..
            }) => match address.wrapping_sub(*start) {
                0 => name.clone(),
                offset => format!("{name}+0x{offset:x}"),
            },
            _ => self.plain(image, address),
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

    /// Source places of addresses of one image, in their order.
    pub(crate) fn places(&self, image: usize, addresses: &[u64]) -> Vec<Place> {
        let path = self
            .images
            .get(image)
            .and_then(|names| names.path.as_deref());
        path.filter(|_| self.names && !addresses.is_empty())
            .and_then(|path| symbolize::places(path, addresses))
            .unwrap_or_else(|| vec![Place::default(); addresses.len()])
    }

    /// A short name for an image: its file name.
    pub(crate) fn short_name(&self, image: usize) -> String {
        match self.profile.images.get(image) {
            Some(image) => short_name(image),
            None => "?".to_owned(),
        }
    }

    /// Looks for an image's names.
    fn open(&mut self, index: usize, image: &Image) -> ImageNames {
        let mut names = ImageNames {
            table: self.stored(index),
            ..ImageNames::default()
        };
        let elf = match self.read(index, MAX_TOTAL) {
            Ok(elf) => elf,
            Err(reason) => {
                if image.kind == ImageKind::File {
                    let note = format!("{}: {reason}; its code is shown as addresses", image.path);
                    self.notes.push((index, note));
                }
                names.elf = OnceCell::from(None);
                return names;
            }
        };
        if image.kind == ImageKind::File {
            names.path = symbolize::is_plain(&elf).then(|| PathBuf::from(&image.path));
        } else {
            let symbols = elf.symbols().into_iter().map(|(start, size, name)| {
                let end = start.checked_add(size).filter(|_| size > 0);
                (start, (end, elf::demangle(&name)))
            });
            names.table.extend(symbols);
        }
        names.elf = OnceCell::from(Some(elf));
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
}

/// Images by what was sampled in them.
fn hottest_first(profile: &Profile) -> Vec<usize> {
    let mut samples = vec![0_u64; profile.images.len()];
    for row in &profile.cycles {
        let image = profile.pcs.get(row.pc).map(|pc| pc.image);
        if let Some(sum) = image.and_then(|image| samples.get_mut(image)) {
            *sum = sum.saturating_add(row.samples);
        }
    }
    let mut order: Vec<(u64, usize)> = samples
        .into_iter()
        .enumerate()
        .map(|(index, samples)| (samples, index))
        .collect();
    order.sort_by_key(|(samples, index)| (std::cmp::Reverse(*samples), *index));
    order.into_iter().map(|(_, index)| index).collect()
}

fn short_name(image: &Image) -> String {
    let name = Path::new(&image.path)
        .file_name()
        .and_then(|name| name.to_str());
    name.unwrap_or(&image.path).to_owned()
}

/// The image's file, if it is what was profiled; else a sentence why not.
fn verified(
    profile: &Profile,
    index: usize,
    image: &Image,
    path: &Path,
    room: u64,
) -> Result<Elf, String> {
    let elf = fenced(|| Elf::open(path, room))
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
