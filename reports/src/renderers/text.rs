//! Answers as text for a terminal.

use super::Renderer;
use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::page::{Page, PagePart};
use crate::render::{clean, wrapped};
use crate::terminal::{self, Look};

/// What a step of a list is set in by.
const STEP: &str = "    ";

/// What stands behind an explanation of which there is more.
const HINT: &str = " (more: --explain)";

/// Lines and aligned tables.
pub(super) struct Text;

impl Renderer for Text {
    fn render(&self, model: &dyn Model, names: Names) -> Result<String, Failure> {
        Ok(laid_out(&model.page(names), terminal::look()))
    }
}

/// A page as it looks best there.
pub(crate) fn laid_out(page: &Page, look: Look) -> String {
    let mut out = String::new();
    for block in page.blocks() {
        print(block, look, &mut out);
    }
    out
}

fn print(block: &PagePart, look: Look, out: &mut String) {
    match block {
        PagePart::Text(text) => print_lines(text, look, out),
        PagePart::About { line, more } => {
            if look.explain {
                print_lines(line, look, out);
                print_lines(more, look, out);
            } else {
                print_lines(&format!("{line}{HINT}"), look, out);
            }
        }
        PagePart::Item { depth, text } => {
            let step = STEP.repeat(usize::from(*depth));
            let most = look.width.map(|most| most.saturating_sub(step.len()));
            for line in wrapped(&clean(text), most) {
                out.push_str(&step);
                out.push_str(&line);
                out.push('\n');
            }
        }
        PagePart::Table(table) => table.print_as(look, out),
        PagePart::Gap => out.push('\n'),
    }
}

fn print_lines(text: &str, look: Look, out: &mut String) {
    for line in text.lines() {
        for line in wrapped(&clean(line), look.width) {
            out.push_str(&line);
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part stands on lines of its own, and nothing in it reaches a terminal as a control.
    #[test]
    fn parts() {
        let mut page = Page::default();
        page.text("one\ntwo\u{1b}");
        page.gap();
        page.item(0, "three\nfour".to_owned());
        page.item(2, "five".to_owned());
        let out = laid_out(&page, Look::default());
        assert_eq!(out, "one\ntwo\\u{1b}\n\nthree\\u{a}four\n        five\n");
    }

    /// An explanation is a line, and whole where that is asked for.
    #[test]
    fn explanations() {
        let mut page = Page::default();
        page.about("Shares of time.", "Of time,\nnot of calls.");
        let with = |explain| {
            let look = Look {
                explain,
                ..Look::default()
            };
            laid_out(&page, look)
        };
        assert_eq!(with(false), "Shares of time. (more: --explain)\n");
        assert_eq!(with(true), "Shares of time.\nOf time,\nnot of calls.\n");
    }
}
