//! The values of instructions on both sides.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Instruction, Mnemonic};
use parameters::Parameter;
use serde::{Serialize, Serializer};

use super::pairs::{self, Families, Key};
use super::statistics::{ShareInterval, by_intervals};
use super::{FunctionChange, chance, significant};
use crate::code::{Disassembler, ProcessorMode, Spacing};
use crate::render::{percent, rounded};
use crate::report::{JsonShare, json_shares, list, shares_text};
use crate::symbols::FunctionId;
use crate::values::{Class, JsonValue};
use crate::view::{Base, Values, View, as_float};

/// The most values of a parameter that are compared: each side's most frequent.
const MOST_VALUES: usize = 8;
/// Values that text shows for a parameter.
const SHOWN: usize = 3;
/// The values of a parameter on both sides.
#[derive(Debug, Serialize)]
pub(super) struct ComparedValues {
    address: String,
    text: Option<String>,
    parameter: String,
    base: Base,
    before: SideValues,
    after: SideValues,
    /// The value whose share differs most beyond chance, with both shares.
    most: Difference,
    #[serde(serialize_with = "significant")]
    pub(super) p: f64,
    pub(super) changed: bool,
}

/// The values of a parameter on one side, as `list` has them.
#[derive(Debug)]
struct SideValues {
    address: String,
    values: Values,
}

#[derive(Serialize)]
struct JsonSideValues<'a> {
    address: &'a str,
    reached: u64,
    unknown: u64,
    samples: u64,
    windows: u64,
    distinct: usize,
    threshold: f64,
    values: Vec<JsonShare>,
}

/// A value whose share differs.
#[derive(Debug, Clone, Serialize)]
struct Difference {
    #[serde(flatten)]
    value: JsonValue,
    #[serde(skip)]
    shown: String,
    before: JsonKnown,
    after: JsonKnown,
}

/// A share on one side.
#[derive(Debug, Clone, Serialize)]
struct JsonKnown {
    percent: f64,
    low: f64,
    high: f64,
    /// At least 90 % of the values are known.
    #[serde(skip)]
    mostly_known: bool,
}

impl JsonKnown {
    fn new(known: ShareInterval, values: &Values) -> JsonKnown {
        JsonKnown {
            percent: rounded(known.percent, 1),
            low: rounded(known.low, 1),
            high: rounded(known.high, 1),
            mostly_known: values.mostly_known(),
        }
    }

    fn text(&self) -> String {
        match self.mostly_known {
            true => format!("{:.1}%", self.percent),
            false => format!("{:.1}..{:.1}%", self.low, self.high),
        }
    }
}

/// What is compared: a place, what was captured there, and what its shares are of.
type Place = (Key, u64, String, Base);

/// Adds the values that both sides have, and says how many parameters these are.
pub(super) fn add(
    [before, after]: [&mut View<'_>; 2],
    families: &Families,
    rows: &mut BTreeMap<Key, FunctionChange>,
) -> usize {
    let profiles = [list::profiles(before, false), list::profiles(after, false)];
    let (before, after) = (&*before, &*after);
    let mut moved = Moved::new([before, after], families);
    let mut places: BTreeMap<Place, Option<SideValues>> = BTreeMap::new();
    for values in profiles[0].values().flatten() {
        if let Some((key, address)) = moved.place(0, before, values.pc) {
            let place = (key, address, values.parameter.clone(), values.base);
            let seen = SideValues {
                address: before.address(values.pc),
                values: values.clone(),
            };
            // What two places have become one is not compared.
            places
                .entry(place)
                .and_modify(|other| *other = None)
                .or_insert(Some(seen));
        }
    }
    let mut compared = 0;
    let mut told = BTreeSet::new();
    // Shares of executions come first: those of time hang on what makes code wait as well, and
    // are compared where there are no others.
    let mut of_second: Vec<&Values> = profiles[1].values().flatten().collect();
    of_second.sort_by_key(|values| !values.base.is_of_executions());
    for values in of_second {
        let Some((key, address)) = moved.place(1, after, values.pc) else {
            continue;
        };
        let place = (key.clone(), address, values.parameter.clone(), values.base);
        let Some(Some(old)) = places.remove(&place) else {
            continue;
        };
        if !values.base.is_of_executions() && told.contains(&(values.pc, &values.parameter)) {
            continue;
        }
        let least = old.values.windows.min(values.windows);
        if least < after.min_samples || is_address(&values.parameter) {
            continue;
        }
        let new = SideValues {
            address: after.address(values.pc),
            values: values.clone(),
        };
        let mode = mode(after, values.pc);
        if mode == ProcessorMode::Long && is_half_of_a_copy(after, values) {
            continue;
        }
        let (most, p) = compare(&old.values, &new.values, mode);
        compared += 1;
        told.insert((values.pc, &values.parameter));
        let row = rows
            .entry(key)
            .or_insert_with_key(|key| FunctionChange::of_values(key, families));
        row.profiles.push(ComparedValues {
            address: new.address.clone(),
            text: text(after, values.pc),
            parameter: values.parameter.clone(),
            base: values.base,
            before: old,
            after: new,
            most,
            p,
            changed: false,
        });
    }
    compared
}

/// Which instructions before are which after.
struct Moved<'v, 'p> {
    views: [&'v View<'p>; 2],
    families: &'v Families,
    /// The functions of each key, of each side.
    of_key: [BTreeMap<Key, BTreeSet<FunctionId>>; 2],
    /// By functions of other builds: addresses after by those before.
    known: BTreeMap<Key, BTreeMap<u64, u64>>,
}

impl<'v, 'p> Moved<'v, 'p> {
    fn new(views: [&'v View<'p>; 2], families: &'v Families) -> Moved<'v, 'p> {
        let of_key = [0, 1].map(|side: usize| {
            let mut of_key: BTreeMap<Key, BTreeSet<FunctionId>> = BTreeMap::new();
            for pc in 0..views[side].profile.pcs.len() {
                let id = views[side].symbols.function_of(pc);
                let key = id.and_then(|id| families.key(side, views[side], id));
                if let (Some(id), Some(key)) = (id, key) {
                    of_key.entry(key).or_default().insert(id);
                }
            }
            of_key
        });
        Moved {
            views,
            families,
            of_key,
            known: BTreeMap::new(),
        }
    }

    /// The function of a PC, and the address after, if what is there can be told on both sides.
    fn place(&mut self, side: usize, view: &View<'_>, pc: usize) -> Option<(Key, u64)> {
        let id = view.symbols.function_of(pc)?;
        let key = self.families.key(side, view, id)?;
        let address = view.profile.pcs.get(pc)?.address;
        if self.families.is_one_build(key.family) {
            return Some((key, address));
        }
        key.name.as_ref()?;
        let only =
            |ids: &BTreeSet<FunctionId>| ids.iter().next().copied().filter(|_| ids.len() == 1);
        let [old, new] = self
            .of_key
            .each_ref()
            .map(|of_key| of_key.get(&key).and_then(only));
        let (old, new) = old.zip(new)?;
        if side == 1 {
            return Some((key, address));
        }
        let [before, after] = self.views;
        let known = self.known.entry(key.clone());
        let known = known.or_insert_with(|| pairs::instructions((before, old), (after, new)));
        let address = known.get(&address).copied()?;
        Some((key, address))
    }
}

/// What is compared of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    /// The value.
    Same(u64),
    /// That it may be an address: the same thing lies elsewhere in each process.
    Address,
}

impl Category {
    fn new(class: Class, mode: ProcessorMode, value: u64) -> Category {
        let value = class.mask(value);
        let is_address = match (class.integer(), mode) {
            (Some(64), ProcessorMode::Long) => {
                // Mappings of programs that are not at fixed places, and the kernel's.
                (1 << 40..1 << 47).contains(&value)
                    || (0xffff_8000_0000_0000..0xffff_ffff_ff00_0000).contains(&value)
            }
            (Some(32..), ProcessorMode::Compatibility) => {
                (0x4000_0000..0xffff_0000).contains(&value)
            }
            _ => false,
        };
        match is_address {
            true => Category::Address,
            false => Category::Same(value),
        }
    }
}

/// Whether a parameter is an address whatever its value.
fn is_address(parameter: &str) -> bool {
    matches!(
        parameter.parse(),
        Ok(Parameter::Ea | Parameter::Base | Parameter::Target)
    )
}

/// Whether values are what a copy between registers leaves of 64 bits: these may be an address, and
/// the copy shows its lower half. What made them is compared where it did.
fn is_half_of_a_copy(view: &View<'_>, values: &Values) -> bool {
    let is_destination = matches!(values.parameter.parse(), Ok(Parameter::Dest(_)));
    is_destination
        && view
            .instruction(values.pc)
            .is_some_and(|instruction| is_half(&instruction))
}

fn is_half(instruction: &Instruction) -> bool {
    let registers = [instruction.op0_register(), instruction.op1_register()];
    instruction.mnemonic() == Mnemonic::Mov && registers.iter().all(|one| one.is_gpr32())
}

/// The value whose share differs most beyond chance, and how often chance alone would make the
/// values differ so.
fn compare(old: &Values, new: &Values, mode: ProcessorMode) -> (Difference, f64) {
    let class = new.class();
    let candidates: BTreeSet<Category> = [old, new]
        .into_iter()
        .flat_map(|values| values.shares.iter().take(MOST_VALUES))
        .map(|share| Category::new(class, mode, share.value))
        .collect();
    let mut least: Option<(f64, Category, ShareInterval, ShareInterval)> = None;
    for category in &candidates {
        let is_in = |value| Category::new(class, mode, value) == *category;
        let (before, after) = (known(old, is_in), known(new, is_in));
        let p = by_intervals(before, after);
        if least.is_none_or(|(other, ..)| p < other) {
            least = Some((p, *category, before, after));
        }
    }
    let none = ShareInterval {
        percent: 0.0,
        low: 0.0,
        high: 100.0,
    };
    let (p, category, before, after) = least.unwrap_or((1.0, Category::Address, none, none));
    let (value, shown) = match category {
        Category::Same(value) => (class.json(value), class.text(value)),
        Category::Address => {
            let address = JsonValue {
                text: None,
                value: "address".to_owned(),
                float: None,
            };
            (address, "address".to_owned())
        }
    };
    let difference = Difference {
        value,
        shown,
        before: JsonKnown::new(before, old),
        after: JsonKnown::new(after, new),
    };
    // As many values, as many chances (C. Bonferroni).
    let p = p * as_float(candidates.len().max(1) as u64);
    (difference, p.min(1.0))
}

/// The share of some values together. Of those that a list does not have, that is what may have
/// escaped it.
fn known(values: &Values, is_in: impl Fn(u64) -> bool) -> ShareInterval {
    let mut shares = values.shares.iter().filter(|share| is_in(share.value));
    if let (Some(share), None) = (shares.next(), shares.next()) {
        return ShareInterval {
            percent: share.percent,
            low: share.low,
            high: share.high,
        };
    }
    let shares = values.shares.iter().filter(|share| is_in(share.value));
    let estimate = shares.fold(0.0, |sum, share| sum + share.estimate);
    let p = 1.0 / f64::max(values.threshold, 1.0);
    let samples = values.samples();
    let (low, high) = hotlist::interval(estimate, samples, values.windows, values.reached, p);
    let percent = percent(estimate, as_float(samples)).clamp(0.0, 100.0);
    ShareInterval {
        percent,
        low: low.min(percent),
        high: high.max(percent),
    }
}

/// The mode that a PC's code runs in.
fn mode(view: &View<'_>, pc: usize) -> ProcessorMode {
    let pc = view.profile.pcs.get(pc);
    pc.map_or(ProcessorMode::Long, |pc| view.symbols.mode(pc.image))
}

/// The instruction at a PC in words.
fn text(view: &View<'_>, pc: usize) -> Option<String> {
    let instruction = view.instruction(pc)?;
    Some(Disassembler::new(Spacing::Text).text(&instruction, |_| None))
}

impl Serialize for SideValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = &self.values;
        let seen = JsonSideValues {
            address: &self.address,
            reached: values.reached,
            unknown: values.unknown,
            samples: values.samples(),
            windows: values.windows,
            distinct: values.shares.len(),
            threshold: rounded(values.threshold, 3),
            values: json_shares(values, values.class()),
        };
        seen.serialize(serializer)
    }
}

impl ComparedValues {
    /// The line below its function's row.
    pub(super) fn line(&self) -> String {
        let shares = |seen: &SideValues| shares_text(&seen.values, SHOWN);
        format!(
            "    {} {}  {}{}: {} {} > {} (p {}); before {}; after {}",
            self.address,
            self.text.as_deref().unwrap_or("?"),
            self.parameter,
            self.base.words(),
            self.most.shown,
            self.most.before.text(),
            self.most.after.text(),
            chance(self.p),
            shares(&self.before),
            shares(&self.after),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::decode;

    /// Copies of the lower half of a register may be of an address; whole ones, and what is loaded
    /// or computed, are compared.
    #[test]
    fn halves() {
        let is_half_of = |code: &[u8]| is_half(&decode(code, 0x1000).expect("an instruction"));
        // mov eax,edi; then mov rax,rdi; mov eax,[rdi]; mov eax,5; add eax,edi
        assert!(is_half_of(&[0x89, 0xf8]));
        for code in [
            &[0x48, 0x89, 0xf8][..],
            &[0x8b, 0x07],
            &[0xb8, 5, 0, 0, 0],
            &[0x01, 0xf8],
        ] {
            assert!(!is_half_of(code), "{code:x?}");
        }
    }

    /// Addresses of any process are alike; numbers, small negative ones too, are not.
    #[test]
    fn addresses() {
        let is_address =
            |class, mode, value| Category::new(class, mode, value) == Category::Address;
        let (whole, half) = (Class::Integer(64), Class::Integer(32));
        for address in [0x55a1_ce74_6061, 0x7f06_6f0b_4800, 0xffff_8881_0000_0000] {
            assert!(
                is_address(whole, ProcessorMode::Long, address),
                "{address:x}"
            );
            assert!(
                !is_address(Class::F64, ProcessorMode::Long, address),
                "{address:x}"
            );
        }
        for number in [0, 4, 1 << 32, u64::MAX, u64::MAX - 4096, 1 << 62] {
            assert!(
                !is_address(whole, ProcessorMode::Long, number),
                "{number:x}"
            );
        }
        assert!(is_address(half, ProcessorMode::Compatibility, 0xf7c0_1000));
        assert!(!is_address(half, ProcessorMode::Long, 0xf7c0_1000));
        assert!(!is_address(half, ProcessorMode::Compatibility, 0xffff_fffe));
    }
}
