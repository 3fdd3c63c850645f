//! `list` as people read it.

use std::collections::BTreeMap;

use profiledb::rows::ImageKind;

use super::meaning::Meaning;
use super::{List, ListedInstruction, Listing, Listings, ParameterValues, source_text};
use crate::code::{Disassembler, ProcessorMode, Spacing};
use crate::model::Model;
use crate::names::Names;
use crate::page::Page;
use crate::render::{Align, Table, clean, count, counted, cycles, percent, whole};
use crate::report::{shares_between, threshold_text};
use crate::symbolize::SourcePlace;
use crate::view::as_float;

/// As many instructions in a row, none of which was sampled or reached, are listed in text.
const QUIET: usize = 6;

/// What stands above each function's instructions.
const ABOUT: &str =
    "Shares of the values known in windows: of time, unless by executions or by windows.";

/// What else there is to know of it.
const MORE: &str = "\
    Windows begin where time is spent: shares are of time, not of executions where it does not\n\
    say so. By windows: of all that windows saw, of code that comes again, but mostly not in the\n\
    same window, as a loop of few rounds: neither of time nor of executions.\n\
    s#: values known, v#: distinct kept, 1/p: events per entry of the list;\n\
    from..to%: less than 90% known, the unknown may be this value or not.";

impl Model for Listings {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        for (index, function) in self.functions.iter().enumerate() {
            if index > 0 {
                page.gap();
            }
            page.text(function.heading());
            if index == 0 {
                page.about(ABOUT, MORE);
            }
            page.gap();
            page.table(function.table(&self.options, names));
        }
        page
    }
}

impl ListedInstruction {
    /// Whether it was neither sampled nor reached.
    fn is_quiet(&self) -> bool {
        self.heat.samples == 0 && self.profiles.is_empty()
    }
}

impl Listing {
    fn heading(&self) -> String {
        let build = self.build_id.as_deref();
        let build = build.map(|id| format!(", build id {id}"));
        let mode = match self.mode {
            ProcessorMode::Long => "",
            ProcessorMode::Compatibility => ", 32-bit code",
        };
        format!(
            "{}  ({}{}{mode})\n{:.1}% of all cycles, {}.",
            clean(&self.name),
            clean(&self.image),
            build.unwrap_or_default(),
            self.percent,
            counted(self.samples, "sample"),
        )
    }

    /// Why instructions are shown as `?`, if there are any.
    pub(super) fn without_code(&self) -> Option<String> {
        let lines = self.lines.iter();
        let unknown = lines.filter(|line| line.instruction.is_none()).count();
        if unknown == 0 {
            return None;
        }
        let why = match self.kind {
            ImageKind::Kernel => {
                "the code of the kernel is in no file that can be read, and no window showed these"
            }
            ImageKind::Anon => "code that was generated is in no file, and no window showed these",
            ImageKind::File | ImageKind::Vdso => {
                "neither this program nor the collector could read the file that was profiled"
            }
        };
        let instructions = counted(unknown as u64, "instruction");
        Some(format!("{instructions} of {} shown as ?: {why}", self.name))
    }

    fn table(&self, options: &List, names: Names) -> Table {
        let mut columns = vec![
            ("cycles", Align::Right),
            ("s#", Align::Right),
            ("v#", Align::Right),
            ("1/p", Align::Right),
            ("address", Align::Right),
            ("instruction", Align::Left),
            ("value profile", Align::Left),
        ];
        if options.source {
            columns.insert(1, ("", Align::Left));
        }
        let mut table = Table::new(&columns);
        let mut disassembler = Disassembler::new(Spacing::Text);
        let mut times = Times::new();
        for line in self.lines.iter().filter(|_| options.source) {
            *times.entry(&line.place).or_default() += line.heat.cycles;
        }
        let mut last = &SourcePlace::default();
        let runs = self.lines.chunk_by(|a, b| a.is_quiet() && b.is_quiet());
        for run in runs {
            let is_quiet = run.len() > QUIET && run.iter().all(ListedInstruction::is_quiet);
            if is_quiet && !options.all {
                table.line(&format!("  ... {} instructions without samples", run.len()));
                continue;
            }
            for line in run {
                if line.place != *last {
                    if let Some(text) = line.place_text(names) {
                        let time = options.source.then(|| self.time_at(&line.place, &times));
                        table.line(&format!("{}{text}", time.unwrap_or_default()));
                    }
                    last = &line.place;
                }
                let mut text = match line.instruction {
                    Some(instruction) => disassembler.text(&instruction, |_| {
                        line.target.as_ref().map(|target| names.shown(target))
                    }),
                    None => "?".to_owned(),
                };
                if let Some(compared) = line.compared.as_ref().filter(|_| !options.raw) {
                    text.push_str("  ; ");
                    text.push_str(compared);
                }
                self.add(line, &mut table, text, options, names);
            }
        }
        table
    }

    /// How much of the function's time all instructions of a place in the source have.
    fn time_at(&self, place: &SourcePlace, times: &Times<'_>) -> String {
        let cycles = times.get(place).copied().unwrap_or_default();
        let share = percent(cycles, self.cycles);
        format!("{share:5.1}% {:BAR$}  ", bar(share))
    }

    /// Adds a line's rows: with the first profile, and one for each further one.
    fn add(
        &self,
        line: &ListedInstruction,
        table: &mut Table,
        text: String,
        options: &List,
        names: Names,
    ) {
        let share = percent(line.heat.cycles, self.cycles);
        let mut first = vec![cycles(line.heat.cycles)];
        let mut rest = vec![String::new()];
        if options.source {
            first.push(bar(share));
            rest.push(String::new());
        }
        let address = format!("0x{:x}", line.address);
        let shown = |profile: &&ParameterValues| options.raw || !profile.is_beside();
        let mut profiles = line.profiles.iter().filter(shown);
        match profiles.next() {
            None => {
                first.extend([String::new(), String::new(), String::new()]);
                first.extend([address, text, String::new()]);
            }
            Some(profile) => first.extend(profile.cells([address, text], options, names)),
        }
        table.hot_row(first, share);
        for profile in profiles {
            let mut row = rest.clone();
            row.extend(profile.cells(Default::default(), options, names));
            table.row(row);
        }
    }
}

/// The cycles of each place in the source.
type Times<'l> = BTreeMap<&'l SourcePlace, f64>;

/// The longest bar.
const BAR: usize = 10;

/// A share in percent as a bar; what is there at all has one.
fn bar(share: f64) -> String {
    let length = (share / 100.0 * as_float(BAR as u64)).ceil();
    "#".repeat(usize::try_from(whole(length)).unwrap_or(0).min(BAR))
}

impl ListedInstruction {
    /// The source line above the instructions made from it.
    fn place_text(&self, names: Names) -> Option<String> {
        let mut text = source_text(&self.place)?;
        let inlined = self.place.inlined.iter().map(|name| names.shown(name));
        let inlined: Vec<String> = inlined.collect();
        if !inlined.is_empty() {
            text.push_str(&format!(" (inlined: {})", inlined.join(" > ")));
        }
        if let Some(source) = &self.source {
            text.push_str("  ");
            text.push_str(source);
        }
        Some(text)
    }
}

impl ParameterValues {
    /// Whether it is of bits that the instruction does not compute, or that another profile shows
    /// as a number.
    pub(crate) fn is_beside(&self) -> bool {
        self.meaning == Meaning::Beside
    }

    /// The parameter, by the name of what the instruction says that it is.
    pub(crate) fn parameter(&self) -> &str {
        self.meaning.name().unwrap_or(&self.values.parameter)
    }

    /// A value as a person reads it: what the instruction says that it is, what it points to, or
    /// the number.
    pub(crate) fn text(&self, value: u64) -> String {
        let class = self.values.class();
        match self.meaning.text(class, value) {
            number if number == class.text(value) => self.values.text(value),
            meant => meant,
        }
    }

    /// The cells behind the cycles.
    fn cells(&self, [address, text]: [String; 2], options: &List, names: Names) -> Vec<String> {
        let values = &self.values;
        let from = match &self.caller {
            Some(site) => format!(" from {} ({})", names.shown(&site.function), site.address),
            None => String::new(),
        };
        let class = values.class();
        let name = self.name.as_ref().filter(|_| !options.raw);
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        let shares = shares_between(
            values,
            options.values,
            options.intervals,
            |value| match options.raw {
                true => class.text(value),
                false => self.text(value),
            },
        );
        vec![
            count(values.samples()),
            values.shares.len().to_string(),
            threshold_text(values.threshold),
            address,
            text,
            format!(
                "{}{name}{}{from}{}: {shares}",
                match options.raw {
                    true => &values.parameter,
                    false => self.parameter(),
                },
                if values.live { "" } else { "?" },
                values.base.of_parameter(),
            ),
        ]
    }
}
