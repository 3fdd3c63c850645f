//! Lines of source files for a page.
//!
//! A page is made to be handed on, and debug information may name any file. So a page has lines of
//! files alone that everybody may read, or that belong to whoever writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Lines around those with instructions that are shown with them.
const AROUND: u32 = 3;
/// Lines of a function's source at most.
const MOST: usize = 600;
/// Characters of a line at most.
const WIDEST: usize = 300;
/// Largest file that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// Lines in a row of a file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Excerpt {
    /// Index of the file.
    file: usize,
    /// Number of the first line.
    first: u32,
    lines: Vec<String>,
}

/// Source files, read once.
#[derive(Debug, Default)]
pub(super) struct Sources {
    files: BTreeMap<PathBuf, Vec<String>>,
}

impl Sources {
    /// The lines of a file around some of them.
    pub(super) fn around(
        &mut self,
        file: &Path,
        index: usize,
        lines: &BTreeSet<u32>,
    ) -> Vec<Excerpt> {
        let text = self
            .files
            .entry(file.to_owned())
            .or_insert_with(|| read(file));
        let mut excerpts: Vec<Excerpt> = Vec::new();
        let mut left = MOST;
        for (first, last) in ranges(lines) {
            let from = usize::try_from(first).unwrap_or(usize::MAX) - 1;
            let to = usize::try_from(last).unwrap_or(usize::MAX).min(text.len());
            let Some(lines) = text.get(from..to).filter(|lines| !lines.is_empty()) else {
                continue;
            };
            let lines: Vec<String> = lines.iter().take(left).cloned().collect();
            left -= lines.len();
            excerpts.push(Excerpt {
                file: index,
                first,
                lines,
            });
            if left == 0 {
                break;
            }
        }
        excerpts
    }
}

/// The lines around some, first and last of each row of them.
fn ranges(lines: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        let (first, last) = (
            line.saturating_sub(AROUND).max(1),
            line.saturating_add(AROUND),
        );
        match ranges.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = last,
            _ => ranges.push((first, last)),
        }
    }
    ranges
}

fn read(file: &Path) -> Vec<String> {
    let Ok(metadata) = fs::metadata(file) else {
        return Vec::new();
    };
    // What is no text on a disk says that it has no length.
    if !may_be_handed_on(&metadata) || !(1..=LARGEST).contains(&metadata.len()) {
        return Vec::new();
    }
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines();
    lines
        .map(|line| line.chars().take(WIDEST).collect())
        .collect()
}

/// Whether everybody may read a file, or it is our own. What belongs to root is not root's own
/// text by that.
fn may_be_handed_on(metadata: &Metadata) -> bool {
    const OTHERS_READ: u32 = 0o004;
    let user = nix::unistd::geteuid();
    let is_own = !user.is_root() && metadata.uid() == user.as_raw();
    metadata.is_file() && (metadata.mode() & OTHERS_READ != 0 || is_own)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Lines near each other are one excerpt.
    #[test]
    fn ranges_of_lines() {
        assert_eq!(ranges(&BTreeSet::from([2, 9, 20])), [(1, 12), (17, 23)]);
        assert_eq!(ranges(&BTreeSet::from([u32::MAX])).len(), 1);
    }

    /// What others may not read is in no page that root writes.
    #[test]
    fn files_for_some_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        fs::write(&file, "one\ntwo\n").expect("written");
        let lines = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("changed");
            Sources::default().around(&file, 0, &BTreeSet::from([1]))
        };
        let all = Excerpt {
            file: 0,
            first: 1,
            lines: vec!["one".to_owned(), "two".to_owned()],
        };
        assert_eq!(lines(0o644), [all]);
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(lines(0o600).is_empty(), is_root);
        assert!(
            Sources::default()
                .around(folder.path(), 0, &BTreeSet::from([1]))
                .is_empty()
        );
    }
}
