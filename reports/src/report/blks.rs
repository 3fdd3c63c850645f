//! `blks`: runs of instructions whose results do not vary.
//!
//! A run stays within straight-line code: transfers of control end it, and a
//! place that is jumped to begins another. Its first instruction may have any
//! values; every instruction behind it that computes a register has one value in
//! nearly all cases. Instructions that compute none (stores, comparisons) neither
//! break a run nor count for it.

mod text;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use iced_x86::{Instruction, InstructionInfoFactory};
use serde::{Serialize, Serializer};

use super::nothing;
use crate::args::{OneFunction, percentage};
use crate::code::{
    Disassembler, Spacing, constant, destinations, direct_target, transfers_control,
};
use crate::elf::Elf;
use crate::listing::{FunctionInstruction, lines};
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::query::{Answer, Query};
use crate::render::{rounded, whole};
use crate::turns::{Parts, Turns};
use crate::values::{Class, JsonValue, is_destination};
use crate::view::{Heat, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which computations have the same result each time?
  vcpi blks --invariant 99 -n 1

  sqlite3VdbeMemShallowCopy 0xfb62d..0xfb634  (libsqlite3.so.0.8.6)  62.7M cycles,
      constants would save up to 62.7M
  cycles   s#  address  instruction                     value profile
   2.84M  220  0xfb62d  movzx eax, word ptr [rdi+0x14]  eax: (100.0% 0x4)
   45.7M  223  0xfb631  and ah, -0x71                   ah: (100.0% 0x0)
   14.2M  223  0xfb634  or eax, edx                     eax: (100.0% 0x4004)

  What comes out the same in 99 % of the windows may be computed once, or not at all.";

/// Runs of instructions whose results do not vary.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Blks {
    #[command(flatten)]
    of: OneFunction,
    /// Share in percent from which a result counts as invariant.
    #[arg(long, value_name = "PCT", default_value_t = 99.0, value_parser = percentage)]
    invariant: f64,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Runs {
    rows: Vec<Run>,
}

/// One run.
#[derive(Debug, Serialize)]
struct Run {
    function: String,
    image: String,
    first: String,
    last: String,
    instructions: Vec<RunInstruction>,
    #[serde(rename = "cycles", serialize_with = "super::whole_cycles")]
    heat: Heat,
    /// Of these, what would go if the invariant results were constants.
    #[serde(rename = "constant_cycles", serialize_with = "super::whole_cycles")]
    constant: Heat,
}

/// One instruction of a run.
#[derive(Debug)]
struct RunInstruction {
    address: u64,
    instruction: Instruction,
    /// The most frequent result; none where the instruction has no result.
    outcome: Option<FrequentResult>,
    heat: Heat,
}

/// One instruction in JSON.
#[derive(Serialize)]
struct JsonStep {
    address: String,
    text: String,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    float: Option<f64>,
    percent: Option<f64>,
    /// Whether the share is told apart from 0; where not, it says nothing alone.
    supported: Option<bool>,
    samples: u64,
    cycles: u64,
}

impl Serialize for RunInstruction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outcome = self.outcome.as_ref();
        let value: Option<JsonValue> = outcome.map(|outcome| outcome.class.json(outcome.value));
        let step = JsonStep {
            address: format!("0x{:x}", self.address),
            text: Disassembler::new(Spacing::Json).text(&self.instruction, |_| None),
            float: value.as_ref().and_then(|value| value.float),
            value: value.map(|value| value.value),
            percent: outcome.map(|outcome| rounded(outcome.percent, 1)),
            supported: outcome.map(|outcome| outcome.supported),
            samples: outcome.map_or(0, |outcome| outcome.samples),
            cycles: whole(self.heat.cycles),
        };
        step.serialize(serializer)
    }
}

/// What a run makes of an instruction.
#[derive(Debug, Clone, PartialEq)]
enum Effect {
    /// Computes no register.
    Nothing,
    /// Computes a register that nothing is known of.
    Unknown,
    /// Computes a register with these values.
    Result(FrequentResult),
}

/// The most frequent result of an instruction.
#[derive(Debug, Clone, PartialEq)]
struct FrequentResult {
    parameter: Arc<str>,
    class: Class,
    value: u64,
    /// What it points to.
    pointed: Option<Arc<str>>,
    percent: f64,
    samples: u64,
    supported: bool,
    invariant: bool,
    /// A constant of the program already: loaded from where the image cannot be written.
    read_only: bool,
}

impl FrequentResult {
    /// Whether it is invariant, and windows were needed to know that.
    fn is_found_invariant(&self) -> bool {
        self.invariant && self.samples > 0 && !self.read_only
    }
}

impl Query for Blks {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            enough: Some(CYCLES_AND_VALUES),
            // Of few, every result seems invariant.
            min_samples: 10,
            others: false,
            ..Needs::ROWS
        }
    }

    fn turns(&self) -> Turns<'_> {
        Turns::Parts(Box::new(self.found()))
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut found = self.found();
        found.add(view);
        Box::new(found).answer(view)
    }
}

impl Blks {
    fn found(&self) -> Found {
        Found {
            invariant: self.invariant,
            rows: Vec::new(),
        }
    }
}

/// The runs found so far, without most of those that are left out.
struct Found {
    invariant: f64,
    rows: Vec<Run>,
}

impl Parts for Found {
    fn add(&mut self, part: &mut View<'_>) {
        add_rows(part, self.invariant, &mut self.rows);
    }

    fn answer(self: Box<Self>, whole: &mut View<'_>) -> Answer<'static> {
        let Found { mut rows, .. } = *self;
        if rows.is_empty() {
            return Err(nothing("invariant runs"));
        }
        order(whole, &mut rows);
        Ok(Box::new(Runs { rows }))
    }
}

/// What is known of the results of an instruction.
#[derive(Default)]
struct KnownResults {
    /// How many it has.
    results: usize,
    /// The one that varies most stands for all of them.
    least: Option<FrequentResult>,
}

/// Runs that are found before those are left out for which there is no room.
const MANY: usize = 4_096;

/// Adds the runs of a view, and leaves out most of those that are not asked for.
fn add_rows(view: &mut View<'_>, invariant: f64, rows: &mut Vec<Run>) {
    let by_pc = known(view, invariant);
    let functions: BTreeSet<usize> = by_pc
        .keys()
        .filter_map(|pc| view.symbols.function_of(*pc))
        .collect();
    let mut factory = InstructionInfoFactory::new();
    for id in functions {
        let lines = lines(view, id);
        let image = view.symbols.function(id).map(|function| function.image);
        let elf = image.and_then(|image| view.symbols.elf(image));
        let effects: Vec<Effect> = lines
            .iter()
            .map(|line| {
                let known = line.pc.and_then(|pc| by_pc.get(&pc));
                let mut effect = effect(line, known, &mut factory);
                if let (Effect::Result(outcome), Some(code)) = (&mut effect, &line.instruction) {
                    outcome.read_only = loads_read_only(code, elf);
                }
                effect
            })
            .collect();
        for block in blocks(&lines) {
            let Some(effects) = effects.get(block.clone()) else {
                continue;
            };
            for run in runs(effects) {
                let run = block.start + run.start..block.start + run.end;
                if let (Some(lines), Some(effects)) = (
                    lines.get(run.clone()),
                    effects.get(run.start - block.start..run.end - block.start),
                ) {
                    rows.extend(row(view, id, lines, effects));
                }
            }
        }
        // Whether there is any is told by what is left.
        let most = view.most_lines().filter(|most| *most > 0);
        if rows.len() > MANY + 2 * most.unwrap_or(rows.len()) {
            order(view, rows);
        }
    }
}

/// Has the hottest runs first, in an order in which no two are equal, and leaves out those beyond
/// what is asked for.
fn order(view: &mut View<'_>, rows: &mut Vec<Run>) {
    // Sums differ in their last digits by the order in which they were added up.
    let cycles = |run: &Run| Reverse((whole(run.constant.cycles), whole(run.heat.cycles)));
    let place = |run: &Run| run.instructions.first().map(|first| first.address);
    view.keep_least(rows, |a, b| {
        let by_cycles = cycles(a).cmp(&cycles(b));
        let by_image = || a.image.cmp(&b.image);
        by_cycles
            .then_with(by_image)
            .then_with(|| place(a).cmp(&place(b)))
    });
}

/// What is known of results, by PC. Values are looked at one by one: all of them take much memory.
fn known(view: &View<'_>, invariant: f64) -> HashMap<usize, KnownResults> {
    let mut by_pc: HashMap<usize, KnownResults> = HashMap::default();
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    view.each_value_of(is_destination, &mut |values| {
        let known = by_pc.entry(values.pc).or_default();
        known.results += 1;
        let Some(top) = values.shares.first() else {
            return;
        };
        let varies_more = |least: &FrequentResult| top.percent.total_cmp(&least.percent).is_lt();
        if !known.least.as_ref().is_none_or(varies_more) {
            return;
        }
        let name = names.get(values.parameter.as_str()).cloned();
        let name = name.unwrap_or_else(|| {
            let name: Arc<str> = values.parameter.as_str().into();
            names.insert(Arc::clone(&name));
            name
        });
        known.least = Some(FrequentResult {
            parameter: name,
            class: values.class(),
            value: top.value,
            pointed: values.pointed.get(&top.value).cloned(),
            percent: top.percent,
            samples: values.samples(),
            supported: values.supports(top),
            // With a tenth unknown, nothing can be called invariant.
            invariant: values.mostly_known() && top.percent >= invariant,
            read_only: false,
        });
    });
    by_pc
}

fn effect(
    line: &FunctionInstruction,
    known: Option<&KnownResults>,
    factory: &mut InstructionInfoFactory,
) -> Effect {
    let Some(instruction) = line.instruction else {
        return Effect::Unknown;
    };
    let computed = destinations(&instruction, factory).len();
    if computed == 0 {
        return Effect::Nothing;
    }
    if let Some(KnownResults { results, least }) = known
        && let Some(outcome) = least
    {
        if *results < computed && outcome.invariant && computed > 1 {
            return Effect::Unknown;
        }
        return Effect::Result(outcome.clone());
    }
    match constant(&instruction) {
        Some(value) => {
            let parameter = instructions::register_name(instruction.op0_register());
            Effect::Result(FrequentResult {
                class: Class::of_parameter(&parameter),
                parameter: parameter.as_str().into(),
                value,
                pointed: None,
                percent: 100.0,
                samples: 0,
                supported: true,
                invariant: true,
                read_only: false,
            })
        }
        None => Effect::Unknown,
    }
}

/// Whether an instruction does nothing but load what lies in its image, where that cannot be
/// written.
fn loads_read_only(instruction: &Instruction, elf: Option<&Elf>) -> bool {
    let Some(address) = instructions::loaded_place(instruction) else {
        return false;
    };
    let segments = elf.map(|elf| elf.binary().segments()).unwrap_or_default();
    let mut of_address = segments.iter().filter(|segment| {
        let offset = address.checked_sub(segment.address);
        offset.is_some_and(|offset| offset < segment.memory_size)
    });
    of_address.next().is_some_and(|segment| !segment.writable)
}

/// Ranges of lines that run from first to last without a transfer in or out.
fn blocks(lines: &[FunctionInstruction]) -> Vec<std::ops::Range<usize>> {
    let targets: BTreeSet<u64> = lines
        .iter()
        .filter_map(|line| line.instruction.as_ref().and_then(direct_target))
        .collect();
    let mut blocks = Vec::new();
    let mut start = 0;
    for (index, line) in lines.iter().enumerate() {
        let follows = index
            .checked_sub(1)
            .and_then(|before| lines.get(before))
            .is_some_and(|before| {
                before
                    .instruction
                    .is_some_and(|before| before.next_ip() == line.address)
            });
        if !follows || targets.contains(&line.address) {
            blocks.push(start..index);
            start = index;
        }
        let ends = line
            .instruction
            .as_ref()
            .is_none_or(|instruction: &Instruction| transfers_control(instruction));
        if ends {
            // The transfer itself belongs to no run.
            blocks.push(start..index);
            start = index + 1;
        }
    }
    blocks.push(start..lines.len());
    blocks.retain(|block| block.len() > 1);
    blocks
}

/// Maximal runs in one block.
fn runs(effects: &[Effect]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut index = 0;
    while index < effects.len() {
        // The first instruction of a run is any with known values.
        let Some(Effect::Result(_)) = effects.get(index) else {
            index += 1;
            continue;
        };
        let mut last = index;
        let mut next = index + 1;
        while let Some(effect) = effects.get(next) {
            match effect {
                Effect::Result(outcome) if outcome.invariant => last = next,
                Effect::Nothing => {}
                Effect::Result(_) | Effect::Unknown => break,
            }
            next += 1;
        }
        let run = index..last + 1;
        // Constants of the program tell nothing new.
        let captured = effects
            .get(run.clone())
            .unwrap_or_default()
            .iter()
            .skip(1)
            .any(
                |effect| matches!(effect, Effect::Result(outcome) if outcome.is_found_invariant()),
            );
        if last > index && captured {
            runs.push(run);
        }
        // What ended this run may be the first of another.
        index = next.max(index + 1);
    }
    runs
}

fn row(
    view: &View<'_>,
    id: usize,
    lines: &[FunctionInstruction],
    effects: &[Effect],
) -> Option<Run> {
    let function = view.symbols.function(id)?;
    let (mut sum, mut constant) = (Heat::default(), Heat::default());
    let mut instructions = Vec::new();
    for (line, effect) in lines.iter().zip(effects) {
        let heat = line
            .pc
            .and_then(|pc| view.heat.get(pc).copied())
            .unwrap_or_default();
        sum.add(heat);
        if matches!(effect, Effect::Result(outcome) if outcome.invariant && !outcome.read_only) {
            constant.add(heat);
        }
        instructions.push(RunInstruction {
            address: line.address,
            instruction: line.instruction?,
            outcome: match effect {
                Effect::Result(outcome) => Some(outcome.clone()),
                Effect::Nothing | Effect::Unknown => None,
            },
            heat,
        });
    }
    Some(Run {
        function: function.name.clone(),
        image: view.image_path(function.image).to_owned(),
        first: format!("0x{:x}", lines.first()?.address),
        last: format!("0x{:x}", lines.last()?.address),
        instructions,
        heat: sum,
        constant,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::decode;

    /// First and last of each run.
    fn run_ends(effects: &[Effect]) -> Vec<(usize, usize)> {
        runs(effects)
            .into_iter()
            .map(|run| (run.start, run.end - 1))
            .collect()
    }

    fn result(percent: f64, samples: u64) -> Effect {
        Effect::Result(FrequentResult {
            pointed: None,
            parameter: "eax".into(),
            class: Class::Integer(32),
            value: 2,
            percent,
            samples,
            supported: true,
            invariant: percent >= 99.0,
            read_only: false,
        })
    }

    /// What the image itself keeps constant lengthens a run like a constant of the encoding.
    #[test]
    fn constants_of_the_image_are_no_run() {
        let mut loaded = result(100.0, 9);
        if let Effect::Result(outcome) = &mut loaded {
            outcome.read_only = true;
        }
        assert_eq!(run_ends(&[result(50.0, 9), loaded.clone()]), []);
        let behind = [result(50.0, 9), loaded, result(100.0, 9)];
        assert_eq!(run_ends(&behind), [(0, 2)]);
    }

    /// Numbers of the read-only part are constants; those of the writable part are not, nor is what
    /// is computed of a constant.
    #[test]
    fn read_only_loads() {
        let elf = crate::elf::tests::own();
        let segments = elf.binary().segments();
        let one = |writable| {
            let of_kind = |segment: &&symbols::Segment| segment.writable == writable;
            segments.iter().find(of_kind).expect("is a segment").address
        };
        let at = |bytes: &[u8], address: u64| {
            let mut bytes = bytes.to_vec();
            // Relative to the end of the instruction, which has as many bytes.
            bytes.extend(4096u32.to_le_bytes());
            let ip = address.wrapping_sub(4096 + bytes.len() as u64);
            loads_read_only(&decode(&bytes, ip).expect("is an instruction"), Some(&elf))
        };
        // movsd xmm0, [rip+4096]; addsd xmm0, [rip+4096]
        let (load, add): (&[u8], &[u8]) = (&[0xf2, 0x0f, 0x10, 5], &[0xf2, 0x0f, 0x58, 5]);
        assert!(at(load, one(false)));
        assert!(!at(load, one(true)));
        assert!(!at(add, one(false)));
    }

    /// A run begins with the last varying result before the invariant ones, as in the
    /// load that is shifted to a constant, and passes over what has no result.
    #[test]
    fn runs_begin_with_any_result() {
        let effects = [
            result(33.4, 9),
            result(27.9, 9),
            result(100.0, 9),
            Effect::Nothing,
            result(99.5, 9),
        ];
        assert_eq!(run_ends(&effects), [(1, 4)]);
    }

    /// An unknown result ends a run; trailing instructions without result stay outside.
    #[test]
    fn unknown_results_end_runs() {
        let effects = [
            result(100.0, 9),
            result(100.0, 9),
            Effect::Nothing,
            Effect::Unknown,
            result(100.0, 9),
            Effect::Nothing,
        ];
        assert_eq!(run_ends(&effects), [(0, 1)]);
    }

    /// Constants by encoding lengthen a run, but make none by themselves.
    #[test]
    fn constants_alone_are_no_run() {
        assert_eq!(run_ends(&[result(100.0, 0), result(100.0, 0)]), []);
        let known = [result(50.0, 7), result(100.0, 0), result(100.0, 7)];
        assert_eq!(run_ends(&known), [(0, 2)]);
        assert_eq!(run_ends(&[]), []);
    }

    /// Jumps, jump targets and gaps cut the code into blocks.
    #[test]
    fn blocks_end_at_transfers() {
        // nop; nop; jmp to the second nop; nop; nop; gap; nop; nop
        let code: [(u64, &[u8]); 7] = [
            (0, &[0x90]),
            (1, &[0x90]),
            (2, &[0xeb, 0xfd]),
            (4, &[0x90]),
            (5, &[0x90]),
            (9, &[0x90]),
            (10, &[0x90]),
        ];
        let lines: Vec<FunctionInstruction> = code
            .iter()
            .map(|(address, bytes)| FunctionInstruction {
                address: *address,
                instruction: decode(bytes, *address),
                pc: None,
            })
            .collect();
        assert_eq!(blocks(&lines), [3..5, 5..7]);
    }
}
