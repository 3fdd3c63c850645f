//! Lines of at most 100 columns: in documents, and in comments of Rust files.

use super::{File, Finding, prose};

/// The widest line.
const COLUMNS: usize = 100;

/// The lines of a file that are too wide. Tables and code blocks may be, and what a link adds to a
/// line is not counted.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let complain = |(line, text): (usize, &str)| {
        let columns = columns(text);
        (columns > COLUMNS).then(|| Finding::new(file, line, format!("{columns} columns")))
    };
    if file.is_document() {
        let is_row = |text: &str| text.trim_start().starts_with('|');
        return prose(&file.text)
            .filter(|(_, text)| !is_row(text))
            .filter_map(complain)
            .collect();
    }
    comments(&file.text).filter_map(complain).collect()
}

/// The columns of a line without the targets of its links.
fn columns(line: &str) -> usize {
    let mut count = 0;
    let mut rest = line;
    while let Some(start) = rest.find("](") {
        let (before, link) = rest.split_at(start);
        count += before.chars().count();
        rest = link.find(')').and_then(|end| link.get(end..)).unwrap_or("");
    }
    let words = rest.split(' ');
    let longest = words.filter(|word| word.contains("://"));
    count + rest.chars().count() - longest.map(|word| word.chars().count()).sum::<usize>()
}

/// The lines of a Rust file that are comments alone, with their numbers, but for tables and code
/// blocks in them.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            return None;
        };
        let words = comment.trim_start_matches(['/', '!']).trim_start();
        if words.starts_with("```") {
            is_code = !is_code;
        }
        (!is_code && !words.starts_with('|')).then_some((i + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::document;
    use super::*;

    fn lines(file: &File) -> Vec<usize> {
        check(file).iter().map(|finding| finding.line).collect()
    }

    /// A document's line may have 100 columns, and no more unless it is a table's or code.
    #[test]
    fn documents() {
        let (fits, wide) = ("x".repeat(100), "x".repeat(101));
        let text = format!("{fits}\n{wide}\n| {wide} |\n```\n{wide}\n```\n{wide}\n");
        assert_eq!(lines(&document(&text)), [2, 7]);
    }

    /// Letters count, not their bytes; what a link leads to does not count.
    #[test]
    fn columns_of_a_line() {
        assert_eq!(columns("größe"), 5);
        assert_eq!(columns("a [b](docs/c.md) d"), "a [b) d".len());
        assert_eq!(columns("see https://example.org/x"), "see ".len());
    }

    /// Comments are held to the width; code is the formatter's business.
    #[test]
    fn rust() {
        let wide = "x".repeat(100);
        let text =
            format!("//! {wide}\n    // {wide}\nlet a = \"{wide}\";\n/// | {wide}\n// short\n");
        let file = File {
            path: PathBuf::from("src/a.rs"),
            text,
        };
        assert_eq!(lines(&file), [1, 2]);
    }
}
