//! `blks` as people read it.

use super::{FrequentResult, Run, Runs};
use crate::code::{Disassembler, Spacing};
use crate::model::Model;
use crate::names::Names;
use crate::page::Page;
use crate::render::{Align, Table, clean, count, cycles, whole};
use crate::view::as_float;

/// What stands above the rows.
const ABOUT: &str = "Runs of instructions whose results do not vary.";

/// What else there is to know of it.
const MORE: &str = "\
    Behind its first instruction, each result of a run is nearly always the one shown\n\
    (s#: values known). What constants would save is the time at the instructions with such results;\n\
    other code may still need it, and a processor may have done it beside others.";

impl Model for Runs {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        for run in &self.rows {
            page.gap();
            page.text(format!(
                "{} {}..{}  ({})  {} cycles, constants would save up to {}",
                names.shown(&run.function),
                run.first,
                run.last,
                clean(&run.image),
                cycles(as_float(whole(run.heat.cycles))),
                cycles(as_float(whole(run.constant.cycles))),
            ));
            page.table(run.table());
        }
        page
    }
}

impl Run {
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("cycles", Align::Right),
            ("s#", Align::Right),
            ("address", Align::Right),
            ("instruction", Align::Left),
            ("value profile", Align::Left),
        ]);
        let mut disassembler = Disassembler::new(Spacing::Text);
        for step in &self.instructions {
            let outcome = step.outcome.as_ref();
            let known = outcome.filter(|outcome| outcome.samples > 0);
            table.row(vec![
                cycles(as_float(whole(step.heat.cycles))),
                known.map_or_else(String::new, |outcome| count(outcome.samples)),
                format!("0x{:x}", step.address),
                disassembler.text(&step.instruction, |_| None),
                outcome.map_or_else(String::new, FrequentResult::text),
            ]);
        }
        table
    }
}

impl FrequentResult {
    fn text(&self) -> String {
        let share = match self.supported {
            true => {
                let number = || self.class.text(self.value);
                let pointed = self.pointed.as_deref();
                let value = pointed.map_or_else(number, str::to_owned);
                format!("({:.1}% {value})", self.percent)
            }
            false => "(varies)".to_owned(),
        };
        let note = match self.samples {
            0 => " by its encoding",
            _ if self.read_only => " from read-only data",
            _ => "",
        };
        format!("{}: {share}{note}", self.parameter)
    }
}
