//! The screen as it is drawn: a title, rows or a function, and a line of keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::feed::{By, ScreenLine};
use super::screen::{Help, Screen, Sort};
use crate::render::{clean, count, counted, cycles, wrapped};
use crate::terminal::{self, Ink};
use crate::view::as_float;

/// Narrower terminals do without the less important columns.
const NARROW: usize = 60;

const KEYS: &str = "\
Up, Down, Page Up, Page Down, Home, End   move (k, j, Space, g, G as well)
Enter, Right                              into a function, or an image
Escape, Left                              back
c, s, n                                   sort by cycles, samples, name
r                                         the other way round
Tab, b                                    functions, images, instructions, processes
m                                         what is to be known of the profile
q                                         leave";

/// Draws all.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let area = frame.area();
    screen.columns = area.width;
    let width = usize::from(area.width);
    let body = usize::from(area.height.saturating_sub(3));
    screen.page = body.max(1);
    let mut lines = vec![Line::styled(title(screen), bold())];
    let (heading, content) = content(screen, width, body);
    lines.push(Line::styled(heading, bold()));
    lines.extend(content);
    frame.render_widget(Paragraph::new(lines), above_last(area));
    let footer = Paragraph::new(Line::styled(footer(screen, width), reversed()));
    frame.render_widget(footer, last(area));
}

fn above_last(area: Rect) -> Rect {
    Rect {
        height: area.height.saturating_sub(1),
        ..area
    }
}

fn last(area: Rect) -> Rect {
    Rect {
        y: area.y + area.height.saturating_sub(1),
        height: area.height.min(1),
        ..area
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn title(screen: &Screen) -> String {
    let what = match &screen.listing {
        Some(listing) => screen.names.shown(&listing.name),
        None => {
            let rows = counted(screen.rows.len() as u64, screen.by.word());
            let image = screen
                .image
                .as_deref()
                .map(|image| format!(" of {}", clean(image)));
            format!("{rows}{}", image.unwrap_or_default())
        }
    };
    let live = if screen.is_live { " (live)" } else { "" };
    format!("vcpi{live}: {what}")
}

fn footer(screen: &Screen, width: usize) -> String {
    let keys = match (&screen.listing, width < NARROW) {
        (Some(_), _) => "q leave  Esc back  ? keys",
        (None, true) => "q leave  Enter list  ? keys",
        (None, false) => "q leave  Enter list  c s n sort  r reverse  Tab by  m notes  ? keys",
    };
    let notes = match screen.notes.len() {
        0 => String::new(),
        more => format!("  [{}]", counted(more as u64, "note")),
    };
    format!("{:width$}", format!("{keys}{notes}"))
}

/// The heading and the lines between title and footer.
fn content(screen: &Screen, width: usize, body: usize) -> (String, Vec<Line<'static>>) {
    if let Some(help) = screen.help {
        return help_lines(screen, help, width);
    }
    if let Some(failure) = &screen.failure {
        return (String::new(), plain(failure, width));
    }
    if let Some(listing) = &screen.listing {
        let lines = listing.lines.iter().skip(listing.top).take(body);
        let lines: Vec<Line<'static>> = match listing.lines.is_empty() {
            true => plain("reading ...", width),
            false => lines.map(|line| Line::raw(line.clone())).collect(),
        };
        let place = format!("line {} of {}", listing.top + 1, listing.lines.len());
        return (place, lines);
    }
    let columns = Columns::new(screen, width);
    // The row that is looked at is always on the screen.
    let first = (screen.selected + 1).saturating_sub(body);
    let rows = screen.rows.iter().enumerate().skip(first).take(body);
    let lines = rows.map(|(index, row)| {
        let style = match index == screen.selected {
            true => reversed(),
            false => heat(row.percent),
        };
        Line::styled(columns.row(screen, row), style)
    });
    (columns.heading(screen), lines.collect())
}

fn help_lines(screen: &Screen, help: Help, width: usize) -> (String, Vec<Line<'static>>) {
    match help {
        Help::Keys => ("any key goes back".to_owned(), plain(KEYS, width)),
        Help::Notes if screen.notes.is_empty() => (String::new(), plain("no notes", width)),
        Help::Notes => {
            let notes = screen.notes.join("\n");
            ("any key goes back".to_owned(), plain(&notes, width))
        }
    }
}

fn plain(text: &str, width: usize) -> Vec<Line<'static>> {
    let lines = text
        .lines()
        .flat_map(|line| wrapped(&clean(line), Some(width)));
    lines.map(Line::raw).collect()
}

fn heat(percent: f64) -> Style {
    let colour = match Ink::of(percent).filter(|_| terminal::look().colours) {
        Some(Ink::Hot) => Color::Red,
        Some(Ink::Warm) => Color::Green,
        _ => return Style::new(),
    };
    Style::new().fg(colour)
}

/// Which columns there is room for.
struct Columns {
    has_samples: bool,
    /// Width of the name.
    name: usize,
    /// Width of the image, if it is shown.
    image: Option<usize>,
}

impl Columns {
    fn new(screen: &Screen, width: usize) -> Columns {
        let is_narrow = width < NARROW;
        let has_image = !is_narrow && matches!(screen.by, By::Function | By::Instruction);
        // Percent, cycles and samples with what is between them.
        let numbers = 8 + 8 + if is_narrow { 0 } else { 10 };
        let left = width.saturating_sub(numbers);
        Columns {
            has_samples: !is_narrow,
            name: if has_image { left * 3 / 5 } else { left },
            image: has_image.then(|| (left - left * 3 / 5).saturating_sub(2)),
        }
    }

    fn heading(&self, screen: &Screen) -> String {
        let mark = |sort| match (screen.sort == sort, screen.is_reversed) {
            (true, true) => "^",
            (true, false) => "v",
            (false, _) => "",
        };
        let cells = [
            "percent".to_owned(),
            format!("cycles{}", mark(Sort::Cycles)),
            format!("samples{}", mark(Sort::Samples)),
            format!("{}{}", screen.by.word(), mark(Sort::Name)),
            "image".to_owned(),
        ];
        self.joined(cells)
    }

    fn row(&self, screen: &Screen, row: &ScreenLine) -> String {
        let key = match screen.by {
            By::Function | By::Instruction => screen.names.shown(&row.key),
            By::Image | By::Process => clean(&row.key),
        };
        self.joined([
            format!("{:.2}", row.percent),
            cycles(as_float(row.cycles)),
            count(row.samples),
            key,
            clean(row.image.as_deref().unwrap_or_default()),
        ])
    }

    fn joined(&self, [percent, cycles, samples, name, image]: [String; 5]) -> String {
        let mut line = format!("{percent:>7} {cycles:>7} ");
        if self.has_samples {
            line.push_str(&format!("{samples:>9} "));
        }
        let kept: String = name.chars().take(self.name).collect();
        match self.image {
            Some(most) => {
                // A path says most at its end.
                let cut = image.chars().count().saturating_sub(most);
                let image: String = image.chars().skip(cut).collect();
                line.push_str(&format!("{kept:wide$}  {image}", wide = self.name));
            }
            None => line.push_str(&kept),
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::feed::FeedUpdate;
    use super::*;
    use crate::names::Names;

    fn drawn(columns: u16, rows: u16) -> Vec<String> {
        let mut screen = Screen::new(Names::Short, true);
        let row = |key: &str, percent| ScreenLine {
            key: key.to_owned(),
            cycles: if percent > 1.0 { 1_500_000 } else { 1000 },
            percent,
            samples: 12,
            image: Some("/usr/lib/liba.so".to_owned()),
        };
        let rows_read = vec![row("hot(int)", 60.0), row("cold\u{1b}[2J", 0.1)];
        screen.take(FeedUpdate::Rows(screen.asked(), rows_read, Vec::new()));
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
        terminal
            .draw(|frame| draw(frame, &mut screen))
            .expect("draws");
        let buffer = terminal.backend().buffer();
        let width = usize::from(columns);
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells
            .chunks(width)
            .map(|line| line.concat().trim_end().to_owned())
            .collect()
    }

    /// Rows stand between a title and the keys; a name cannot control the terminal.
    #[test]
    fn rows() {
        let lines = drawn(80, 6);
        assert_eq!(lines[0], "vcpi (live): 2 functions");
        assert!(
            lines[1].starts_with("percent cyclesv   samples function"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("60.00   1.50M        12 hot "),
            "{lines:?}"
        );
        assert!(lines[2].ends_with("/usr/lib/liba.so"), "{lines:?}");
        assert!(lines[3].contains("cold\\u{1b}[2J"), "{lines:?}");
        assert!(lines[5].starts_with("q leave"), "{lines:?}");
    }

    /// A narrow terminal has fewer columns; one of no size has nothing, and that is no error.
    #[test]
    fn narrow() {
        let lines = drawn(50, 6);
        assert!(
            !lines[1].contains("samples") && lines[2].contains("hot"),
            "{lines:?}"
        );
        for (columns, rows) in [(1, 1), (3, 2), (20, 1), (1, 9)] {
            drawn(columns, rows);
        }
    }
}
