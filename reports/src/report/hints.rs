//! `hints`: where knowing a value would make code faster, by how much time that could save.
//!
//! No compiler reads values of samples. A hint names a value that comes often, follows what of the
//! code it decides ([`fold`]), and weighs that by the time spent there. It is a prediction. Whether
//! it holds is measured by [`trial`].

mod find;
mod fold;
mod machine;
mod patch;

use std::path::Path;

use parameters::Parameter;
use serde::Serialize;

use self::find::Opportunity;
use self::fold::KnownPlace;
use self::patch::{HintKind, Language, Told, divided_by, patch};
use super::nothing;
use crate::args::{Common, OneFunction, percentage};
use crate::code::decode;
use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::needs::Needs;
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{count, percent, rounded};
use crate::sources::{For, Sources};
use crate::symbols::data::Data;
use crate::trial::{self, Candidate, LEAST_ROUNDS, ROUNDS};
use crate::variables::Declaration;
use crate::view::{Base, View, as_float};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which values are a special case in the source worth?
  vcpi hints -n 1

  17.32% predicted (15.49 to 19.09)  modulus: base in digits
      arg1 = 7 in 96.1% (94.1 to 97.4) of 689 known values, at 0x1244 in ./plain
      special.c:15  sum += number % base;
      88.53% of all cycles are under it; it decides 18.03% (512 samples): 0 instructions constant,
      1 division by a number
          __builtin_expect(base == 7, 1) ? x % 7 : x % base

  Apply the patch, build, and measure before you keep it:
  vcpi hints --verify './plain 8000' './patched 8000'";

/// Values that are worth a special case in the source, by the time that this could save; or,
/// with `--verify`, what it did save.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Hints {
    #[command(flatten)]
    of: OneFunction,
    #[command(flatten)]
    least: Least,
    /// Run two shell commands in turn, the program without and with a change, and tell what the
    /// change saved; no profile is read.
    #[arg(long, num_args = 2, value_names = ["CMD-A", "CMD-B"], conflicts_with = "function")]
    verify: Option<Vec<String>>,
    /// Rounds of `--verify`: runs of each command.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, requires = "verify",
          value_parser = clap::value_parser!(u16).range(LEAST_ROUNDS..))]
    rounds: u16,
}

/// What a hint has at least.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Least {
    /// Leave out values with a smaller share than this.
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, value_parser = percentage)]
    share: f64,
    /// Leave out hints that are predicted to save less than this part of all cycles.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = percentage)]
    saving: f64,
}

/// Least known values behind a hint.
pub(crate) const SAMPLES: u64 = 20;

/// What so few samples say of time may be chance.
const FEW: u64 = 4;

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Ranked {
    hints: Vec<Hint>,
    /// Whether what instructions read was recorded.
    #[serde(skip)]
    has_operands: bool,
}

/// One opportunity.
#[derive(Debug, Serialize)]
struct Hint {
    kind: HintKind,
    function: String,
    image: String,
    /// Where the value is seen.
    address: String,
    /// Whose calls it is about; `null`: all calls, or no calls.
    caller: Option<String>,
    call_site: Option<String>,
    parameter: String,
    /// Its name in the source.
    variable: Option<String>,
    source: Option<String>,
    source_text: Option<String>,
    value: String,
    base: Base,
    samples: u64,
    /// Percent of the known values, with a 95 % interval.
    share: f64,
    share_low: f64,
    share_high: f64,
    /// Of all cycles: those under the function or call, and those that the value decides.
    cycles_percent: f64,
    folded_percent: f64,
    folded_samples: u64,
    /// Instructions that become constant, and divisions by what becomes a number.
    constant: Vec<String>,
    divisions: Vec<String>,
    /// Percent of all cycles, with an interval. It is not a measurement.
    predicted_percent: f64,
    predicted_low: f64,
    predicted_high: f64,
    patch: Vec<String>,
}

impl Query for Hints {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            min_samples: SAMPLES,
            one_function: false,
            stubs: true,
            ..Needs::ROWS
        }
    }

    fn check(&self, common: &Common) -> Result<(), Failure> {
        match common.no_symbols {
            true => Err(Failure::Usage(
                "hints: these are about functions, which need their names".to_owned(),
            )),
            false => Ok(()),
        }
    }

    fn unread(&self) -> Option<Answer<'static>> {
        let [a, b] = self.verify.as_deref()? else {
            return None;
        };
        let commands = [a, b].map(|line| Candidate::of_shell(line));
        Some(match trial::run(&commands, self.rounds) {
            Ok(trial) => Ok(Box::new(trial)),
            Err(failure) => Err(failure),
        })
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        self.least.ranked(view)
    }
}

impl Least {
    /// The hints of a profile.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn ranked<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let total = view.total().cycles;
        let mut found = find::all(view, self.share, self.saving / 100.0 * total);
        found.retain(|one| percent(one.predicted(), total) >= self.saving);
        found.retain(|one| one.folded_samples > FEW);
        found.sort_by(|a, b| {
            let by_saving = b.predicted().total_cmp(&a.predicted());
            by_saving.then_with(|| (a.pc, a.site).cmp(&(b.pc, b.site)))
        });
        let found = without_repeats(found);
        if found.is_empty() {
            return Err(nothing("values worth a special case"));
        }
        let mut sources = Sources::new(For::Reader);
        let mut hints: Vec<Hint> = found
            .iter()
            .filter_map(|one| hint(view, one, total, &mut sources))
            .collect();
        view.keep_first(&mut hints);
        let mut values = view.profile.hotlists.iter();
        Ok(Box::new(Ranked {
            hints,
            has_operands: values.any(|row| is_operand(&row.parameter)),
        }))
    }
}

/// Whether a parameter is what an instruction reads.
fn is_operand(parameter: &str) -> bool {
    let parameter = parameter
        .strip_prefix(profiledb::OF_EXECUTIONS)
        .unwrap_or(parameter);
    matches!(parameter.parse(), Ok(Parameter::Operand(_)))
}

/// Hints whose instructions an earlier one folds already are left out: a value and what is computed
/// from it are one opportunity.
fn without_repeats(found: Vec<Opportunity>) -> Vec<Opportunity> {
    let mut kept: Vec<Opportunity> = Vec::new();
    for one in found {
        let is_repeat = kept.iter().any(|other| {
            other.function == one.function
                && !one.places.is_empty()
                && one.places.is_subset(&other.places)
        });
        if !is_repeat {
            kept.push(one);
        }
    }
    kept
}

/// What a hint says.
fn hint(view: &View<'_>, found: &Opportunity, total: f64, sources: &mut Sources) -> Option<Hint> {
    let pc = view.profile.pcs.get(found.pc)?;
    let (image, address) = (pc.image, found.shown.unwrap_or(pc.address));
    let place = view.symbols.places(image, &[address]).pop();
    let place = place.unwrap_or_default();
    let language = match place.file.as_ref().and_then(|file| file.extension()) {
        Some(extension) if extension == "rs" => Language::Rust,
        _ => Language::C,
    };
    let source = place.file.as_ref().map(|file| match place.line {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    });
    let declared = found.argument.and_then(|_| {
        let mut all = view.symbols.parameters(image, &[pc.address].into());
        all.remove(&pc.address)
    });
    let argument = found.argument.zip(declared.as_ref());
    let argument = argument.and_then(|(index, declared)| declared.integer(index));
    let names = declared.as_ref().and_then(Declaration::names);
    let names = names.unwrap_or_default();
    let value = argument.and_then(|argument| signed(found.bits?, argument.signed?));
    let value = value.unwrap_or_else(|| found.value.clone());
    let source_text = sources.at(&place, Path::new(view.image_path(image)));
    let named = match (found.argument, found.known) {
        (Some(_), _) => argument.and_then(|argument| argument.name.clone()),
        (None, Some(known)) => variable(view, image, known).or_else(|| {
            let line = source_text.as_deref()?;
            divided_by(line, found.kind).map(str::to_owned)
        }),
        (None, None) => None,
    };
    let function = match found.function.and_then(|id| view.symbols.function(id)) {
        Some(function) => function.name.clone(),
        None => view.symbols.name_of(found.pc),
    };
    let told = Told {
        function: found.callee.as_deref().unwrap_or(&function),
        variable: named.as_deref(),
        value: &value,
        arguments: &names,
        taken: found.value == "taken",
        source: source_text.as_deref(),
    };
    let patch = patch(found.kind, language, &told);
    let [low, high] = found.bounds();
    let of_all = |cycles: f64, digits| rounded(percent(cycles, total), digits);
    let hex = |all: &std::collections::BTreeSet<u64>| -> Vec<String> {
        all.iter().map(|address| format!("0x{address:x}")).collect()
    };
    Some(Hint {
        kind: found.kind,
        image: view.image_path(image).to_owned(),
        address: format!("0x{address:x}"),
        caller: found.site.map(|site| view.symbols.name_of(site)),
        call_site: found.site.map(|site| view.address(site)),
        parameter: found.parameter.clone(),
        variable: named,
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
        predicted_percent: of_all(found.predicted(), 2),
        predicted_low: of_all(low, 2),
        predicted_high: of_all(high, 2),
        function,
        patch,
    })
}

/// A number of a signed type, where all of its bits are known.
fn signed((value, known): (u64, u32), bits: u32) -> Option<String> {
    let unused = 64_u32.checked_sub(bits).filter(|_| known >= bits)?;
    let number = value.checked_shl(unused)?.cast_signed();
    Some((number >> unused).to_string())
}

/// The variable that has a value which is known there.
fn variable(view: &View<'_>, image: usize, known: KnownPlace) -> Option<String> {
    let (at, register) = match known {
        KnownPlace::Read(at, register) | KnownPlace::After(at, register) => (at, Some(register)),
        KnownPlace::InMemory(at) => (at, None),
        KnownPlace::AtEntry(..) | KnownPlace::Low(..) => return None,
    };
    let one = decode(view.symbols.elf(image)?.few_bytes(at)?, at)?;
    let of_register = register.and_then(|register| {
        let place = match known {
            KnownPlace::After(..) => one.next_ip(),
            _ => at,
        };
        view.symbols.held(image, place, register)
    });
    let is_load = !matches!(known, KnownPlace::Read(..)) && one.is_ip_rel_memory_operand();
    of_register.or_else(|| {
        let address = is_load.then(|| one.ip_rel_memory_address())?;
        let name = Data::of(&view.symbols, image).at(&view.symbols, address)?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        name.chars().all(is_word).then_some(name)
    })
}

impl Opportunity {
    /// Cycles that the hint is predicted to save.
    fn predicted(&self) -> f64 {
        self.folded * self.share[0] / 100.0
    }

    /// Bounds of that: of the share, and of how many samples the cycles rest on.
    fn bounds(&self) -> [f64; 2] {
        /// Two-sided 95 % of the normal distribution.
        const Z: f64 = 1.96;
        let relative = Z / as_float(self.folded_samples.max(1)).sqrt();
        let [_, low, high] = self.share;
        let at = |share: f64, part: f64| self.folded * share / 100.0 * part.max(0.0);
        [at(low, 1.0 - relative), at(high, 1.0 + relative)]
    }
}

/// What stands above the hints.
const ABOUT: &str = "Frequent values, by what a special case for them is predicted to save.";

/// What stands below hints from values that were written alone.
const NO_OPERANDS: &str = "What loops only read was not recorded \
    (--capture dest,operands,ea,branch,target,args,ret).";

/// What else there is to know of it.
const MORE: &str = "\
    The saving is predicted, not measured: the time of the instructions that the value decides,\n\
    times its share. What the test for the value costs, and what else a compiler makes of it, is\n\
    not in it. Build with the patch and run `vcpi hints --verify CMD-A CMD-B` before you keep it.";

impl Model for Ranked {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        for hint in &self.hints {
            page.gap();
            hint.write(&mut page, names);
        }
        if !self.has_operands {
            page.gap();
            page.item(0, NO_OPERANDS.to_owned());
        }
        page
    }
}

impl Hint {
    fn write(&self, page: &mut Page, names: Names) {
        let calls = match (&self.caller, &self.call_site) {
            (Some(caller), Some(site)) => format!(" from {} ({site})", names.shown(caller)),
            _ => String::new(),
        };
        page.item(
            0,
            format!(
                "{:.2}% predicted ({:.2} to {:.2})  {}: {} in {}{calls}",
                self.predicted_percent,
                self.predicted_low,
                self.predicted_high,
                self.kind.words(),
                self.variable.as_ref().unwrap_or(&self.parameter),
                names.shown(&self.function),
            ),
        );
        page.item(
            1,
            format!(
                "{} = {} in {:.1}% ({:.1} to {:.1}) of {} known values{}, at {} in {}",
                self.parameter,
                names.shown(&self.value),
                self.share,
                self.share_low,
                self.share_high,
                count(self.samples),
                self.base.words(),
                self.address,
                self.image,
            ),
        );
        if let Some(source) = &self.source {
            let text = self.source_text.as_deref().unwrap_or_default();
            page.item(1, format!("{source}  {text}").trim_end().to_owned());
        }
        page.item(
            1,
            format!(
                "{:.2}% of all cycles are under it; it decides {:.2}% ({} samples): {} constant, \
                 {} by a number",
                self.cycles_percent,
                self.folded_percent,
                count(self.folded_samples),
                crate::render::counted(self.constant.len() as u64, "instruction"),
                crate::render::counted(self.divisions.len() as u64, "division"),
            ),
        );
        for line in &self.patch {
            page.item(2, line.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signed number is what the source says, where code read all of it.
    #[test]
    fn signed_numbers() {
        assert_eq!(signed((0xfed4, 16), 16).as_deref(), Some("-300"));
        assert_eq!(signed((0xffff_fed4, 32), 16).as_deref(), Some("-300"));
        assert_eq!(signed((0xfb, 8), 8).as_deref(), Some("-5"));
        assert_eq!(signed((7, 32), 32).as_deref(), Some("7"));
        assert_eq!(signed((u64::MAX, 64), 64).as_deref(), Some("-1"));
        assert_eq!(signed((0xfb, 8), 32), None);
    }
}
