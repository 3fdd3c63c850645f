//! A program that runs every vector instruction on edge and random values.

mod masks;
mod more;
mod singles;
mod values;
mod wide;

pub(crate) use masks::mask_instructions;
pub(crate) use values::values;
pub(crate) use wide::wide_instructions;

use singles::SINGLES;

/// Two sources; legacy, and VEX with 128 and 256 bits.
const BINARY: &[&str] = &[
    "paddb",
    "paddw",
    "paddd",
    "paddq",
    "psubb",
    "psubw",
    "psubd",
    "psubq",
    "paddsb",
    "paddsw",
    "paddusb",
    "paddusw",
    "psubsb",
    "psubsw",
    "psubusb",
    "psubusw",
    "pmullw",
    "pmulld",
    "pmulhw",
    "pmulhuw",
    "pmulhrsw",
    "pmuludq",
    "pmuldq",
    "pmaddwd",
    "pmaddubsw",
    "psadbw",
    "pavgb",
    "pavgw",
    "pminsb",
    "pminsw",
    "pminsd",
    "pminub",
    "pminuw",
    "pminud",
    "pmaxsb",
    "pmaxsw",
    "pmaxsd",
    "pmaxub",
    "pmaxuw",
    "pmaxud",
    "psignb",
    "psignw",
    "psignd",
    "phaddw",
    "phaddd",
    "phaddsw",
    "phsubw",
    "phsubd",
    "phsubsw",
    "pcmpeqb",
    "pcmpeqw",
    "pcmpeqd",
    "pcmpeqq",
    "pcmpgtb",
    "pcmpgtw",
    "pcmpgtd",
    "pcmpgtq",
    "pand",
    "pandn",
    "por",
    "pxor",
    "andps",
    "andpd",
    "andnps",
    "andnpd",
    "orps",
    "orpd",
    "xorps",
    "xorpd",
    "punpcklbw",
    "punpcklwd",
    "punpckldq",
    "punpcklqdq",
    "punpckhbw",
    "punpckhwd",
    "punpckhdq",
    "punpckhqdq",
    "unpcklps",
    "unpcklpd",
    "unpckhps",
    "unpckhpd",
    "packsswb",
    "packuswb",
    "packssdw",
    "packusdw",
    "pshufb",
    "addps",
    "addpd",
    "subps",
    "subpd",
    "mulps",
    "mulpd",
    "divps",
    "divpd",
    "minps",
    "minpd",
    "maxps",
    "maxpd",
    "haddps",
    "haddpd",
    "hsubps",
    "hsubpd",
    "addsubps",
    "addsubpd",
];

/// One source; legacy, and VEX with 128 and 256 bits.
const UNARY: &[&str] = &[
    "movaps",
    "movapd",
    "movups",
    "movupd",
    "movdqa",
    "movdqu",
    "movsldup",
    "movshdup",
    "pabsb",
    "pabsw",
    "pabsd",
    "sqrtps",
    "sqrtpd",
    "cvtdq2ps",
    "cvtps2dq",
    "cvttps2dq",
];

/// Two sources and an immediate; legacy, and VEX with 128 and 256 bits.
const BINARY_IMMEDIATE: &[&str] = &[
    "shufps", "shufpd", "palignr", "pblendw", "blendps", "blendpd", "mpsadbw",
];

/// One source and an immediate; legacy, and VEX with 128 and 256 bits.
const UNARY_IMMEDIATE: &[&str] = &["pshufd", "pshuflw", "pshufhw", "roundps", "roundpd"];

/// Shifts by an immediate and by a vector.
const SHIFTS: &[&str] = &[
    "psllw", "pslld", "psllq", "psrlw", "psrld", "psrlq", "psraw", "psrad",
];

/// Of the lowest lane; legacy and VEX.
const SCALAR: &[&str] = &["adds", "subs", "muls", "divs", "mins", "maxs", "sqrts"];

/// With VEX alone, 128 and 256 bits.
const VEX_BINARY: &[&str] = &[
    "vpsllvd",
    "vpsllvq",
    "vpsrlvd",
    "vpsrlvq",
    "vpsravd",
    "vpermilps",
    "vpermilpd",
];

const IMMEDIATES: [u8; 6] = [0, 1, 0x1b, 0x4e, 0xb1, 0xe7];

/// The instructions, in Intel syntax; the destination of most is `xmm0` or `ymm0`, sources are
/// `xmm1` to `xmm3` and memory at rsi (aligned). Their operands are loaded before and the upper
/// half of `ymm0` is brought down after.
pub(crate) fn instructions() -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |text: String| all.push(text);
    for op in BINARY {
        add(format!("{op} xmm0, xmm1"));
        add(format!("{op} xmm0, [rsi+16]"));
        add(format!("{op} xmm0, xmm0"));
        add(format!("v{op} xmm0, xmm1, xmm2"));
        add(format!("v{op} ymm0, ymm1, ymm2"));
        add(format!("v{op} ymm0, ymm2, [rsi+3]"));
        add(format!("v{op} ymm0, ymm1, ymm1"));
    }
    for op in UNARY {
        add(format!("{op} xmm0, xmm1"));
        add(format!("{op} xmm0, [rsi+32]"));
        add(format!("v{op} xmm0, xmm1"));
        add(format!("v{op} ymm0, ymm1"));
        add(format!("v{op} ymm0, [rsi+64]"));
    }
    for immediate in IMMEDIATES {
        for op in BINARY_IMMEDIATE {
            add(format!("{op} xmm0, xmm1, {immediate}"));
            add(format!("{op} xmm0, [rsi], {immediate}"));
            add(format!("v{op} xmm0, xmm2, xmm1, {immediate}"));
            add(format!("v{op} ymm0, ymm2, ymm1, {immediate}"));
        }
        for op in UNARY_IMMEDIATE {
            let control = if op.starts_with("round") {
                immediate & 7
            } else {
                immediate
            };
            add(format!("{op} xmm0, xmm1, {control}"));
            add(format!("v{op} ymm0, ymm1, {control}"));
            add(format!("v{op} ymm0, [rsi+5], {control}"));
        }
        for op in ["vpermilps", "vpermilpd", "vpermq", "vpermpd"] {
            add(format!("{op} ymm0, ymm1, {immediate}"));
        }
        for op in ["vperm2f128", "vperm2i128", "vpblendd"] {
            add(format!("{op} ymm0, ymm1, ymm2, {immediate}"));
        }
        for op in ["vinserti128", "vinsertf128"] {
            add(format!("{op} ymm0, ymm1, xmm2, {immediate}"));
            add(format!("{op} ymm0, ymm1, [rsi+1], {immediate}"));
        }
        for op in ["vextracti128", "vextractf128"] {
            add(format!("{op} xmm0, ymm1, {immediate}"));
            add(format!(
                "{op} [rsi+9], ymm1, {immediate}\nmovdqu xmm0, [rsi+9]"
            ));
        }
        for (lane, register, size) in [
            ("b", "ebx", "byte"),
            ("w", "ebx", "word"),
            ("d", "ebx", "dword"),
            ("q", "rbx", "qword"),
        ] {
            add(format!("pinsr{lane} xmm0, {register}, {immediate}"));
            add(format!("vpinsr{lane} xmm0, xmm1, {register}, {immediate}"));
            add(format!("pinsr{lane} xmm0, {size} ptr [rsi+1], {immediate}"));
            add(format!("pextr{lane} {register}, xmm1, {immediate}"));
            add(format!(
                "vpextr{lane} {size} ptr [rsi+2], xmm1, {immediate}\nmov rcx, [rsi]"
            ));
        }
        add(format!("pextrw eax, xmm1, {immediate}"));
        add(format!("extractps eax, xmm1, {immediate}"));
        add(format!("insertps xmm0, xmm1, {immediate}"));
        add(format!("vinsertps xmm0, xmm1, [rsi+4], {immediate}"));
        for op in ["pslldq", "psrldq"] {
            add(format!("{op} xmm0, {immediate}"));
            add(format!("v{op} ymm0, ymm1, {}", immediate & 15));
        }
        for lane in ["s", "d"] {
            let size = if lane == "s" { "dword" } else { "qword" };
            let control = immediate & 7;
            add(format!("rounds{lane} xmm0, xmm1, {control}"));
            add(format!(
                "vrounds{lane} xmm0, xmm1, {size} ptr [rsi], {control}"
            ));
            add(format!("cmps{lane} xmm0, xmm1, {control}"));
            add(format!("cmpp{lane} xmm0, [rsi], {control}"));
        }
    }
    for predicate in 0..32 {
        for lane in ["s", "d"] {
            add(format!("vcmpp{lane} ymm0, ymm1, ymm2, {predicate}"));
            add(format!("vcmps{lane} xmm0, xmm1, xmm2, {predicate}"));
        }
    }
    for op in SHIFTS {
        let lane = match op.as_bytes().last() {
            Some(b'w') => 16,
            Some(b'd') => 32,
            _ => 64,
        };
        for count in [0, 1, 7, 8, lane - 1, lane, 200] {
            add(format!("{op} xmm0, {count}"));
            add(format!("v{op} ymm0, ymm1, {count}"));
        }
        add(format!("{op} xmm0, xmm1"));
        for mask in [7, 15, 31, 63, 127] {
            add(format!(
                "mov eax, {mask}\nand eax, ebx\nmovd xmm3, eax\n{op} xmm0, xmm3"
            ));
            add(format!(
                "mov eax, {mask}\nand rax, rcx\nmovq xmm3, rax\nv{op} ymm0, ymm1, xmm3"
            ));
        }
        add(format!("v{op} ymm0, ymm1, [rsi+1]"));
    }
    for op in VEX_BINARY {
        let masked = format!(
            "vpcmpeqd ymm3, ymm3, ymm3\nvpsrld ymm3, ymm3, 26\n\
                              vpand ymm3, ymm3, ymm2\n{op} ymm0, ymm1, ymm3"
        );
        add(masked);
        add(format!("{op} xmm0, xmm1, xmm2"));
        add(format!("{op} ymm0, ymm1, [rsi+7]"));
    }
    for op in ["vpermd", "vpermps"] {
        add(format!("{op} ymm0, ymm1, ymm2"));
        add(format!("{op} ymm0, ymm1, [rsi]"));
    }
    for op in SCALAR {
        for lane in ["s", "d"] {
            let size = if lane == "s" { "dword" } else { "qword" };
            add(format!("{op}{lane} xmm0, xmm1"));
            add(format!("{op}{lane} xmm0, {size} ptr [rsi+4]"));
            add(format!("v{op}{lane} xmm0, xmm1, xmm2"));
        }
    }
    for op in ["pmovzx", "pmovsx"] {
        for lanes in ["bw", "bd", "bq", "wd", "wq", "dq"] {
            add(format!("{op}{lanes} xmm0, xmm1"));
            add(format!("v{op}{lanes} ymm0, xmm1"));
            add(format!("v{op}{lanes} ymm0, [rsi+2]"));
        }
    }
    for lane in ["b", "w", "d", "q"] {
        add(format!("vpbroadcast{lane} ymm0, xmm1"));
        add(format!("vpbroadcast{lane} xmm0, [rsi+1]"));
    }
    // Operands that are small integers or half of one: their arithmetic is exact.
    for (op, lane) in ["add", "sub", "mul", "div", "hadd", "hsub", "addsub"]
        .into_iter()
        .flat_map(|op| [(op, "s"), (op, "d")])
    {
        let from = if lane == "s" { "ymm" } else { "xmm" };
        let halves = if lane == "s" {
            "0x3f000000"
        } else {
            "0x3fe00000"
        };
        let shape = if lane == "s" {
            "vpshufd ymm4, ymm4, 0"
        } else {
            "vpsllq ymm4, ymm4, 32"
        };
        add(format!(
            "vpsrad ymm1, ymm1, 24\nvpsrad ymm2, ymm2, 26\nvcvtdq2p{lane} ymm1, {from}1\n\
             vcvtdq2p{lane} ymm2, {from}2\nmov eax, {halves}\nvmovd xmm4, eax\n\
             vpbroadcastd ymm4, xmm4\n{shape}\nvmulp{lane} ymm1, ymm1, ymm4\n\
             v{op}p{lane} ymm0, ymm1, ymm2"
        ));
        if op.len() == 3 {
            add(format!(
                "pxor xmm0, xmm0\nmovsx eax, bl\ncvtsi2s{lane} xmm0, eax\nmovsx ecx, cl\n\
                 cvtsi2s{lane} xmm1, ecx\n{op}s{lane} xmm0, xmm1\nsqrts{lane} xmm2, xmm0\n\
                 cvts{lane}2si ebx, xmm0"
            ));
        }
    }
    for kind in ["madd", "msub", "nmadd", "nmsub", "maddsub", "msubadd"] {
        for order in ["132", "213", "231"] {
            for lane in ["s", "d"] {
                let from = if lane == "s" { "ymm" } else { "xmm" };
                let op = format!("vf{kind}{order}p{lane}");
                add(format!("{op} ymm0, ymm1, ymm2"));
                add(format!(
                    "vpsrad ymm1, ymm1, 24\nvpsrad ymm2, ymm2, 24\nvcvtdq2p{lane} ymm1, {from}1\n\
                     vcvtdq2p{lane} ymm2, {from}2\nvmovaps ymm0, ymm2\n{op} ymm0, ymm1, ymm2"
                ));
                if kind.len() <= 5 && kind != "maddsub" {
                    add(format!("vf{kind}{order}s{lane} xmm0, xmm1, xmm2"));
                }
            }
        }
    }
    all.extend(SINGLES.iter().map(|text| (*text).to_owned()));
    all.extend(more::instructions());
    all
}
