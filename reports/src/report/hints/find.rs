//! What can be specialised, and the time that it decides.

mod control;
mod judge;
mod memory;

pub(super) use control::COPIES;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use iced_x86::{Instruction, Mnemonic, OpAccess, OpKind, Register};
use instructions::{only_computes_address, register_name};
use parameters::Parameter;
use profiledb::Places;

use super::fold::{Code, Folded, KnownPlace, Results};
use super::machine::width;
use super::patch::HintKind;
use crate::callee::Callees;
use crate::code::{ProcessorMode, transfers_control};
use crate::listing::{self, lines};
use crate::symbols::FunctionId;
use crate::view::{Base, Heat, Values, View};

/// How the parameters begin that hints are about within functions: general registers, operands,
/// what loads bring, and how they follow each other.
pub(super) const LOOKED_AT: [&str; 15] = [
    "a", "b", "c", "d", "eax", "ebp", "ebx", "ecx", "edi", "edx", "es", "load", "op", "r", "s",
];

/// An opportunity. Cycles are as they were sampled.
#[derive(Debug, Clone)]
pub(super) struct Opportunity {
    pub(super) kind: HintKind,
    /// Where the value is seen.
    pub(super) pc: usize,
    /// The division that it is about.
    pub(super) division: Option<Division>,
    /// Whose calls it is about.
    pub(super) site: Option<usize>,
    pub(super) function: Option<FunctionId>,
    /// What is called there, where that is not the function.
    pub(super) callee: Option<String>,
    pub(super) parameter: String,
    /// Position, of an argument.
    pub(super) argument: Option<u8>,
    /// Whether the value is what the function was called with.
    pub(super) is_argument: bool,
    /// Where the value is known.
    pub(super) known: Option<KnownPlace>,
    pub(super) value: String,
    /// Of a number, its bits, and how many these are.
    pub(super) bits: Option<(u64, u32)>,
    /// How many bits that has in memory or in another register, if those are fewer.
    pub(super) extended: Option<u32>,
    pub(super) base: Base,
    pub(super) samples: u64,
    /// Percent, and its bounds.
    pub(super) share: [f64; 3],
    /// Cycles of the function or the calls.
    pub(super) under: f64,
    /// Cycles that the value decides.
    pub(super) folded: f64,
    pub(super) folded_samples: u64,
    pub(super) constant: BTreeSet<u64>,
    pub(super) divisions: BTreeSet<u64>,
    /// All instructions that it decides, with the cycles that they have.
    pub(super) places: BTreeMap<u64, f64>,
}

impl Opportunity {
    /// Leaves a part of what the value decides.
    fn scale(&mut self, part: f64) {
        self.folded *= part;
        self.places.values_mut().for_each(|cycles| *cycles *= part);
    }
}

/// A division by what becomes a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    pub(super) address: u64,
    /// What is used of it.
    pub(super) results: Results,
    /// The number.
    pub(super) by: u64,
    /// How many bits the division looks at, and whether one of them is the sign.
    pub(super) bits: u32,
    pub(super) is_signed: bool,
    /// Whether the number is not the value itself but computed from it.
    pub(super) is_computed: bool,
}

/// All opportunities for values with at least this share, in percent, of which each could save so
/// many cycles.
pub(super) fn all(view: &View<'_>, share: f64, least: f64) -> Vec<Opportunity> {
    let mut search = Search::new(view, share, least);
    let mut found = search.values();
    found.extend(search.copies());
    found.extend(search.targets());
    found.extend(search.branches());
    found.extend(search.loads());
    found
}

/// Where the functions are that take so many percent of all cycles, or nearly: what is known of
/// values elsewhere saves less. Arguments are seen at stubs, too, and may be those of copies.
pub(super) fn hot(view: &View<'_>, saving: f64) -> Places {
    /// Sums depend on the order in which they were added up.
    const NEARLY: f64 = 0.999;
    let least = NEARLY * saving / 100.0 * view.total().cycles;
    let mut functions = listing::heat_of_functions(view);
    functions.retain(|_, heat| heat.cycles >= least);
    listing::places(view, &functions.into_keys().collect::<Vec<_>>())
}

struct Search<'v, 'p> {
    view: &'v View<'p>,
    share: f64,
    least: f64,
    codes: BTreeMap<FunctionId, Option<Code>>,
    /// Time at PCs, as far as the call site is known.
    by_site: BTreeMap<(usize, usize), Heat>,
    /// Time in functions: in all, and under call sites.
    of_function: BTreeMap<(FunctionId, Option<usize>), Heat>,
    /// Values that were weighed: of which function and calls, and where they are known.
    judged: BTreeSet<(FunctionId, Option<usize>, KnownPlace, u64)>,
    /// What values remove that are known at some places.
    folded: BTreeMap<(FunctionId, Vec<KnownPlace>, u64), Option<Rc<Folded>>>,
}

/// A value that may be known, and where.
struct KnownValue<'s> {
    values: &'s Values,
    known: KnownPlace,
    argument: Option<u8>,
    /// How many bits the value has that was extended with zeros.
    extended: Option<u32>,
}

impl<'v, 'p> Search<'v, 'p> {
    fn new(view: &'v View<'p>, share: f64, least: f64) -> Search<'v, 'p> {
        let mut by_site: BTreeMap<(usize, usize), Heat> = BTreeMap::new();
        let mut of_function: BTreeMap<(FunctionId, Option<usize>), Heat> = BTreeMap::new();
        for row in &view.profile.cycles {
            let heat = Heat {
                samples: row.samples,
                cycles: row.cycles,
            };
            let function = view.symbols.function_of(row.pc);
            if let Some(function) = function {
                of_function.entry((function, None)).or_default().add(heat);
            }
            if let Some(site) = row.caller {
                by_site.entry((row.pc, site)).or_default().add(heat);
                if let Some(function) = function {
                    let under = of_function.entry((function, Some(site))).or_default();
                    under.add(heat);
                }
            }
        }
        Search {
            view,
            share,
            least,
            codes: BTreeMap::new(),
            judged: BTreeSet::new(),
            folded: BTreeMap::new(),
            by_site,
            of_function,
        }
    }

    fn under(&self, function: FunctionId, site: Option<usize>) -> Heat {
        let heat = self.of_function.get(&(function, site));
        heat.copied().unwrap_or_default()
    }

    fn heat(&self, pc: usize, site: Option<usize>) -> Heat {
        let heat = match site {
            Some(site) => self.by_site.get(&(pc, site)),
            None => self.view.heat.get(pc),
        };
        heat.copied().unwrap_or_default()
    }

    /// Arguments and what loads bring.
    fn values(&mut self) -> Vec<Opportunity> {
        let view = self.view;
        let of_arguments = view.profile.hotlists.iter();
        let of_arguments = of_arguments.filter(|row| Values::names_argument(&row.parameter));
        let entries: BTreeSet<usize> = of_arguments.map(|row| row.pc).collect();
        let callees = Callees::new(view, &entries);
        let mut found: Vec<Opportunity> = Vec::new();
        let [of_all, of_sites] = [false, true].map(|by_caller| {
            let canonical = |pc| callees.canonical(pc);
            view.values_once(by_caller, canonical, |values| self.is_frequent(values))
        });
        for (by_caller, all) in [(false, &of_all), (true, &of_sites)] {
            for values in all {
                if !values.is_argument() {
                    let seen = self.in_code(values).filter(|_| !by_caller);
                    found.extend(seen.and_then(|seen| self.judge(&seen)));
                    continue;
                }
                let live = callees.live(values.pc);
                let argument = live.of_parameter(&values.parameter);
                let Some(argument) = argument.filter(|_| live.known) else {
                    continue;
                };
                let mut own = values.narrowed(argument.bits);
                own.parameter = live.name(argument);
                let seen = KnownValue {
                    values: &own,
                    known: KnownPlace::AtEntry(argument.register, argument.bits),
                    argument: Some(argument.index),
                    extended: None,
                };
                // What holds for all calls needs no word for each site.
                let is_told = by_caller
                    && found.iter().any(|of| {
                        of.pc == own.pc && of.parameter == own.parameter && of.site.is_none()
                    });
                let judged = Some(&seen).filter(|_| !is_told);
                let Some(mut judged) = judged.and_then(|seen| self.judge(seen)) else {
                    continue;
                };
                if !by_caller {
                    let is_of_it =
                        |of: &&Values| of.pc == values.pc && of.parameter == values.parameter;
                    let sites = of_sites.iter().filter(is_of_it);
                    let sites = sites.map(|site| site.narrowed(argument.bits));
                    judged.scale(self.part_of_sites(&own, sites));
                }
                found.push(judged);
            }
        }
        found
    }

    /// Whether the most frequent value is as frequent as hints ask for.
    fn is_frequent(&self, values: &Values) -> bool {
        let most = values.shares.first();
        most.is_some_and(|share| share.percent >= self.share && values.supports(share))
            && values.samples() >= self.view.min_samples
    }

    /// The part of a prediction that is left where the value comes from call sites that have less
    /// of the function's time than of its calls, or of what windows begin with.
    fn part_of_sites(&self, values: &Values, sites: impl Iterator<Item = Values>) -> f64 {
        let function = self.view.symbols.function_of(values.pc);
        let (Some(function), Some(share)) = (function, values.shares.first()) else {
            return 1.0;
        };
        let (mut all, mut of_value) = (0.0, 0.0);
        for site in sites.filter(|site| site.caller.is_some()) {
            let own = site.shares.iter().find(|own| own.value == share.value);
            let heat = self.under(function, site.caller).cycles;
            all += heat;
            of_value += heat * own.map_or(0.0, |own| own.percent);
        }
        // Most of the time has to be that of known sites.
        match all * 2.0 < self.under(function, None).cycles || all <= 0.0 {
            true => 1.0,
            false => (of_value / all / share.percent).min(1.0),
        }
    }

    /// What a register or memory has within a function, if it is worth a look: what a load brings,
    /// or what is divided by.
    fn in_code<'s>(&mut self, values: &'s Values) -> Option<KnownValue<'s>> {
        let view = self.view;
        let pc = view.profile.pcs.get(values.pc)?;
        let function = view.symbols.function_of(values.pc)?;
        if self.under(function, None).cycles < self.least {
            return None;
        }
        let instruction = *self.code(function)?.at(pc.address)?;
        let seen = |known| {
            Some(KnownValue {
                values,
                known,
                argument: None,
                extended: extended(&instruction),
            })
        };
        if values.parameter == "load" {
            return seen(KnownPlace::InMemory(pc.address));
        }
        if let Ok(Parameter::Operand(operand)) = values.parameter.parse() {
            return seen(read(&instruction, operand)?);
        }
        let register = written(&instruction, &values.parameter)?;
        let is_wanted = reads_memory(&instruction) || self.code(function)?.divides_by(register);
        is_wanted.then(|| seen(KnownPlace::After(pc.address, register)))?
    }

    /// The code of a function.
    fn code(&mut self, function: FunctionId) -> Option<&Code> {
        let view = self.view;
        let read = || {
            let own = view.symbols.function(function)?;
            if view.symbols.mode(own.image) != ProcessorMode::Long {
                return None;
            }
            let lines = lines(view, function);
            let start = own.start?;
            if lines.first()?.address != start {
                return None;
            }
            let (image, pcs) = (own.image, &view.profile.pcs);
            let calls = view.profile.calls.iter();
            let inside = calls.filter(|row| view.symbols.function_of(row.site) == Some(function));
            let entered = inside.filter_map(|row| {
                let to = pcs.get(row.callee?)?;
                let is_inside = view.symbols.function_of(row.callee?) == Some(function);
                (is_inside && to.image == image && to.address != start).then_some(to.address)
            });
            Code::new(&lines, &entered.collect())
        };
        self.codes.entry(function).or_insert_with(read).as_ref()
    }
}

/// The general register of this name, if it is what an instruction writes.
fn written(instruction: &Instruction, parameter: &str) -> Option<Register> {
    let is_it = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().is_gpr()
        && register_name(instruction.op0_register()) == parameter
        && !transfers_control(instruction);
    is_it.then(|| instruction.op0_register())
}

/// What an instruction reads as this operand: of registers those that it does not save, of memory
/// what it does more with than load it, which is seen in the register.
fn read(instruction: &Instruction, operand: u8) -> Option<KnownPlace> {
    let operand = u32::from(operand);
    let is_moved_on = instruction.mnemonic() == Mnemonic::Push || transfers_control(instruction);
    if operand >= instruction.op_count() || is_moved_on {
        return None;
    }
    match instruction.op_kind(operand) {
        OpKind::Register => {
            let register = instruction.op_register(operand);
            register
                .is_gpr()
                .then_some(KnownPlace::Read(instruction.ip(), register))
        }
        OpKind::Memory if !reads_memory(instruction) => {
            Some(KnownPlace::InMemory(instruction.ip()))
        }
        _ => None,
    }
}

/// How many bits an instruction extends with zeros, if it does.
fn extended(instruction: &Instruction) -> Option<u32> {
    (instruction.mnemonic() == Mnemonic::Movzx).then(|| width(instruction, 1))
}

/// Whether an instruction does nothing but load its register: not from the stack's top, where
/// registers are saved.
fn reads_memory(instruction: &Instruction) -> bool {
    let mut factory = iced_x86::InstructionInfoFactory::new();
    factory.info(instruction).op0_access() == OpAccess::Write
        && instruction.op_count() == 2
        && instruction.op1_kind() == OpKind::Memory
        && instruction.memory_base().full_register() != Register::RSP
        && !only_computes_address(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every parameter that is looked at is read, and addresses are not.
    #[test]
    fn parameters_that_are_read() {
        let registers = Register::values().filter(|register| register.is_gpr());
        let others = [
            Parameter::Load,
            Parameter::Operand(0),
            Parameter::Stride,
            Parameter::Reload,
        ];
        let read = |name: &str| LOOKED_AT.iter().any(|start| name.starts_with(start));
        for parameter in registers.map(Parameter::Dest).chain(others) {
            assert!(read(&parameter.to_string()), "{parameter}");
        }
        for parameter in [Parameter::Ea, Parameter::Taken, Parameter::Line] {
            assert!(!read(&parameter.to_string()), "{parameter}");
        }
    }
}
