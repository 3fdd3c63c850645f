//! Pieces of output: tables, numbers, names without control characters.

use serde::Serialize;

use crate::terminal::{Ink, Look};

/// Side on which a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells, as wide as the widest of each column. A cell too wide for
/// its column's cap runs over instead of pushing all other rows aside.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<TableRow>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TableRow {
    Cells {
        cells: Vec<String>,
        /// How hot it is, in percent.
        heat: Option<f64>,
    },
    /// A line across all columns.
    Line(String),
}

/// Widest a column gets, in characters.
pub(crate) const MAX_WIDTH: usize = 56;

/// Narrowest that a column of text is made for a narrow terminal.
const MIN_WIDTH: usize = 12;

/// What stands between columns.
const BETWEEN: usize = 2;

/// What continues a line on a narrow terminal is set in by.
const INDENT: usize = 4;

impl Table {
    /// A table with these column titles.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let columns = columns
            .iter()
            .map(|(title, align)| ((*title).to_owned(), *align))
            .collect();
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row, one cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.add(cells, None);
    }

    /// Adds a row that has this share of all, in percent.
    pub(crate) fn hot_row(&mut self, cells: Vec<String>, heat: f64) {
        self.add(cells, Some(heat));
    }

    fn add(&mut self, cells: Vec<String>, heat: Option<f64>) {
        let cells = cells.iter().map(|cell| clean(cell)).collect();
        self.rows.push(TableRow::Cells { cells, heat });
    }

    /// Adds a line that keeps to no column.
    pub(crate) fn line(&mut self, text: &str) {
        self.rows.push(TableRow::Line(clean(text)));
    }

    /// Leaves out the rows beyond the first `most`; how many these are.
    pub(crate) fn keep_first(&mut self, most: usize) -> usize {
        let more = self.rows.len().saturating_sub(most);
        self.rows.truncate(most);
        more
    }

    /// Appends the table to `out`, as wide as it is.
    pub(crate) fn print(&self, out: &mut String) {
        self.print_as(Look::default(), out);
    }

    /// Appends the table to `out`, as it looks best there.
    pub(crate) fn print_as(&self, look: Look, out: &mut String) {
        let widths = self.widths(look.width);
        let titles: Vec<String> = self
            .columns
            .iter()
            .map(|(title, _)| title.clone())
            .collect();
        self.print_cells(&titles, &widths, look, Some(Ink::Title), out);
        for row in &self.rows {
            match row {
                TableRow::Cells { cells, heat } => {
                    let ink = heat.and_then(Ink::of);
                    self.print_cells(cells, &widths, look, ink, out);
                }
                TableRow::Line(text) => {
                    for line in wrapped(text, look.width) {
                        paint(&line, Some(Ink::Beside), look, out);
                        out.push('\n');
                    }
                }
            }
        }
    }

    /// The widths of the columns. Where a terminal is too narrow for all, columns of text shrink.
    fn widths(&self, most: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(title, _)| width(title)).collect();
        for row in &self.rows {
            if let TableRow::Cells { cells, .. } = row {
                for (wide, cell) in widths.iter_mut().zip(cells) {
                    *wide = (*wide).max(width(cell).min(MAX_WIDTH));
                }
            }
        }
        let Some(most) = most else { return widths };
        let between = BETWEEN * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + between > most {
            let before_last = self.columns.len().saturating_sub(1);
            let texts = widths.iter_mut().zip(&self.columns).take(before_last);
            let widest = texts
                .filter(|(wide, (_, align))| *align == Align::Left && **wide > MIN_WIDTH)
                .map(|(wide, _)| wide)
                .max();
            match widest {
                Some(widest) => *widest -= 1,
                None => break,
            }
        }
        widths
    }

    /// Prints a row. What a narrow terminal has no room for stands below it: the last columns.
    fn print_cells(
        &self,
        cells: &[String],
        widths: &[usize],
        look: Look,
        ink: Option<Ink>,
        out: &mut String,
    ) {
        let (mut kept, mut line) = (cells.len(), self.joined(cells, widths));
        while look.width.is_some_and(|most| width(&line) > most) && kept > 1 {
            kept -= 1;
            line = self.joined(cells.get(..kept).unwrap_or_default(), widths);
        }
        // Of what is hot the number is coloured, of titles all.
        let first = widths.first().copied().unwrap_or(0);
        let end = line
            .char_indices()
            .nth(first)
            .map_or(line.len(), |(at, _)| at);
        let (number, rest) = match ink {
            Some(Ink::Title) | None => (line.as_str(), ""),
            Some(_) => line.split_at(end),
        };
        paint(number, ink, look, out);
        out.push_str(rest);
        out.push('\n');
        let below = cells.get(kept..).unwrap_or_default();
        for cell in below.iter().filter(|cell| !cell.is_empty()) {
            let most = look.width.map(|most| most.saturating_sub(INDENT));
            for line in wrapped(cell, most) {
                out.extend(std::iter::repeat_n(' ', INDENT));
                paint(&line, ink.filter(|ink| *ink == Ink::Title), look, out);
                out.push('\n');
            }
        }
    }

    fn joined(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (index, ((cell, wide), (_, align))) in
            cells.iter().zip(widths).zip(&self.columns).enumerate()
        {
            if index > 0 {
                line.extend(std::iter::repeat_n(' ', BETWEEN));
            }
            let padding = wide.saturating_sub(width(cell));
            if *align == Align::Right {
                line.extend(std::iter::repeat_n(' ', padding));
            }
            line.push_str(cell);
            if *align == Align::Left {
                line.extend(std::iter::repeat_n(' ', padding));
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn paint(text: &str, ink: Option<Ink>, look: Look, out: &mut String) {
    match ink.filter(|_| look.colours && !text.is_empty()) {
        Some(ink) => ink.write(text, out),
        None => out.push_str(text),
    }
}

/// A line, broken at blanks to so many columns. What stands in parentheses stays together where a
/// line has room for it. A word that is longer than a line is broken behind a slash, or anywhere.
pub(crate) fn wrapped(text: &str, most: Option<usize>) -> Vec<String> {
    let Some(most) = most.filter(|most| width(text) > *most) else {
        return vec![text.to_owned()];
    };
    let mut lines = vec![String::new()];
    let groups = words(text);
    let words = groups.iter().flat_map(|group| match width(group) > most {
        true => group.split(' ').collect(),
        false => vec![group.as_str()],
    });
    for (index, word) in words.enumerate() {
        for (part, piece) in pieces(word, most).into_iter().enumerate() {
            let Some(line) = lines.last_mut() else { break };
            if index == 0 && part == 0 {
                line.push_str(piece);
            } else if part == 0 && width(line) + 1 + width(piece) <= most {
                line.push(' ');
                line.push_str(piece);
            } else {
                lines.push(piece.to_owned());
            }
        }
    }
    lines
}

/// What blanks part, but for those in parentheses.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match words.last_mut() {
            Some(word) if character != ' ' || depth > 0 => word.push(character),
            _ => words.push(String::new()),
        }
    }
    words
}

/// A word in pieces of at most so many characters.
fn pieces(word: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    // The first character that a line has no room for.
    while let Some((end, _)) = rest.char_indices().nth(most.max(1)) {
        let (fitting, _) = rest.split_at(end);
        let slash = fitting.rfind('/').filter(|slash| *slash > 0);
        let at = slash.map_or(end, |slash| slash + 1);
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A name as it may be shown on a terminal: what would control it is escaped.
pub(crate) fn clean(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        if is_unsafe(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// What was typed, on one line of at most `most` characters.
pub(crate) fn brief(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if width(&line) <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Control characters, and those that change the direction or order of text.
pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A count with thousands separated where it is long enough to need it.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() <= 4 {
        return digits;
    }
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How many there are of something: `1 sample`, `2 samples`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Cycles, in the largest unit that keeps three digits or more.
pub(crate) fn cycles(cycles: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    for (unit, name) in UNITS {
        if cycles >= 100.0 * unit {
            return format!("{:.0}{name}", cycles / unit);
        }
        if cycles >= 10.0 * unit {
            return format!("{:.1}{name}", cycles / unit);
        }
        if cycles >= unit {
            return format!("{:.2}{name}", cycles / unit);
        }
    }
    format!("{cycles:.0}")
}

/// `part` of `whole` in percent; 0 of nothing.
pub(crate) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        // The sum of no numbers is a negative zero, which would be written as one.
        100.0 * part / whole + 0.0
    } else {
        0.0
    }
}

/// A number for JSON: finite, and without digits that mean nothing.
pub(crate) fn rounded(number: f64, digits: u32) -> f64 {
    if !number.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(0));
    let scaled = (number * scale).round() / scale;
    if scaled.is_finite() { scaled } else { number }
}

/// A whole number of cycles for JSON.
pub(crate) fn whole(number: f64) -> u64 {
    // Saturates; negative numbers and NaN become 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating is meant"
    )]
    let whole = number.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of something is 0 %, not -0 %.
    #[test]
    fn percent_of_nothing() {
        let none: f64 = [0.0; 0].iter().sum();
        assert_eq!(
            format!("{:.0} {}", percent(none, 5.0), percent(none, 0.0)),
            "0 0"
        );
    }

    /// Columns are as wide as their widest cell and lines end without blanks.
    #[test]
    fn table_is_aligned() {
        let mut table = Table::new(&[("n", Align::Right), ("name", Align::Left)]);
        table.row(vec!["7".into(), "a".into()]);
        table.line("across");
        table.row(vec!["123".into(), "bcdef".into()]);
        let mut out = String::new();
        table.print(&mut out);
        assert_eq!(out, "  n  name\n  7  a\nacross\n123  bcdef\n");
    }

    /// On a narrow terminal columns of text shrink, and what does not fit stands below its row.
    #[test]
    fn table_is_narrow() {
        let mut table = Table::new(&[
            ("n", Align::Right),
            ("function", Align::Left),
            ("values", Align::Left),
        ]);
        table.row(vec!["7".into(), "short".into(), "(1% 2)".into()]);
        let long = "x".repeat(30);
        table.row(vec![
            "8".into(),
            long.clone(),
            "(50.0% 0x1) (25.0% 0x22) (9.0% 0x333)".into(),
        ]);
        let mut out = String::new();
        let look = Look {
            width: Some(34),
            ..Look::default()
        };
        table.print_as(look, &mut out);
        let expected = format!(
            "n  function      values\n\
             7  short         (1% 2)\n\
             8  {long}\n    (50.0% 0x1) (25.0% 0x22)\n    (9.0% 0x333)\n"
        );
        assert_eq!(out, expected);
    }

    /// No line is longer than there is room for, and nothing is lost: neither of what stands in
    /// parentheses, nor of a word without a blank.
    #[test]
    fn lines_are_broken() {
        let broken = |text| wrapped(text, Some(20)).join("\n");
        assert_eq!(broken("as long as there fits"), "as long as there\nfits");
        assert_eq!(broken("arguments: (1.0% 0x1)"), "arguments:\n(1.0% 0x1)");
        let declared = "(int mode, const node *n, double scale)";
        let expected = "(int mode, const\nnode *n, double\nscale)";
        assert_eq!(broken(declared), expected);
        let path = "in /usr/lib/python3/lib-dynload/_json.cpython.so";
        let expected = "in /usr/lib/python3/\nlib-dynload/\n_json.cpython.so";
        assert_eq!(broken(path), expected);
        let word = "ä".repeat(30);
        let expected = format!("{}\n{}", "ä".repeat(20), "ä".repeat(10));
        assert_eq!(broken(&word), expected);
        assert_eq!(wrapped(&word, Some(0)).len(), 30);
    }

    /// Of a hot row the number is coloured; without colours nothing is.
    #[test]
    fn table_is_coloured() {
        let mut table = Table::new(&[("n", Align::Right), ("name", Align::Left)]);
        table.hot_row(vec!["7".into(), "a".into()], 60.0);
        table.hot_row(vec!["1".into(), "b".into()], 0.1);
        let printed = |colours| {
            let mut out = String::new();
            let look = Look {
                colours,
                ..Look::default()
            };
            table.print_as(look, &mut out);
            out
        };
        assert_eq!(printed(false), "n  name\n7  a\n1  b\n");
        let coloured = "\u{1b}[1mn  name\u{1b}[0m\n\u{1b}[31m7\u{1b}[0m  a\n1  b\n";
        assert_eq!(printed(true), coloured);
    }

    /// Escape sequences, C1 controls and direction changes in a name cannot reach a terminal.
    #[test]
    fn names_are_cleaned() {
        assert_eq!(clean("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(clean("x\u{9b}y\u{202e}z\n"), "x\\u{9b}y\\u{202e}z\\u{a}");
        assert_eq!(clean("größe<T>"), "größe<T>");
    }

    /// A command of many lines is one line, and not longer than asked for.
    #[test]
    fn commands_are_brief() {
        assert_eq!(brief("sh -c 'a\n  b'", 20), "sh -c 'a b'");
        assert_eq!(brief("größere Wörter", 10), "größere...");
    }

    /// Numbers keep their size readable at every magnitude.
    #[test]
    fn numbers() {
        assert_eq!(count(1234), "1234");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(counted(0, "sample"), "0 samples");
        assert_eq!(counted(12_345, "sample"), "12,345 samples");
        assert_eq!(cycles(999.0), "999");
        assert_eq!(cycles(1851.0), "1.85k");
        assert_eq!(cycles(2.5e13), "25.0T");
        assert_eq!(whole(f64::NAN), 0);
        assert_eq!(whole(-1.0), 0);
        assert_eq!(whole(1e300), u64::MAX);
        assert!((rounded(26.912_34, 1) - 26.9).abs() < 1e-9);
        assert!(rounded(f64::INFINITY, 1).abs() < 1e-9);
    }
}
