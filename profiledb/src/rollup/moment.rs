//! The databases of a directory as they are at one moment, for whoever reads them one by one.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::Identity;
use crate::{Error, open};

/// The databases of directories, by name, without those that others of them were made of.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    files: Vec<(PathBuf, Option<Identity>)>,
}

impl Moment {
    /// Adds the databases of a directory. Returns them in the order of their names.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn add(&mut self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let failed = |error| Error::io(directory, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "db") {
                paths.push(path);
            }
        }
        paths.sort();
        // What is put in their place from now on is seen to be something else.
        for path in &paths {
            self.files.push((path.clone(), Identity::of(path).ok()));
        }
        if paths.len() > 1 {
            let mut joined = HashSet::new();
            for path in &paths {
                joined.extend(names(path).into_iter().map(|name| directory.join(name)));
            }
            paths.retain(|path| !joined.contains(path));
        }
        Ok(paths)
    }

    /// Whether all files that were there are still the same. If not, files may have been joined
    /// meanwhile: then some of them may have been read together with what was made of them, or
    /// neither of the two.
    pub fn is_the_same(&self) -> bool {
        let same = |(path, identity): &(PathBuf, Option<Identity>)| {
            identity.is_none() || Identity::of(path).ok() == *identity
        };
        self.files.iter().all(same)
    }
}

/// Names of the files that this one was made of. Whoever reads it tells what is the matter with it.
fn names(path: &Path) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags);
    let names = conn.and_then(|conn| {
        open::harden(&conn)?;
        open::names_of_joined(&conn)
    });
    names.unwrap_or_default()
}
