//! From addresses to functions: by what a file says, else by its bounds alone.

use profiledb::rows::ImageKind;

use super::{Function, FunctionId, Symbols};
use crate::symbolize::{self, Bounds};

impl Symbols<'_> {
    /// The functions around addresses of one image, in their order.
    pub(super) fn resolve(&mut self, image: usize, addresses: &[u64]) -> Vec<FunctionId> {
        let mut found: Vec<Option<Bounds>> = addresses
            .iter()
            .map(|address| self.stub(image, *address))
            .collect();
        // Symbol tables bound functions best. Debug information, which may be in a file of
        // its own, is asked where they say nothing.
        for debug in [false, true] {
            let missing: Vec<u64> = addresses
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_none())
                .map(|(address, _)| *address)
                .collect();
            let named = self.look_up(image, &missing, debug);
            let unnamed = found.iter_mut().filter(|found| found.is_none());
            for (found, named) in unnamed.zip(named) {
                *found = named;
            }
        }
        addresses
            .iter()
            .zip(found)
            .map(|(address, found)| {
                match found.or_else(|| self.bounds_without_library(image, *address)) {
                    Some(bounds) => self.intern(image, bounds),
                    None => self.unbounded(image),
                }
            })
            .collect()
    }

    /// What the symbol library says, as far as it agrees with the unwind table.
    fn look_up(&self, image: usize, addresses: &[u64], debug: bool) -> Vec<Option<Bounds>> {
        let path = self
            .images
            .get(image)
            .and_then(|names| names.path.as_deref());
        let found = match path {
            Some(path) if self.names && !addresses.is_empty() => {
                symbolize::bounds(&self.symbolizer, path, addresses, debug)
            }
            _ => None,
        };
        let Some(found) = found else {
            return vec![None; addresses.len()];
        };
        let elf = self.elf(image);
        addresses
            .iter()
            .zip(found)
            .map(|(address, found)| {
                let found = found?;
                let frame = elf.and_then(|elf| elf.frame(*address));
                match frame {
                    // Debug information gives a function in several pieces one start, which
                    // is that of none of them.
                    Some((start, end)) if debug || found.end.is_none() => {
                        let inside = start <= found.start && found.start <= *address;
                        match found.end {
                            Some(own) if inside && *address < own => Some(found),
                            _ if found.end.is_none() && found.start != start => None,
                            _ => Some(Bounds {
                                start,
                                end: Some(end),
                                name: found.name,
                            }),
                        }
                    }
                    // A symbol without size or unwind row is known to be at its start alone.
                    None if found.end.is_none() => (found.start == *address).then_some(found),
                    _ => Some(found).filter(|found| found.covers(*address)),
                }
            })
            .collect()
    }

    fn bounds_without_library(&self, image: usize, address: u64) -> Option<Bounds> {
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
        let name = name.unwrap_or_else(|| self.plain(image, bounds.start));
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
