//! From the tables of files to a [`Profile`].
//!
//! Each table is gone through once, in the order in which it lies in the file and
//! without its indices: a damaged index cannot hide or repeat rows. Who asks for some kinds of
//! rows or for some places has the index of chunks used (`asked`): damage of that may hide rows
//! then. The trees of a
//! hostile file may contain one page many times, so what is read in total is held
//! against the size of the file.

mod asked;
mod builder;
mod chunks;
mod doubles;
mod file;
mod instructions;
mod lists;
mod order;
mod pcs;
mod referred;
mod regions;
mod rows;
mod source;
mod stacks;
mod sums;
mod taken;
mod transfers;
mod unpacked;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use crate::Error;
use crate::directory::Directory;
use crate::filter::Filter;
use crate::open::{self, wal_of};
use crate::profile::{Outline, Profile, SymbolRow};
use crate::rollup::Moment;
use selection::Kinds;

use builder::Builder;
use file::Budget;
pub(crate) use file::File;
pub(crate) use referred::{Referred, RowIndices};
pub(crate) use source::{Slices, Source, Table};

impl Profile {
    /// Reads databases: files, and directories, of which every `*.db` is read. A file that
    /// is named twice is read once.
    ///
    /// Each file is read in one transaction, so a collector that is at work at the same
    /// time is seen between two of its flushes.
    ///
    /// # Errors
    /// Whatever keeps any of the files from being read in full: there are no partial
    /// profiles. Damage is found as far as it makes rows contradict each other.
    pub fn load(paths: &[PathBuf], filter: &Filter) -> Result<Profile, Error> {
        let (profile, mut left_out) = Profile::load_readable(paths, filter)?;
        match left_out.pop() {
            Some(error) => Err(error),
            None => Ok(profile),
        }
    }

    /// As [`Profile::load`], but for the databases of a directory that cannot be read: nothing
    /// of these is in the profile, and why comes with it.
    ///
    /// # Errors
    /// What keeps a file that is named from being read, or all of a directory.
    pub fn load_readable(
        paths: &[PathBuf],
        filter: &Filter,
    ) -> Result<(Profile, Vec<Error>), Error> {
        Profile::load_kinds(paths, filter, Kinds::default())
    }

    /// As [`Profile::load_readable`], of some tables alone; what is not read is not looked at
    /// for damage either. The counter of samples is always read.
    ///
    /// # Errors
    /// As those of [`Profile::load_readable`].
    pub fn load_kinds(
        paths: &[PathBuf],
        filter: &Filter,
        kinds: Kinds,
    ) -> Result<(Profile, Vec<Error>), Error> {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        load(&paths, filter, kinds)
    }

    /// The images and names of databases, as far as they can be read.
    ///
    /// # Errors
    /// If there is nothing to be read.
    pub fn outline(paths: &[PathBuf]) -> Result<Outline, Error> {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        outline(&paths)
    }
}

/// Reads all files that `paths` stand for, but for those of a directory that cannot be read
/// while others of it can: these come back as errors.
fn load(paths: &[&Path], filter: &Filter, kinds: Kinds) -> Result<(Profile, Vec<Error>), Error> {
    for _ in 0..TRIES {
        let mut moment = Moment::default();
        let mut inputs = files(paths, &mut moment)?;
        let doubled = doubles::leave_out(&mut inputs);
        let mut loaded = load_inputs(inputs, filter, kinds);
        if let Ok((profile, _)) = &mut loaded {
            profile.doubled = doubled;
        }
        if moment.is_the_same() {
            let (profile, mut left_out) = loaded?;
            for path in paths.iter().filter(|path| path.is_dir()) {
                left_out.extend(Directory::new(path)?.set_aside_before()?);
            }
            return Ok((profile, left_out));
        }
    }
    let path = paths
        .first()
        .map_or_else(PathBuf::new, |path| path.to_path_buf());
    Err(Error::Busy { path })
}

/// How often files are read again that were rolled up meanwhile.
const TRIES: u32 = 100;

fn load_inputs(
    inputs: Vec<Input>,
    filter: &Filter,
    kinds: Kinds,
) -> Result<(Profile, Vec<Error>), Error> {
    let mut builder = Builder::new(filter);
    let mut left_out = Vec::new();
    let mut in_directories = (0, 0);
    let threads = at_a_time(filter, kinds);
    // What was read of some files is put together before others are read: so it takes no more room
    // than it needs.
    for some in inputs.chunks(threads) {
        for (Input { named, .. }, read) in some.iter().zip(side_by_side(some, filter, kinds)) {
            if !named {
                in_directories.0 += 1;
                in_directories.1 += usize::from(read.is_ok());
            }
            match read {
                Ok(read) => builder.absorb(read),
                Err(error) if *named => return Err(error),
                Err(error) => left_out.push(error),
            }
        }
    }
    match left_out.pop() {
        // Of all that there was, nothing can be read.
        Some(error) if in_directories.1 == 0 => Err(error),
        last => {
            left_out.extend(last);
            Ok((builder.finish(), left_out))
        }
    }
}

/// Threads that work side by side, at most.
const MOST_THREADS: usize = 4;

/// How many threads work side by side.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS))
}

/// How many files are read side by side. What each has takes room beside what all of them have: of
/// what is much, those are fewer. Each has a second thread that unpacks.
fn at_a_time(filter: &Filter, kinds: Kinds) -> usize {
    let has_callers = kinds.cycles && filter.apart.has_callers();
    let has_lists = kinds.values && filter.parameters.is_empty();
    let is_of_all = filter.places.is_none() && !filter.only_places;
    match is_of_all && (has_callers || has_lists) {
        true => (threads() / 2).max(1),
        false => threads(),
    }
}

/// What is read of each of some files, in their order.
fn side_by_side(inputs: &[Input], filter: &Filter, kinds: Kinds) -> Vec<Result<Builder, Error>> {
    let read = |input: &Input| {
        let mut builder = Builder::new(filter);
        read(input, filter, kinds, &mut builder).map(|()| builder)
    };
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let spawn = |input| scope.spawn(move || read(input));
        let others: Vec<_> = others.iter().map(spawn).collect();
        let mut all = vec![read(first)];
        for other in others {
            all.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    })
}

/// The images and names of all files that `paths` stand for and that can be read.
fn outline(paths: &[&Path]) -> Result<Outline, Error> {
    let mut outline = Outline::default();
    let mut known = HashMap::new();
    let mut symbols = BTreeMap::new();
    let filter = Filter::default();
    let mut builder = Builder::new(&filter);
    for Input { path, .. } in files(paths, &mut Moment::default())? {
        let mut read = || {
            let conn = open::for_reading(&path)?;
            let file = File {
                path: &path,
                conn: &conn,
                filter: &filter,
                kinds: Kinds::default(),
                builder: &mut builder,
                budget: Budget::of(size(&path)?),
                slice: None,
                without: &[],
            };
            file.read_outline()
        };
        // Whoever reads the rows hears of it.
        let Ok((images, names)) = read() else {
            continue;
        };
        for (image, names) in images.into_iter().zip(names) {
            let key = (image.kind, image.identity.clone(), image.path.clone());
            let images = &mut outline.images;
            let index = *known.entry(key).or_insert_with(|| {
                images.push(image);
                images.len() - 1
            });
            for (address, size, name) in names {
                symbols.entry((index, address)).or_insert((size, name));
            }
        }
    }
    let symbol = |((image, address), (size, name))| SymbolRow {
        image,
        address,
        size,
        name,
    };
    outline.symbols = symbols.into_iter().map(symbol).collect();
    Ok(outline)
}

fn read(input: &Input, filter: &Filter, kinds: Kinds, builder: &mut Builder) -> Result<(), Error> {
    let path = &input.path;
    let conn = open::for_reading(path)?;
    let budget = Budget::of(size(path)?);
    File {
        path,
        conn: &conn,
        filter,
        kinds,
        builder,
        budget,
        slice: None,
        without: &input.without,
    }
    .read()
}

/// A file to read.
struct Input {
    path: PathBuf,
    /// By the caller; else it is one of a directory.
    named: bool,
    /// Epochs that are read in another file.
    without: Vec<i64>,
}

impl Input {
    fn new(path: PathBuf, named: bool) -> Input {
        Input {
            path,
            named,
            without: Vec::new(),
        }
    }
}

/// The files themselves: directories replaced by their databases, doubles left out.
fn files(paths: &[&Path], moment: &mut Moment) -> Result<Vec<Input>, Error> {
    let mut files = Vec::new();
    for path in paths {
        let path = open::absolute(path)?;
        if !fs::metadata(&path)
            .map_err(|e| Error::io(&path, e))?
            .is_dir()
        {
            files.push(Input::new(path, true));
            continue;
        }
        let found = moment.add(&path)?;
        if found.is_empty() {
            return Err(Error::NoDatabase { path });
        }
        files.extend(found.into_iter().map(|path| Input::new(path, false)));
    }
    let mut seen = HashSet::new();
    let mut distinct = Vec::new();
    for input in files {
        let is_new = match fs::metadata(&input.path) {
            Ok(metadata) => seen.insert((metadata.dev(), metadata.ino())),
            // Opening it will say so, too.
            Err(_) => true,
        };
        if is_new {
            distinct.push(input);
        }
    }
    Ok(distinct)
}

/// Bytes of a database with its write-ahead log.
fn size(path: &Path) -> Result<u64, Error> {
    let main = fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    let wal = fs::metadata(wal_of(path)).map_or(0, |metadata| metadata.len());
    Ok(main.saturating_add(wal))
}
