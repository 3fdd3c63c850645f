//! Texts, gathers, chosen lanes, half precision, dot products, other roundings.

/// The instructions, in the same surroundings as the others.
pub(super) fn instructions() -> Vec<String> {
    let mut all = Vec::new();
    texts(&mut all);
    gathers(&mut all);
    stores(&mut all);
    numbers(&mut all);
    fields(&mut all);
    all
}

/// Texts of many lengths: with explicit ones, and with an end that is put somewhere.
fn texts(all: &mut Vec<String>) {
    for control in 0..0x80u8 {
        // Registers that have much in common, one of them often with an end.
        let similar = "vpsrlw xmm1, xmm1, 13\nvpsrlw xmm2, xmm2, 12\nvpaddw xmm1, xmm1, xmm2\n";
        let ended = "mov byte ptr [rsi+11], 0\nmov byte ptr [rsi+10], 0\n";
        all.push(format!("{similar}pcmpistri xmm1, xmm2, {control}"));
        all.push(format!("{ended}vpcmpistrm xmm1, [rsi+1], {control}"));
        all.push(format!(
            "movsx eax, al\nmovsx edx, dl\nsar eax, 2\nsar edx, 2\npcmpestrm xmm1, xmm2, {control}"
        ));
        all.push(format!(
            "{similar}and eax, 15\nand edx, 31\npcmpestri xmm1, xmm2, {control}"
        ));
        if control.is_multiple_of(5) {
            all.push(format!(
                "pcmpistri xmm1, [rsi+3], {control}\njbe 1f\ninc ebx\n1:"
            ));
            all.push(format!("vpcmpestri xmm1, [rsi+3], {control}"));
            all.push(format!("{similar}pcmpistrm xmm2, xmm1, {control}"));
        }
    }
}

/// Indices are small, and masks are as they come.
fn gathers(all: &mut Vec<String>) {
    let small = "vpsrad ymm1, ymm1, 24\n";
    let small_wide = "vpsrlq ymm1, ymm1, 56\n";
    for mask in ["", "vpcmpeqd ymm3, ymm3, ymm3\n"] {
        for op in ["vpgatherdd", "vgatherdps"] {
            all.push(format!(
                "{mask}{small}{op} ymm0, [rsi+ymm1*2+256], ymm3\nvpor ymm0, ymm0, ymm3"
            ));
            all.push(format!("{mask}{small}{op} xmm0, [rsi+xmm1+128], xmm3"));
            all.push(format!(
                "{mask}vpsrad ymm1, ymm1, 30\n{op} ymm0, [ymm1+area+64], ymm3"
            ));
        }
        for op in ["vpgatherdq", "vgatherdpd"] {
            all.push(format!("{mask}{small}{op} ymm0, [rsi+xmm1*4+512], ymm3"));
            all.push(format!("{mask}{small}{op} xmm0, [rsi+xmm1+128], xmm3"));
        }
        for op in ["vpgatherqd", "vgatherqps"] {
            all.push(format!("{mask}{small_wide}{op} xmm0, [rsi+ymm1*8], xmm3"));
            all.push(format!(
                "{mask}{small_wide}{op} xmm0, [rsi+xmm1], xmm3\nvpor ymm0, ymm0, ymm3"
            ));
        }
        for op in ["vpgatherqq", "vgatherqpd"] {
            all.push(format!("{mask}{small_wide}{op} ymm0, [rsi+ymm1], ymm3"));
            all.push(format!("{mask}{small_wide}{op} xmm0, [rsi+xmm1*8], xmm3"));
        }
    }
}

fn stores(all: &mut Vec<String>) {
    for op in ["vmaskmovps", "vmaskmovpd", "vpmaskmovd", "vpmaskmovq"] {
        all.push(format!("{op} [rsi+1], ymm1, ymm2\nvmovdqu ymm0, [rsi]"));
        all.push(format!(
            "{op} [rsi+9], xmm1, xmm2\nmov rax, [rsi+10]\nvmovdqu ymm0, [rsi]"
        ));
    }
    for text in [
        "maskmovdqu xmm1, xmm2\nmov rax, [rdi+3]\nvmovdqu ymm0, [rdi]",
        "vmaskmovdqu xmm2, xmm1\nvmovdqu ymm0, [rdi+5]",
        "stmxcsr [rsi]\nmov eax, [rsi]\nshr eax, 8",
        "vstmxcsr [rsi+4]\nmovzx eax, byte ptr [rsi+5]",
        "xor edx, edx\nmov eax, 0xe7\nand eax, ebx\nxsavec [rdi]\nmov rax, [rdi+520]\nvmovdqu ymm0, [rsi]",
        "fxsave [rdi]\nmov rax, [rdi+512]\nfxrstor [rdi]\nvpaddd ymm0, ymm1, ymm2",
        "vpxor ymm0, ymm0, ymm0\nvmovdqu [rdi+512], ymm0\nvmovdqu [rdi+544], ymm0\n\
         mov eax, 7\nxor edx, edx\nxsave [rdi]\npxor xmm0, xmm0\nxrstor [rdi]\nmov rbx, [rdi+8]",
    ] {
        all.push(text.to_owned());
    }
}

fn numbers(all: &mut Vec<String>) {
    // Small integers, and their halves.
    let exact = "vpsrad ymm1, ymm1, 25\nvpsrad ymm2, ymm2, 26\nvcvtdq2ps ymm1, ymm1\n\
                 vcvtdq2ps ymm2, ymm2\n";
    let exact_wide = "vpsrad ymm1, ymm1, 25\nvpsrad ymm2, ymm2, 26\nvcvtdq2pd ymm1, xmm1\n\
                      vcvtdq2pd ymm2, xmm2\n";
    for control in [0xff, 0x71, 0x13, 0xa5, 0x0f, 0xf0, 0x3c] {
        all.push(format!("dpps xmm0, xmm1, {control}"));
        all.push(format!("vdpps ymm0, ymm1, ymm2, {control}"));
        all.push(format!("{exact}vdpps ymm0, ymm1, ymm2, {control}"));
        all.push(format!("dppd xmm0, [rsi], {control}"));
        all.push(format!("{exact_wide}vdppd xmm0, xmm1, xmm2, {control}"));
    }
    all.push("vcvtph2ps ymm0, xmm1".to_owned());
    all.push("vcvtph2ps xmm0, qword ptr [rsi+3]".to_owned());
    all.push("vcvtph2ps ymm0, [rsi+3]".to_owned());
    for control in 0..5 {
        all.push(format!("vcvtps2ph xmm0, ymm1, {control}"));
        all.push(format!("vcvtps2ph xmm0, xmm1, {control}"));
        all.push(format!(
            "vcvtps2ph [rsi+3], ymm1, {control}\nvmovdqu ymm0, [rsi]"
        ));
        // Close to what halves can hold.
        all.push(format!(
            "vcvtph2ps ymm1, xmm1\nvpsrld ymm2, ymm2, 18\nvpaddd ymm1, ymm1, ymm2\n\
             vcvtps2ph xmm0, ymm1, {control}"
        ));
    }
    // Down, up, to zero; to zero with subnormal numbers as zero.
    for mode in [0x3f80, 0x5f80, 0x7f80, 0xffc0] {
        let set = format!("mov dword ptr [rsi], {mode}\nldmxcsr [rsi]\n");
        let reset = "\nmov dword ptr [rsi], 0x1f80\nldmxcsr [rsi]";
        for text in [
            "addsd xmm0, xmm1\nmulss xmm2, xmm1",
            "vpsrad ymm1, ymm1, 9\nvcvtdq2ps ymm1, ymm1\nvdivps ymm0, ymm1, ymm2",
            "vsqrtpd ymm0, ymm1\nvsubps ymm1, ymm1, ymm2\nvmovaps ymm0, ymm1",
            "vpsrad ymm1, ymm1, 7\nvpsrad ymm2, ymm2, 8\nvcvtdq2pd ymm1, xmm1\n\
             vcvtdq2pd ymm2, xmm2\nvdivpd ymm0, ymm1, ymm2\nvmulpd ymm1, ymm0, ymm2\n\
             vaddpd ymm2, ymm0, ymm1\nvsqrtpd ymm0, ymm2",
            "cvtsd2si rax, xmm1\ncvtss2si ecx, xmm2\ncvtsi2ss xmm0, rbx\ncvtsi2sd xmm1, rbx",
            "vroundps ymm0, ymm1, 4\nroundsd xmm0, xmm2, 12",
            "vcvtpd2ps xmm0, ymm1\ncvtsd2ss xmm2, xmm1\nvcvtdq2ps ymm1, ymm2\nvmovaps ymm0, ymm1",
            "vcvtps2dq ymm0, ymm1\nvcvtpd2dq xmm0, ymm2\nvcvtps2ph xmm1, ymm1, 4",
            "vpsrad ymm1, ymm1, 24\nvpsrad ymm2, ymm2, 24\nvcvtdq2pd ymm1, xmm1\n\
             vcvtdq2pd ymm2, xmm2\nvdivpd ymm0, ymm1, ymm2\nvfmadd231pd ymm0, ymm1, ymm2",
        ] {
            all.push(format!("{set}{text}{reset}"));
        }
    }
}

/// Not every processor has these.
fn fields(all: &mut Vec<String>) {
    all.push("gf2p8mulb xmm0, xmm1".to_owned());
    all.push("vgf2p8mulb ymm0, ymm1, [rsi]".to_owned());
    for constant in [0, 0x63, 0xff] {
        all.push(format!("gf2p8affineqb xmm0, [rsi], {constant}"));
        all.push(format!("vgf2p8affineinvqb ymm0, ymm1, ymm2, {constant}"));
    }
}
