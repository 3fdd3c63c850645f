//! Steps around what is easily got wrong: odd stores, faults, segments, mappings, written code.

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::block::{BlockAssembly, SetRegister, at, free, memory, name};
use crate::codes::{BASES, Codes, Family, displacement};
use crate::layout::{self, Region};
use crate::steps::{add_load, any, not_saved};

/// Stores whose address or extent no operand shows; then a load of what they hit.
pub(crate) fn odd_store(block: &mut BlockAssembly, wide: bool, rng: &mut SmallRng) {
    let base = BASES[rng.random_range(0..4)];
    let a = free(rng);
    let line = name(base, 8);
    let place = match rng.random_range(0..if wide { 10 } else { 6 }) {
        0 => {
            block.line(&format!("lea rdi, {}", at(base, 16)));
            block.line("maskmovdqu xmm1, xmm2");
            16 + 8 * rng.random_range(0..2)
        }
        1 => {
            block.line(&format!("lea rdi, {}", at(base, -8)));
            block.line("maskmovq mm1, mm2");
            block.line("emms");
            -8
        }
        2 => {
            block.line(&format!("fnstenv [{line}-64]"));
            block.line("fninit");
            block.line(&format!("movzx {}, word ptr [{line}-64]", name(a, 4)));
            return;
        }
        3 => {
            block.line(&format!("stmxcsr [{line}+8]"));
            8
        }
        4 => {
            block.lines("and eax, 0xf8; xor edx, edx; mov rcx, rax");
            block.line(&format!("bts [{line}-16], rcx"));
            -16 + 8 * rng.random_range(0..3)
        }
        5 => {
            block.lines("mov edx, 1; mov ecx, 2");
            block.line(&format!("lock cmpxchg16b [{line}-32]"));
            -24
        }
        6 => {
            // What lies in the rest of the line is another's business: the pointer is at its start.
            block.line(&format!("lea rax, [{line}]"));
            block.line(".byte 0x0f,0x01,0xfc # clzero");
            8 * rng.random_range(0..4)
        }
        7 => {
            block.line(&format!("vpcompressq [{line}-16]{{k1}}, zmm3"));
            -16 + 8 * rng.random_range(0..4)
        }
        8 => {
            block.line(&format!("vmovdqu8 [{line}-8]{{k2}}, ymm4"));
            -8 + 8 * rng.random_range(0..4)
        }
        _ => {
            block.line(&format!("vcvtps2ph [{line}+8], ymm5, 0"));
            8 + 8 * rng.random_range(0..2)
        }
    };
    block.line(&format!("mov {}, {}", name(a, 8), at(base, place)));
}

pub(crate) fn gather(block: &mut BlockAssembly, wide: bool, rng: &mut SmallRng) {
    if !wide {
        return add_load(block, rng);
    }
    let base = name(BASES[rng.random_range(0..4)], 8);
    block.line(&format!("vmovdqu ymm1, [r15+{}]", layout::INDICES));
    match rng.random_range(0..3) {
        0 => {
            block.line("vmovdqa ymm2, ymm6");
            block.line(&format!("vpgatherdd ymm3, [{base}+ymm1*4], ymm2"));
            block.line("vmovq rax, xmm3");
        }
        1 => {
            block.line("kmovq k4, k3");
            block.line(&format!("vpscatterdd [{base}+ymm1*4]{{k4}}, ymm7"));
            block.line(&format!(
                "mov rax, [{base}+{}]",
                4 * rng.random_range(0..15)
            ));
        }
        _ => {
            block.line(&format!("vpmaskmovd ymm3, ymm6, [{base}-16]"));
            block.line("vpextrq rax, xmm3, 1");
        }
    }
}

pub(crate) fn x87(block: &mut BlockAssembly, rng: &mut SmallRng) {
    let kinds = [
        "fild qword ptr",
        "fld qword ptr",
        "fld dword ptr",
        "fild word ptr",
        "fld tbyte ptr",
    ];
    block.line(&format!(
        "{} {}",
        kinds[rng.random_range(0..5)],
        memory(rng, 10)
    ));
    if rng.random() {
        let operations = [
            "fsqrt",
            "fchs",
            "fabs",
            "frndint",
            "fadd st, st(1)",
            "fmul st, st",
        ];
        block.line(operations[rng.random_range(0..6)]);
    }
    let stores = [
        "fstp qword ptr",
        "fistp qword ptr",
        "fstp dword ptr",
        "fisttp qword ptr",
        "fstp tbyte ptr",
        "fbstp tbyte ptr",
        "fistp word ptr",
    ];
    let base = BASES[rng.random_range(0..4)];
    let place = displacement(rng, 10);
    block.line(&format!(
        "{} {}",
        stores[rng.random_range(0..7)],
        at(base, place)
    ));
    block.line(&format!("mov {}, {}", name(free(rng), 8), at(base, place)));
}

/// After the fault the handler passes over some instructions, or sets a register, or both.
fn escape(block: &mut BlockAssembly, label: usize, codes: &Codes, rng: &mut SmallRng) {
    let set = rng.random_ratio(1, 3).then(|| SetRegister {
        // rax, rcx, rdx, r8, r10
        number: [13, 14, 12, 0, 2][rng.random_range(0..5)],
        value: rng.random(),
    });
    let dead = rng.random_range(0..4);
    block.skip(label, dead, set);
    for _ in 0..dead {
        match rng.random_range(0..3) {
            0 => add_load(block, rng),
            1 => drop(block.line(&format!(
                "mov {}, {}",
                name(free(rng), 4),
                rng.random::<i32>()
            ))),
            _ => {
                let before = block.next_label();
                any(block, codes, Family::Integer, rng);
                if before == block.next_label() {
                    block.line("nop");
                }
            }
        }
    }
    block.line(&format!("lea {}, [rax+rcx*2+5]", name(free(rng), 8)));
}

pub(crate) fn fault(block: &mut BlockAssembly, codes: &Codes, wide: bool, rng: &mut SmallRng) {
    let (base, region) = {
        let i = rng.random_range(0..4);
        (BASES[i], block.bases[i])
    };
    let size = 1usize << rng.random_range(0..4);
    // In the upper half of a cell.
    let place = 8 * rng.random_range(0..4i64) - i64::from(rng.random_ratio(1, 6)) * 4;
    let operand = at(base, place);
    let store = region == Region::ReadOnly || rng.random();
    let a = free(rng);
    let vector = rng.random_ratio(1, 5);
    let label = block.line(&match (store, vector) {
        (true, true) if wide => format!("vmovups {operand}, ymm3"),
        (true, _) => match rng.random_range(0..4) {
            0 => format!("add {operand}, {}", name(a, size)),
            1 => format!("lock xadd {}, {}", at(base, place & !7), name(a, size)),
            _ => format!("mov {operand}, {}", name(a, size)),
        },
        (false, true) => format!("movups xmm3, {operand}"),
        (false, false) => format!("mov {}, {operand}", name(a, size)),
    });
    if rng.random() {
        block.line(&format!("mov {}, {operand}", name(free(rng), 8)));
        block.skip(label, 0, None);
    } else {
        escape(block, label, codes, rng);
    }
}

pub(crate) fn trap(block: &mut BlockAssembly, codes: &Codes, wide: bool, rng: &mut SmallRng) {
    let label = match rng.random_range(0..if wide { 10 } else { 9 }) {
        0 => block.line("ud2"),
        1 => block.line("int3"),
        2 => block.line("hlt"),
        3 => {
            block.lines("xor edx, edx; xor r8d, r8d");
            block.line("div r8")
        }
        4 => {
            block.lines("mov rdx, -1; xor eax, eax; bts rax, 63; mov r8, -1");
            block.line("idiv r8")
        }
        5 => block.line(&format!(
            "movaps xmm3, {}",
            at(BASES[rng.random_range(0..4)], 8)
        )),
        6 => block.line(&format!(
            "movntdq {}, xmm2",
            at(BASES[rng.random_range(0..4)], -8)
        )),
        7 => block.line("mov rax, cr0"),
        8 => block.line("in al, dx"),
        _ => block.line(&format!(
            "vmovdqa64 zmm3, {}",
            at(BASES[rng.random_range(0..4)], 32)
        )),
    };
    escape(block, label, codes, rng);
}

pub(crate) fn move_gs(block: &mut BlockAssembly, rng: &mut SmallRng) {
    block.uses(Region::Stack);
    let region = block.bases[rng.random_range(0..4)];
    block.lines(&format!("rdgsbase r9; mov rsi, [r15+{}]", region.offset()));
    if rng.random() {
        block.line("wrgsbase rsi");
    } else {
        // The kernel leaves the flags in r11, the trap flag among them.
        block.lines("mov edi, 0x1001; mov eax, 158; syscall; xor r11d, r11d");
    }
    for _ in 0..rng.random_range(1..3) {
        let place = 8 * rng.random_range(0..4);
        block.line(&format!(
            "mov {}, gs:[{place}]",
            name(not_saved(free(rng)), 8)
        ));
    }
    block.line("wrgsbase r9");
}

/// Changes what is mapped in the upper page of the spare region.
pub(crate) fn remap(block: &mut BlockAssembly, rng: &mut SmallRng) {
    block.uses(Region::Spare);
    block.remaps = true;
    block.lines(&format!(
        "mov rdi, [r15+{}]; mov esi, 4096",
        Region::Spare.offset()
    ));
    block.lines(match rng.random_range(0..9) {
        // madvise(MADV_DONTNEED)
        0 => "mov edx, 4; mov eax, 28",
        // mprotect: read only, nothing
        1 => "mov edx, 1; mov eax, 10",
        2 => "xor edx, edx; mov eax, 10",
        // mmap, fixed and anonymous
        3 => "mov edx, 3; mov r10d, 0x32; mov r8, -1; xor r9d, r9d; mov eax, 9",
        // munmap
        4 => "mov eax, 11",
        // mremap onto the lower page; keeping the upper one, empty
        5 => "mov edx, 4096; mov r10d, 3; lea r8, [rdi-4096]; mov eax, 25",
        6 => "mov edx, 4096; mov r10d, 7; lea r8, [rdi-4096]; mov eax, 25",
        // the lower page onto the upper one
        _ => "mov r8, rdi; sub rdi, 4096; mov edx, 4096; mov r10d, 3; mov eax, 25",
    });
    block.lines("syscall; xor r11d, r11d");
    let spare = Region::Spare.offset();
    block.line(&format!("mov r8, [r15+{spare}]"));
    for _ in 0..rng.random_range(1..4) {
        let place = displacement(rng, 8);
        let a = name(free(rng), 8);
        block.line(&if rng.random_ratio(1, 3) {
            format!("mov [r8{place:+}], {a}")
        } else {
            format!("mov r10, [r8{place:+}]")
        });
    }
}

/// An instruction whose immediate is written shortly before.
pub(crate) fn patch(block: &mut BlockAssembly, codes: &Codes, rng: &mut SmallRng) {
    let filler = rng.random_range(0..4usize);
    let serialise = rng.random_ratio(1, 3);
    let far = if serialise { 3 } else { 1 };
    let short = rng.random::<bool>();
    let target = block.label_ahead(2 + filler + far);
    block.line(&format!("lea r8, [rip+{target}]"));
    block.line(&format!("add r8, [r15+{}]", layout::CODE));
    block.line(if short {
        "mov [r8+1], edx"
    } else {
        "mov [r8+2], rdx"
    });
    for _ in 0..filler {
        let before = block.next_label();
        any(block, codes, Family::Integer, rng);
        if before == block.next_label() {
            block.line("nop");
        }
    }
    if serialise {
        block.line("xor eax, eax");
        block.line("cpuid");
        block.line(&format!("mov rbx, [r15+{}]", block.bases[0].offset()));
    } else {
        let next = block.label_ahead(0);
        block.line(&format!("jmp {next}"));
    }
    block.line(if short {
        ".byte 0xb9,0,0,0,0 # mov ecx, 0"
    } else {
        "movabs rcx, 0"
    });
    block.line("xor rax, rcx");
}
