//! What blocks are made of: short sequences of instructions, each around one idea.

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::block::{BlockAssembly, at, free, memory, name, pointer};
use crate::codes::{BASES, Codes, Family, displacement};
use crate::hazards;
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
pub(crate) fn add(
    step: Step,
    block: &mut BlockAssembly,
    codes: &Codes,
    wide: bool,
    rng: &mut SmallRng,
) {
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
        Step::OddStore => hazards::odd_store(block, wide, rng),
        Step::Gather => hazards::gather(block, wide, rng),
        Step::X87 => hazards::x87(block, rng),
        Step::Fault => hazards::fault(block, codes, wide, rng),
        Step::Trap => hazards::trap(block, codes, wide, rng),
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
        Step::MoveGs => hazards::move_gs(block, rng),
        Step::Remap => hazards::remap(block, rng),
        Step::Patch => hazards::patch(block, codes, rng),
    }
}

/// Hundreds of cycles in few instructions, so that windows begin close before what comes.
fn slow(block: &mut BlockAssembly, rng: &mut SmallRng) {
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
pub(crate) fn not_saved(register: iced_x86::Register) -> iced_x86::Register {
    match register {
        iced_x86::Register::R9 => iced_x86::Register::RAX,
        other => other,
    }
}

pub(crate) fn any(block: &mut BlockAssembly, codes: &Codes, family: Family, rng: &mut SmallRng) {
    for _ in 0..8 {
        if let Some(drawn) = codes.draw(family, rng)
            && block.drawn(&drawn)
        {
            return;
        }
    }
}

fn change(block: &mut BlockAssembly, size: usize, rng: &mut SmallRng) {
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

fn vector(block: &mut BlockAssembly, wide: bool, rng: &mut SmallRng) {
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

fn string(block: &mut BlockAssembly, rng: &mut SmallRng) {
    let suffix = ["b", "w", "d", "q"][rng.random_range(0..4)];
    let width = 1i64
        << ["b", "w", "d", "q"]
            .iter()
            .position(|s| *s == suffix)
            .unwrap_or(0);
    let count = rng.random_range(0..64 / width + 1);
    let backwards = rng.random_ratio(1, 3);
    let mut place = || {
        let from = rng.random_range(-9..4i64) * 8;
        let from = if backwards { from + 64 - width } else { from };
        (rng.random_range(0..4), from.clamp(-127, 127))
    };
    let (mut to, mut from) = (place(), place());
    // Repetitions are not always one by one, and processors take care of that at overlapping
    // addresses only: a copy to a little behind its source through another view is one or the
    // other, and steps show but the one.
    let views = (block.bases[to.0], block.bases[from.0]);
    match views {
        (a, b) if a == b || backwards => {}
        (Region::RingLow | Region::RingHigh, Region::RingLow | Region::RingHigh) => from.0 = to.0,
        _ => (to.1, from.1) = (to.1.min(from.1), to.1.max(from.1)),
    }
    let [to, from] = [to, from].map(|(base, displacement)| at(BASES[base], displacement));
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

pub(crate) fn add_load(block: &mut BlockAssembly, rng: &mut SmallRng) {
    let a = free(rng);
    block.line(&format!("mov {}, {}", name(a, 8), memory(rng, 8)));
}
