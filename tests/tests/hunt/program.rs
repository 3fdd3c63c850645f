//! A program from a seed: the same seed gives the same text on the same processor.

use std::fmt::Write as _;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::block::{BlockAssembly, VectorRegisters};
use crate::codes::Codes;
use crate::compiled;
use crate::edges;
use crate::kinds::Kind;
use crate::relations;
use crate::steps;

/// What is compiled.
pub(crate) struct Source {
    /// `program.c`
    pub(crate) c: String,
    /// `program.s`
    pub(crate) assembly: String,
    /// How the C file is compiled, beside what all have.
    pub(crate) options: Vec<&'static str>,
    /// What the program is like, in a few words.
    pub(crate) about: String,
    /// It goes with the runtime of relations, and checks itself.
    pub(crate) related: bool,
}

impl Source {
    /// A program of relations.
    pub(crate) fn of_relations(seed: u64) -> Self {
        let (assembly, about) = relations::generate(seed);
        Self {
            c: String::new(),
            assembly,
            options: Vec::new(),
            about,
            related: true,
        }
    }
}

/// What of the processor decides what can be generated.
pub(crate) struct Machine {
    pub(crate) codes: Codes,
    pub(crate) vectors: VectorRegisters,
    pub(crate) segments: bool,
}

/// Words at which instructions change their minds, some of them two numbers of single precision.
fn edges() -> impl Iterator<Item = u64> {
    let singles = edges::SINGLES.map(u64::from);
    let others = singles.iter().cycle().skip(1);
    let pairs = singles.into_iter().zip(others.copied());
    let pairs = pairs
        .map(|(one, other)| one | other << 32)
        .collect::<Vec<_>>();
    let words = edges::INTEGERS.into_iter().chain(edges::DOUBLES);
    words.chain(pairs)
}

/// The program of a seed.
pub(crate) fn generate(kind: &Kind, seed: u64, machine: &Machine) -> Source {
    // Seeds come one by one: neighbours are to have little in common.
    let mixed = (seed ^ 0x6875_6e74).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut rng = SmallRng::seed_from_u64(mixed ^ mixed >> 31);
    let rng = &mut rng;
    let threads = rng.random_range(1..=kind.threads);
    let inputs = if threads * kind.processes > 1 { 4 } else { 6 };
    let code_kind = if kind.writes_code {
        rng.random_range(1..3)
    } else {
        0
    };
    let view_kind = rng.random_range(0..4);
    let timer = if kind.timer {
        rng.random_range(200..3000)
    } else {
        0
    };
    let blocks = rng.random_range(2..5);
    let (mut text, mut escapes, mut table) = (String::new(), String::new(), String::new());
    let mut functions = String::new();
    for i in 0..blocks {
        let name = format!("block_{i}");
        if kind.compiled {
            functions.push_str(&compiled::function(&name, rng));
            // Heap and both views.
            let _ = writeln!(table, "\t{{{name}, 0xd, 0}},");
            continue;
        }
        let regions = kind.regions(rng);
        let mut block = BlockAssembly::begin(&name, regions, machine.vectors);
        for _ in 0..rng.random_range(10..30) {
            steps::add(
                kind.step(rng),
                &mut block,
                &machine.codes,
                machine.vectors == VectorRegisters::Zmm,
                rng,
            );
        }
        let (uses, remaps) = (block.uses, u32::from(block.remaps));
        let (body, own_escapes) = block.end(machine.vectors);
        text.push_str(&body);
        escapes.push_str(&own_escapes);
        let _ = writeln!(functions, "block_function {name};");
        let _ = writeln!(table, "\t{{{name}, {uses:#x}, {remaps}}},");
    }
    let optimisation = ["-O0", "-O1", "-O2", "-O3"][rng.random_range(0..4)];
    let native = rng.random::<bool>();
    let mut options = vec![optimisation];
    if native {
        options.push("-march=native");
    }
    let edges: Vec<String> = edges().map(|word| format!("{word:#x}")).collect();
    let c = format!(
        "#include <string.h>\n#include \"hunt.h\"\n\n{functions}\n\
         const struct block blocks[] = {{\n{table}}};\n\
         const unsigned block_count = {blocks}, input_count = {inputs}, thread_count = {threads};\n\
         const unsigned processes = {processes}, view_kind = {view_kind}, timer_rate = {timer};\n\
         const unsigned float_modes = {float_modes}, code_kind = {code_kind};\n\
         const uint64_t program_seed = {seed:#x};\n\
         const uint64_t edges[] = {{{edges}}};\nconst unsigned edge_count = {edge_count};\n",
        processes = kind.processes,
        float_modes = u32::from(kind.float_modes),
        edges = edges.join(", "),
        edge_count = edges.len(),
    );
    let assembly = format!(
        "\t.intel_syntax noprefix\n\t.section hunt_text,\"ax\",@progbits\n{text}\
         \t.section .rodata\n\t.balign 8\n\t.globl escapes, escapes_end\nescapes:\n{escapes}\
         escapes_end:\n\t.section .note.GNU-stack,\"\",@progbits\n"
    );
    let about = format!(
        "{blocks} blocks, {inputs} inputs, {threads} threads, views {view_kind}, code {code_kind}{}",
        if kind.compiled {
            format!(", {}", options.join(" "))
        } else {
            String::new()
        }
    );
    Source {
        c,
        assembly,
        options,
        about,
        related: false,
    }
}
