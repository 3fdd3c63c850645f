//! Moves, shuffles, logic and comparisons.

use iced_x86::Mnemonic;

use super::super::{compare, int, lanes, moves, shuffle};
use crate::decode::Handler;

/// Moves, shuffles and logic.
pub(super) fn moving(mnemonic: Mnemonic) -> Option<Handler> {
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
