//! What a value that is known somewhere decides, and whether that is worth a hint.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use iced_x86::{Mnemonic, Register};
use instructions::register_name;

use super::{Division, KnownValue, Opportunity, Search, reads_memory};
use crate::report::hints::fold::{Code, Folded, KnownPlace, Results};
use crate::report::hints::machine::{mask, width};
use crate::report::hints::patch::HintKind;
use crate::symbols::FunctionId;
use crate::view::Share;

/// The part of a division's time that one by a number does not take. A divisor of today takes some
/// ten cycles, and so may what stands in its place: a multiplication and shifts, with additions
/// where there is a sign, or the factor has one bit too many ([`has_short_factor`]), and another
/// multiplication for the rest (`docs/decisions/081-hints.md`).
fn saved_part(division: &Division) -> f64 {
    let is_short = !division.is_signed && has_short_factor(division.by, division.bits);
    match (division.results, is_short) {
        _ if division.by.is_power_of_two() => 0.75,
        (Results::Quotient, true) => 0.4,
        (Results::Quotient, false) => 0.2,
        (Results::Both, _) => 0.2,
        (Results::Rest, true) => 0.2,
        (Results::Rest, false) => 0.1,
    }
}

/// Whether an unsigned division by a number is a multiplication by a factor of as many bits, and a
/// shift (T. Granlund and P. L. Montgomery, Division by Invariant Integers using Multiplication,
/// 1994).
fn has_short_factor(by: u64, bits: u32) -> bool {
    // Shifts in front of it take the twos out.
    let even = by.trailing_zeros();
    let (by, bits) = (u128::from(by >> even), bits.saturating_sub(even));
    if by <= 1 || bits == 0 {
        return true;
    }
    // The smallest power of two whose product rounds right for all dividends.
    (0..=64).any(|shift| {
        let Some(power) = 1_u128.checked_shl(bits + shift).filter(|power| *power > by) else {
            return false;
        };
        let factor = power.div_ceil(by);
        let over = factor * by - power;
        over <= 1 << shift && factor >> (bits + even) == 0
    })
}

/// A value that is frequent enough, and the time that could depend on it.
struct Candidate<'s> {
    share: &'s Share,
    value: u64,
    /// How many of its bits are known.
    bits: u32,
    text: String,
    function: FunctionId,
    /// Of an operand, the instructions that run only where it was read.
    implied: Option<BTreeSet<u64>>,
    /// Cycles of the function or the calls, or of these instructions.
    under: f64,
}

/// What a value decides, and the time that this takes.
struct Decided {
    kind: HintKind,
    /// The hottest division, where most of the time is that of divisions.
    division: Option<Division>,
    cycles: f64,
    samples: u64,
    /// Cycles by instruction.
    places: BTreeMap<u64, f64>,
}

impl Search<'_, '_> {
    /// What the most frequent value decides, if that is worth a hint.
    pub(super) fn judge(&mut self, seen: &KnownValue<'_>) -> Option<Opportunity> {
        let values = seen.values;
        let of = self.candidate(seen)?;
        let places = self.code(of.function)?.places(seen.known)?;
        let folded = self.folded(of.function, &places, of.value)?;
        if self.is_address(&of, seen.known, &folded) {
            return None;
        }
        let mut folded = Folded::clone(&folded);
        if let Some(implied) = &of.implied {
            folded.constant.retain(|at| implied.contains(at));
            folded.divisions.retain(|at, _| implied.contains(at));
        }
        let decided = self.decided(seen, &of, &places, &folded)?;
        Some(Opportunity {
            kind: decided.kind,
            pc: values.pc,
            division: decided.division,
            site: values.caller,
            function: Some(of.function),
            callee: None,
            parameter: match seen.known {
                KnownPlace::Read(_, register) => register_name(register).to_owned(),
                _ => values.parameter.clone(),
            },
            argument: seen.argument,
            is_argument: places
                .iter()
                .all(|place| matches!(place, KnownPlace::AtEntry(..))),
            known: Some(seen.known),
            value: number(of.value, of.text),
            bits: Some((of.value, of.bits)),
            extended: seen.extended,
            base: values.base,
            samples: values.samples(),
            share: [of.share.percent, of.share.low, of.share.high],
            under: of.under,
            folded: decided.cycles,
            folded_samples: decided.samples,
            constant: folded.constant,
            divisions: folded.divisions.into_keys().collect(),
            places: decided.places,
        })
    }

    /// The most frequent value, if it is frequent and the time is enough that could depend on it.
    fn candidate<'s>(&mut self, seen: &KnownValue<'s>) -> Option<Candidate<'s>> {
        let view = self.view;
        let values = seen.values;
        let share = values.shares.first().filter(|_| self.is_frequent(values))?;
        let class = values.class();
        let value = class.mask(share.value);
        let text = class.text(share.value);
        if is_large(value, &text) && self.is_mapped(value) {
            return None;
        }
        let function = view.symbols.function_of(values.pc)?;
        let pc = view.profile.pcs.get(values.pc)?;
        if let KnownPlace::AtEntry(..) = seen.known
            && view.symbols.function(function)?.start != Some(pc.address)
        {
            return None;
        }
        let site = values.caller;
        let least = self.least;
        let is_worth = |under: f64| under * share.percent / 100.0 >= least;
        let mut under = self.under(function, site).cycles;
        // Two sources may tell of one place.
        if !is_worth(under) || !self.judged.insert((function, site, seen.known, value)) {
            return None;
        }
        let mut implied = None;
        if let KnownPlace::Read(at, _) = seen.known {
            let pcs = view.pcs_of(function);
            let reached = self.code(function)?.implied(at);
            let reached_pcs = reached.iter().filter_map(|at| pcs.get(at));
            under = reached_pcs.map(|pc| self.heat(*pc, site).cycles).sum();
            implied = Some(reached);
        }
        is_worth(under).then(|| Candidate {
            share,
            value,
            bits: class.bits(),
            text,
            function,
            implied,
            under,
        })
    }

    /// Whether the profile knows that something is mapped at an address.
    fn is_mapped(&self, value: u64) -> bool {
        let mut regions = self.view.profile.regions.iter();
        regions.any(|region| (region.start..region.end).contains(&value))
    }

    /// Whether a value is an address, which differs from run to run, as far as that shows by what
    /// it is used for. Nobody divides by an address. That nothing is known to be mapped there says
    /// little: of code that was generated, and of files that are no images, the profile does not
    /// know. So it must be calculated with, too, where memory can be at all.
    fn is_address(&mut self, of: &Candidate<'_>, known: KnownPlace, folded: &Folded) -> bool {
        const LARGEST_NARROW: u64 = u32::MAX as u64;
        if !is_large(of.value, &of.text) || folded.divisions.values().any(|by| *by > LARGEST_NARROW)
        {
            return false;
        }
        let knows_regions = !self.view.profile.regions.is_empty();
        let Some(code) = self.code(of.function) else {
            return true;
        };
        // The runtime draws such words for each run: canaries, keys of pointers.
        let is_of_thread = known.address().is_some_and(|at| code.reads_of_thread(at));
        let is_number =
            !can_be_mapped(of.value) || knows_regions && code.calculates(&folded.constant);
        is_of_thread || !is_number
    }

    /// The time that goes where the value is known at these places. None: no time, or no value
    /// that a program could ask for.
    fn decided(
        &mut self,
        seen: &KnownValue<'_>,
        of: &Candidate<'_>,
        places: &[KnownPlace],
        folded: &Folded,
    ) -> Option<Decided> {
        let code = self.code(of.function)?;
        let mut addresses = places.iter().filter_map(|place| place.address());
        if addresses.any(|at| code.leads_a_jump(at)) {
            return None;
        }
        let mut parts: BTreeMap<u64, f64> = BTreeMap::new();
        // The division that a place tells of. A processor that divides is interrupted behind the
        // division.
        let mut told: BTreeMap<u64, u64> = BTreeMap::new();
        let known = (of.value, of.bits);
        let divisions = folded.divisions.iter();
        let divisions: BTreeMap<u64, Division> = divisions
            .filter_map(|(at, by)| Some((*at, division(code, *at, *by, known)?)))
            .collect();
        for (at, division) in &divisions {
            for place in code.behind(*at).into_iter().chain([*at]) {
                parts.insert(place, saved_part(division));
                told.insert(place, *at);
            }
        }
        let waits = places.iter().flat_map(|place| code.waits(*place));
        let mut waits: BTreeSet<u64> = waits.collect();
        let removed = folded.divisions.keys().chain(&folded.constant);
        waits.append(&mut code.behind_others(&removed.copied().collect()));
        parts.extend(folded.constant.difference(&waits).map(|at| (*at, 1.0)));
        let kind_of_place = kind_of_place(code, seen.known, places);
        let pcs = self.view.pcs_of(of.function);
        let (mut cycles, mut samples, mut of_divisions) = (0.0, 0, 0.0);
        let mut hottest: Option<(f64, u64)> = None;
        let mut decided = BTreeMap::new();
        for (at, part) in &parts {
            let pc = pcs.get(at);
            let heat = pc.map(|pc| self.heat(*pc, seen.values.caller));
            let heat = heat.unwrap_or_default();
            let own = heat.cycles * part;
            cycles += own;
            samples += heat.samples;
            decided.insert(*at, own);
            if let Some(division) = told.get(at) {
                of_divisions += own;
                if hottest.is_none_or(|(most, _)| heat.cycles > most) {
                    hottest = Some((heat.cycles, *division));
                }
            }
        }
        let division = hottest.and_then(|(_, at)| divisions.get(&at).copied());
        let division = division.filter(|_| of_divisions * 2.0 >= cycles);
        (cycles > 0.0).then_some(Decided {
            kind: match division.map(|division| division.results) {
                Some(Results::Quotient) => HintKind::Divisor,
                Some(Results::Rest | Results::Both) => HintKind::Modulus,
                None => kind_of_place,
            },
            division,
            cycles,
            samples,
            places: decided,
        })
    }

    /// What a value removes that is known at some places of a function.
    fn folded(
        &mut self,
        function: FunctionId,
        places: &[KnownPlace],
        value: u64,
    ) -> Option<Rc<Folded>> {
        let key = (function, places.to_vec(), value);
        if let Some(known) = self.folded.get(&key) {
            return known.clone();
        }
        let folded = self.code(function)?.folded(places, value).map(Rc::new);
        self.folded.insert(key, folded.clone());
        folded
    }
}

/// What a value is that decides no division.
fn kind_of_place(code: &Code, known: KnownPlace, places: &[KnownPlace]) -> HintKind {
    /// Registers of arguments, by the platform's convention.
    const ARGUMENTS: [Register; 6] = [
        Register::RDI,
        Register::RSI,
        Register::RDX,
        Register::RCX,
        Register::R8,
        Register::R9,
    ];
    let is_load = |place: &KnownPlace| match place {
        KnownPlace::InMemory(_) => true,
        KnownPlace::After(at, _) | KnownPlace::Low(at, _) => code.at(*at).is_some_and(reads_memory),
        KnownPlace::AtEntry(..) | KnownPlace::Read(..) => false,
    };
    match (known, places) {
        (KnownPlace::AtEntry(..), _) => HintKind::ConstantArgument,
        (KnownPlace::Read(at, _), [KnownPlace::AtEntry(register, _)])
            if ARGUMENTS.contains(&register.full_register()) && code.always_reaches(at) =>
        {
            HintKind::ConstantArgument
        }
        _ if places.iter().all(is_load) => HintKind::SemiInvariantLoad,
        _ => HintKind::SemiInvariantRegister,
    }
}

/// A division at an address by a number that comes of a value with so many bits.
fn division(code: &Code, address: u64, by: u64, (value, known): (u64, u32)) -> Option<Division> {
    let one = code.at(address)?;
    let bits = width(one, 0);
    Some(Division {
        address,
        results: code.results(address),
        by,
        bits,
        is_signed: one.mnemonic() == Mnemonic::Idiv,
        is_computed: (by ^ value) & mask(bits.min(known)) != 0,
    })
}

/// Whether a value may be an address by its size.
fn is_large(value: u64, text: &str) -> bool {
    value > u64::from(u32::MAX) && !text.starts_with('-')
}

/// Whether memory can be at an address: of its upper 17 bits all are the same.
fn can_be_mapped(value: u64) -> bool {
    let upper = value.cast_signed() >> 47;
    upper == 0 || upper == -1
}

/// A value as it is, where nothing is known of its type.
fn number(value: u64, text: String) -> String {
    const SMALL: u64 = 1 << 16;
    match value < SMALL {
        true => value.to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::has_short_factor;

    /// As compilers have it: 7 and its like need a factor of a bit more.
    #[test]
    fn factors() {
        for by in [1, 2, 3, 5, 6, 9, 10, 11, 12, 13, 14, 100, 641, 1000, 28] {
            assert!(has_short_factor(by, 32), "{by}");
        }
        for by in [7, 19, 21, 27, 31, 37] {
            assert!(!has_short_factor(by, 32), "{by}");
        }
        assert!(!has_short_factor(7, 64) && has_short_factor(10, 64));
    }
}
