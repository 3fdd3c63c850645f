//! `syscalls`: which system calls are made from where, with which arguments.
//!
//! Windows end before a system call and know what it is asked for. Most are made in functions of
//! the C library, one for each: so rows are apart by who calls that function.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use parameters::Parameter;
use protocol::Kinds;
use serde::{Serialize, Serializer};

use super::access::AccessSite;
use super::{JsonShare, JsonSite, json_shares, nothing, shares_text, shares_with};
use crate::args::OneFunction;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count};
use crate::view::{Base, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: what does a program ask the kernel for, and where?
  vcpid record --capture syscall -- ./loads
  vcpi syscalls

  seen  call         from                 in                 arguments
   414  lseek        seeks+0x18 (0x1428)  call+0xc (0x140c)  (100.0% 0x3e8), (100.0% 0x4d)
   374  getpriority  asks+0x12 (0x1452)   call+0xc (0x140c)  (100.0% 0x0), (100.0% 0x0)

  The answer to a question that is always the same can be kept.";

/// System calls that windows ran into, by the call site of the function that makes them, with their
/// arguments. Needs values of the kind syscall (vcpid record --capture syscall).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Syscalls {
    #[command(flatten)]
    of: OneFunction,
    /// Values shown for each argument in text.
    #[arg(long, value_name = "N", default_value_t = 2)]
    values: usize,
}

/// Numbers of system calls of x86-64 Linux, their names, and how many arguments they have.
const NAMES: &str = include_str!("syscalls/names.txt");

/// The number of the call that locks make.
pub(super) const FUTEX: i32 = 202;

/// Arguments of a call, at most.
const ARGUMENTS: usize = 6;

/// The largest number that a call may have, with room for those that the table lacks.
const MOST: i32 = 4095;

/// What is set in numbers of x32. Whether these are calls depends on the kernel.
const X32: i32 = 0x4000_0000;

/// The number that Linux takes for what is passed in `rax`: the lower half of it, with its sign.
pub(super) fn number(passed: u64) -> i32 {
    passed as i32
}

/// The name of a system call and how many arguments it has, if it is known.
fn named(passed: u64) -> Option<(&'static str, usize)> {
    let number = number(passed);
    NAMES.lines().find_map(|line| {
        let mut words = line.split(' ');
        if words.next()?.parse() != Ok(number) {
            return None;
        }
        Some((words.next()?, words.next()?.parse().ok()?))
    })
}

/// What a call is called; of what is no number of a call, what was passed.
fn name(passed: u64) -> String {
    if let Some((name, _)) = named(passed) {
        return name.to_owned();
    }
    match number(passed) {
        number @ 0..=MOST => number.to_string(),
        number if (0..=MOST).contains(&(number ^ X32)) => format!("0x{number:x}"),
        _ => format!("none (0x{passed:x} passed)"),
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Calls {
    rows: Vec<SyscallSite>,
    #[serde(skip)]
    most: usize,
}

/// System calls of one instruction for one caller of its function.
#[derive(Debug, Serialize)]
struct SyscallSite {
    #[serde(flatten)]
    place: AccessSite,
    /// Who calls the function; `null`: not known.
    caller: Option<JsonSite>,
    /// The call site as people read it.
    #[serde(skip)]
    caller_place: Option<AccessSite>,
    /// The one call that was made here; `null` if there were several, or it is not known.
    call: Option<&'static str>,
    #[serde(flatten)]
    number: Number,
    /// Only those that the call has.
    arguments: Vec<Argument>,
}

/// Numbers of system calls.
#[derive(Debug)]
struct Number(Values);

#[derive(Serialize)]
struct JsonNumber {
    base: Base,
    reached: u64,
    unknown: u64,
    numbers: Vec<JsonShare>,
}

/// What an argument was.
#[derive(Debug)]
struct Argument(Values);

#[derive(Serialize)]
struct JsonArgument<'v> {
    parameter: &'v str,
    reached: u64,
    unknown: u64,
    values: Vec<JsonShare>,
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Number(values) = self;
        let number = JsonNumber {
            base: values.base,
            reached: values.reached,
            unknown: values.unknown,
            numbers: json_shares(values, values.class()),
        };
        number.serialize(serializer)
    }
}

impl Serialize for Argument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Argument(values) = self;
        let argument = JsonArgument {
            parameter: &values.parameter,
            reached: values.reached,
            unknown: values.unknown,
            values: json_shares(values, values.class()),
        };
        argument.serialize(serializer)
    }
}

impl Query for Syscalls {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                values: true,
                ..NO_ROWS
            },
            parameters: &["sys"],
            // Who calls may be in another function, and another image.
            one_function: false,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = rows(view);
        if rows.is_empty() {
            return Err(nothing("system calls (vcpid record --capture syscall)"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Calls {
            rows,
            most: self.values,
        }))
    }
}

/// Which argument a parameter is.
fn argument(parameter: Parameter) -> Option<usize> {
    let Parameter::Syscall(at) = parameter else {
        return None;
    };
    let number = usize::from(at).checked_sub(1)?;
    (number < ARGUMENTS).then_some(number)
}

/// All rows, those seen most first.
fn rows(view: &View<'_>) -> Vec<SyscallSite> {
    let mut numbers: BTreeMap<(usize, Option<usize>), Values> = BTreeMap::new();
    let mut arguments: BTreeMap<(usize, Option<usize>), BTreeMap<usize, Values>> = BTreeMap::new();
    for values in view.values_where(true, Some) {
        let is_wanted = view.wants(values.pc) || values.caller.is_some_and(|pc| view.wants(pc));
        if !is_wanted {
            continue;
        }
        let place = (values.pc, values.caller);
        let Ok(parameter) = values.parameter.parse() else {
            continue;
        };
        if let Some(number) = argument(parameter) {
            arguments.entry(place).or_default().insert(number, values);
        } else if parameter == Parameter::Syscall(0) {
            numbers.insert(place, values);
        }
    }
    let row = |((pc, caller), values): ((usize, Option<usize>), Values)| {
        let mut of_place = arguments.remove(&(pc, caller)).unwrap_or_default();
        let only = match values.shares.as_slice() {
            [only] if values.unknown == 0 => named(only.value),
            _ => None,
        };
        let has = only.map_or(ARGUMENTS, |(_, has)| has);
        let arguments = (0..has).filter_map(|number| of_place.remove(&number));
        SyscallSite {
            place: AccessSite::new(view, pc),
            caller: caller.map(|caller| JsonSite::new(view, caller)),
            caller_place: caller.map(|caller| AccessSite::new(view, caller)),
            call: only.map(|(name, _)| name),
            arguments: arguments.map(|of| Argument(view.told(of))).collect(),
            number: Number(values),
        }
    };
    let mut rows: Vec<SyscallSite> = numbers.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.number.0.reached));
    rows
}

/// What stands above the the rows.
const ABOUT: &str = "System calls that windows ran into, by call site, with their arguments.";

/// What else there is to know of it.
const MORE: &str = "\
    The call site is that of the function that makes the call. Windows begin where time is spent in\n\
    the program: they see the calls that come soon behind that, so this is not a count of calls.\n\
    Where several calls are made from one place, each argument is that of all of them.\n\
    from..to%: less than 90% known.";

impl Model for Calls {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("seen", Align::Right),
            ("call", Align::Left),
            ("from", Align::Left),
            ("in", Align::Left),
            ("arguments", Align::Left),
        ]);
        for row in &self.rows {
            let Number(values) = &row.number;
            let call = match row.call {
                Some(name) => name.to_owned(),
                None => shares_with(values, self.most, name),
            };
            let caller = row.caller_place.as_ref();
            let arguments: Vec<String> = row
                .arguments
                .iter()
                .map(|Argument(values)| shares_text(values, self.most))
                .collect();
            table.row(vec![
                count(values.reached),
                call,
                caller.map_or_else(|| "(unknown)".to_owned(), |place| place.text(names)),
                row.place.text(names),
                arguments.join(", "),
            ]);
        }
        page.table(table);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line of the table is a number, a name, and at most six arguments.
    #[test]
    fn table() {
        for line in NAMES.lines() {
            let number = line.split(' ').next().and_then(|word| word.parse().ok());
            let found = number.and_then(named);
            assert!(found.is_some_and(|(_, has)| has <= ARGUMENTS), "{line}");
        }
        assert_eq!(named(0), Some(("read", 3)));
        assert_eq!(named(202), Some(("futex", 6)));
        assert_eq!(number(202), FUTEX);
        assert_eq!(name(999), "999");
    }

    /// The lower half of `rax` is the number; what is none is told as it was passed.
    #[test]
    fn numbers() {
        assert_eq!(named(0xffff_ffff_0000_0027), Some(("getpid", 0)));
        assert_eq!(name(0xffff_ffff_0000_0027), "getpid");
        assert_eq!(name(0x4000_0027), "0x40000027");
        for (passed, expected) in [
            (u64::MAX, "none (0xffffffffffffffff passed)"),
            (0xffff_ffff, "none (0xffffffff passed)"),
            (0x1_0000_270f, "none (0x10000270f passed)"),
        ] {
            assert_eq!(name(passed), expected);
        }
    }

    /// Arguments are told from the number.
    #[test]
    fn parameters() {
        let of = ["sys0", "sys5", "sys6", "syscall", "arg0"];
        let of = of.map(|name| argument(name.parse().expect("a parameter")));
        assert_eq!(of, [Some(0), Some(5), None, None, None]);
    }
}
