//! Which places in code a function's name on the command line means, from the images' own tables:
//! so a report of one function reads that function's rows alone.
//!
//! What is found here is enough: all functions of the name, or with such a part in their names, are
//! in it, and it may hold more. The view of what was read finds them again, exactly. Where a name
//! cannot be resolved so (it is a part of very many names, or may be one of names that stand in no
//! table), the places of all rows are read to find it.

mod address;
mod name;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use profiledb::rows::{Image, ImageKind};
use profiledb::{Places, Profile, SymbolRow};
use symbols::Room;

use self::address::AskedAddress;
use self::name::AskedName;
use crate::bundle;
use crate::debugfiles;
use crate::elf::{self, Elf};
use crate::guard::fenced;
use crate::images;
use crate::symbols::MAX_TOTAL;
use crate::view::select::hex;

/// Images are looked at side by side.
const THREADS: usize = 2;

/// Functions that have a part in their names, at most: of more, all rows are read as fast.
const MOST_OF_PART: usize = 256;

/// Where functions of this name may be in images of the databases; with `stubs` also the PLT stubs
/// that lead there. `None`: it cannot be told so.
pub(crate) fn places(
    paths: &[PathBuf],
    name: &str,
    only: &[String],
    stubs: bool,
) -> Option<Places> {
    look(&AskedName::new(name, stubs)?, paths, only)
}

/// Where functions may be in whose names this is, and the PLT stubs that lead there; of an address
/// those around it. `None`: it cannot be told so.
pub(crate) fn places_of_part(paths: &[PathBuf], name: &str, only: &[String]) -> Option<Places> {
    if let Some(address) = hex(name) {
        return look(&AskedAddress::new(address), paths, only);
    }
    let places = look(&AskedName::of_part(name)?, paths, only)?;
    (places.iter().count() <= MOST_OF_PART).then_some(places)
}

/// What is looked for in images.
trait Asked: Sync {
    /// Whether images are looked at whose own functions are not asked for.
    fn in_others(&self) -> bool;

    /// Adds what the names say that the collector wrote.
    fn look_at_stored(&self, image: &Image, symbols: &[&SymbolRow], places: &mut Places);

    /// Adds what an image's files say, if there are any.
    fn look_at_file(
        &self,
        image: &Image,
        files: Option<&Files>,
        is_wanted: bool,
        places: &mut Places,
    );
}

fn look(asked: &impl Asked, paths: &[PathBuf], only: &[String]) -> Option<Places> {
    let outline = Profile::outline(paths).ok()?;
    let wanted = images::meant(&outline.images, only);
    let mut stored: BTreeMap<usize, Vec<&SymbolRow>> = BTreeMap::new();
    for symbol in &outline.symbols {
        stored.entry(symbol.image).or_default().push(symbol);
    }
    let look = |part: usize| {
        let room = Room::new(MAX_TOTAL / THREADS as u64);
        let mut places = Places::default();
        let images = outline.images.iter().enumerate();
        for (index, image) in images.skip(part).step_by(THREADS) {
            let is_wanted = only.is_empty() || wanted.iter().any(|name| image.is_named(name));
            if !is_wanted && !asked.in_others() {
                continue;
            }
            let stored = stored.get(&index).map(Vec::as_slice).unwrap_or_default();
            asked.look_at_stored(image, stored, &mut places);
            let looked = fenced(|| {
                let files = Files::of(image, &room);
                asked.look_at_file(image, files.as_ref(), is_wanted, &mut places);
            });
            // What cannot be parsed may be anywhere.
            if looked.is_none() {
                places.add_all(image);
            }
        }
        places
    };
    let mut places = Places::default();
    thread::scope(|scope| {
        let look = &look;
        let parts = (0..THREADS).map(|part| scope.spawn(move || look(part)));
        // One that panicked has said so, and all is read then.
        for found in parts
            .collect::<Vec<_>>()
            .into_iter()
            .map(|part| part.join())
        {
            places.add_places(&found.ok()?);
        }
        Some(())
    })?;
    (!places.is_empty()).then_some(places)
}

/// Whether such a file is the one that was profiled shows in all of its code.
fn is_told_by_code(image: &Image) -> bool {
    image.build_id.is_none() && image.content_id().is_none()
}

/// Where a function ends, as the names say that the collector wrote: one without a size reaches to
/// the next.
fn end_of(symbols: &[&SymbolRow], index: usize) -> u64 {
    let next = || symbols.get(index + 1).map(|next| next.address);
    match symbols.get(index) {
        Some(symbol) if symbol.size > 0 => symbol.address.saturating_add(symbol.size),
        _ => next().unwrap_or(u64::MAX),
    }
}

/// An image's file, or its debug file where that is gone.
struct Files {
    elf: Elf,
    /// The debug file, if it is another.
    debug: Option<Elf>,
}

impl Files {
    /// Those that are of an image as it was profiled, as far as that can be told.
    fn of(image: &Image, room: &Room) -> Option<Files> {
        let path = bundle::image_file(image);
        let path = path.as_path();
        let own = match image.kind {
            ImageKind::File => Elf::open(path, room).ok(),
            ImageKind::Vdso => elf::own_vdso(),
            ImageKind::Kernel | ImageKind::Anon => None,
        };
        let own = own.filter(|own| match &image.build_id {
            Some(profiled) => own.build_id() == Some(profiled),
            None => true,
        });
        let own = own.or_else(|| debugfiles::executable(image, room));
        let debug = debugfiles::find(image, own.as_ref(), room);
        match own {
            Some(elf) => Some(Files { elf, debug }),
            None => Some(Files {
                elf: debug?,
                debug: None,
            }),
        }
    }
}

fn add_stubs(image: &Image, elf: &Elf, places: &mut Places) {
    for (start, end) in elf.stub_sections() {
        places.add(image, start, end);
    }
}
