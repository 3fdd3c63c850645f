//! From a question to its answer: what is read, what is said beside it, and what puts it into form.

mod turns;

use std::collections::BTreeSet;

use profiledb::{Filter, Places, Profile};

use crate::args::Common;
use crate::failure::Failure;
use crate::messages::say;
use crate::model::Model;
use crate::names::without_parameters;
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::query::{Account, Ask, Comparison, Query, Side};
use crate::render;
use crate::source::{self, Loaded, Source, Whereabouts};
use crate::symbols;
use crate::view::{Extent, View};
use crate::{absent, epochs, images};

use self::turns::Request;
pub(crate) use self::turns::{some_at_a_time, view};

/// Notes on missing names that are printed before the rest is only counted.
const MAX_NOTES: usize = 4;

/// The report in the form asked for.
///
/// # Errors
/// If there is none: see [`Failure`].
pub(crate) fn report(ask: Ask<'_>, common: &Common) -> Result<String, Failure> {
    match ask {
        Ask::Code(query) => {
            let take = |model: &dyn Model| in_form(model, common);
            of_code(query, common, &take, &mut Said::AtOnce)
        }
        Ask::Counters(account) => of_counters(account, common),
        Ask::Two(comparison) => of_two(comparison, common),
    }
}

/// What `take` makes of the answer to a question on code, and what is to be said beside it.
///
/// # Errors
/// If there is none: see [`Failure`].
pub(crate) fn of_code(
    query: &dyn Query,
    common: &Common,
    take: &dyn Fn(&dyn Model) -> Result<String, Failure>,
    said: &mut Said,
) -> Result<String, Failure> {
    if let Some(answer) = query.unread() {
        return take(answer?.as_ref());
    }
    let needs = query.needs();
    let wanted = one_function(&needs, common)?;
    query.check(common)?;
    let filter = source::filter(common, &needs)?;
    let source = source::source(common)?;
    // Of one function its rows are enough.
    if let Some(name) = wanted
        && needs.one_function
    {
        let mut answer = |places: Places, hold: PlacesHold| {
            let filter = Filter {
                places: Some(places),
                // Of one function they are few, and are added up in less time when all are there.
                added_up: false,
                // Where it is has been told: nothing else has to tell its name.
                parameters: source::parameters(&needs),
                ..filter.clone()
            };
            let is_around = hold == PlacesHold::Name;
            let kinds = needs.enough.filter(|_| is_around).unwrap_or(needs.kinds);
            let needs = Needs { kinds, ..needs };
            let mut held = Said::Held(Vec::new());
            let reading = Reading::new(&source, &filter, &needs, common).of_places(hold);
            let ReadingOutcome::Found(answer) = reading.answer(query, take, &mut held) else {
                return None;
            };
            for message in held.into_messages() {
                said.push(message);
            }
            Some(answer)
        };
        let known = match source::whereabouts(&source, name, &needs, common) {
            Whereabouts::Places(places) => {
                if let Some(answer) = answer(places.clone(), PlacesHold::Name) {
                    return answer;
                }
                Some(places)
            }
            Whereabouts::Untold => Some(Places::default()),
            Whereabouts::Unasked => None,
        };
        if let Some(known) = known {
            match functions_meant(name, known, &source, &needs, common) {
                Ok(places) => {
                    if let Some(answer) = answer(places, PlacesHold::Functions) {
                        return answer;
                    }
                }
                Err((failure, messages)) => {
                    for message in messages {
                        said.push(message);
                    }
                    return Err(failure);
                }
            }
        }
    }
    // Whatever went wrong is told by a report of all.
    let request = Request {
        source: &source,
        filter,
        needs,
        common,
    };
    turns::of_all(query, request, take, said)
}

/// Where the functions are that a name means in a whole profile, as [`functions_called`] tells it.
/// Those that go by it may be at `known`; it may be a part of others.
fn functions_meant(
    name: &str,
    mut known: Places,
    source: &Source,
    needs: &Needs<'_>,
    common: &Common,
) -> Result<Places, (Failure, Vec<String>)> {
    if let Some(of_part) = source::whereabouts_of_part(source, name, common) {
        known.add_places(&of_part);
        match functions_called(name, Some(known), source, needs, common) {
            // Why there is none is told by a look at all.
            Err((Failure::Nothing(_), _)) => {}
            told => return told,
        }
    }
    functions_called(name, None, source, needs, common)
}

/// Where the functions are that a name means in a whole profile, or in what is at some places of
/// it; or why there are none, and what is to be said beside that.
fn functions_called(
    name: &str,
    within: Option<Places>,
    source: &Source,
    needs: &Needs<'_>,
    common: &Common,
) -> Result<Places, (Failure, Vec<String>)> {
    let needs = Needs {
        function: Some(name),
        details: None,
        only_places: true,
        by_flush: false,
        trends: 0,
        ..*needs
    };
    let filter = Filter {
        places: within,
        ..source::filter(common, &needs).map_err(|failure| (failure, Vec::new()))?
    };
    let mut held = Said::Held(Vec::new());
    let mut places = Places::default();
    let mut find = |view: &mut View<'_>| {
        places = view.places();
        Ok(String::new())
    };
    let reading = Reading::new(source, &filter, &needs, common).of_places(PlacesHold::Part);
    match reading.with_view(&mut find, &mut held) {
        ReadingOutcome::Found(_) => Ok(places),
        ReadingOutcome::NotFound(failure) => Err((failure, held.into_messages())),
    }
}

/// What `take` makes of a view of all rows that are needed, and of where they are from; and what is
/// to be said beside it.
///
/// # Errors
/// If they cannot be read, or what `take` fails with.
pub(crate) fn from_source(
    needs: &Needs<'_>,
    common: &Common,
    said: &mut Said,
    take: &mut dyn FnMut(&Source, &mut View<'_>) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let filter = source::filter(common, needs)?;
    let source = source::source(common)?;
    let reading = Reading::new(&source, &filter, needs, common);
    match reading.with_view(&mut |view| take(&source, view), said) {
        ReadingOutcome::Found(taken) => taken,
        ReadingOutcome::NotFound(failure) => Err(failure),
    }
}

/// The names of the functions of a profile as reports take them, also of those without time.
///
/// # Errors
/// If the profile cannot be read.
pub(crate) fn functions(common: &Common) -> Result<Vec<String>, Failure> {
    let needs = Needs {
        kinds: CYCLES_AND_VALUES,
        only_places: true,
        one_function: false,
        ..Needs::ROWS
    };
    let mut names = BTreeSet::new();
    let mut take = |_: &Source, view: &mut View<'_>| {
        let named = view
            .symbols
            .functions()
            .iter()
            .filter(|function| function.start.is_some());
        names = named
            .map(|function| without_parameters(&function.name))
            .collect();
        Ok(String::new())
    };
    from_source(&needs, common, &mut Said::Held(Vec::new()), &mut take)?;
    Ok(names.into_iter().collect())
}

fn of_counters(account: &dyn Account, common: &Common) -> Result<String, Failure> {
    let needs = Needs::COUNTERS;
    let filter = source::filter(common, &needs)?;
    let source = source::source(common)?;
    let mut said = Said::AtOnce;
    let profile = Reading::new(&source, &filter, &needs, common).load(&mut said)?;
    say_of_counters(&profile, common, &mut said);
    in_form(
        account.answer(&profile, source.is_service())?.as_ref(),
        common,
    )
}

fn of_two(comparison: &dyn Comparison, common: &Common) -> Result<String, Failure> {
    let needs = comparison.needs();
    one_function(&needs, common)?;
    let [before, after] = comparison.sides()?;
    let before = of_side(&before, &needs, common)?;
    let after = of_side(&after, &needs, common)?;
    let [mut before, mut after] = View::of_two([&before, &after], common, &needs)?;
    let answer = comparison.answer(&mut before, &mut after)?;
    // What holds for both is said once.
    before.notes.retain(|note| !after.notes.contains(note));
    let mut said = Said::AtOnce;
    for view in [&mut before, &mut after] {
        say_of_view(view, &mut said);
    }
    in_form(answer.as_ref(), common)
}

/// What was read of one of two profiles.
fn of_side(side: &Side, needs: &Needs<'_>, common: &Common) -> Result<Profile, Failure> {
    let mut common = common.clone();
    if let Some(input) = &side.input {
        common.input = vec![input.clone()];
    }
    if let Some(epoch) = side.epoch {
        common.epoch = vec![epoch];
    }
    let filter = source::filter(&common, needs)?;
    let source = source::source(&common)?;
    Reading::new(&source, &filter, needs, &common).load(&mut Said::AtOnce)
}

/// The function that is asked for, in one way or the other.
fn one_function<'a>(needs: &Needs<'a>, common: &'a Common) -> Result<Option<&'a str>, Failure> {
    let (function, option) = (needs.function, common.only_function.as_deref());
    if let (Some(one), Some(other)) = (function, option)
        && one != other
    {
        return Err(Failure::Usage(format!(
            "which function: '{one}', or '{other}' (--function)?"
        )));
    }
    Ok(function.or(option))
}

/// An answer in the form asked for.
fn in_form(model: &dyn Model, common: &Common) -> Result<String, Failure> {
    common.format.renderer().render(model, common.names())
}

/// What is said beside a report.
pub(crate) enum Said {
    /// It goes out as it comes.
    AtOnce,
    /// It may yet be for nothing.
    Held(Vec<String>),
}

impl Said {
    fn push(&mut self, message: String) {
        match self {
            Said::AtOnce => say(&message),
            Said::Held(messages) => messages.push(message),
        }
    }

    /// What was held back.
    pub(crate) fn into_messages(self) -> Vec<String> {
        match self {
            Said::AtOnce => Vec::new(),
            Said::Held(messages) => messages,
        }
    }
}

/// What came of reading for a report.
enum ReadingOutcome {
    /// What was asked for is there.
    Found(Result<String, Failure>),
    /// It is not in what was read.
    NotFound(Failure),
}

/// What a filter's places hold, if it has any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlacesHold {
    /// All functions of the name asked for.
    Name,
    /// All functions in whose names it is.
    Part,
    /// The functions asked for, and nothing else.
    Functions,
}

/// One reading of one source.
struct Reading<'r> {
    source: &'r Source,
    filter: &'r Filter,
    needs: &'r Needs<'r>,
    common: &'r Common,
    hold: PlacesHold,
}

impl<'r> Reading<'r> {
    fn new(
        source: &'r Source,
        filter: &'r Filter,
        needs: &'r Needs<'r>,
        common: &'r Common,
    ) -> Reading<'r> {
        Reading {
            source,
            filter,
            needs,
            common,
            hold: PlacesHold::Name,
        }
    }

    /// A reading of the filter's places, if there are any, which hold this.
    fn of_places(self, hold: PlacesHold) -> Self {
        Reading { hold, ..self }
    }

    /// The rows that the filter lets through, and what is to be said of them.
    fn load(&self, said: &mut Said) -> Result<Profile, Failure> {
        let Reading {
            source,
            filter,
            needs,
            common,
            ..
        } = self;
        let Loaded { profile, left_out } = source::load(source, filter, needs, common)?;
        said.push(source::describe(source, &profile));
        for what in &left_out {
            said.push(format!("left out: {what}"));
        }
        for sentence in epochs::doubled(&profile) {
            said.push(sentence);
        }
        // Functions that are there may have no rows of the kind asked for, which the report says.
        if self.hold != PlacesHold::Functions && absent::is_empty(&profile, needs) {
            return Err(absent::explain(&profile, &left_out, source, filter, common));
        }
        let without_rows = absent::epochs_without_rows(&profile, filter);
        for sentence in epochs::added_up(&profile).into_iter().chain(without_rows) {
            said.push(sentence);
        }
        if filter.is_timed()
            && let Some(reach) = epochs::reach(&profile)
        {
            said.push(reach);
        }
        Ok(profile)
    }

    /// The report of what was read, and what is to be said beside it.
    fn answer(
        &self,
        query: &dyn Query,
        take: &dyn Fn(&dyn Model) -> Result<String, Failure>,
        said: &mut Said,
    ) -> ReadingOutcome {
        let mut answer = |view: &mut View<'_>| take(query.answer(view)?.as_ref());
        self.with_view(&mut answer, said)
    }

    /// What `take` makes of what was read, and what is to be said beside it.
    fn with_view(
        &self,
        take: &mut dyn FnMut(&mut View<'_>) -> Result<String, Failure>,
        said: &mut Said,
    ) -> ReadingOutcome {
        let mut profile = match self.load(said) {
            Ok(profile) => profile,
            Err(failure) => return ReadingOutcome::NotFound(failure),
        };
        if self.filter.only_places {
            profile.recall_all();
        }
        let offers = match self.needs.stubs {
            true => symbols::recall_targets(&mut profile),
            false => None,
        };
        let extent = match &self.filter.places {
            None => Extent::Whole,
            Some(places) => match self.hold {
                PlacesHold::Name => Extent::Around,
                // Whatever is not there is not asked for.
                PlacesHold::Part => Extent::Whole,
                PlacesHold::Functions => Extent::Exactly(places),
            },
        };
        let mut view = match View::new(&profile, self.common, self.needs, extent, offers) {
            Ok(view) => view,
            Err(failure) => return ReadingOutcome::NotFound(failure),
        };
        for sentence in images::missing(&profile, &self.common.image) {
            said.push(sentence);
        }
        let taken = take(&mut view);
        say_of_view(&mut view, said);
        ReadingOutcome::Found(taken)
    }
}

/// Says what an answer came with.
fn say_of_view(view: &mut View<'_>, said: &mut Said) {
    view.notes.extend(view.beyond());
    view.notes.extend(view.too_few());
    for note in std::mem::take(&mut view.notes) {
        said.push(note);
    }
    say_of_names(view, said);
}

/// Says which images that the report is about cannot name their code.
fn say_of_names(view: &View<'_>, said: &mut Said) {
    let needed = view.images_needed();
    let notes = view.symbols.notes().iter();
    let notes: Vec<&String> = notes
        .filter(|(image, _)| needed.contains(image))
        .map(|(_, note)| note)
        .collect();
    for note in notes.iter().take(MAX_NOTES) {
        said.push((*note).clone());
    }
    let more = notes.len().saturating_sub(MAX_NOTES);
    if more > 0 {
        let images = render::counted(more as u64, "more image");
        said.push(format!("{images} without names"));
    }
}

/// Says what the counters of a profile are not.
fn say_of_counters(profile: &Profile, common: &Common, said: &mut Said) {
    let by_row = !common.pid.is_empty()
        || !common.user.is_empty()
        || common.only_function.is_some()
        || !common.image.is_empty();
    if by_row {
        let why = "counters are kept for the whole collection: --pid, --user, --image and \
                   --function do not apply";
        said.push(why.to_owned());
    }
    if epochs::are_withheld(profile) {
        let why = "the samples are yours; what else the service counts is for root and its group";
        said.push(why.to_owned());
    }
}
