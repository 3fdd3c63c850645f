//! Reading at several turns, so that less is in memory at a time.

use std::collections::BTreeMap;

use profiledb::{Filter, Places};

use super::{PlacesHold, Reading, ReadingOutcome, Said};
use crate::args::Common;
use crate::failure::Failure;
use crate::listing;
use crate::model::Model;
use crate::needs::Needs;
use crate::query::Query;
use crate::source::{self, Source};
use crate::symbols::FunctionId;
use crate::turns::{Parts, Turns};
use crate::view::View;

/// Instructions of a part. In weeks of a service those that run much have lists of some hundreds of
/// values, each of some thirty bytes.
const PART: usize = 4 << 10;

/// What is read, and for whom.
pub(super) struct Request<'r> {
    pub(super) source: &'r Source,
    pub(super) filter: Filter,
    pub(super) needs: Needs<'r>,
    pub(super) common: &'r Common,
}

/// What `take` makes of the answer to a question on all functions, and what is to be said beside
/// it.
///
/// # Errors
/// If there is none.
pub(super) fn of_all(
    query: &dyn Query,
    mut request: Request<'_>,
    take: &dyn Fn(&dyn Model) -> Result<String, Failure>,
    said: &mut Said,
) -> Result<String, Failure> {
    let Request {
        source,
        needs,
        common,
        ..
    } = request;
    let by_function = needs.function.is_some() || common.only_function.is_some();
    match query.turns() {
        // All that the service sends is read at once.
        _ if source.is_service() => {}
        Turns::One => {}
        Turns::Details(turns) => {
            if let Some(places) = places(source, &turns.first, common, &turns.places) {
                let narrowed = Needs {
                    parameters: turns.elsewhere,
                    details: Some(&places),
                    detailed: turns.there,
                    ..needs
                };
                request.filter = source::filter(common, &narrowed)?;
            }
        }
        Turns::Parts(_) if by_function => {}
        Turns::Parts(parts) => {
            if let Some(answer) = in_parts(parts, &request, take, said) {
                return answer;
            }
        }
    }
    let reading = Reading::new(source, &request.filter, &request.needs, common);
    match reading.answer(query, take, said) {
        ReadingOutcome::Found(answer) => answer,
        ReadingOutcome::NotFound(failure) => Err(failure),
    }
}

/// What `take` makes of a view of all rows that are needed. At some turns, of no more than these
/// ask for; parts are read at once.
///
/// # Errors
/// If they cannot be read, or what `take` fails with.
pub(crate) fn view(
    turns: Turns<'_>,
    needs: &Needs<'_>,
    common: &Common,
    take: &mut dyn FnMut(&mut View<'_>) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let mut take = |_: &Source, view: &mut View<'_>| take(view);
    let mut read =
        |needs: &Needs<'_>| super::from_source(needs, common, &mut Said::AtOnce, &mut take);
    let Turns::Details(turns) = turns else {
        return read(needs);
    };
    let places = match source::source(common)? {
        Source::Service(_) => None,
        source => places(&source, &turns.first, common, &turns.places),
    };
    match places {
        Some(places) => read(&Needs {
            parameters: turns.elsewhere,
            details: Some(&places),
            detailed: turns.there,
            ..*needs
        }),
        None => read(needs),
    }
}

/// The places that a view of what is read for them tells. `None`: it cannot be read; why is said by
/// who reads all.
pub(crate) fn places(
    source: &Source,
    needs: &Needs<'_>,
    common: &Common,
    tell: &dyn Fn(&View<'_>) -> Places,
) -> Option<Places> {
    let filter = source::filter(common, needs).ok()?;
    let mut places = Places::default();
    let mut take = |view: &mut View<'_>| {
        places = tell(view);
        Ok(String::new())
    };
    let reading = Reading::new(source, &filter, needs, common);
    match reading.with_view(&mut take, &mut Said::Held(Vec::new())) {
        ReadingOutcome::Found(_) => Some(places),
        ReadingOutcome::NotFound(_) => None,
    }
}

/// What `take` makes of the answer that parts add up to. `None`: it is read at once, since there is
/// little, or something is wrong with it.
fn in_parts(
    parts: Box<dyn Parts + '_>,
    request: &Request<'_>,
    take: &dyn Fn(&dyn Model) -> Result<String, Failure>,
    said: &mut Said,
) -> Option<Result<String, Failure>> {
    let Request {
        source,
        needs,
        common,
        ..
    } = request;
    let first = Needs {
        min_samples: needs.min_samples,
        ..Needs::PLACES
    };
    let filter = source::filter(common, &first).ok()?;
    let mut parts = Some(parts);
    let mut answer = |whole: &mut View<'_>| {
        let groups = groups(whole, sizes(whole));
        let parts = parts.take_if(|_| groups.len() > 1);
        let Some(mut parts) = parts else {
            return Ok(String::new());
        };
        for places in groups {
            add(parts.as_mut(), whole, places, request)?;
        }
        take(parts.answer(whole)?.as_ref())
    };
    let mut held = Said::Held(Vec::new());
    let outcome = Reading::new(source, &filter, &first, common).with_view(&mut answer, &mut held);
    let ReadingOutcome::Found(answer) = outcome else {
        return None;
    };
    // Else nothing was added.
    parts.is_none().then(|| {
        for message in held.into_messages() {
            said.push(message);
        }
        answer
    })
}

/// Adds what there is at some places.
fn add(
    parts: &mut (dyn Parts + '_),
    whole: &mut View<'_>,
    places: Places,
    request: &Request<'_>,
) -> Result<(), Failure> {
    let mut add = |part: &mut View<'_>| {
        parts.add(part);
        whole.count_left_out(part);
        Ok(String::new())
    };
    of_part(request, places, &mut add)
}

/// Gives `take` a view of the functions at some places.
fn of_part(
    request: &Request<'_>,
    places: Places,
    take: &mut dyn FnMut(&mut View<'_>) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let Request {
        source,
        filter,
        needs,
        common,
    } = request;
    let filter = Filter {
        places: Some(places),
        ..filter.clone()
    };
    let reading = Reading::new(source, &filter, needs, common).of_places(PlacesHold::Functions);
    match reading.with_view(take, &mut Said::Held(Vec::new())) {
        ReadingOutcome::Found(taken) => taken.map(drop),
        ReadingOutcome::NotFound(failure) => Err(failure),
    }
}

/// Gives `take` views of the functions that a view of their time names, some at a time. None, where
/// that cannot be read: why is said by who reads all.
///
/// # Errors
/// If they cannot be read, or what `take` fails with.
pub(crate) fn some_at_a_time(
    source: &Source,
    functions: &dyn Fn(&View<'_>) -> Vec<FunctionId>,
    needs: &Needs<'_>,
    common: &Common,
    take: &mut dyn FnMut(&mut View<'_>) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let first = source::filter(common, &Needs::HEAT)?;
    let mut groups = Vec::new();
    let mut find = |view: &mut View<'_>| {
        let functions = functions(view).into_iter();
        let sizes = functions.map(|id| (id, view.pcs_of(id).len()));
        groups = self::groups(view, sizes.collect());
        Ok(String::new())
    };
    let reading = Reading::new(source, &first, &Needs::HEAT, common);
    reading.with_view(&mut find, &mut Said::Held(Vec::new()));
    let request = Request {
        source,
        filter: source::filter(common, needs)?,
        needs: *needs,
        common,
    };
    let mut groups = groups.into_iter();
    groups.try_for_each(|places| of_part(&request, places, take))
}

/// The functions that a view asks for, and how many instructions each has in the profile.
fn sizes(view: &View<'_>) -> BTreeMap<FunctionId, usize> {
    let mut instructions: BTreeMap<FunctionId, usize> = BTreeMap::new();
    for pc in 0..view.profile.pcs.len() {
        if let Some(function) = view.symbols.function_of(pc).filter(|_| view.wants(pc)) {
            *instructions.entry(function).or_default() += 1;
        }
    }
    instructions
}

/// Functions with so many instructions each, in the order of their addresses, some at a time.
fn groups(view: &View<'_>, instructions: BTreeMap<FunctionId, usize>) -> Vec<Places> {
    let mut functions: Vec<_> = instructions
        .into_iter()
        .filter_map(|(id, count)| Some((view.symbols.function(id)?, id, count)))
        .collect();
    functions.sort_by_key(|(function, id, _)| (function.image, function.start, *id));
    // Of an image in which it is not known where functions end, all are together; so are those that
    // overlap.
    let mut groups = Vec::new();
    let mut group: Vec<FunctionId> = Vec::new();
    let (mut image, mut end, mut count) = (None, None, 0);
    for (function, id, more) in functions {
        let is_apart = image != Some(function.image)
            || function
                .start
                .zip(end)
                .is_some_and(|(start, end)| start >= end);
        if is_apart && count + more > PART && !group.is_empty() {
            groups.push(listing::places(view, &group));
            group.clear();
            count = 0;
        }
        end = match image == Some(function.image) {
            true => end
                .zip(function.end)
                .map(|(known, own): (u64, u64)| known.max(own)),
            false => function.end.filter(|_| function.start.is_some()),
        };
        image = Some(function.image);
        count += more;
        group.push(id);
    }
    if !group.is_empty() {
        groups.push(listing::places(view, &group));
    }
    groups
}
