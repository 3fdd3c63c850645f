//! A bench for instructions: registers, memory and code made by hand.

use std::collections::HashMap;

use crate::edges;
use crate::traced;

use iced_x86::{Code, Encoder, Instruction, Register};
use interpreter::{
    Call, Code as CodeSource, Decoded, Fetched, Flag, Flags, Memory, Outcome, Parameter, Path,
    Registers, Sink, StopReason, ValueKinds, Window, Word,
};
use proptest::prelude::{Strategy, any, prop_oneof};

/// Where code starts.
pub(crate) const START: u64 = 0x40_1000;
/// Process addresses are this much above image addresses.
pub(crate) const BIAS: u64 = 0x7f00_0000_0000;

/// An edge, any number, or a small one.
pub(crate) fn value() -> impl Strategy<Value = u64> {
    let edge = proptest::sample::select(&edges::INTEGERS[..]);
    prop_oneof![edge, any::<u64>(), 0..80u64]
}

/// RFLAGS with all flags clear, and with all arithmetic flags set.
pub(crate) const FLAG_STATES: [u64; 2] = [0, 0x8d5];

/// Everything that a window told, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Told {
    Reached(u64),
    Value(u64, Parameter, Option<u64>),
    Branch(u64, Option<bool>),
    Call(Box<Call>),
    Returned(u64),
}

/// Registers, memory and code.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) registers: Registers,
    pub(crate) capture: ValueKinds,
    pub(crate) max_instructions: u32,
    memory: HashMap<u64, u8>,
    code: HashMap<u64, Decoded>,
    end: u64,
}

/// What a run led to.
pub(crate) struct After {
    pub(crate) outcome: Outcome,
    pub(crate) told: Vec<Told>,
    /// What is told by methods of its own: whether stores change nothing (`silent`), that there is
    /// more than is told (`reload`), and system calls.
    pub(crate) apart: Vec<(Parameter, Option<u64>)>,
}

struct Bytes<'a>(&'a HashMap<u64, u8>);

impl Memory for Bytes<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        for (i, byte) in bytes.iter_mut().enumerate() {
            match self.0.get(&address.wrapping_add(i as u64)) {
                Some(value) => *byte = *value,
                None => return false,
            }
        }
        true
    }
}

struct Instructions<'a>(&'a HashMap<u64, Decoded>);

impl CodeSource for Instructions<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let instruction = self.0.get(&pc).ok_or(StopReason::NotMapped)?;
        Ok(Fetched {
            instruction,
            bias: BIAS,
            mark: 0,
        })
    }
}

#[derive(Default)]
struct Recorder {
    told: Vec<Told>,
    apart: Vec<(Parameter, Option<u64>)>,
}

impl Sink for Recorder {
    fn reached(&mut self, pc: u64, _mark: u32) {
        self.told.push(Told::Reached(pc));
    }
    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.told.push(Told::Value(pc, parameter, value));
    }
    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        self.told.push(Told::Branch(pc, taken));
    }
    fn call(&mut self, call: &Call) {
        self.told.push(Told::Call(Box::new(*call)));
    }
    fn returned(&mut self, pc: u64) {
        self.told.push(Told::Returned(pc));
    }
    fn stored_over(&mut self, _pc: u64, is_same: Option<bool>) {
        self.apart.push((Parameter::Silent, is_same.map(u64::from)));
    }
    fn accesses_more(&mut self, _pc: u64) {
        self.apart.push((Parameter::Reload, None));
    }
    fn system_call(&mut self, _pc: u64, values: &[(Parameter, Option<u64>); 7]) {
        self.apart.extend(values);
    }
}

/// Number of the register that a register is part of.
pub(crate) fn number(register: Register) -> usize {
    register.full_register().number()
}

impl Lab {
    /// All registers zero, rsp at 0x7fff0000, no memory, no code.
    pub(crate) fn new() -> Self {
        let mut gpr = [0; 16];
        gpr[4] = 0x7fff_0000;
        Self {
            registers: Registers::from_sample(gpr, START, 0),
            capture: ValueKinds::all(),
            max_instructions: 16,
            memory: HashMap::new(),
            code: HashMap::new(),
            end: START,
        }
    }

    /// Sets a 64-bit register.
    pub(crate) fn reg(mut self, register: Register, value: u64) -> Self {
        self.registers.gpr[number(register)] = Word::known(value);
        self
    }

    /// Makes a register unknown.
    pub(crate) fn hide(mut self, register: Register) -> Self {
        self.registers.gpr[number(register)] = Word::UNKNOWN;
        self
    }

    pub(crate) fn flags(mut self, rflags: u64) -> Self {
        self.registers.rflags = Flags::from_rflags(rflags);
        self
    }

    pub(crate) fn memory(mut self, address: u64, bytes: &[u8]) -> Self {
        for (i, byte) in bytes.iter().enumerate() {
            self.memory.insert(address.wrapping_add(i as u64), *byte);
        }
        self
    }

    /// Appends code as bytes.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut rest = bytes;
        while !rest.is_empty() {
            let decoded =
                Decoded::new(rest, self.end.wrapping_sub(BIAS)).expect("the test's code is valid");
            let len = decoded.len();
            self.code.insert(self.end, decoded);
            self.end += len as u64;
            rest = &rest[len..];
        }
        self
    }

    /// Goes on with code at another address.
    pub(crate) fn at(mut self, address: u64) -> Self {
        self.end = address;
        self
    }

    /// Appends an instruction.
    pub(crate) fn code(self, instruction: Instruction) -> Self {
        let mut encoder = Encoder::new(64);
        encoder
            .encode(&instruction, self.end.wrapping_sub(BIAS))
            .expect("the test's instruction can be encoded");
        let bytes = encoder.take_buffer();
        self.bytes(&bytes)
    }

    pub(crate) fn run(&self) -> After {
        let mut recorder = Recorder::default();
        let window = Window {
            max_instructions: self.max_instructions,
            capture: self.capture,
        };
        let outcome = window.run(
            &self.registers,
            &mut Instructions(&self.code),
            &mut Bytes(&self.memory),
            &mut recorder,
        );
        // Without the kinds that only handlers tell, most instructions are prepared.
        for capture in [self.capture, ValueKinds::default()] {
            traced::compare(
                Window { capture, ..window },
                &self.registers,
                &mut Instructions(&self.code),
                &mut Bytes(&self.memory),
            );
        }
        After {
            outcome,
            told: recorder.told,
            apart: recorder.apart,
        }
    }
}

impl Lab {
    /// The path of the window, of at most that length.
    pub(crate) fn path(&self, length: usize) -> Path {
        let mut path = Path::new(self.registers.rip, length);
        Window::default().run(
            &self.registers,
            &mut Instructions(&self.code),
            &mut Bytes(&self.memory),
            &mut path,
        );
        path
    }
}

impl After {
    /// A register's low `bytes`, if known.
    pub(crate) fn get(&self, register: Register) -> Option<u64> {
        self.outcome.registers.gpr[number(register)].get(register.size() as u32)
    }

    pub(crate) fn flag(&self, flag: Flag) -> Option<bool> {
        self.outcome.registers.rflags.get(flag)
    }

    /// The values of a parameter, in the order of their events.
    pub(crate) fn values(&self, parameter: Parameter) -> Vec<Option<u64>> {
        self.told
            .iter()
            .filter_map(|told| match told {
                Told::Value(_, p, value) if *p == parameter => Some(*value),
                _ => None,
            })
            .collect()
    }

    /// The parameters that had an event.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        self.told
            .iter()
            .filter_map(|told| match told {
                Told::Value(_, parameter, _) => Some(*parameter),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.told
            .iter()
            .filter_map(|told| match told {
                Told::Call(call) => Some(**call),
                _ => None,
            })
            .collect()
    }
}

/// The operand sizes: bits, and the parts of rax, rbx and rcx of that size.
pub(crate) const WIDTHS: [(u32, Register, Register, Register); 4] = [
    (8, Register::AL, Register::BL, Register::CL),
    (16, Register::AX, Register::BX, Register::CX),
    (32, Register::EAX, Register::EBX, Register::ECX),
    (64, Register::RAX, Register::RBX, Register::RCX),
];

/// All ones in that many bits.
pub(crate) fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// A value of that many bits as a signed number.
pub(crate) fn signed(bits: u32, value: u64) -> i128 {
    let value = i128::from(value & mask(bits));
    if value >> (bits - 1) & 1 != 0 {
        value - (1 << bits)
    } else {
        value
    }
}

/// An instruction on two operands of the same size, by the codes for 8, 16, 32 and 64 bits.
pub(crate) fn two(codes: [Code; 4], width: usize) -> Instruction {
    let (_, a, b, _) = WIDTHS[width];
    Instruction::with2(codes[width], a, b).expect("the code takes two registers")
}

/// What writing `value` of that many bits leaves in a register that held `before`.
pub(crate) fn written(bits: u32, before: u64, value: u64) -> u64 {
    match bits {
        8 | 16 => before & !mask(bits) | value & mask(bits),
        _ => value & mask(bits),
    }
}

/// A model of what an instruction leaves: its result and the flags that it defines.
pub(crate) struct Model {
    pub(crate) result: u64,
    pub(crate) flags: Vec<(Flag, bool)>,
}

/// SF, ZF and PF of a result of that many bits.
pub(crate) fn result_flags(bits: u32, result: u64) -> Vec<(Flag, bool)> {
    vec![
        (Flag::Zf, result & mask(bits) == 0),
        (Flag::Sf, result >> (bits - 1) & 1 != 0),
        (Flag::Pf, (result as u8).count_ones().is_multiple_of(2)),
    ]
}

/// Runs an instruction on rax and rbx for all pairs of edges, from all flags clear and all set, and
/// compares rax and the flags with a model. Flags that the model does not name must stay as they
/// were, or be unknown if `others_undefined`.
pub(crate) fn against_model(
    instruction: Instruction,
    bits: u32,
    others_undefined: bool,
    model: impl Fn(u64, u64, u64) -> Model,
) {
    let lab = Lab::new().code(instruction);
    for a in edges::INTEGERS {
        for b in edges::INTEGERS {
            for rflags in FLAG_STATES {
                let lab = lab
                    .clone()
                    .reg(Register::RAX, a)
                    .reg(Register::RBX, b)
                    .flags(rflags);
                let after = lab.run();
                let Model { result, flags } = model(a & mask(bits), b & mask(bits), rflags);
                let context = format!("{:?} {a:#x}, {b:#x}, {rflags:#x}", instruction.code());
                assert_eq!(
                    after.get(Register::RAX),
                    Some(written(bits, a, result)),
                    "{context}"
                );
                for flag in Flag::ALL {
                    let before = lab.registers.rflags.get(flag);
                    let expected = match flags.iter().find(|(f, _)| *f == flag) {
                        Some((_, value)) => Some(*value),
                        None if others_undefined && flag != Flag::Df => None,
                        None => before,
                    };
                    assert_eq!(after.flag(flag), expected, "{context}: {flag:?}");
                }
            }
        }
    }
}
