//! Where a decoded instruction's operands lie, worked out from the machine's state.

use iced_x86::OpKind;

use crate::decode::Decoded;
use crate::machine::{Machine, RAX};
use crate::operand::{AddressPart, OperandKind};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::{Parameter, ValueKinds};

impl Machine<'_> {
    /// Begins the instruction at a process address.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        decoded: &Decoded,
        pc: u64,
        bias: u64,
        mark: u32,
    ) -> Result<(), StopReason> {
        self.bias = bias;
        self.pc = pc;
        self.sink.reached(pc, mark);
        if decoded.reads_vectors() {
            self.sink.reads_vectors();
        }
        let compares = usize::from(decoded.compared > 0);
        self.events.begin(self.captures[compares]);
        if self.has_written(pc, decoded.len()) {
            return Err(StopReason::PageWritten);
        }
        self.address = None;
        if decoded.accesses_memory {
            self.find_address(decoded);
        }
        Ok(())
    }

    /// Works out where the explicit memory operand lies.
    #[inline]
    fn find_address(&mut self, decoded: &Decoded) {
        self.address = self.linear_address(decoded);
        if decoded.variable_address {
            self.events.add(Parameter::Ea, self.address);
            if self.events.wants(ValueKinds::BASE) {
                self.report_base(decoded);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn report_base(&mut self, decoded: &Decoded) {
        if let Some(base) = decoded.base {
            let base = self.registers.gpr[usize::from(base & 15)];
            let narrow = decoded.operands.address.is_narrow;
            self.event_of(Parameter::Base, base, if narrow { 4 } else { 8 });
        }
    }

    /// Process address of the instruction that follows.
    pub(crate) fn next_pc(&self, decoded: &Decoded) -> u64 {
        self.pc.wrapping_add(decoded.len() as u64)
    }

    /// Process address of a near branch's target.
    pub(crate) fn branch_target(&self, decoded: &Decoded) -> Result<u64, StopReason> {
        match decoded.operands.get(0).kind {
            OperandKind::NearBranch => Ok(decoded.operands.immediate.wrapping_add(self.bias)),
            // What goes elsewhere is no near branch of 64 bits.
            _ => Err(StopReason::Unsupported),
        }
    }

    /// An address [that is a sum](crate::operand::Address::is_sum), if all of it is known.
    #[inline]
    fn known_sum(&self, decoded: &Decoded) -> Option<u64> {
        let form = &decoded.operands.address;
        let mut sum = decoded.operands.displacement;
        let mut known = u8::MAX;
        match form.base {
            AddressPart::Register(number) => {
                let base = self.registers.gpr[usize::from(number & 15)];
                sum = sum.wrapping_add(base.known_bits());
                known &= base.known_bytes();
            }
            AddressPart::Rip => sum = sum.wrapping_add(self.bias),
            _ => {}
        }
        if let AddressPart::Register(number) = form.index {
            let index = self.registers.gpr[usize::from(number & 15)];
            sum = sum.wrapping_add(index.known_bits() << form.scale);
            known &= index.known_bytes();
        }
        (known == u8::MAX).then_some(sum)
    }

    /// The offset that a memory operand's registers and displacement make (what `lea` yields).
    #[inline]
    pub(crate) fn effective_address(&self, decoded: &Decoded) -> Word {
        if decoded.operands.address.is_sum
            && let Some(sum) = self.known_sum(decoded)
        {
            return Word::known(sum);
        }
        self.partial_address(decoded)
    }

    /// An address of any form, worked out byte by byte.
    #[inline(never)]
    fn partial_address(&self, decoded: &Decoded) -> Word {
        let form = decoded.operands.address;
        let mut displacement = decoded.operands.displacement;
        let base = match form.base {
            AddressPart::Register(number) => self.registers.gpr[usize::from(number & 15)],
            AddressPart::Nothing => Word::ZERO,
            AddressPart::Rip => {
                displacement = displacement.wrapping_add(self.bias);
                Word::ZERO
            }
            AddressPart::Al | AddressPart::Unknown => Word::UNKNOWN,
        };
        let mut address = base.wrapping_add(Word::known(displacement));
        match form.index {
            AddressPart::Register(number) => {
                let value = self.registers.gpr[usize::from(number & 15)];
                address = address.wrapping_add(value.scaled_up(form.scale));
            }
            AddressPart::Nothing => {}
            AddressPart::Al => address = address.wrapping_add(self.part(RAX, Width::B8)),
            AddressPart::Rip | AddressPart::Unknown => address = Word::UNKNOWN,
        }
        if form.is_narrow {
            address.truncate(Width::B32)
        } else {
            address
        }
    }

    /// The linear address of the explicit memory operand, if known.
    #[inline]
    pub(crate) fn linear_address(&self, decoded: &Decoded) -> Option<u64> {
        if decoded.operands.address.is_sum {
            return self.known_sum(decoded);
        }
        self.linear_address_beyond(decoded, 0)
    }

    /// The linear address so many bytes beyond the explicit memory operand, if known.
    #[inline(never)]
    pub(crate) fn linear_address_beyond(&self, decoded: &Decoded, bytes: u64) -> Option<u64> {
        let form = decoded.operands.address;
        let base = self.segment_base(form.segment)?;
        let mut offset = self.effective_address(decoded).all()?.wrapping_add(bytes);
        if form.is_narrow {
            offset &= Width::B32.mask();
        }
        Some(offset.wrapping_add(base))
    }

    /// Where a jump that is not interpreted would lead, if known.
    pub(crate) fn peek_jump(&mut self, decoded: &Decoded, bias: u64) -> Option<u64> {
        self.bias = bias;
        let instruction = decoded.instruction();
        match instruction.op0_kind() {
            OpKind::NearBranch64 => self.branch_target(decoded).ok(),
            OpKind::Register => self.register(instruction.op0_register()).all(),
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                let address = self.linear_address(decoded)?;
                self.load_known(address, Width::B64).all()
            }
            _ => None,
        }
    }

    /// Whether the first two operands are the same register.
    #[inline]
    pub(crate) fn same_register(decoded: &Decoded) -> bool {
        decoded.same_register
    }
}
