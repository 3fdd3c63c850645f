//! Micro-operations in the making, and the operands of instructions.

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, OpAccess, OpKind, Register,
};

use super::wire::Uop;

/// Words for the translation's own use.
pub(super) const T0: u8 = 20;
pub(super) const T1: u8 = 21;
/// For addresses alone.
const T_ADDRESS: u8 = 22;

/// The stack pointer.
pub(super) const RSP: u8 = 4;

/// An address as micro-operations have it.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) a: u8,
    pub(super) b: u8,
    pub(super) scale: u8,
    pub(super) value: i32,
}

impl Address {
    /// So many bytes behind it, if it can be put so.
    pub(super) fn plus(self, bytes: i32) -> Option<Self> {
        let value = self.value.checked_add(bytes)?;
        Some(Self { value, ..self })
    }

    /// At a distance from a register.
    pub(super) fn at(a: u8, value: i32) -> Self {
        Self {
            a,
            b: Uop::NONE,
            scale: 0,
            value,
        }
    }
}

/// A general register that is followed, by its number and its bytes: those whose lowest byte is the
/// register's.
pub(super) fn general(register: Register) -> Option<(u8, u8)> {
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    if !register.is_gpr() || high {
        return None;
    }
    let number = register.full_register().number();
    Some((number as u8, register.size() as u8))
}

/// A register whose lowest byte is the second one of a general register's: the number of that.
fn high(register: Register) -> Option<u8> {
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    // The number is below 16.
    high.then(|| register.full_register().number() as u8)
}

/// The two words of a vector register of 16 bytes, if it is one that is followed.
pub(super) fn vector(register: Register) -> Option<(u8, u8)> {
    let number = register.number();
    let followed = register.is_xmm() && number < 16;
    // The numbers are below 64.
    followed.then_some((32 + 2 * number as u8, 33 + 2 * number as u8))
}

/// Micro-operations of a straight run of code.
#[derive(Default)]
pub(super) struct Emitter {
    pub(super) uops: Vec<Uop>,
    /// The one that sets the flags as they are here, in this run.
    pub(super) flags: Option<usize>,
}

impl Emitter {
    pub(super) fn push(&mut self, uop: Uop) {
        if uop.flags & Uop::SETS != 0 {
            self.flags = Some(self.uops.len());
        }
        self.uops.push(uop);
    }

    /// The memory operand's address; `None` if it is none that is followed.
    pub(super) fn address(&mut self, i: &Instruction) -> Option<Address> {
        let part = |register: Register| match register {
            Register::None => Some(Uop::NONE),
            Register::RIP => Some(Uop::BIAS),
            _ => general(register)
                .filter(|(_, size)| *size == 8)
                .map(|(number, _)| number),
        };
        let scale = i.memory_index_scale().trailing_zeros() as u8;
        // Without a register 32 bits of it are sign-extended; more is rare.
        let displacement = i.memory_displacement64().cast_signed();
        let address = Address {
            a: part(i.memory_base())?,
            b: part(i.memory_index())?,
            scale,
            value: i32::try_from(displacement).ok()?,
        };
        let base = match i.memory_segment() {
            Register::FS => Uop::FS_BASE,
            Register::GS => Uop::GS_BASE,
            _ => return Some(address),
        };
        self.push(Uop {
            code: Uop::ADDRESS,
            to: T_ADDRESS,
            size: 8,
            ..Self::of(address)
        });
        Some(Address {
            a: base,
            b: T_ADDRESS,
            scale: 0,
            value: 0,
        })
    }

    fn of(address: Address) -> Uop {
        let Address { a, b, scale, value } = address;
        Uop {
            a,
            b,
            scale,
            value,
            ..Uop::default()
        }
    }

    pub(super) fn load(&mut self, to: u8, address: Address, size: u8, width: u8, flags: u8) {
        self.push(Uop {
            code: Uop::LOAD,
            to,
            size,
            width,
            flags,
            ..Self::of(address)
        });
    }

    pub(super) fn store(&mut self, from: u8, address: Address, size: u8) {
        self.push(Uop {
            code: Uop::STORE,
            to: from,
            size,
            ..Self::of(address)
        });
    }

    pub(super) fn lea(&mut self, to: u8, address: Address, size: u8) {
        self.push(Uop {
            code: Uop::ADDRESS,
            to,
            size,
            ..Self::of(address)
        });
    }

    pub(super) fn touch(&mut self, address: Address, size: u8) {
        self.push(Uop {
            code: Uop::TOUCH,
            size,
            ..Self::of(address)
        });
    }

    pub(super) fn blur(&mut self, address: Address, size: u8) {
        self.push(Uop {
            code: Uop::BLUR,
            size,
            ..Self::of(address)
        });
    }

    /// `to = a code value`
    pub(super) fn by_value(&mut self, code: u8, to: u8, a: u8, value: i32, size: u8, flags: u8) {
        self.push(Uop {
            code,
            to,
            a,
            value,
            size,
            flags: flags | Uop::IMMEDIATE,
            ..Uop::default()
        });
    }

    /// `to = a code b`
    pub(super) fn by_word(&mut self, code: u8, to: u8, (a, b): (u8, u8), size: u8, flags: u8) {
        self.push(Uop {
            code,
            to,
            a,
            b,
            size,
            flags,
            ..Uop::default()
        });
    }

    pub(super) fn constant(&mut self, to: u8, value: u64) {
        self.push(Uop {
            code: Uop::CONSTANT,
            to,
            // The casts pick the halves.
            value: value as i32,
            target: (value >> 32) as u32,
            ..Uop::default()
        });
    }

    pub(super) fn move_stack(&mut self, by: i32) {
        self.by_value(Uop::ADD, RSP, RSP, by, 8, 0);
    }

    pub(super) fn end(&mut self) {
        self.push(Uop::default());
    }

    /// What is known of an operand: a word that holds it, which is loaded if it lies in memory.
    pub(super) fn source(
        &mut self,
        i: &Instruction,
        operand: u32,
        temporary: u8,
    ) -> Option<(u8, u8)> {
        match i.op_kind(operand) {
            OpKind::Register => match high(i.op_register(operand)) {
                Some(a) => {
                    self.by_value(Uop::SHR, temporary, a, 8, 8, Uop::WHOLE);
                    Some((temporary, 1))
                }
                None => general(i.op_register(operand)),
            },
            OpKind::Memory => {
                let size = i.memory_size().size();
                if !matches!(size, 1 | 2 | 4 | 8) {
                    return None;
                }
                let address = self.address(i)?;
                self.load(temporary, address, size as u8, 8, Uop::WHOLE);
                Some((temporary, size as u8))
            }
            _ => None,
        }
    }

    /// An instruction of which only is followed what it reads and that it writes.
    pub(super) fn others(&mut self, i: &Instruction, factory: &mut InstructionInfoFactory) {
        let info = factory.info_options(i, InstructionInfoOptions::NONE);
        let mut forgotten = 0_u64;
        for used in info.used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            let register = used.register();
            if writes && register.is_gpr() {
                forgotten |= 1 << (register.full_register().number() & 15);
            } else if writes && register.is_vector_register() && register.number() < 16 {
                forgotten |= 3 << (32 + 2 * register.number());
            }
        }
        let has_memory = i.op_kinds().any(|kind| kind == OpKind::Memory);
        if has_memory && !i.is_vsib() {
            let access = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Memory);
            let access = access.map_or(OpAccess::None, |n| info.op_access(n));
            let size = i.memory_size().size().clamp(1, 64) as u8;
            if let Some(address) = self.address(i) {
                let reads = matches!(
                    access,
                    OpAccess::Read
                        | OpAccess::CondRead
                        | OpAccess::ReadWrite
                        | OpAccess::ReadCondWrite
                );
                if reads {
                    self.touch(address, size);
                }
                if !matches!(
                    access,
                    OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
                ) {
                    self.blur(address, size);
                }
            }
        }
        let flags = i.rflags_modified() != 0;
        if forgotten != 0 || flags {
            self.push(Uop {
                code: Uop::FORGET,
                // The casts pick the halves.
                value: forgotten as i32,
                target: (forgotten >> 32) as u32,
                flags: if flags { Uop::SETS_RESULT } else { 0 },
                ..Uop::default()
            });
        }
    }
}
