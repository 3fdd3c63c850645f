//! From addresses to functions: by what a file says, else by its bounds alone.

use profiledb::rows::ImageKind;

use super::{Function, FunctionId, Symbols, UNNAMED};
use crate::elf;
use crate::guard::fenced;
use crate::symbolize::{self, Bounds};

impl Symbols<'_> {
    /// The functions around addresses of one image, in their order.
    pub(super) fn resolve(&mut self, image: usize, addresses: &[u64]) -> Vec<FunctionId> {
        let found = self.bounds(image, addresses);
        self.intern_all(image, found)
    }

    /// Those that these bounds are of.
    pub(super) fn intern_all(
        &mut self,
        image: usize,
        found: Vec<Option<Bounds>>,
    ) -> Vec<FunctionId> {
        let known = |found: Option<Bounds>| match found {
            Some(bounds) => self.intern(image, bounds),
            None => self.unbounded(image),
        };
        found.into_iter().map(known).collect()
    }

    /// What is known of the functions around addresses of one image, in their order.
    pub(super) fn bounds(&self, image: usize, addresses: &[u64]) -> Vec<Option<Bounds>> {
        let mut found: Vec<Option<Bounds>> = addresses
            .iter()
            .map(|address| self.stub(image, *address))
            .collect();
        if let Some((functions, elf)) = self.functions_of(image).filter(|_| self.names) {
            // Symbol tables bound functions best. Debug information is asked where they say
            // nothing.
            let symbol = |address: &u64| {
                let found = functions.find(elf.binary(), *address)?;
                Some(Bounds {
                    start: found.start,
                    end: Some(found.end),
                    name: Some(elf::demangle(&found.name)),
                })
            };
            for (address, found) in addresses.iter().zip(&mut found) {
                *found = found
                    .take()
                    .or_else(|| fenced(|| symbol(address)).flatten());
            }
            let missing: Vec<u64> = addresses
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_none())
                .map(|(address, _)| *address)
                .collect();
            let declared = self.declared_bounds(image, &missing);
            let unnamed = found.iter_mut().filter(|found| found.is_none());
            for (found, declared) in unnamed.zip(declared) {
                *found = declared;
            }
        }
        for (address, found) in addresses.iter().zip(&mut found) {
            *found = found.take().or_else(|| self.stored_bounds(image, *address));
        }
        found
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

    fn stored_bounds(&self, image: usize, address: u64) -> Option<Bounds> {
        let names = self.images.get(image)?;
        if let Some((start, (end, name))) = names.table.range(..=address).next_back() {
            // A symbol without a size reaches up to the next.
            let next = names.table.range(address.saturating_add(1)..).next();
            let end = end.or(next.map(|(next, _)| *next));
            if end.is_none_or(|end| address < end) {
                return Some(Bounds {
                    start: *start,
                    end,
                    name: Some(name.clone()),
                });
            }
        }
        let (start, end) = self.elf(image)?.frame(address)?;
        Some(Bounds {
            start,
            end: Some(end),
            name: None,
        })
    }

    pub(super) fn intern(&mut self, image: usize, bounds: Bounds) -> FunctionId {
        if let Some(id) = self.by_start.get(&(image, bounds.start)) {
            return *id;
        }
        let name = bounds.name.filter(|_| self.names);
        let named = name.is_some();
        let name = name.unwrap_or_else(|| match self.names {
            true => self.unnamed(image, bounds.start),
            false => self.plain(image, bounds.start),
        });
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
    pub(super) fn plain(&self, image: usize, address: u64) -> String {
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
