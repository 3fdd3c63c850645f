//! A profile as the reports ask for it: named, filtered, added up over processes,
//! subjects and flushes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use profiledb::{Merged, Profile};

use crate::args::Common;
use crate::failure::Failure;
use crate::images;
use crate::names::{Names, short, without_parameters};
use crate::symbols::{Function, FunctionId, STUB, Symbols};
use crate::values::Class;

/// Seed of the coins that merges of hotlists throw: the same input gives the same report.
const SEED: u64 = 0x7663_7069;

/// Interrupts at a PC.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Heat {
    /// Interrupts.
    pub(crate) samples: u64,
    /// What they stand for.
    pub(crate) cycles: f64,
}

impl Heat {
    /// Adds more of the same.
    pub(crate) fn add(&mut self, other: Heat) {
        self.samples = self.samples.saturating_add(other.samples);
        self.cycles += other.cycles;
    }
}

/// A value and its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// The captured bits.
    pub(crate) value: u64,
    /// Estimated occurrences.
    pub(crate) estimate: f64,
    /// Of the known values, 0 to 100.
    pub(crate) percent: f64,
    /// Lower end of the 95 % interval, in percent.
    pub(crate) low: f64,
    /// Upper end of it.
    pub(crate) high: f64,
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
    /// Times a window came by.
    pub(crate) reached: u64,
    /// Of those, without a known value.
    pub(crate) unknown: u64,
    /// Windows that gave a known value.
    pub(crate) windows: u64,
    /// Reciprocal of the probability of entering the list.
    pub(crate) threshold: f64,
    /// Width of the values, if it is another than the parameter's name says.
    pub(crate) bits: Option<u32>,
    /// `false` for an argument register of which it is not known whether the function uses it.
    pub(crate) live: bool,
    /// Values, the most frequent first.
    pub(crate) shares: Vec<Share>,
}

impl Values {
    fn new(row: &Merged<'_>) -> Values {
        let mut values = Values {
            pc: row.pc,
            caller: row.caller,
            parameter: row.parameter.to_owned(),
            reached: row.reached,
            unknown: row.unknown,
            windows: row.windows,
            threshold: row.list.threshold(),
            bits: None,
            live: true,
            shares: Vec::new(),
        };
        let (samples, windows, reached) = (values.samples(), values.windows, values.reached);
        values.shares = row
            .list
            .tuples()
            .map(|tuple| {
                let estimate = tuple.estimate();
                let percent = values.percent(estimate);
                let (low, high) = tuple.interval(samples, windows, reached);
                Share {
                    value: tuple.value,
                    estimate,
                    percent,
                    low,
                    high,
                }
            })
            .collect();
        values.sort();
        values
    }

    /// Value events: reached with a known value.
    pub(crate) fn samples(&self) -> u64 {
        self.reached.saturating_sub(self.unknown)
    }

    /// At least 90 % of the values are known, so that shares stand without bounds.
    pub(crate) fn mostly_known(&self) -> bool {
        u128::from(self.samples()) * 10 >= u128::from(self.reached) * 9
    }

    /// How to print the values.
    pub(crate) fn class(&self) -> Class {
        match self.bits {
            Some(bits) => Class::Integer(bits),
            None => Class::of_parameter(&self.parameter),
        }
    }

    /// The argument's position, for the parameters `arg0` to `arg5`.
    pub(crate) fn argument(&self) -> Option<u8> {
        let digits = self.parameter.strip_prefix("arg")?;
        digits.parse().ok().filter(|index| *index < 6)
    }

    /// What a function returned, in an integer or a vector register.
    pub(crate) fn is_result(&self) -> bool {
        matches!(self.parameter.as_str(), "ret" | "vret")
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
                    sum.estimate += share.estimate;
                    sum.percent = self.percent(sum.estimate);
                    let p = if self.threshold > 0.0 {
                        1.0 / self.threshold
                    } else {
                        1.0
                    };
                    (sum.low, sum.high) = hotlist::interval(
                        sum.estimate,
                        self.samples(),
                        self.windows,
                        self.reached,
                        p,
                    );
                }
            }
        }
        let mut narrowed = self.clone();
        narrowed.bits = Some(bits);
        narrowed.shares = joined.into_values().collect();
        narrowed.sort();
        narrowed
    }

    fn percent(&self, estimate: f64) -> f64 {
        crate::render::percent(estimate, as_float(self.samples())).clamp(0.0, 100.0)
    }

    fn sort(&mut self) {
        self.shares.sort_by(|a, b| {
            b.estimate
                .total_cmp(&a.estimate)
                .then(a.value.cmp(&b.value))
        });
    }
}

/// A count as a float; exact below 2^53, and counts are.
pub(crate) fn as_float(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let float = count as f64;
    float
}

/// What a report asks for beyond the common options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The function named on the command line.
    pub(crate) function: Option<&'a str>,
    /// Least samples that a line of the report rests on.
    pub(crate) min_samples: u64,
    /// PLT stubs go by the names of their targets.
    pub(crate) stubs: bool,
}

/// A named and filtered profile.
pub(crate) struct View<'p> {
    /// The rows.
    pub(crate) profile: &'p Profile,
    /// Names for its addresses.
    pub(crate) symbols: Symbols<'p>,
    /// Interrupts of each PC.
    pub(crate) heat: Vec<Heat>,
    /// Least samples that a line of a report rests on.
    pub(crate) min_samples: u64,
    /// How text shows names.
    pub(crate) names: Names,
    /// Rows that a report has at most; `None`: all.
    lines: Option<usize>,
    /// What the reader of the report should know beside it, a line each.
    pub(crate) notes: Vec<String>,
    /// PCs of each function, by address.
    of_function: BTreeMap<FunctionId, BTreeMap<u64, usize>>,
    /// Images asked for; `None`: all.
    images: Option<BTreeSet<usize>>,
    /// Functions asked for; `None`: all.
    functions: Option<BTreeSet<FunctionId>>,
}

impl<'p> View<'p> {
    /// Names the PCs of a profile and finds what the options ask for.
    pub(crate) fn new(
        profile: &'p Profile,
        common: &Common,
        question: Question<'_>,
    ) -> Result<View<'p>, Failure> {
        let Question {
            function,
            min_samples,
            stubs,
        } = question;
        let images = images::named(profile, &common.image)?;
        // A stub may lead from any image to any other.
        let near = images.as_ref().filter(|_| !stubs).map(|images| {
            let pcs = &profile.pcs;
            images::around(profile, |pc| {
                pcs.get(pc).is_some_and(|pc| images.contains(&pc.image))
            })
        });
        let symbols = Symbols::new(profile, !common.no_symbols, near.as_ref());
        let mut heat = vec![Heat::default(); profile.pcs.len()];
        for row in &profile.cycles {
            if let Some(heat) = heat.get_mut(row.pc) {
                heat.add(Heat {
                    samples: row.samples,
                    cycles: row.cycles,
                });
            }
        }
        let mut of_function: BTreeMap<FunctionId, BTreeMap<u64, usize>> = BTreeMap::new();
        for (index, pc) in profile.pcs.iter().enumerate() {
            if let Some(function) = symbols.function_of(index) {
                of_function
                    .entry(function)
                    .or_default()
                    .insert(pc.address, index);
            }
        }
        let mut view = View {
            profile,
            symbols,
            heat,
            of_function,
            min_samples,
            names: if common.full_names {
                Names::Full
            } else {
                Names::Short
            },
            lines: common.lines,
            notes: Vec::new(),
            images,
            functions: None,
        };
        if let Some(name) = function.or(common.only_function.as_deref()) {
            view.functions = Some(view.select(name, stubs)?);
        }
        Ok(view)
    }

    /// Whether a PC is in what was asked for.
    pub(crate) fn wants(&self, pc: usize) -> bool {
        let image_wanted = match (&self.images, self.profile.pcs.get(pc)) {
            (Some(images), Some(pc)) => images.contains(&pc.image),
            (_, None) => false,
            (None, Some(_)) => true,
        };
        let function_wanted = match (&self.functions, self.symbols.function_of(pc)) {
            (Some(functions), Some(function)) => functions.contains(&function),
            (Some(_), None) => false,
            (None, _) => true,
        };
        image_wanted && function_wanted
    }

    /// The images of what was asked for, and of what calls it or is called from there.
    pub(crate) fn images_needed(&self) -> BTreeSet<usize> {
        images::around(self.profile, |pc| self.wants(pc))
    }

    /// Leaves out the rows beyond those asked for, and notes how many these are.
    pub(crate) fn keep_first<T>(&mut self, rows: &mut Vec<T>) {
        let more = self.lines.map_or(0, |most| rows.len().saturating_sub(most));
        if more > 0 {
            rows.truncate(rows.len() - more);
            let more = crate::render::counted(more as u64, "more row");
            self.notes.push(format!("{more} left out (--lines)"));
        }
    }

    /// The functions asked for by name.
    pub(crate) fn selected(&self) -> Option<&BTreeSet<FunctionId>> {
        self.functions.as_ref()
    }

    /// All interrupts.
    pub(crate) fn total(&self) -> Heat {
        let mut total = Heat::default();
        for heat in &self.heat {
            total.add(*heat);
        }
        total
    }

    /// PCs of a function, by address.
    pub(crate) fn pcs_of(&self, function: FunctionId) -> BTreeMap<u64, usize> {
        self.of_function.get(&function).cloned().unwrap_or_default()
    }

    /// The values of all parameters at the PCs asked for, merged over processes,
    /// subjects and flushes, and over callers unless kept apart.
    pub(crate) fn values(&self, by_caller: bool) -> Vec<Values> {
        self.values_at(by_caller, |pc| pc)
    }

    /// As [`View::values`], with what was seen at a PC counted at `place(pc)`.
    pub(crate) fn values_at(&self, by_caller: bool, place: impl Fn(usize) -> usize) -> Vec<Values> {
        let coins = || hotlist::Generator::new(SEED);
        let wanted = |pc| self.wants(place(pc));
        let mut placed: BTreeMap<(usize, &str, Option<usize>), Merged<'_>> = BTreeMap::new();
        for row in self.profile.merged(by_caller, wanted, coins) {
            let pc = place(row.pc);
            match placed.entry((pc, row.parameter, row.caller)) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Merged { pc, ..row });
                }
                Entry::Occupied(mut occupied) => {
                    let sum = occupied.get_mut();
                    sum.reached = sum.reached.saturating_add(row.reached);
                    sum.unknown = sum.unknown.saturating_add(row.unknown);
                    sum.windows = sum.windows.saturating_add(row.windows);
                    // Own coins for each sum: what else is asked for changes nothing in it.
                    let mut coins = hotlist::Generator::new(SEED);
                    sum.list = sum.list.merge(&row.list, &mut coins);
                }
            }
        }
        placed
            .into_values()
            .map(|row| Values::new(&row))
            // What was reached and never known is told as well: it is no sign of little data.
            .filter(|values| {
                let samples = values.samples();
                samples >= self.min_samples || (samples == 0 && values.reached >= self.min_samples)
            })
            .collect()
    }

    /// Those of some PCs that are in functions without a result, as far as debug information
    /// declares them.
    pub(crate) fn without_result(&self, pcs: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        let mut by_image: BTreeMap<usize, BTreeMap<u64, usize>> = BTreeMap::new();
        for index in pcs {
            if let Some(pc) = self.profile.pcs.get(index) {
                let of_image = by_image.entry(pc.image).or_default();
                of_image.insert(pc.address, index);
            }
        }
        let mut found = BTreeSet::new();
        for (image, pcs) in by_image {
            let addresses = pcs.keys().copied().collect();
            let without = self.symbols.without_result(image, &addresses);
            found.extend(without.iter().filter_map(|address| pcs.get(address)));
        }
        found
    }

    /// The address of a PC as reports print it.
    pub(crate) fn address(&self, pc: usize) -> String {
        match self.profile.pcs.get(pc) {
            Some(pc) => format!("0x{:x}", pc.address),
            None => "?".to_owned(),
        }
    }

    /// The path of an image.
    pub(crate) fn image_path(&self, image: usize) -> &'p str {
        self.profile
            .images
            .get(image)
            .map_or("?", |image| image.path.as_str())
    }

    /// Functions by name (with `stubs`, PLT stubs by that of their target): exactly, else
    /// `image+0xoffset` or `name+0xoffset`, else by a part that is in one name only.
    fn select(&self, name: &str, stubs: bool) -> Result<BTreeSet<FunctionId>, Failure> {
        let in_images = |function: &Function| {
            self.images
                .as_ref()
                .is_none_or(|images| images.contains(&function.image))
        };
        let matching = |test: &dyn Fn(&Function) -> bool| -> BTreeSet<FunctionId> {
            let functions = self.symbols.functions().iter().enumerate();
            functions
                .filter(|(_, function)| in_images(function) && test(function))
                .map(|(id, _)| id)
                .collect()
        };
        let is_called = |function: &Function, name: &str| {
            let stub = function.name.strip_suffix(STUB).filter(|_| stubs);
            let whole = stub.unwrap_or(&function.name);
            // As it is, as programmers say it, and as the reports show it.
            [whole, &function.name].contains(&name)
                || without_parameters(whole) == name
                || short(whole) == name
        };
        let exact = matching(&|function| is_called(function, name));
        if !exact.is_empty() {
            return Ok(exact);
        }
        if let Some((image, address)) = name.rsplit_once("+0x")
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            let around = matching(&|function| {
                let row = self.profile.images.get(function.image);
                let short = self.symbols.short_name(function.image);
                (short == image || row.is_some_and(|row| row.path == image))
                    && function.start.is_some_and(|start| start <= address)
                    && function.end.is_none_or(|end| address < end)
            });
            if !around.is_empty() {
                return Ok(around);
            }
            // An instruction as the reports show it: its function, and how far it is in it.
            let (whole, offset) = (image, address);
            let holding = matching(&|function| {
                let length = function.start.zip(function.end).map(|(from, to)| to - from);
                is_called(function, whole) && length.is_none_or(|length| offset < length)
            });
            if !holding.is_empty() {
                return Ok(holding);
            }
        }
        let parts = matching(&|function| function.name.contains(name));
        let names: BTreeSet<&str> = parts
            .iter()
            .filter_map(|id| self.symbols.function(*id))
            .map(|function| function.name.as_str())
            .collect();
        match names.len() {
            0 => Err(Failure::Nothing(format!(
                "no function {name:?} in this profile"
            ))),
            1 => Ok(parts),
            number => {
                let mut text = format!("{name:?} is part of {number} names:");
                for name in names.iter().take(20) {
                    text.push_str("\n  ");
                    text.push_str(name);
                }
                if number > 20 {
                    text.push_str(&format!("\n  and {} more", number - 20));
                }
                Err(Failure::Nothing(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(estimates: &[(u64, f64)], reached: u64, unknown: u64) -> Values {
        let mut values = Values {
            pc: 0,
            caller: None,
            parameter: "arg1".to_owned(),
            reached,
            unknown,
            windows: reached - unknown,
            threshold: 1.0,
            bits: None,
            live: true,
            shares: Vec::new(),
        };
        let share = |(value, estimate): &(u64, f64)| Share {
            value: *value,
            estimate: *estimate,
            percent: values.percent(*estimate),
            low: 0.0,
            high: 100.0,
        };
        values.shares = estimates.iter().map(share).collect();
        values
    }

    /// Values that differ only in bits a callee ignores count as one.
    #[test]
    fn narrowing_joins_values() {
        let wide = values(&[(0x1_0000_0004, 30.0), (7, 40.0), (4, 30.0)], 100, 0);
        let narrow = wide.narrowed(32);
        let seen: Vec<(u64, f64)> = narrow.shares.iter().map(|s| (s.value, s.percent)).collect();
        assert_eq!(seen, [(4, 60.0), (7, 40.0)]);
        assert_eq!(narrow.argument(), Some(1));
    }

    /// Estimates above the number of samples are shown as 100 %, no samples as none.
    #[test]
    fn shares_stay_within_bounds() {
        let over = values(&[(1, 120.0)], 100, 0);
        assert_eq!(over.shares.first().map(|share| share.percent), Some(100.0));
        let none = values(&[(1, 5.0)], 10, 10);
        assert_eq!(none.shares.first().map(|share| share.percent), Some(0.0));
        assert!(!none.mostly_known());
        assert!(values(&[], 10, 1).mostly_known());
    }
}
