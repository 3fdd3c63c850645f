//! What the interpreter is shown of the stopped process, and what it says.

use std::collections::{HashMap, VecDeque};

use iced_x86::Register;
use interpreter::{
    Call, Code, Decoded, Fetched, Flag, Memory, Parameter, Registers, Sink, StopReason, Vector,
    Word,
};
use nix::libc::user_regs_struct;

use crate::tracee::{Tracee, TraceeState};

/// Image addresses differ from process addresses by this, to see that both are kept apart.
pub(crate) const BIAS: u64 = 0x5550_0000_7000;
/// Random numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// How much the interpreter is not told.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Hide {
    Nothing,
    /// Whole registers, flags and pieces of memory.
    Some,
    /// Single bytes of registers as well.
    Bytes,
}

/// Memory of the stopped process.
pub(crate) struct TraceeMemory<'a> {
    pub(crate) tracee: &'a Tracee,
    pub(crate) volatile: &'a [(u64, u64)],
    /// Hides one in so many pieces of memory, by this seed.
    pub(crate) hide: Option<u64>,
}

impl Memory for TraceeMemory<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let end = address.saturating_add(bytes.len() as u64);
        if self
            .volatile
            .iter()
            .any(|&(first, past)| address < past && end > first)
        {
            return false;
        }
        if let Some(seed) = self.hide
            && ((address >> 3) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0
        {
            return false;
        }
        self.tracee.read(address, bytes) == bytes.len()
    }
}

/// Code of the stopped process.
pub(crate) struct TraceeCode<'a> {
    pub(crate) tracee: &'a Tracee,
    pub(crate) decoded: &'a mut HashMap<u64, ([u8; 15], Decoded)>,
}

impl Code for TraceeCode<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let mut bytes = [0; 15];
        // The code may end before 15 bytes do, at the end of its page.
        let len = self.tracee.read(pc, &mut bytes);
        if len == 0 {
            return Err(StopReason::NotMapped);
        }
        if self.decoded.get(&pc).is_none_or(|(held, _)| *held != bytes) {
            let decoded = Decoded::new(&bytes[..len], pc.wrapping_sub(BIAS))?;
            self.decoded.insert(pc, (bytes, decoded));
        }
        match self.decoded.get(&pc) {
            Some((_, instruction)) => Ok(Fetched {
                instruction,
                bias: BIAS,
                mark: 0,
            }),
            None => Err(StopReason::NotMapped),
        }
    }

    /// The process stands still.
    fn keeps(&self) -> bool {
        true
    }
}

/// What the interpreter says of one instruction.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Claims {
    pub(crate) pc: u64,
    pub(crate) values: Vec<(Parameter, Option<u64>)>,
    pub(crate) branch: Option<Option<bool>>,
    pub(crate) call: Option<Call>,
    pub(crate) stores: Vec<(Option<u64>, u32, Option<u64>)>,
    /// Of each load, whether it is known.
    pub(crate) loads: Vec<bool>,
}

/// Collects what the interpreter says, per instruction.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) instructions: VecDeque<Claims>,
}

impl Recorder {
    fn last(&mut self, pc: u64) -> &mut Claims {
        let last = self
            .instructions
            .back_mut()
            .expect("an instruction is reached first");
        assert_eq!(
            last.pc, pc,
            "an event of another instruction than the one reached"
        );
        last
    }
}

impl Sink for Recorder {
    fn reached(&mut self, pc: u64, _mark: u32) {
        self.instructions.push_back(Claims {
            pc,
            ..Claims::default()
        });
    }

    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.last(pc).values.push((parameter, value));
    }

    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        self.last(pc).branch = Some(taken);
    }

    fn call(&mut self, call: &Call) {
        self.last(call.site).call = Some(*call);
    }

    fn store(&mut self, pc: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        self.last(pc).stores.push((address, bytes, value));
    }

    fn load(&mut self, pc: u64, _: Option<u64>, _: u32, value: Option<u64>) {
        self.last(pc).loads.push(value.is_some());
    }
}

pub(crate) const GENERAL: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
pub(crate) fn general(regs: &user_regs_struct) -> [u64; 16] {
    [
        regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi, regs.r8,
        regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
    ]
}

/// The value of a general register, whatever part of one it is.
pub(crate) fn value_of(regs: &user_regs_struct, register: Register) -> Option<u64> {
    let number = GENERAL
        .iter()
        .position(|r| *r == register.full_register())?;
    let full = general(regs)[number];
    Some(match register {
        Register::AH | Register::BH | Register::CH | Register::DH => full >> 8 & 0xff,
        _ => full & u64::MAX >> (64 - 8 * register.size()),
    })
}

/// The registers that the interpreter is told.
pub(crate) fn told(state: &TraceeState, hide: Hide, random: &mut Random) -> Registers {
    let regs = &state.general;
    let mut registers = Registers::from_sample(general(regs), regs.rip, regs.eflags);
    registers.fs_base = Some(regs.fs_base);
    registers.gs_base = Some(regs.gs_base);
    if hide == Hide::Nothing {
        return registers;
    }
    for word in &mut registers.gpr {
        if random.one_in(4) {
            let known = if hide == Hide::Bytes {
                random.next() as u8
            } else {
                0
            };
            *word = Word::partial(word.known_bits(), known);
        }
    }
    for flag in Flag::ALL {
        if random.one_in(4) {
            registers.rflags.set(flag, None);
        }
    }
    if random.one_in(2) {
        registers.fs_base = None;
    }
    registers
}

/// The bytes of a vector register that the processor shows.
pub(crate) const SHOWN: u64 = 0xffff;

/// The low 128 bits of a vector register, the others zero.
pub(crate) fn widen(half: [u8; 16]) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..16].copy_from_slice(&half);
    bytes
}

/// Tells the interpreter the vector and mask registers, what the processor does not show of them as
/// it knew it itself, and at times the modes.
pub(crate) fn tell_vectors(
    registers: &mut Registers,
    state: &TraceeState,
    carried: Option<&Registers>,
    hide: Hide,
    random: &mut Random,
) {
    if let Some(carried) = carried {
        registers.vectors = carried.vectors;
        registers.masks = carried.masks;
    }
    for (vector, half) in registers.vectors.iter_mut().zip(state.vectors) {
        let mut bytes = *vector.known_bits();
        bytes[..half.len()].copy_from_slice(&half);
        *vector = Vector::partial(bytes, vector.known_bytes() | SHOWN);
    }
    for vector in &mut registers.vectors {
        if hide != Hide::Nothing && random.one_in(4) {
            let kept = if hide == Hide::Bytes {
                random.next() << 16 ^ random.next()
            } else {
                0
            };
            *vector = Vector::partial(*vector.known_bits(), vector.known_bytes() & kept);
        }
    }
    for mask in &mut registers.masks {
        if hide != Hide::Nothing && random.one_in(4) {
            let kept = mask.known_bytes() & random.next() as u8;
            *mask = Word::partial(mask.known_bits(), kept);
        }
    }
    registers.mxcsr = (hide == Hide::Nothing || random.one_in(2)).then_some(state.mxcsr);
}
