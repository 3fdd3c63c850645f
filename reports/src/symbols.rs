//! Names and bounds of functions for the addresses of a profile.
//!
//! A file names an address only if it is still the image that was profiled: the
//! build id is the same or, where there is none, the content id, and every instruction
//! that the profile recorded stands in the file unchanged. Names are also those that
//! the collector wrote. An address without one is printed as `image+0xaddress`, and a
//! note says why.

pub(crate) mod data;
mod declared;
mod kept;
mod language;
mod lookup;
mod named;
mod stubs;
mod survey;
mod verified;

pub(crate) use kept::configure;
pub(crate) use named::name_files;
pub(crate) use stubs::{Offers, recall_targets};

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use profiledb::rows::{Image, ImageKind};
use profiledb::{Pc, Profile};
use symbols::{Functions, Room};

use crate::code::ProcessorMode;
use crate::debugfiles;
use crate::elf::{self, Elf};
use crate::guard::fenced;
use crate::liveness::Code;

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

/// What is between image and address of a function without a name.
pub(crate) const UNNAMED: &str = "!fn_";

/// Bytes of files that are held at a time.
pub(crate) const MAX_TOTAL: u64 = 2 << 30;

/// Index of a function in [`Symbols::functions`].
pub(crate) type FunctionId = usize;

/// Names for the addresses of one profile.
pub(crate) struct Symbols<'p> {
    profile: &'p Profile,
    names: bool,
    images: Vec<ImageNames>,
    functions: Vec<Function>,
    /// The function of each PC of the profile.
    of_pc: Vec<FunctionId>,
    by_start: BTreeMap<(usize, u64), FunctionId>,
    unbounded: BTreeMap<usize, FunctionId>,
    /// Of the addresses of PCs, by image.
    of_address: Vec<AddressFunctions>,
    /// Of other addresses that were asked for.
    around: BTreeMap<(usize, u64), FunctionId>,
    /// Why an image cannot name its code, by its index; the hottest come first.
    notes: Vec<(usize, String)>,
    /// For the pieces of files that are held.
    room: Room,
    /// See [`Symbols::offered`].
    offers: OnceCell<Offers>,
}

/// Addresses of an image in their order, and the function of each.
#[derive(Debug, Default)]
struct AddressFunctions {
    addresses: Vec<u64>,
    functions: Vec<FunctionId>,
}

impl Code for Symbols<'_> {
    fn elf(&self, image: usize) -> Option<&Elf> {
        Symbols::elf(self, image)
    }

    fn behind_stub(&self, image: usize, address: u64) -> Option<(usize, u64)> {
        let (_, _, name) = self.elf(image)?.plt(address)?;
        self.offered(name)
    }
}

/// Names by their starts: end and name.
type Stored = BTreeMap<u64, (Option<u64>, Arc<str>)>;

/// Where an image's names come from.
#[derive(Default)]
struct ImageNames {
    /// Read when it is asked for, and only if it is the one that was profiled.
    elf: OnceCell<Option<Elf>>,
    /// Its debug file, likewise.
    debug: OnceCell<Option<Elf>>,
    /// What the two name, likewise.
    functions: OnceCell<Option<Functions>>,
    /// Symbols of the profile itself or of an image in memory.
    table: Stored,
    /// The name that the file says to be known by, read when it is asked for.
    soname: OnceCell<Option<String>>,
}

impl<'p> Symbols<'p> {
    /// No name yet.
    fn empty(profile: &'p Profile) -> Symbols<'p> {
        let mut images = Vec::new();
        images.resize_with(profile.images.len(), ImageNames::default);
        Symbols {
            profile,
            names: false,
            images,
            functions: Vec::new(),
            of_pc: Vec::new(),
            by_start: BTreeMap::new(),
            unbounded: BTreeMap::new(),
            of_address: Vec::new(),
            around: BTreeMap::new(),
            notes: Vec::new(),
            room: Room::new(MAX_TOTAL),
            offers: OnceCell::new(),
        }
    }

    /// Names the PCs of a profile, in all its images or in those of `only`; without `names`,
    /// only bounds are looked for. Of the images one at a time is in memory. `offers` are those of
    /// the profile, if they are known already.
    pub(crate) fn new(
        profile: &'p Profile,
        names: bool,
        only: Option<&BTreeSet<usize>>,
        offers: Option<Offers>,
    ) -> Symbols<'p> {
        let mut symbols = Symbols {
            names,
            offers: offers.map(OnceCell::from).unwrap_or_default(),
            ..Symbols::empty(profile)
        };
        symbols
            .of_address
            .resize_with(profile.images.len(), AddressFunctions::default);
        let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); profile.images.len()];
        for pc in &profile.pcs {
            if let Some(of_image) = addresses.get_mut(pc.image) {
                of_image.push(pc.address);
            }
        }
        let mut wanted = Vec::new();
        for index in hottest_first(profile) {
            let addresses = addresses.get_mut(index).map(std::mem::take);
            let mut addresses = addresses.unwrap_or_default();
            if !addresses.is_empty() && only.is_none_or(|only| only.contains(&index)) {
                addresses.sort_unstable();
                addresses.dedup();
                wanted.push((index, addresses));
            }
        }
        let all = survey::look_at(profile, names, &wanted);
        for ((index, addresses), looked) in wanted.into_iter().zip(all) {
            let missing = looked.missing;
            if let Some(names) = symbols.images.get_mut(index) {
                names.table = looked.table;
                names.soname = OnceCell::from(looked.soname);
                if !looked.has_file {
                    names.elf = OnceCell::from(None);
                }
            }
            let functions = symbols.intern_all(index, looked.found);
            let is_named = functions.iter().all(|function| {
                let function = symbols.function(*function);
                function.is_some_and(|found| found.named || !names)
            });
            if let Some(known) = symbols.of_address.get_mut(index) {
                *known = AddressFunctions {
                    addresses,
                    functions,
                };
            }
            let path = profile
                .images
                .get(index)
                .map_or("", |image| image.path.as_str());
            let is_there = missing.is_some() && Path::new(path).is_file();
            if let Some(reason) = missing.filter(|_| !is_named || is_there) {
                let shown = match is_named {
                    true => "names are those that the collector wrote",
                    false => "its code is shown as addresses",
                };
                symbols
                    .notes
                    .push((index, format!("{path}: {reason}; {shown}")));
            }
        }
        symbols.of_pc = symbols.of_pcs();
        symbols
    }

    /// Whether names are looked for.
    pub(crate) fn has_names(&self) -> bool {
        self.names
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

    /// Whether the function of a PC is known to begin before it.
    pub(crate) fn is_within_function(&self, pc: usize) -> bool {
        let function = self.function_of(pc).and_then(|id| self.function(id));
        let start = function.and_then(|function| function.start);
        let address = self.profile.pcs.get(pc).map(|pc| pc.address);
        start.is_some_and(|start| address.is_some_and(|address| start < address))
    }

    /// The verified file of an image.
    pub(crate) fn elf(&self, image: usize) -> Option<&Elf> {
        let names = self.images.get(image)?;
        let read = || self.read(image).ok();
        names.elf.get_or_init(read).as_ref()
    }

    /// The debug file of an image, which may be there where the image's own file is not.
    pub(crate) fn debug(&self, image: usize) -> Option<&Elf> {
        let find = || {
            let row = self.profile.images.get(image)?;
            fenced(|| debugfiles::find(row, self.elf(image), &self.room))?
        };
        let names = self.images.get(image)?;
        names.debug.get_or_init(find).as_ref()
    }

    /// What the files of an image name, and the one of them that has its addresses.
    fn functions_of(&self, image: usize) -> Option<(&Functions, &Elf)> {
        let (own, debug) = (self.elf(image), self.debug(image));
        let elf = own.or(debug)?;
        let read = || {
            let beside = own.and(debug).map(Elf::binary);
            fenced(|| Functions::new(elf.binary(), beside))
        };
        let functions = self.images.get(image)?.functions.get_or_init(read);
        Some((functions.as_ref()?, elf))
    }

    /// Opens the file of an image; if there is none, a sentence why.
    fn read(&self, index: usize) -> Result<Elf, String> {
        let Some(image) = self.profile.images.get(index) else {
            return Err("no image of the profile".to_owned());
        };
        match image.kind {
            ImageKind::File => verified::open(self.profile, index, image, &self.room),
            ImageKind::Vdso => elf::own_vdso()
                .filter(|elf| {
                    elf.build_id().is_some() && elf.build_id() == image.build_id.as_deref()
                })
                .ok_or_else(|| "another kernel's".to_owned()),
            ImageKind::Kernel | ImageKind::Anon => Err("in no file".to_owned()),
        }
    }

    /// The mode that an image's code ran in.
    pub(crate) fn mode(&self, image: usize) -> ProcessorMode {
        let row = self.profile.images.get(image);
        let is_of_32_bits = row.is_some_and(Image::is_in_32_bit_mode)
            || self.elf(image).is_some_and(|elf| !elf.binary().is_64());
        match is_of_32_bits {
            true => ProcessorMode::Compatibility,
            false => ProcessorMode::Long,
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
                named,
                ..
            }) if *named || self.names => match address.wrapping_sub(*start) {
                0 => name.clone(),
                offset => format!("{name}+0x{offset:x}"),
            },
            _ => self.plain(image, address),
        }
    }

    /// The function around an address that need not be one of the profile's PCs.
    pub(crate) fn at(&mut self, image: usize, address: u64) -> Option<FunctionId> {
        // Not by the functions that are known: one may lie within another, as stubs do.
        let asked = self.around.get(&(image, address)).copied();
        if let Some(id) = asked.or_else(|| self.known(image, address)) {
            return Some(id);
        }
        let id = self.resolve(image, &[address]).first().copied()?;
        self.around.insert((image, address), id);
        Some(id)
    }

    /// The function around the address of a PC.
    fn known(&self, image: usize, address: u64) -> Option<FunctionId> {
        let AddressFunctions {
            addresses,
            functions,
        } = self.of_address.get(image)?;
        let place = addresses.binary_search(&address).ok()?;
        functions.get(place).copied()
    }

    /// The function of each PC of the profile.
    fn of_pcs(&mut self) -> Vec<FunctionId> {
        // PCs mostly lie in the order of their addresses.
        let profile = self.profile;
        let (mut image, mut place) = (0, 0);
        let function = |pc: &Pc| {
            if pc.image != image {
                (image, place) = (pc.image, 0);
            }
            let all = self.of_address.get(pc.image);
            let at_place = all.filter(|all| all.addresses.get(place) == Some(&pc.address));
            let next = at_place.and_then(|all| all.functions.get(place).copied());
            place += 1;
            let known = next.or_else(|| self.known(pc.image, pc.address));
            known.unwrap_or_else(|| self.unbounded(pc.image))
        };
        profile.pcs.iter().map(function).collect()
    }

    /// A short name for an image: its file name.
    pub(crate) fn short_name(&self, image: usize) -> String {
        match self.profile.images.get(image) {
            Some(image) => short_name(image),
            None => "?".to_owned(),
        }
    }

    /// Looks for an image's file; if it is none of use, a sentence why.
    fn open(&mut self, index: usize, image: &Image) -> Option<String> {
        let table = self.stored(index);
        let read = self.read(index);
        let names = self.images.get_mut(index)?;
        names.table = table;
        let (elf, reason) = match read {
            Ok(elf) => (Some(elf), None),
            Err(reason) => (None, Some(reason)),
        };
        names.elf = OnceCell::from(elf);
        reason.filter(|_| image.kind == ImageKind::File)
    }

    /// The symbols that the profile itself holds of an image.
    fn stored(&self, image: usize) -> Stored {
        self.profile
            .symbols
            .iter()
            .filter(|symbol| symbol.image == image)
            .map(|symbol| {
                let end = symbol
                    .address
                    .checked_add(symbol.size)
                    .filter(|_| symbol.size > 0);
                (symbol.address, (end, elf::demangle(&symbol.name).into()))
            })
            .collect()
    }
}

/// Images by what was sampled in them.
fn hottest_first(profile: &Profile) -> Vec<usize> {
    let samples = profile.totals.iter().map(|total| total.samples);
    let mut order: Vec<(u64, usize)> = samples
        .enumerate()
        .map(|(index, samples)| (samples, index))
        .collect();
    order.sort_by_key(|(samples, index)| (std::cmp::Reverse(*samples), *index));
    order.into_iter().map(|(_, index)| index).collect()
}

pub(crate) fn short_name(image: &Image) -> String {
    let name = Path::new(&image.path)
        .file_name()
        .and_then(|name| name.to_str());
    name.unwrap_or(&image.path).to_owned()
}
