//! What images tell of addresses: many images are looked at side by side, and what was read of one
//! goes before the next.

use std::cell::OnceCell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use profiledb::Profile;
use symbols::Room;

use super::{MAX_TOTAL, Stored, Symbols, kept, lookup};
use crate::symbolize::Bounds;

/// Images are looked at side by side.
const THREADS: usize = 2;

/// What looking at an image told.
#[derive(Default)]
pub(super) struct Looked {
    /// Of the functions around the addresses, each with how many of these in a row it is around.
    pub(super) found: Vec<(Option<Bounds>, usize)>,
    /// See [`super::ImageNames::table`].
    pub(super) table: Stored,
    /// A file tells of it.
    pub(super) has_file: bool,
    /// See [`super::ImageNames::soname`].
    pub(super) soname: Option<String>,
    /// Why the file is of no use.
    pub(super) missing: Option<String>,
}

/// Looks at images for the functions around addresses; in their order. One at a time is in memory
/// for each thread.
pub(super) fn look_at(profile: &Profile, names: bool, wanted: &[(usize, Vec<u64>)]) -> Vec<Looked> {
    let next = AtomicUsize::new(0);
    let look = || {
        let mut symbols = Symbols {
            names,
            room: Room::new(MAX_TOTAL / THREADS as u64),
            ..Symbols::empty(profile)
        };
        let mut looked = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some((index, addresses)) = wanted.get(place) else {
                return looked;
            };
            looked.push((place, symbols.look_at(*index, addresses)));
        }
    };
    let mut all: Vec<Looked> = Vec::new();
    all.resize_with(wanted.len(), Looked::default);
    thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS.min(wanted.len()))
            .map(|_| scope.spawn(look))
            .collect();
        let mut looked = look();
        for other in others {
            looked.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        for (place, of_image) in looked {
            if let Some(all) = all.get_mut(place) {
                *all = of_image;
            }
        }
    });
    all
}

impl Symbols<'_> {
    /// What an image tells of addresses; what was read of it is not kept.
    fn look_at(&mut self, index: usize, addresses: &[u64]) -> Looked {
        let Some(image) = self.profile.images.get(index) else {
            return Looked::default();
        };
        let place = kept::EntryFile::of(image).filter(|_| self.names);
        let known = place.as_ref().and_then(kept::EntryFile::read);
        if let Some(known) = &known
            && let Some(numbers) = known.all(addresses)
            // By its content id alone a file is told to be what was profiled with its code.
            && (image.build_id.is_some() || self.elf(index).is_some())
        {
            self.forget(index);
            let table = self.stored(index);
            let mut rest = addresses;
            let mut found = Vec::new();
            for same in numbers.chunk_by(|one, next| one == next) {
                let (of_same, others) = rest.split_at(same.len());
                rest = others;
                let function = same.first().and_then(|number| known.function(*number));
                found.extend(lookup::all_with_stored(&table, of_same, function));
            }
            return Looked {
                found,
                table,
                has_file: true,
                soname: known.soname.clone(),
                missing: None,
            };
        }
        let missing = self.open(index, image);
        let asked = self.ask_files(index, addresses);
        let (has_file, soname) = match self.elf(index) {
            Some(elf) => (true, elf.soname()),
            None => (false, None),
        };
        if let Some(place) = place.filter(|_| asked.may_be_kept)
            && let Some(elf) = self.elf(index)
        {
            // Who cannot keep it looks again.
            let _ = place.write(addresses, &asked.told, soname.clone(), elf.binary());
        }
        self.forget(index);
        let table = self.images.get_mut(index);
        let table = table.map(|names| std::mem::take(&mut names.table));
        let table = table.unwrap_or_default();
        let found = addresses.iter().zip(asked.told);
        let found = found.map(|(address, told)| lookup::with_stored(&table, *address, told));
        Looked {
            found: found.map(|found| (found, 1)).collect(),
            table,
            has_file,
            soname,
            missing,
        }
    }

    /// Frees what was read of an image; it is read again when it is asked for.
    fn forget(&mut self, image: usize) {
        if let Some(names) = self.images.get_mut(image) {
            names.functions = OnceCell::new();
            if names.debug.get().is_some_and(Option::is_some) {
                names.debug = OnceCell::new();
            }
            if names.elf.get().is_some_and(Option::is_some) {
                names.elf = OnceCell::new();
            }
        }
    }
}
