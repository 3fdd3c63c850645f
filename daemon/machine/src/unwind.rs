//! Where the return address of a function lies: one step of unwinding by `.eh_frame`.

use std::cell::Cell;

use addresses::{ImageAddress, ProcessAddress};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, EvaluationResult, LittleEndian,
    Location, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};
use rustc_hash::FxHashMap;
use sampler::{CallerRbp, UnwindRow};

use crate::system::memory::{of_map, of_vec};

type Reader<'a> = EndianSlice<'a, LittleEndian>;
/// Where a row says that the return address and the caller's rbp are.
type Rules = (RegisterRule<usize>, Option<RegisterRule<usize>>);

/// DWARF number of the return-address column on x86-64.
const RETURN_ADDRESS: Register = Register(16);
/// DWARF number of rbp.
const RBP: Register = Register(6);
/// DWARF register numbers 0..=15 in the order of `sampler::Registers::gpr`.
const GPR_OF_DWARF: [usize; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// How to find the return address at one PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// At `gpr[register] + offset`.
    At { register: usize, offset: i64 },
    /// At what memory holds at `gpr[register] + offset`, and `plus`: the frame was realigned.
    Behind {
        register: usize,
        offset: i64,
        plus: i64,
    },
    /// Expressions that are evaluated each time.
    Expression,
    /// There are no rules for this PC.
    None,
    /// There are rules, and they say that there is no caller, or need what is not to be had.
    NoCaller,
}

/// Unwind rules of one image.
#[derive(Debug, Default)]
pub struct UnwindInfo {
    section: Vec<u8>,
    bases: BaseAddresses,
    /// Sorted by their start.
    functions: Vec<FunctionRules>,
    rules: FxHashMap<u64, Rule>,
}

/// A function with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionRules {
    /// Distance of its start from the section.
    start: i32,
    /// Bytes of it.
    length: u32,
    /// Where its rules are in the section.
    offset: u32,
}

/// Large programs have hundreds of thousands.
const _: () = assert!(size_of::<FunctionRules>() == 12);

/// Rules kept per image; emptied when full.
const MAX_RULES: usize = 8192;

impl UnwindInfo {
    /// From the `.eh_frame` section (its bytes and address), and the address of `.text`.
    pub(crate) fn new(section: Option<(Vec<u8>, u64)>, text: u64) -> Self {
        let Some((section, address)) = section else {
            return Self::default();
        };
        let bases = BaseAddresses::default()
            .set_eh_frame(address)
            .set_text(text);
        let functions = index(&section, &bases, address);
        Self {
            section,
            bases,
            functions,
            rules: FxHashMap::default(),
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        of_vec(&self.section) + of_vec(&self.functions) + of_map(&self.rules)
    }

    /// The function around an address, as the rules delimit it.
    pub fn function(&self, address: ImageAddress) -> Option<(ImageAddress, ImageAddress)> {
        let (start, end, _) = self.find(address.0)?;
        Some((ImageAddress(start), ImageAddress(end)))
    }

    /// Start, end and rules of the function around an address.
    fn find(&self, address: u64) -> Option<(u64, u64, usize)> {
        let section = self.bases.eh_frame.section?;
        let distance = distance(section, address)?;
        let behind = self.functions.partition_point(|f| f.start <= distance);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        let start = section.wrapping_add_signed(function.start.into());
        let end = start.checked_add(function.length.into())?;
        (address < end).then_some((start, end, function.offset as usize))
    }

    /// The rule at an ELF virtual address.
    pub(crate) fn rule(&mut self, address: u64) -> Rule {
        if let Some(&rule) = self.rules.get(&address) {
            return rule;
        }
        let rule = self.evaluate(address);
        if self.rules.len() >= MAX_RULES {
            self.rules.clear();
        }
        self.rules.insert(address, rule);
        rule
    }

    fn evaluate(&self, address: u64) -> Rule {
        if self.find(address).is_none() {
            return Rule::None;
        }
        let rule = self.with_row(address, |cfa, (return_address, _), eh_frame| {
            let offset = match return_address {
                RegisterRule::Offset(offset) => offset,
                RegisterRule::Expression(_) => return Rule::Expression,
                _ => return Rule::NoCaller,
            };
            match form_of(&cfa, eh_frame, address) {
                Some(Form::Sum(register, of)) => match of.checked_add(offset) {
                    Some(offset) => Rule::At { register, offset },
                    None => Rule::NoCaller,
                },
                Some(Form::Behind(register, of, plus)) => match plus.checked_add(offset) {
                    Some(plus) => Rule::Behind {
                        register,
                        offset: of,
                        plus,
                    },
                    None => Rule::NoCaller,
                },
                None => Rule::Expression,
            }
        });
        rule.unwrap_or(Rule::NoCaller)
    }

    /// Address of the return address at this PC, from the general registers there and what `read`
    /// knows of memory.
    pub(crate) fn return_slot(
        &mut self,
        address: ImageAddress,
        pc: ProcessAddress,
        gpr: &[u64; 16],
        read: impl Fn(u64, u8) -> Option<u64>,
    ) -> Slot {
        let address = address.0;
        match self.rule(address) {
            Rule::At { register, offset } => {
                Slot::At(gpr[register & 15].wrapping_add_signed(offset))
            }
            Rule::Behind {
                register,
                offset,
                plus,
            } => {
                let at = gpr[register & 15].wrapping_add_signed(offset);
                read(at, 8).map_or(Slot::Beyond, |to| Slot::At(to.wrapping_add_signed(plus)))
            }
            Rule::Expression => {
                let beyond = Cell::new(false);
                let machine = Machine {
                    pc: pc.0,
                    gpr,
                    read: |address, bytes| {
                        let word = read(address, bytes);
                        beyond.set(beyond.get() || word.is_none());
                        word
                    },
                };
                let slot = self.with_row(address, |cfa, (return_address, _), eh_frame| {
                    slot_of(&cfa, &return_address, eh_frame, &machine)
                });
                match slot.flatten() {
                    Some(slot) => Slot::At(slot),
                    None if beyond.get() => Slot::Beyond,
                    None => Slot::NoCaller,
                }
            }
            Rule::None => Slot::NoRules,
            Rule::NoCaller => Slot::NoCaller,
        }
    }

    /// The rule at an address in the form that the handler of the interrupt follows;
    /// `None` where there is none, or it cannot be put so.
    pub fn row(&self, address: ImageAddress) -> Option<UnwindRow> {
        let address = address.0;
        self.with_row(address, |cfa, rules, eh_frame| {
            let (return_address, rbp) = rules;
            match return_address {
                RegisterRule::Undefined => return Some(UnwindRow::Outermost),
                RegisterRule::Offset(-8) => {}
                _ => return None,
            }
            let rbp = match rbp {
                None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => CallerRbp::Same,
                Some(RegisterRule::Offset(n)) => {
                    i32::try_from(n).map_or(CallerRbp::Unknown, CallerRbp::Saved)
                }
                Some(_) => CallerRbp::Unknown,
            };
            Some(match form_of(&cfa, eh_frame, address)? {
                Form::Sum(register, offset) => UnwindRow::Frame {
                    register: u8::try_from(register).ok()?,
                    offset: i32::try_from(offset).ok()?,
                    rbp,
                },
                Form::Behind(register, offset, plus) => UnwindRow::Behind {
                    register: u8::try_from(register).ok()?,
                    offset: i32::try_from(offset).ok()?,
                    words: i8::try_from(plus / 8).ok().filter(|_| plus % 8 == 0)?,
                    rbp,
                },
            })
        })?
    }

    fn with_row<T>(
        &self,
        address: u64,
        f: impl FnOnce(CfaRule<usize>, Rules, &EhFrame<Reader<'_>>) -> T,
    ) -> Option<T> {
        let (_, _, offset) = self.find(address)?;
        let eh_frame = EhFrame::new(&self.section, LittleEndian);
        let fde = eh_frame
            .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
            .ok()?;
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(&eh_frame, &self.bases, &mut context, address)
            .ok()?;
        // What a signal's trampoline goes back to was interrupted, and called nothing.
        if fde.cie().is_signal_trampoline() {
            return None;
        }
        let rules = (row.register(RETURN_ADDRESS)?, row.register(RBP));
        Some(f(row.cfa().clone(), rules, &eh_frame))
    }
}

/// Where the return address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// At this process address.
    At(u64),
    /// The image has no rules for this PC.
    NoRules,
    /// The rules say that there is none, or cannot be followed.
    NoCaller,
    /// The rules need memory that is not known.
    Beyond,
}

/// How far an address lies behind another, as far as that is possible within one image.
fn distance(from: u64, to: u64) -> Option<i32> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).ok()
}

/// The functions that have rules in a section at this address.
fn index(section: &[u8], bases: &BaseAddresses, address: u64) -> Vec<FunctionRules> {
    let eh_frame = EhFrame::new(section, LittleEndian);
    let mut functions = Vec::new();
    let mut entries = eh_frame.entries(bases);
    // An error ends the walk: what came before it is good, the rest has no rules.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let start = distance(address, fde.initial_address());
        let (length, offset) = (u32::try_from(fde.len()), u32::try_from(fde.offset()));
        if let (Some(start), Ok(length), Ok(offset)) = (start, length, offset) {
            functions.push(FunctionRules {
                start,
                length,
                offset,
            });
        }
    }
    functions.sort_unstable();
    functions.shrink_to_fit();
    functions
}

/// A canonical frame address that is simple enough for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// This general register, and so much.
    Sum(usize, i64),
    /// What memory holds at such a sum, and so much.
    Behind(usize, i64, i64),
}

/// What an expression is evaluated on.
struct Machine<'a, F> {
    pc: u64,
    gpr: &'a [u64; 16],
    read: F,
}

/// The form of a canonical frame address at a PC. Most expressions have one: those of PLT stubs,
/// which ask where in the stub the PC is, and of realigned frames.
fn form_of(cfa: &CfaRule<usize>, eh_frame: &EhFrame<Reader<'_>>, pc: u64) -> Option<Form> {
    let expression = match *cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            let register = *GPR_OF_DWARF.get(usize::from(register.0))?;
            return Some(Form::Sum(register, offset));
        }
        CfaRule::Expression(expression) => expression,
    };
    // The expression is tried on made-up registers that lie far apart. Images lie at pages, so an
    // expression may look at the lowest bits of the PC, and at no others.
    let mut forms = [(3_u64, 0_u64), (5, 1 << 36)]
        .into_iter()
        .map(|(times, bias)| {
            let gpr: [u64; 16] = std::array::from_fn(|i| (times * (i as u64 + 1)) << 40);
            let word = times << 50;
            let reads = Cell::new((0, 0));
            let machine = Machine {
                pc: pc.wrapping_add(bias),
                gpr: &gpr,
                read: |address, bytes| {
                    let (_, before) = reads.get();
                    reads.set((address, before + 1));
                    (bytes == 8).then_some(word)
                },
            };
            let result = evaluate_expression(eh_frame, expression, None, &machine)?;
            let sum = |value: u64| {
                let near = |of: u64| value.wrapping_sub(of).cast_signed();
                let register = gpr
                    .iter()
                    .position(|of| near(*of).unsigned_abs() < 1 << 31)?;
                Some((register, near(gpr[register])))
            };
            match reads.get() {
                (_, 0) => sum(result).map(|(register, offset)| Form::Sum(register, offset)),
                (address, 1) => {
                    let (register, offset) = sum(address)?;
                    let plus = result.wrapping_sub(word).cast_signed();
                    (plus.unsigned_abs() < 1 << 31).then_some(Form::Behind(register, offset, plus))
                }
                _ => None,
            }
        });
    let (first, second) = (forms.next()??, forms.next()??);
    (first == second).then_some(first)
}

/// The address of the return address, by rules that are expressions.
fn slot_of<F: Fn(u64, u8) -> Option<u64>>(
    cfa: &CfaRule<usize>,
    return_address: &RegisterRule<usize>,
    eh_frame: &EhFrame<Reader<'_>>,
    machine: &Machine<'_, F>,
) -> Option<u64> {
    let cfa = match *cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            let register = *GPR_OF_DWARF.get(usize::from(register.0))?;
            machine.gpr[register].wrapping_add_signed(offset)
        }
        CfaRule::Expression(expression) => {
            evaluate_expression(eh_frame, expression, None, machine)?
        }
    };
    match *return_address {
        RegisterRule::Offset(offset) => Some(cfa.wrapping_add_signed(offset)),
        RegisterRule::Expression(expression) => {
            evaluate_expression(eh_frame, expression, Some(cfa), machine)
        }
        _ => None,
    }
}

fn evaluate_expression<F: Fn(u64, u8) -> Option<u64>>(
    eh_frame: &EhFrame<Reader<'_>>,
    expression: UnwindExpression<usize>,
    initial: Option<u64>,
    machine: &Machine<'_, F>,
) -> Option<u64> {
    let expression = expression.get(eh_frame).ok()?;
    let encoding = gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    };
    let mut evaluation = expression.evaluation(encoding);
    // A hostile expression may loop by branching backwards.
    evaluation.set_max_iterations(100);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = match register {
                    RETURN_ADDRESS => machine.pc,
                    Register(n) => machine.gpr[*GPR_OF_DWARF.get(usize::from(n))?],
                };
                evaluation
                    .resume_with_register(Value::Generic(value))
                    .ok()?
            }
            EvaluationResult::RequiresMemory {
                address,
                size,
                space: None,
                ..
            } => {
                let word = (machine.read)(address, size)?;
                evaluation.resume_with_memory(Value::Generic(word)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}
