//! The book includes documents that lie elsewhere. Their links are right where they lie, and lead
//! nowhere from the page that includes them: `docs/book.toml` has a redirection for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::links::{PAGES, anchor_of, included, links, normal};
use super::{File, Finding, prose};

/// The book's configuration, and the head of its redirections, which are the last in it.
const BOOK: &str = "docs/book.toml";
const HEAD: &str = "[output.html.redirect]\n";
/// The list of decisions: the book has a page with all of them.
const LIST: (&str, &str) = ("docs/decisions/README.md", "decisions.html");

/// A page of the book with the document that is included in it, or the page itself.
struct BookPage<'f> {
    /// Where the page lies in the book.
    page: PathBuf,
    document: &'f File,
}

/// Redirections that the book lacks or has for nothing, and links that no redirection can mend.
/// `book` is the book's configuration.
pub(super) fn check(files: &[File], book: &str) -> Vec<Finding> {
    let parts = parts(files);
    let homes = homes(&parts);
    let mut wanted = BTreeSet::new();
    let mut findings = Vec::new();
    for BookPage { page, document } in &parts {
        for (line, target) in links(&document.text) {
            let path = target.split_once('#').map_or(target, |(path, _)| path);
            if path.contains("://") || !path.ends_with(".md") {
                continue;
            }
            let there = normal(&below(&document.path).join(path));
            let asked = below(page).join(path).with_extension("html");
            match homes.get(&there) {
                None => findings.push(Finding::new(
                    document,
                    line,
                    format!("the book has no page for {path}: name the file in place of a link"),
                )),
                Some(_) if leads_out(&asked) => findings.push(Finding::new(
                    document,
                    line,
                    format!("{path} leads out of the book: name the file in place of a link"),
                )),
                Some(home) if normal(&asked) == Path::new(before(home)) => {}
                Some(home) => {
                    let asked = normal(&asked);
                    let up = "../".repeat(asked.components().count().saturating_sub(1));
                    wanted.insert(format!("\"/{}\" = \"{up}{home}\"", asked.display()));
                }
            }
        }
    }
    let (_, there) = book.split_once(HEAD).unwrap_or_default();
    let there: BTreeSet<String> = there.lines().map(str::to_owned).collect();
    let finding = |what: String| Finding {
        path: BOOK.into(),
        line: 1,
        what,
    };
    let lacks = wanted.difference(&there);
    findings.extend(lacks.map(|line| finding(format!("lacks the redirection {line}"))));
    let more = there.difference(&wanted);
    findings.extend(more.map(|line| finding(format!("no link needs {line}"))));
    findings
}

/// The pages, and what each includes.
fn parts(files: &[File]) -> Vec<BookPage<'_>> {
    let mut parts = Vec::new();
    for file in files {
        let Ok(page) = file.path.strip_prefix(PAGES) else {
            continue;
        };
        let page = page.with_extension("html");
        for (_, path) in included(&file.text) {
            let path = normal(&below(&file.path).join(path));
            let document = files.iter().find(|other| other.path == path);
            parts.extend(document.map(|document| BookPage {
                page: page.clone(),
                document,
            }));
        }
        parts.push(BookPage {
            page,
            document: file,
        });
    }
    parts
}

/// Where each document is in the book: a page, and the heading on it where others are there, too.
fn homes(parts: &[BookPage<'_>]) -> BTreeMap<PathBuf, String> {
    let mut homes = BTreeMap::from([(LIST.0.into(), LIST.1.to_owned())]);
    for BookPage { page, document } in parts {
        let others = parts.iter().filter(|other| other.page == *page).count();
        let heading = prose(&document.text).find_map(|(_, line)| line.strip_prefix("# "));
        let is_page = document.path.starts_with(PAGES);
        let anchor = heading.filter(|_| others > 2 && !is_page).map(anchor_of);
        let anchor = anchor.map_or_else(String::new, |anchor| format!("#{anchor}"));
        let home = format!("{}{anchor}", page.display());
        homes.insert(document.path.clone(), home);
    }
    homes
}

fn below(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A home without its heading.
fn before(home: &str) -> &str {
    home.split_once('#').map_or(home, |(page, _)| page)
}

/// Whether a path of the book goes above its root.
fn leads_out(path: &Path) -> bool {
    let mut depth = 0_i32;
    path.components().any(|component| {
        depth += match component {
            std::path::Component::ParentDir => -1,
            std::path::Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.to_owned(),
        }
    }

    /// A link of an included document needs a redirection unless it is right from its page as well;
    /// one that leads out of the book, or to what is not in it, is a finding.
    #[test]
    fn redirections() {
        let files = [
            file("docs/src/map.md", "{{#include ../../MAP.md}}\n"),
            file(
                "docs/src/all.md",
                "{{#include ../d/1.md}}\n{{#include ../d/2.md}}\n",
            ),
            file("docs/src/guide.md", "[all](all.md)\n"),
            file(
                "MAP.md",
                "[one](docs/d/1.md) [guide](docs/src/guide.md) [x](tests/x.md)\n",
            ),
            file(
                "docs/d/1.md",
                "# One of all\n[two](2.md) [guide](../src/guide.md)\n",
            ),
            file("docs/d/2.md", "# Two\n"),
        ];
        let book = "\"/2.html\" = \"all.html#two\"\n\"/old.html\" = \"all.html\"\n";
        let found = check(&files, &format!("[book]\n{HEAD}{book}"));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "MAP.md:1: the book has no page for tests/x.md: name the file in place of a link",
                "docs/d/1.md:2: ../src/guide.md leads out of the book: name the file in place of a \
                 link",
                "docs/book.toml:1: lacks the redirection \"/docs/d/1.html\" = \
                 \"../../all.html#one-of-all\"",
                "docs/book.toml:1: lacks the redirection \"/docs/src/guide.html\" = \
                 \"../../guide.html\"",
                "docs/book.toml:1: no link needs \"/old.html\" = \"all.html\"",
            ]
        );
    }
}
