//! What a hint says of an opportunity: its variable, its place in the source, and its patch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iced_x86::Register;

use super::Hint;
use super::find::{COPIES, Division, Opportunity};
use super::fold::{KnownPlace, Results};
use super::patch::{HintKind, SIZE_OF, Told, Unclear, divided_by, patch, without_number};
use crate::code::{decode, direct_target};
use crate::render::{percent, rounded};
use crate::sources::Sources;
use crate::symbolize::{SourcePlace, own_place};
use crate::symbols::data::Data;
use crate::variables::{Declaration, Language, NumberType, Variable};
use crate::view::View;

/// What a hint says.
pub(super) fn hint(
    view: &View<'_>,
    found: &Opportunity,
    total: f64,
    sources: &mut Sources,
) -> Option<Hint> {
    let pc = view.profile.pcs.get(found.pc)?;
    let (image, shown) = (pc.image, shown(view, found)?);
    let place = place(view, image, shown);
    let language = language(view, image, shown, &place);
    let source = line_of(&place);
    let source_text = sources.at(&place, Path::new(view.image_path(image)));
    let callee = found.callee.as_deref().map(|callee| {
        let text = source_text.as_deref().unwrap_or_default();
        called_in(text, callee)
    });
    let declared = found.argument.and_then(|_| {
        let mut all = view.symbols.parameters(image, &[pc.address].into());
        all.remove(&pc.address)
    });
    let arguments = declared.as_ref().and_then(Declaration::names);
    let arguments = arguments.unwrap_or_default();
    let variable = named(view, found, image, shown, declared, source_text.as_deref());
    let name = variable.as_ref().and_then(|(name, _)| name.clone());
    let number = variable.and_then(|(_, number)| number);
    let (number, bits) = match number {
        Some(number) => (Some(number), found.bits),
        None => divided_as(found).map_or((None, found.bits), |(number, by)| (Some(number), by)),
    };
    let literal = match (bits, &number) {
        (None, _) => Some(found.value.clone()),
        (Some((value, bits)), Some(number)) => number.text(value, bits, language),
        (Some((value, bits)), None) => {
            (!may_be_negative(value, found.extended.unwrap_or(bits))).then(|| found.value.clone())
        }
    };
    let value = literal.clone().unwrap_or_else(|| found.value.clone());
    let function = match found.function.and_then(|id| view.symbols.function(id)) {
        Some(function) => function.name.clone(),
        None => view.symbols.name_of(found.pc),
    };
    let suffix = number.as_ref().map_or("", |number| number.suffix(language));
    let typed = match value.as_str() {
        "true" | "false" => value.clone(),
        _ => format!("{value}{suffix}"),
    };
    let computed = found.division.filter(|division| division.is_computed);
    let divisor = computed.and_then(|of| of.number().text(of.by, of.bits, language));
    let told = Told {
        function: callee.unwrap_or(&function),
        variable: name.as_deref(),
        value: &value,
        typed: &typed,
        divisor: divisor.as_deref(),
        gives_both: found.division.is_some_and(|of| of.results == Results::Both),
        is_argument: found.is_argument,
        arguments: &arguments,
        lines: lines(view, found, image),
        source: source_text.as_deref(),
        line: place.line,
        share: found.share[0],
    };
    let patch = match literal {
        _ if !can_be_patched(view, found) => Vec::new(),
        Some(_) => patch(found.kind, language, &told),
        None => {
            let why = number.as_ref().map_or(Unclear::Sign, |_| Unclear::Part);
            without_number(language, why, &value, name.as_deref())
        }
    };
    let [low, high] = found.bounds();
    let of_all = |cycles: f64, digits| rounded(percent(cycles, total), digits);
    let is_predictable = found.kind.is_predictable();
    let predicted = |cycles: f64| is_predictable.then(|| of_all(cycles, 2));
    let hex = |all: &BTreeSet<u64>| -> Vec<String> {
        all.iter().map(|address| format!("0x{address:x}")).collect()
    };
    Some(Hint {
        kind: found.kind,
        image: view.image_path(image).to_owned(),
        address: format!("0x{:x}", pc.address),
        caller: found.site.map(|site| view.symbols.name_of(site)),
        call_site: found.site.map(|site| view.address(site)),
        parameter: match callee {
            Some(callee) => format!("{SIZE_OF}{callee}"),
            None => found.parameter.clone(),
        },
        variable: name,
        also: other_lines(view, found, image, source.as_deref()),
        source,
        source_text,
        value,
        base: found.base,
        samples: found.samples,
        share: rounded(found.share[0], 1),
        share_low: rounded(found.share[1], 1),
        share_high: rounded(found.share[2], 1),
        cycles_percent: of_all(found.under, 2),
        folded_percent: of_all(found.folded, 2),
        folded_samples: found.folded_samples,
        constant: hex(&found.constant),
        divisions: hex(&found.divisions),
        predicted_percent: predicted(found.at_most()),
        predicted_low: predicted(low),
        predicted_high: predicted(high),
        function,
        patch,
    })
}

/// The address whose line is shown.
fn shown(view: &View<'_>, found: &Opportunity) -> Option<u64> {
    let pc = view.profile.pcs.get(found.pc)?;
    Some(
        found
            .division
            .map_or(pc.address, |division| division.address),
    )
}

/// The line of an address; of what was inlined from a header of the system, that of the call.
pub(super) fn place(view: &View<'_>, image: usize, address: u64) -> SourcePlace {
    places(view, image, &[address]).pop().unwrap_or_default()
}

/// Those of several addresses, in their order: to look up one takes as long.
fn places(view: &View<'_>, image: usize, addresses: &[u64]) -> Vec<SourcePlace> {
    let chains = view.symbols.chains(image, addresses);
    chains.into_iter().map(own_place).collect()
}

/// A place as `file:line`, or as its file where the line is not known.
fn line_of(place: &SourcePlace) -> Option<String> {
    let file = place.file.as_ref()?.display();
    Some(match place.line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_string(),
    })
}

/// What a line calls a function that copies or compares: one implementation may stand for several.
fn called_in<'a>(line: &str, callee: &'a str) -> &'a str {
    let words: BTreeSet<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let mut others = COPIES.into_iter().filter(|name| words.contains(name));
    match (words.contains(callee), others.next(), others.next()) {
        (false, Some(other), None) => other,
        _ => callee,
    }
}

/// The least part of the time that a value decides for its line to be told, and how many are.
const LEAST_OF_LINE: f64 = 0.1;
const MOST_LINES: usize = 3;

/// The lines, beside the one that is shown, of the divisions that the value decides; of a value
/// that decides none, those with most of the time, since compilers move loads away from what they
/// are for.
fn other_lines(
    view: &View<'_>,
    found: &Opportunity,
    image: usize,
    shown: Option<&str>,
) -> Vec<String> {
    if found.division.is_some() {
        let addresses: Vec<u64> = found.divisions.iter().copied().collect();
        return lines_beside(places(view, image, &addresses).into_iter(), shown);
    }
    let mut by_line: BTreeMap<(Option<u32>, String), f64> = BTreeMap::new();
    let addresses: Vec<u64> = found.places.keys().copied().collect();
    for (place, cycles) in places(view, image, &addresses)
        .iter()
        .zip(found.places.values())
    {
        if let Some(line) = line_of(place) {
            *by_line.entry((place.line, line)).or_default() += cycles;
        }
    }
    let mut lines: Vec<_> = by_line.into_iter().collect();
    lines.retain(|(_, cycles)| *cycles >= found.folded * LEAST_OF_LINE);
    lines.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    lines.truncate(MOST_LINES);
    let lines = lines.into_iter().map(|((_, line), _)| line);
    lines.filter(|line| Some(line.as_str()) != shown).collect()
}

/// The lines of some places, each once, but for one.
fn lines_beside(places: impl Iterator<Item = SourcePlace>, shown: Option<&str>) -> Vec<String> {
    let lines = places.filter_map(|place| Some((place.line, line_of(&place)?)));
    let lines: BTreeSet<(Option<u32>, String)> = lines.collect();
    let lines = lines.into_iter().map(|(_, line)| line);
    lines.filter(|line| Some(line.as_str()) != shown).collect()
}

/// The language of the source at an address: by its file, its unit, its symbol, or its image.
fn language(view: &View<'_>, image: usize, address: u64, place: &SourcePlace) -> Language {
    let by_file = place.file.as_deref().and_then(Language::of_file);
    let by_unit = || view.symbols.language(image, address);
    let elf = view.symbols.elf(image);
    let by_symbol = || {
        let bounds = crate::symbolize::bounds(elf?, &[address]).pop()??;
        let names = elf?.names(&[bounds.start].into());
        Language::of_symbol(names.get(&bounds.start)?)
    };
    let by_image = || {
        let languages = elf?.languages();
        match languages.go {
            Some(go) if go.text.contains(&address) => Some(Language::Go),
            _ if languages.ocaml || languages.haskell => Some(Language::Other),
            _ => None,
        }
    };
    let found = by_file.or_else(by_unit).or_else(by_symbol);
    found.or_else(by_image).unwrap_or(Language::C)
}

/// Whether an opportunity is worth a word: its code can be changed, or it is at a call, which tells
/// what the callers might do otherwise.
pub(super) fn is_told(view: &View<'_>, found: &Opportunity) -> bool {
    let is_call = matches!(found.kind, HintKind::CopySize | HintKind::IndirectTarget);
    is_call || can_be_patched(view, found)
}

/// Whether somebody may change the code that an opportunity is about: not where it is assembly, or
/// has no lines in a library or among code with lines.
fn can_be_patched(view: &View<'_>, found: &Opportunity) -> bool {
    let Some(pc) = view.profile.pcs.get(found.pc) else {
        return true;
    };
    let shown = shown(view, found).unwrap_or(pc.address);
    let place = place(view, pc.image, shown);
    if place.line.is_some() {
        return language(view, pc.image, shown, &place) != Language::Assembly;
    }
    let files = view.symbols.elf(pc.image).into_iter();
    let mut files = files.chain(view.symbols.debug(pc.image));
    let is_library = Path::new(view.image_path(pc.image))
        .file_name()
        .is_some_and(|name| name.to_string_lossy().contains(".so"));
    let is_of_unit = || view.symbols.language(pc.image, shown).is_some();
    !is_library && !files.any(|file| file.has_section(".debug_line")) || is_of_unit()
}

/// Whether a number has another meaning for a signed type than for an unsigned one: of this width,
/// or of the 32 bits that most numbers have.
fn may_be_negative(value: u64, bits: u32) -> bool {
    let highest = 64 - value.leading_zeros();
    highest == bits || highest == 32
}

/// Of a value whose type is not known, though its upper bit may be a sign, what the division by it
/// takes it for: the type, and its bits.
fn divided_as(found: &Opportunity) -> Option<(NumberType, Option<(u64, u32)>)> {
    let (value, bits) = found.bits?;
    let division = found.division.filter(|division| !division.is_computed)?;
    let is_asked = may_be_negative(value, found.extended.unwrap_or(bits));
    is_asked.then(|| (division.number(), Some((division.by, division.bits))))
}

impl Division {
    /// The type of numbers that it calculates with.
    fn number(&self) -> NumberType {
        NumberType {
            name: None,
            bits: self.bits,
            is_signed: self.is_signed,
            is_truth: false,
        }
    }
}

/// What has the value: its name, and which numbers it holds.
type Named = (Option<String>, Option<NumberType>);

/// What the source calls that which has the value, if anything.
fn named(
    view: &View<'_>,
    found: &Opportunity,
    image: usize,
    shown: u64,
    declared: Option<Declaration>,
    line: Option<&str>,
) -> Option<Named> {
    let of_variable = |variable: Variable| (Some(variable.name), variable.number);
    if let Some(index) = found.argument
        && let Some(argument) = declared.as_ref().and_then(|all| all.integer(index))
    {
        return Some((argument.name.clone(), argument.number.clone()));
    }
    let known = found.known?;
    let held = held(view, image, known).map(of_variable);
    held.or_else(|| {
        let name = data(view, image, known)?;
        let variable = view.symbols.variable(image, shown, &name);
        Some(variable.map_or((Some(name), None), of_variable))
    })
    .or_else(|| {
        // What is divided by is no other number that is computed from this one.
        let is_computed = found.division.is_some_and(|division| division.is_computed);
        let name = divided_by(line.filter(|_| !is_computed)?, found.kind)?;
        let variable = view.symbols.variable(image, shown, name);
        Some(variable.map_or((Some(name.to_owned()), None), of_variable))
    })
}

/// The variable in the register that has a value which is known there.
fn held(view: &View<'_>, image: usize, known: KnownPlace) -> Option<Variable> {
    let (at, register): (u64, Register) = match known {
        KnownPlace::Read(at, register) => (at, register),
        KnownPlace::After(at, register) => {
            let one = decode(view.symbols.elf(image)?.few_bytes(at)?, at)?;
            (one.next_ip(), register)
        }
        KnownPlace::InMemory(_) | KnownPlace::AtEntry(..) | KnownPlace::Low(..) => return None,
    };
    view.symbols.held(image, at, register)
}

/// The name of the data that an instruction loads.
fn data(view: &View<'_>, image: usize, known: KnownPlace) -> Option<String> {
    let at = match known {
        KnownPlace::After(at, _) | KnownPlace::InMemory(at) => at,
        KnownPlace::Read(..) | KnownPlace::AtEntry(..) | KnownPlace::Low(..) => return None,
    };
    let one = decode(view.symbols.elf(image)?.few_bytes(at)?, at)?;
    let address = one
        .is_ip_rel_memory_operand()
        .then(|| one.ip_rel_memory_address())?;
    let name = Data::of(&view.symbols, image).at(&view.symbols, address)?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    name.chars().all(is_word).then_some(name)
}

/// The lines to which a branch leads that is taken, and one that is not.
fn lines(view: &View<'_>, found: &Opportunity, image: usize) -> Option<[u32; 2]> {
    if found.kind != HintKind::PredictableBranch {
        return None;
    }
    let branch = view.instruction(found.pc)?;
    let ways = [direct_target(&branch)?, branch.next_ip()];
    let own = place(view, image, branch.ip());
    let [taken, not] = ways.map(|way| place(view, image, way));
    let is_here = taken.file == own.file && not.file == own.file;
    let lines = [taken.line?, not.line?];
    (is_here && lines[0] != lines[1]).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The divisions of a value are told by their lines: each once, in the order of the file, but
    /// for the one that is shown.
    #[test]
    fn lines_of_divisions() {
        let place = |line| SourcePlace {
            file: Some("d.c".into()),
            line: Some(line),
            inlined: Vec::new(),
        };
        let nowhere = SourcePlace::default();
        let places = [place(115), place(14), nowhere, place(15), place(14)];
        let beside = |shown| lines_beside(places.clone().into_iter(), shown);
        assert_eq!(beside(Some("d.c:15")), ["d.c:14", "d.c:115"]);
        assert_eq!(beside(None), ["d.c:14", "d.c:15", "d.c:115"]);
        assert!(lines_beside([place(15)].into_iter(), Some("d.c:15")).is_empty());
    }

    /// A number whose upper bit is set means two things: of its own width, and of 32 bits.
    #[test]
    fn upper_bits() {
        assert!(may_be_negative(0xffff_fff9, 32));
        assert!(may_be_negative(0xffff_fff9, 64));
        assert!(may_be_negative(u64::MAX - 6, 64));
        assert!(may_be_negative(0xff, 8));
        assert!(!may_be_negative(0xff, 32));
        assert!(!may_be_negative(7, 32));
        assert!(!may_be_negative(0, 8));
    }
}
