//! The data of a page: answers of reports, call stacks, and listings.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::apart::ReadApart;
use super::code::{self, Code};
use super::tree::Tree;
use super::{Options, Read};
use crate::args::Common;
use crate::epochs;
use crate::failure::Failure;
use crate::listing;
use crate::names::{self, Names};
use crate::page::Page;
use crate::query::{Answer, Ask};
use crate::render::whole;
use crate::report::{self, Report};
use crate::symbols::FunctionId;
use crate::view::View;

/// Functions of a page at most.
const MOST_FUNCTIONS: usize = 20_000;
/// Rows of another answer at most.
const MOST_ROWS: usize = 3_000;
/// Rows of a report at most, as the page shows it to be read.
pub(super) const MOST_LINES: usize = 500;
/// Values of an argument at most.
const MOST_VALUES: usize = 12;

/// What is said of a report on the functions that have listings.
const OF_LISTED: &str = "Of the functions whose instructions are on this page.";

/// Further reports that a page has, as the command line asks for them.
const REPORTS: [&[&str]; 6] = [
    &["copies"],
    &["targets"],
    &["branches"],
    OF_VALUES,
    &["top", "--by", "image"],
    OF_PROCESSES,
];

/// The report on the values of all instructions. On a page it is of the functions that have
/// listings.
pub(super) const OF_VALUES: &[&str] = &["blks"];

/// The report that tells all processes apart.
pub(super) const OF_PROCESSES: &[&str] = &["top", "--by", "process"];

/// The parameters that the reports of a page are about, as they begin, but for reports on all.
///
/// # Errors
/// If a report is none.
pub(super) fn parameters() -> Result<Vec<String>, Failure> {
    let mut parameters = BTreeSet::new();
    for words in [&["args"][..], &["cg"]].into_iter().chain(REPORTS) {
        if let Ask::Code(query) = report::of_words(words)?.ask() {
            let of_report = query.needs().parameters.iter();
            parameters.extend(of_report.map(|&start| start.to_owned()));
        }
    }
    Ok(parameters.into_iter().collect())
}

/// All that a page shows.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    version: &'static str,
    /// What was read, in words.
    from: String,
    epochs: Vec<Value>,
    samples: u64,
    cycles: u64,
    /// Not all that was collected was asked for.
    is_part: bool,
    /// What counters say of the collection, as `vcpi status` says it; `null` if it says nothing.
    status: Value,
    images: Vec<String>,
    functions: FirstRows<FunctionColumns>,
    tree: Tree,
    code: FirstRows<Code>,
    /// Answer of `args`.
    arguments: FirstRows<Value>,
    /// Answer of `cg`.
    callers: FirstRows<Value>,
    reports: Vec<Section>,
    /// What the reader should know beside it.
    notes: Vec<String>,
}

/// The first of some rows.
#[derive(Debug, Serialize)]
pub(super) struct FirstRows<T> {
    pub(super) rows: Vec<T>,
    /// How many more there are.
    pub(super) more: usize,
}

/// Short name, the whole one if that is another, image, address, cycles, samples.
#[derive(Debug, Serialize)]
struct FunctionColumns(String, Option<String>, usize, Option<String>, u64, u64);

/// A report as people read it.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    /// The command that prints it.
    command: String,
    about: String,
    page: Page,
    /// Rows that were left out.
    more: usize,
    /// Why there is none.
    nothing: Option<String>,
    notes: Vec<String>,
}

impl Data {
    /// The data of a view, with what was read apart from it.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub(super) fn new(
        view: &mut View<'_>,
        apart: Option<ReadApart<'_>>,
        options: &Options,
        common: &Common,
        read: &Read,
    ) -> Result<Data, Failure> {
        let profile = view.profile;
        let epochs = epochs::of(profile, read.served);
        let epochs = epochs.iter().map(epochs::Shown::json).collect();
        let total = view.total();
        let ask = |view: &mut View<'_>, words: &[&str], most, forms| {
            ReportAnswer::new(view, words, (common, read), most, forms)
        };
        let mut images = Vec::new();
        let top = ask(view, &["top"], MOST_FUNCTIONS, Forms::Value)?;
        let functions = functions(top.into_rows(), &mut images);
        let tree = Tree::new(view)?;
        let hottest = listing::hottest(view);
        let (code, mut of_values, mut of_processes) = match apart {
            Some(ReadApart {
                code,
                of_values,
                of_processes,
            }) => (code, Some(of_values), Some(of_processes)),
            None => (listings(view, &hottest, options)?, None, None),
        };
        let callers = ask(view, &["cg"], MOST_ROWS, Forms::Value)?.into_rows();
        let mut arguments = ask(view, &["args"], MOST_ROWS, Forms::Both)?;
        let mut reports: Vec<Section> = arguments.section.take().into_iter().collect();
        let arguments = arguments.into_rows();
        for words in REPORTS {
            if let Some(section) = of_processes.take_if(|_| words == OF_PROCESSES) {
                reports.push(section);
                continue;
            }
            if words != OF_VALUES {
                reports.extend(ask(view, words, MOST_LINES, Forms::Page)?.section);
                continue;
            }
            let section = match of_values.take() {
                Some(found) => {
                    let answer = |view: &mut View<'_>| found.answer(view);
                    ReportAnswer::made(view, words, MOST_LINES, Forms::Page, answer)?.section
                }
                None => {
                    let of_listed = |view: &mut View<'_>| ask(view, words, MOST_LINES, Forms::Page);
                    among(view, &hottest, of_listed)?.section
                }
            };
            reports.extend(section.map(|mut section| {
                section.notes.push(OF_LISTED.to_owned());
                section
            }));
        }
        let status = ask(view, &["status"], MOST_LINES, Forms::Both)?;
        reports.extend(status.section);
        let status = status.value;
        let notes = view.symbols.notes().iter();
        Ok(Data {
            version: env!("CARGO_PKG_VERSION"),
            from: read.from.clone(),
            epochs,
            samples: total.samples,
            cycles: whole(total.cycles),
            is_part: !view.wants_all(),
            status,
            images,
            functions,
            tree,
            code,
            arguments,
            callers,
            reports,
            notes: notes.map(|(_, note)| note.clone()).collect(),
        })
    }
}

/// The rows of `top` with their images told by number.
fn functions(rows: FirstRows<Value>, images: &mut Vec<String>) -> FirstRows<FunctionColumns> {
    let mut index_of: BTreeMap<String, usize> = BTreeMap::new();
    let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |row: &Value, key: &str| row.get(key).and_then(Value::as_u64).unwrap_or(0);
    let function = |row: &Value| {
        let name = text(row, "key").unwrap_or_default();
        let image = text(row, "image").unwrap_or_default();
        let image = *index_of.entry(image).or_insert_with_key(|image| {
            images.push(image.clone());
            images.len() - 1
        });
        let short = names::short(&name);
        FunctionColumns(
            short.clone(),
            Some(name).filter(|name| *name != short),
            image,
            text(row, "address"),
            number(row, "cycles"),
            number(row, "samples"),
        )
    };
    FirstRows {
        rows: rows.rows.iter().map(function).collect(),
        more: rows.more,
    }
}

/// What `take` makes of a view that asks for some functions alone.
pub(super) fn among<T>(
    view: &mut View<'_>,
    functions: &[FunctionId],
    take: impl FnOnce(&mut View<'_>) -> T,
) -> T {
    let before = view.ask_for(Some(functions.iter().copied().collect()));
    let taken = take(view);
    view.ask_for(before);
    taken
}

/// The instructions of the hottest functions.
fn listings(
    view: &mut View<'_>,
    hottest: &[FunctionId],
    options: &Options,
) -> Result<FirstRows<Code>, Failure> {
    let mut listings = code::Listings::new(!options.no_source);
    among(view, hottest, |view| {
        view.look_at(&[]);
        listings.add(view, hottest)
    })?;
    listings.keep_hottest(options.room());
    let rows = listings.into_rows();
    let more = hottest.len().saturating_sub(rows.len());
    Ok(FirstRows { rows, more })
}

/// Leaves out of an argument's values the rarest, and those that chance alone may have made. How
/// many there were is in `distinct`.
fn shorten(row: &mut Value) {
    let arguments = row.get_mut("args").and_then(Value::as_array_mut);
    for argument in arguments.into_iter().flatten() {
        let Some(argument) = argument.as_object_mut() else {
            continue;
        };
        let Some(Value::Array(values)) = argument.get_mut("values") else {
            continue;
        };
        let distinct = values.len();
        values.retain(|value| value.get("supported") == Some(&Value::Bool(true)));
        values.truncate(MOST_VALUES);
        for value in values.iter_mut().filter_map(Value::as_object_mut) {
            value.retain(|key, _| !matches!(key.as_str(), "supported" | "estimate"));
        }
        argument.insert("distinct".to_owned(), Value::from(distinct));
    }
}

/// Which forms of an answer are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forms {
    /// That for programs.
    Value,
    /// That for people.
    Page,
    Both,
}

/// A report's answer.
pub(super) struct ReportAnswer {
    /// For programs; `null` where there is no answer, or none for programs is wanted.
    value: Value,
    /// For people.
    pub(super) section: Option<Section>,
    /// Rows that are in neither.
    more: usize,
}

impl ReportAnswer {
    /// The first `most` rows of what a report answers. No form is made of the others.
    pub(super) fn new<'p>(
        view: &mut View<'p>,
        words: &[&str],
        (common, read): (&Common, &Read),
        most: usize,
        forms: Forms,
    ) -> Result<ReportAnswer, Failure> {
        let report = report::of_words(words)?;
        let answer = |view: &mut View<'p>| answer(view, &report, common, read);
        ReportAnswer::made(view, words, most, forms, answer)
    }

    /// The first `most` rows of an answer.
    fn made<'p>(
        view: &mut View<'p>,
        words: &[&str],
        most: usize,
        forms: Forms,
        answer: impl FnOnce(&mut View<'p>) -> Answer<'p>,
    ) -> Result<ReportAnswer, Failure> {
        view.notes.clear();
        let before = view.begin_rows(Some(most));
        let answer = answer(view);
        let more = view.begin_rows(before.lines).left_out;
        let empty = Section::empty(words);
        match answer {
            Ok(model) => Ok(ReportAnswer {
                value: match (forms, words) {
                    (Forms::Page, _) => Value::Null,
                    (_, ["args"]) => {
                        let mut rows = Vec::new();
                        model.each_row(&mut |mut row| {
                            shorten(&mut row);
                            rows.push(row);
                        })?;
                        Value::Array(rows)
                    }
                    (Forms::Value | Forms::Both, _) => model.value()?,
                },
                section: (forms != Forms::Value).then(|| {
                    let mut page = model.page(Names::Short);
                    Section {
                        more: page.keep_first(MOST_LINES) + more,
                        page,
                        notes: std::mem::take(&mut view.notes),
                        ..empty
                    }
                }),
                more,
            }),
            Err(Failure::Nothing(why) | Failure::Ambiguous(why)) => Ok(ReportAnswer {
                value: Value::Null,
                section: Some(Section {
                    nothing: Some(why),
                    ..empty
                }),
                more: 0,
            }),
            Err(failure) => Err(failure),
        }
    }

    /// The rows of the answer for programs.
    fn into_rows(self) -> FirstRows<Value> {
        FirstRows {
            rows: match self.value {
                Value::Array(rows) => rows,
                _ => Vec::new(),
            },
            more: self.more,
        }
    }
}

impl Section {
    /// What is said where there is no answer.
    pub(super) fn empty(words: &[&str]) -> Section {
        let command = report::commands();
        let name = words.first().copied().unwrap_or_default();
        let about = command
            .find_subcommand(name)
            .and_then(clap::Command::get_about);
        Section {
            command: format!("vcpi {}", words.join(" ")),
            about: about.map(ToString::to_string).unwrap_or_default(),
            page: Page::default(),
            more: 0,
            nothing: None,
            notes: Vec::new(),
        }
    }
}

/// A report's answer, from as many samples as the report asks for by itself.
fn answer<'p>(view: &mut View<'p>, report: &Report, common: &Common, read: &Read) -> Answer<'p> {
    match report.ask() {
        Ask::Code(query) => {
            let needs = query.needs();
            view.min_samples = common.min_samples.unwrap_or(needs.min_samples);
            view.look_at(needs.parameters);
            query.answer(view)
        }
        Ask::Counters(account) => account.answer(view.profile, read.served),
        Ask::Two(_) => Err(Failure::Usage("no report of one profile".to_owned())),
    }
}
