//! The values of one parameter at one PC, with their shares.

use std::collections::BTreeMap;
use std::sync::Arc;

use hotlist::{Draws, Summed};
use iced_x86::Register;
use profiledb::{Merged, Text};
use serde::Serialize;

use super::as_float;
use super::processes::{self, ValuesByProcess};
use super::trend::Trend;
use crate::convention::register_of;
use crate::dwarf;
use crate::values::Class;
use crate::variables::{NumberType, Parameter, Returned, Words};

/// A value and its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// The captured bits.
    pub(crate) value: u64,
    /// Estimated occurrences.
    pub(crate) estimate: f64,
    /// The variance that thinning has put into the estimate.
    pub(crate) variance: f64,
    /// Of the known values, 0 to 100.
    pub(crate) percent: f64,
    /// Lower end of the 95 % interval, in percent.
    pub(crate) low: f64,
    /// Upper end of it.
    pub(crate) high: f64,
    /// Whether it rises or falls over the time of the profile, where that is sure.
    pub(crate) trend: Trend,
}

/// What the shares of a profile are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Base {
    /// Of the time that is spent before the instruction: windows begin there, and each brought one
    /// event.
    Time,
    /// Of what windows reached, several events in one: neither of time nor of executions.
    Windows,
    /// Of executions of the instruction.
    Executions,
    /// Of calls of the function, by breakpoints at its entry: of executions as well.
    Entries,
}

impl Base {
    /// What text adds where shares are of executions.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Executions => " by executions",
            Self::Entries => " by entries",
            Self::Time | Self::Windows => "",
        }
    }

    /// What text adds to a parameter, whose shares are of time where nothing else is said.
    pub(crate) fn of_parameter(self) -> &'static str {
        match self {
            Self::Windows => " by windows",
            _ => self.words(),
        }
    }

    /// Whether shares are of what is executed, and not of windows.
    pub(crate) fn is_of_executions(self) -> bool {
        matches!(self, Self::Executions | Self::Entries)
    }
}

/// Pairs of executions in one window that are needed to know whether they depend on each other, and
/// how far they may. The collector has looked at each flush. This is about values that last longer
/// than that: then the pairs of all windows are equal. They need not be independent here, since a
/// value that takes many instructions is seldom twice in a window, and values that take turns never
/// are next to each other.
const PAIRS: f64 = 100.0;
const ALIKE: f64 = 0.95;

/// What lists add up to.
#[derive(Debug)]
pub(super) enum Added {
    /// So many values as were asked for, or more.
    Enough(Box<Values>),
    /// Fewer.
    Few,
}

/// The values of one parameter at one PC.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Values {
    /// Index of the PC.
    pub(crate) pc: usize,
    /// Index of the caller's PC, where kept apart by it.
    pub(crate) caller: Option<usize>,
    /// What was captured.
    pub(crate) parameter: String,
    /// What the shares are of.
    pub(crate) base: Base,
    /// Of shares of executions: those next to each other do not depend on each other, as far as it
    /// is known.
    pub(crate) independent: bool,
    /// Times a window came by.
    pub(crate) reached: u64,
    /// Of those, without a known value.
    pub(crate) unknown: u64,
    /// Windows that gave a known value.
    pub(crate) windows: u64,
    /// Reciprocal of the probability of entering the list.
    pub(crate) threshold: f64,
    /// Where the values are addresses that code goes to: those of each process.
    pub(crate) by_process: ValuesByProcess,
    /// What the values are, if it is something else than the parameter's name says.
    pub(crate) typed: Option<Class>,
    /// The name of the argument in the source, where that is sure.
    pub(crate) name: Option<String>,
    /// What its type calls its values.
    pub(crate) words: Words,
    /// What values point to, of those that were [looked at](super::View::tell).
    pub(crate) pointed: BTreeMap<u64, Arc<str>>,
    /// `false` for an argument register of which it is not known whether the function uses it.
    pub(crate) live: bool,
    /// Values, the most frequent first.
    pub(crate) shares: Vec<Share>,
}

impl Values {
    /// Of what was added up; `None` where the shares are not of what they would be said to be of.
    pub(super) fn of<'m>(row: &'m Merged<'_>, least: u64, trends: usize) -> Option<Added> {
        let of_executions = row.parameter.strip_prefix(profiledb::OF_EXECUTIONS);
        let at_entry = row.parameter.strip_prefix(profiledb::AT_ENTRY);
        let samples = row.reached.saturating_sub(row.unknown);
        let alike = || row.list.alike(&row.tuples, PAIRS);
        let mut values = Values {
            pc: row.pc,
            caller: row.caller,
            parameter: of_executions
                .or(at_entry)
                .unwrap_or(row.parameter)
                .to_owned(),
            base: match of_executions {
                _ if at_entry.is_some() => Base::Entries,
                Some(_) => Base::Executions,
                // A few windows with two events change nothing.
                None if samples > row.windows.saturating_add(row.windows / 10) => Base::Windows,
                None => Base::Time,
            },
            independent: of_executions.is_some() && alike().is_some_and(|alike| alike <= ALIKE),
            reached: row.reached,
            unknown: row.unknown,
            windows: row.windows,
            threshold: row.list.threshold(),
            by_process: processes::of_places(row),
            typed: None,
            name: None,
            words: Words::None,
            pointed: BTreeMap::new(),
            live: true,
            shares: Vec::new(),
        };
        if !values.is_claimed(row) {
            return None;
        }
        // What was reached and never known is told as well: it is no sign of little data.
        let samples = values.samples();
        if samples < least && (samples > 0 || values.reached < least) {
            return Some(Added::Few);
        }
        let draws = Draws {
            samples,
            windows: values.windows,
            reached: values.reached,
            even: row.even,
        };
        let part = drawn_part(&row.tuples, values.samples());
        // Of most lists many values were seen equally often: these have one interval.
        let mut last: Option<(&Summed, (f64, f64))> = None;
        let mut interval = |tuple: &'m Summed| match last {
            Some((of, interval)) if of.is_as_frequent_as(tuple) => interval,
            _ => {
                let interval = row.list.interval(tuple, &draws);
                last = Some((tuple, interval));
                interval
            }
        };
        let share = |tuple: &'m Summed| {
            let estimate = match part {
                1.0 => tuple.estimate(),
                part => tuple.least + (tuple.estimate() - tuple.least) * part,
            };
            let percent = values.percent(estimate);
            let (low, high) = interval(tuple);
            Share {
                value: tuple.value,
                estimate,
                variance: tuple.variance(),
                percent,
                low: low.min(percent),
                high: high.max(percent),
                trend: Trend::Steady,
            }
        };
        values.shares = row.tuples.iter().map(share).collect();
        // Else they are in their order.
        if part < 1.0 {
            values.sort();
        }
        if let Some(course) = &row.course {
            values.tell_trends(course, trends);
        }
        Some(Added::Enough(Box::new(values)))
    }

    /// Value events: reached with a known value.
    pub(crate) fn samples(&self) -> u64 {
        self.reached.saturating_sub(self.unknown)
    }

    /// Whether the shares are of what they are said to be of.
    fn is_claimed(&self, row: &Merged<'_>) -> bool {
        match self.base {
            Base::Executions => self.nearly_known() && self.independent && !processes::differ(row),
            // The collector has looked at whether calls depend on where bursts began.
            Base::Entries => self.mostly_known() && !processes::differ(row),
            Base::Time | Base::Windows => true,
        }
    }

    /// At least 90 % of the values are known, so that shares stand without bounds.
    pub(crate) fn mostly_known(&self) -> bool {
        u128::from(self.samples()) * 10 >= u128::from(self.reached) * 9
    }

    /// At least 97 % of the values are known: a share of executions may be wrong by what is not.
    fn nearly_known(&self) -> bool {
        u128::from(self.samples()) * 100 >= u128::from(self.reached) * 97
    }

    /// How to print the values.
    pub(crate) fn class(&self) -> Class {
        let by_name = || Class::of_parameter(&self.parameter);
        self.typed.unwrap_or_else(by_name)
    }

    /// A value as a person reads it: what it points to, or the number.
    pub(crate) fn text(&self, value: u64) -> String {
        match self.pointed.get(&value) {
            Some(pointed) => (**pointed).to_owned(),
            None => self.class().text(value),
        }
    }

    /// Whether this is what a register held at a call that may pass an argument in it.
    pub(crate) fn is_argument(&self) -> bool {
        matches!(
            self.parameter.parse(),
            Ok(parameters::Parameter::Arg(_) | parameters::Parameter::ArgIn(_))
        )
    }

    /// Whether the parameter of a row is what a register held at a call.
    pub(crate) fn names_argument(parameter: &str) -> bool {
        let at_entry = parameter.strip_prefix(profiledb::AT_ENTRY);
        let name = at_entry.unwrap_or(parameter);
        let parameter = name.parse::<parameters::Parameter>();
        parameter.is_ok_and(parameters::Parameter::is_argument)
    }

    /// The number of the vector register, if this is what it held at a call that may pass an
    /// argument in it.
    pub(crate) fn vector_argument(&self) -> Option<u8> {
        match self.parameter.parse() {
            Ok(parameters::Parameter::VectorArg(number)) => Some(number),
            _ => None,
        }
    }

    /// The number of the argument, if this is what one points to.
    pub(crate) fn text_of_argument(&self) -> Option<u8> {
        self.parameter.strip_prefix("text")?.parse().ok()
    }

    /// What arguments point to, of so many calls: that it was not loaded in some of them is told by
    /// nothing but their number.
    pub(crate) fn of_calls(mut self, calls: u64) -> Values {
        let (samples, windows) = (self.samples(), self.windows);
        self.reached = self.reached.max(calls);
        self.unknown = self.reached.saturating_sub(samples);
        let draws = Draws {
            samples,
            windows,
            reached: self.reached,
            even: 0.0,
        };
        for share in &mut self.shares {
            let (low, high) = draws.interval(share.estimate, share.variance);
            (share.low, share.high) = (low.min(share.low), high.max(share.high));
        }
        self
    }

    /// Whether nine tenths of what arguments point to can be printed: then it is text, as far as
    /// that shows.
    pub(crate) fn is_printable(&self) -> bool {
        let is_printable = |value| Text::of_value(value).is_some_and(Text::is_printable);
        let (all, printable) = self
            .shares
            .iter()
            .fold((0.0, 0.0), |(all, printable), share| {
                let counts = if is_printable(share.value) {
                    share.estimate
                } else {
                    0.0
                };
                (all + share.estimate, printable + counts)
            });
        printable >= 0.9 * all && all > 0.0
    }

    /// These values as floating-point numbers of so many bits, if there are numbers of so many.
    pub(crate) fn as_numbers(&self, bits: u32) -> Option<Values> {
        let class = match bits {
            32 => Class::F32,
            64 => Class::F64,
            _ => return None,
        };
        let mut numbers = self.narrowed(bits);
        numbers.typed = Some(class);
        Some(numbers)
    }

    /// These values as those of a parameter of the source.
    pub(crate) fn declared(mut self, parameter: &Parameter) -> Values {
        self.name.clone_from(&parameter.name);
        self.words = parameter.words.clone();
        self.of_type(parameter.number.as_ref())
    }

    /// These values as those of a type: none is negative where the type has no negative numbers.
    pub(crate) fn of_type(mut self, number: Option<&NumberType>) -> Values {
        if let Class::Integer(bits) = self.class()
            && number.is_some_and(|number| !number.is_signed)
        {
            self.typed = Some(Class::Unsigned(bits));
        }
        self
    }

    /// These values of a register as a function's result, if that is what it returns there.
    pub(crate) fn returned(self, returned: &Returned) -> Values {
        let mut values = match (self.result(), returned.kind) {
            (Some(dwarf::ResultRegister::Integer), dwarf::PassingClass::Integer(bits)) => {
                self.narrowed(bits).of_type(returned.number.as_ref())
            }
            (Some(dwarf::ResultRegister::Vector), dwarf::PassingClass::Vector(bits)) => {
                self.as_numbers(bits).unwrap_or(self)
            }
            _ => return self,
        };
        values.words = returned.words.clone();
        values
    }

    /// Whether this is what that register held.
    pub(crate) fn is_in(&self, register: Register) -> bool {
        register_of(&self.parameter) == Some(register)
    }

    /// Where this is what a function returned, if it is.
    pub(crate) fn result(&self) -> Option<dwarf::ResultRegister> {
        match self.parameter.parse() {
            Ok(parameters::Parameter::Ret | parameters::Parameter::Result) => {
                Some(dwarf::ResultRegister::Integer)
            }
            Ok(parameters::Parameter::VectorRet | parameters::Parameter::VectorResult) => {
                Some(dwarf::ResultRegister::Vector)
            }
            _ => None,
        }
    }

    /// The same values seen in fewer bits: those that become the same are one.
    pub(crate) fn narrowed(&self, bits: u32) -> Values {
        let class = Class::Integer(bits);
        let mut joined: BTreeMap<u64, Share> = BTreeMap::new();
        for share in &self.shares {
            let value = class.mask(share.value);
            match joined.get_mut(&value) {
                None => {
                    joined.insert(value, Share { value, ..*share });
                }
                Some(sum) => {
                    // What several values do together nobody has looked at.
                    sum.trend = Trend::Steady;
                    sum.estimate += share.estimate;
                    sum.variance += share.variance;
                    sum.percent = self.percent(sum.estimate);
                    // How values that become one came together is not known: windows count.
                    let draws = Draws {
                        samples: self.samples(),
                        windows: self.windows,
                        reached: self.reached,
                        even: 0.0,
                    };
                    (sum.low, sum.high) = draws.interval(sum.estimate, sum.variance);
                }
            }
        }
        let mut narrowed = self.clone();
        narrowed.typed = Some(class);
        narrowed.shares = joined.into_values().collect();
        narrowed.sort();
        narrowed
    }

    pub(super) fn percent(&self, estimate: f64) -> f64 {
        crate::render::percent(estimate, as_float(self.samples())).clamp(0.0, 100.0)
    }

    pub(super) fn sort(&mut self) {
        self.shares.sort_by(|a, b| {
            b.estimate
                .total_cmp(&a.estimate)
                .then(a.value.cmp(&b.value))
        });
    }
}

/// An event that entered a list by a draw stands for others, which is right on average. With
/// lucky draws the lists would stand for more events than were offered to them; then the part of
/// each estimate that goes beyond what was counted is lowered to this part of it, for which there
/// is room. No value gets less than was seen of it.
fn drawn_part(tuples: &[Summed], samples: u64) -> f64 {
    let (estimates, least) = tuples.iter().fold((0.0, 0.0), |(estimates, least), tuple| {
        (estimates + tuple.estimate(), least + tuple.least)
    });
    let drawn = estimates - least;
    if estimates <= as_float(samples) || drawn <= 0.0 {
        return 1.0;
    }
    ((as_float(samples) - least) / drawn).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use hotlist::{Config, Generator, Hotlist, Sum};

    use super::*;

    /// Values that differ only in bits a callee ignores count as one.
    #[test]
    fn narrowing_joins_values() {
        let wide = Values::made_up(
            Base::Time,
            &[(0x1_0000_0004, 30.0), (7, 40.0), (4, 30.0)],
            (100, 0),
        );
        let narrow = wide.narrowed(32);
        let seen: Vec<(u64, f64)> = narrow.shares.iter().map(|s| (s.value, s.percent)).collect();
        assert_eq!(seen, [(4, 60.0), (7, 40.0)]);
        assert!(narrow.is_argument() && narrow.is_in(Register::RSI));
    }

    /// Whatever the draws, summed lists of few events stand for no more events than there were,
    /// and for no fewer of a value than were counted; estimates that were possible stay.
    #[test]
    fn shares_add_up() {
        let config = Config::with_capacity(16).expect("a size").precise();
        let (mut corrected, mut kept) = (0, 0);
        for seed in 0..300 {
            let mut coins = Generator::new(seed);
            let flush = |from: u64, coins: &mut Generator| {
                let mut list = Hotlist::new(&config);
                for time in 0..60 {
                    // Every fourth has one value, the others have one each.
                    let value = if time % 4 == 0 { 7 } else { from + time };
                    list.update(value, time, coins);
                }
                list
            };
            let first = flush(1000, &mut coins);
            let second = flush(2000, &mut coins);
            let mut list = Sum::new(Sum::<u64>::MOST);
            list.add(&first, &mut coins);
            list.add(&second, &mut coins);
            let estimates: Vec<f64> = list.tuples().map(|tuple| tuple.estimate()).collect();
            let merged = Merged {
                course: None,
                pc: 0,
                parameter: "rax",
                caller: None,
                reached: 120,
                unknown: 0,
                windows: 120,
                even: 0.0,
                tuples: list.tuples().collect(),
                rows: Vec::new(),
                list,
            };
            let Some(Added::Enough(values)) = Values::of(&merged, 1, 0) else {
                panic!("there are values enough");
            };
            let sum: f64 = values.shares.iter().map(|share| share.percent).sum();
            assert!(sum < 100.0 + 1e-6, "{sum}");
            for tuple in &merged.tuples {
                let share = values
                    .shares
                    .iter()
                    .find(|share| share.value == tuple.value);
                let share = share.expect("all are shown");
                assert!(share.estimate >= tuple.least - 1e-6 && share.low <= share.percent);
            }
            if estimates.iter().sum::<f64>() > 120.0 {
                assert!(sum > 100.0 - 1e-6, "{sum}");
                corrected += 1;
            } else {
                let total: f64 = values.shares.iter().map(|share| share.estimate).sum();
                assert!((total - estimates.iter().sum::<f64>()).abs() < 1e-6);
                kept += 1;
            }
        }
        assert!(corrected > 20 && kept > 20, "{corrected} and {kept}");
    }

    /// Estimates above the number of samples are shown as 100 %, no samples as none.
    #[test]
    fn shares_stay_within_bounds() {
        let over = Values::made_up(Base::Time, &[(1, 120.0)], (100, 0));
        assert_eq!(over.shares.first().map(|share| share.percent), Some(100.0));
        let none = Values::made_up(Base::Time, &[(1, 5.0)], (10, 10));
        assert_eq!(none.shares.first().map(|share| share.percent), Some(0.0));
        assert!(!none.mostly_known());
        assert!(Values::made_up(Base::Time, &[], (10, 1)).mostly_known());
    }
}
