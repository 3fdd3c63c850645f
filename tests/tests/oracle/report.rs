//! What was seen of a program.

use std::collections::BTreeMap;
use std::fmt;

use interpreter::{Parameter, StopReason};

use crate::view::Recorder;

/// Rows of a table of ends that are printed.
const ROWS: usize = 5;

/// Why a window ended before its full length, apart from the interpreter's own reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Cause {
    /// The program goes where no window can follow: a system call, a faulting instruction, state
    /// of the processor.
    Leaves,
    /// With the vector registers that the processor had, the same window goes on.
    Vectors,
    /// It reads the kernel's clock, from memory that is rewritten at any time. How often it tries
    /// again depends on how slowly it is stepped.
    Clock,
    /// The interpreter does not know the instruction, or does not follow it so far.
    Unsupported,
    /// Something else that is not known.
    Unknown,
}

impl Cause {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Leaves, "leave the program"),
        (Self::Vectors, "depend on vector registers"),
        (Self::Clock, "depend on the kernel's clock"),
        (Self::Unsupported, "are unsupported"),
        (Self::Unknown, "are unknown otherwise"),
    ];

    /// The cause of an end; `wanting` tells what a window wants that ended for want of knowledge.
    pub(crate) fn of(stop: StopReason, wanting: impl FnOnce() -> Self) -> Self {
        use StopReason as R;
        match stop {
            R::UnknownBranch | R::UnknownTarget => wanting(),
            R::Unsupported | R::RepTooLong | R::Undecodable => Self::Unsupported,
            _ => Self::Leaves,
        }
    }
}

/// The end of a window before its full length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct End {
    pub(crate) cause: Cause,
    pub(crate) reason: &'static str,
    /// The instruction that ended it, and the one before.
    pub(crate) place: String,
}

/// What windows of one kind achieved.
#[derive(Default)]
pub(crate) struct Tally {
    windows: u64,
    /// Interpreted to their end.
    instructions: u64,
    destinations: u64,
    destinations_known: u64,
    loads: u64,
    loads_known: u64,
    ends: BTreeMap<End, u64>,
    /// Instructions reached of which only the effects are known, by mnemonic.
    skipped: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds a window; `end` if it did not reach its full length.
    pub(crate) fn add(&mut self, seen: &Recorder, instructions: u32, end: Option<End>) {
        self.windows += 1;
        self.instructions += u64::from(instructions);
        if let Some(end) = end {
            *self.ends.entry(end).or_default() += 1;
        }
        for claims in &seen.instructions {
            for (parameter, value) in &claims.values {
                if matches!(parameter, Parameter::Dest(_)) {
                    self.destinations += 1;
                    self.destinations_known += u64::from(value.is_some());
                }
            }
            self.loads += claims.loads.len() as u64;
            self.loads_known += claims.loads.iter().filter(|known| **known).count() as u64;
        }
    }

    /// Adds an instruction that was reached and is not interpreted.
    pub(crate) fn add_skipped(&mut self, name: String) {
        *self.skipped.entry(name).or_default() += 1;
    }

    /// Instructions that windows reached: those interpreted and those they ended at.
    fn reached(&self) -> u64 {
        self.instructions + self.ends.values().sum::<u64>()
    }

    fn share_of_ends(&self, which: impl Fn(&End) -> bool) -> f64 {
        let count = self.ends.iter().filter(|(end, _)| which(end));
        percent(count.map(|(_, count)| count).sum(), self.reached())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} windows of {:.1} instructions; known are {:.1} % of the destinations, {:.1} % of \
             the loads; windows end at {:.3} % of the instructions reached",
            self.windows,
            self.instructions as f64 / self.windows.max(1) as f64,
            percent(self.destinations_known, self.destinations),
            percent(self.loads_known, self.loads),
            self.share_of_ends(|_| true),
        )
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// The most frequent rows of a table.
fn most<'a, K: 'a>(
    rows: impl IntoIterator<Item = (&'a K, &'a u64)>,
) -> impl Iterator<Item = (&'a K, &'a u64)> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    rows.into_iter().take(ROWS)
}

/// What was seen.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    pub(crate) compared: u64,
    /// Windows from the general registers and flags alone, with all memory.
    pub(crate) bare: Tally,
    pub(crate) differences: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} steps, {} facts compared, {} differences\n  with all memory: {}",
            self.steps,
            self.compared,
            self.differences.len(),
            self.bare,
        )?;
        for (cause, name) in Cause::ALL {
            let share = self.bare.share_of_ends(|end| end.cause == cause);
            if share == 0.0 {
                continue;
            }
            write!(f, "    {share:.3} % {name}:")?;
            let rows = self.bare.ends.iter().filter(|(end, _)| end.cause == cause);
            for (end, count) in most(rows) {
                let share = percent(*count, self.bare.reached());
                write!(f, " {} at {} {share:.3},", end.reason, end.place)?;
            }
            writeln!(f)?;
        }
        let skipped = self.bare.skipped.values().sum();
        if skipped > 0 {
            let share = percent(skipped, self.bare.reached());
            write!(f, "    {share:.3} % are not interpreted, and passed over:")?;
            for (name, count) in most(&self.bare.skipped) {
                write!(f, " {name} {:.3},", percent(*count, self.bare.reached()))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
