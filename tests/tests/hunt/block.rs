//! Assembly of one block: a function whose every instruction is marked.

use std::fmt::Write as _;

use iced_x86::Register;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::codes::{BASES, Drawn, FREE, byte_register, displacement};
use crate::layout::{self, HALF, Region};

/// What the handler of faults sets, by the numbers of the C library's `ucontext`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetRegister {
    pub(crate) number: i64,
    pub(crate) value: u64,
}

struct Escape {
    from: usize,
    /// The label at which the handler goes on.
    to: usize,
    set: Option<SetRegister>,
}

/// The vector registers of a processor. A block loads them whole: what it left of them would be of
/// the code before, which is not the same each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorRegisters {
    /// Of 16 bytes.
    Xmm,
    /// Of 32 bytes.
    Ymm,
    /// Of 64 bytes, with masks: AVX-512 with bytes and words.
    Zmm,
}

/// A block in the making.
pub(crate) struct BlockAssembly {
    name: String,
    text: String,
    /// Labels so far: one before each instruction.
    labels: usize,
    escapes: Vec<Escape>,
    pub(crate) bases: [Region; 4],
    pub(crate) uses: u32,
    pub(crate) remaps: bool,
    /// How far rsp is from where it began.
    stack: i64,
}

impl BlockAssembly {
    /// Begins a block that has these regions at hand.
    pub(crate) fn begin(name: &str, bases: [Region; 4], vectors: VectorRegisters) -> Self {
        let mut block = Self {
            name: name.to_owned(),
            text: String::new(),
            labels: 0,
            escapes: Vec::new(),
            bases,
            uses: 0,
            remaps: false,
            stack: 0,
        };
        block.uses = bases.iter().fold(0, |bits, region| bits | region.bit());
        block.prologue(vectors);
        block
    }

    fn prologue(&mut self, vectors: VectorRegisters) {
        let wide = vectors == VectorRegisters::Zmm;
        let _ = writeln!(
            self.text,
            "\t.globl {0}\n\t.type {0}, @function\n{0}:",
            self.name
        );
        self.line("mov r15, rdi");
        self.line(&format!("mov [r15+{}], rsp", layout::SAVED));
        self.line(&format!("mov rsp, [r15+{}]", Region::Stack.offset()));
        for i in 0..if wide { 32 } else { 16 } {
            let at = layout::VECTORS + 64 * i;
            self.line(&match vectors {
                VectorRegisters::Xmm => format!("movdqu xmm{i}, [rsi+{at}]"),
                VectorRegisters::Ymm => format!("vmovdqu ymm{i}, [rsi+{at}]"),
                VectorRegisters::Zmm => format!("vmovdqu64 zmm{i}, [rsi+{at}]"),
            });
        }
        if wide {
            for i in 1..8 {
                self.line(&format!("kmovq k{i}, [rsi+{}]", layout::MASKS + 8 * i));
            }
        }
        self.line(&format!("ldmxcsr [rsi+{}]", layout::MXCSR));
        // What they hold, `fninit` leaves.
        for i in 0..8 {
            self.line(&format!(
                "movq mm{i}, [rsi+{}]",
                layout::VECTORS + 64 * i + 8
            ));
        }
        self.line("fninit");
        for (base, region) in BASES.iter().zip(self.bases) {
            self.line(&format!(
                "mov {}, [r15+{}]",
                name(*base, 8),
                region.offset()
            ));
        }
        // The overflow flag's number, and beside it the other flags.
        self.line(&format!("mov ax, [rsi+{}]", layout::OVERFLOW));
        self.line("add al, 0x7f");
        self.line("sahf");
        for register in FREE {
            if register != Register::RSI {
                let number = 8 * register.number();
                self.line(&format!("mov {}, [rsi+{number}]", name(register, 8)));
            }
        }
        self.line("mov rsi, [rsi+48]");
    }

    /// Ends it: the text, and where faults go on.
    pub(crate) fn end(mut self, vectors: VectorRegisters) -> (String, String) {
        self.line("cld");
        for register in FREE {
            let at = layout::OUT + 8 * register.number();
            self.line(&format!("mov [r15+{at}], {}", name(register, 8)));
        }
        self.line(&format!("mov rsp, [r15+{}]", layout::SAVED));
        self.line("fninit");
        self.line(&format!(
            "mov dword ptr [r15+{}], 0x1f80",
            layout::OUT + 120
        ));
        self.line(&format!("ldmxcsr [r15+{}]", layout::OUT + 120));
        if vectors != VectorRegisters::Xmm {
            self.line("vzeroupper");
        }
        self.line("ret");
        let last = self.labels;
        let _ = writeln!(
            self.text,
            ".L{}_{last}:\n\tud2\n\t.size {0}, .-{0}",
            self.name
        );
        let mut escapes = String::new();
        for escape in &self.escapes {
            let to = escape.to.min(last);
            let (number, value) = escape.set.map_or((-1, 0), |set| (set.number, set.value));
            let _ = writeln!(
                escapes,
                "\t.quad .L{0}_{1}, .L{0}_{to}, {number}, {value:#x}",
                self.name, escape.from
            );
        }
        (self.text, escapes)
    }

    /// An instruction, after whose fault the next one comes.
    pub(crate) fn line(&mut self, text: &str) -> usize {
        let label = self.labels;
        let _ = writeln!(self.text, ".L{}_{label}:\n\t{text}", self.name);
        self.escapes.push(Escape {
            from: label,
            to: label + 1,
            set: None,
        });
        self.labels += 1;
        label
    }

    /// Several instructions.
    pub(crate) fn lines(&mut self, text: &str) {
        for line in text
            .split(';')
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            self.line(line);
        }
    }

    /// An instruction that was drawn; false where it would carry rsp away.
    pub(crate) fn drawn(&mut self, drawn: &Drawn) -> bool {
        if (self.stack + drawn.stack).abs() > 40 {
            return false;
        }
        self.stack += drawn.stack;
        let bytes: Vec<String> = drawn
            .bytes
            .iter()
            .map(|byte| format!("{byte:#04x}"))
            .collect();
        self.line(&format!(".byte {} # {:?}", bytes.join(","), drawn.code));
        true
    }

    /// Keeps what follows a label that faults from being reached: so many instructions are dead.
    pub(crate) fn skip(&mut self, label: usize, dead: usize, set: Option<SetRegister>) {
        if let Some(escape) = self.escapes.iter_mut().find(|escape| escape.from == label) {
            escape.to = label + 1 + dead;
            escape.set = set;
        }
    }

    /// The name of the label that comes so many instructions after the next one.
    pub(crate) fn label_ahead(&self, instructions: usize) -> String {
        format!(".L{}_{}", self.name, self.labels + 1 + instructions)
    }

    /// The name of the next instruction's label.
    pub(crate) fn next_label(&self) -> String {
        format!(".L{}_{}", self.name, self.labels)
    }

    pub(crate) fn uses(&mut self, region: Region) {
        self.uses |= region.bit();
    }
}

/// The name of a general register in a width.
pub(crate) fn name(register: Register, size: usize) -> String {
    let number = register.number() as u32;
    let register = match size {
        1 => byte_register(register),
        2 => Register::AX + number,
        4 => Register::EAX + number,
        _ => Register::RAX + number,
    };
    let name = format!("{register:?}").to_lowercase();
    match name.strip_suffix('l') {
        Some(stem) if stem.starts_with('r') => format!("{stem}b"),
        _ => name,
    }
}

/// A register that computes.
pub(crate) fn free(rng: &mut SmallRng) -> Register {
    FREE[rng.random_range(0..FREE.len())]
}

/// An operand in memory of one of the regions at hand.
pub(crate) fn memory(rng: &mut SmallRng, size: usize) -> String {
    let base = BASES[rng.random_range(0..BASES.len())];
    at(base, displacement(rng, size))
}

/// `[base+displacement]`.
pub(crate) fn at(base: Register, displacement: i64) -> String {
    debug_assert!((-HALF..HALF).contains(&displacement), "out of the cell");
    format!("[{}{displacement:+}]", name(base, 8))
}

/// `qword ptr` and the like.
pub(crate) fn pointer(size: usize) -> &'static str {
    match size {
        1 => "byte ptr",
        2 => "word ptr",
        4 => "dword ptr",
        8 => "qword ptr",
        16 => "xmmword ptr",
        32 => "ymmword ptr",
        _ => "zmmword ptr",
    }
}
