//! Integer arithmetic, and ciphers and hashes.

use iced_x86::Mnemonic;

use super::super::{crypto, int, lane_pairs, lanes};
use crate::decode::Handler;

/// Integer arithmetic.
pub(super) fn integer(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Paddb | M::Vpaddb => |m, d| lane_pairs(m, d, u8::wrapping_add),
        M::Psubb | M::Vpsubb => |m, d| int::subtract(m, d, u8::wrapping_sub),
        M::Paddw | M::Vpaddw => |m, d| lane_pairs(m, d, u16::wrapping_add),
        M::Psubw | M::Vpsubw => |m, d| int::subtract(m, d, u16::wrapping_sub),
        M::Paddd | M::Vpaddd => |m, d| lane_pairs(m, d, u32::wrapping_add),
        M::Psubd | M::Vpsubd => |m, d| int::subtract(m, d, u32::wrapping_sub),
        M::Paddq | M::Vpaddq => |m, d| lane_pairs(m, d, u64::wrapping_add),
        M::Psubq | M::Vpsubq => |m, d| int::subtract(m, d, u64::wrapping_sub),
        M::Paddsb | M::Vpaddsb => |m, d| lane_pairs(m, d, i8::saturating_add),
        M::Psubsb | M::Vpsubsb => |m, d| int::subtract(m, d, i8::saturating_sub),
        M::Paddsw | M::Vpaddsw => |m, d| lane_pairs(m, d, i16::saturating_add),
        M::Psubsw | M::Vpsubsw => |m, d| int::subtract(m, d, i16::saturating_sub),
        M::Paddusb | M::Vpaddusb => |m, d| lane_pairs(m, d, u8::saturating_add),
        M::Psubusb | M::Vpsubusb => |m, d| int::subtract(m, d, u8::saturating_sub),
        M::Paddusw | M::Vpaddusw => |m, d| lane_pairs(m, d, u16::saturating_add),
        M::Psubusw | M::Vpsubusw => |m, d| int::subtract(m, d, u16::saturating_sub),
        M::Pmullw | M::Vpmullw => |m, d| lane_pairs(m, d, i16::wrapping_mul),
        M::Pmulld | M::Vpmulld => |m, d| lane_pairs(m, d, i32::wrapping_mul),
        M::Pmulhw | M::Vpmulhw => |m, d| {
            lane_pairs(m, d, |a: i16, b: i16| {
                ((i32::from(a) * i32::from(b)) >> 16) as i16
            })
        },
        M::Pmulhuw | M::Vpmulhuw => |m, d| {
            lane_pairs(m, d, |a: u16, b: u16| {
                ((u32::from(a) * u32::from(b)) >> 16) as u16
            })
        },
        M::Pmulhrsw | M::Vpmulhrsw => |m, d| lane_pairs(m, d, int::multiply_high_rounded),
        M::Pmuludq | M::Vpmuludq => {
            |m, d| int::multiply_even(m, d, |a, b| u64::from(a) * u64::from(b))
        }
        M::Pmuldq | M::Vpmuldq => |m, d| int::multiply_even(m, d, int::multiply_signed),
        M::Pmaddwd | M::Vpmaddwd => |m, d| int::multiply_add(m, d, int::products),
        M::Pmaddubsw | M::Vpmaddubsw => |m, d| int::multiply_add(m, d, int::saturated_products),
        M::Psadbw | M::Vpsadbw => int::psadbw,
        M::Mpsadbw | M::Vmpsadbw => int::mpsadbw,
        M::Phminposuw | M::Vphminposuw => int::phminposuw,
        M::Pavgb | M::Vpavgb => |m, d| {
            lane_pairs(m, d, |a: u8, b: u8| {
                (u16::from(a) + u16::from(b)).div_ceil(2) as u8
            })
        },
        M::Pavgw | M::Vpavgw => |m, d| {
            lane_pairs(m, d, |a: u16, b: u16| {
                (u32::from(a) + u32::from(b)).div_ceil(2) as u16
            })
        },
        M::Pminsb | M::Vpminsb => |m, d| lane_pairs(m, d, <i8 as Ord>::min),
        M::Pmaxsb | M::Vpmaxsb => |m, d| lane_pairs(m, d, <i8 as Ord>::max),
        M::Pminsw | M::Vpminsw => |m, d| lane_pairs(m, d, <i16 as Ord>::min),
        M::Pmaxsw | M::Vpmaxsw => |m, d| lane_pairs(m, d, <i16 as Ord>::max),
        M::Pminsd | M::Vpminsd => |m, d| lane_pairs(m, d, <i32 as Ord>::min),
        M::Pmaxsd | M::Vpmaxsd => |m, d| lane_pairs(m, d, <i32 as Ord>::max),
        M::Pminub | M::Vpminub => |m, d| lane_pairs(m, d, <u8 as Ord>::min),
        M::Pmaxub | M::Vpmaxub => |m, d| lane_pairs(m, d, <u8 as Ord>::max),
        M::Pminuw | M::Vpminuw => |m, d| lane_pairs(m, d, <u16 as Ord>::min),
        M::Pmaxuw | M::Vpmaxuw => |m, d| lane_pairs(m, d, <u16 as Ord>::max),
        M::Pminud | M::Vpminud => |m, d| lane_pairs(m, d, <u32 as Ord>::min),
        M::Pmaxud | M::Vpmaxud => |m, d| lane_pairs(m, d, <u32 as Ord>::max),
        M::Pabsb | M::Vpabsb => |m, d| lanes(m, d, i8::wrapping_abs),
        M::Psignb | M::Vpsignb => {
            |m, d| lane_pairs(m, d, |a: i8, b: i8| a.wrapping_mul(b.signum()))
        }
        M::Pabsw | M::Vpabsw => |m, d| lanes(m, d, i16::wrapping_abs),
        M::Psignw | M::Vpsignw => {
            |m, d| lane_pairs(m, d, |a: i16, b: i16| a.wrapping_mul(b.signum()))
        }
        M::Pabsd | M::Vpabsd => |m, d| lanes(m, d, i32::wrapping_abs),
        M::Psignd | M::Vpsignd => {
            |m, d| lane_pairs(m, d, |a: i32, b: i32| a.wrapping_mul(b.signum()))
        }
        M::Phaddw | M::Vphaddw => |m, d| int::neighbours(m, d, |a: i16, b| Some(a.wrapping_add(b))),
        M::Phsubw | M::Vphsubw => |m, d| int::neighbours(m, d, |a: i16, b| Some(a.wrapping_sub(b))),
        M::Phaddd | M::Vphaddd => |m, d| int::neighbours(m, d, |a: i32, b| Some(a.wrapping_add(b))),
        M::Phsubd | M::Vphsubd => |m, d| int::neighbours(m, d, |a: i32, b| Some(a.wrapping_sub(b))),
        M::Phaddsw | M::Vphaddsw => {
            |m, d| int::neighbours(m, d, |a: i16, b| Some(a.saturating_add(b)))
        }
        M::Phsubsw | M::Vphsubsw => {
            |m, d| int::neighbours(m, d, |a: i16, b| Some(a.saturating_sub(b)))
        }
        M::Psllw | M::Vpsllw => |m, d| int::shift(m, d, int::left_16),
        M::Psrlw | M::Vpsrlw => |m, d| int::shift(m, d, int::right_16),
        M::Psraw | M::Vpsraw => |m, d| int::shift(m, d, int::arithmetic_16),
        M::Pslld | M::Vpslld => |m, d| int::shift(m, d, int::left_32),
        M::Psrld | M::Vpsrld => |m, d| int::shift(m, d, int::right_32),
        M::Psrad | M::Vpsrad => |m, d| int::shift(m, d, int::arithmetic_32),
        M::Psllq | M::Vpsllq => |m, d| int::shift(m, d, int::left_64),
        M::Psrlq | M::Vpsrlq => |m, d| int::shift(m, d, int::right_64),
        M::Vpsllvd => |m, d| lane_pairs(m, d, |a, count: u32| int::left_32(a, count.into())),
        M::Vpsllvq => |m, d| lane_pairs(m, d, int::left_64),
        M::Vpsrlvd => |m, d| lane_pairs(m, d, |a, count: u32| int::right_32(a, count.into())),
        M::Vpsrlvq => |m, d| lane_pairs(m, d, int::right_64),
        M::Vpsravd => |m, d| {
            lane_pairs(m, d, |a, count: i32| {
                int::arithmetic_32(a, (count as u32).into())
            })
        },
        _ => return None,
    };
    Some(handler)
}

/// Ciphers and hashes.
pub(super) fn cipher(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Aesenc | M::Vaesenc => crypto::aesenc,
        M::Aesenclast | M::Vaesenclast => crypto::aesenclast,
        M::Aesdec | M::Vaesdec => crypto::aesdec,
        M::Aesdeclast | M::Vaesdeclast => crypto::aesdeclast,
        M::Aesimc | M::Vaesimc => crypto::aesimc,
        M::Aeskeygenassist | M::Vaeskeygenassist => crypto::aeskeygenassist,
        M::Pclmulqdq | M::Vpclmulqdq => crypto::pclmulqdq,
        M::Gf2p8mulb | M::Vgf2p8mulb => crypto::gf2p8mulb,
        M::Gf2p8affineqb | M::Vgf2p8affineqb => |m, d| crypto::gf2p8affine(m, d, |a| a),
        M::Gf2p8affineinvqb | M::Vgf2p8affineinvqb => {
            |m, d| crypto::gf2p8affine(m, d, crypto::field_inverse)
        }
        M::Sha1msg1 => crypto::sha1msg1,
        M::Sha1msg2 => crypto::sha1msg2,
        M::Sha1nexte => crypto::sha1nexte,
        M::Sha1rnds4 => crypto::sha1rnds4,
        M::Sha256msg1 => crypto::sha256msg1,
        M::Sha256msg2 => crypto::sha256msg2,
        M::Sha256rnds2 => crypto::sha256rnds2,
        _ => return None,
    };
    Some(handler)
}
