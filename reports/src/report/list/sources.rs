//! Lines of source files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::symbolize::Place;

/// Source files, read once.
#[derive(Default)]
pub(crate) struct Sources {
    files: BTreeMap<PathBuf, Source>,
}

/// A source file.
#[derive(Default)]
struct Source {
    lines: Vec<String>,
    /// Where it was found, if elsewhere than debug information says.
    elsewhere: Option<PathBuf>,
}

/// Files that are told as missing before the rest is only counted.
const MOST_TOLD: usize = 4;

/// Folders above an image's in which sources are looked for.
const FOLDERS: usize = 3;

impl Sources {
    /// Largest source file that is read, in bytes.
    const MAX: u64 = 16 << 20;

    /// The line at a place of an image, if there is something on it.
    pub(crate) fn at(&mut self, place: &Place, image: &Path) -> Option<String> {
        let (file, line) = place.file.as_deref().zip(place.line)?;
        let source = self
            .files
            .entry(file.to_owned())
            .or_insert_with(|| Source::find(file, image));
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let line = source.lines.get(index).filter(|line| !line.is_empty());
        line.cloned()
    }

    /// What is to be said of the files: those that were not found, and those found elsewhere, which
    /// may be of another version.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let missing = self.files.iter().filter(|(_, of)| of.lines.is_empty());
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
        notes
    }
}

impl Source {
    /// The file where debug information says, or relative to the image: what was built elsewhere
    /// may have its sources beside it.
    fn find(file: &Path, image: &Path) -> Source {
        if let Some(lines) = read(file) {
            return Source {
                lines,
                elsewhere: None,
            };
        }
        let folders = image.ancestors().skip(1).take(FOLDERS);
        for folder in folders.filter(|folder| folder.is_absolute()) {
            for tail in tails(file) {
                let path = folder.join(tail);
                if let Some(lines) = read(&path) {
                    return Source {
                        lines,
                        elsewhere: Some(path),
                    };
                }
            }
        }
        Source::default()
    }
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

/// The lines of a source file. What debug information names need not be a file, or small.
fn read(file: &Path) -> Option<Vec<String>> {
    let small = std::fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && (1..=Sources::MAX).contains(&metadata.len()));
    if !small {
        return None;
    }
    let text = std::fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&text);
    Some(text.lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source is read where debug information says, else below a folder around the image, which
    /// is said; a missing one is said as well.
    #[test]
    fn found_and_missing() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("creates");
            std::fs::write(&path, text).expect("writes");
            path
        };
        let image = folder.path().join("target/program");
        let own = write("own.c", "one\n  two\n");
        write("src/moved.c", "moved\n");
        let place = |file: &Path, line| Place {
            file: Some(file.to_owned()),
            line: Some(line),
            inlined: Vec::new(),
        };
        let mut sources = Sources::default();
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
    }

    /// The ends of a path lead nowhere upwards.
    #[test]
    fn ends_of_paths() {
        let all: Vec<PathBuf> = tails(Path::new("/a/../b/c.c")).collect();
        assert_eq!(all, [PathBuf::from("b/c.c"), PathBuf::from("c.c")]);
    }
}
