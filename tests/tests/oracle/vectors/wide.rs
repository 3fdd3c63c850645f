//! AVX-512: what it adds, its masks and repeated lanes, and registers of 512 bits.

/// Two sources, lane by lane; memory may be a repeated lane of that size, if there is one.
const BINARY: &[(&str, &str)] = &[
    ("vpaddsb", ""),
    ("vpaddsw", ""),
    ("vpaddusb", ""),
    ("vpsubusw", ""),
    ("vpmullw", ""),
    ("vpmulhw", ""),
    ("vpmulhrsw", ""),
    ("vpavgb", ""),
    ("vpshufb", ""),
    ("vpunpcklbw", ""),
    ("vpunpckhwd", ""),
    ("vpunpckldq", "dword"),
    ("vpunpckhqdq", "qword"),
    ("vunpcklps", "dword"),
    ("vunpckhpd", "qword"),
    ("vpermd", "dword"),
    ("vpermps", "dword"),
    ("vpermq", "qword"),
    ("vpermpd", "qword"),
    ("vpermb", ""),
    ("vpermw", ""),
    ("vpermi2b", ""),
    ("vpermi2w", ""),
    ("vpermi2d", "dword"),
    ("vpermi2pd", "qword"),
    ("vpermt2b", ""),
    ("vpermt2w", ""),
    ("vpermt2ps", "dword"),
    ("vpermt2q", "qword"),
    ("vdivps", "dword"),
    ("vdivpd", "qword"),
    ("vminps", "dword"),
    ("vmaxpd", "qword"),
    ("vandps", "dword"),
    ("vandnpd", "qword"),
    ("vxorps", "dword"),
    ("vpsllvd", "dword"),
    ("vpsrlvq", "qword"),
    ("vpsravd", "dword"),
    ("vpsravq", "qword"),
    ("vpsllvw", ""),
    ("vpsrlvw", ""),
    ("vpsravw", ""),
    ("vpminsq", "qword"),
    ("vpmaxsq", "qword"),
    ("vpminuq", "qword"),
    ("vpmaxuq", "qword"),
    ("vpmullq", "qword"),
    ("vprolvd", "dword"),
    ("vprolvq", "qword"),
    ("vprorvd", "dword"),
    ("vprorvq", "qword"),
    ("vpshldvw", ""),
    ("vpshldvd", "dword"),
    ("vpshldvq", "qword"),
    ("vpshrdvw", ""),
    ("vpshrdvd", "dword"),
    ("vpshrdvq", "qword"),
    ("vpmadd52luq", "qword"),
    ("vpmadd52huq", "qword"),
    ("vpblendmb", ""),
    ("vpblendmw", ""),
    ("vpblendmd", "dword"),
    ("vblendmpd", "qword"),
    ("vaddps", "dword"),
    ("vfmadd213ps", "dword"),
    ("vfnmadd231pd", "qword"),
];

/// One source, lane by lane.
const UNARY: &[(&str, &str)] = &[
    ("vpabsb", ""),
    ("vpabsw", ""),
    ("vpabsd", "dword"),
    ("vpabsq", "qword"),
    ("vplzcntd", "dword"),
    ("vplzcntq", "qword"),
    ("vpopcntb", ""),
    ("vpopcntw", ""),
    ("vpopcntd", "dword"),
    ("vpopcntq", "qword"),
    ("vsqrtps", "dword"),
    ("vcvtdq2ps", "dword"),
    ("vcvtudq2ps", "dword"),
];

/// Two sources and an immediate, lane by lane.
const BINARY_IMMEDIATE: &[(&str, &str)] = &[
    ("vshufps", "dword"),
    ("vshufpd", "qword"),
    ("valignd", "dword"),
    ("valignq", "qword"),
    ("vpshldw", ""),
    ("vpshldd", "dword"),
    ("vpshldq", "qword"),
    ("vpshrdw", ""),
    ("vpshrdd", "dword"),
    ("vpshrdq", "qword"),
];

/// One source and an immediate, lane by lane.
const UNARY_IMMEDIATE: &[(&str, &str)] = &[
    ("vpshufd", "dword"),
    ("vprold", "dword"),
    ("vprolq", "qword"),
    ("vprord", "dword"),
    ("vprorq", "qword"),
    ("vpermq", "qword"),
    ("vpermpd", "qword"),
];

/// Vectors of 512 bits, and a mask in `k1`.
const LOAD: &str = "vmovdqu64 zmm0, [r15+r12*8]\nvmovdqu64 zmm1, [r15+r12*8+40]\n\
                    vmovdqu64 zmm2, [r15+r12*8+88]\nkmovq k1, rbx\n";
/// The upper half of the result, brought down.
const SHOW: &str = "\nvextracti32x4 xmm12, zmm0, 2\nvextracti64x2 xmm13, zmm0, 3";

/// The instructions, in the same surroundings as the others.
pub(crate) fn wide_instructions() -> Vec<String> {
    let mut all = Vec::new();
    for (rows, sources, immediate) in [
        (BINARY, "1, 2", false),
        (UNARY, "2", false),
        (BINARY_IMMEDIATE, "1, 2", true),
        (UNARY_IMMEDIATE, "2", true),
    ] {
        for (i, (op, repeated)) in rows.iter().enumerate() {
            let immediate = if immediate {
                format!(", {}", [0x1b, 0xe4, 9, 0x75][i % 4])
            } else {
                String::new()
            };
            forms(&mut all, op, repeated, sources, &immediate);
        }
    }
    all.extend(OTHERS.iter().map(|text| format!("{LOAD}{text}{SHOW}")));
    all
}

/// An instruction in the widths, with masks of both kinds, and with memory.
fn forms(all: &mut Vec<String>, op: &str, repeated: &str, sources: &str, immediate: &str) {
    let two = sources.len() > 1;
    let mut add = |register: &str, mask: &str, last: &str| {
        let first = if two {
            format!("{register}1, ")
        } else {
            String::new()
        };
        let text = format!("{op} {register}0{mask}, {first}{last}{immediate}");
        all.push(format!("{LOAD}{text}{SHOW}"));
    };
    add("zmm", "", "zmm2");
    add("zmm", "{k1}", "zmm2");
    add("ymm", "{k1}{z}", "ymm2");
    if op.starts_with("vpermp") || op.starts_with("vpermd") || op.starts_with("vpermq") {
        add("ymm", "", "ymm2");
    } else {
        add("xmm", "", "xmm2");
    }
    add("zmm", "", "[rsi+3]");
    if !repeated.is_empty() {
        for (register, count) in [("zmm", 64), ("ymm", 32)] {
            let count = if repeated == "dword" {
                count / 4
            } else {
                count / 8
            };
            let last = format!("{repeated} ptr [rsi+8]{{1to{count}}}");
            add(register, "{k1}", &last);
        }
    }
}

/// Instructions with a form of their own.
const OTHERS: &[&str] = &[
    "vpmultishiftqb zmm0, zmm1, zmm2",
    "vpdpbusd zmm0, zmm1, zmm2",
    "vpdpbusds ymm0, ymm1, ymm2",
    "vpdpwssd ymm0, ymm1, [rsi+3]",
    "vpdpwssds zmm0, zmm1, zmm2",
    "vpsraq zmm0, zmm1, 11",
    "vpsraq ymm0, ymm1, xmm2",
    "vpsllw zmm0, zmm1, 5",
    "vpsrld zmm0, [rsi+3], 9",
    "vpslldq zmm0, zmm1, 5",
    "vpsrldq zmm0, zmm1, 11",
    "vpalignr zmm0, zmm1, zmm2, 21",
    "vpshufhw zmm0, zmm1, 0x1b",
    "vpsadbw zmm0, zmm1, zmm2",
    "vpmaddwd zmm0, zmm1, zmm2",
    "vpmaddubsw zmm0, zmm1, zmm2",
    "vpmuludq zmm0, zmm1, zmm2",
    "vpackusdw zmm0, zmm1, zmm2",
    "vpacksswb zmm0, zmm1, [rsi]",
    "vpmovzxbd zmm0, xmm1",
    "vpmovsxwq zmm0, [rsi+3]",
    "vcvtdq2pd zmm0, ymm1",
    "vcvtps2pd zmm0, ymm1",
    "vcvtpd2ps ymm0, zmm1",
    "vcvttpd2dq ymm0, zmm1",
    "vcvtph2ps zmm0, ymm1",
    "vcvtps2ph ymm0, zmm1, 2",
    "vmovddup zmm0, zmm1",
    "vmovshdup zmm0, [rsi]",
    "vpermilps zmm0, zmm1, zmm2",
    "vpermilpd zmm0, zmm1, 0xa6",
    "vbroadcastf32x4 zmm0, [rsi+3]",
    "vbroadcasti64x4 zmm0, [rsi+3]",
    "vbroadcastf32x2 zmm0, xmm1",
    "vbroadcasti32x2 xmm0, qword ptr [rsi+3]",
    "vbroadcasti32x8 zmm0, [rsi+5]",
    "vinserti32x4 zmm0, zmm1, xmm2, 2",
    "vinserti64x4 zmm0, zmm1, ymm2, 1",
    "vinsertf32x8 zmm0, zmm1, [rsi+1], 0",
    "vextracti64x4 ymm0, zmm1, 1",
    "vextractf32x4 [rsi+1], zmm1, 3\nmovdqu xmm0, [rsi+1]",
    "vextracti32x8 [rsi+1], zmm2, 1\nvmovdqu ymm0, [rsi]",
    "vshuff32x4 zmm0, zmm1, zmm2, 0x4e",
    "vshufi64x2 ymm0, ymm1, ymm2, 3",
    "vshufi32x4 ymm0, ymm1, ymm2, 2",
    "vpmovdb xmm0, zmm1",
    "vpmovqd ymm0, zmm1",
    "vpmovwb [rsi+1], ymm1\nmovdqu xmm0, [rsi]",
    "vpmovqw [rsi+1], xmm1\nmovdqu xmm0, [rsi]",
    "vpmovdw xmm0, xmm1",
    "vpmovqb [rsi+1], ymm1\nmovdqu xmm0, [rsi]",
    "vpmovb2m k2, zmm1\nkmovq rax, k2",
    "vpmovw2m k2, ymm1\nkmovq rax, k2",
    "vpmovd2m k2, zmm1\nkmovq rax, k2",
    "vpmovq2m k2, xmm1\nkmovq rax, k2",
    "vpmovm2b zmm0, k1",
    "vpmovm2w ymm0, k1",
    "vpmovm2d zmm0, k1",
    "vpmovm2q xmm0, k1",
    "vpbroadcastmb2q zmm0, k1",
    "vpbroadcastmw2d ymm0, k1",
    "vcmpps k2, zmm1, zmm2, 1\nkmovq rax, k2",
    "vcmppd k2{k1}, ymm1, [rsi+3], 13\nkmovq rax, k2",
    "vcmpps k2{k1}, ymm1, dword ptr [rsi+4]{1to8}, 4\nkmovq rax, k2",
    "vcmpss k2, xmm1, xmm2, 22\nkmovq rax, k2",
    "vcmpsd k2{k1}, xmm1, qword ptr [rsi+4], 3\nkmovq rax, k2",
    "vcvtusi2ss xmm0, xmm1, ebx",
    "vcvtusi2sd xmm0, xmm1, rbx",
    "vcvtusi2ss xmm0, xmm1, qword ptr [rsi]",
    "vcvttss2usi eax, xmm1",
    "vcvttsd2usi rax, xmm2",
    "vcvtsd2usi eax, xmm1",
    "vcvtss2usi rax, dword ptr [rsi+4]",
    "vcvtudq2pd zmm0, ymm1",
    "vcvtqq2ps ymm0, zmm1",
    "vcvtqq2pd zmm0, zmm1",
    "vcvtuqq2ps xmm0, ymm1",
    "vcvtuqq2pd zmm0, zmm1",
    "vcvtps2qq zmm0, ymm1",
    "vcvttps2qq ymm0, xmm1",
    "vcvtpd2qq zmm0, zmm1",
    "vcvttpd2uqq zmm0, zmm1",
    "vcvttps2udq zmm0, zmm1",
    "vcvtps2udq ymm0, ymm1",
    "vcvtpd2udq ymm0, zmm1",
    "vcvttps2uqq zmm0, ymm2",
    "vrndscaleps zmm0, zmm1, 1",
    "vrndscalepd ymm0, ymm1, 4",
    "vrndscaless xmm0, xmm1, xmm2, 11",
    "vrndscalesd xmm0, xmm1, xmm2, 0x20",
    "vaesenc zmm0, zmm1, zmm2",
    "vaesdeclast ymm0, ymm1, [rsi]",
    "vpclmulqdq zmm0, zmm1, zmm2, 0x11",
    "vgf2p8mulb zmm0, zmm1, zmm2",
    "vpternlogd zmm0, zmm1, zmm2, 0xca",
    "vfmadd231pd zmm0, zmm1, zmm2",
    "vpmovswb ymm0, zmm1",
    "vpmovusdb xmm0, zmm1",
    "vpmovsqd ymm0, zmm2",
    "vpmovusqw xmm0, ymm1",
    "vpmovsdw [rsi+1], ymm1\nmovdqu xmm0, [rsi+1]",
    "vpmovusqb xmm0, zmm2",
    // With a rounding of their own.
    "vaddpd zmm0, zmm1, zmm2, {rn-sae}",
    "vmulps zmm0, zmm1, zmm2, {ru-sae}",
    "vpsrad zmm1, zmm1, 20\nvpsrad zmm2, zmm2, 22\nvcvtdq2ps zmm1, zmm1\n\
     vcvtdq2ps zmm2, zmm2\nvdivps zmm0, zmm1, zmm2, {rd-sae}",
    "vcvtsd2si rax, xmm1, {rz-sae}",
    "vcvtps2dq zmm0, zmm1, {ru-sae}",
    "vcvttsd2usi eax, xmm1, {sae}",
    "vmaxpd zmm0, zmm1, zmm2, {sae}",
    "vcmppd k2, zmm1, zmm2, {sae}, 2\nkmovq rax, k2",
    "vsqrtsd xmm0, xmm1, xmm2, {ru-sae}",
    "vpcompressd zmm0{k1}, zmm1",
    "vpconflictd ymm0, ymm1",
];
