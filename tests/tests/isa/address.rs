//! Memory operands, of every form, that lead into the data page.

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};
use rand::RngExt as _;

use crate::generate::Maker;
use crate::native::{DATA, DATA_BYTES, SEGMENT_BASES};
use crate::values;

/// What a memory operand may look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddressForm {
    /// Any form.
    Plain,
    /// An absolute address alone.
    Offset,
    /// With a vector index, whose lanes have so many bytes.
    Lanes(Register, usize),
}

impl Maker<'_> {
    /// Gives an operand a memory address, and the registers in it the values that lead there.
    pub(crate) fn memory(
        &mut self,
        instruction: &mut Instruction,
        operand: u32,
        place: AddressForm,
    ) {
        instruction.set_op_kind(operand, OpKind::Memory);
        let linear = self.linear(instruction);
        self.address = Some(linear);
        let narrow = place == AddressForm::Plain && self.one_in(6);
        let mut offset = linear;
        if self.one_in(8) {
            // With 32-bit addresses an offset cannot be negative.
            let segment = usize::from(!narrow && self.one_in(2));
            instruction.set_segment_prefix([Register::FS, Register::GS][segment]);
            offset = linear.wrapping_sub(SEGMENT_BASES[segment]);
        } else if self.one_in(12) {
            let ignored = [Register::CS, Register::DS, Register::ES, Register::SS];
            instruction.set_segment_prefix(ignored[self.rng.random_range(0..4)]);
        }
        match place {
            AddressForm::Offset => {
                instruction.set_memory_displacement64(offset);
                instruction.set_memory_displ_size(8);
            }
            AddressForm::Plain => self.plain(instruction, offset, narrow),
            AddressForm::Lanes(index, bytes) => self.lanes(instruction, offset, index, bytes),
        }
    }

    /// The address that the registers lead to in the end; those of an address may be operands, too.
    pub(crate) fn reached(&self, instruction: &Instruction) -> u64 {
        let address = instruction.virtual_address(0, 0, |register, _, _| match register {
            Register::FS => Some(SEGMENT_BASES[0]),
            Register::GS => Some(SEGMENT_BASES[1]),
            _ if register.is_segment_register() => Some(0),
            _ if register.is_gpr() => {
                Some(self.get(register) & u64::MAX >> (64 - 8 * register.size()))
            }
            // Lanes of a vector: no one address.
            _ => None,
        });
        address.unwrap_or(0)
    }

    /// An address in the data page, seldom at or over its edge.
    fn linear(&mut self, instruction: &Instruction) -> u64 {
        let size = match instruction.memory_size().size() {
            0 => 128,
            size => size,
        };
        let last = DATA_BYTES - size;
        let offset = self.rng.random_range(0..=last) as u64;
        if instruction.mnemonic() == Mnemonic::Xchg {
            // It is atomic without a prefix.
            return DATA
                + if within_a_line(Mnemonic::Xchg, offset) {
                    offset
                } else {
                    offset & !63
                };
        }
        if self.one_in(64) {
            return DATA + last as u64 + self.rng.random_range(0..8);
        }
        let wants_aligned = size >= 16
            && match instruction.code().op_code().encoding() {
                EncodingKind::Legacy => !self.one_in(12),
                _ => !self.one_in(3),
            };
        DATA + if wants_aligned { offset & !63 } else { offset }
    }

    /// Base, index, displacement in all combinations.
    fn plain(&mut self, instruction: &mut Instruction, offset: u64, narrow: bool) {
        let first = if narrow { Register::EAX } else { Register::RAX };
        let width = if narrow { 4 } else { 8 };
        let form = self.rng.random_range(0..10);
        if form == 0 {
            let pointer = if narrow { Register::EIP } else { Register::RIP };
            instruction.set_memory_base(pointer);
            instruction.set_memory_displacement64(offset);
            instruction.set_memory_displ_size(width);
            return;
        }
        let displacement = match self.rng.random_range(0..4) {
            0 => 0,
            1 => i64::from(self.rng.random::<i8>()),
            2 => i64::from(self.rng.random::<i8>()) * 64,
            _ => i64::from(self.rng.random::<i32>()),
        };
        let size = if displacement == 0 && self.one_in(2) {
            0
        } else {
            // 1: as short as may be.
            [1, width][self.rng.random_range(0..2)]
        };
        let base = first + self.rng.random_range(0..16u32);
        // The number of rsp stands for no index.
        let index = loop {
            let index = first + self.rng.random_range(0..16u32);
            if index.number() != 4 {
                break index;
            }
        };
        let scale = 1u64 << self.rng.random_range(0..4);
        let factor = if self.one_in(2) {
            self.rng.random_range(0..64)
        } else {
            values::integer(self.rng)
        };
        match form {
            // No base: the displacement has to do it.
            1 | 2 => {
                let rest = if form == 1 {
                    offset
                } else {
                    let small = factor & 0xff;
                    self.set_part(index, small, narrow);
                    instruction.set_memory_index(index);
                    instruction.set_memory_index_scale(scale as u32);
                    offset.wrapping_sub(small.wrapping_mul(scale))
                };
                instruction.set_memory_displacement64(cut(rest, narrow));
                instruction.set_memory_displ_size(width);
            }
            3..=5 => {
                self.set_part(
                    base,
                    offset.wrapping_sub(displacement.cast_unsigned()),
                    narrow,
                );
                instruction.set_memory_base(base);
                self.displace(instruction, displacement, size, narrow);
            }
            _ if base == index => {
                let small = factor & 0xff;
                self.set_part(base, small, narrow);
                instruction.set_memory_base(base);
                instruction.set_memory_index(index);
                instruction.set_memory_index_scale(scale as u32);
                let rest = offset.wrapping_sub(small.wrapping_mul(scale + 1));
                instruction.set_memory_displacement64(cut(rest, narrow));
                instruction.set_memory_displ_size(width);
            }
            _ => {
                self.set_part(index, factor, narrow);
                let rest = offset
                    .wrapping_sub(displacement.cast_unsigned())
                    .wrapping_sub(factor.wrapping_mul(scale));
                self.set_part(base, rest, narrow);
                instruction.set_memory_base(base);
                instruction.set_memory_index(index);
                instruction.set_memory_index_scale(scale as u32);
                self.displace(instruction, displacement, size, narrow);
            }
        }
    }

    fn displace(&self, instruction: &mut Instruction, value: i64, size: u32, narrow: bool) {
        instruction.set_memory_displacement64(cut(value.cast_unsigned(), narrow));
        instruction.set_memory_displ_size(size);
    }

    /// Sets a register of an address; if the address is narrow, its upper half stays as it is.
    fn set_part(&mut self, register: Register, value: u64, narrow: bool) {
        let upper = if narrow {
            self.get(register) & !u64::from(u32::MAX)
        } else {
            0
        };
        self.set(register, upper | cut(value, narrow));
    }

    /// A base and lanes that lead near to it.
    fn lanes(&mut self, instruction: &mut Instruction, offset: u64, index: Register, bytes: usize) {
        let scale = 1u32 << self.rng.random_range(0..4u32);
        let base = Register::RAX + self.rng.random_range(0..16u32);
        let displacement = i64::from(self.rng.random::<i8>());
        let middle = offset & !0xfff | 0x800;
        self.set(base, middle.wrapping_sub(displacement.cast_unsigned()));
        let reach = 1800 / scale as i64;
        let lane = |value: i64| value.to_le_bytes();
        for i in 0..64 / bytes {
            let value = lane(self.rng.random_range(-reach..reach));
            let register = &mut self.slot.before.vectors[index.number() & 31];
            register[i * bytes..(i + 1) * bytes].copy_from_slice(&value[..bytes]);
        }
        instruction.set_memory_base(base);
        instruction.set_memory_index(index);
        instruction.set_memory_index_scale(scale);
        self.displace(instruction, displacement, 1, false);
    }
}

/// Whether the operand of an atomic instruction there lies within a cache line, whatever its size.
/// Others lock the bus, which takes a good part of a second where that traps. Bit strings move by
/// multiples of their width.
pub(crate) fn within_a_line(mnemonic: Mnemonic, address: u64) -> bool {
    let moves = matches!(mnemonic, Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
    address.is_multiple_of(8) || !moves && address & 63 <= 48
}

/// An offset of an address size.
fn cut(value: u64, narrow: bool) -> u64 {
    if narrow {
        value & u64::from(u32::MAX)
    } else {
        value
    }
}
