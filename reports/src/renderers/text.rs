//! Answers as text for a terminal.

use super::Renderer;
use crate::failure::Failure;
use crate::names::Names;
use crate::page::Block;
use crate::query::Model;
use crate::render::clean;

/// What a step of a list is set in by.
const STEP: &str = "    ";

/// Lines and aligned tables.
pub(super) struct Text;

impl Renderer for Text {
    fn render(&self, model: &dyn Model, names: Names) -> Result<String, Failure> {
        let mut out = String::new();
        for block in model.page(names).blocks() {
            print(block, &mut out);
        }
        Ok(out)
    }
}

fn print(block: &Block, out: &mut String) {
    match block {
        Block::Text(text) => {
            for line in text.lines() {
                out.push_str(&clean(line));
                out.push('\n');
            }
        }
        Block::Item { depth, text } => {
            out.push_str(&STEP.repeat(usize::from(*depth)));
            out.push_str(&clean(text));
            out.push('\n');
        }
        Block::Table(table) => table.print(out),
        Block::Gap => out.push('\n'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;

    /// Each part stands on lines of its own, and nothing in it reaches a terminal as a control.
    #[test]
    fn parts() {
        let mut page = Page::default();
        page.text("one\ntwo\u{1b}");
        page.gap();
        page.item(0, "three\nfour".to_owned());
        page.item(2, "five".to_owned());
        let mut out = String::new();
        for block in page.blocks() {
            print(block, &mut out);
        }
        assert_eq!(out, "one\ntwo\\u{1b}\n\nthree\\u{a}four\n        five\n");
    }
}
