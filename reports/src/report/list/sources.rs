//! Lines of source files, for the listing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::symbolize::Place;

/// Source files, read once.
#[derive(Default)]
pub(in crate::report) struct Sources {
    files: BTreeMap<PathBuf, Vec<String>>,
}

impl Sources {
    /// Largest source file that is read, in bytes.
    const MAX: u64 = 16 << 20;

    /// The line at a place, if there is something on it.
    pub(in crate::report) fn at(&mut self, place: &Place) -> Option<String> {
        let (file, line) = place.file.as_deref().zip(place.line)?;
        let lines = self
            .files
            .entry(file.to_owned())
            .or_insert_with(|| read(file));
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let line = lines.get(index).filter(|line| !line.is_empty());
        line.cloned()
    }
}

/// The lines of a source file. What debug information names need not be a file, or small.
fn read(file: &Path) -> Vec<String> {
    let small = std::fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && (1..=Sources::MAX).contains(&metadata.len()));
    let text = match small {
        true => std::fs::read(file).unwrap_or_default(),
        false => Vec::new(),
    };
    let text = String::from_utf8_lossy(&text);
    text.lines().map(|line| line.trim().to_owned()).collect()
}
