//! Conversions between two integers of 32 bits, in an MMX register or in memory, and numbers.

use iced_x86::{Mnemonic, OpKind};

use super::float::{in_mode, to_i32};
use super::float_ops::Float;
use super::{Done, read, vector_register, write};
use crate::decode::{Decoded, Handler};
use crate::exec::x87::{mmx, wait};
use crate::machine::Machine;
use crate::vector::Vector;

/// Lanes on both sides.
const LANES: usize = 2;

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Cvtpi2ps => from_integers::<f32>,
        M::Cvtpi2pd => from_integers::<f64>,
        M::Cvtps2pi => |m, d| to_integers::<f32>(m, d, false),
        M::Cvttps2pi => |m, d| to_integers::<f32>(m, d, true),
        M::Cvtpd2pi => |m, d| to_integers::<f64>(m, d, false),
        M::Cvttpd2pi => |m, d| to_integers::<f64>(m, d, true),
        _ => return None,
    };
    Some(handler)
}

/// `cvtpi2ps` leaves the upper half of the destination as it was; `cvtpi2pd` fills it.
fn from_integers<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    wait(m)?;
    in_mode(m, d, |m, mode| {
        let instruction = d.instruction();
        let is_register = instruction.op1_kind() == OpKind::Register;
        let source = match is_register {
            true => Vector::from_word(mmx::register(m, instruction.op1_register())),
            false => read(m, d, 1)?,
        };
        let mut result = vector_register(m, instruction.op0_register());
        for i in 0..LANES {
            let lane = source.lane::<i32>(i);
            let number = lane.and_then(|lane| F::from_integer(lane.into(), mode));
            result.set_lane(i, number);
        }
        match is_register {
            true => m.registers.x87.enter_mmx(),
            // Intel's manual has one of both leave x87 alone then. Others say nothing.
            false => m.registers.x87.perhaps_enter_mmx(),
        }
        write(m, d, 0, &result)
    })
}

/// `cvtps2pi`, `cvtpd2pi`, and those that cut off.
fn to_integers<F: Float>(m: &mut Machine<'_>, d: &Decoded, cut: bool) -> Done {
    wait(m)?;
    in_mode(m, d, |m, mode| {
        let source = read(m, d, 1)?;
        let mut result = Vector::ZERO;
        for i in 0..LANES {
            let lane = source.lane::<F>(i);
            result.set_lane(i, lane.and_then(|lane| to_i32(lane, cut, mode)));
        }
        mmx::write(m, d, result.word(0))
    })
}
