//! What is known of general registers and flags at a place of a function.

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// The low bits of a register that are known; none if `bits` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct KnownBits {
    value: u64,
    bits: u32,
}

/// Flags by their place in [`KnownState::flags`].
#[derive(Debug, Clone, Copy)]
enum Flag {
    Carry,
    Parity,
    Zero,
    Sign,
    Overflow,
}

const FLAGS: usize = 5;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct KnownState {
    registers: [KnownBits; 16],
    flags: [Option<bool>; FLAGS],
}

/// Which registers a called function may change: those that the platform's convention gives it.
const CLOBBERED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Whether a called function may change a register.
pub(super) fn is_clobbered(register: Register) -> bool {
    CLOBBERED.contains(&register)
}

/// The low bits of a word.
pub(super) fn mask(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// The width of a register in bits.
pub(super) fn bits_of(register: Register) -> u32 {
    u32::try_from(register.size())
        .unwrap_or(8)
        .saturating_mul(8)
}

fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

/// The result of a calculation with its flags; what is `None` is not known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computed {
    value: Option<u64>,
    carry: Option<bool>,
    overflow: Option<bool>,
}

impl KnownState {
    /// What both of two ways to a place know. Whether that is less than `self` knew.
    pub(super) fn meet(&mut self, other: &KnownState) -> bool {
        let mut changed = false;
        for (own, other) in self.registers.iter_mut().zip(other.registers) {
            let bits = own.bits.min(other.bits);
            let same = (own.value ^ other.value) & mask(bits) == 0;
            let met = match same {
                true => KnownBits {
                    value: own.value & mask(bits),
                    bits,
                },
                false => KnownBits::default(),
            };
            changed |= met != *own;
            *own = met;
        }
        for (own, other) in self.flags.iter_mut().zip(other.flags) {
            let met = own.filter(|_| *own == other);
            changed |= met != *own;
            *own = met;
        }
        changed
    }

    fn part(&mut self, register: Register) -> Option<&mut KnownBits> {
        let full = register.full_register();
        let number = full.is_gpr().then(|| full.number())?;
        self.registers.get_mut(number)
    }

    /// Notes the low bits of a register.
    pub(super) fn know(&mut self, register: Register, value: u64, bits: u32) {
        if let Some(part) = self.part(register) {
            *part = KnownBits {
                value: value & mask(bits),
                bits,
            };
        }
    }

    /// What a register holds.
    pub(super) fn read(&self, register: Register) -> Option<u64> {
        let full = register.full_register();
        if !full.is_gpr() {
            return None;
        }
        let part = self.registers.get(full.number())?;
        if is_high_byte(register) {
            return (part.bits >= 16).then_some(part.value >> 8 & 0xff);
        }
        let bits = bits_of(register);
        (part.bits >= bits).then_some(part.value & mask(bits))
    }

    /// Writes a register as instructions do: 32 bits clear the upper half, fewer leave the rest.
    pub(super) fn write(&mut self, register: Register, value: Option<u64>) {
        let bits = bits_of(register);
        let is_high = is_high_byte(register);
        let Some(part) = self.part(register) else {
            return;
        };
        *part = match value {
            Some(value) if bits >= 32 => KnownBits {
                value: value & mask(bits),
                bits: 64,
            },
            Some(value) if !is_high => KnownBits {
                value: part.value & !mask(bits) | value & mask(bits),
                bits: part.bits.max(bits),
            },
            _ => KnownBits::default(),
        };
    }

    /// Forgets what a called function may change.
    pub(super) fn call(&mut self) {
        for register in CLOBBERED {
            self.write(register, None);
        }
        self.forget_flags();
    }

    /// Forgets the flags.
    pub(super) fn forget_flags(&mut self) {
        self.flags = [None; FLAGS];
    }

    fn flag(&self, flag: Flag) -> Option<bool> {
        self.flags.get(flag as usize).copied().flatten()
    }

    fn set(&mut self, flag: Flag, to: Option<bool>) {
        if let Some(own) = self.flags.get_mut(flag as usize) {
            *own = to;
        }
    }

    /// Sets the flags of a result that has so many bits. `keeps_carry`: that flag stays.
    pub(super) fn set_flags(&mut self, computed: Computed, bits: u32, keeps_carry: bool) {
        let value = computed.value.map(|value| value & mask(bits));
        self.set(Flag::Zero, value.map(|value| value == 0));
        let sign = |value: u64| value >> bits.saturating_sub(1) & 1 == 1;
        self.set(Flag::Sign, value.map(sign));
        let is_even = |value: u64| (value & 0xff).count_ones().is_multiple_of(2);
        self.set(Flag::Parity, value.map(is_even));
        self.set(Flag::Overflow, computed.overflow);
        if !keeps_carry {
            self.set(Flag::Carry, computed.carry);
        }
    }

    /// Whether a condition holds.
    pub(super) fn holds(&self, condition: ConditionCode) -> Option<bool> {
        use ConditionCode as C;
        let carry = || self.flag(Flag::Carry);
        let zero = || self.flag(Flag::Zero);
        let less = || Some(self.flag(Flag::Sign)? != self.flag(Flag::Overflow)?);
        let either = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        let not = |of: Option<bool>| of.map(|of| !of);
        match condition {
            C::None => None,
            C::o => self.flag(Flag::Overflow),
            C::no => not(self.flag(Flag::Overflow)),
            C::b => carry(),
            C::ae => not(carry()),
            C::e => zero(),
            C::ne => not(zero()),
            C::be => either(carry(), zero()),
            C::a => not(either(carry(), zero())),
            C::s => self.flag(Flag::Sign),
            C::ns => not(self.flag(Flag::Sign)),
            C::p => self.flag(Flag::Parity),
            C::np => not(self.flag(Flag::Parity)),
            C::l => less(),
            C::ge => not(less()),
            C::le => either(zero(), less()),
            C::g => not(either(zero(), less())),
        }
    }

    /// The low bits of the address that a memory operand without a segment comes to, within its
    /// image.
    pub(super) fn address(&self, instruction: &Instruction, bits: u32) -> Option<u64> {
        let register = |register: Register| match register {
            Register::None | Register::RIP | Register::EIP => Some(0),
            other => self.low(other, bits),
        };
        let base = register(instruction.memory_base())?;
        let index = register(instruction.memory_index())?;
        let scale = u64::from(instruction.memory_index_scale());
        let address = base.wrapping_add(index.wrapping_mul(scale));
        Some(address.wrapping_add(instruction.memory_displacement64()) & mask(bits))
    }

    /// So many low bits of a register.
    fn low(&self, register: Register, bits: u32) -> Option<u64> {
        let full = register.full_register();
        let part = full.is_gpr().then(|| self.registers.get(full.number()))??;
        let bits = bits.min(bits_of(register));
        (part.bits >= bits).then_some(part.value & mask(bits))
    }

    /// Whether any register of a memory operand, of which there are some, is known.
    pub(super) fn knows_address(&self, instruction: &Instruction) -> bool {
        let all = [instruction.memory_base(), instruction.memory_index()];
        let mut named = all.into_iter().filter(|one| one.is_gpr()).peekable();
        named.peek().is_some() && named.all(|one| self.read(one).is_some())
    }
}

impl Computed {
    /// Nothing is known.
    pub(super) const UNKNOWN: Computed = Computed {
        value: None,
        carry: None,
        overflow: None,
    };

    /// What is computed.
    pub(super) fn value(self) -> Option<u64> {
        self.value
    }

    /// What one of the usual instructions with two operands of `bits` bits computes.
    pub(super) fn of_two(
        mnemonic: Mnemonic,
        [a, b]: [Option<u64>; 2],
        bits: u32,
        is_same: bool,
    ) -> Computed {
        use Mnemonic as M;
        let logic = |value: u64| Computed {
            value: Some(value & mask(bits)),
            carry: Some(false),
            overflow: Some(false),
        };
        match (mnemonic, a, b) {
            (M::Xor | M::Sub, _, _) if is_same => return logic(0),
            (M::And | M::Test, Some(0), _) | (M::And | M::Test, _, Some(0)) => return logic(0),
            _ => {}
        }
        let (Some(a), Some(b)) = (a, b) else {
            return Computed::UNKNOWN;
        };
        let (a, b) = (a & mask(bits), b & mask(bits));
        let sign = |value: u64| value >> bits.saturating_sub(1) & 1 == 1;
        match mnemonic {
            M::And | M::Test => logic(a & b),
            M::Or => logic(a | b),
            M::Xor => logic(a ^ b),
            M::Add => {
                let sum = a.wrapping_add(b) & mask(bits);
                Computed {
                    value: Some(sum),
                    carry: Some(sum < a),
                    overflow: Some(sign(a) == sign(b) && sign(sum) != sign(a)),
                }
            }
            M::Sub | M::Cmp => {
                let difference = a.wrapping_sub(b) & mask(bits);
                Computed {
                    value: Some(difference),
                    carry: Some(a < b),
                    overflow: Some(sign(a) != sign(b) && sign(difference) != sign(a)),
                }
            }
            M::Shl | M::Sal | M::Shr | M::Sar => shifted(mnemonic, a, b, bits),
            _ => Computed::UNKNOWN,
        }
    }

    /// A result without flags that are known.
    pub(super) fn plain(value: Option<u64>) -> Computed {
        Computed {
            value,
            ..Computed::UNKNOWN
        }
    }
}

/// What a shift gives; a shift by nothing leaves the flags, which is not followed.
fn shifted(mnemonic: Mnemonic, a: u64, by: u64, bits: u32) -> Computed {
    let by = u32::try_from(by & if bits == 64 { 63 } else { 31 }).unwrap_or(0);
    let value = match mnemonic {
        Mnemonic::Shr => a.checked_shr(by).unwrap_or(0),
        Mnemonic::Sar => arithmetic(sign_extended(a, bits), by),
        _ => a.checked_shl(by).unwrap_or(0),
    };
    Computed::plain(Some(value & mask(bits)))
}

fn arithmetic(value: u64, by: u32) -> u64 {
    (value.cast_signed() >> by.min(63)).cast_unsigned()
}

/// The low bits as a number with a sign, in 64 bits.
pub(super) fn sign_extended(value: u64, bits: u32) -> u64 {
    let by = 64_u32.saturating_sub(bits).min(63);
    arithmetic(value << by, by)
}

/// The width of an operand in bits; 0 if it has none.
pub(super) fn width(instruction: &Instruction, operand: u32) -> u32 {
    match instruction.op_kind(operand) {
        OpKind::Register => bits_of(instruction.op_register(operand)),
        OpKind::Memory => u32::try_from(instruction.memory_size().size())
            .unwrap_or(0)
            .saturating_mul(8),
        _ => 0,
    }
}
