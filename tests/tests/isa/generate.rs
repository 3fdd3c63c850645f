//! Instructions from the decoder's tables, with a state to run them in.

use iced_x86::{
    Code, Encoder, Instruction, Mnemonic, OpCodeInfo, OpKind, Register, RoundingControl,
};
use interpreter::{Decoded, Support};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

use crate::address;
use crate::features::unfit;
use crate::native::{CODE, CODE_STRIDE, DATA, DATA_BYTES, Slot};
use crate::trampoline::{STUB_BYTES, stub};
use crate::tune;
use crate::values::{self, BLOCK, Class, Pool};
use crate::x87;

/// Instructions are tried anew this often when operands do not go together.
const ATTEMPTS: usize = 16;

/// An instruction in its slot.
pub(crate) struct Case {
    pub(crate) decoded: Decoded,
    pub(crate) bytes: Vec<u8>,
    /// Its address.
    pub(crate) entry: u64,
    /// Process address less image address.
    pub(crate) bias: u64,
}

/// Makes instructions. What it draws depends on `rng` alone.
pub(crate) struct Maker<'a> {
    pub(crate) rng: &'a mut SmallRng,
    pub(crate) pool: &'a Pool,
    pub(crate) slot: &'a mut Slot,
    /// Stubs before and behind the instruction.
    pub(crate) stubs: [u64; 2],
    pub(crate) entry: u64,
    /// Linear address of the explicit memory operand.
    pub(crate) address: Option<u64>,
}

/// Why there is no case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCase {
    /// The encoder did not take the operands.
    NotEncoded,
    /// It is not to be run: the interpreter stops there whatever the state.
    Stops,
    /// It is not for a program to run, or not for this one.
    Unfit(&'static str),
}

/// Fills slot number `number` with an instruction of `code` and a state.
pub(crate) fn make(
    code: Code,
    number: usize,
    rng: &mut SmallRng,
    pool: &Pool,
    slot: &mut Slot,
    room: &mut [u8],
) -> Result<Case, NoCase> {
    let start = CODE + number as u64 * CODE_STRIDE;
    // Not at an even place always, and with room for both stubs within reach of a byte.
    let entry = start + 64 + rng.random_range(0..16u64);
    let stubs = [start + rng.random_range(0..16u64), start + 160];
    let mut maker = Maker {
        rng,
        pool,
        slot,
        stubs,
        entry,
        address: None,
    };
    let bytes = (0..ATTEMPTS)
        .find_map(|_| maker.instruction(code))
        .ok_or(NoCase::NotEncoded)?;
    let bias = match rng.random_range(0..3) {
        0 => 0,
        1 => 0x7f00_0000_0000,
        _ => rng.random(),
    };
    let decoded = Decoded::new(&bytes, entry.wrapping_sub(bias)).map_err(|_| NoCase::NotEncoded)?;
    if matches!(decoded.support(), Support::Stops(_)) {
        return Err(NoCase::Stops);
    }
    if let Some(reason) = unfit(decoded.instruction()) {
        return Err(NoCase::Unfit(reason));
    }
    let bytes = bytes[..decoded.len()].to_vec();
    room.fill(0xcc);
    let at = (entry - start) as usize;
    room[at..at + bytes.len()].copy_from_slice(&bytes);
    let next = entry + bytes.len() as u64;
    for address in [stubs[0], next, stubs[1]] {
        let at = (address - start) as usize;
        room[at..at + STUB_BYTES].copy_from_slice(&stub(address));
    }
    slot.entry = entry;
    Ok(Case {
        decoded,
        bytes,
        entry,
        bias,
    })
}

impl Maker<'_> {
    /// The bytes of an instruction, its state prepared.
    fn instruction(&mut self, code: Code) -> Option<Vec<u8>> {
        self.state(code);
        self.address = None;
        let info = code.op_code();
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        if info.can_broadcast() && self.one_in(3) {
            instruction.set_is_broadcast(true);
        }
        for operand in 0..info.op_count() {
            self.operand(&mut instruction, info, operand);
        }
        let points =
            instruction.is_string_instruction() || instruction.mnemonic() == Mnemonic::Clzero;
        if points && self.one_in(8) {
            // With 32-bit addresses an offset cannot be negative, as those in GS would be.
            instruction.set_segment_prefix(Register::FS);
        }
        tune::tune(self, &instruction);
        self.decorations(&mut instruction, info);
        self.encode(&instruction)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    /// Registers, flags and data, of classes that suit the instruction.
    fn state(&mut self, code: Code) {
        let class = class_of(code);
        for i in 0..self.slot.before.vectors.len() {
            let suits = class.is_some() && !self.one_in(4);
            let block = match class {
                Some(class) if suits => self.pool.of(class, self.rng),
                _ => self.pool.any(self.rng),
            };
            self.slot.before.vectors[i] = *block;
        }
        for i in 0..DATA_BYTES / BLOCK {
            let block = match class {
                Some(class) if i % 2 == 0 => self.pool.of(class, self.rng),
                _ => self.pool.any(self.rng),
            };
            self.slot.data_before[i * BLOCK..(i + 1) * BLOCK].copy_from_slice(block);
        }
        let before = &mut self.slot.before;
        before.gpr.fill_with(|| values::integer(self.rng));
        before.masks.fill_with(|| values::integer(self.rng));
        // CF PF AF ZF SF OF; the direction flag is rarely set.
        before.rflags = self.rng.random::<u64>() & 0x8d5 | 2;
        before.rflags |= u64::from(self.rng.random_ratio(1, 4)) << 10;
        // All exceptions masked; any rounding, sometimes flush to zero and denormals are zeros.
        before.mxcsr = 0x1f80 | self.rng.random_range(0..4u32) << 13;
        if self.rng.random_ratio(1, 6) {
            before.mxcsr |= u32::from(self.rng.random::<bool>()) << 15;
            before.mxcsr |= u32::from(self.rng.random::<bool>()) << 6;
        }
        x87::make(&mut before.x87, self.rng);
        let stack = self.rng.random_range(1024..3072u64) & !7;
        let odd = u64::from(self.one_in(8));
        self.set(Register::RSP, DATA + stack + odd);
    }

    /// Sets a general register (all of it).
    pub(crate) fn set(&mut self, register: Register, value: u64) {
        self.slot.before.gpr[register.full_register().number() & 15] = value;
    }

    /// A general register (all of it).
    pub(crate) fn get(&self, register: Register) -> u64 {
        self.slot.before.gpr[register.full_register().number() & 15]
    }

    /// Writes to the data page, as far as it reaches.
    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = address.wrapping_sub(DATA).wrapping_add(i as u64) as usize;
            if let Some(place) = self.slot.data_before.get_mut(at) {
                *place = *byte;
            }
        }
    }

    /// Reads from the data page; zero beyond it.
    pub(crate) fn peek(&self, address: u64) -> u64 {
        let at = address.wrapping_sub(DATA) as usize;
        let bytes = self.slot.data_before.get(at..).unwrap_or_default();
        bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Prefixes, masks, rounding.
    fn decorations(&mut self, instruction: &mut Instruction, info: &OpCodeInfo) {
        let in_memory = instruction.op0_kind() == OpKind::Memory;
        let within = address::within_a_line(instruction.mnemonic(), self.reached(instruction));
        if info.can_use_lock_prefix() && in_memory && within && self.one_in(3) {
            instruction.set_has_lock_prefix(true);
        }
        let string = instruction.is_string_instruction();
        if info.can_use_rep_prefix() && (string && self.one_in(2) || self.one_in(16)) {
            instruction.set_has_rep_prefix(true);
        } else if info.can_use_repne_prefix() && (string && self.one_in(2) || self.one_in(16)) {
            instruction.set_has_repne_prefix(true);
        }
        let needs_mask = info.require_op_mask_register();
        if info.can_use_op_mask_register() && (needs_mask || self.one_in(2)) {
            instruction.set_op_mask(self.register(Register::K1, 7));
            if info.can_use_zeroing_masking() && !in_memory && self.one_in(2) {
                instruction.set_zeroing_masking(true);
            }
        }
        let no_memory = instruction.op_kinds().all(|kind| kind != OpKind::Memory);
        if no_memory && info.can_use_rounding_control() && self.one_in(3) {
            instruction.set_rounding_control(match self.rng.random_range(0..4) {
                0 => RoundingControl::RoundToNearest,
                1 => RoundingControl::RoundDown,
                2 => RoundingControl::RoundUp,
                _ => RoundingControl::RoundTowardZero,
            });
        } else if no_memory && info.can_suppress_all_exceptions() && self.one_in(3) {
            instruction.set_suppress_all_exceptions(true);
        }
    }

    /// Encodes it, with bits that mean nothing set at random and now and then a prefix that means
    /// nothing, or another thing.
    fn encode(&mut self, instruction: &Instruction) -> Option<Vec<u8>> {
        const PREFIXES: [u8; 11] = [
            0x66, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x40, 0x48, 0x4f, 0x41,
        ];
        let mut encoder = Encoder::new(64);
        let bits: u32 = self.rng.next_u32();
        encoder.set_prevent_vex2(bits & 1 != 0);
        encoder.set_vex_wig(bits >> 1 & 1);
        encoder.set_vex_lig(bits >> 2 & 1);
        encoder.set_evex_wig(bits >> 3 & 1);
        encoder.set_evex_lig((bits >> 4 & 3) % 3);
        // It may mean another address: not for what locks a cache line, see `within_a_line`.
        let locks = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
        let prefixed = !locks && (bits >> 8).is_multiple_of(12);
        let before = prefixed.then(|| PREFIXES[self.rng.random_range(0..PREFIXES.len())]);
        // A prefix moves the end of the instruction, from which addresses and targets count.
        let start = self.entry + u64::from(prefixed);
        encoder.encode(instruction, start).ok()?;
        let mut bytes: Vec<u8> = before.into_iter().collect();
        bytes.extend(encoder.take_buffer());
        // Some combinations of registers the decoder alone refuses.
        Decoded::new(&bytes, self.entry).is_ok().then_some(bytes)
    }
}

/// The class of values that an instruction works on, if it has one.
fn class_of(code: Code) -> Option<Class> {
    use Mnemonic as M;
    use iced_x86::MemorySize as S;
    let mut sample = Instruction::default();
    sample.set_code(code);
    let mnemonic = code.mnemonic();
    if matches!(
        mnemonic,
        M::Pcmpestri
            | M::Pcmpestrm
            | M::Pcmpistri
            | M::Pcmpistrm
            | M::Vpcmpestri
            | M::Vpcmpestrm
            | M::Vpcmpistri
            | M::Vpcmpistrm
    ) {
        return Some(Class::Text);
    }
    match sample.memory_size().element_type() {
        S::Float32 => Some(Class::Single),
        S::Float64 => Some(Class::Double),
        S::Float16 => Some(Class::Half),
        _ => None,
    }
}
