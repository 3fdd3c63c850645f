//! What blocks are made of: short sequences of instructions, each around one idea.

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::block::{Block, SetRegister, at, free, memory, name, pointer};
use crate::codes::{BASES, Codes, Family, displacement};
use crate::layout::{self, Region};

/// An idea.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A random instruction.
    Any(Family),
    Load,
    Store,
    /// Read, changed and written by one instruction.
    Change,
    /// The same through vector registers.
    Vector,
    /// A pointer taken from memory, and followed.
    Follow,
    Push,
    Branch,
    Loop,
    Call,
    String,
    /// A cell written in a way of its own.
    OddStore,
    Gather,
    X87,
    /// An access that may fault, or must.
    Fault,
    /// An instruction that faults whatever it works on.
    Trap,
    /// What takes long: where interrupts like to fall.
    Slow,
    ThreadLocal,
    GsLocal,
    MoveFs,
    MoveGs,
    Remap,
    Patch,
}

/// Adds a step.
pub(crate) fn add(step: Step, block: &mut Block, codes: &Codes, wide: bool, rng: &mut SmallRng) {
    let size = 1usize << rng.random_range(0..4);
    let (a, b) = (free(rng), free(rng));
    match step {
        Step::Any(family) => any(block, codes, family, rng),
        Step::Load => {
            let operand = memory(rng, size);
            let line = match (size, rng.random_range(0..4)) {
                (1 | 2, 0) => format!("movzx {}, {} {operand}", name(a, 4), pointer(size)),
                (1 | 2, 1) => format!("movsx {}, {} {operand}", name(a, 8), pointer(size)),
                (4, 0) => format!("movsxd {}, dword ptr {operand}", name(a, 8)),
                (_, 3) => {
                    let operation = ["add", "xor", "sub", "and", "or"][rng.random_range(0..5)];
                    format!("{operation} {}, {operand}", name(a, size))
                }
                _ => format!("mov {}, {operand}", name(a, size)),
            };
            block.line(&line);
        }
        Step::Store => {
            let operand = memory(rng, size);
            block.line(&match rng.random_range(0..6) {
                0 => format!("mov {} {operand}, {}", pointer(size), rng.random::<i8>()),
                1 if size >= 4 => format!("movnti {operand}, {}", name(a, size)),
                2 if size >= 2 => format!("movbe {operand}, {}", name(a, size)),
                _ => format!("mov {operand}, {}", name(a, size)),
            });
        }
        Step::Change => change(block, size, rng),
        Step::Vector => vector(block, wide, rng),
        Step::Follow => {
            let region = block.bases[rng.random_range(0..4)];
            block.line(&format!("mov {}, [r15+{}]", name(a, 8), region.offset()));
            let place = displacement(rng, 8);
            block.line(&if rng.random() {
                format!("mov {}, [{}{place:+}]", name(b, 8), name(a, 8))
            } else {
                format!("mov [{}{place:+}], {}", name(a, 8), name(b, 8))
            });
        }
        Step::Push => {
            block.line(&format!("push {}", name(a, 8)));
            if rng.random() {
                block.line(&format!("xor {}, [rsp]", name(b, 8)));
            }
            let into = free(rng);
            block.line(&format!("pop {}", name(into, 8)));
        }
        Step::Branch => {
            const CONDITIONS: [&str; 16] = [
                "o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le",
                "g",
            ];
            if rng.random() {
                block.line(&format!("test {}, {}", name(a, size), name(b, size)));
            }
            let condition = CONDITIONS[rng.random_range(0..16)];
            let target = block.label_ahead(2);
            block.line(&format!("j{condition} {target}"));
            add(Step::Load, block, codes, wide, rng);
            block.line(&format!(
                "lea {0}, [{0}+{1}]",
                name(a, 8),
                rng.random::<i32>()
            ));
        }
        Step::Loop => {
            block.line(&format!("mov ecx, {}", rng.random_range(1..5)));
            let top = block.next_label();
            let other = if a.number() == 1 { BASES[0] } else { a };
            block.line(&match other == a {
                true => format!("add {}, {}", name(a, 8), memory(rng, 8)),
                false => format!("add {} {}, 1", pointer(8), memory(rng, 8)),
            });
            block.line(&format!("rol qword ptr {}, 7", memory(rng, 8)));
            block.line("dec ecx");
            block.line(&format!("jnz {top}"));
        }
        Step::Call => {
            let over = block.label_ahead(3);
            block.line(&format!("jmp {over}"));
            let callee = block.next_label();
            block.line(&format!("add rax, {}", memory(rng, 8)));
            block.line("xor rax, [rsp]");
            block.line("ret");
            block.line(&if rng.random() {
                format!("call {callee}")
            } else {
                format!("lea r8, [rip+{callee}]")
            });
            if rng.random() {
                block.line(&format!("lea r9, [rip+{callee}]"));
                block.line("call r9");
            }
        }
        Step::String => string(block, rng),
        Step::OddStore => odd_store(block, wide, rng),
        Step::Gather => gather(block, wide, rng),
        Step::X87 => x87(block, rng),
        Step::Fault => fault(block, codes, wide, rng),
        Step::Trap => trap(block, codes, wide, rng),
        Step::Slow => slow(block, rng),
        Step::ThreadLocal => {
            let place = format!(
                "qword ptr fs:local_cells@tpoff+{}",
                8 * rng.random_range(0..6)
            );
            block.line(&match rng.random_range(0..3) {
                0 => format!("mov {place}, {}", name(a, 8)),
                1 => format!("add {}, {place}", name(a, 8)),
                _ => format!("mov {}, {place}", name(a, 8)),
            });
        }
        Step::GsLocal => {
            block.uses(Region::Heap);
            let place = format!("qword ptr gs:[{}]", 8 * rng.random_range(0..4));
            block.line(&match rng.random_range(0..3) {
                0 => format!("mov {place}, {}", name(a, 8)),
                _ => format!("mov {}, {place}", name(a, 8)),
            });
        }
        Step::MoveFs => {
            block.uses(Region::Heap);
            let other = layout::OTHER_BASE;
            block.lines(&format!("mov r8, [r15+{other}]; rdfsbase r9; wrfsbase r8"));
            for _ in 0..rng.random_range(1..4) {
                let place = 8 * rng.random_range(0..4);
                block.line(&format!("mov {}, fs:[{place}]", name(not_saved(a), 8)));
                if rng.random() {
                    block.line(&format!("mov fs:[{place}], {}", name(b, 8)));
                }
            }
            block.line("wrfsbase r9");
        }
        Step::MoveGs => move_gs(block, rng),
        Step::Remap => remap(block, rng),
        Step::Patch => patch(block, codes, rng),
    }
}

/// Hundreds of cycles in few instructions, so that windows begin close before what comes.
fn slow(block: &mut Block, rng: &mut SmallRng) {
    match rng.random_range(0..3) {
        0 => {
            block.lines("mov eax, 99999; xor edx, edx; mov r8d, 7; div r8; div r8; div r8; div r8")
        }
        1 => block.lines("fninit; fldpi; fsin; fsin; fptan; fpatan; fsin; fcos; fstp st(0)"),
        _ => {
            let place = memory(rng, 8);
            block.line(&format!("clflush byte ptr {place}"));
            block.line("mfence");
            block.line(&format!("mov {}, {place}", name(free(rng), 8)));
        }
    }
}

/// Not the register that holds the old base of a segment.
fn not_saved(register: iced_x86::Register) -> iced_x86::Register {
    match register {
        iced_x86::Register::R9 => iced_x86::Register::RAX,
        other => other,
    }
}

fn any(block: &mut Block, codes: &Codes, family: Family, rng: &mut SmallRng) {
    for _ in 0..8 {
        if let Some(drawn) = codes.draw(family, rng)
            && block.drawn(&drawn)
        {
            return;
        }
    }
}

fn change(block: &mut Block, size: usize, rng: &mut SmallRng) {
    let a = free(rng);
    let aligned = BASES[rng.random_range(0..4)];
    let place = at(aligned, 8 * rng.random_range(-4..4));
    let operation = ["add", "xor", "sub", "or", "and", "adc"][rng.random_range(0..6)];
    block.line(&match rng.random_range(0..6) {
        0 => format!("xchg {place}, {}", name(a, size)),
        1 => format!("lock xadd {place}, {}", name(a, size)),
        2 => format!("lock cmpxchg {place}, {}", name(a, size)),
        3 => format!("inc {} {place}", pointer(size)),
        4 => format!("rol {} {place}, 5", pointer(size)),
        _ => format!("{operation} {}, {}", memory(rng, size), name(a, size)),
    });
}

fn vector(block: &mut Block, wide: bool, rng: &mut SmallRng) {
    let (v, a) = (rng.random_range(0..8), free(rng));
    let kinds: &[(usize, &str)] = &[(16, "xmm"), (32, "ymm"), (64, "zmm")];
    let (size, kind) = kinds[rng.random_range(0..if wide { 3 } else { 1 })];
    let operand = memory(rng, size);
    match (rng.random_range(0..4), size) {
        (0, 16) => block.line(&format!("movups {operand}, xmm{v}")),
        (1, 16) => block.line(&format!("movups xmm{v}, {operand}")),
        (0 | 2, 32 | 64) => block.line(&format!("vmovups {operand}, {kind}{v}")),
        (1, 32 | 64) => block.line(&format!("vmovups {kind}{v}, {operand}")),
        (2, _) => block.line(&format!("movq {}, xmm{v}", name(a, 8))),
        _ => block.line(&format!("movq xmm{v}, {}", memory(rng, 8))),
    };
    if rng.random() {
        block.line(&format!("movq {}, xmm{v}", name(a, 8)));
    }
}

fn string(block: &mut Block, rng: &mut SmallRng) {
    let suffix = ["b", "w", "d", "q"][rng.random_range(0..4)];
    let width = 1i64
        << ["b", "w", "d", "q"]
            .iter()
            .position(|s| *s == suffix)
            .unwrap_or(0);
    let count = rng.random_range(0..64 / width + 1);
    let backwards = rng.random_ratio(1, 3);
    let mut place = || {
        let base = BASES[rng.random_range(0..4)];
        let from = rng.random_range(-9..4i64) * 8;
        let from = if backwards { from + 64 - width } else { from };
        at(base, from.clamp(-127, 127))
    };
    let (to, from) = (place(), place());
    block.lines(&format!("lea rdi, {to}; lea rsi, {from}; mov ecx, {count}"));
    if backwards {
        block.line("std");
    }
    block.line(&match rng.random_range(0..8) {
        0 | 1 => format!("rep stos{suffix}"),
        2 => format!("rep lods{suffix}"),
        3 => format!("repe cmps{suffix}"),
        4 => format!("repne scas{suffix}"),
        5 => format!("movs{suffix}"),
        _ => format!("rep movs{suffix}"),
    });
    block.line("cld");
    add_load(block, rng);
}

fn add_load(block: &mut Block, rng: &mut SmallRng) {
    let a = free(rng);
    block.line(&format!("mov {}, {}", name(a, 8), memory(rng, 8)));
}

/// Stores whose address or extent no operand shows; then a load of what they hit.
fn odd_store(block: &mut Block, wide: bool, rng: &mut SmallRng) {
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

fn gather(block: &mut Block, wide: bool, rng: &mut SmallRng) {
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

fn x87(block: &mut Block, rng: &mut SmallRng) {
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
fn escape(block: &mut Block, label: usize, codes: &Codes, rng: &mut SmallRng) {
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

fn fault(block: &mut Block, codes: &Codes, wide: bool, rng: &mut SmallRng) {
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

fn trap(block: &mut Block, codes: &Codes, wide: bool, rng: &mut SmallRng) {
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

fn move_gs(block: &mut Block, rng: &mut SmallRng) {
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
fn remap(block: &mut Block, rng: &mut SmallRng) {
    block.uses(Region::Spare);
    block.remaps = true;
    block.lines(&format!(
        "mov rdi, [r15+{}]; mov esi, 4096",
        Region::Spare.offset()
    ));
    block.lines(match rng.random_range(0..7) {
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
        _ => "mov edx, 4096; mov r10d, 7; lea r8, [rdi-4096]; mov eax, 25",
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
fn patch(block: &mut Block, codes: &Codes, rng: &mut SmallRng) {
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
