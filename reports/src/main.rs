//! `vcpi`: reports on profile databases.
//!
//! A run reads the inputs as one [`profiledb::Profile`], names its addresses ([`symbols`]), adds up
//! what was asked for ([`view`]) and prints one report ([`mod@report`]). A report of one function
//! reads that function's rows alone ([`mod@asked`]).
//!
//! `vcpi` needs no privilege but to read its inputs and, for names and instructions, the images
//! that were profiled. Databases and images may be hostile. `vcpi` writes a report only when it is
//! whole.

mod absent;
mod args;
mod asked;
mod callee;
mod code;
mod convention;
mod debugfiles;
mod debuginfod;
mod dwarf;
mod elf;
mod epochs;
mod export;
mod failure;
mod guard;
mod images;
mod listing;
mod liveness;
mod names;
mod render;
mod report;
mod sections;
mod source;
mod split;
mod symbolize;
mod symbols;
mod time;
mod values;
mod view;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use profiledb::{Filter, Profile};

use crate::args::{Cli, Common, Format, Report, TopBy};
use crate::failure::Failure;
use crate::render::clean;
use crate::report::paths::Direction;
use crate::source::{Loaded, Source};
use crate::view::{Question, View};

/// What a shell shows for a program that SIGPIPE ended.
const PIPE_CLOSED: u8 = 128 + 13;
/// Notes on missing names that are printed before the rest is only counted.
const MAX_NOTES: usize = 4;

fn main() -> ExitCode {
    guard::install();
    let cli = args::parse(std::env::args_os().collect()).unwrap_or_else(|error| error.exit());
    let result = run(&cli).and_then(|text| {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(Failure::from)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::from(PIPE_CLOSED)
        }
        Err(failure) => {
            say(&failure.to_string());
            let is_report = !matches!(cli.report, Report::Export { .. });
            let is_json = cli.common.format == Format::Json;
            if is_report && is_json && matches!(failure, Failure::Nothing(_)) {
                print_empty(&cli.report);
            }
            ExitCode::from(failure.code())
        }
    }
}

/// A report of nothing, for programs. Whether it arrives changes nothing in the exit code.
fn print_empty(report: &Report) {
    let empty = match report {
        Report::Status => "{}",
        _ => "[]",
    };
    let _ = writeln!(std::io::stdout(), "{empty}");
}

/// The report as text.
fn run(cli: &Cli) -> Result<String, Failure> {
    if let Some(missing) = cli.report.missing() {
        return Err(Failure::Usage(format!(
            "'{missing}' is not in this version; `vcpi --help` lists what is"
        )));
    }
    if let Report::Document { folder } = &cli.report {
        args::document(folder)?;
        return Ok(String::new());
    }
    if let Report::Convert {
        old,
        output,
        unpack,
    } = &cli.report
    {
        let done = match unpack {
            true => profiledb::unpack(old, output),
            false => profiledb::convert(old, output),
        };
        done.map_err(|error| Failure::Input(error.to_string()))?;
        return Ok(String::new());
    }
    if let Report::Export { asked } = &cli.report {
        asked.check(&cli.common)?;
    }
    let function = match &cli.report {
        Report::List { function, .. }
        | Report::Args { function }
        | Report::Cg { function, .. }
        | Report::Blks { function, .. }
        | Report::Branches { function }
        | Report::Targets { function } => function.as_deref(),
        _ => None,
    };
    if let (Some(one), Some(other)) = (function, cli.common.only_function.as_deref())
        && one != other
    {
        return Err(Failure::Usage(format!(
            "which function: '{one}', or '{other}' (--function)?"
        )));
    }
    if matches!(cli.report, Report::List { .. })
        && function.is_none()
        && cli.common.only_function.is_none()
    {
        return Err(Failure::Usage(
            "list: which function? (`vcpi top` names the hot ones)".into(),
        ));
    }
    debuginfod::configure(!cli.common.no_debuginfod);
    let filter = source::filter(cli, function.is_some())?;
    let source = source::source(&cli.common)?;
    // Of one function its rows are enough. Whatever goes wrong then is told by a report of all.
    if let Some(name) = function.or(cli.common.only_function.as_deref())
        && !matches!(
            cli.report,
            Report::Top { .. } | Report::Status | Report::Export { .. }
        )
        && let Some(places) = source::places(&source, name, cli)
    {
        let filter = Filter {
            places: Some(places),
            ..filter.clone()
        };
        let mut said = Said::Held(Vec::new());
        if let Some(text) = report(cli, &source, &filter, function, &mut said).told() {
            said.release();
            return text;
        }
    }
    report(cli, &source, &filter, function, &mut Said::AtOnce).into_result()
}

/// What is said beside a report.
enum Said {
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

    fn release(self) {
        if let Said::Held(messages) = self {
            messages.iter().for_each(|message| say(message));
        }
    }
}

/// What came of reading for a report.
enum Outcome {
    /// What was asked for is there.
    Found(Result<String, Failure>),
    /// It is not in what was read.
    NotFound(Failure),
}

impl Outcome {
    fn told(self) -> Option<Result<String, Failure>> {
        match self {
            Outcome::Found(result) => Some(result),
            Outcome::NotFound(_) => None,
        }
    }

    fn into_result(self) -> Result<String, Failure> {
        match self {
            Outcome::Found(result) => result,
            Outcome::NotFound(failure) => Err(failure),
        }
    }
}

/// The report of what the filter lets through, and what is to be said beside it.
fn report(
    cli: &Cli,
    source: &Source,
    filter: &Filter,
    function: Option<&str>,
    said: &mut Said,
) -> Outcome {
    let loaded = source::load(source, filter, &cli.report, &cli.common);
    let Loaded {
        mut profile,
        left_out,
    } = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => return Outcome::NotFound(failure),
    };
    said.push(source::describe(source, &profile));
    for what in &left_out {
        said.push(format!("left out: {what}"));
    }
    say_of_times(&profile);
    if absent::is_empty(&profile, &cli.report) {
        return Outcome::NotFound(absent::explain(&profile, source, filter, &cli.common));
    }
    for id in absent::epochs_without_rows(&profile, filter) {
        said.push(format!("nothing of epoch {id} is in this"));
    }
    if filter.is_timed()
        && let Some(reach) = epochs::reach(&profile)
    {
        said.push(reach);
    }
    let format = cli.common.format;
    if matches!(cli.report, Report::Status) {
        say_of_counters(&profile, &cli.common, said);
        let text = report::status::report(&profile, source.is_service(), format);
        return Outcome::Found(text);
    }
    let question = Question {
        function,
        min_samples: cli
            .common
            .min_samples
            .unwrap_or(cli.report.default_min_samples()),
        stubs: matches!(cli.report, Report::Args { .. }),
        others: cli.report.shows_others(),
        is_part: filter.places.is_some(),
        nameless: matches!(
            cli.report,
            Report::Top {
                by: TopBy::Image | TopBy::Process
            }
        ),
    };
    let offers = match cli.report {
        Report::Args { .. } => symbols::recall_targets(&mut profile),
        _ => None,
    };
    let mut view = match View::new(&profile, &cli.common, question, offers) {
        Ok(view) => view,
        Err(failure) => return Outcome::NotFound(failure),
    };
    for sentence in images::missing(&profile, &cli.common.image) {
        said.push(sentence);
    }
    let text = match cli.report {
        Report::Top { by } => report::top::report(&mut view, by, format),
        Report::List {
            by_caller,
            values,
            all,
            ..
        } => {
            let options = report::list::Options {
                by_caller,
                values,
                all,
            };
            report::list::report(&mut view, options, format)
        }
        Report::Args { .. } => report::args::report(&mut view, format),
        Report::Cg { tree: true, .. } => report::paths::report(&mut view, Direction::Down, format),
        Report::Cg { up: true, .. } => report::paths::report(&mut view, Direction::Up, format),
        Report::Cg { .. } => report::cg::report(&mut view, format),
        Report::Blks { invariant, .. } => report::blks::report(&mut view, invariant, format),
        Report::Branches { .. } => report::branches::report(&mut view, format),
        Report::Targets { .. } => report::targets::report(&mut view, format),
        Report::Export { ref asked } => asked.run(&mut view).map(|()| String::new()),
        Report::Status
        | Report::Diff(_)
        | Report::Html(_)
        | Report::Convert { .. }
        | Report::Document { .. } => report::status::report(&profile, source.is_service(), format),
    };
    for note in std::mem::take(&mut view.notes) {
        said.push(note);
    }
    say_of_names(&view, said);
    Outcome::Found(text)
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

/// Says what a range of times cannot divide, where that is much.
fn say_of_times(profile: &Profile) {
    const MUCH: i64 = 600_000_000_000;
    if let Some((from, to)) = profile.cut.filter(|(from, to)| to - from > MUCH) {
        let (from, to) = (time::local(from), time::local(to));
        say(&format!(
            "what was collected from {from} to {to} has been added up: --since and --until take all \
             of it, as of its end, or nothing"
        ));
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

/// One message on stderr, each of its lines marked. Whether it arrives is not
/// worth failing for.
fn say(message: &str) {
    let mut err = std::io::stderr().lock();
    for line in message.lines() {
        let _ = writeln!(err, "vcpi: {}", clean(line));
    }
}
