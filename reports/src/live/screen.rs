//! What is on the screen, and what keys do to it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{By, FeedUpdate, ScreenLine, ScreenRequest};
use crate::names::Names;

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Cycles,
    Samples,
    Name,
}

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The end.
    Leave,
    /// Something is to be read.
    Ask(ScreenRequest),
    /// The next drawing shows it.
    Stay,
}

/// The lines of a function.
#[derive(Debug)]
pub(super) struct Listing {
    /// What was asked for.
    asked: ScreenRequest,
    pub(super) name: String,
    /// Nothing until they were read.
    pub(super) lines: Vec<String>,
    /// The first line that is shown.
    pub(super) top: usize,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) names: Names,
    /// What is read changes.
    pub(super) is_live: bool,
    pub(super) by: By,
    pub(super) image: Option<String>,
    pub(super) rows: Vec<ScreenLine>,
    pub(super) sort: Sort,
    /// The other way round.
    pub(super) is_reversed: bool,
    pub(super) selected: usize,
    pub(super) listing: Option<Listing>,
    /// What was said beside what is shown.
    pub(super) notes: Vec<String>,
    /// Why there is nothing, in place of rows.
    pub(super) failure: Option<String>,
    /// Notes or keys in place of the rest.
    pub(super) help: Option<Help>,
    /// Of the area, as it was drawn last.
    pub(super) columns: u16,
    pub(super) page: usize,
}

/// What stands in place of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    Keys,
    Notes,
}

/// A width to begin with; drawing tells the right one.
const COLUMNS: u16 = 80;

impl Screen {
    /// Nothing yet.
    pub(super) fn new(names: Names, is_live: bool) -> Screen {
        Screen {
            names,
            is_live,
            by: By::Function,
            image: None,
            rows: Vec::new(),
            sort: Sort::Cycles,
            is_reversed: false,
            selected: 0,
            listing: None,
            notes: Vec::new(),
            failure: None,
            help: None,
            columns: COLUMNS,
            page: 1,
        }
    }

    /// What is shown, as it is asked for.
    pub(super) fn asked(&self) -> ScreenRequest {
        match &self.listing {
            Some(listing) => listing.asked.clone(),
            None => ScreenRequest::Rows {
                by: self.by,
                image: self.image.clone(),
            },
        }
    }

    /// Takes what was read, if it is what is shown by now.
    pub(super) fn take(&mut self, update: FeedUpdate) {
        match update {
            FeedUpdate::Rows(asked, rows, notes) if asked == self.asked() => {
                let key = self.rows.get(self.selected).map(|row| row.key.clone());
                self.rows = rows;
                self.sort_rows();
                // Who looks at a row keeps it, wherever it goes; who looks at the first, the first.
                let place = key.and_then(|key| self.rows.iter().position(|row| row.key == key));
                self.selected = place.filter(|_| self.selected > 0).unwrap_or(0);
                self.notes = notes;
                self.failure = None;
            }
            FeedUpdate::Lines(asked, lines, notes) if asked == self.asked() => {
                if let Some(listing) = &mut self.listing {
                    listing.top = listing.top.min(lines.len().saturating_sub(1));
                    listing.lines = lines;
                }
                self.notes = notes;
                self.failure = None;
            }
            FeedUpdate::Failed(asked, failure) if asked == self.asked() => {
                self.failure = Some(failure.to_string());
            }
            _ => {}
        }
    }

    /// The terminal has another width: what is to be laid out again.
    pub(super) fn resize(&mut self, columns: u16) -> Option<ScreenRequest> {
        self.columns = columns;
        let listing = self.listing.as_mut()?;
        if let ScreenRequest::Function { width, .. } = &mut listing.asked {
            *width = columns;
        }
        Some(listing.asked.clone())
    }

    /// Does what a key says.
    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Leave,
                _ => Action::Stay,
            };
        }
        if self.help.take().is_some() {
            return Action::Stay;
        }
        match key.code {
            KeyCode::Char('q') => Action::Leave,
            KeyCode::Char('?' | 'h') => self.show(Help::Keys),
            KeyCode::Char('m') => self.show(Help::Notes),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-self.one_page()),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(self.one_page()),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.ascend(),
            KeyCode::Enter | KeyCode::Right => self.descend(),
            KeyCode::Char('c') => self.sort_by(Sort::Cycles),
            KeyCode::Char('s') => self.sort_by(Sort::Samples),
            KeyCode::Char('n') => self.sort_by(Sort::Name),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Tab | KeyCode::Char('b') => self.turn(),
            _ => Action::Stay,
        }
    }

    fn show(&mut self, help: Help) -> Action {
        self.help = Some(help);
        Action::Stay
    }

    fn one_page(&self) -> isize {
        isize::try_from(self.page).unwrap_or(1).max(1)
    }

    fn go(&mut self, by: isize) -> Action {
        let (at, length) = match &mut self.listing {
            Some(listing) => (&mut listing.top, listing.lines.len()),
            None => (&mut self.selected, self.rows.len()),
        };
        *at = at.saturating_add_signed(by).min(length.saturating_sub(1));
        Action::Stay
    }

    fn ascend(&mut self) -> Action {
        let was_inside = self.listing.take().is_some() || self.image.take().is_some();
        self.failure = None;
        match was_inside {
            true => Action::Ask(self.asked()),
            false => Action::Stay,
        }
    }

    fn descend(&mut self) -> Action {
        if self.listing.is_some() {
            return Action::Stay;
        }
        let Some(row) = self.rows.get(self.selected).cloned() else {
            return Action::Stay;
        };
        match self.by {
            By::Function | By::Instruction => {
                self.listing = Some(Listing {
                    asked: ScreenRequest::Function {
                        name: row.key.clone(),
                        image: row.image,
                        width: self.columns,
                    },
                    name: row.key,
                    lines: Vec::new(),
                    top: 0,
                });
            }
            By::Image => {
                self.image = Some(row.key);
                self.by = By::Function;
                self.selected = 0;
            }
            By::Process => return Action::Stay,
        }
        Action::Ask(self.asked())
    }

    fn turn(&mut self) -> Action {
        if self.listing.is_some() {
            return Action::Stay;
        }
        self.by = self.by.next();
        self.selected = 0;
        Action::Ask(self.asked())
    }

    fn sort_by(&mut self, sort: Sort) -> Action {
        self.sort = sort;
        self.is_reversed = false;
        self.sort_again()
    }

    fn reverse(&mut self) -> Action {
        self.is_reversed = !self.is_reversed;
        self.sort_again()
    }

    fn sort_again(&mut self) -> Action {
        self.sort_rows();
        self.selected = 0;
        Action::Stay
    }

    fn sort_rows(&mut self) {
        let sort = self.sort;
        self.rows.sort_by(|a, b| {
            let by_name = || a.key.cmp(&b.key);
            match sort {
                Sort::Cycles => b.cycles.cmp(&a.cycles).then_with(by_name),
                Sort::Samples => b.samples.cmp(&a.samples).then_with(by_name),
                Sort::Name => by_name(),
            }
        });
        if self.is_reversed {
            self.rows.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, cycles: u64, samples: u64) -> ScreenLine {
        ScreenLine {
            key: key.to_owned(),
            cycles,
            percent: 0.0,
            samples,
            image: Some("/image".to_owned()),
        }
    }

    fn screen() -> Screen {
        let mut screen = Screen::new(Names::Short, true);
        let rows = vec![row("a", 30, 1), row("b", 20, 9), row("c", 10, 2)];
        screen.take(FeedUpdate::Rows(screen.asked(), rows, Vec::new()));
        screen
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Action {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn order(screen: &Screen) -> String {
        screen.rows.iter().map(|row| row.key.as_str()).collect()
    }

    /// Keys sort; the row that is looked at stays so when new ones come.
    #[test]
    fn sorting() {
        let mut screen = screen();
        assert_eq!(order(&screen), "abc");
        press(&mut screen, KeyCode::Char('s'));
        assert_eq!(order(&screen), "bca");
        press(&mut screen, KeyCode::Char('r'));
        assert_eq!(order(&screen), "acb");
        press(&mut screen, KeyCode::Char('c'));
        press(&mut screen, KeyCode::Down);
        let rows = vec![row("a", 30, 1), row("c", 25, 2), row("b", 20, 9)];
        screen.take(FeedUpdate::Rows(screen.asked(), rows, Vec::new()));
        assert_eq!(screen.rows[screen.selected].key, "b");
    }

    /// Enter descends into a function, whose listing is asked for; escape comes back to the rows.
    /// An answer to another question is dropped.
    #[test]
    fn descending() {
        let mut screen = screen();
        press(&mut screen, KeyCode::Down);
        let asked = ScreenRequest::Function {
            name: "b".to_owned(),
            image: Some("/image".to_owned()),
            width: COLUMNS,
        };
        assert_eq!(
            press(&mut screen, KeyCode::Enter),
            Action::Ask(asked.clone())
        );
        screen.take(FeedUpdate::Rows(
            ScreenRequest::Rows {
                by: By::Function,
                image: None,
            },
            Vec::new(),
            Vec::new(),
        ));
        assert_eq!(screen.rows.len(), 3);
        let lines = vec!["line".to_owned(); 9];
        screen.take(FeedUpdate::Lines(asked, lines, Vec::new()));
        press(&mut screen, KeyCode::End);
        assert_eq!(screen.listing.as_ref().map(|listing| listing.top), Some(8));
        assert!(matches!(
            screen.resize(60),
            Some(ScreenRequest::Function { width: 60, .. })
        ));
        assert!(matches!(
            press(&mut screen, KeyCode::Esc),
            Action::Ask(ScreenRequest::Rows { .. })
        ));
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::Leave);
    }
}
