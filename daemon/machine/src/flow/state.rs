//! What registers and the stack hold along one way through code, in terms of the way's start.

use iced_x86::{
    Code, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register,
};

/// Number of rax among the general registers.
const RAX: usize = 0;
/// Number of rsp.
pub(super) const RSP: usize = 4;
/// Number of rbp.
pub(super) const RBP: usize = 5;
/// The registers that a called function gives back as they were: rbx rsp rbp r12 to r15.
const PRESERVED: [usize; 7] = [3, RSP, RBP, 12, 13, 14, 15];
/// Words of the stack whose contents are kept apart on one way.
const MAX_STORED: usize = 128;
/// Numbers of the system calls that do not come back: `rt_sigreturn`, `exit`, `exit_group`.
const NO_RETURN: [i64; 3] = [15, 60, 231];

/// A value in terms of the start of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symbol {
    /// Nothing is known of it.
    Unknown,
    /// What this general register held, and so much.
    Sum(u8, i64),
    /// The word that memory held at such a sum.
    Word(u8, i64),
    /// A number.
    Number(i64),
}

impl Symbol {
    /// The value and so much more.
    fn plus(self, more: i64) -> Self {
        match self {
            Self::Sum(register, offset) => Self::Sum(register, offset.wrapping_add(more)),
            Self::Number(number) => Self::Number(number.wrapping_add(more)),
            Self::Unknown | Self::Word(..) => Self::Unknown,
        }
    }
}

/// The place of a word: this register's first value, and so much.
type StackSlot = (u8, i64);

/// How an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    /// To the next one.
    Next,
    /// To the next one, after a function that was called.
    Called,
    /// To an address, and nowhere else.
    Jump(u64),
    /// To an address or the next one.
    Branch(u64),
    /// Through a word that the code names by its address: a stub, or a tail call.
    Leave,
    /// Through a register, or through memory that is not named: a table within the function, or
    /// a tail call.
    Somewhere,
    /// A return, to what this word held at the start.
    Return(Option<StackSlot>),
    /// Nowhere.
    End,
}

/// Registers and stack.
#[derive(Clone, Debug)]
pub(super) struct FlowState {
    registers: [Symbol; 16],
    /// What was stored since the start.
    stored: Vec<(StackSlot, Symbol)>,
}

impl FlowState {
    /// That of the start.
    pub(super) fn start() -> Self {
        // The cast is exact: there are sixteen.
        Self {
            registers: std::array::from_fn(|i| Symbol::Sum(i as u8, 0)),
            stored: Vec::new(),
        }
    }

    /// What a general register holds.
    pub(super) fn register(&self, number: usize) -> Symbol {
        self.registers[number & 15]
    }

    /// Follows an instruction.
    pub(super) fn step(
        &mut self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Successor {
        let to = || instruction.near_branch_target();
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = self.operand(instruction, 0);
                self.push(value);
                Successor::Next
            }
            Mnemonic::Pushfq => {
                self.push(Symbol::Unknown);
                Successor::Next
            }
            Mnemonic::Pop => {
                let value = self.pop();
                match general(instruction.op0_register()) {
                    Some(number) if instruction.op0_kind() == OpKind::Register => {
                        self.registers[number] = value;
                    }
                    _ => self.forget_written(instruction, factory),
                }
                Successor::Next
            }
            Mnemonic::Popfq => {
                self.pop();
                Successor::Next
            }
            Mnemonic::Mov => {
                self.mov(instruction, factory);
                Successor::Next
            }
            Mnemonic::Lea => {
                let sum = self.address(instruction);
                self.write(instruction, factory, sum);
                Successor::Next
            }
            Mnemonic::Add | Mnemonic::Sub => {
                let more = instruction.try_immediate(1).ok().map(u64::cast_signed);
                let sum = more.map_or(Symbol::Unknown, |more| {
                    let negative = instruction.mnemonic() == Mnemonic::Sub;
                    let more = if negative { more.wrapping_neg() } else { more };
                    self.operand(instruction, 0).plus(more)
                });
                self.write(instruction, factory, sum);
                Successor::Next
            }
            Mnemonic::Leave => {
                self.registers[RSP] = self.registers[RBP];
                self.registers[RBP] = self.pop();
                Successor::Next
            }
            Mnemonic::Call if instruction.op0_kind() == OpKind::NearBranch64 => {
                if to() == instruction.next_ip() {
                    // That is how code finds out where it is.
                    self.push(Symbol::Unknown);
                    return Successor::Next;
                }
                self.called();
                Successor::Called
            }
            Mnemonic::Call => {
                self.called();
                Successor::Called
            }
            Mnemonic::Ret => Successor::Return(self.returns()),
            Mnemonic::Jmp if instruction.op0_kind() == OpKind::NearBranch64 => {
                Successor::Jump(to())
            }
            Mnemonic::Jmp if instructions::jumps_through_slot(instruction) => Successor::Leave,
            Mnemonic::Jmp => Successor::Somewhere,
            Mnemonic::Syscall => {
                let number = self.registers[RAX];
                for number in [RAX, 1, 11] {
                    self.registers[number] = Symbol::Unknown;
                }
                match number {
                    Symbol::Number(number) if NO_RETURN.contains(&number) => Successor::End,
                    _ => Successor::Next,
                }
            }
            Mnemonic::Hlt
            | Mnemonic::Int3
            | Mnemonic::Int
            | Mnemonic::Ud0
            | Mnemonic::Ud1
            | Mnemonic::Ud2
            | Mnemonic::INVALID
            | Mnemonic::Iretq
            | Mnemonic::Iretd
            | Mnemonic::Iret
            | Mnemonic::Retf
            | Mnemonic::Sysretq
            | Mnemonic::Sysret
            | Mnemonic::Enter => Successor::End,
            _ if instruction.is_jcc_short_or_near()
                || instruction.is_jcx_short()
                || instruction.is_loop()
                || instruction.is_loopcc() =>
            {
                self.forget_written(instruction, factory);
                Successor::Branch(to())
            }
            _ => {
                self.forget_written(instruction, factory);
                Successor::Next
            }
        }
    }

    /// The slot of the return address, where a return goes by a word of the start.
    pub(super) fn returns(&self) -> Option<StackSlot> {
        match self.registers[RSP] {
            Symbol::Sum(register, offset) => match self.load((register, offset)) {
                // What the word is may have been moved on the way.
                Symbol::Word(register, offset) => Some((register, offset)),
                _ => None,
            },
            _ => None,
        }
    }

    fn called(&mut self) {
        for number in (0..16).filter(|number| !PRESERVED.contains(number)) {
            self.registers[number] = Symbol::Unknown;
        }
    }

    fn push(&mut self, value: Symbol) {
        self.registers[RSP] = self.registers[RSP].plus(-8);
        self.store(self.registers[RSP], value, 8);
    }

    fn pop(&mut self) -> Symbol {
        let top = self.registers[RSP];
        self.registers[RSP] = top.plus(8);
        match top {
            Symbol::Sum(register, offset) => self.load((register, offset)),
            _ => Symbol::Unknown,
        }
    }

    fn mov(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let value = self.operand(instruction, 1);
        if instruction.op0_kind() == OpKind::Memory {
            let bytes = instruction.memory_size().size();
            self.store(self.address(instruction), value, bytes);
        } else {
            self.write(instruction, factory, value);
        }
    }

    /// Gives the first operand this value if it is a whole general register; else forgets what
    /// the instruction writes.
    fn write(
        &mut self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
        value: Symbol,
    ) {
        let whole = (instruction.op0_kind() == OpKind::Register)
            .then(|| instruction.op0_register())
            .and_then(general);
        let narrow = match (instruction.code(), value) {
            // A small number has zeros above it.
            (Code::Mov_r32_imm32, Symbol::Number(number)) => {
                let number = i64::from(number as u32);
                Some((instruction.op0_register(), Symbol::Number(number)))
            }
            _ => None,
        };
        match (whole, narrow) {
            (Some(number), _) => self.registers[number] = value,
            (None, Some((register, value))) => {
                if let Some(number) = general(register.full_register()) {
                    self.registers[number] = value;
                }
            }
            (None, None) => self.forget_written(instruction, factory),
        }
    }

    /// Forgets all that an instruction writes.
    fn forget_written(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let address = self.address(instruction);
        let info = factory.info(instruction);
        let writes = |access| {
            !matches!(
                access,
                OpAccess::None | OpAccess::Read | OpAccess::NoMemAccess
            )
        };
        for used in info.used_registers() {
            if writes(used.access())
                && let Some(number) = general(used.register().full_register())
            {
                self.registers[number] = Symbol::Unknown;
            }
        }
        if info.used_memory().iter().any(|used| writes(used.access())) {
            let size = instruction.memory_size();
            let bytes = if size == MemorySize::Unknown {
                64
            } else {
                size.size()
            };
            self.store(address, Symbol::Unknown, bytes);
        }
    }

    /// The value of an operand of eight bytes, or of an immediate.
    fn operand(&self, instruction: &Instruction, number: u32) -> Symbol {
        match instruction.op_kind(number) {
            OpKind::Register => general(instruction.op_register(number))
                .map_or(Symbol::Unknown, |number| self.registers[number]),
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                match self.address(instruction) {
                    Symbol::Sum(register, offset) => self.load((register, offset)),
                    _ => Symbol::Unknown,
                }
            }
            _ => instruction
                .try_immediate(number)
                .map_or(Symbol::Unknown, |value| Symbol::Number(value.cast_signed())),
        }
    }

    /// The address of the memory operand.
    fn address(&self, instruction: &Instruction) -> Symbol {
        let plain = instruction.memory_index() == Register::None
            && instruction.segment_prefix() == Register::None;
        match general(instruction.memory_base()) {
            Some(base) if plain => {
                let displacement = instruction.memory_displacement64().cast_signed();
                self.registers[base].plus(displacement)
            }
            _ => Symbol::Unknown,
        }
    }

    fn load(&self, (register, offset): StackSlot) -> Symbol {
        let distance = |of: i64| offset.wrapping_sub(of);
        let mut overlapping = self
            .stored
            .iter()
            .filter(|((of, at), _)| *of == register && (-7..8).contains(&distance(*at)));
        match (overlapping.next(), overlapping.next()) {
            (None, _) if usize::from(register) == RSP || usize::from(register) == RBP => {
                Symbol::Word(register, offset)
            }
            (Some(((_, at), value)), None) if *at == offset => *value,
            _ => Symbol::Unknown,
        }
    }

    fn store(&mut self, address: Symbol, value: Symbol, bytes: usize) {
        let Symbol::Sum(register, offset) = address else {
            // Somewhere else: return addresses are not written through pointers.
            return;
        };
        let value = if bytes == 8 { value } else { Symbol::Unknown };
        let words = bytes.div_ceil(8).clamp(1, 8);
        for word in 0..words {
            // The cast is exact: there are eight at most.
            let place = (register, offset.wrapping_add(8 * word as i64));
            if let Some((_, held)) = self.stored.iter_mut().find(|(at, _)| *at == place) {
                *held = value;
            } else if self.stored.len() < MAX_STORED {
                self.stored.push((place, value));
            } else {
                // What is not kept is not known to have changed: the way is given up.
                self.registers = [Symbol::Unknown; 16];
            }
        }
    }
}

/// The number of a general register of 64 bits.
fn general(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}
