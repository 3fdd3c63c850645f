//! From the tables of files to a [`Profile`].
//!
//! Each table is gone through once, in the order in which it lies in the file and
//! without its indices: a damaged index cannot hide or repeat rows. The trees of a
//! hostile file may contain one page many times, so what is read in total is held
//! against the size of the file.

mod builder;
mod file;
mod referred;
mod rows;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::open::{self, wal_of};
use crate::profile::{Filter, Profile};

use builder::Builder;
use file::Budget;
pub(crate) use file::File;
pub(crate) use referred::{Place, Referred};

/// Reads all files that `paths` stand for.
pub(crate) fn load(paths: &[&Path], filter: &Filter) -> Result<Profile, Error> {
    let mut builder = Builder::default();
    for path in files(paths)? {
        let conn = open::for_reading(&path)?;
        let budget = Budget::of(size(&path)?);
        File {
            path: &path,
            conn: &conn,
            filter,
            builder: &mut builder,
            budget,
        }
        .read()?;
    }
    Ok(builder.finish())
}

/// The files themselves: directories replaced by their databases, doubles left out.
fn files(paths: &[&Path]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        let path = open::absolute(path)?;
        if !fs::metadata(&path)
            .map_err(|e| Error::io(&path, e))?
            .is_dir()
        {
            files.push(path);
            continue;
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&path).map_err(|e| Error::io(&path, e))? {
            let entry = entry.map_err(|e| Error::io(&path, e))?.path();
            if entry.extension().is_some_and(|extension| extension == "db") {
                found.push(entry);
            }
        }
        if found.is_empty() {
            return Err(Error::NoDatabase { path });
        }
        found.sort();
        files.extend(found);
    }
    let mut seen = HashSet::new();
    let mut distinct = Vec::new();
    for path in files {
        let metadata = fs::metadata(&path).map_err(|e| Error::io(&path, e))?;
        if seen.insert((metadata.dev(), metadata.ino())) {
            distinct.push(path);
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
