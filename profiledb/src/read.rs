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
mod file;
mod order;
mod referred;
mod regions;
mod rows;
mod source;
mod stacks;
mod sums;
mod taken;
mod unpacked;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use crate::Error;
use crate::open::{self, wal_of};
use crate::profile::{Filter, Outline, Profile, SymbolRow};
use crate::rollup::Moment;
use selection::Kinds;

use builder::Builder;
use file::Budget;
pub(crate) use file::File;
pub(crate) use order::sort_pcs;
pub(crate) use referred::{Place, Referred};
pub(crate) use source::{Slices, Source, Table};

/// Reads all files that `paths` stand for, but for those of a directory that cannot be read
/// while others of it can: these come back as errors.
pub(crate) fn load(
    paths: &[&Path],
    filter: &Filter,
    kinds: Kinds,
) -> Result<(Profile, Vec<Error>), Error> {
    for _ in 0..TRIES {
        let mut moment = Moment::default();
        let loaded = load_inputs(files(paths, &mut moment)?, filter, kinds);
        if moment.is_the_same() {
            return loaded;
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
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
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

/// Files that are read at a time, at most.
const MOST_THREADS: usize = 4;

/// What is read of each of some files, in their order.
fn side_by_side(inputs: &[Input], filter: &Filter, kinds: Kinds) -> Vec<Result<Builder, Error>> {
    let read = |input: &Input| {
        let mut builder = Builder::new(filter);
        read(&input.path, filter, kinds, &mut builder).map(|()| builder)
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
pub(crate) fn outline(paths: &[&Path]) -> Result<Outline, Error> {
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

fn read(path: &Path, filter: &Filter, kinds: Kinds, builder: &mut Builder) -> Result<(), Error> {
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
    }
    .read()
}

/// A file to read.
struct Input {
    path: PathBuf,
    /// By the caller; else it is one of a directory.
    named: bool,
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
            files.push(Input { path, named: true });
            continue;
        }
        let found = moment.add(&path)?;
        if found.is_empty() {
            return Err(Error::NoDatabase { path });
        }
        files.extend(found.into_iter().map(|path| Input { path, named: false }));
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
