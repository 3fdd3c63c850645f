//! Fused multiply-add.

use iced_x86::Mnemonic;

use super::float_ops::Float;
use super::{Done, read, read_low, report, size, write};
use crate::decode::{Decoded, Handler};
use crate::machine::Machine;
use crate::stop::StopReason;
use crate::vector::Vector;

/// What is multiplied, by operand, and what is added.
const ORDER_132: [usize; 3] = [0, 2, 1];
const ORDER_213: [usize; 3] = [1, 0, 2];
const ORDER_231: [usize; 3] = [1, 2, 0];

/// The signs of the product and of the addend, in even lanes and in odd ones.
#[derive(Clone, Copy)]
struct Signs {
    negate_product: bool,
    negate_addend: [bool; 2],
}

const MADD: Signs = signs(false, [false, false]);
const MSUB: Signs = signs(false, [true, true]);
const NMADD: Signs = signs(true, [false, false]);
const NMSUB: Signs = signs(true, [true, true]);
const MADDSUB: Signs = signs(false, [true, false]);
const MSUBADD: Signs = signs(false, [false, true]);

const fn signs(negate_product: bool, negate_addend: [bool; 2]) -> Signs {
    Signs {
        negate_product,
        negate_addend,
    }
}

fn packed<F: Float>(m: &mut Machine<'_>, d: &Decoded, order: [usize; 3], signs: Signs) -> Done {
    let count = size(d, 0) / F::BYTES;
    let result = fused::<F>(m, d, count, order, signs)?;
    write(m, d, 0, &result)
}

fn scalar<F: Float>(m: &mut Machine<'_>, d: &Decoded, order: [usize; 3], signs: Signs) -> Done {
    let result = fused::<F>(m, d, 1, order, signs)?;
    report::<F>(m, d, &result);
    write(m, d, 0, &result)
}

/// Multiplies and adds the lowest `count` lanes; the others stay.
fn fused<F: Float>(
    m: &mut Machine<'_>,
    d: &Decoded,
    count: usize,
    order: [usize; 3],
    signs: Signs,
) -> Result<Vector, StopReason> {
    super::float::in_mode(m, d, |m, mode| {
        let last = read_low(m, d, 2, count * F::BYTES)?;
        let operands = [read(m, d, 0)?, read(m, d, 1)?, last];
        let [a, b, c] = order.map(|i| operands[i]);
        let signed = |value: F, negative: bool| if negative { value.negate() } else { value };
        let mut result = operands[0];
        for i in 0..count {
            let lanes = a.lane::<F>(i).zip(b.lane(i)).zip(c.lane(i));
            let value = lanes.and_then(|((a, b), c)| {
                let c = signed(c, signs.negate_addend[i % 2]);
                signed(a, signs.negate_product).multiply_add(b, c, mode)
            });
            result.set_lane(i, value);
        }
        Ok(result)
    })
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vfmadd132ps => |m, d| packed::<f32>(m, d, ORDER_132, MADD),
        M::Vfmadd132ss => |m, d| scalar::<f32>(m, d, ORDER_132, MADD),
        M::Vfmadd132pd => |m, d| packed::<f64>(m, d, ORDER_132, MADD),
        M::Vfmadd132sd => |m, d| scalar::<f64>(m, d, ORDER_132, MADD),
        M::Vfmadd213ps => |m, d| packed::<f32>(m, d, ORDER_213, MADD),
        M::Vfmadd213ss => |m, d| scalar::<f32>(m, d, ORDER_213, MADD),
        M::Vfmadd213pd => |m, d| packed::<f64>(m, d, ORDER_213, MADD),
        M::Vfmadd213sd => |m, d| scalar::<f64>(m, d, ORDER_213, MADD),
        M::Vfmadd231ps => |m, d| packed::<f32>(m, d, ORDER_231, MADD),
        M::Vfmadd231ss => |m, d| scalar::<f32>(m, d, ORDER_231, MADD),
        M::Vfmadd231pd => |m, d| packed::<f64>(m, d, ORDER_231, MADD),
        M::Vfmadd231sd => |m, d| scalar::<f64>(m, d, ORDER_231, MADD),
        M::Vfmsub132ps => |m, d| packed::<f32>(m, d, ORDER_132, MSUB),
        M::Vfmsub132ss => |m, d| scalar::<f32>(m, d, ORDER_132, MSUB),
        M::Vfmsub132pd => |m, d| packed::<f64>(m, d, ORDER_132, MSUB),
        M::Vfmsub132sd => |m, d| scalar::<f64>(m, d, ORDER_132, MSUB),
        M::Vfmsub213ps => |m, d| packed::<f32>(m, d, ORDER_213, MSUB),
        M::Vfmsub213ss => |m, d| scalar::<f32>(m, d, ORDER_213, MSUB),
        M::Vfmsub213pd => |m, d| packed::<f64>(m, d, ORDER_213, MSUB),
        M::Vfmsub213sd => |m, d| scalar::<f64>(m, d, ORDER_213, MSUB),
        M::Vfmsub231ps => |m, d| packed::<f32>(m, d, ORDER_231, MSUB),
        M::Vfmsub231ss => |m, d| scalar::<f32>(m, d, ORDER_231, MSUB),
        M::Vfmsub231pd => |m, d| packed::<f64>(m, d, ORDER_231, MSUB),
        M::Vfmsub231sd => |m, d| scalar::<f64>(m, d, ORDER_231, MSUB),
        M::Vfnmadd132ps => |m, d| packed::<f32>(m, d, ORDER_132, NMADD),
        M::Vfnmadd132ss => |m, d| scalar::<f32>(m, d, ORDER_132, NMADD),
        M::Vfnmadd132pd => |m, d| packed::<f64>(m, d, ORDER_132, NMADD),
        M::Vfnmadd132sd => |m, d| scalar::<f64>(m, d, ORDER_132, NMADD),
        M::Vfnmadd213ps => |m, d| packed::<f32>(m, d, ORDER_213, NMADD),
        M::Vfnmadd213ss => |m, d| scalar::<f32>(m, d, ORDER_213, NMADD),
        M::Vfnmadd213pd => |m, d| packed::<f64>(m, d, ORDER_213, NMADD),
        M::Vfnmadd213sd => |m, d| scalar::<f64>(m, d, ORDER_213, NMADD),
        M::Vfnmadd231ps => |m, d| packed::<f32>(m, d, ORDER_231, NMADD),
        M::Vfnmadd231ss => |m, d| scalar::<f32>(m, d, ORDER_231, NMADD),
        M::Vfnmadd231pd => |m, d| packed::<f64>(m, d, ORDER_231, NMADD),
        M::Vfnmadd231sd => |m, d| scalar::<f64>(m, d, ORDER_231, NMADD),
        M::Vfnmsub132ps => |m, d| packed::<f32>(m, d, ORDER_132, NMSUB),
        M::Vfnmsub132ss => |m, d| scalar::<f32>(m, d, ORDER_132, NMSUB),
        M::Vfnmsub132pd => |m, d| packed::<f64>(m, d, ORDER_132, NMSUB),
        M::Vfnmsub132sd => |m, d| scalar::<f64>(m, d, ORDER_132, NMSUB),
        M::Vfnmsub213ps => |m, d| packed::<f32>(m, d, ORDER_213, NMSUB),
        M::Vfnmsub213ss => |m, d| scalar::<f32>(m, d, ORDER_213, NMSUB),
        M::Vfnmsub213pd => |m, d| packed::<f64>(m, d, ORDER_213, NMSUB),
        M::Vfnmsub213sd => |m, d| scalar::<f64>(m, d, ORDER_213, NMSUB),
        M::Vfnmsub231ps => |m, d| packed::<f32>(m, d, ORDER_231, NMSUB),
        M::Vfnmsub231ss => |m, d| scalar::<f32>(m, d, ORDER_231, NMSUB),
        M::Vfnmsub231pd => |m, d| packed::<f64>(m, d, ORDER_231, NMSUB),
        M::Vfnmsub231sd => |m, d| scalar::<f64>(m, d, ORDER_231, NMSUB),
        M::Vfmaddsub132ps => |m, d| packed::<f32>(m, d, ORDER_132, MADDSUB),
        M::Vfmaddsub132pd => |m, d| packed::<f64>(m, d, ORDER_132, MADDSUB),
        M::Vfmaddsub213ps => |m, d| packed::<f32>(m, d, ORDER_213, MADDSUB),
        M::Vfmaddsub213pd => |m, d| packed::<f64>(m, d, ORDER_213, MADDSUB),
        M::Vfmaddsub231ps => |m, d| packed::<f32>(m, d, ORDER_231, MADDSUB),
        M::Vfmaddsub231pd => |m, d| packed::<f64>(m, d, ORDER_231, MADDSUB),
        M::Vfmsubadd132ps => |m, d| packed::<f32>(m, d, ORDER_132, MSUBADD),
        M::Vfmsubadd132pd => |m, d| packed::<f64>(m, d, ORDER_132, MSUBADD),
        M::Vfmsubadd213ps => |m, d| packed::<f32>(m, d, ORDER_213, MSUBADD),
        M::Vfmsubadd213pd => |m, d| packed::<f64>(m, d, ORDER_213, MSUBADD),
        M::Vfmsubadd231ps => |m, d| packed::<f32>(m, d, ORDER_231, MSUBADD),
        M::Vfmsubadd231pd => |m, d| packed::<f64>(m, d, ORDER_231, MSUBADD),
        _ => return None,
    };
    Some(handler)
}
