//! Pieces of output: tables, numbers, names without control characters.

use serde::Serialize;

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
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Cells(Vec<String>),
    /// A line across all columns.
    Line(String),
}

/// Widest a column gets, in characters.
pub(crate) const MAX_WIDTH: usize = 56;

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
        self.rows
            .push(Row::Cells(cells.iter().map(|cell| clean(cell)).collect()));
    }

    /// Adds a line that keeps to no column.
    pub(crate) fn line(&mut self, text: &str) {
        self.rows.push(Row::Line(clean(text)));
    }

    /// Leaves out the rows beyond the first `most`; how many these are.
    pub(crate) fn keep_first(&mut self, most: usize) -> usize {
        let more = self.rows.len().saturating_sub(most);
        self.rows.truncate(most);
        more
    }

    /// Appends the table to `out`.
    pub(crate) fn print(&self, out: &mut String) {
        let mut widths: Vec<usize> = self.columns.iter().map(|(title, _)| width(title)).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (wide, cell) in widths.iter_mut().zip(cells) {
                    *wide = (*wide).max(width(cell).min(MAX_WIDTH));
                }
            }
        }
        let titles: Vec<String> = self
            .columns
            .iter()
            .map(|(title, _)| title.clone())
            .collect();
        self.print_cells(&titles, &widths, out);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => self.print_cells(cells, &widths, out),
                Row::Line(text) => {
                    out.push_str(text);
                    out.push('\n');
                }
            }
        }
    }

    fn print_cells(&self, cells: &[String], widths: &[usize], out: &mut String) {
        let mut line = String::new();
        for (index, ((cell, wide), (_, align))) in
            cells.iter().zip(widths).zip(&self.columns).enumerate()
        {
            if index > 0 {
                line.push_str("  ");
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
        out.push_str(line.trim_end());
        out.push('\n');
    }
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
        100.0 * part / whole
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
