//! From addresses to functions: by what a file says, else by its bounds alone.

use profiledb::rows::ImageKind;

use super::{Function, FunctionId, Stored, Symbols, UNNAMED};
use crate::elf;
use crate::guard::fenced;
use crate::symbolize::{self, Bounds};

/// What files say of the function around an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) bounds: Bounds,
    /// A row of the unwind table is all that there is.
    pub(super) is_frame: bool,
}

/// What files say of the functions around some addresses.
pub(super) struct LookedUp {
    pub(super) told: Vec<Option<Told>>,
    /// It follows from the image's file and its debug file alone.
    pub(super) may_be_kept: bool,
}

/// What is known of the function around an address: what files name, else a name that is stored,
/// else what files tell without a name.
pub(super) fn with_stored(table: &Stored, address: u64, told: Option<Told>) -> Option<Bounds> {
    match told {
        Some(Told {
            bounds,
            is_frame: false,
        }) => Some(bounds),
        other => stored_bounds(table, address).or_else(|| Some(other?.bounds)),
    }
}

/// As [`with_stored`], of addresses of which files tell the same; each with how many in a row it is
/// of.
pub(super) fn all_with_stored(
    table: &Stored,
    addresses: &[u64],
    told: Option<Told>,
) -> Vec<(Option<Bounds>, usize)> {
    match told {
        Some(Told {
            bounds,
            is_frame: false,
        }) => vec![(Some(bounds), addresses.len())],
        other => {
            let addresses = addresses.iter();
            let found = addresses.map(|address| with_stored(table, *address, other.clone()));
            found.map(|found| (found, 1)).collect()
        }
    }
}

fn stored_bounds(table: &Stored, address: u64) -> Option<Bounds> {
    let (start, (end, name)) = table.range(..=address).next_back()?;
    // A symbol without a size reaches up to the next.
    let next = table.range(address.saturating_add(1)..).next();
    let end = end.or(next.map(|(next, _)| *next));
    end.is_none_or(|end| address < end).then(|| Bounds {
        start: *start,
        end,
        name: Some(name.clone()),
    })
}

impl Symbols<'_> {
    /// The functions around addresses of one image, in their order.
    pub(super) fn resolve(&mut self, image: usize, addresses: &[u64]) -> Vec<FunctionId> {
        let found = self.bounds(image, addresses);
        self.intern_all(image, found.into_iter().map(|found| (found, 1)))
    }

    /// Those that these bounds are of, each as often as is said.
    pub(super) fn intern_all(
        &mut self,
        image: usize,
        found: impl IntoIterator<Item = (Option<Bounds>, usize)>,
    ) -> Vec<FunctionId> {
        // Addresses next to each other are mostly of one function.
        let mut last: Option<(u64, FunctionId)> = None;
        let mut all = Vec::new();
        for (bounds, count) in found {
            let id = match (bounds, last) {
                (None, _) => self.unbounded(image),
                (Some(bounds), Some((of, id))) if of == bounds.start => id,
                (Some(bounds), _) => {
                    let start = bounds.start;
                    let id = self.intern(image, bounds);
                    last = Some((start, id));
                    id
                }
            };
            all.extend(std::iter::repeat_n(id, count));
        }
        all
    }

    /// The name of the function around an address, with how far it is into it, where there is code
    /// and a name.
    pub(crate) fn name_at(&self, image: usize, address: u64) -> Option<String> {
        let is_code = |elf: &elf::Elf| {
            let mut segments = elf.binary().segments().iter();
            segments.any(|of| of.executable && address.wrapping_sub(of.address) < of.file_size)
        };
        if !self.names || self.elf(image).is_some_and(|elf| !is_code(elf)) {
            return None;
        }
        let bounds = self.bounds(image, &[address]).pop().flatten()?;
        let name = bounds.name?;
        match address.wrapping_sub(bounds.start) {
            0 => Some(name.to_string()),
            offset => Some(format!("{name}+0x{offset:x}")),
        }
    }

    /// What is known of the functions around addresses of one image, in their order.
    fn bounds(&self, image: usize, addresses: &[u64]) -> Vec<Option<Bounds>> {
        let told = self.ask_files(image, addresses).told;
        let nothing = Stored::new();
        let table = self
            .images
            .get(image)
            .map_or(&nothing, |names| &names.table);
        let told = addresses.iter().zip(told);
        told.map(|(address, told)| with_stored(table, *address, told))
            .collect()
    }

    /// What the files of an image say of the functions around addresses, in their order.
    pub(super) fn ask_files(&self, image: usize, addresses: &[u64]) -> LookedUp {
        let mut may_be_kept = true;
        let mut found: Vec<Option<Bounds>> = addresses
            .iter()
            .map(|address| self.stub(image, *address))
            .collect();
        if let Some((functions, elf)) = self.functions_of(image).filter(|_| self.names) {
            // Symbol tables bound functions best. Debug information is asked where they say
            // nothing. Addresses next to each other are mostly of one function, whose name is
            // made readable once.
            let mut last: Option<(symbols::Function, Bounds)> = None;
            let mut symbol = |address: &u64| {
                let found = fenced(|| functions.find(elf.binary(), *address)).flatten()?;
                if let Some((known, bounds)) = &last
                    && *known == found
                {
                    return Some(bounds.clone());
                }
                let bounds = Bounds {
                    start: found.start,
                    end: Some(found.end),
                    name: Some(fenced(|| elf::demangle(&found.name))?.into()),
                };
                last = Some((found, bounds.clone()));
                Some(bounds)
            };
            for (address, found) in addresses.iter().zip(&mut found) {
                *found = found.take().or_else(|| symbol(address));
            }
            let missing: Vec<u64> = addresses
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_none())
                .map(|(address, _)| *address)
                .collect();
            let declared = self.declared_bounds(image, &missing);
            // Debug information may lie in further files.
            may_be_kept = declared.iter().all(Option::is_none);
            let unnamed = found.iter_mut().filter(|found| found.is_none());
            for (found, declared) in unnamed.zip(declared) {
                *found = declared;
            }
        }
        let elf = self.elf(image);
        let frame = |address: u64| {
            let (start, end) = elf?.frame(address)?;
            let bounds = Bounds {
                start,
                end: Some(end),
                name: None,
            };
            Some(Told {
                bounds,
                is_frame: true,
            })
        };
        let told = addresses.iter().zip(found);
        let told = told.map(|(address, found)| match found {
            Some(bounds) => Some(Told {
                bounds,
                is_frame: false,
            }),
            None => frame(*address),
        });
        LookedUp {
            told: told.collect(),
            may_be_kept,
        }
    }

    /// What debug information says, with the bounds of the unwind table where that has some.
    fn declared_bounds(&self, image: usize, addresses: &[u64]) -> Vec<Option<Bounds>> {
        let mut found = vec![None; addresses.len()];
        if addresses.is_empty() {
            return found;
        }
        for file in self.elf(image).into_iter().chain(self.debug(image)) {
            for (found, declared) in found.iter_mut().zip(symbolize::bounds(file, addresses)) {
                *found = found.take().or(declared);
            }
        }
        let elf = self.elf(image);
        for (address, found) in addresses.iter().zip(&mut found) {
            if let Some(bounds) = found
                && let Some((start, end)) = elf.and_then(|elf| elf.frame(*address))
            {
                (bounds.start, bounds.end) = (start, Some(end));
            }
        }
        found
    }

    pub(super) fn intern(&mut self, image: usize, bounds: Bounds) -> FunctionId {
        if let Some(id) = self.by_start.get(&(image, bounds.start)) {
            return *id;
        }
        let name = bounds.name.filter(|_| self.names);
        let named = name.is_some();
        let name = match name {
            Some(name) => name.to_string(),
            None if self.names => self.unnamed(image, bounds.start),
            None => self.plain(image, bounds.start),
        };
        let id = self.functions.len();
        let (start, end) = (Some(bounds.start), bounds.end);
        self.functions.push(Function {
            image,
            start,
            end,
            name,
            named,
        });
        self.by_start.insert((image, bounds.start), id);
        id
    }

    /// What stands for the name of a function of which only the bounds are known:
    /// `image!fn_address`, with the name by which other programs ask for the image. That stays as
    /// it is when a library's file gets the name of its next release.
    fn unnamed(&self, image: usize, start: u64) -> String {
        let soname = self.images.get(image).and_then(|names| {
            let read = || self.elf(image)?.soname();
            names.soname.get_or_init(read).as_deref()
        });
        match soname {
            Some(soname) => format!("{soname}{UNNAMED}{start:x}"),
            None => format!("{}{UNNAMED}{start:x}", self.short_name(image)),
        }
    }

    /// An address as `image+0xaddress`.
    pub(crate) fn plain(&self, image: usize, address: u64) -> String {
        format!("{}+0x{address:x}", self.short_name(image))
    }

    /// The stand-in for all code of an image without known bounds.
    pub(super) fn unbounded(&mut self, image: usize) -> FunctionId {
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
            named: false,
        });
        self.unbounded.insert(image, id);
        id
    }
}
