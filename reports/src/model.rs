//! A value that answers a question, and can be put into every form.
//!
//! The way is query, model, renderer. A report knows no form of the output, and a form no report.

use serde::Serialize;

use crate::names::Names;
use crate::page::Page;

/// A value that answers a question.
pub(crate) trait Model: Serial {
    /// The answer as people read it.
    fn page(&self, names: Names) -> Page;

    /// Gives the rows of the answer, as JSON has them, to `take`.
    ///
    /// # Errors
    /// If JSON cannot hold them.
    fn each_row(&self, take: &mut dyn FnMut(serde_json::Value)) -> Result<(), serde_json::Error> {
        if let serde_json::Value::Array(rows) = self.value()? {
            rows.into_iter().for_each(take);
        }
        Ok(())
    }
}

/// What serde can write, whatever its type.
pub(crate) trait Serial {
    /// The value as JSON on lines of its own.
    ///
    /// # Errors
    /// If JSON cannot hold it.
    fn pretty(&self) -> Result<String, serde_json::Error>;

    /// The value as JSON has it, to be taken apart.
    ///
    /// # Errors
    /// If JSON cannot hold it.
    fn value(&self) -> Result<serde_json::Value, serde_json::Error>;
}

impl<T: Serialize> Serial for T {
    fn pretty(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

/// What a report's JSON is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An array.
    Rows,
    /// An object.
    Object,
}
