//! In which turns a profile is read for a report: all values of a service's weeks take more memory
//! than a report may.

use profiledb::Places;

use crate::failure::Failure;
use crate::model::Model;
use crate::needs::Needs;
use crate::view::View;

/// How a profile of all functions is read.
pub(crate) enum Turns<'q> {
    /// All at once.
    One,
    /// What tells where lists of more parameters are needed; then these, and some elsewhere.
    Details(Details<'q>),
    /// Where values are; then some functions after the other.
    Parts(Box<dyn Parts + 'q>),
}

/// What is read at two turns.
pub(crate) struct Details<'q> {
    /// What is to be read first.
    pub(crate) first: Needs<'q>,
    /// How parameters begin that are needed at some places; nothing: all are.
    pub(crate) there: &'q [&'q str],
    /// Where, as a view of what is read first tells.
    pub(crate) places: Box<dyn Fn(&View<'_>) -> Places + 'q>,
    /// How parameters begin that are needed elsewhere.
    pub(crate) elsewhere: &'q [&'q str],
}

/// An answer to which each function adds by itself.
pub(crate) trait Parts {
    /// Adds what a view of some functions has.
    fn add(&mut self, part: &mut View<'_>);

    /// The answer, once all were added.
    ///
    /// # Errors
    /// If there is none in the profile.
    fn answer(self: Box<Self>, whole: &mut View<'_>) -> Result<Box<dyn Model>, Failure>;
}
