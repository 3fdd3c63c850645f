//! Links and paths in documents lead to files and headings that exist.

use std::path::{Component, Path, PathBuf};

use vcpi_tests::programs::root;

use super::{File, Finding, prose, spans};

/// Endings of files that documents name by path.
const ENDINGS: &[&str] = &["c", "h", "md", "rs", "service", "sql", "toml"];
/// The book's list of pages.
const SUMMARY: &str = "docs/src/SUMMARY.md";
/// Where the book's pages are.
pub(super) const PAGES: &str = "docs/src";
/// Where decisions are, and what lists them.
const DECISIONS: (&str, [&str; 2]) = (
    "docs/decisions",
    ["docs/decisions/README.md", "docs/src/decisions.md"],
);

/// The links of a document, and the paths that documents and comments name, which lead nowhere.
pub(super) fn check(file: &File, paths: &[PathBuf]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.is_document() {
        for (line, target) in included(&file.text).chain(links(&file.text)) {
            if let Some(what) = wrong(file, target, paths) {
                findings.push(Finding::new(file, line, what));
            }
        }
    }
    let lines: Vec<(usize, &str)> = if file.is_document() {
        prose(&file.text).collect()
    } else {
        file.text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim_start()))
            .filter(|(_, line)| line.starts_with("//"))
            .collect()
    };
    for (line, text) in lines {
        for span in spans(text).filter(|span| is_path(span)) {
            if !paths.iter().any(|path| path.ends_with(span)) {
                findings.push(Finding::new(file, line, format!("no file {span}")));
            }
        }
    }
    findings
}

/// Pages that the book's summary leaves out, and decisions that a list of them leaves out.
pub(super) fn check_lists(files: &[File]) -> Vec<Finding> {
    let find = |path: &str| files.iter().find(|file| file.path == Path::new(path));
    let below = |folder: &'static str| {
        let is_listed = move |file: &&File| {
            file.is_document() && file.path.starts_with(folder) && !file.path.ends_with("README.md")
        };
        files.iter().filter(is_listed)
    };
    let lists = [(PAGES, SUMMARY)]
        .into_iter()
        .chain(DECISIONS.1.map(|list| (DECISIONS.0, list)));
    let mut findings = Vec::new();
    for (folder, list) in lists {
        let Some(list) = find(list) else { continue };
        for file in below(folder).filter(|file| file.path != list.path) {
            let name = file.path.strip_prefix(folder).unwrap_or(&file.path);
            if !list.text.contains(&name.display().to_string()) {
                findings.push(Finding::new(list, 1, format!("lacks {}", name.display())));
            }
        }
    }
    findings
}

/// Files that a page of the book includes, with their lines.
pub(super) fn included(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let path = line.trim().strip_prefix("{{#include ")?;
        Some((number, path.strip_suffix("}}")?))
    })
}

/// Targets of links, with their lines.
pub(super) fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some((_, link)) = rest.split_once("](") {
            let Some((target, behind)) = link.split_once(')') else {
                break;
            };
            found.push((number, target));
            rest = behind;
        }
    }
    found
}

/// What is wrong with a link's target.
fn wrong(file: &File, target: &str, paths: &[PathBuf]) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let there = if path.is_empty() {
        file.path.clone()
    } else {
        normal(&folder.join(path))
    };
    let is_folder = || paths.iter().any(|path| path.starts_with(&there));
    if !paths.contains(&there) && !is_folder() {
        return Some(format!("the link to {target} leads nowhere"));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = if there == file.path {
        file.text.clone()
    } else {
        std::fs::read_to_string(root().join(&there)).unwrap_or_default()
    };
    let is_there = prose(&text).any(|(_, line)| {
        line.starts_with('#') && anchor_of(line.trim_start_matches('#').trim()) == anchor
    });
    (!is_there).then(|| format!("no heading #{anchor} in {}", there.display()))
}

/// The anchor that a heading gets.
pub(super) fn anchor_of(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// A path without `..` in it.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Whether a text in backticks is the path of a file of the project.
fn is_path(span: &str) -> bool {
    let is_named = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let ending = Path::new(span)
        .extension()
        .and_then(|ending| ending.to_str());
    span.contains('/')
        && !span.starts_with(['/', '.', '~'])
        && span.chars().all(is_named)
        && ending.is_some_and(|ending| ENDINGS.contains(&ending))
        // A header of the kernel.
        && !span.starts_with("linux/")
        // A name in capitals stands for any.
        && !["NAME", "NNN"].iter().any(|name| span.contains(name))
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let paths = [
            "docs/page.md",
            "docs/src/a.md",
            "daemon/pipeline/src/raw.rs",
        ]
        .map(PathBuf::from);
        let found = check(&document(text), &paths);
        found.into_iter().map(|finding| finding.what).collect()
    }

    /// A link leads to a file, a folder or a heading; one that does not is told.
    #[test]
    fn targets() {
        let good = "# A `b` c\n[a](src/a.md) [b](../daemon) [c](#a-b-c) [d](https://example.org)\n";
        assert_eq!(findings(good), [""; 0]);
        assert_eq!(findings("[a](src/b.md)").len(), 1);
        assert_eq!(findings("[a](#b)").len(), 1);
        assert_eq!(findings("```\n[a](src/b.md)\n```\n"), [""; 0]);
    }

    /// An included file has to exist, also where it stands in a code block.
    #[test]
    fn included() {
        assert_eq!(findings("{{#include src/a.md}}"), [""; 0]);
        assert_eq!(findings("```\n{{#include src/b.md}}\n```\n").len(), 1);
    }

    /// A path in backticks may be short. A path of no file is told. Paths outside the project
    /// are let be.
    #[test]
    fn paths() {
        assert_eq!(
            findings("`src/raw.rs` `/etc/a.toml` `a/NAME.rs` `linux/bpf.h`"),
            [""; 0]
        );
        assert_eq!(findings("`src/rows.rs`"), ["no file src/rows.rs"]);
    }

    /// A page that the summary does not have is told.
    #[test]
    fn lists() {
        let page = |path: &str, text: &str| File {
            path: PathBuf::from(path),
            text: text.to_owned(),
        };
        let files = [
            page(SUMMARY, "[a](a.md)"),
            page("docs/src/a.md", ""),
            page("docs/src/b.md", ""),
        ];
        let found = check_lists(&files);
        let found: Vec<String> = found.into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["lacks b.md"]);
    }
}
