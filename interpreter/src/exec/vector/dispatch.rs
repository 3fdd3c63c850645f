//! From mnemonic to what executes a vector instruction.

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

use super::float_ops::Float;
use super::{
    compare, crypto, float, fused, half, int, lane_pairs, lanes, masked, masks, moves, shuffle,
    text,
};
use crate::decode::Handler;

/// The handler of a vector instruction, if its encoding and operands are such as are handled.
pub(crate) fn handler(instruction: &Instruction) -> Option<Handler> {
    if !has_vector_operands(instruction) {
        return None;
    }
    let mnemonic = instruction.mnemonic();
    // Of one name are comparisons into vector registers and into masks.
    if registers(instruction).any(Register::is_k) {
        return masks::handler(mnemonic);
    }
    // Of one name are permutations by an immediate and by a vector.
    if matches!(mnemonic, Mnemonic::Vpermq | Mnemonic::Vpermpd)
        && instruction.try_immediate(2).is_err()
    {
        return Some(|m, d| lanes::permute::<u64>(m, d, 1, &[2]));
    }
    moving(mnemonic)
        .or_else(|| integer(mnemonic))
        .or_else(|| floating(mnemonic))
        .or_else(|| fused::handler(mnemonic))
        .or_else(|| lanes::handler(mnemonic))
        .or_else(|| masked::handler(mnemonic))
        .or_else(|| text::handler(mnemonic))
        .or_else(|| cipher(mnemonic))
}

fn registers(instruction: &Instruction) -> impl Iterator<Item = Register> {
    (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
}

/// Whether every register is a general one, a mask or a vector register, in an encoding that is
/// handled.
fn has_vector_operands(instruction: &Instruction) -> bool {
    let encoded = match instruction.encoding() {
        EncodingKind::Legacy => !instruction.is_string_instruction(),
        EncodingKind::VEX => true,
        EncodingKind::EVEX => {
            let by_lane = instruction.has_op_mask() || instruction.is_broadcast();
            !by_lane || is_by_lane(instruction)
        }
        _ => false,
    };
    let special = |register: Register| register.is_vector_register() || register.is_k();
    encoded
        && (needs_no_vector(instruction.mnemonic()) || registers(instruction).any(special))
        && registers(instruction).all(|r| r.is_gpr() || special(r))
}

/// Some have no vector register, or none if their operand lies in memory.
fn needs_no_vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Ldmxcsr
            | M::Vldmxcsr
            | M::Stmxcsr
            | M::Vstmxcsr
            | M::Vzeroupper
            | M::Vzeroall
            | M::Cvtss2si
            | M::Cvttss2si
            | M::Cvtsd2si
            | M::Cvttsd2si
            | M::Vcvtss2usi
            | M::Vcvttss2usi
            | M::Vcvtsd2usi
            | M::Vcvttsd2usi
            | M::Vcvtss2si
            | M::Vcvttss2si
            | M::Vcvtsd2si
            | M::Vcvttsd2si
    )
}

/// Whether the lanes of the destination are those of the memory operand, one by one, so that a
/// mask and a repeated lane mean what they seem to.
fn is_by_lane(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovntdq
            | M::Vmovntps
            | M::Vmovntpd
            | M::Vmovntdqa
            | M::Vpandd
            | M::Vpandq
            | M::Vpandnd
            | M::Vpandnq
            | M::Vpord
            | M::Vporq
            | M::Vpxord
            | M::Vpxorq
            | M::Vpternlogd
            | M::Vpternlogq
            | M::Vpaddb
            | M::Vpaddw
            | M::Vpaddd
            | M::Vpaddq
            | M::Vpsubb
            | M::Vpsubw
            | M::Vpsubd
            | M::Vpsubq
            | M::Vpmulld
            | M::Vpminub
            | M::Vpminuw
            | M::Vpminud
            | M::Vpminsb
            | M::Vpminsw
            | M::Vpminsd
            | M::Vpmaxub
            | M::Vpmaxuw
            | M::Vpmaxud
            | M::Vpmaxsb
            | M::Vpmaxsw
            | M::Vpmaxsd
            | M::Vaddps
            | M::Vaddpd
            | M::Vsubps
            | M::Vsubpd
            | M::Vmulps
            | M::Vmulpd
            | M::Vpaddsb
            | M::Vpaddsw
            | M::Vpaddusb
            | M::Vpaddusw
            | M::Vpsubsb
            | M::Vpsubsw
            | M::Vpsubusb
            | M::Vpsubusw
            | M::Vpmullw
            | M::Vpmulhw
            | M::Vpmulhuw
            | M::Vpmulhrsw
            | M::Vpavgb
            | M::Vpavgw
            | M::Vpabsb
            | M::Vpabsw
            | M::Vpabsd
            | M::Vpabsq
            | M::Vpshufb
            | M::Vpshufd
            | M::Vpunpcklbw
            | M::Vpunpcklwd
            | M::Vpunpckldq
            | M::Vpunpcklqdq
            | M::Vpunpckhbw
            | M::Vpunpckhwd
            | M::Vpunpckhdq
            | M::Vpunpckhqdq
            | M::Vunpcklps
            | M::Vunpcklpd
            | M::Vunpckhps
            | M::Vunpckhpd
            | M::Vshufps
            | M::Vshufpd
            | M::Vpermd
            | M::Vpermps
            | M::Vpermq
            | M::Vpermpd
            | M::Vdivps
            | M::Vdivpd
            | M::Vminps
            | M::Vminpd
            | M::Vmaxps
            | M::Vmaxpd
            | M::Vsqrtps
            | M::Vsqrtpd
            | M::Vandps
            | M::Vandpd
            | M::Vandnps
            | M::Vandnpd
            | M::Vorps
            | M::Vorpd
            | M::Vxorps
            | M::Vxorpd
            | M::Vcvtdq2ps
            | M::Vcvtudq2ps
            | M::Vpsllvd
            | M::Vpsllvq
            | M::Vpsrlvd
            | M::Vpsrlvq
            | M::Vpsravd
            | M::Vpsravq
            | M::Vpsllvw
            | M::Vpsrlvw
            | M::Vpsravw
            | M::Vpminsq
            | M::Vpmaxsq
            | M::Vpminuq
            | M::Vpmaxuq
            | M::Vpmullq
            | M::Vprold
            | M::Vprolq
            | M::Vprord
            | M::Vprorq
            | M::Vprolvd
            | M::Vprolvq
            | M::Vprorvd
            | M::Vprorvq
            | M::Vplzcntd
            | M::Vplzcntq
            | M::Vpopcntb
            | M::Vpopcntw
            | M::Vpopcntd
            | M::Vpopcntq
            | M::Vpshldw
            | M::Vpshldd
            | M::Vpshldq
            | M::Vpshrdw
            | M::Vpshrdd
            | M::Vpshrdq
            | M::Vpshldvw
            | M::Vpshldvd
            | M::Vpshldvq
            | M::Vpshrdvw
            | M::Vpshrdvd
            | M::Vpshrdvq
            | M::Vpermb
            | M::Vpermw
            | M::Vpermi2b
            | M::Vpermi2w
            | M::Vpermi2d
            | M::Vpermi2q
            | M::Vpermi2ps
            | M::Vpermi2pd
            | M::Vpermt2b
            | M::Vpermt2w
            | M::Vpermt2d
            | M::Vpermt2q
            | M::Vpermt2ps
            | M::Vpermt2pd
            | M::Vpmadd52luq
            | M::Vpmadd52huq
            | M::Valignd
            | M::Valignq
            | M::Vpblendmb
            | M::Vpblendmw
            | M::Vpblendmd
            | M::Vpblendmq
            | M::Vblendmps
            | M::Vblendmpd
            | M::Vfmadd132ps
            | M::Vfmadd132pd
            | M::Vfmadd213ps
            | M::Vfmadd213pd
            | M::Vfmadd231ps
            | M::Vfmadd231pd
            | M::Vfnmadd213ps
            | M::Vfnmadd213pd
            | M::Vfnmadd231ps
            | M::Vfnmadd231pd
            | M::Vfmsub213ps
            | M::Vfmsub213pd
            | M::Vfmsub231ps
            | M::Vfmsub231pd
    ) || registers(instruction).any(Register::is_k)
}

/// Moves, shuffles and logic.
fn moving(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Movaps
        | M::Vmovaps
        | M::Movapd
        | M::Vmovapd
        | M::Movups
        | M::Vmovups
        | M::Movupd
        | M::Vmovupd
        | M::Movdqa
        | M::Vmovdqa
        | M::Movdqu
        | M::Vmovdqu
        | M::Lddqu
        | M::Vlddqu
        | M::Movntdq
        | M::Vmovntdq
        | M::Movntps
        | M::Vmovntps
        | M::Movntpd
        | M::Vmovntpd
        | M::Movntdqa
        | M::Vmovntdqa
        | M::Vmovdqu8
        | M::Vmovdqu16
        | M::Vmovdqu32
        | M::Vmovdqu64
        | M::Vmovdqa32
        | M::Vmovdqa64 => moves::mov,
        M::Movd | M::Vmovd | M::Movq | M::Vmovq => moves::low,
        M::Movss | M::Vmovss => moves::movss,
        M::Movsd | M::Vmovsd => moves::movsd,
        M::Movlps | M::Vmovlps | M::Movlpd | M::Vmovlpd => moves::movlps,
        M::Movhps | M::Vmovhps | M::Movhpd | M::Vmovhpd | M::Movlhps | M::Vmovlhps => moves::movhps,
        M::Movhlps | M::Vmovhlps => moves::movhlps,
        M::Movddup | M::Vmovddup => moves::movddup,
        M::Movsldup | M::Vmovsldup => moves::movsldup,
        M::Movshdup | M::Vmovshdup => moves::movshdup,
        M::Pinsrb | M::Vpinsrb => moves::insert::<u8>,
        M::Pextrb | M::Vpextrb => moves::extract::<u8>,
        M::Pinsrw | M::Vpinsrw => moves::insert::<u16>,
        M::Pextrw | M::Vpextrw => moves::extract::<u16>,
        M::Pinsrd | M::Vpinsrd => moves::insert::<u32>,
        M::Pextrd | M::Vpextrd | M::Extractps | M::Vextractps => moves::extract::<u32>,
        M::Pinsrq | M::Vpinsrq => moves::insert::<u64>,
        M::Pextrq | M::Vpextrq => moves::extract::<u64>,
        M::Insertps | M::Vinsertps => moves::insertps,
        M::Vpbroadcastb => |m, d| moves::broadcast(m, d, 1),
        M::Vpbroadcastw => |m, d| moves::broadcast(m, d, 2),
        M::Vpbroadcastd | M::Vbroadcastss => |m, d| moves::broadcast(m, d, 4),
        M::Vpbroadcastq | M::Vbroadcastsd => |m, d| moves::broadcast(m, d, 8),
        M::Vbroadcastf128
        | M::Vbroadcasti128
        | M::Vbroadcastf32x4
        | M::Vbroadcasti32x4
        | M::Vbroadcastf64x2
        | M::Vbroadcasti64x2 => |m, d| moves::broadcast(m, d, 16),
        M::Vbroadcastf32x2 | M::Vbroadcasti32x2 => |m, d| moves::broadcast(m, d, 8),
        M::Vbroadcastf32x8 | M::Vbroadcasti32x8 | M::Vbroadcastf64x4 | M::Vbroadcasti64x4 => {
            |m, d| moves::broadcast(m, d, 32)
        }
        M::Vinsertf128
        | M::Vinserti128
        | M::Vinsertf32x4
        | M::Vinserti32x4
        | M::Vinsertf64x2
        | M::Vinserti64x2 => |m, d| moves::insert_part(m, d, 16),
        M::Vinsertf32x8 | M::Vinserti32x8 | M::Vinsertf64x4 | M::Vinserti64x4 => {
            |m, d| moves::insert_part(m, d, 32)
        }
        M::Vextractf128
        | M::Vextracti128
        | M::Vextractf32x4
        | M::Vextracti32x4
        | M::Vextractf64x2
        | M::Vextracti64x2 => |m, d| moves::extract_part(m, d, 16),
        M::Vextractf32x8 | M::Vextracti32x8 | M::Vextractf64x4 | M::Vextracti64x4 => {
            |m, d| moves::extract_part(m, d, 32)
        }
        M::Pmovmskb | M::Vpmovmskb => |m, d| moves::signs(m, d, 1),
        M::Movmskps | M::Vmovmskps => |m, d| moves::signs(m, d, 4),
        M::Movmskpd | M::Vmovmskpd => |m, d| moves::signs(m, d, 8),
        M::Pmovzxbw | M::Vpmovzxbw => |m, d| lanes(m, d, <u16 as From<u8>>::from),
        M::Pmovsxbw | M::Vpmovsxbw => |m, d| lanes(m, d, <i16 as From<i8>>::from),
        M::Pmovzxbd | M::Vpmovzxbd => |m, d| lanes(m, d, <u32 as From<u8>>::from),
        M::Pmovsxbd | M::Vpmovsxbd => |m, d| lanes(m, d, <i32 as From<i8>>::from),
        M::Pmovzxbq | M::Vpmovzxbq => |m, d| lanes(m, d, <u64 as From<u8>>::from),
        M::Pmovsxbq | M::Vpmovsxbq => |m, d| lanes(m, d, <i64 as From<i8>>::from),
        M::Pmovzxwd | M::Vpmovzxwd => |m, d| lanes(m, d, <u32 as From<u16>>::from),
        M::Pmovsxwd | M::Vpmovsxwd => |m, d| lanes(m, d, <i32 as From<i16>>::from),
        M::Pmovzxwq | M::Vpmovzxwq => |m, d| lanes(m, d, <u64 as From<u16>>::from),
        M::Pmovsxwq | M::Vpmovsxwq => |m, d| lanes(m, d, <i64 as From<i16>>::from),
        M::Pmovzxdq | M::Vpmovzxdq => |m, d| lanes(m, d, <u64 as From<u32>>::from),
        M::Pmovsxdq | M::Vpmovsxdq => |m, d| lanes(m, d, <i64 as From<i32>>::from),
        M::Vzeroupper => moves::zero_upper,
        M::Vzeroall => moves::zero_all,

        M::Pshufd | M::Vpshufd => shuffle::pshufd,
        M::Pshuflw | M::Vpshuflw => shuffle::pshuflw,
        M::Pshufhw | M::Vpshufhw => shuffle::pshufhw,
        M::Shufps | M::Vshufps => shuffle::shufps,
        M::Shufpd | M::Vshufpd => shuffle::shufpd,
        M::Palignr | M::Vpalignr => shuffle::palignr,
        M::Pshufb | M::Vpshufb => shuffle::pshufb,
        M::Pslldq | M::Vpslldq => shuffle::pslldq,
        M::Psrldq | M::Vpsrldq => shuffle::psrldq,
        M::Punpcklbw | M::Vpunpcklbw => |m, d| shuffle::unpack(m, d, 1, 0),
        M::Punpcklwd | M::Vpunpcklwd => |m, d| shuffle::unpack(m, d, 2, 0),
        M::Punpckldq | M::Vpunpckldq | M::Unpcklps | M::Vunpcklps => {
            |m, d| shuffle::unpack(m, d, 4, 0)
        }
        M::Punpcklqdq | M::Vpunpcklqdq | M::Unpcklpd | M::Vunpcklpd => {
            |m, d| shuffle::unpack(m, d, 8, 0)
        }
        M::Punpckhbw | M::Vpunpckhbw => |m, d| shuffle::unpack(m, d, 1, 8),
        M::Punpckhwd | M::Vpunpckhwd => |m, d| shuffle::unpack(m, d, 2, 8),
        M::Punpckhdq | M::Vpunpckhdq | M::Unpckhps | M::Vunpckhps => {
            |m, d| shuffle::unpack(m, d, 4, 8)
        }
        M::Punpckhqdq | M::Vpunpckhqdq | M::Unpckhpd | M::Vunpckhpd => {
            |m, d| shuffle::unpack(m, d, 8, 8)
        }
        M::Pblendw | M::Vpblendw => |m, d| shuffle::blend(m, d, 2),
        M::Blendps | M::Vblendps | M::Vpblendd => |m, d| shuffle::blend(m, d, 4),
        M::Blendpd | M::Vblendpd => |m, d| shuffle::blend(m, d, 8),
        M::Pblendvb | M::Vpblendvb => |m, d| shuffle::blend_by(m, d, 1),
        M::Blendvps | M::Vblendvps => |m, d| shuffle::blend_by(m, d, 4),
        M::Blendvpd | M::Vblendvpd => |m, d| shuffle::blend_by(m, d, 8),
        M::Packsswb | M::Vpacksswb => {
            |m, d| shuffle::pack(m, d, |a: i16| a.clamp(i8::MIN.into(), i8::MAX.into()) as i8)
        }
        M::Packuswb | M::Vpackuswb => {
            |m, d| shuffle::pack(m, d, |a: i16| a.clamp(u8::MIN.into(), u8::MAX.into()) as u8)
        }
        M::Packssdw | M::Vpackssdw => |m, d| {
            shuffle::pack(m, d, |a: i32| {
                a.clamp(i16::MIN.into(), i16::MAX.into()) as i16
            })
        },
        M::Packusdw | M::Vpackusdw => |m, d| {
            shuffle::pack(m, d, |a: i32| {
                a.clamp(u16::MIN.into(), u16::MAX.into()) as u16
            })
        },
        M::Vperm2f128 | M::Vperm2i128 => shuffle::permute_128,
        M::Vshuff32x4 | M::Vshufi32x4 | M::Vshuff64x2 | M::Vshufi64x2 => shuffle::shuffle_128,
        M::Vpermq | M::Vpermpd => shuffle::permute_64,
        M::Vpermd | M::Vpermps => shuffle::permute_32,
        M::Vpermilps => shuffle::permil_32,
        M::Vpermilpd => shuffle::permil_64,

        M::Pand
        | M::Vpand
        | M::Andps
        | M::Vandps
        | M::Andpd
        | M::Vandpd
        | M::Vpandd
        | M::Vpandq => int::and,
        M::Pandn
        | M::Vpandn
        | M::Andnps
        | M::Vandnps
        | M::Andnpd
        | M::Vandnpd
        | M::Vpandnd
        | M::Vpandnq => int::and_not,
        M::Por | M::Vpor | M::Orps | M::Vorps | M::Orpd | M::Vorpd | M::Vpord | M::Vporq => int::or,
        M::Pxor
        | M::Vpxor
        | M::Xorps
        | M::Vxorps
        | M::Xorpd
        | M::Vxorpd
        | M::Vpxord
        | M::Vpxorq => int::xor,
        M::Vpternlogd | M::Vpternlogq => int::ternary,
        M::Pcmpeqb | M::Vpcmpeqb => |m, d| compare::equal(m, d, 1),
        M::Pcmpeqw | M::Vpcmpeqw => |m, d| compare::equal(m, d, 2),
        M::Pcmpeqd | M::Vpcmpeqd => |m, d| compare::equal(m, d, 4),
        M::Pcmpeqq | M::Vpcmpeqq => |m, d| compare::equal(m, d, 8),
        M::Pcmpgtb | M::Vpcmpgtb => compare::greater::<i8>,
        M::Pcmpgtw | M::Vpcmpgtw => compare::greater::<i16>,
        M::Pcmpgtd | M::Vpcmpgtd => compare::greater::<i32>,
        M::Pcmpgtq | M::Vpcmpgtq => compare::greater::<i64>,
        M::Ptest | M::Vptest => |m, d| compare::test(m, d, u64::MAX),
        M::Vtestps => |m, d| compare::test(m, d, 0x8000_0000_8000_0000),
        M::Vtestpd => |m, d| compare::test(m, d, 1 << 63),
        _ => return None,
    };
    Some(handler)
}

/// Integer arithmetic.
fn integer(mnemonic: Mnemonic) -> Option<Handler> {
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

/// Floating point, but for fused operations.
fn floating(mnemonic: Mnemonic) -> Option<Handler> {
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
        M::Vcvtph2ps => |m, d| float::convert(m, d, |a: u16, _| Some(half::to_single(a))),
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

/// Ciphers and hashes.
fn cipher(mnemonic: Mnemonic) -> Option<Handler> {
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
