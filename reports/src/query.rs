//! A report as a question: what it needs to have read, and the value that answers it.
//!
//! The way is query, model, renderer. A report knows no form of the output, and a form no report.

use std::path::PathBuf;

use profiledb::{Apart, Profile};
use protocol::Kinds;
use serde::Serialize;

use crate::args::Common;
use crate::failure::Failure;
use crate::names::Names;
use crate::page::Page;
use crate::view::View;

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

/// The answer, or why there is none.
pub(crate) type Answer<'p> = Result<Box<dyn Model + 'p>, Failure>;

/// A report on code: on the rows of one profile.
pub(crate) trait Query {
    /// What is to be read for it.
    fn needs(&self) -> Needs<'_>;

    /// Whether the question makes sense.
    ///
    /// # Errors
    /// If it makes none.
    fn check(&self, _common: &Common) -> Result<(), Failure> {
        Ok(())
    }

    /// The answer, where it needs no profile.
    fn unread(&self) -> Option<Answer<'static>> {
        None
    }

    /// The answer.
    ///
    /// # Errors
    /// If there is none in the profile.
    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p>;
}

/// A report on how profiles were collected: on counters, which belong to no code.
pub(crate) trait Account {
    /// The answer; `served`: the profile comes from the service.
    ///
    /// # Errors
    /// If there is none in the profile.
    fn answer<'p>(&self, profile: &'p Profile, served: bool) -> Answer<'p>;
}

/// A report on two profiles.
pub(crate) trait Comparison {
    /// What is to be read of both for it.
    fn needs(&self) -> Needs<'_>;

    /// Which profiles.
    ///
    /// # Errors
    /// If that cannot be told.
    fn sides(&self) -> Result<[Side; 2], Failure>;

    /// The answer.
    ///
    /// # Errors
    /// If there is none in the profiles.
    fn answer<'p>(&self, before: &mut View<'p>, after: &mut View<'p>) -> Answer<'p>;
}

/// One of two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Side {
    /// As it was asked for.
    pub(crate) name: String,
    /// Where it is; `None`: what the common options say.
    pub(crate) input: Option<PathBuf>,
    /// An epoch of it; `None`: all that the common options say.
    pub(crate) epoch: Option<i64>,
}

/// A report, by what it is about.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Code.
    Code(&'a dyn Query),
    /// How profiles were collected.
    Counters(&'a dyn Account),
    /// Two profiles.
    Two(&'a dyn Comparison),
}

/// What a report's JSON is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An array.
    Rows,
    /// An object.
    Object,
}

impl Ask<'_> {
    /// What the report's JSON is.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Ask::Code(_) | Ask::Two(_) => Shape::Rows,
            Ask::Counters(_) => Shape::Object,
        }
    }
}

/// What is to be read for a report, and how it is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The function named in the report's own words.
    pub(crate) function: Option<&'a str>,
    /// Tables.
    pub(crate) kinds: Kinds,
    /// How parameters begin that the report is about; nothing: any may be.
    pub(crate) parameters: &'a [&'a str],
    /// How far interrupts are to be told apart.
    pub(crate) apart: Apart,
    /// Rows of other images than those asked for change nothing.
    pub(crate) one_image: bool,
    /// Of a function asked for, its own rows are enough.
    pub(crate) one_function: bool,
    /// Least samples behind what is shown, unless asked for otherwise.
    pub(crate) min_samples: u64,
    /// PLT stubs go by the names of the functions behind them.
    pub(crate) stubs: bool,
    /// Those who call are named, or what is called.
    pub(crate) others: bool,
    /// No function is named.
    pub(crate) nameless: bool,
    /// Interrupts are told apart by their flushes.
    pub(crate) by_flush: bool,
    /// Where a function is asked for, whether its values rise or fall.
    pub(crate) trends: bool,
}

/// No table.
pub(crate) const NO_ROWS: Kinds = Kinds {
    cycles: false,
    values: false,
    branches: false,
    calls: false,
    stacks: false,
    counters: false,
};

impl Needs<'_> {
    /// What a report on counters needs.
    pub(crate) const COUNTERS: Needs<'static> = Needs {
        kinds: Kinds {
            counters: true,
            ..NO_ROWS
        },
        ..Needs::ROWS
    };

    /// All rows of code.
    pub(crate) const ROWS: Needs<'static> = Needs {
        function: None,
        kinds: Kinds {
            cycles: true,
            values: true,
            branches: true,
            calls: true,
            stacks: false,
            counters: false,
        },
        parameters: &[],
        apart: Apart::Calls,
        one_image: false,
        one_function: true,
        min_samples: 1,
        stubs: false,
        others: true,
        nameless: false,
        by_flush: false,
        trends: false,
    };

    /// Whether it is counters that are asked for, those of all processes.
    pub(crate) fn is_of_counters(&self) -> bool {
        self.kinds == Needs::COUNTERS.kinds
    }
}
