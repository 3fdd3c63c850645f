//! Programs whose threads, processes that use the same memory, or signals' handlers write what
//! others read: what a reader computes obeys an invariant, whatever the moment.
//!
//! The instruction that is checked mostly has one right result and one wrong one, so that no
//! hotlist loses it.

use std::fmt::Write as _;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// An invariant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    /// Words are written one after the other and read the other way round: none is older than one
    /// read before.
    Order,
    /// Both halves of 16 aligned bytes come from one store.
    Pair,
    /// What is read between two equal even sequence numbers belongs together.
    Sequence,
    /// What a published offset leads to never changes.
    Published,
    /// A word that only grows, against what was read before.
    Growing,
    /// Atomic additions of a power of two.
    Sum,
    /// The same by compare and exchange.
    Compare,
    /// Words exchanged, each whole.
    Exchange,
}

const ALL: [Relation; 8] = [
    Relation::Order,
    Relation::Pair,
    Relation::Sequence,
    Relation::Published,
    Relation::Growing,
    Relation::Sum,
    Relation::Compare,
    Relation::Exchange,
];

/// The numbers of `checks.h`.
const EXACT: u64 = 0;

struct Writer<'a> {
    text: String,
    checks: String,
    rng: &'a mut SmallRng,
    labels: usize,
    name: String,
    /// Readers do not look at `room`, but at a view of their own or at a stack.
    is_elsewhere: bool,
}

/// Assembly of a program, and what it is like.
pub(crate) fn generate(seed: u64) -> (String, String) {
    let mixed = (seed ^ 0x7265_6c61).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut rng = SmallRng::seed_from_u64(mixed ^ mixed >> 31);
    let count = rng.random_range(2..6usize);
    let views = u64::from(rng.random_ratio(1, 3));
    let signals = if rng.random_ratio(1, 3) {
        rng.random_range(500..8000u64)
    } else {
        0
    };
    let readers = rng.random_range(1..3u64);
    // Drawn apart, so that the other draws of a seed stay what they were.
    let mut apart = SmallRng::seed_from_u64(!mixed);
    let on_stack = apart.random_ratio(1, 3) && views == 0;
    let lent = apart.random_ratio(1, 3) && signals == 0;
    let mut writer = Writer {
        text: String::new(),
        checks: String::new(),
        rng: &mut rng,
        labels: 0,
        name: String::new(),
        is_elsewhere: views == 1 || on_stack,
    };
    let (stack, borrowers) = (u64::from(on_stack), u64::from(lent));
    let mut table = String::new();
    let mut names = Vec::new();
    for i in 0..count {
        // Orders are what is easiest to get wrong.
        let relation = match writer.rng.random_range(0..3) {
            0 => Relation::Order,
            _ => ALL[writer.rng.random_range(0..ALL.len())],
        };
        writer.name = format!("{relation:?} {i}").to_lowercase();
        names.push(format!("{relation:?}").to_lowercase());
        writer.relation(relation, i);
        let _ = writeln!(table, "\t.quad set_up_{i}, put_{i}, look_{i}");
    }
    let Writer { text, checks, .. } = writer;
    let assembly = format!(
        "\t.intel_syntax noprefix\n\t.text\n{text}\
         \t.section .checks,\"\",@progbits\n{checks}\
         \t.section .data.rel.ro,\"aw\"\n\t.balign 8\n\
         \t.globl relations, relation_count, two_views, on_stack, signal_rate, lent, reader_count\n\
         relations:\n{table}relation_count: .quad {count}\ntwo_views: .quad {views}\n\
         on_stack: .quad {stack}\n\
         signal_rate: .quad {signals}\nlent: .quad {borrowers}\nreader_count: .quad {readers}\n\
         \t.section .note.GNU-stack,\"\",@progbits\n"
    );
    let about = format!(
        "{}, {readers} readers, {}, {}",
        names.join(" "),
        match () {
            () if views == 1 => "two views",
            () if on_stack => "on a stack",
            () => "one view",
        },
        match () {
            () if signals > 0 => "a signal writes",
            () if lent => "a process writes",
            () => "a thread writes",
        },
    );
    (assembly, about)
}

impl Writer<'_> {
    fn lines(&mut self, text: &str) {
        for line in text
            .split(';')
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let _ = writeln!(self.text, "\t{line}");
        }
    }

    fn function(&mut self, name: &str, i: usize) {
        let _ = writeln!(self.text, "\t.type {name}_{i}, @function\n{name}_{i}:");
    }

    fn end(&mut self, name: &str, i: usize) {
        let _ = writeln!(self.text, "\tret\n\t.size {name}_{i}, .-{name}_{i}");
    }

    /// An instruction whose result must be this.
    fn check(&mut self, line: &str, what: &str, operand: u64) {
        let label = self.labels;
        self.labels += 1;
        let _ = writeln!(self.text, ".Lcheck{label}:\n\t{line}");
        let _ = writeln!(
            self.checks,
            "\t.balign 8\n\t.quad .Lcheck{label}, {EXACT}, {operand:#x}\n\t.asciz \"{} {what}\"",
            self.name
        );
    }

    /// Nothing, or something that neither helps nor harms.
    fn filler(&mut self, i: usize) {
        match self.rng.random_range(0..7) {
            0 => self.lines("pause"),
            1 => self.lines(&format!("mov r11, [rsi+{}]", 8 * (i & 1))),
            2 => self.lines("imul r11, r11, 17"),
            3 => self.lines("mov r11, [rsp]; xor r11, r10"),
            _ => {}
        }
    }

    /// Places for words in four pages, each in another place than the others.
    fn places(&mut self, count: usize) -> Vec<usize> {
        // The word at 8184 stays zero (see `address`).
        let first = self.rng.random_range(0..2040usize) / 8 * 8 % 2032;
        let gap = [8, 16, 24, 56, 64, 128, 200, 2048, 3072 - 8][self.rng.random_range(0..9)];
        let mut places: Vec<usize> = (0..count).map(|i| first + gap * i).collect();
        if self.rng.random() {
            places.reverse();
        } else if self.rng.random_ratio(1, 3) {
            places.swap(0, count - 1);
        }
        places
    }

    fn relation(&mut self, relation: Relation, i: usize) {
        self.function("set_up", i);
        let tag = self.rng.random_range(0..64u64);
        let places = self.places(3);
        let (p, q, r) = (places[0], places[1], places[2]);
        let aligned = p & !15;
        let objects = 3 * 4096;
        let constant: u64 = self.rng.random();
        match relation {
            Relation::Sum | Relation::Compare => {
                self.lines(&format!("mov qword ptr [rdi+{p}], {tag}"));
            }
            Relation::Published => {
                for object in 0..8 {
                    let value = constant.wrapping_mul(2 * object + 1);
                    let at = objects + 24 * object;
                    self.lines(&format!(
                        "movabs rax, {value:#x}; mov [rdi+{at}], rax; not rax; mov [rdi+{at}+8], rax"
                    ));
                }
                self.lines(&format!("mov qword ptr [rdi+{p}], {objects}"));
            }
            Relation::Pair | Relation::Sequence | Relation::Exchange => {
                self.lines("mov eax, 5; movabs rcx, 0xfffffffa00000005; mov rdx, -6");
                match relation {
                    Relation::Pair => self.lines(&format!(
                        "mov [rdi+{aligned}], rax; mov [rdi+{aligned}+8], rdx"
                    )),
                    Relation::Sequence => {
                        self.lines(&format!("mov [rdi+{q}], rax; mov [rdi+{r}], rdx"));
                    }
                    _ => self.lines(&format!("mov [rdi+{p}], rcx")),
                }
            }
            Relation::Order | Relation::Growing => {}
        }
        self.end("set_up", i);
        let count = self.rng.random_range(2..4usize);
        let narrow = self.rng.random_ratio(1, 4);
        self.function("put", i);
        match relation {
            Relation::Order => {
                for place in &places[..count] {
                    self.lines(&match narrow {
                        true => format!("mov [rdi+{place}], esi"),
                        false => format!("mov [rdi+{place}], rsi"),
                    });
                }
            }
            Relation::Pair => self.lines(&format!(
                "movq xmm0, rsi; not rsi; movq xmm1, rsi; punpcklqdq xmm0, xmm1; \
                 movaps [rdi+{aligned}], xmm0"
            )),
            Relation::Sequence => self.lines(&format!(
                "inc qword ptr [rdi+{p}]; mov [rdi+{q}], rsi; not rsi; mov [rdi+{r}], rsi; \
                 inc qword ptr [rdi+{p}]"
            )),
            Relation::Published => self.lines(&format!(
                "and esi, 7; imul esi, esi, 24; add esi, {objects}; mov [rdi+{p}], rsi"
            )),
            Relation::Growing => self.lines(&format!("mov [rdi+{p}], rsi")),
            Relation::Sum | Relation::Compare => {
                self.lines(&format!("mov eax, 64; lock xadd [rdi+{p}], rax"));
            }
            Relation::Exchange => self.lines(&format!(
                "mov eax, esi; mov ecx, esi; not ecx; shl rcx, 32; or rax, rcx; xchg [rdi+{p}], rax"
            )),
        }
        self.end("put", i);
        self.function("look", i);
        self.lines("xor r9d, r9d");
        let pauses = self.rng.random_range(0..4);
        for _ in 0..pauses {
            self.lines("pause");
        }
        match relation {
            Relation::Order => self.order(&places[..count], narrow, i),
            Relation::Pair => {
                self.lines(&format!("movaps xmm0, [rdi+{aligned}]; movq rax, xmm0"));
                self.lines("psrldq xmm0, 8; movq rcx, xmm0");
                self.check("add rax, rcx", "halves", u64::MAX);
                self.lines("inc rax; or r9, rax");
            }
            Relation::Sequence => {
                self.lines(&format!("mov rax, [rdi+{p}]; test al, 1; jnz 1f"));
                self.filler(i);
                self.lines(&format!("mov rcx, [rdi+{q}]"));
                self.filler(i);
                self.lines(&format!("mov rdx, [rdi+{r}]; cmp rax, [rdi+{p}]; jne 1f"));
                self.check("add rcx, rdx", "between", u64::MAX);
                self.lines("inc rcx; or r9, rcx");
                let _ = writeln!(self.text, "1:");
            }
            Relation::Published => {
                self.lines(&format!("mov rax, [rdi+{p}]; mov rcx, [rdi+rax]"));
                self.filler(i);
                self.check("add rcx, [rdi+rax+8]", "object", u64::MAX);
                self.lines("inc rcx; or r9, rcx");
            }
            Relation::Growing => {
                self.lines(&format!("mov rax, [rdi+{p}]; mov rcx, rax"));
                self.filler(i);
                self.lines("sub rcx, [rsi+16]; mov [rsi+16], rax");
                self.check("shr rcx, 63", "sign", 0);
                self.lines("or r9, rcx");
            }
            Relation::Sum => {
                self.lines(&format!("mov eax, 64; lock xadd [rdi+{p}], rax"));
                self.check("and eax, 63", "rest", tag);
                self.lines(&format!("xor eax, {tag}; or r9, rax"));
            }
            Relation::Compare => {
                self.lines(&format!("mov rax, [rdi+{p}]"));
                let _ = writeln!(self.text, "1:");
                self.lines(&format!(
                    "lea rcx, [rax+64]; lock cmpxchg [rdi+{p}], rcx; jne 1b"
                ));
                self.check("and eax, 63", "rest", tag);
                self.lines(&format!("xor eax, {tag}; or r9, rax"));
            }
            Relation::Exchange => {
                self.lines("mov rax, [rsi+16]; inc eax; mov [rsi+16], rax; mov ecx, eax; not ecx");
                self.lines(&format!("shl rcx, 32; or rax, rcx; xchg [rdi+{p}], rax"));
                self.lines("mov rdx, rax; shr rdx, 32");
                self.check("add edx, eax", "halves", 0xffff_ffff);
                self.lines("inc edx; or r9, rdx");
            }
        }
        for _ in 0..3 - pauses.min(3) {
            self.lines("pause");
        }
        self.lines("mov rax, r9");
        self.end("look", i);
    }

    /// An operand at a place of the reader's memory: off the pointer, off a base that was made
    /// before, by an offset that lies in memory, or by its address.
    fn address(&mut self, place: usize, i: usize, form: u32) -> String {
        match form {
            0 => {
                self.lines(&format!("lea r8, [rdi+{place}]"));
                "[r8]".to_owned()
            }
            1 => {
                // A slot that nobody writes holds zero.
                self.lines("mov r8, [rdi+8184]");
                format!("[rdi+r8+{place}]")
            }
            2 if !self.is_elsewhere => format!("[rip+room+{}]", 4 * 4096 * i + place),
            _ => format!("[rdi+{place}]"),
        }
    }

    fn order(&mut self, places: &[usize], narrow: bool, i: usize) {
        let registers = if narrow {
            ["eax", "ecx", "edx"]
        } else {
            ["rax", "rcx", "rdx"]
        };
        let same = self
            .rng
            .random::<bool>()
            .then(|| self.rng.random_range(0..4));
        // What was written last is read first.
        for (place, register) in places.iter().rev().zip(registers) {
            let form = same.unwrap_or_else(|| self.rng.random_range(0..4));
            let address = self.address(*place, i, form);
            self.lines(&format!("mov {register}, {address}"));
            self.filler(i);
        }
        for pair in ["rax", "rcx", "rdx"][..places.len()].windows(2) {
            let [earlier, later] = pair else { continue };
            self.lines(&format!("mov r8, {later}; sub r8, {earlier}"));
            self.check("shr r8, 63", "sign", 0);
            self.lines("or r9, r8");
        }
    }
}
