//! Debug information that a compiler left beside the program (`-gsplit-dwarf`): in a package at the
//! program's path with `.dwp` behind it, else in the objects that the program names.
//!
//! A file counts only if it has the unit that is asked for, by its id.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage, DwoId, SectionId};
use symbols::{Binary, Room};
use typed_arena::Arena;

use crate::sections::{Slice, slice};

/// Bytes of such files that are read in all.
const MAX_TOTAL: u64 = 1 << 30;
/// Objects that are looked at in all.
const MAX_FILES: usize = 4096;

/// What was read of such files; it outlives what the parsers make of it.
#[derive(Default)]
pub(crate) struct Store(Arena<Vec<u8>>);

/// The files of one image.
pub(crate) struct Split<'s> {
    store: &'s Store,
    room: Room,
    package: Option<DwarfPackage<Slice<'s>>>,
    objects: RefCell<HashMap<DwoId, Option<Arc<Dwarf<Slice<'s>>>>>>,
}

impl<'s> Split<'s> {
    /// Those of an image that was read from a file.
    pub(crate) fn new(store: &'s Store, image: Option<&Path>) -> Split<'s> {
        let room = Room::new(MAX_TOTAL);
        let package = image.and_then(|image| {
            let mut path = OsString::from(image);
            path.push(".dwp");
            let binary = Binary::open(Path::new(&path), &room).ok()?;
            let load = |id: SectionId| Ok::<_, gimli::Error>(store.section(&binary, id));
            DwarfPackage::load(load, slice(&[])).ok()
        });
        Split {
            store,
            room,
            package,
            objects: RefCell::default(),
        }
    }

    /// The unit that a program refers to.
    pub(crate) fn load(&self, wanted: &SplitDwarfLoad<Slice<'s>>) -> Option<Arc<Dwarf<Slice<'s>>>> {
        let id = wanted.dwo_id;
        if let Some(known) = self.objects.borrow().get(&id) {
            return known.clone();
        }
        if self.objects.borrow().len() >= MAX_FILES {
            return None;
        }
        let packed = || {
            let found = self.package.as_ref()?.find_cu(id, &wanted.parent).ok()??;
            Some(Arc::new(found))
        };
        let found = packed().or_else(|| self.object(wanted));
        self.objects.borrow_mut().insert(id, found.clone());
        found
    }

    fn object(&self, wanted: &SplitDwarfLoad<Slice<'s>>) -> Option<Arc<Dwarf<Slice<'s>>>> {
        let folder = wanted.comp_dir.map(|folder| path(&folder));
        let name = path(wanted.path.as_ref()?);
        let path = folder.unwrap_or_default().join(name);
        let binary = Binary::open(&path, &self.room).ok()?;
        let load = |id: SectionId| Ok::<_, gimli::Error>(self.store.section(&binary, id));
        let mut dwarf = Dwarf::load(load).ok()?;
        let mut units = dwarf.units();
        let is_there = loop {
            let Ok(Some(header)) = units.next() else {
                break false;
            };
            let unit = dwarf.unit(header).ok();
            if unit.is_some_and(|unit| unit.dwo_id == Some(wanted.dwo_id)) {
                break true;
            }
        };
        is_there.then(|| {
            dwarf.make_dwo(&wanted.parent);
            Arc::new(dwarf)
        })
    }
}

impl Store {
    fn section(&self, binary: &Binary, id: SectionId) -> Slice<'_> {
        let bytes = id.dwo_name().and_then(|name| binary.section(name));
        slice(self.0.alloc(bytes.unwrap_or_default().into_owned()))
    }
}

fn path(name: &Slice<'_>) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name.slice()))
}
