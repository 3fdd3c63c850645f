//! `hints`: where knowing a value would make code faster, by how much time that could save.
//!
//! No compiler reads values of samples. A hint names a value that comes often, follows what of the
//! code it decides ([`fold`]), and weighs that by the time spent there. It is a prediction. Whether
//! it holds is measured by [`trial`].

mod find;
mod fold;
mod machine;
mod patch;
mod told;

use parameters::Parameter;
use serde::Serialize;

use self::find::Opportunity;
use self::patch::{HintKind, PatchIs, ready, with_names};
use self::told::{hint, is_told};
use super::nothing;
use crate::args::{Common, OneFunction, percentage};
use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::needs::Needs;
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{count, counted, percent};
use crate::sources::{For, Sources};
use crate::trial::{self, Candidate, LEAST_ROUNDS, ROUNDS};
use crate::turns::{Details, Turns};
use crate::view::{Base, View, as_float};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which values are a special case in the source worth?
  vcpi hints -n 1

  17.32% predicted (15.49 to 19.09)  modulus: base in digits
      arg1 = 7 in 96.1% (94.1 to 97.4) of 689 known values by time, at 0x1230 in ./plain
      special.c:15  sum += number % base;
      88.53% of all cycles are under it; it decides 18.03% (512 samples): 0 instructions constant,
      1 division by a number
      pattern:
          /* one division gives quotient and rest: the case is for all that uses it */
          /* digits_any: the body of digits, static inline, always_inline */
          if (__builtin_expect(base == 7, 1))
              return digits_any(number, 7);
          return digits_any(number, base);

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
    /// change saved; no profile is read. What they print on standard output is compared.
    #[arg(long, num_args = 2, value_names = ["CMD-A", "CMD-B"], conflicts_with = "function")]
    verify: Option<Vec<String>>,
    /// Rounds of `--verify`: runs of each command, 5 or more.
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
    hints: Vec<Patched>,
    /// Whether what instructions read was recorded.
    #[serde(skip)]
    has_operands: bool,
}

/// A hint, and what its patch can be taken for.
#[derive(Debug, Serialize)]
struct Patched {
    #[serde(flatten)]
    hint: Hint,
    /// `null`: there is none.
    patch_is: Option<PatchIs>,
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
    /// The other lines of whose divisions, or other instructions, the prediction is.
    also: Vec<String>,
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
    /// Percent of all cycles, with an interval. It is not a measurement; `null` where nothing can
    /// be predicted.
    predicted_percent: Option<f64>,
    predicted_low: Option<f64>,
    predicted_high: Option<f64>,
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

    fn turns(&self) -> Turns<'_> {
        self.least.turns()
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
    /// In which turns a profile is read for hints.
    pub(crate) fn turns(&self) -> Turns<'static> {
        let saving = self.saving;
        Turns::Details(Details {
            first: Needs::HEAT,
            there: &find::LOOKED_AT,
            places: Box::new(move |view| find::hot(view, saving)),
            elsewhere: &["arg", "ret", "target"],
        })
    }

    /// The hints of a profile.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn ranked<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let total = view.total().cycles;
        let mut found = find::all(view, self.share, self.saving / 100.0 * total);
        found.retain(|one| percent(one.at_most(), total) >= self.saving);
        found.retain(|one| one.folded_samples > FEW);
        found.retain(|one| is_told(view, one));
        found.sort_by(|a, b| {
            // What cannot be predicted comes last.
            let [of_a, of_b] = [a, b].map(|one| (one.kind.is_predictable(), one.at_most()));
            let by_saving = of_b.0.cmp(&of_a.0).then(of_b.1.total_cmp(&of_a.1));
            by_saving.then_with(|| (a.pc, a.site).cmp(&(b.pc, b.site)))
        });
        let found = without_repeats(found);
        if found.is_empty() {
            return Err(nothing("values worth a special case"));
        }
        let mut sources = Sources::new(For::Reader);
        let mut told: Vec<(&Opportunity, Hint)> = found
            .iter()
            .filter_map(|one| Some((one, hint(view, one, total, &mut sources)?)))
            .collect();
        view.keep_first(&mut told);
        // A ready patch takes a look at the whole function and its debug information.
        let hints = told.into_iter();
        let hints = hints
            .map(|(one, hint)| Patched::of(view, one, hint, &mut sources))
            .collect();
        view.notes.extend(sources.edited());
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

/// Hints whose time an earlier one tells already are left out: a value, what is computed from it,
/// and the register that holds it are one opportunity.
fn without_repeats(found: Vec<Opportunity>) -> Vec<Opportunity> {
    let mut kept: Vec<Opportunity> = Vec::new();
    for one in found {
        if !kept.iter().any(|other| one.repeats(other)) {
            kept.push(one);
        }
    }
    kept
}

impl Opportunity {
    /// Whether another one decides nearly all that this one decides.
    fn repeats(&self, other: &Opportunity) -> bool {
        /// The part of the cycles.
        const NEARLY_ALL: f64 = 0.9;
        let shared = self.places.iter();
        let shared = shared.filter(|(at, _)| other.places.contains_key(at));
        let shared: f64 = shared.map(|(_, cycles)| cycles).sum();
        other.function == self.function
            && !self.places.is_empty()
            && shared >= self.folded * NEARLY_ALL
    }

    /// Cycles that the hint could save at most, which are the prediction where there is one.
    fn at_most(&self) -> f64 {
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

/// What stands above a patch that is to be filled in.
const PATTERN: &str = "pattern:";

/// What stands below hints from values that were written alone.
const NO_OPERANDS: &str = "What loops only read was not recorded \
    (--capture dest,operands,ea,branch,target,args,ret).";

/// What else there is to know of it.
const MORE: &str = "\
    The saving is predicted, not measured: the time of the instructions that the value decides,\n\
    times its share. What the test for the value costs, and what else a compiler makes of it, is\n\
    not in it. Build with the patch and run `vcpi hints --verify CMD-A CMD-B` before you keep it.\n\
    Windows begin where time is spent: shares by time, and by windows where several values of one\n\
    window count, are not those of executions where the value decides how long the code takes.";

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

/// What shares are of, which is said of each hint: its patch decides executions.
fn shares_of(base: Base) -> &'static str {
    match base {
        Base::Time => " by time",
        Base::Windows | Base::Executions | Base::Entries => base.of_parameter(),
    }
}

impl Patched {
    /// A hint with the statement itself as its patch, where that is right beyond doubt.
    fn of(view: &View<'_>, found: &Opportunity, hint: Hint, sources: &mut Sources) -> Patched {
        if let Some((patch_is, patch)) = ready(view, found, &hint, sources) {
            return Patched {
                hint: Hint { patch, ..hint },
                patch_is: Some(patch_is),
            };
        }
        let patch_is = PatchIs::of(&hint.patch);
        let named = patch_is.and_then(|_| with_names(view, found, &hint));
        let hint = match named {
            Some(patch) => Hint { patch, ..hint },
            None => hint,
        };
        Patched { hint, patch_is }
    }

    fn write(&self, page: &mut Page, names: Names) {
        self.hint.write(page, names);
        if self.patch_is == Some(PatchIs::Pattern) {
            page.item(1, PATTERN.to_owned());
        }
        for line in &self.hint.patch {
            page.item(2, line.clone());
        }
    }
}

impl Hint {
    fn write(&self, page: &mut Page, names: Names) {
        let calls = match (&self.caller, &self.call_site) {
            (Some(caller), Some(site)) => format!(" from {} ({site})", names.shown(caller)),
            _ => String::new(),
        };
        let predicted = match (
            self.predicted_percent,
            self.predicted_low,
            self.predicted_high,
        ) {
            (Some(percent), Some(low), Some(high)) => {
                format!("{percent:.2}% predicted ({low:.2} to {high:.2})")
            }
            _ => "measure".to_owned(),
        };
        page.item(
            0,
            format!(
                "{predicted}  {}: {} in {}{calls}",
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
                shares_of(self.base),
                self.address,
                self.image,
            ),
        );
        if let Some(source) = &self.source {
            let text = self.source_text.as_deref().unwrap_or_default();
            page.item(1, format!("{source}  {text}").trim_end().to_owned());
        }
        if !self.also.is_empty() {
            let lines = self.also.join(", ");
            let is_division = matches!(self.kind, HintKind::Divisor | HintKind::Modulus);
            page.item(
                1,
                match is_division {
                    true => format!("the prediction is also of the divisions at {lines}"),
                    false => format!("the prediction is of what stands at {lines}"),
                },
            );
        }
        let is_of_load = matches!(
            self.kind,
            HintKind::StridedPrefetch | HintKind::RedundantLoad
        );
        let (about, folds) = match is_of_load {
            true => ("the load takes", String::new()),
            false => (
                "it decides",
                format!(
                    ": {} constant, {} by a number",
                    counted(self.constant.len() as u64, "instruction"),
                    counted(self.divisions.len() as u64, "division"),
                ),
            ),
        };
        page.item(
            1,
            format!(
                "{:.2}% of all cycles are under it; {about} {:.2}% ({} samples){folds}",
                self.cycles_percent,
                self.folded_percent,
                count(self.folded_samples),
            ),
        );
    }
}
