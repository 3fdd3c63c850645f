//! Functions that were looked up before, kept in a folder of the reader's own.
//!
//! Symbol tables of large programs take longer to read than most reports do. An entry is of one
//! build id, or of one content id where there is none, and has the functions around addresses that
//! reports were about. It counts while the image's file, and every place where its debug file may
//! be, are as they were; and whoever may have changed it is its owner. Whatever else an entry is,
//! it is as if there were none.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use profiledb::rows::{Image, ImageKind};
use serde::{Deserialize, Serialize};
use symbols::{Binary, debug_places};
use tempfile::NamedTempFile;

use super::lookup::Told;
use crate::symbolize::Bounds;
use crate::{bundle, debuginfod};

/// How an entry begins: the form that it has.
const MAGIC: [u8; 8] = *b"vcpifn\x00\x03";
/// How the id begins of what has a content id alone. Such an entry says nothing of whether the file
/// is what was profiled.
const CONTENT: &str = "content-";
/// Bytes before what the checksum is of.
const HEAD: usize = MAGIC.len() + 4;
/// Tables of smaller files are read as fast.
const LEAST_FILE: u64 = 256 << 10;
/// Bytes of an entry at most.
const MOST_BYTES: u64 = 16 << 20;
/// Addresses of an entry at most.
const MOST_ADDRESSES: usize = 500_000;
/// Bytes of all entries at most; those that were written longest ago go first.
const MOST_IN_ALL: u64 = 128 << 20;
/// What changed so short a while ago may change again without a trace.
const SETTLED: Duration = Duration::from_secs(2);

static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Settles whether anything is kept in this run; nothing is before that.
pub(crate) fn configure(allowed: bool) {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let folder = || {
        let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(variable("HOME")?.join(".cache")))?;
        Some(base.join("vcpi").join("functions"))
    };
    FOLDER.get_or_init(|| folder().filter(|folder| allowed && folder.is_absolute()));
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Print {
    device: u64,
    inode: u64,
    size: u64,
    /// Nanoseconds of the Unix epoch, as those below.
    modified: i128,
    changed: i128,
}

impl Print {
    /// That of what is at a path; `None`: there is nothing to be seen.
    fn of(path: &Path) -> Option<Print> {
        Some(Print::new(&fs::metadata(path).ok()?))
    }

    fn new(metadata: &Metadata) -> Print {
        let time = |seconds: i64, nanoseconds: i64| {
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
        };
        Print {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// An entry. Functions are told by their places in `functions`, from 1 on; 0 is none.
#[derive(Debug, Serialize, Deserialize)]
struct KeptSymbols {
    /// The program that wrote it.
    version: String,
    /// Or the content id.
    build_id: String,
    path: PathBuf,
    own: Print,
    /// Where the debug file may be, and what is there.
    beside: Vec<(PathBuf, Option<Print>)>,
    soname: Option<String>,
    functions: Vec<KeptFunction>,
    /// How much further each address is than the one before.
    steps: Vec<u64>,
    function_of: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct KeptFunction {
    start: u64,
    end: Option<u64>,
    name: Option<String>,
    is_frame: bool,
}

/// What an entry tells.
#[derive(Debug)]
pub(super) struct Remembered {
    /// Addresses in their order, each with its function in `functions`, as in [`KeptSymbols`].
    addresses: Vec<(u64, usize)>,
    functions: Vec<Told>,
    /// The name that the file says to be known by.
    pub(super) soname: Option<String>,
}

impl Remembered {
    /// The numbers of the functions around addresses, if all of these are known.
    pub(super) fn all(&self, addresses: &[u64]) -> Option<Vec<usize>> {
        // One is mostly behind the other here as there.
        let mut next = 0;
        let number = |wanted: &u64| {
            let is_next = self.addresses.get(next).is_some_and(|(at, _)| at == wanted);
            if !is_next {
                let place = self.addresses.binary_search_by_key(wanted, |(at, _)| *at);
                next = place.ok()?;
            }
            let (_, number) = self.addresses.get(next)?;
            next += 1;
            Some(*number)
        };
        addresses.iter().map(number).collect()
    }

    /// A function by its number; `None`: it is that of no function.
    pub(super) fn function(&self, number: usize) -> Option<Told> {
        self.functions.get(number.checked_sub(1)?).cloned()
    }

    /// The function of each address.
    fn by_address(&self) -> BTreeMap<u64, Option<Told>> {
        let known = self.addresses.iter();
        known
            .map(|(at, number)| (*at, self.function(*number)))
            .collect()
    }
}

/// Where what is known of an image is kept.
#[derive(Debug)]
pub(super) struct EntryFile {
    folder: PathBuf,
    build_id: String,
    path: PathBuf,
    own: Print,
    begun: SystemTime,
}

impl EntryFile {
    /// That of an image; `None`: nothing is kept of it.
    pub(super) fn of(image: &Image) -> Option<EntryFile> {
        let folder = FOLDER.get()?.as_deref()?;
        EntryFile::within(folder, image).filter(|_| !debuginfod::is_asked())
    }

    fn within(folder: &Path, image: &Image) -> Option<EntryFile> {
        let digits = image.build_id.as_deref().or(image.content_id())?;
        let is_plain = (8..=128).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let build_id = match image.build_id {
            Some(_) => digits.to_owned(),
            None => format!("{CONTENT}{digits}"),
        };
        let path = PathBuf::from(&image.path);
        if image.kind != ImageKind::File || !is_plain || bundle::image_file(image) != path {
            return None;
        }
        let own = Print::of(&path).filter(|own| own.size >= LEAST_FILE)?;
        Some(EntryFile {
            folder: folder.to_owned(),
            build_id,
            path,
            own,
            begun: SystemTime::now(),
        })
    }

    fn entry(&self) -> PathBuf {
        self.folder.join(&self.build_id)
    }

    /// What is known, if that still holds.
    pub(super) fn read(&self) -> Option<Remembered> {
        let entry = self.load()?;
        let is_as_it_was = |(path, was): &(PathBuf, Option<Print>)| Print::of(path) == *was;
        let holds = entry.version == env!("CARGO_PKG_VERSION")
            && entry.build_id == self.build_id
            && entry.path == self.path
            && entry.own == self.own
            && entry.beside.iter().all(is_as_it_was)
            && entry.steps.len() == entry.function_of.len();
        if !holds {
            return None;
        }
        let mut addresses = Vec::with_capacity(entry.steps.len());
        let mut address = 0_u64;
        for (step, number) in entry.steps.iter().zip(entry.function_of) {
            address = address.checked_add(*step)?;
            let number = usize::try_from(number).ok()?;
            if number > entry.functions.len() {
                return None;
            }
            addresses.push((address, number));
        }
        Some(Remembered {
            addresses,
            functions: entry
                .functions
                .into_iter()
                .map(KeptFunction::told)
                .collect(),
            soname: entry.soname,
        })
    }

    fn load(&self) -> Option<KeptSymbols> {
        let is_ours = |metadata: &Metadata| {
            metadata.uid() == nix::unistd::geteuid().as_raw() && metadata.mode() & 0o022 == 0
        };
        if !is_ours(&fs::symlink_metadata(&self.folder).ok()?) {
            return None;
        }
        let path = self.entry();
        let listed = fs::symlink_metadata(&path).ok()?;
        if !listed.is_file() || !is_ours(&listed) || listed.len() > MOST_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        let file = File::open(&path).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        unpacked(&bytes)
    }

    /// Keeps the functions around some addresses, beside what is known already.
    pub(super) fn write(
        &self,
        addresses: &[u64],
        told: &[Option<Told>],
        soname: Option<String>,
        binary: &Binary,
    ) -> Option<()> {
        let known = self.read();
        let mut all = known.map(|known| known.by_address()).unwrap_or_default();
        if all.len().saturating_add(addresses.len()) > MOST_ADDRESSES {
            all.clear();
        }
        all.extend(addresses.iter().copied().zip(told.iter().cloned()));
        if all.len() > MOST_ADDRESSES {
            return None;
        }
        let places = debug_places(binary, &self.path).into_iter();
        let beside: Vec<_> = places
            .map(|path| (path.clone(), Print::of(&path)))
            .collect();
        // What was read was there before, and is still.
        let settled = self.begun.checked_sub(SETTLED)?;
        let settled = settled.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let settled = i128::try_from(settled.as_nanos()).ok()?;
        let prints = beside.iter().filter_map(|(_, print)| *print);
        let mut prints = prints.chain([self.own]);
        if Print::of(&self.path) != Some(self.own) || prints.any(|of| of.changed > settled) {
            return None;
        }
        let entry = KeptSymbols::new(self, beside, soname, &all);
        let bytes = packed(&entry)?;
        if bytes.len() as u64 > MOST_BYTES {
            return None;
        }
        let mut folder = DirBuilder::new();
        folder
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .ok()?;
        make_room(&self.folder, bytes.len() as u64);
        let mut file = NamedTempFile::new_in(&self.folder).ok()?;
        file.write_all(&bytes).ok()?;
        file.persist(self.entry()).ok()?;
        Some(())
    }
}

impl KeptSymbols {
    fn new(
        place: &EntryFile,
        beside: Vec<(PathBuf, Option<Print>)>,
        soname: Option<String>,
        all: &BTreeMap<u64, Option<Told>>,
    ) -> KeptSymbols {
        let mut numbers: BTreeMap<KeptFunction, u32> = BTreeMap::new();
        let (mut steps, mut function_of) = (Vec::new(), Vec::new());
        let mut last = 0;
        for (address, told) in all {
            steps.push(address - last);
            last = *address;
            let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
            let function = told.as_ref().map(KeptFunction::of);
            let number = function.map(|function| *numbers.entry(function).or_insert(next));
            function_of.push(number.unwrap_or(0));
        }
        let mut functions: Vec<(KeptFunction, u32)> = numbers.into_iter().collect();
        functions.sort_unstable_by_key(|(_, number)| *number);
        KeptSymbols {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build_id: place.build_id.clone(),
            path: place.path.clone(),
            own: place.own,
            beside,
            soname,
            functions: functions
                .into_iter()
                .map(|(function, _)| function)
                .collect(),
            steps,
            function_of,
        }
    }
}

impl KeptFunction {
    fn of(told: &Told) -> KeptFunction {
        let Bounds { start, end, name } = told.bounds.clone();
        KeptFunction {
            start,
            end,
            name: name.as_deref().map(str::to_owned),
            is_frame: told.is_frame,
        }
    }

    fn told(self) -> Told {
        Told {
            bounds: Bounds {
                start: self.start,
                end: self.end,
                name: self.name.map(Arc::from),
            },
            is_frame: self.is_frame,
        }
    }
}

fn packed(entry: &KeptSymbols) -> Option<Vec<u8>> {
    let content = postcard::to_stdvec(entry).ok()?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(crc32fast::hash(&content).to_le_bytes());
    bytes.extend(content);
    Some(bytes)
}

fn unpacked(bytes: &[u8]) -> Option<KeptSymbols> {
    let (head, content) = bytes.split_at_checked(HEAD)?;
    let (magic, sum) = head.split_at_checked(MAGIC.len())?;
    let is_whole = magic == MAGIC && sum == crc32fast::hash(content).to_le_bytes();
    is_whole.then(|| postcard::from_bytes(content).ok())?
}

/// Removes what was written longest ago, until there is room for so many bytes.
fn make_room(folder: &Path, bytes: u64) {
    let Ok(listed) = fs::read_dir(folder) else {
        return;
    };
    let file = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
        Some((metadata.modified().ok()?, metadata.len(), entry.path()))
    };
    let mut files: Vec<_> = listed.filter_map(|entry| file(entry.ok()?)).collect();
    files.sort_unstable();
    let mut all: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if all.saturating_add(bytes) <= MOST_IN_ALL {
            return;
        }
        // Who cannot remove it has more than there should be.
        let _ = fs::remove_file(path);
        all -= length;
    }
}

#[cfg(test)]
mod tests;
