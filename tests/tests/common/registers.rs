//! General registers by the decoder's names.

use iced_x86::Register;

/// The value of a general register in its width; `None` if it is another kind of register.
pub(crate) fn general(gpr: &[u64; 16], register: Register) -> Option<u64> {
    if !register.is_gpr() {
        return None;
    }
    let value = gpr[register.full_register().number() & 15];
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    let value = if high { value >> 8 } else { value };
    Some(value & u64::MAX >> (64 - 8 * register.size()))
}
