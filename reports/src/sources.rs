//! Lines of source files, read once: from a bundle, from where debug information says, or from
//! beside the image.
//!
//! Debug information may name any file. What shows lines to whoever asked may read all that they
//! may; pages and bundles are made to be handed on, and have lines of files alone that everybody
//! may read, or that belong to whoever writes them.

mod excerpts;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::bundle;
use crate::symbolize::SourcePlace;

pub(crate) use self::excerpts::{Excerpts, hottest};

/// Files that are told as missing before the rest is only counted.
const MOST_TOLD: usize = 4;
/// Folders above an image's in which sources are looked for.
const FOLDERS: usize = 3;
/// Largest file that is read, in bytes.
const LARGEST: u64 = 16 << 20;
/// Lines around those with instructions that are shown with them.
const AROUND: u32 = 3;

/// Whose eyes lines are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Whoever runs this.
    Reader,
    /// Whoever gets what is written.
    Anybody,
}

/// Source files, read once.
#[derive(Debug)]
pub(crate) struct Sources {
    shown_to: For,
    files: BTreeMap<PathBuf, SourceFile>,
}

/// A source file.
#[derive(Debug, Default)]
struct SourceFile {
    /// By the number of the first, lines in a row.
    rows: BTreeMap<u32, Vec<String>>,
    /// Where it was found, if elsewhere than debug information says.
    elsewhere: Option<PathBuf>,
    /// The program that is older than it.
    newer_than: Option<PathBuf>,
}

impl Sources {
    /// None yet.
    pub(crate) fn new(shown_to: For) -> Sources {
        Sources {
            shown_to,
            files: BTreeMap::new(),
        }
    }

    /// A source file, where it is not for somebody else's image; it is empty if there is none.
    fn file(&mut self, file: &Path, image: &Path) -> &SourceFile {
        let shown_to = self.shown_to;
        let find = || SourceFile::find(file, image, shown_to);
        self.files.entry(file.to_owned()).or_insert_with(find)
    }

    /// The line at a place of an image, if there is something on it.
    pub(crate) fn at(&mut self, place: &SourcePlace, image: &Path) -> Option<String> {
        let (file, line) = place.file.as_deref().zip(place.line)?;
        let text = self.file(file, image).line(line)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// So many lines of a file of an image around some of them, at most: by the number of the
    /// first, lines in a row.
    pub(crate) fn around(
        &mut self,
        file: &Path,
        image: &Path,
        lines: &BTreeSet<u32>,
        most: usize,
    ) -> Vec<(u32, Vec<String>)> {
        let source = self.file(file, image);
        let mut rows: Vec<(u32, Vec<String>)> = Vec::new();
        let mut left = most;
        for (first, last) in ranges(lines) {
            for number in first..=last {
                let Some(text) = source.line(number) else {
                    // A file ends, while an excerpt has gaps.
                    if source.is_over(number) {
                        break;
                    }
                    continue;
                };
                if left == 0 {
                    return rows;
                }
                left -= 1;
                let follows = |(from, row): &&mut (u32, Vec<String>)| {
                    usize::try_from(number - *from) == Ok(row.len())
                };
                match rows.last_mut().filter(follows) {
                    Some((_, row)) => row.push(text.to_owned()),
                    None => rows.push((number, vec![text.to_owned()])),
                }
            }
        }
        rows
    }

    /// What is to be said of the files: those that were not found, and those found elsewhere, which
    /// may be of another version.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let missing = self.files.iter().filter(|(_, of)| of.rows.is_empty());
        let missing: Vec<&PathBuf> = missing.map(|(path, _)| path).collect();
        for path in missing.iter().take(MOST_TOLD) {
            notes.push(format!(
                "no source {}: neither there nor beside the image",
                path.display()
            ));
        }
        if let Some(more) = missing
            .len()
            .checked_sub(MOST_TOLD)
            .filter(|more| *more > 0)
        {
            let files = crate::render::counted(more as u64, "more source file");
            notes.push(format!("{files} not found"));
        }
        for (path, source) in &self.files {
            if let Some(found) = &source.elsewhere {
                notes.push(format!(
                    "lines of {} are those of {}, which may be another version",
                    path.display(),
                    found.display()
                ));
            }
        }
        notes.extend(self.edited());
        notes
    }

    /// That files were changed after their programs were built, so that other text may stand now
    /// where the instructions are.
    pub(crate) fn edited(&self) -> Vec<String> {
        let newer = self.files.iter();
        let newer = newer.filter_map(|(path, source)| Some((path, source.newer_than.as_ref()?)));
        let note = |(path, program): (&PathBuf, &PathBuf)| {
            format!(
                "{} is newer than {}: its lines may have moved",
                path.display(),
                program.display()
            )
        };
        newer.map(note).collect()
    }
}

impl SourceFile {
    /// The file as a bundle has it, or where debug information says; for who asks himself, also
    /// relative to the image: what was built elsewhere may have its sources beside it.
    fn find(file: &Path, image: &Path, shown_to: For) -> SourceFile {
        if let Some(excerpts) = bundle::source_file(file).and_then(|path| Excerpts::read(&path)) {
            return SourceFile {
                rows: excerpts.rows,
                ..SourceFile::default()
            };
        }
        if let Some(source) = SourceFile::read(file, shown_to) {
            let newer_than = is_newer(file, image).then(|| image.to_owned());
            return SourceFile {
                newer_than,
                ..source
            };
        }
        let folders = image.ancestors().skip(1).take(FOLDERS);
        let absolute = folders.filter(|folder| folder.is_absolute() && shown_to == For::Reader);
        for folder in absolute {
            for tail in tails(file) {
                let path = folder.join(tail);
                if let Some(source) = SourceFile::read(&path, shown_to) {
                    return SourceFile {
                        elsewhere: Some(path),
                        ..source
                    };
                }
            }
        }
        SourceFile::default()
    }

    /// A whole file. What debug information names need not be a file, or small.
    fn read(file: &Path, shown_to: For) -> Option<SourceFile> {
        // A device or a pipe is not opened.
        let is_meant = |metadata: &Metadata| {
            let is_small = metadata.is_file() && (1..=LARGEST).contains(&metadata.len());
            is_small && (shown_to == For::Reader || may_be_handed_on(metadata))
        };
        fs::metadata(file).ok().filter(is_meant)?;
        let open = File::open(file).ok()?;
        // It may be another one by now.
        open.metadata().ok().filter(is_meant)?;
        let mut text = Vec::new();
        open.take(LARGEST).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Some(SourceFile {
            rows: BTreeMap::from([(1, lines)]),
            ..SourceFile::default()
        })
    }

    /// The line of this number.
    fn line(&self, number: u32) -> Option<&str> {
        let (first, row) = self.rows.range(..=number).next_back()?;
        let index = usize::try_from(number - first).ok()?;
        Some(row.get(index)?.as_str())
    }

    /// Whether there are no lines from this number on.
    fn is_over(&self, number: u32) -> bool {
        self.line(number).is_none() && self.rows.range(number..).next().is_none()
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

/// Whether a source was changed later than the program that was built of it.
fn is_newer(source: &Path, program: &Path) -> bool {
    let changed = |path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((changed(source), changed(program)), (Ok(source), Ok(program)) if source > program)
}

/// Whether everybody may read a file, or it is our own. What belongs to root is not root's own
/// text by that.
fn may_be_handed_on(metadata: &Metadata) -> bool {
    const OTHERS_READ: u32 = 0o004;
    let user = nix::unistd::geteuid();
    let is_own = !user.is_root() && metadata.uid() == user.as_raw();
    metadata.mode() & OTHERS_READ != 0 || is_own
}

/// The ends of a path, the longest first, without parts that lead upwards.
fn tails(file: &Path) -> impl Iterator<Item = PathBuf> {
    let names: Vec<Component<'_>> = file
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .collect();
    let behind = names
        .iter()
        .rposition(|part| matches!(part, Component::ParentDir));
    let names = names.get(behind.map_or(0, |at| at + 1)..);
    let names: Vec<PathBuf> = names
        .unwrap_or_default()
        .iter()
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect();
    (0..names.len()).map(move |from| names.iter().skip(from).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A source is read where debug information says, else below a folder around the image, which
    /// is said; a missing one is said as well.
    #[test]
    fn found_and_missing() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("creates");
            fs::write(&path, text).expect("writes");
            path
        };
        let image = folder.path().join("target/program");
        let own = write("own.c", "one\n  two\n");
        write("src/moved.c", "moved\n");
        let place = |file: &Path, line| SourcePlace {
            file: Some(file.to_owned()),
            line: Some(line),
            inlined: Vec::new(),
        };
        let mut sources = Sources::new(For::Reader);
        assert_eq!(sources.at(&place(&own, 2), &image).as_deref(), Some("two"));
        assert_eq!(sources.at(&place(&own, 9), &image), None);
        assert!(sources.notes().is_empty());
        let moved = Path::new("/no/such/folder/src/moved.c");
        assert_eq!(
            sources.at(&place(moved, 1), &image).as_deref(),
            Some("moved")
        );
        let gone = Path::new("/no/such/folder/gone.c");
        assert_eq!(sources.at(&place(gone, 1), &image), None);
        let notes = sources.notes().join("\n");
        assert!(
            notes.contains("no source /no/such/folder/gone.c"),
            "{notes}"
        );
        assert!(notes.contains("src/moved.c, which may be"), "{notes}");
        let mut handed_on = Sources::new(For::Anybody);
        assert_eq!(handed_on.at(&place(moved, 1), &image), None);
    }

    /// A source that was changed after the program was built is said to be newer, once. One that is
    /// older is not, nor one whose program is gone.
    #[test]
    fn newer_than_the_program() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, age: u64| {
            let path = folder.path().join(name);
            fs::write(&path, "one\ntwo\n").expect("written");
            let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            let file = File::options().write(true).open(&path).expect("opens");
            file.set_modified(changed).expect("changed");
            path
        };
        let [older, program, newer] =
            [("a.c", 30), ("program", 20), ("b.c", 10)].map(|(name, age)| write(name, age));
        let notes = |file: &Path, image: &Path| {
            let mut sources = Sources::new(For::Reader);
            for line in [1, 2] {
                let lines = sources.around(file, image, &BTreeSet::from([line]), 10);
                assert!(!lines.is_empty());
            }
            assert_eq!(sources.notes(), sources.edited());
            sources.edited()
        };
        let said = format!(
            "{} is newer than {}: its lines may have moved",
            newer.display(),
            program.display()
        );
        assert_eq!(notes(&newer, &program), [said]);
        assert_eq!(notes(&older, &program), Vec::<String>::new());
        let gone = folder.path().join("gone");
        assert_eq!(notes(&newer, &gone), Vec::<String>::new());
    }

    /// The ends of a path lead nowhere upwards.
    #[test]
    fn ends_of_paths() {
        let all: Vec<PathBuf> = tails(Path::new("/a/../b/c.c")).collect();
        assert_eq!(all, [PathBuf::from("b/c.c"), PathBuf::from("c.c")]);
    }

    /// Lines near each other are one row.
    #[test]
    fn ranges_of_lines() {
        assert_eq!(ranges(&BTreeSet::from([2, 9, 20])), [(1, 12), (17, 23)]);
        assert_eq!(ranges(&BTreeSet::from([u32::MAX])).len(), 1);
    }

    /// What others may not read is in nothing that root hands on.
    #[test]
    fn files_for_some_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        fs::write(&file, "one\ntwo\n").expect("written");
        let nowhere = Path::new("");
        let lines = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("changed");
            let mut sources = Sources::new(For::Anybody);
            sources.around(&file, nowhere, &BTreeSet::from([1]), 10)
        };
        let all = (1, vec!["one".to_owned(), "two".to_owned()]);
        assert_eq!(lines(0o644), [all]);
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(lines(0o600).is_empty(), is_root);
        let mut sources = Sources::new(For::Anybody);
        let of_folder = sources.around(folder.path(), nowhere, &BTreeSet::from([1]), 10);
        assert!(of_folder.is_empty());
    }

    /// Lines around some of them have an end, and leave out what an excerpt does not have.
    #[test]
    fn rows_of_lines() {
        let row = |first: u32, last: u32| (first..=last).map(|number| number.to_string()).collect();
        let source = SourceFile {
            rows: BTreeMap::from([(10, row(10, 12)), (20, row(20, 40))]),
            ..SourceFile::default()
        };
        let mut sources = Sources::new(For::Reader);
        let path = Path::new("a.c");
        sources.files.insert(path.to_owned(), source);
        let mut around = |lines: &[u32], most| {
            let lines = lines.iter().copied().collect();
            let rows = sources.around(path, Path::new(""), &lines, most);
            let ends = rows.iter().map(|(first, row)| (*first, row.len()));
            ends.collect::<Vec<_>>()
        };
        assert_eq!(around(&[11, 21], 100), [(10, 3), (20, 5)]);
        assert_eq!(around(&[11, 21], 4), [(10, 3), (20, 1)]);
        assert_eq!(around(&[u32::MAX], 4), []);
    }
}
