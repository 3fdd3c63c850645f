//! What single instructions load, and do to registers and memory, as expressions.

use iced_x86::{Code, ConditionCode, Instruction, Mnemonic, OpAccess, OpKind, Register};

use super::symbol::Sum;
use super::walk::{Stored, Symbol, Walk, Way};
use super::wire::{MAX_STEP_BYTES, Operation, Part};
use crate::machine::{RAX, RBP, RSP};

/// Stores that a way remembers.
const MAX_STORES: usize = 24;

/// Whether a register, not one of the high bytes, holds a bit.
fn has_bit(way: &Way, register: Register) -> bool {
    let number = register.full_register().number() & 15;
    register.is_gpr() && !is_high_byte(register) && way.bits >> number & 1 != 0
}

/// Takes note that the register which is the first operand holds one.
fn note_bit(way: &mut Way, i: &Instruction) {
    let register = i.op0_register();
    if i.op0_kind() == OpKind::Register && register.is_gpr() && !is_high_byte(register) {
        way.bits |= 1 << (register.full_register().number() & 15);
    }
}

fn is_high_byte(register: Register) -> bool {
    use Register as R;
    matches!(register, R::AH | R::CH | R::DH | R::BH)
}

impl Walk<'_, '_> {
    /// An instruction that the interpreter executes; returns the target of an indirect branch.
    pub(super) fn interpreted(&mut self, way: &mut Way, i: &Instruction) -> Symbol {
        use Mnemonic as M;
        match i.mnemonic() {
            M::Mov | M::Movnti | M::Movzx => {
                let value = self.operand(way, i, 1);
                let is_bit = i.op1_kind() == OpKind::Register && has_bit(way, i.op1_register());
                self.write(way, i, value);
                if is_bit {
                    note_bit(way, i);
                }
            }
            M::Movsx | M::Movsxd => {
                let value = self.signed_operand(way, i);
                self.write(way, i, value);
            }
            M::Cdqe => {
                let rax = way.registers[RAX];
                way.registers[RAX] =
                    rax.and_then(|rax| self.notes.part(rax, Part::signed(4), way.rank));
            }
            M::Lea => {
                let value = self.address(way, i);
                self.write(way, i, value);
            }
            M::Add
            | M::Sub
            | M::Inc
            | M::Dec
            | M::Neg
            | M::Not
            | M::And
            | M::Or
            | M::Xor
            | M::Shl
            | M::Sal
            | M::Shr
            | M::Sar
            | M::Imul => self.arithmetic(way, i),
            M::Xchg if i.op0_kind() == OpKind::Register && i.op1_kind() == OpKind::Register => {
                let (a, b) = (self.operand(way, i, 0), self.operand(way, i, 1));
                self.write_register(way, i.op0_register(), b);
                self.write_register(way, i.op1_register(), a);
            }
            M::Push => {
                let value = self.operand(way, i, 0);
                self.push(way, stack_bytes(i), value);
            }
            M::Pop => {
                let value = self.pop(way, stack_bytes(i));
                self.write(way, i, value);
            }
            M::Leave if i.code() == Code::Leaveq => {
                way.registers[RSP] = way.registers[RBP];
                way.registers[RBP] = self.pop(way, 8);
            }
            M::Call => {
                let indirect = matches!(i.op0_kind(), OpKind::Register | OpKind::Memory);
                let target = if indirect {
                    self.operand(way, i, 0)
                } else {
                    None
                };
                let back = self.in_image(i.next_ip());
                self.push(way, 8, Some(back));
                return target;
            }
            M::Jmp if matches!(i.op0_kind(), OpKind::Register | OpKind::Memory) => {
                return self.operand(way, i, 0);
            }
            // They write flags alone, which are not followed.
            M::Cmp | M::Test => {
                self.operand(way, i, 0);
                self.operand(way, i, 1);
            }
            // Only one with two operands, of the instructions with a condition, is a move.
            _ if i.condition_code() != ConditionCode::None && i.op_count() == 2 => {
                self.conditional_move(way, i);
            }
            M::Nop | M::Endbr64 => {}
            M::Rdfsbase => self.write(way, i, way.bases[0]),
            M::Rdgsbase => self.write(way, i, way.bases[1]),
            M::Wrfsbase => way.bases[0] = self.operand(way, i, 0),
            M::Wrgsbase => way.bases[1] = self.operand(way, i, 0),
            _ if i.is_jcc_short_or_near() => {}
            // `sete` and its like, which mostly find zeros in the rest of their register, or have them put
            // there next.
            _ if i.condition_code() != ConditionCode::None && i.op0_kind() == OpKind::Register => {
                self.write(way, i, None);
                note_bit(way, i);
            }
            M::Ret => {
                let target = self.pop(way, 8);
                let released = i.try_immediate(0).unwrap_or(0);
                way.registers[RSP] = way.registers[RSP].map(|rsp| rsp.plus(released));
                return target;
            }
            _ => self.others(way, i, true),
        }
        None
    }

    /// A move that may not be done: addresses are often made of what one of both is, so the way goes
    /// on with what is moved, and another one with what was there.
    fn conditional_move(&mut self, way: &mut Way, i: &Instruction) {
        let (kept, moved) = (self.operand(way, i, 0), self.operand(way, i, 1));
        let register = i.op0_register();
        self.write_register(way, register, kept);
        let number = register.full_register().number() & 15;
        let kept = way.registers[number];
        self.write_register(way, register, moved);
        if way.registers[number] != kept {
            self.choice = Some((number, kept));
        }
    }

    /// Arithmetic that plans can do, on registers of 32 and 64 bits.
    fn arithmetic(&mut self, way: &mut Way, i: &Instruction) {
        use Mnemonic as M;
        let rank = way.rank;
        let same = i.op_count() == 2
            && i.op1_kind() == OpKind::Register
            && i.op0_register() == i.op1_register();
        if same && matches!(i.mnemonic(), M::Xor | M::Sub) {
            return self.write(way, i, Some(Sum::constant(0)));
        }
        let to_register = i.op0_kind() == OpKind::Register && i.op0_register().size() >= 4;
        if !to_register || i.op_count() == 1 && i.mnemonic() == M::Imul {
            return self.others(way, i, true);
        }
        let bytes = i.op0_register().size() as u8;
        let first = u32::from(i.op_count() == 3);
        let mut a = self.operand(way, i, first);
        // One that is implied is unknown, or does not matter.
        let b = if i.op_count() > 1 {
            self.operand(way, i, first + 1)
        } else {
            None
        };
        let shifts = matches!(i.mnemonic(), M::Shl | M::Sal | M::Shr | M::Sar);
        let (b, count) = if shifts {
            let count = b
                .and_then(Sum::as_constant)
                .map(|by| by & u64::from(bytes * 8 - 1));
            (count.map(Sum::constant), count)
        } else {
            (b, None)
        };
        if i.mnemonic() == M::Sar {
            a = a.and_then(|a| self.notes.part(a, Part::signed(bytes), rank));
        }
        let mut join = |operation| {
            a.zip(b)
                .and_then(|(a, b)| self.notes.joined(operation, a, b, rank))
        };
        let constant = b.and_then(Sum::as_constant);
        let value = match (i.mnemonic(), constant) {
            (M::Inc, _) => a.map(|a| a.plus(1)),
            (M::Dec, _) => a.map(|a| a.plus(u64::MAX)),
            (M::Neg, _) => a.and_then(|a| {
                let zero = Sum::constant(0);
                self.notes.joined(Operation::Sub, zero, a, rank)
            }),
            (M::Not, _) => a.and_then(|a| {
                let ones = Sum::constant(u64::MAX);
                self.notes.joined(Operation::Xor, a, ones, rank)
            }),
            (M::Add, _) => a.zip(b).and_then(|(a, b)| self.notes.added(a, b, rank)),
            (M::Sub, Some(by)) => a.map(|a| a.plus(by.wrapping_neg())),
            (M::Sub, None) => join(Operation::Sub),
            (M::And, Some(0)) => b,
            (M::And, Some(0xff)) => a.and_then(|a| self.notes.part(a, Part::low(1), rank)),
            (M::And, Some(0xffff)) => a.and_then(|a| self.notes.part(a, Part::low(2), rank)),
            (M::And, _) => join(Operation::And),
            (M::Or, _) => join(Operation::Or),
            (M::Xor, _) => join(Operation::Xor),
            (M::Shr, _) => join(Operation::Shr),
            (M::Sar, _) => join(Operation::Sar),
            (M::Imul, Some(by)) if by.is_power_of_two() => {
                let by = by.trailing_zeros() as u8;
                a.and_then(|a| self.notes.shifted(a, by, rank))
            }
            (M::Imul, _) => join(Operation::Mul),
            _ => a
                .zip(count)
                .and_then(|(a, by)| self.notes.shifted(a, by as u8, rank)),
        };
        self.write(way, i, value);
    }

    /// Any other instruction: forgets what it writes, and notes its loads if they are of use.
    pub(super) fn others(&mut self, way: &mut Way, i: &Instruction, loads: bool) {
        let info = self.factory.info(i);
        let mut written = 0_u16;
        for used in info.used_registers() {
            if writes(used.access()) && used.register().is_gpr() {
                written |= 1 << (used.register().full_register().number() & 15);
            }
        }
        let memory = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Memory);
        let access = memory.map_or(OpAccess::None, |n| info.op_access(n));
        // Loads without a ModRM operand: string instructions and the like.
        let implicit: Vec<_> = info
            .used_memory()
            .iter()
            .filter(|used| loads && memory.is_none() && reads(used.access()))
            .copied()
            .collect();
        if let Some(operand) = memory {
            if loads && reads(access) {
                self.operand(way, i, operand);
            }
            if writes(access) {
                self.store(way, i, None);
            }
        }
        for used in implicit {
            if i.has_rep_prefix() || i.has_repne_prefix() {
                self.account.repeated += 1;
                continue;
            }
            let base = self.register(way, used.base());
            let index = self.register(way, used.index());
            let address = self.address_of(way, base, index, used.scale(), used.displacement());
            let address = self.in_segment(way, address, used.segment());
            self.load(way, address, used.memory_size().size(), false);
        }
        for (number, register) in way.registers.iter_mut().enumerate() {
            if written >> number & 1 != 0 {
                *register = None;
            }
        }
        way.bits &= !written;
    }

    // Operands.

    /// A general register as an operand, zero-extended; no register is zero.
    fn register(&mut self, way: &Way, register: Register) -> Symbol {
        if register == Register::None {
            return Some(Sum::constant(0));
        }
        let high = matches!(
            register,
            Register::AH | Register::BH | Register::CH | Register::DH
        );
        if !register.is_gpr() || high {
            return None;
        }
        let whole = way.registers[register.full_register().number() & 15]?;
        self.notes
            .part(whole, Part::low(register.size() as u8), way.rank)
    }

    /// The offset that the memory operand's registers and displacement make.
    fn address(&mut self, way: &Way, i: &Instruction) -> Symbol {
        let displacement = i.memory_displacement64();
        if i.memory_base() == Register::RIP {
            return Some(self.in_image(displacement));
        }
        if i.memory_base() == Register::EIP || i.is_vsib() {
            return None;
        }
        let base = self.register(way, i.memory_base());
        let index = self.register(way, i.memory_index());
        let scale = i.memory_index_scale();
        let sum = self.address_of(way, base, index, scale, displacement)?;
        if i.memory_base().is_gpr32() || i.memory_index().is_gpr32() {
            return self.notes.part(sum, Part::LOW_32, way.rank);
        }
        Some(sum)
    }

    fn address_of(
        &mut self,
        way: &Way,
        base: Symbol,
        index: Symbol,
        scale: impl TryInto<u32>,
        displacement: u64,
    ) -> Symbol {
        let scale = scale.try_into().ok().unwrap_or(1_u32).trailing_zeros() as u8;
        let index = self.notes.shifted(index?, scale, way.rank)?;
        let sum = self.notes.added(base?, index, way.rank)?;
        Some(sum.plus(displacement))
    }

    /// An offset with the base of its segment.
    fn in_segment(&mut self, way: &Way, offset: Symbol, segment: Register) -> Symbol {
        let base = match segment {
            Register::FS => way.bases[0],
            Register::GS => way.bases[1],
            _ => return offset,
        };
        self.notes.added(offset?, base?, way.rank)
    }

    /// The explicit memory operand's address.
    fn linear(&mut self, way: &Way, i: &Instruction) -> Symbol {
        let mut offset = self.address(way, i);
        // Bit strings reach beyond their operand.
        let bits = matches!(
            i.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        );
        if bits && i.op1_kind() == OpKind::Register {
            offset = None;
        }
        self.in_segment(way, offset, i.memory_segment())
    }

    /// An operand that is read, zero-extended.
    pub(super) fn operand(&mut self, way: &mut Way, i: &Instruction, operand: u32) -> Symbol {
        match i.op_kind(operand) {
            OpKind::Register => self.register(way, i.op_register(operand)),
            OpKind::Memory => {
                let address = self.linear(way, i);
                self.load(way, address, i.memory_size().size(), false)
            }
            _ => i.try_immediate(operand).ok().map(Sum::constant),
        }
    }

    /// The second operand, sign-extended.
    fn signed_operand(&mut self, way: &mut Way, i: &Instruction) -> Symbol {
        match i.op1_kind() {
            OpKind::Register => {
                let register = i.op1_register();
                let value = self.register(way, register)?;
                let part = Part::signed(register.size() as u8);
                self.notes.part(value, part, way.rank)
            }
            OpKind::Memory => {
                let address = self.linear(way, i);
                self.load(way, address, i.memory_size().size(), true)
            }
            _ => None,
        }
    }

    /// Writes the first operand.
    fn write(&mut self, way: &mut Way, i: &Instruction, value: Symbol) {
        match i.op0_kind() {
            OpKind::Register => self.write_register(way, i.op0_register(), value),
            OpKind::Memory => self.store(way, i, value),
            _ => {}
        }
    }

    /// Four bytes clear the upper half; fewer leave the rest, which is not followed.
    fn write_register(&mut self, way: &mut Way, register: Register, value: Symbol) {
        let value = match register.size() {
            8 => value,
            4 => value.and_then(|value| self.notes.part(value, Part::LOW_32, way.rank)),
            _ => None,
        };
        if register.is_gpr() {
            let number = register.full_register().number() & 15;
            way.registers[number] = value;
            way.bits &= !(1 << number);
        }
    }

    // Memory.

    /// A load: from what the way stored, or noted.
    fn load(&mut self, way: &Way, address: Symbol, size: usize, signed: bool) -> Symbol {
        let bytes = u8::try_from(size).unwrap_or(u8::MAX);
        let Some(address) = address.filter(|_| (1..=MAX_STEP_BYTES).contains(&size)) else {
            self.account.unknown += 1;
            return None;
        };
        let part = if signed {
            Part::signed(bytes)
        } else {
            Part::low(bytes)
        };
        let mut newest = true;
        for stored in way.stores.iter().rev() {
            let Some(distance) = address.distance(stored.address) else {
                continue;
            };
            let behind = distance.wrapping_neg();
            if distance.saturating_add(u64::from(bytes)) <= u64::from(stored.size) {
                self.account.stored += 1;
                let exact = newest && distance == 0;
                let value = stored.value.filter(|_| exact)?;
                return self.notes.part(value, part, way.rank);
            }
            if distance < u64::from(stored.size) || behind < u64::from(bytes) {
                newest = false;
            }
        }
        self.notes.load(address, bytes, part, way.rank)
    }

    /// A store to the explicit memory operand.
    fn store(&mut self, way: &mut Way, i: &Instruction, value: Symbol) {
        let address = self.linear(way, i);
        self.store_at(way, address, i.memory_size().size(), value);
    }

    fn store_at(&mut self, way: &mut Way, address: Symbol, size: usize, value: Symbol) {
        if let (Some(address), Ok(size)) = (address, u8::try_from(size))
            && way.stores.len() < MAX_STORES
        {
            way.stores.push(Stored {
                address,
                size,
                value,
            });
        }
    }

    fn push(&mut self, way: &mut Way, bytes: u64, value: Symbol) {
        let rsp = way.registers[RSP].map(|rsp| rsp.plus(bytes.wrapping_neg()));
        way.registers[RSP] = rsp;
        self.store_at(way, rsp, bytes as usize, value);
    }

    fn pop(&mut self, way: &mut Way, bytes: u64) -> Symbol {
        let rsp = way.registers[RSP];
        let value = self.load(way, rsp, bytes as usize, false);
        way.registers[RSP] = rsp.map(|rsp| rsp.plus(bytes));
        value
    }
}

/// Bytes that a push or pop moves rsp by.
fn stack_bytes(i: &Instruction) -> u64 {
    u64::from(i.stack_pointer_increment().unsigned_abs())
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}
