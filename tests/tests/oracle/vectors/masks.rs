//! Instructions with masks and with more registers.

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
