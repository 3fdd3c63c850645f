//! Floating point, but for fused operations.

use iced_x86::Mnemonic;

use super::super::float_ops::Float;
use super::super::{float, half};
use crate::decode::Handler;

/// Floating point, but for fused operations.
pub(super) fn floating(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Addps | M::Vaddps => |m, d| float::packed(m, d, <f32 as Float>::add),
        M::Addss | M::Vaddss => |m, d| float::scalar(m, d, <f32 as Float>::add),
        M::Addpd | M::Vaddpd => |m, d| float::packed(m, d, <f64 as Float>::add),
        M::Addsd | M::Vaddsd => |m, d| float::scalar(m, d, <f64 as Float>::add),
        M::Subps | M::Vsubps => |m, d| float::packed(m, d, <f32 as Float>::subtract),
        M::Subss | M::Vsubss => |m, d| float::scalar(m, d, <f32 as Float>::subtract),
        M::Subpd | M::Vsubpd => |m, d| float::packed(m, d, <f64 as Float>::subtract),
        M::Subsd | M::Vsubsd => |m, d| float::scalar(m, d, <f64 as Float>::subtract),
        M::Mulps | M::Vmulps => |m, d| float::packed(m, d, <f32 as Float>::multiply),
        M::Mulss | M::Vmulss => |m, d| float::scalar(m, d, <f32 as Float>::multiply),
        M::Mulpd | M::Vmulpd => |m, d| float::packed(m, d, <f64 as Float>::multiply),
        M::Mulsd | M::Vmulsd => |m, d| float::scalar(m, d, <f64 as Float>::multiply),
        M::Divps | M::Vdivps => |m, d| float::packed(m, d, <f32 as Float>::divide),
        M::Divss | M::Vdivss => |m, d| float::scalar(m, d, <f32 as Float>::divide),
        M::Divpd | M::Vdivpd => |m, d| float::packed(m, d, <f64 as Float>::divide),
        M::Divsd | M::Vdivsd => |m, d| float::scalar(m, d, <f64 as Float>::divide),
        M::Minps | M::Vminps => |m, d| float::packed(m, d, <f32 as Float>::lesser),
        M::Minss | M::Vminss => |m, d| float::scalar(m, d, <f32 as Float>::lesser),
        M::Minpd | M::Vminpd => |m, d| float::packed(m, d, <f64 as Float>::lesser),
        M::Minsd | M::Vminsd => |m, d| float::scalar(m, d, <f64 as Float>::lesser),
        M::Maxps | M::Vmaxps => |m, d| float::packed(m, d, <f32 as Float>::greater),
        M::Maxss | M::Vmaxss => |m, d| float::scalar(m, d, <f32 as Float>::greater),
        M::Maxpd | M::Vmaxpd => |m, d| float::packed(m, d, <f64 as Float>::greater),
        M::Maxsd | M::Vmaxsd => |m, d| float::scalar(m, d, <f64 as Float>::greater),
        M::Sqrtps | M::Vsqrtps => |m, d| float::convert(m, d, f32::square_root),
        M::Sqrtss | M::Vsqrtss => |m, d| float::scalar_unary(m, d, f32::square_root),
        M::Roundps | M::Vroundps => float::round::<f32>,
        M::Roundss | M::Vroundss => float::round_scalar::<f32>,
        M::Haddps | M::Vhaddps => |m, d| float::neighbours(m, d, <f32 as Float>::add),
        M::Hsubps | M::Vhsubps => |m, d| float::neighbours(m, d, <f32 as Float>::subtract),
        M::Addsubps | M::Vaddsubps => float::add_subtract::<f32>,
        M::Cmpps | M::Vcmpps => float::compare::<f32>,
        M::Cmpss | M::Vcmpss => float::compare_scalar::<f32>,
        M::Ucomiss | M::Vucomiss | M::Comiss | M::Vcomiss => float::compare_flags::<f32>,
        M::Cvtsi2ss | M::Vcvtsi2ss => float::from_integer::<f32>,
        M::Cvtss2si | M::Vcvtss2si => |m, d| float::to_integer::<f32>(m, d, false),
        M::Cvttss2si | M::Vcvttss2si => |m, d| float::to_integer::<f32>(m, d, true),
        M::Cvtdq2ps | M::Vcvtdq2ps => {
            |m, d| float::convert(m, d, |a: i32, mode| f32::from_integer(a.into(), mode))
        }
        M::Cvtps2dq | M::Vcvtps2dq => {
            |m, d| float::convert(m, d, |a: f32, mode| float::to_i32(a, false, mode))
        }
        M::Cvttps2dq | M::Vcvttps2dq => {
            |m, d| float::convert(m, d, |a: f32, mode| float::to_i32(a, true, mode))
        }
        M::Sqrtpd | M::Vsqrtpd => |m, d| float::convert(m, d, f64::square_root),
        M::Sqrtsd | M::Vsqrtsd => |m, d| float::scalar_unary(m, d, f64::square_root),
        M::Roundpd | M::Vroundpd => float::round::<f64>,
        M::Roundsd | M::Vroundsd => float::round_scalar::<f64>,
        M::Haddpd | M::Vhaddpd => |m, d| float::neighbours(m, d, <f64 as Float>::add),
        M::Hsubpd | M::Vhsubpd => |m, d| float::neighbours(m, d, <f64 as Float>::subtract),
        M::Addsubpd | M::Vaddsubpd => float::add_subtract::<f64>,
        M::Cmppd | M::Vcmppd => float::compare::<f64>,
        M::Cmpsd | M::Vcmpsd => float::compare_scalar::<f64>,
        M::Ucomisd | M::Vucomisd | M::Comisd | M::Vcomisd => float::compare_flags::<f64>,
        M::Cvtsi2sd | M::Vcvtsi2sd => float::from_integer::<f64>,
        M::Cvtsd2si | M::Vcvtsd2si => |m, d| float::to_integer::<f64>(m, d, false),
        M::Cvttsd2si | M::Vcvttsd2si => |m, d| float::to_integer::<f64>(m, d, true),
        M::Cvtdq2pd | M::Vcvtdq2pd => {
            |m, d| float::convert(m, d, |a: i32, mode| f64::from_integer(a.into(), mode))
        }
        M::Cvtpd2dq | M::Vcvtpd2dq => {
            |m, d| float::convert(m, d, |a: f64, mode| float::to_i32(a, false, mode))
        }
        M::Cvttpd2dq | M::Vcvttpd2dq => {
            |m, d| float::convert(m, d, |a: f64, mode| float::to_i32(a, true, mode))
        }
        M::Cvtps2pd | M::Vcvtps2pd => |m, d| float::convert(m, d, f32::widen),
        M::Cvtss2sd | M::Vcvtss2sd => |m, d| float::scalar_unary(m, d, f32::widen),
        M::Cvtpd2ps | M::Vcvtpd2ps => |m, d| float::convert(m, d, <f32 as Float>::narrow),
        M::Cvtsd2ss | M::Vcvtsd2ss => |m, d| float::scalar_unary(m, d, <f32 as Float>::narrow),
        M::Dpps | M::Vdpps => float::dot_product::<f32>,
        M::Dppd | M::Vdppd => float::dot_product::<f64>,
        M::Vcvtph2ps => |m, d| float::convert(m, d, |a: u16, mode| Some(half::widen(a, mode))),
        M::Vcvtps2ph => half::from_singles,
        M::Vrndscaleps => |m, d| float::round_scaled::<f32>(m, d, false),
        M::Vrndscalepd => |m, d| float::round_scaled::<f64>(m, d, false),
        M::Vrndscaless => |m, d| float::round_scaled::<f32>(m, d, true),
        M::Vrndscalesd => |m, d| float::round_scaled::<f64>(m, d, true),
        M::Vcvtusi2ss => float::from_unsigned::<f32>,
        M::Vcvtusi2sd => float::from_unsigned::<f64>,
        M::Vcvtss2usi => |m, d| float::to_unsigned::<f32>(m, d, false),
        M::Vcvttss2usi => |m, d| float::to_unsigned::<f32>(m, d, true),
        M::Vcvtsd2usi => |m, d| float::to_unsigned::<f64>(m, d, false),
        M::Vcvttsd2usi => |m, d| float::to_unsigned::<f64>(m, d, true),
        M::Vcvtudq2ps => {
            |m, d| float::convert(m, d, |a: u32, mode| f32::from_integer(a.into(), mode))
        }
        M::Vcvtudq2pd => {
            |m, d| float::convert(m, d, |a: u32, mode| f64::from_integer(a.into(), mode))
        }
        M::Vcvtqq2ps => {
            |m, d| float::convert(m, d, |a: i64, mode| f32::from_integer(a.into(), mode))
        }
        M::Vcvtqq2pd => {
            |m, d| float::convert(m, d, |a: i64, mode| f64::from_integer(a.into(), mode))
        }
        M::Vcvtuqq2ps => {
            |m, d| float::convert(m, d, |a: u64, mode| f32::from_integer(a.into(), mode))
        }
        M::Vcvtuqq2pd => {
            |m, d| float::convert(m, d, |a: u64, mode| f64::from_integer(a.into(), mode))
        }
        M::Vcvtps2qq => |m, d| float::convert(m, d, |a: f32, mode| a.to_integer(64, false, mode)),
        M::Vcvttps2qq => |m, d| float::convert(m, d, |a: f32, mode| a.to_integer(64, true, mode)),
        M::Vcvtpd2qq => |m, d| float::convert(m, d, |a: f64, mode| a.to_integer(64, false, mode)),
        M::Vcvttpd2qq => |m, d| float::convert(m, d, |a: f64, mode| a.to_integer(64, true, mode)),
        M::Vcvtps2udq => |m, d| float::convert(m, d, |a: f32, mode| float::to_u32(a, false, mode)),
        M::Vcvttps2udq => |m, d| float::convert(m, d, |a: f32, mode| float::to_u32(a, true, mode)),
        M::Vcvtpd2udq => |m, d| float::convert(m, d, |a: f64, mode| float::to_u32(a, false, mode)),
        M::Vcvttpd2udq => |m, d| float::convert(m, d, |a: f64, mode| float::to_u32(a, true, mode)),
        M::Vcvtps2uqq => |m, d| float::convert(m, d, |a: f32, mode| a.to_unsigned(64, false, mode)),
        M::Vcvttps2uqq => |m, d| float::convert(m, d, |a: f32, mode| a.to_unsigned(64, true, mode)),
        M::Vcvtpd2uqq => |m, d| float::convert(m, d, |a: f64, mode| a.to_unsigned(64, false, mode)),
        M::Vcvttpd2uqq => |m, d| float::convert(m, d, |a: f64, mode| a.to_unsigned(64, true, mode)),
        M::Ldmxcsr | M::Vldmxcsr => float::load_mode,
        M::Stmxcsr | M::Vstmxcsr => float::store_mode,
        _ => return None,
    };
    Some(handler)
}
