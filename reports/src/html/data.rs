//! The data of a page: answers of reports, call stacks, and listings.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::CommandFactory as _;
use serde::Serialize;
use serde_json::Value;

use super::code::{self, Code};
use super::tree::Tree;
use super::{Options, Read};
use crate::args::{self, Cli, Command, Common};
use crate::epochs;
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::page::Page;
use crate::query::{Ask, Model};
use crate::render::whole;
use crate::report::Report;
use crate::symbols::FunctionId;
use crate::view::View;

/// Functions of a page at most.
const MOST_FUNCTIONS: usize = 20_000;
/// Rows of another answer at most.
const MOST_ROWS: usize = 3_000;
/// Rows of a report at most, as the page shows it to be read.
const MOST_LINES: usize = 500;
/// Values of an argument at most.
const MOST_VALUES: usize = 12;

/// Further reports that a page has, as the command line asks for them.
const REPORTS: [&[&str]; 6] = [
    &["copies"],
    &["targets"],
    &["branches"],
    &["blks"],
    &["top", "--by", "image"],
    &["top", "--by", "process"],
];

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
    functions: Rows<Function>,
    tree: Tree,
    code: Rows<Code>,
    /// Answer of `args`.
    arguments: Rows<Value>,
    /// Answer of `cg`.
    callers: Rows<Value>,
    reports: Vec<Section>,
    /// What the reader should know beside it.
    notes: Vec<String>,
}

/// The first of some rows.
#[derive(Debug, Serialize)]
struct Rows<T> {
    rows: Vec<T>,
    /// How many more there are.
    more: usize,
}

/// Short name, the whole one if that is another, image, address, cycles, samples.
#[derive(Debug, Serialize)]
struct Function(String, Option<String>, usize, Option<String>, u64, u64);

/// A report as people read it.
#[derive(Debug, Serialize)]
struct Section {
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

impl<T> Rows<T> {
    fn new(mut rows: Vec<T>, most: usize) -> Rows<T> {
        let more = rows.len().saturating_sub(most);
        rows.truncate(most);
        Rows { rows, more }
    }
}

impl Data {
    /// The data of a view.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub(super) fn new(
        view: &mut View<'_>,
        options: &Options,
        common: &Common,
        read: &Read,
    ) -> Result<Data, Failure> {
        let profile = view.profile;
        let epochs = epochs::of(profile, read.served);
        let epochs = epochs.iter().map(epochs::Shown::json).collect();
        let total = view.total();
        let (top, _) = asked(view, &["top"], common, read)?;
        let mut images = Vec::new();
        let functions = functions(rows_of(top), &mut images);
        let tree = Tree::new(view)?;
        let code = listings(view, options)?;
        let (callers, _) = asked(view, &["cg"], common, read)?;
        let (arguments, section) = asked(view, &["args"], common, read)?;
        let mut arguments = Rows::new(rows_of(arguments), MOST_ROWS);
        arguments.rows.iter_mut().for_each(shorten);
        let mut reports = vec![section];
        for words in REPORTS {
            reports.push(asked(view, words, common, read)?.1);
        }
        let (status, section) = asked(view, &["status"], common, read)?;
        reports.push(section);
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
            callers: Rows::new(rows_of(callers), MOST_ROWS),
            reports,
            notes: notes.map(|(_, note)| note.clone()).collect(),
        })
    }
}

/// The rows of `top` with their images told by number.
fn functions(rows: Vec<Value>, images: &mut Vec<String>) -> Rows<Function> {
    let mut index_of: BTreeMap<String, usize> = BTreeMap::new();
    let rows = Rows::new(rows, MOST_FUNCTIONS);
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
        Function(
            short.clone(),
            Some(name).filter(|name| *name != short),
            image,
            text(row, "address"),
            number(row, "cycles"),
            number(row, "samples"),
        )
    };
    Rows {
        rows: rows.rows.iter().map(function).collect(),
        more: rows.more,
    }
}

/// The instructions of the hottest functions.
fn listings(view: &mut View<'_>, options: &Options) -> Result<Rows<Code>, Failure> {
    let hottest: Vec<FunctionId> = code::hottest(view);
    let before = view.ask_for(Some(hottest.iter().copied().collect()));
    let rows = code::listings(view, &hottest, options.room(), !options.no_source);
    view.ask_for(before);
    let rows = rows?;
    let more = hottest.len().saturating_sub(rows.len());
    Ok(Rows { rows, more })
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

/// A report's answer for programs, `null` where there is none, and for people.
fn asked(
    view: &mut View<'_>,
    words: &[&str],
    common: &Common,
    read: &Read,
) -> Result<(Value, Section), Failure> {
    let report = report(words)?;
    view.notes.clear();
    let empty = Section::empty(words);
    match answer(view, &report, common, read) {
        Ok(model) => {
            let mut page = model.page(Names::Short);
            let section = Section {
                more: page.keep_first(MOST_LINES),
                page,
                notes: std::mem::take(&mut view.notes),
                ..empty
            };
            Ok((model.value()?, section))
        }
        Err(Failure::Nothing(why)) => Ok((
            Value::Null,
            Section {
                nothing: Some(why),
                ..empty
            },
        )),
        Err(failure) => Err(failure),
    }
}

/// The rows of an answer for programs.
fn rows_of(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}

impl Section {
    fn empty(words: &[&str]) -> Section {
        let command = Cli::command();
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

/// The report that words on the command line ask for.
fn report(words: &[&str]) -> Result<Report, Failure> {
    let words = ["vcpi"].iter().chain(words).map(OsString::from).collect();
    let refused = |error: clap::Error| Failure::Usage(error.to_string());
    match args::parse(words).map_err(refused)?.command {
        Command::Report(report) => Ok(report),
        Command::Tool(_) => Err(Failure::Usage("no report".to_owned())),
    }
}

/// A report's answer, from as many samples as the report asks for by itself.
fn answer<'p>(
    view: &mut View<'p>,
    report: &Report,
    common: &Common,
    read: &Read,
) -> Result<Box<dyn Model + 'p>, Failure> {
    match report.ask() {
        Ask::Code(query) => {
            view.min_samples = common.min_samples.unwrap_or(query.needs().min_samples);
            query.answer(view)
        }
        Ask::Counters(account) => account.answer(view.profile, read.served),
        Ask::Two(_) => Err(Failure::Usage("no report of one profile".to_owned())),
    }
}
