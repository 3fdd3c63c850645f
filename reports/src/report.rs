//! The reports, one file each, registered with two lines each, and what several of them share.

mod access;
mod args;
mod blks;
mod branches;
mod cg;
mod copies;
mod diff;
pub(crate) mod hints;
pub(crate) mod list;
mod loads;
mod locks;
mod paths;
mod prio;
mod redundant;
mod status;
mod syscalls;
mod targets;
mod top;

pub(crate) use copies::sizes_at;

use clap::{Command, FromArgMatches as _, Subcommand};
use serde::{Serialize, Serializer};

use crate::failure::Failure;
use crate::query::Ask;
use crate::render::{rounded, whole};
use crate::values::{Class, JsonValue};
use crate::view::{Heat, JSON_VALUES, Share, Trend, Values, View};

/// Makes the commands of the reports. Each is a type with the options, whose comment is the help,
/// and goes by what it is about.
macro_rules! reports {
    ($($about:ident $module:ident::$name:ident,)*) => {
        /// The reports.
        #[derive(Debug, Clone, Subcommand)]
        pub(crate) enum Report {
            $($name($module::$name),)*
        }

        impl Report {
            /// The question.
            pub(crate) fn ask(&self) -> Ask<'_> {
                match self {
                    $(Report::$name(report) => Ask::$about(report),)*
                }
            }
        }
    };
}

reports! {
    Code top::Top,
    Code list::List,
    Code args::Args,
    Code cg::Cg,
    Code blks::Blks,
    Code branches::Branches,
    Code targets::Targets,
    Code copies::Copies,
    Code loads::Loads,
    Code redundant::Redundant,
    Code syscalls::Syscalls,
    Code locks::Locks,
    Code prio::Prio,
    Code prio::Irq,
    Code hints::Hints,
    Two diff::Diff,
    Counters status::Status,
}

/// The reports as commands, without the options that they have in common.
pub(crate) fn commands() -> Command {
    Report::augment_subcommands(Command::new("vcpi").no_binary_name(true))
}

/// The report that words ask for: its name, and its own options.
///
/// # Errors
/// If they ask for none.
pub(crate) fn of_words(words: &[&str]) -> Result<Report, Failure> {
    let matches = commands().try_get_matches_from(words);
    let report = matches.and_then(|matches| Report::from_arg_matches(&matches));
    report.map_err(|error| Failure::Usage(error.to_string()))
}

/// A share as JSON has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JsonShare {
    #[serde(flatten)]
    value: JsonValue,
    /// What it points to: `heap+0x2a0`, `stack 0x7ffc0010`, `image:symbol+0x8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    estimate: f64,
    percent: f64,
    low: f64,
    high: f64,
    /// Whether it rises or falls over the time of the profile.
    #[serde(skip_serializing_if = "Trend::is_steady")]
    trend: Trend,
    /// Whether the share is told apart from 0; where not, the estimate says nothing alone.
    supported: bool,
}

impl JsonShare {
    fn new(values: &Values, class: Class, share: &Share) -> JsonShare {
        JsonShare {
            value: class.json(share.value),
            place: values.pointed.get(&share.value).map(|at| (**at).to_owned()),
            estimate: rounded(share.estimate, 1),
            percent: rounded(share.percent, 1),
            low: rounded(share.low, 1),
            high: rounded(share.high, 1),
            trend: share.trend,
            supported: values.supports(share),
        }
    }
}

/// The most frequent values as JSON has them.
fn json_shares(values: &Values, class: Class) -> Vec<JsonShare> {
    let frequent = values.shares.iter().take(JSON_VALUES);
    frequent
        .map(|share| JsonShare::new(values, class, share))
        .collect()
}

/// What events weigh as a number of them: what was seen is not nothing.
fn seen(weight: f64) -> u64 {
    whole(weight).max(u64::from(weight > 0.0))
}

/// The most frequent values as text: `(26.9% 0x4) (25.7% 0x1) ...`, with bounds
/// in place of the share where less than 90 % is known: `(20.1..45.3% 0x4)`.
/// Only supported shares are shown.
fn shares_text(values: &Values, most: usize) -> String {
    shares_with(values, most, |value| values.text(value))
}

/// As [`shares_text`], with values in words of their own.
fn shares_with(values: &Values, most: usize, text: impl Fn(u64) -> String) -> String {
    shares_between(values, most, false, text)
}

/// As [`shares_with`], if asked for with the 95 % interval of each share:
/// `(26.9% [22.8-31.4] 0x4)`.
fn shares_between(
    values: &Values,
    most: usize,
    intervals: bool,
    text: impl Fn(u64) -> String,
) -> String {
    let frequent: Vec<&Share> = values
        .shares
        .iter()
        .filter(|share| values.supports(share))
        .collect();
    let mut parts: Vec<String> = frequent
        .iter()
        .take(most)
        .map(|share| {
            let value = text(share.value);
            if values.mostly_known() {
                let interval = match intervals {
                    true => format!(" [{:.1}-{:.1}]", share.low, share.high),
                    false => String::new(),
                };
                let trend = share.trend.words();
                format!("({:.1}%{interval} {value}{trend})", share.percent)
            } else {
                format!("({:.1}..{:.1}% {value})", share.low, share.high)
            }
        })
        .collect();
    if values.shares.is_empty() {
        parts.push("(unknown)".to_owned());
    } else if frequent.is_empty() {
        parts.push("(varies)".to_owned());
    } else if values.shares.len() > parts.len() {
        parts.push("...".to_owned());
    }
    parts.join(" ")
}

/// 1/p as a short number.
fn threshold_text(threshold: f64) -> String {
    if threshold < 100.0 {
        format!("{threshold:.1}")
    } else {
        format!("{threshold:.0}")
    }
}

/// A code location of the profile as JSON: function and address.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JsonSite {
    function: String,
    address: String,
}

impl JsonSite {
    fn new(view: &View<'_>, pc: usize) -> JsonSite {
        JsonSite {
            function: view.symbols.name_of(pc),
            address: view.address(pc),
        }
    }
}

/// Cycles as JSON has them.
fn whole_cycles<S: Serializer>(heat: &Heat, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole(heat.cycles))
}

/// Nothing of what was asked for is in the profile.
pub(crate) fn nothing(what: &str) -> Failure {
    Failure::Nothing(format!("the profile holds no {what} that match"))
}
