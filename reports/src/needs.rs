//! What is to be read for a question.

use profiledb::{Apart, Places};
use protocol::Kinds;

/// What is to be read for a report, and how it is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The function named in the report's own words.
    pub(crate) function: Option<&'a str>,
    /// Tables.
    pub(crate) kinds: Kinds,
    /// Tables that are enough where the place of a function is known, and has rows in them.
    pub(crate) enough: Option<Kinds>,
    /// How parameters begin that the report is about; nothing: any may be.
    pub(crate) parameters: &'a [&'a str],
    /// Nothing of rows but where they are.
    pub(crate) only_places: bool,
    /// Where other parameters are asked for as well.
    pub(crate) details: Option<&'a Places>,
    /// How these begin; nothing: any may be.
    pub(crate) detailed: &'a [&'a str],
    /// How far interrupts are to be told apart.
    pub(crate) apart: Apart,
    /// Rows of other images than those asked for change nothing.
    pub(crate) one_image: bool,
    /// Of a function asked for, its own rows are enough.
    pub(crate) one_function: bool,
    /// Least samples behind what is shown, unless asked for otherwise.
    pub(crate) min_samples: u64,
    /// PLT stubs go by the names of the functions behind them.
    pub(crate) stubs: bool,
    /// Those who call are named, or what is called.
    pub(crate) others: bool,
    /// No function is named.
    pub(crate) nameless: bool,
    /// Interrupts are told apart by their flushes.
    pub(crate) by_flush: bool,
    /// Where a function is asked for, of how many values of a parameter text says whether they rise
    /// or fall.
    pub(crate) trends: usize,
}

/// No table.
pub(crate) const NO_ROWS: Kinds = Kinds {
    cycles: false,
    values: false,
    branches: false,
    calls: false,
    stacks: false,
    counters: false,
};

/// Where the time is, and which values there are.
pub(crate) const CYCLES_AND_VALUES: Kinds = Kinds {
    cycles: true,
    values: true,
    ..NO_ROWS
};

impl Needs<'_> {
    /// What a report on counters needs.
    pub(crate) const COUNTERS: Needs<'static> = Needs {
        kinds: Kinds {
            counters: true,
            ..NO_ROWS
        },
        ..Needs::ROWS
    };

    /// What tells where there are values, in all functions.
    pub(crate) const PLACES: Needs<'static> = Needs {
        kinds: Kinds {
            values: true,
            ..NO_ROWS
        },
        only_places: true,
        one_function: false,
        ..Needs::ROWS
    };

    /// What tells which functions have most cycles.
    pub(crate) const HEAT: Needs<'static> = Needs {
        kinds: Kinds {
            cycles: true,
            ..NO_ROWS
        },
        apart: Apart::Instructions,
        one_function: false,
        others: false,
        ..Needs::ROWS
    };

    /// All rows of code.
    pub(crate) const ROWS: Needs<'static> = Needs {
        function: None,
        kinds: Kinds {
            cycles: true,
            values: true,
            branches: true,
            calls: true,
            stacks: false,
            counters: false,
        },
        enough: None,
        parameters: &[],
        only_places: false,
        details: None,
        detailed: &[],
        apart: Apart::Calls,
        one_image: false,
        one_function: true,
        min_samples: 1,
        stubs: false,
        others: true,
        nameless: false,
        by_flush: false,
        trends: 0,
    };

    /// Whether it is counters that are asked for, those of all processes.
    pub(crate) fn is_of_counters(&self) -> bool {
        self.kinds == Needs::COUNTERS.kinds
    }
}
