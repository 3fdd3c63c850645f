//! A program that runs every vector instruction on edge and random values.

use crate::fixture::next_random;

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
    all
}

/// Instructions with masks and with more registers (AVX-512 on 128 and 256 bits): masks come from
/// general registers and go back there.
pub(crate) fn mask_instructions() -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |text: String| all.push(text);
    for (lane, mask) in [("b", "d"), ("w", "w"), ("d", "b"), ("q", "b")] {
        for how in 0..8 {
            for sign in ["", "u"] {
                add(format!(
                    "vpcmp{sign}{lane} k1, ymm1, ymm2, {how}\nkmovd eax, k1"
                ));
                add(format!(
                    "kmovd k2, ebx\nvpcmp{sign}{lane} k1{{k2}}, xmm1, [rsi+3], {how}\nkmovq rax, k1"
                ));
            }
        }
        for op in ["vpcmpeq", "vpcmpgt", "vptestm", "vptestnm"] {
            add(format!(
                "{op}{lane} k3, ymm1, ymm2\nkmovd eax, k3\ntest eax, eax"
            ));
            add(format!(
                "kmovd k2, ecx\n{op}{lane} k3{{k2}}, ymm1, [rsi]\nkortest{mask} k3, k3"
            ));
        }
        for op in ["vpadd", "vpsub", "vpminu", "vpmaxs"] {
            if lane == "q" && op.starts_with("vpm") {
                continue;
            }
            add(format!("kmovd k1, ebx\n{op}{lane} ymm0{{k1}}, ymm1, ymm2"));
            add(format!(
                "kmovd k1, ebx\n{op}{lane} ymm0{{k1}}{{z}}, ymm1, [rsi+1]"
            ));
        }
        add(format!(
            "vpbroadcast{lane} ymm0, {}",
            if lane == "q" { "rbx" } else { "ebx" }
        ));
    }
    for lane in ["dqu8", "dqu16", "dqu32", "dqu64", "ups", "upd"] {
        add(format!("kmovd k1, ebx\nvmov{lane} ymm0{{k1}}, [rsi+1]"));
        add(format!("kmovd k1, ebx\nvmov{lane} ymm0{{k1}}{{z}}, ymm1"));
        add(format!(
            "kmovd k1, ebx\nvmov{lane} [rsi+1]{{k1}}, ymm1\nvmovdqu ymm0, [rsi]"
        ));
        add(format!("vmov{lane} ymm17, [rsi+1]\nvmov{lane} ymm0, ymm17"));
    }
    for lane in ["d", "q"] {
        for op in ["vpand", "vpandn", "vpor", "vpxor"] {
            add(format!("{op}{lane} ymm0, ymm1, ymm2"));
            add(format!("kmovd k1, ebx\n{op}{lane} ymm0{{k1}}, ymm1, [rsi]"));
        }
        for table in [0, 0xff, 0x96, 0xca, 0xfe, 0x1b] {
            add(format!("vpternlog{lane} ymm0, ymm1, ymm2, {table}"));
        }
        add(format!(
            "kmovd k1, ecx\nvpternlog{lane} ymm0{{k1}}, ymm1, ymm2, 0x6a"
        ));
    }
    add("vpaddd ymm0, ymm1, dword ptr [rsi+4]{1to8}".to_owned());
    add("vpxorq ymm0, ymm1, qword ptr [rsi+8]{1to4}".to_owned());
    add("vpcmpeqd k1, ymm1, dword ptr [rsi+4]{1to8}\nkmovd eax, k1".to_owned());
    for (mask, width) in [("b", "eax"), ("w", "eax"), ("d", "eax"), ("q", "rax")] {
        let load = format!("kmov{mask} k1, {width}\nkmovq k2, rbx\nkmovq k3, rcx");
        for op in ["kand", "kandn", "kor", "kxor", "kxnor", "kadd"] {
            add(format!("{load}\n{op}{mask} k1, k2, k3\nkmovq rdx, k1"));
            add(format!(
                "{load}\n{op}{mask} k1, k2, k2\nkmov{mask} {width}, k1"
            ));
        }
        add(format!("{load}\nknot{mask} k2, k1\nkmovq rdx, k2"));
        add(format!(
            "{load}\nkmov{mask} [rsi], k2\nkmov{mask} k1, [rsi]\nkmovq rdx, k1"
        ));
        add(format!("{load}\nkortest{mask} k1, k2"));
        add(format!("{load}\nktest{mask} k1, k2"));
        for count in [0, 1, 7, 8, 15, 31, 63, 64, 200] {
            add(format!(
                "{load}\nkshiftl{mask} k2, k3, {count}\nkmovq rdx, k2"
            ));
            add(format!(
                "{load}\nkshiftr{mask} k2, k3, {count}\nkmovq rdx, k2"
            ));
        }
    }
    for op in ["kunpckbw", "kunpckwd", "kunpckdq"] {
        add(format!(
            "kmovq k1, rax\nkmovq k2, rbx\n{op} k3, k1, k2\nkmovq rdx, k3"
        ));
    }
    for text in [
        "vpcmpub k1, ymm1, ymm2, 4\nkmovd eax, k1\ntest eax, eax\njne 1f\ninc ebx\n1:",
        "vextracti32x4 xmm0, ymm1, 1",
        "vinserti64x2 ymm0, ymm1, xmm2, 1",
        "vbroadcasti32x4 ymm0, [rsi+1]",
        "vpaddb ymm18, ymm1, ymm2\nvpshufb ymm19, ymm18, ymm1\nvmovdqa64 ymm0, ymm19",
        "vpsllw ymm18, ymm1, 3\nvpsrldq ymm20, ymm18, 5\nvmovdqu64 ymm0, ymm20",
        "vpermq ymm17, ymm1, 0x1b\nvmovdqa64 ymm0, ymm17",
        "vpermq ymm0, ymm1, [rsi]{1to4}",
        "vaddps ymm0, ymm1, dword ptr [rsi]{1to8}",
        "vaddsd xmm0, xmm1, xmm2, {rz-sae}",
        "vpmovzxbw ymm16, xmm1\nvmovdqa64 ymm0, ymm16",
        // What is not interpreted makes unknown what it writes.
        "vpaddd zmm0, zmm1, zmm2\nvextracti64x4 ymm5, zmm0, 1",
        "vmovdqu64 zmm16, [r15+r12*8]\nvmovdqu64 [rsi+5], zmm16\nvmovdqu ymm0, [rsi+37]",
        "vmovdqu64 zmm16, [r15+r12*8]\nvpaddb zmm17, zmm16, [r15+r12*8+64]\n\
         vmovdqa64 [rsi+64], zmm17\nmov rax, [rsi+120]\nvmovdqa ymm0, [rsi+96]",
        "vpbroadcastb zmm16, ebx\nvmovdqu64 [rsi], zmm16\nvmovdqu ymm0, [rsi+30]",
        "kmovq k1, rbx\nvpbroadcastd zmm16, ecx\nvmovdqu8 [rsi+1]{k1}, zmm16\n\
         vmovdqu ymm0, [rsi+32]",
        "kmovq k1, rcx\nvpbroadcastb zmm16, ebx\nvpcmpub k2{k1}, zmm16, [rsi], 1\nkmovq rax, k2",
        "kmovq k1, rbx\nvmovdqu8 zmm16{k1}{z}, [rsi]\nvmovdqu64 [rsi], zmm16\n\
         vzeroupper\nvmovdqu64 [rsi+64], zmm16\nvmovdqu64 [rsi+128], zmm1\nvmovdqu ymm0, [rsi+100]",
        "kmovd k1, eax\nvpcmpeqb k1, zmm1, zmm2\nkmovd ebx, k1",
        "kmovd k1, eax\nvpshufb ymm0{k1}, ymm1, ymm2",
        "vpmovb2m k1, ymm1\nkmovd eax, k1",
        "kmovd k1, eax\nvpsrld ymm1, ymm1, 24\nvpgatherdd ymm0{k1}, [rsi+ymm1]\nkmovd eax, k1",
        "kmovd k1, eax\nvpsrld ymm1, ymm1, 24\nvpscatterdd [rsi+ymm1]{k1}, ymm2\n\
         kmovd eax, k1\nvmovdqu ymm0, [rsi]",
        "kmovd k1, eax\nvcompresspd [rsi]{k1}, ymm2\nvmovdqu ymm0, [rsi]",
        "vpmovdb [rsi], ymm2\nvmovdqu ymm0, [rsi]",
        "vfpclassps k1, ymm1, 0x1f\nkmovd eax, k1",
        "vmovdqu64 ymm0, ymm1\nvpermi2d ymm0, ymm1, ymm2",
        "vpmovm2b ymm0, k1",
    ] {
        add(text.to_owned());
    }
    all
}

/// Instructions with a form of their own.
const SINGLES: &[&str] = &[
    "movd xmm0, ebx\nmovd ecx, xmm0",
    "movq xmm0, rbx\nmovq rcx, xmm0\nmovd [rsi], xmm0",
    "vmovd xmm0, dword ptr [rsi+1]\nvmovq rax, xmm0",
    "vmovq xmm0, xmm1\nvmovq [rsi+3], xmm1\nmov rax, [rsi+3]",
    "movq xmm0, xmm1",
    "movss xmm0, xmm1",
    "movss xmm0, dword ptr [rsi+1]",
    "movss [rsi+2], xmm1\nmov eax, [rsi+2]",
    "vmovss xmm0, xmm1, xmm2",
    "vmovss xmm0, dword ptr [rsi+4]",
    "movsd xmm0, xmm1",
    "movsd xmm0, qword ptr [rsi+1]",
    "vmovsd xmm0, xmm1, xmm2",
    "vmovsd [rsi+5], xmm2\nmov rax, [rsi+5]",
    "movlps xmm0, [rsi+1]",
    "movhps xmm0, [rsi+1]",
    "movlpd [rsi+1], xmm1\nmov rax, [rsi+1]",
    "movhpd [rsi+1], xmm1\nmov rax, [rsi+1]",
    "vmovlps xmm0, xmm1, [rsi+1]",
    "vmovhpd xmm0, xmm1, [rsi+1]",
    "vmovhps [rsi], xmm1\nmov rax, [rsi]",
    "movlhps xmm0, xmm1",
    "movhlps xmm0, xmm1",
    "vmovlhps xmm0, xmm1, xmm2",
    "vmovhlps xmm0, xmm1, xmm2",
    "movddup xmm0, xmm1",
    "movddup xmm0, [rsi+1]",
    "vmovddup ymm0, ymm1",
    "vmovddup ymm0, [rsi+1]",
    "lddqu xmm0, [rsi+1]",
    "vlddqu ymm0, [rsi+1]",
    "movntdqa xmm0, [rsi]",
    "vmovntdqa ymm0, [rsi]",
    "movntdq [rsi], xmm1\nmov rax, [rsi+4]",
    "vmovntps [rsi], ymm1\nmov rax, [rsi+28]",
    "movups [rsi+3], xmm1\nmov rax, [rsi+3]\nmov rbx, [rsi+9]",
    "vmovdqu [rsi+3], ymm1\nmov rax, [rsi+3]\nmov rbx, [rsi+27]\nvmovdqu ymm0, [rsi+11]",
    "movaps [rsi], xmm1\nmov [rsi+5], bl\nmovaps xmm0, [rsi]",
    "mov [rsi+3], rbx\nmov [rsi+21], ecx\nvmovdqu ymm0, [rsi]",
    "vbroadcastss ymm0, xmm1",
    "vbroadcastss ymm0, [rsi+1]",
    "vbroadcastsd ymm0, xmm1",
    "vbroadcasti128 ymm0, [rsi+1]",
    "vbroadcastf128 ymm0, [rsi+2]",
    "pmovmskb eax, xmm1\ntest eax, eax\njne 1f\ninc ebx\n1:",
    "vpmovmskb eax, ymm1",
    "movmskps eax, xmm1",
    "vmovmskps eax, ymm1",
    "movmskpd eax, xmm1",
    "vmovmskpd eax, ymm1",
    "pcmpeqb xmm1, xmm2\npmovmskb eax, xmm1\nbsf ecx, eax",
    "ptest xmm1, xmm2",
    "ptest xmm1, xmm1",
    "vptest ymm1, ymm2",
    "vptest ymm1, [rsi+1]",
    "pxor xmm1, xmm1\nptest xmm1, xmm2",
    "vtestps ymm1, ymm2",
    "vtestpd xmm1, xmm2",
    "pblendvb xmm3, xmm2, xmm0\nmovdqa xmm0, xmm3",
    "blendvps xmm3, xmm2, xmm0\nmovdqa xmm0, xmm3",
    "blendvpd xmm3, xmm2, xmm0\nmovdqa xmm0, xmm3",
    "vpblendvb ymm0, ymm1, ymm2, ymm3",
    "vblendvps ymm0, ymm1, ymm2, ymm3",
    "vblendvpd ymm0, ymm1, [rsi+1], ymm3",
    "vpmaskmovd ymm0, ymm1, [rsi+1]",
    "vmaskmovpd ymm0, ymm1, [rsi+1]",
    "vpmaskmovq xmm0, xmm1, [rsi+1]",
    "vpmaskmovd [rsi], ymm1, ymm2\nvmovdqu ymm0, [rsi]",
    "phminposuw xmm0, xmm1",
    "vphminposuw xmm0, [rsi+1]",
    "vzeroupper\nvpaddb ymm0, ymm1, ymm2",
    "vzeroall\nmovdqu xmm1, [rsi]",
    "ucomiss xmm1, xmm2\njp 1f\ninc eax\n1:",
    "ucomisd xmm1, xmm2\nseta al",
    "comiss xmm1, dword ptr [rsi]",
    "vcomisd xmm1, qword ptr [rsi+8]",
    "vucomiss xmm1, xmm1",
    "cvtsi2sd xmm0, ebx",
    "cvtsi2sd xmm0, rbx",
    "cvtsi2ss xmm0, ebx",
    "vcvtsi2ss xmm0, xmm1, rbx",
    "vcvtsi2sd xmm0, xmm1, dword ptr [rsi]",
    "cvtss2sd xmm0, xmm1",
    "vcvtss2sd xmm0, xmm1, dword ptr [rsi]",
    "cvtsd2ss xmm0, xmm1",
    "vcvtsd2ss xmm0, xmm1, xmm2",
    "cvttsd2si eax, xmm1",
    "cvttsd2si rax, xmm1",
    "cvttss2si eax, dword ptr [rsi]",
    "vcvttss2si rax, xmm1",
    "cvtsd2si eax, xmm1",
    "cvtsd2si rax, xmm1",
    "cvtss2si eax, xmm1",
    "vcvtss2si rax, xmm1",
    "cvtdq2pd xmm0, xmm1",
    "vcvtdq2pd ymm0, xmm1",
    "cvtdq2pd xmm0, [rsi+4]",
    "cvtps2pd xmm0, xmm1",
    "vcvtps2pd ymm0, xmm1",
    "cvtps2pd xmm0, [rsi+4]",
    "cvtpd2ps xmm0, xmm1",
    "vcvtpd2ps xmm0, ymm1",
    "cvtpd2dq xmm0, xmm1",
    "vcvtpd2dq xmm0, ymm1",
    "cvttpd2dq xmm0, xmm1",
    "vcvttpd2dq xmm0, ymm1",
    // Other roundings, and subnormal numbers that count as zero.
    "mov dword ptr [rsi], 0x3f80\nldmxcsr [rsi]\naddsd xmm0, xmm1\nmulps xmm1, xmm2\n\
     mov dword ptr [rsi], 0x1f80\nldmxcsr [rsi]",
    "mov dword ptr [rsi], 0x9fc0\nldmxcsr [rsi]\naddss xmm0, xmm1\nmulpd xmm1, xmm2\n\
     ucomiss xmm1, xmm2\nminps xmm1, xmm2\ncvtps2pd xmm3, xmm2\n\
     mov dword ptr [rsi], 0x1f80\nldmxcsr [rsi]\naddsd xmm0, xmm2",
    // Not every processor has these.
    "aesenc xmm0, xmm1",
    "aesenclast xmm0, [rsi]",
    "aesdec xmm0, xmm1",
    "vaesdeclast xmm0, xmm1, xmm2",
    "aesimc xmm0, xmm1",
    "aeskeygenassist xmm0, xmm1, 0x1b",
    "pclmulqdq xmm0, xmm1, 0",
    "pclmulqdq xmm0, xmm1, 1",
    "vpclmulqdq xmm0, xmm1, xmm2, 0x10",
    "pclmulqdq xmm0, [rsi], 0x11",
    "sha1msg1 xmm0, xmm1",
    "sha1msg2 xmm0, xmm1",
    "sha1nexte xmm0, xmm1",
    "sha1rnds4 xmm0, xmm1, 0",
    "sha1rnds4 xmm0, xmm1, 1",
    "sha1rnds4 xmm0, xmm1, 2",
    "sha1rnds4 xmm0, xmm1, 3",
    "sha256msg1 xmm0, xmm1",
    "sha256msg2 xmm0, xmm1",
    "sha256rnds2 xmm1, xmm2\nmovdqa xmm0, xmm1",
    // What is not interpreted makes unknown what it writes.
    "rcpps xmm0, xmm1",
    "vrsqrtss xmm0, xmm1, xmm2",
    "pcmpistri xmm1, xmm2, 8",
    "vdpps ymm0, ymm1, ymm2, 0x71",
    "vcvtph2ps ymm0, xmm1",
    "pcmpistrm xmm1, xmm2, 8",
    "mov eax, 5\nmov edx, 7\npcmpestri xmm1, xmm2, 0x18",
    "vpsrld ymm1, ymm1, 24\nvpgatherdd ymm0, [rsi+ymm1], ymm3\nvmovdqa ymm0, ymm3",
    "movq2dq xmm0, mm0\ncvtpi2ps xmm1, mm1\nemms",
    "vmaskmovps [rsi+1], ymm1, ymm2\nvmovdqu ymm0, [rsi]",
    "stmxcsr [rsi]\nmov eax, [rsi]",
];

/// Values for the lanes: integers at their edges, floating-point numbers of both sizes, random
/// bits.
pub(crate) fn values() -> Vec<u64> {
    const SINGLE: [u32; 24] = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x3f00_0000,
        0x4020_0000,
        0xc060_0000,
        0x4b80_0001,
        0x4eff_ffff,
        0x4f00_0000,
        0xcf00_0000,
        0x5f00_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7fa0_1234,
        0xffff_ffff,
        0x3dcc_cccd,
        0x42f6_e979,
    ];
    const DOUBLE: [u64; 24] = [
        0,
        0x8000_0000_0000_0000,
        1,
        0x8000_0000_0000_0001,
        0x0010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0xbff0_0000_0000_0000,
        0x3fe0_0000_0000_0000,
        0x4004_0000_0000_0000,
        0xc00c_0000_0000_0000,
        0x41df_ffff_ffc0_0000,
        0x41e0_0000_0000_0000,
        0xc1e0_0000_0020_0000,
        0x43e0_0000_0000_0000,
        0x36a0_0000_0000_0000,
        0x47ef_ffff_f000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0xfff4_1234_5678_9abc,
        0x3fb9_9999_9999_999a,
        0x405e_dccc_cccc_cccd,
        0x4330_0000_0000_0001,
    ];
    const WORD: [u16; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff];
    let mut state = 0x7ea1_0fb1;
    let mut random = || {
        state = next_random(state);
        state ^ state >> 29
    };
    (0..1100)
        .map(|i| {
            let pick = (random() >> 20) as usize;
            match i / 4 % 5 {
                0 => DOUBLE[pick % DOUBLE.len()],
                1 => {
                    let other = (random() >> 20) as usize;
                    u64::from(SINGLE[pick % SINGLE.len()])
                        | u64::from(SINGLE[other % SINGLE.len()]) << 32
                }
                2 => (0..4).fold(0, |word, i| {
                    word << 16 | u64::from(WORD[(pick >> (3 * i)) % WORD.len()])
                }),
                3 => random() & 0x0f1f_3f7f_0f1f_3f7f,
                _ => random(),
            }
        })
        .collect()
}
