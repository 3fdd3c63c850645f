//! A report as a question: what it needs to have read, and the value that answers it.

use std::path::PathBuf;

use profiledb::Profile;

use crate::args::Common;
use crate::failure::Failure;
use crate::model::{Model, Shape};
use crate::needs::Needs;
use crate::turns::Turns;
use crate::view::View;

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

    /// In which turns a profile of all functions is read for it.
    fn turns(&self) -> Turns<'_> {
        Turns::One
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

impl Ask<'_> {
    /// What the report's JSON is.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Ask::Code(_) | Ask::Two(_) => Shape::Rows,
            Ask::Counters(_) => Shape::Object,
        }
    }
}
