//! What an answer looks like to people, before a renderer gives it a form.

use serde::Serialize;

use crate::render::Table;

/// The parts of an answer, in order.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Page {
    blocks: Vec<PagePart>,
}

/// A part of an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PagePart {
    /// Lines that belong together.
    Text(String),
    /// What a report is, in a line, and what else there is to know.
    About {
        /// A sentence.
        line: String,
        /// For who asks.
        more: String,
    },
    /// Something to list, `depth` steps below what it belongs to.
    Item {
        /// 0 at the top.
        depth: u8,
        /// A single line.
        text: String,
    },
    /// Rows and columns.
    Table(Table),
    /// What follows stands apart.
    Gap,
}

impl Page {
    /// The parts.
    pub(crate) fn blocks(&self) -> &[PagePart] {
        &self.blocks
    }

    /// Leaves out the rows and items beyond the first `most`; how many these are.
    pub(crate) fn keep_first(&mut self, most: usize) -> usize {
        let (mut items, mut more) = (0, 0);
        self.blocks.retain_mut(|block| match block {
            PagePart::Table(table) => {
                more += table.keep_first(most);
                true
            }
            PagePart::Item { .. } => {
                items += 1;
                more += usize::from(items > most);
                items <= most
            }
            PagePart::Text(_) | PagePart::About { .. } | PagePart::Gap => true,
        });
        more
    }

    /// Adds lines that belong together.
    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(PagePart::Text(text.into()));
    }

    /// Adds what a report is, in a line, and what else there is to know of it.
    pub(crate) fn about(&mut self, line: &str, more: &str) {
        self.blocks.push(PagePart::About {
            line: line.to_owned(),
            more: more.to_owned(),
        });
    }

    /// Adds a single line to a list.
    pub(crate) fn item(&mut self, depth: u8, text: String) {
        self.blocks.push(PagePart::Item { depth, text });
    }

    /// Adds rows and columns.
    pub(crate) fn table(&mut self, table: Table) {
        self.blocks.push(PagePart::Table(table));
    }

    /// Sets apart what follows.
    pub(crate) fn gap(&mut self) {
        self.blocks.push(PagePart::Gap);
    }
}
