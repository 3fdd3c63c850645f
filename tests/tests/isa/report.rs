//! What was run, what was not and why, and every difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use iced_x86::{Code, CpuidFeature};
use interpreter::{StopReason, Support};

use crate::compare::{Knowledge, Verdict};
use crate::generate::{Case, NoCase};
use crate::native::Slot;
use crate::x87;

/// Differences that are described of one instruction.
const PER_CODE: u32 = 3;

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    /// Every case is printed.
    verbose: bool,
    /// One line each.
    pub(crate) differences: Vec<String>,
    cases: u64,
    agreed: u64,
    agreed_skipped: u64,
    /// Cases in which the processor raised an exception, by its number.
    raised: BTreeMap<u64, u64>,
    stopped: BTreeMap<StopReason, u64>,
    not_encoded: BTreeMap<String, u64>,
    /// Cases that were not run, by the reason.
    unfit: BTreeMap<&'static str, u64>,
    /// Codes that were meant to be run; those that were compared at least once.
    wanted: BTreeSet<String>,
    compared: BTreeSet<String>,
    /// Instructions by what this processor lacks.
    lacking: BTreeMap<String, u64>,
    /// Instructions whose differences were described.
    described: BTreeMap<String, u32>,
    more_differences: u64,
    lost: Vec<String>,
    knowledge: Knowledge,
}

impl Report {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        Self {
            seed,
            verbose,
            ..Self::default()
        }
    }

    pub(crate) fn lacks(&mut self, feature: CpuidFeature) {
        *self.lacking.entry(format!("{feature:?}")).or_default() += 1;
    }

    pub(crate) fn codes(&mut self, codes: &[Code]) {
        self.wanted = codes.iter().map(|code| format!("{code:?}")).collect();
    }

    pub(crate) fn no_case(&mut self, code: Code, reason: NoCase) {
        match reason {
            NoCase::NotEncoded => *self.not_encoded.entry(format!("{code:?}")).or_default() += 1,
            NoCase::Stops => *self.unfit.entry("it stops a window").or_default() += 1,
            NoCase::Unfit(reason) => *self.unfit.entry(reason).or_default() += 1,
        }
    }

    pub(crate) fn knows(&mut self, knowledge: Knowledge) {
        self.knowledge.destinations += knowledge.destinations;
        self.knowledge.known += knowledge.known;
    }

    /// The child died of a case.
    pub(crate) fn lost(&mut self, case: &Case, number: u64) {
        self.cases += 1;
        self.lost.push(self.line(case, number));
    }

    /// A case as one line, by which it can be run again.
    fn line(&self, case: &Case, number: u64) -> String {
        let bytes: Vec<_> = case.bytes.iter().map(|b| format!("{b:02x}")).collect();
        format!(
            "{:?} [{}] seed {} case {number}",
            case.decoded.instruction().code(),
            bytes.join(" "),
            self.seed
        )
    }

    pub(crate) fn judged(&mut self, case: &Case, number: u64, slot: &Slot, verdict: Verdict) {
        self.cases += 1;
        if self.verbose {
            println!("{}: {verdict:?}; {}", self.line(case, number), inputs(slot));
        }
        let name = format!("{:?}", case.decoded.instruction().code());
        match verdict {
            Verdict::Agrees => {
                self.agreed += 1;
                self.agreed_skipped += u64::from(case.decoded.support() == Support::Skipped);
                self.compared.insert(name);
            }
            Verdict::Stopped(reason) => *self.stopped.entry(reason).or_default() += 1,
            Verdict::Raised(exception) => *self.raised.entry(exception).or_default() += 1,
            Verdict::Differs(what) => {
                let described = self.described.entry(name).or_default();
                *described += 1;
                if *described > PER_CODE {
                    self.more_differences += 1;
                    return;
                }
                let line = format!(
                    "{}: {}; {}",
                    self.line(case, number),
                    what.join("; "),
                    inputs(slot)
                );
                eprintln!("{line}");
                self.differences.push(line);
            }
        }
    }
}

/// The integer registers and flags that a case began with.
fn inputs(slot: &Slot) -> String {
    let before = &slot.before;
    let general: Vec<_> = before.gpr.iter().map(|r| format!("{r:x}")).collect();
    format!(
        "before: {} masks {:x?} flags {:x} mxcsr {:x} {}",
        general.join(" "),
        before.masks,
        before.rflags,
        before.mxcsr,
        x87::text(&before.x87)
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compared = self.wanted.intersection(&self.compared).count();
        writeln!(
            f,
            "{} cases (seed {}): {} agree ({} of them of skipped instructions)",
            self.cases, self.seed, self.agreed, self.agreed_skipped
        )?;
        writeln!(
            f,
            "{compared} of {} instructions that this processor has were compared",
            self.wanted.len()
        )?;
        let known = self.knowledge.known as f64 / self.knowledge.destinations.max(1) as f64;
        writeln!(f, "{:.2} % of destination values known", 100.0 * known)?;
        for (exception, count) in &self.raised {
            writeln!(f, "{count} raised exception {exception}")?;
        }
        for (reason, count) in &self.stopped {
            writeln!(f, "{count} stopped the window: {}", reason.key())?;
        }
        for (reason, count) in &self.unfit {
            writeln!(f, "{count} not run: {reason}")?;
        }
        for (code, count) in &self.not_encoded {
            writeln!(
                f,
                "{count} of {code} not run: the encoder did not take the operands"
            )?;
        }
        for (feature, count) in &self.lacking {
            writeln!(
                f,
                "{count} instructions not run: this processor has no {feature}"
            )?;
        }
        let missed: Vec<_> = self.wanted.difference(&self.compared).collect();
        if !missed.is_empty() && self.cases > 20 * self.wanted.len() as u64 {
            writeln!(f, "never compared: {missed:?}")?;
        }
        for lost in &self.lost {
            writeln!(f, "the processor's side was lost at {lost}")?;
        }
        write!(
            f,
            "{} differences",
            self.differences.len() as u64 + self.more_differences
        )
    }
}
