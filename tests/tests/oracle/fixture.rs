//! Programs that run every instruction on edge and random values; here the integer ones.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::edges;
use crate::vectors;

/// Names of a register by width: 8, 16, 32, 64 bits.
const A: [&str; 4] = ["al", "ax", "eax", "rax"];
const B: [&str; 4] = ["bl", "bx", "ebx", "rbx"];
const C: [&str; 4] = ["cl", "cx", "ecx", "rcx"];
const D: [&str; 4] = ["dl", "dx", "edx", "rdx"];
const SIZE: [&str; 4] = ["byte ptr", "word ptr", "dword ptr", "qword ptr"];
const CONDITIONS: [&str; 16] = [
    "o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g",
];

/// Every flag that a program can set but the direction: CF PF AF ZF SF OF.
const FLAGS: u64 = 0x8d5;

/// The instructions, in Intel syntax. Between them rax, rbx, rcx, rdx and the flags are fresh; rsi
/// and rdi point to scratch memory; r8 is a second scratch register.
fn instructions() -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |text: String| all.push(text);
    for width in 0..4 {
        let (a, b, c, d, size) = (A[width], B[width], C[width], D[width], SIZE[width]);
        for op in [
            "add", "adc", "sub", "sbb", "cmp", "and", "or", "xor", "test",
        ] {
            add(format!("{op} {a}, {b}"));
            add(format!("{op} {size} [rsi+8], {d}"));
            add(format!("{op} {c}, 0x7f"));
            add(format!("{op} {b}, {b}"));
            if op != "test" {
                add(format!("{op} {a}, {size} [rsi+24]"));
                add(format!("{op} {size} [rsi], -1"));
            }
        }
        for op in ["adc", "sub", "xor"] {
            if width == 0 {
                add(format!("{op} ah, bl"));
                add(format!("{op} ch, dh"));
            } else {
                add(format!("lock {op} {size} [rdi], {b}"));
            }
        }
        for op in ["inc", "dec", "neg", "not", "mul", "imul"] {
            add(format!("{op} {b}"));
            add(format!("{op} {size} [rdi+16]"));
        }
        for op in ["shl", "shr", "sar", "rol", "ror", "rcl", "rcr"] {
            add(format!("{op} {a}, cl"));
            add(format!("{op} {a}, 1"));
            add(format!("{op} {b}, 7"));
            add(format!("{op} {b}, 8"));
            add(format!("{op} {b}, 0"));
            add(format!("{op} {a}, 31"));
            add(format!("{op} {size} [rsi+3], cl"));
        }
        add(format!("xadd {a}, {b}"));
        add(format!("lock xadd {size} [rsi], {b}"));
        add(format!("xadd {a}, {a}"));
        add(format!("cmpxchg {b}, {c}"));
        add(format!("cmpxchg {size} [rsi+8], {d}"));
        add(format!(
            "mov {a}, {size} [rsi+8]\ncmpxchg {size} [rsi+8], {d}"
        ));
        add(format!("xchg {a}, {b}"));
        add(format!("xchg {size} [rdi], {c}"));
        add(format!("xchg {a}, {a}"));
        add(format!("mov {size} [rsi+rcx*0], 1\nmov {a}, {size} [rsi]").replace("+rcx*0", ""));
        let s = ["b", "w", "d", "q"][width];
        for (prefix, count) in [("", 1), ("rep ", 0), ("rep ", 3), ("rep ", 70)] {
            for op in ["movs", "stos", "lods"] {
                add(format!("mov ecx, {count}\n{prefix}{op}{s}"));
            }
        }
        add(format!(
            "lea rsi, [rsi+800]\nlea rdi, [rsi+5]\nstd\nmov ecx, 9\nrep movs{s}\ncld"
        ));
        add(format!(
            "lea rdi, [rdi+800]\nstd\nmov ecx, 4\nrep stos{s}\nstos{s}\ncld"
        ));
        for prefix in ["", "repe ", "repne "] {
            add(format!("and ecx, 15\n{prefix}scas{s}"));
            add(format!("and ecx, 15\n{prefix}cmps{s}"));
            add(format!("mov rdi, rsi\nand ecx, 15\n{prefix}cmps{s}"));
        }
        if width == 0 {
            continue;
        }
        for op in ["shld", "shrd"] {
            add(format!("{op} {a}, {b}, 1"));
            add(format!("{op} {a}, {b}, 13"));
            if width > 1 {
                add(format!("{op} {a}, {b}, cl"));
                add(format!("{op} {size} [rsi], {b}, cl"));
            }
        }
        for op in ["bt", "bts", "btr", "btc"] {
            add(format!("{op} {a}, {b}"));
            add(format!("{op} {a}, 11"));
            add(format!("{op} {size} [rsi], 9"));
            // Within some hundred bytes of the pointer, either side.
            let keep = [
                "",
                "movsx bx, bl",
                "movsx ebx, bx\nsar ebx, 4",
                "movsx rbx, bx",
            ][width];
            add(format!(
                "lea rsi, [rsi+2048]\n{keep}\nsar {b}, 1\n{op} {size} [rsi], {b}"
            ));
        }
        for op in ["bsf", "bsr", "tzcnt", "lzcnt", "popcnt"] {
            add(format!("{op} {a}, {b}"));
            add(format!("{op} {c}, {size} [rsi+8]"));
        }
        add(format!("imul {a}, {b}"));
        add(format!("imul {a}, {b}, -3"));
        add(format!("imul {a}, {size} [rsi+8], 77"));
        add(format!("movsx {a}, bl"));
        if width < 3 {
            add(format!("movzx {a}, bh"));
        }
        add(format!("movzx {a}, byte ptr [rsi+1]"));
        add(format!("movsx {a}, byte ptr [rsi+9]"));
        add(format!("lea {a}, [rbx+rcx*4-77]"));
        add(format!("lea {a}, [ebx+ecx*8+5]"));
        add(format!("movbe {a}, {size} [rsi]"));
        add(format!("movbe {size} [rsi+8], {a}"));
        for condition in CONDITIONS {
            add(format!("cmov{condition} {a}, {b}"));
        }
        add(format!("mov {d}, 0\nor {b}, 1\ndiv {b}"));
        let spread = ["", "cwd", "cdq", "cqo"][width];
        add(format!("{spread}\nshr {b}, 1\nor {b}, 1\nidiv {b}"));
        add(format!("shr {d}, 1\nmov {b}, -1\ndiv {b}"));
        if width >= 2 {
            add(format!("bswap {a}"));
            add(format!("movsx {a}, word ptr [rsi+2]"));
            add(format!(
                "cmpxchg{}b [rsi]",
                if width == 2 { "8" } else { "16" }
            ));
            let at = if width == 2 { "8b" } else { "16b" };
            let second = if width == 2 { 4 } else { 8 };
            add(format!(
                "mov {a}, {size} [rsi]\nmov {d}, {size} [rsi+{second}]\ncmpxchg{at} [rsi]"
            ));
            for op in ["andn", "pdep", "pext", "mulx"] {
                add(format!("{op} {a}, {b}, {c}"));
            }
            add(format!("mulx {a}, {a}, {size} [rsi]"));
            for op in ["bextr", "bzhi", "shlx", "shrx", "sarx"] {
                add(format!("{op} {a}, {b}, {c}"));
                add(format!("{op} {a}, {size} [rsi], {d}"));
            }
            for op in ["blsi", "blsr", "blsmsk"] {
                add(format!("{op} {a}, {b}"));
            }
            add(format!("rorx {a}, {b}, 21"));
            for op in ["adcx", "adox"] {
                add(format!("{op} {a}, {b}"));
            }
        }
    }
    for condition in CONDITIONS {
        add(format!("set{condition} al"));
        add(format!("set{condition} byte ptr [rsi]"));
        add(format!("j{condition} 1f\ninc r8\n1:"));
    }
    for text in [
        "movzx eax, al\nor bl, 1\ndiv bl",
        "movsx ax, al\nshr bl, 1\nor bl, 1\nidiv bl",
        "movsxd rax, ebx",
        "mov ah, bl\nmov dl, ah",
        "cbw",
        "cwde",
        "cdqe",
        "cwd",
        "cdq",
        "cqo",
        "clc",
        "stc",
        "cmc",
        "lahf",
        "sahf",
        "push rax\npop rbx",
        "push rsp\npop r8",
        "push rsp\npop rsp",
        "push ax\npop bx",
        "push -5\npop rdx",
        "push qword ptr [rsi]\npop qword ptr [rdi]",
        "push rbx\npop qword ptr [rsp-8]",
        "push rbx\npush qword ptr [rsp]\npop qword ptr [rsp]\npop rcx",
        "enter 64, 0\nleave",
        "pushfq\npop r8\npopcnt r8d, r8d",
        "mov ecx, 3\n1: dec eax\nloop 1b",
        "mov ecx, 3\n1: cmp al, bl\nloope 1b",
        "mov ecx, 3\n1: cmp al, bl\nloopne 1b",
        "movzx ecx, cl\njrcxz 1f\ninc eax\n1:",
        "jecxz 1f\ninc eax\n1:",
        "call 1f\njmp 2f\n1: inc rax\nret\n2:",
        "lea r8, [rip+1f]\ncall r8\njmp 2f\n1: dec rax\nret\n2:",
        "lea r8, [rip+1f]\njmp r8\nud2\n1:",
        "push rax\nlea r8, [rip+1f]\ncall r8\njmp 2f\n1: ret 8\n2:",
        "mov rbx, rsi\nand eax, 255\nxlatb",
        "crc32 eax, bl",
        "crc32 eax, bx",
        "crc32 eax, ebx",
        "crc32 rax, rbx",
        "crc32 rax, byte ptr [rsi]",
        "mov eax, [esi]",
        "xor r14d, r14d\nmov fs:[r14], al\nmov al, fs:[r14]",
        "movd xmm0, eax\nmovd ebx, xmm0",
        "movq xmm0, rax\nmovq [rsi], xmm0\nmov rbx, [rsi]",
        "ptest xmm0, xmm1",
        "ucomisd xmm0, xmm1",
        "pmovmskb eax, xmm0",
        "movdqu xmm2, [rsi]\nmovdqu [rdi], xmm2\nmov rax, [rdi+4]",
        "cvttsd2si rax, xmm0",
        "fld1\nfstp qword ptr [rsi]\nmov rax, [rsi]",
        "fstsw ax",
        "fld1\nfld1\nfcomip st, st(1)\nfstp st(0)",
        "maskmovdqu xmm0, xmm1",
        "pextrw eax, xmm0, 1",
        "movnti [rsi], rax",
        // Stores and loads that overlap through pointers of which one may be hidden.
        "lea rdi, [rsi+3]\nnop\nnop\nmov [rdi], rax\nmov rbx, [rsi]\nmov [rsi+2], cl\n\
         mov rdx, [rdi-1]\nmov [rdi], ebx\nadd rax, [rsi]",
        "lea rdi, [rsi+9]\nnop\nnop\nnop\nmov [rsi+8], rdx\nmovdqu [rdi], xmm0\nmov rax, [rsi+8]\n\
         mov [rdi+4], bx\nmov rcx, [rsi+12]",
        "lea rdi, [rsi+16]\nlea r8, [rsi+8]\nnop\nmov [r8], rbx\nmov [rdi], rdx\nmov ecx, 70\n\
         rep movsb\nmov rax, [r8]\nmov rbx, [r8+16]",
        "call 1f\npush rax\ncall 1f\npop rbx\ncall 1f\njmp 2f\n1: push rcx\npop rdx\nret\n2:",
        "mov [rsi], rax\nmov [rsi+4], ebx\nmov [rsi+6], cx\nmov [rsi+5], dl\nmov rax, [rsi]\n\
         xchg [rsi+1], rbx\nmov rcx, [rsi]",
        "push rax\npush rbx\nmov [rsp+4], rdx\nxadd [rsp+2], rcx\npop r8\npop r8",
        "rdtsc",
        "rdtscp\nshr rax, 32",
        "rdrand ax\nsetc bl",
        "rdseed ecx\nshr rcx, 32",
        "rdfsbase rax\nrdgsbase ebx\nmov rcx, fs:[0]",
        "mov eax, ds\nlsl ecx, eax\nlar rdx, rax\nverw ax",
        "push fs\npop rbx\nmov ax, ds\nmov ds, ax",
        "mov eax, 3\nmov es, eax\nxor eax, eax\nmov es, eax",
        "xor eax, eax\ncpuid",
        "xor ecx, ecx\nxgetbv",
        "nop dword ptr [rax]",
        "prefetcht0 [rax]",
        "xchg eax, eax\nxchg ax, ax\nxchg rax, rax",
        "mov ax, ds\nmov ecx, ds",
    ] {
        add(text.to_owned());
    }
    all.extend(combinations());
    all
}

/// Random combinations of instructions with all registers, immediates and address forms.
fn combinations() -> Vec<String> {
    /// Registers that hold no pointer of the fixture's own; r8 to r11 are derived.
    const REGISTERS: [[&str; 4]; 10] = [
        A,
        B,
        C,
        D,
        ["bpl", "bp", "ebp", "rbp"],
        ["r8b", "r8w", "r8d", "r8"],
        ["r9b", "r9w", "r9d", "r9"],
        ["r10b", "r10w", "r10d", "r10"],
        ["r11b", "r11w", "r11d", "r11"],
        ["r14b", "r14w", "r14d", "r14"],
    ];
    const TWO: [&str; 13] = [
        "add", "adc", "sub", "sbb", "cmp", "and", "or", "xor", "test", "mov", "xchg", "xadd",
        "cmpxchg",
    ];
    const ONE: [&str; 11] = [
        "inc", "dec", "neg", "not", "shl", "shr", "sar", "rol", "ror", "rcl", "rcr",
    ];
    let mut state = 0x5eed_c0de;
    (0..250)
        .map(|_| {
            let mut pick = |n: usize| {
                state = next_random(state);
                (state >> 33) as usize % n
            };
            let width = pick(4);
            let [a, b, index] = [pick(10), pick(10), pick(10)].map(|i| REGISTERS[i]);
            let size = SIZE[width];
            let index_low = index[0];
            let scale = 1 << pick(4);
            // Some indices are negative.
            let address = [
                format!(
                    "movsx {}, {index_low}\nADDR[rsi+{}*{scale}+128]",
                    index[3], index[3]
                ),
                format!(
                    "movzx {}, {index_low}\nADDR[esi+{}*{scale}]",
                    index[2], index[2]
                ),
                format!(
                    "movsx {}, {index_low}\nADDR[{}*{scale}+area+2048]",
                    index[3], index[3]
                ),
                "ADDR[rip+area+72]".to_owned(),
            ];
            let immediate = [1, -1, 0x7f, -0x80, 0x1234, -0x5432_1234][pick(6)];
            let immediate = match width {
                0 => i64::from(immediate as i8),
                1 => i64::from(immediate as i16),
                _ => i64::from(immediate),
            };
            let two = TWO[pick(TWO.len())];
            let one = ONE[pick(ONE.len())];
            let (prefix, memory) = match address[pick(4)].split_once("ADDR") {
                Some((prefix, memory)) => (prefix.to_owned(), format!("{size} {memory}")),
                None => unreachable!("every address has the mark"),
            };
            let shifted = match one {
                "inc" | "dec" | "neg" | "not" => String::new(),
                _ if pick(2) == 0 => ", cl".to_owned(),
                _ => format!(", {}", 1 + pick(40)),
            };
            match pick(5) {
                0 => format!("{two} {}, {}", a[width], b[width]),
                1 => format!("{prefix}{two} {memory}, {}", b[width]),
                2 => {
                    let two = if matches!(two, "xadd" | "cmpxchg" | "xchg") {
                        "sbb"
                    } else {
                        two
                    };
                    format!("{two} {}, {immediate}", a[width])
                }
                3 => format!("{one} {}{shifted}", a[width]),
                _ => format!("{prefix}{one} {memory}{shifted}"),
            }
        })
        .collect()
}

/// The next of a row of random numbers that is the same in every run.
pub(crate) fn next_random(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// Whether this processor lacks what an instruction needs.
fn missing(text: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let bmi1 = is_x86_feature_detected!("bmi1");
    let bmi2 = is_x86_feature_detected!("bmi2");
    has(&["andn", "bextr", "bls", "tzcnt"]) && !bmi1
        || has(&[
            "pdep", "pext", "mulx", "bzhi", "shlx", "shrx", "sarx", "rorx",
        ]) && !bmi2
        || has(&["lzcnt"]) && !is_x86_feature_detected!("lzcnt")
        || has(&["adcx", "adox"]) && !is_x86_feature_detected!("adx")
        || has(&["movbe"]) && !is_x86_feature_detected!("movbe")
        || has(&["sha1", "sha256"]) && !is_x86_feature_detected!("sha")
        || has(&["aes"]) && !is_x86_feature_detected!("aes")
        || has(&["pclmul"]) && !is_x86_feature_detected!("pclmulqdq")
        || has(&["vpermb", "vpermi2b", "vpermt2b", "multishift"])
            && !is_x86_feature_detected!("avx512vbmi")
        || has(&["vpshld", "vpshrd"]) && !is_x86_feature_detected!("avx512vbmi2")
        || has(&["vpmadd52"]) && !is_x86_feature_detected!("avx512ifma")
        || has(&["vpdp"]) && !is_x86_feature_detected!("avx512vnni")
        || has(&["vpopcntb", "vpopcntw"]) && !is_x86_feature_detected!("avx512bitalg")
        || has(&["vpopcntd", "vpopcntq"]) && !is_x86_feature_detected!("avx512vpopcntdq")
        || has(&["vplzcnt", "vpbroadcastm"]) && !is_x86_feature_detected!("avx512cd")
        || has(&["vaes", "vpclmul"]) && has(&["ymm", "zmm"]) && !is_x86_feature_detected!("vaes")
        || has(&["gf2p8"]) && !is_x86_feature_detected!("gfni")
        || has(&["ph2ps", "ps2ph"]) && !is_x86_feature_detected!("f16c")
        || has(&["xsave", "xrstor"]) && !is_x86_feature_detected!("xsavec")
        || has(&["rdfsbase"]) && !fsgsbase()
        || has(&["rdrand", "rdseed"]) && !is_x86_feature_detected!("rdseed")
        || has(&["crc32"]) && !is_x86_feature_detected!("sse4.2")
}

/// Whether programs may read the segment bases; a bit of AT_HWCAP2.
fn fsgsbase() -> bool {
    const AT_HWCAP2: u64 = 26;
    let auxv = std::fs::read("/proc/self/auxv").unwrap_or_default();
    auxv.chunks_exact(16).any(|entry| {
        let word = |i: usize| entry[i..i + 8].try_into().map_or(0, u64::from_le_bytes);
        word(0) == AT_HWCAP2 && word(8) & 2 != 0
    })
}

/// What a program is made of.
struct Parts {
    name: &'static str,
    instructions: Vec<String>,
    /// Numbers that operands are taken from.
    values: Vec<u64>,
    /// Put before and after every instruction.
    around: [&'static str; 2],
}

fn integer_parts() -> Parts {
    let mut state = 0x0dd_ba11_5eedu64;
    let mut random = || {
        state = next_random(state);
        state ^ state >> 29
    };
    // Half of them edges; small numbers, too, as counts.
    let values = (0..1024).map(|i| match i % 4 {
        0 | 1 => edges::INTEGERS[random() as usize % edges::INTEGERS.len()],
        2 => random() % 80,
        _ => random(),
    });
    Parts {
        name: "integer",
        values: values.collect(),
        instructions: instructions(),
        around: ["", ""],
    }
}

/// Loads vector registers before each instruction and brings the upper half of the destination
/// down after it, where the oracle can see it.
fn vector_parts() -> Parts {
    let mut instructions = vectors::instructions();
    if is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
    {
        instructions.extend(vectors::mask_instructions());
        instructions.extend(vectors::wide_instructions());
    }
    Parts {
        name: "vector",
        values: vectors::values(),
        instructions,
        around: [
            "vmovdqu ymm0, [r15+r12*8]\nvmovdqu ymm1, [r15+r12*8+40]\n\
             vmovdqu ymm2, [r15+r12*8+88]\nvmovdqu ymm3, [r15+r12*8+32]\n\
             vmovdqa [rsi], ymm2\nvmovdqu [rsi+32], ymm0\nvmovdqu [rsi+64], ymm1\n",
            "\nvextracti128 xmm14, ymm0, 1\n",
        ],
    }
}

/// The whole program: the instructions in a loop that walks through the tables of values.
fn source(parts: &Parts) -> String {
    let mut text = String::from(
        ".intel_syntax noprefix\n.globl _start\n.text\n_start:\nlea r15, [rip+values]\n\
         lea r13, [rip+area]\nlea rsp, [rip+stack_end]\nxor r12d, r12d\nxor ebp, ebp\n\
         mov eax, 158\nmov edi, 0x1002\nlea rsi, [rip+local]\nsyscall\nagain:\n",
    );
    let [before, after] = parts.around;
    for (i, instruction) in parts
        .instructions
        .iter()
        .filter(|text| !missing(text))
        .enumerate()
    {
        // Operands come from different places of the table each time; the flags as well.
        let _ = writeln!(
            text,
            "add r12, {}\nand r12, 1023\nlea rsi, [r13+1024]\nlea rdi, [r13+8192]\n\
             mov rax, [r15+r12*8]\nmov rbx, [r15+r12*8+{}]\nmov rcx, [r15+r12*8+{}]\n\
             mov rdx, [r15+r12*8+{}]\nmov [rsi+8], rdx\nmov [rdi+16], rbx\n\
             push [r15+r12*8+8192]\npopfq\n{before}{instruction}{after}",
            1 + i % 7,
            8 * (1 + i % 5),
            8 * (6 + i % 11),
            8 * (17 + i % 3),
        );
    }
    text.push_str("jmp again\n.data\n.balign 64\nvalues:\n");
    for value in parts.values.iter().take(1024) {
        let _ = writeln!(text, ".quad {value:#x}");
    }
    let mut state = 0xf1a6;
    for _ in 0..1100 {
        state = next_random(state);
        let _ = writeln!(text, ".quad {:#x}", (state ^ state >> 29) & FLAGS | 2);
    }
    text.push_str(
        ".bss\n.balign 64\narea: .skip 65536\nlocal: .skip 4096\nstack: .skip 65536\nstack_end:\n",
    );
    text
}

/// Builds the program of the integer instructions; returns its path.
pub(crate) fn build_integer(folder: &Path) -> Result<String> {
    build(folder, &integer_parts())
}

/// Builds the program of the vector instructions; returns its path.
pub(crate) fn build_vector(folder: &Path) -> Result<String> {
    build(folder, &vector_parts())
}

fn build(folder: &Path, parts: &Parts) -> Result<String> {
    let program = folder.join(parts.name);
    let assembly = program.with_extension("s");
    std::fs::write(&assembly, source(parts))?;
    let built = Command::new("gcc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&program, &assembly])
        .output()
        .context("running gcc")?;
    ensure!(
        built.status.success(),
        "gcc: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(program
        .to_str()
        .context("the folder's name is no text")?
        .to_owned())
}
