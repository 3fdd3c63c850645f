//! What a page reads by itself, so that not all of it is in memory at once.

use std::cell::RefCell;
use std::collections::BTreeSet;

use profiledb::Apart;

use super::code::{Code, Listings};
use super::data::{FirstRows, Forms, MOST_LINES, OF_PROCESSES, ReportAnswer, Section, among};
use super::{Options, Read};
use crate::args::Common;
use crate::failure::Failure;
use crate::listing;
use crate::needs::Needs;
use crate::query::Ask;
use crate::reading::{self, Said};
use crate::report::{self, Report};
use crate::source::Source;
use crate::symbols::FunctionId;
use crate::turns::{Parts, Turns};
use crate::view::View;

/// What is read for a page apart from the rest, with which it would take much memory.
pub(super) struct ReadApart<'r> {
    /// The answer of the report on processes: all else needs no more than their names.
    pub(super) of_processes: Section,
    pub(super) code: FirstRows<Code>,
    /// The answer of the report on all values of these functions.
    pub(super) of_values: Box<dyn Parts + 'r>,
}

impl<'r> ReadApart<'r> {
    /// Reads it. `of_values` is the report on all values.
    ///
    /// # Errors
    /// If nothing can be read.
    pub(super) fn new(
        source: &Source,
        of_values: &'r Report,
        options: &Options,
        common: &Common,
    ) -> Result<ReadApart<'r>, Failure> {
        let (least, turns) = match of_values.ask() {
            Ask::Code(query) => (query.needs().min_samples, query.turns()),
            Ask::Counters(_) | Ask::Two(_) => (1, Turns::One),
        };
        let Turns::Parts(mut of_values) = turns else {
            return Err(Failure::Usage("no report of parts".to_owned()));
        };
        let needs = Needs {
            kinds: Needs::ROWS.kinds,
            apart: Apart::Pcs,
            ..super::NEEDS
        };
        let place = |view: &View<'_>, id: FunctionId| {
            let function = view.symbols.function(id)?;
            let image = view.profile.images.get(function.image)?;
            Some((image.identity.clone(), image.path.clone(), function.start))
        };
        let wanted = RefCell::new(BTreeSet::new());
        let hottest = |view: &View<'_>| {
            let hottest = listing::hottest(view);
            let places = hottest.iter().filter_map(|id| place(view, *id));
            wanted.borrow_mut().extend(places);
            hottest
        };
        let mut listings = Listings::new(!options.no_source);
        let mut take = |view: &mut View<'_>| {
            let mut functions = listing::hottest(view);
            // Where it is not known where functions end, there are others.
            functions.retain(|id| place(view, *id).is_some_and(|of| wanted.borrow().contains(&of)));
            view.min_samples = common.min_samples.unwrap_or(needs.min_samples);
            listings.add(view, &functions)?;
            listings.keep_hottest(options.room());
            view.min_samples = common.min_samples.unwrap_or(least);
            among(view, &functions, |view| of_values.add(view));
            Ok(String::new())
        };
        reading::some_at_a_time(source, &hottest, &needs, common, &mut take)?;
        let rows = listings.into_rows();
        Ok(ReadApart {
            of_processes: of_processes(common)?,
            code: FirstRows {
                more: wanted.into_inner().len().saturating_sub(rows.len()),
                rows,
            },
            of_values,
        })
    }
}

/// The answer of the report on processes.
fn of_processes(common: &Common) -> Result<Section, Failure> {
    let report = report::of_words(OF_PROCESSES)?;
    let Ask::Code(query) = report.ask() else {
        return Err(Failure::Usage("no report on code".to_owned()));
    };
    let mut section = Section::empty(OF_PROCESSES);
    let mut take = |source: &Source, view: &mut View<'_>| {
        let read = Read {
            from: String::new(),
            served: source.is_service(),
        };
        let of = (common, &read);
        let answer = ReportAnswer::new(view, OF_PROCESSES, of, MOST_LINES, Forms::Page)?;
        section = answer
            .section
            .unwrap_or_else(|| Section::empty(OF_PROCESSES));
        Ok(String::new())
    };
    let mut held = Said::Held(Vec::new());
    reading::from_source(&query.needs(), common, &mut held, &mut take)?;
    Ok(section)
}
