//! The lines of a source file that a bundle has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{For, LARGEST, Sources};
use crate::listing;
use crate::view::View;

/// Lines of one file at most.
const MOST_LINES: usize = 4000;
/// Bytes of a line at most.
const WIDEST: usize = 400;
/// Bytes of the lines of all files together at most.
const ROOM: usize = 16 << 20;

/// Lines of a source file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Excerpts {
    /// By the number of the first, lines in a row.
    pub(super) rows: BTreeMap<u32, Vec<String>>,
}

impl Excerpts {
    /// Those that were written to a file; `None` if it has none.
    pub(super) fn read(path: &Path) -> Option<Excerpts> {
        let small = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= LARGEST);
        if !small {
            return None;
        }
        let mut text = Vec::new();
        File::open(path).ok()?.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// The lines around the code of a profile's hottest functions, by the files as debug information
/// names them: of files that may be handed on.
pub(crate) fn hottest(view: &View<'_>) -> BTreeMap<PathBuf, Excerpts> {
    let mut lines: BTreeMap<PathBuf, BTreeSet<u32>> = BTreeMap::new();
    let mut by_image: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for id in listing::hottest(view) {
        if let Some(function) = view.symbols.function(id) {
            let addresses = listing::lines(view, id);
            let addresses = addresses.into_iter().map(|line| line.address);
            by_image
                .entry(function.image)
                .or_default()
                .extend(addresses);
        }
    }
    for (image, addresses) in by_image {
        let addresses: Vec<u64> = addresses.into_iter().collect();
        for place in view.symbols.places(image, &addresses) {
            if let Some((file, line)) = place.file.zip(place.line) {
                lines.entry(file).or_default().insert(line);
            }
        }
    }
    let mut sources = Sources::new(For::Anybody);
    let mut left = ROOM;
    let mut all = BTreeMap::new();
    for (file, lines) in lines {
        let rows = sources.around(&file, Path::new(""), &lines, MOST_LINES);
        let cut = |line: String| match line.char_indices().nth(WIDEST) {
            Some((end, _)) => line.get(..end).unwrap_or_default().to_owned(),
            None => line,
        };
        let rows = rows.into_iter();
        let rows = rows.map(|(first, row)| (first, row.into_iter().map(cut).collect()));
        let rows: BTreeMap<u32, Vec<String>> = rows.collect();
        let bytes: usize = rows.values().flatten().map(String::len).sum();
        if rows.is_empty() || bytes > left {
            continue;
        }
        left -= bytes;
        all.insert(file, Excerpts { rows });
    }
    all
}
