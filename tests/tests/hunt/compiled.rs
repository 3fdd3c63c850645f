//! Random functions in C, whose compiled instructions are all marked.

use std::fmt::Write as _;

use rand::RngExt as _;
use rand::rngs::SmallRng;

/// A function in the making.
struct Writer<'a> {
    text: String,
    rng: &'a mut SmallRng,
    depth: usize,
    /// Loops around what is written.
    loops: usize,
}

/// Helper functions and the function of one block, which uses both views and the heap.
pub(crate) fn function(name: &str, rng: &mut SmallRng) -> String {
    let mut writer = Writer {
        text: String::new(),
        rng,
        depth: 0,
        loops: 0,
    };
    writer.helper(name);
    writer.body(name);
    writer.text.replace("HELPER", &format!("{name}_helper"))
}

impl Writer<'_> {
    fn pick<'b>(&mut self, choices: &[&'b str]) -> &'b str {
        choices[self.rng.random_range(0..choices.len())]
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "\t".repeat(self.depth + 1));
    }

    /// A function that is called.
    fn helper(&mut self, name: &str) {
        let inlined = self.pick(&["noinline", "noipa", "noclone"]);
        let kind = self.pick(&["uint64_t", "uint32_t", "int16_t", "uint8_t"]);
        let operation = self.pick(&["+", "^", "*", "-", "|", "&"]);
        let constant: u64 = self.rng.random();
        let _ = writeln!(
            self.text,
            "static __attribute__((section(\"hunt_text\"), {inlined})) {kind} \
             {name}_helper({kind} x, uint64_t *p, int i)\n{{\n\
             \tif (i & 1)\n\t\tp[i & 7] = p[(i + 3) & 7] {operation} x;\n\
             \treturn x {operation} p[i & 7] ^ ({kind}){constant:#x};\n}}\n"
        );
    }

    fn body(&mut self, name: &str) {
        let _ = writeln!(
            self.text,
            "MARKED uint64_t {name}(struct context *context, const struct input *input)\n{{"
        );
        self.line("uint64_t a = input->gpr[0], b = input->gpr[1], c = input->gpr[2];");
        self.line("uint64_t d = input->gpr[3], *p = (uint64_t *)context->region[HEAP];");
        self.line("uint64_t *q = (uint64_t *)context->region[VIEW_A];");
        self.line("uint64_t *r = (uint64_t *)context->region[VIEW_B];");
        self.line("uint8_t *bytes = (uint8_t *)p - 64;");
        self.line("double x = 1.0 + (uint32_t)a * 0x1p-20, y = (int32_t)b;");
        self.line(
            "struct pair { uint32_t one; uint16_t two[5]; uint64_t three; } s = {1, {2}, c};",
        );
        let count = self.rng.random_range(8..22);
        for _ in 0..count {
            self.statement();
        }
        self.line("return a ^ b ^ c ^ d ^ s.one ^ s.three ^ s.two[2] ^ (uint64_t)(int64_t)(y / (x * x + 1e9));");
        self.text.push_str("}\n\n");
    }

    fn variable(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "d"])
    }

    fn value(&mut self) -> String {
        let variable = self.variable();
        match self.rng.random_range(0..12) {
            0 => format!("{:#x}ull", self.rng.random::<u64>()),
            1 => format!("{}", self.rng.random_range(1..100)),
            2 => format!("p[{variable} & 15]"),
            3 => format!("q[{}]", self.rng.random_range(-4..8)),
            4 => format!("r[{}]", self.rng.random_range(-4..8)),
            5 => format!("bytes[{variable} & 63]"),
            6 => format!("(uint32_t){variable}"),
            7 => format!("(int64_t)(int16_t){variable}"),
            8 => format!("input->words[{variable} & 7]"),
            9 => "s.one".to_owned(),
            10 => format!("s.two[{variable} & 3]"),
            _ => variable.to_owned(),
        }
    }

    fn place(&mut self) -> String {
        let variable = self.variable();
        match self.rng.random_range(0..10) {
            0 => format!("p[{variable} & 15]"),
            1 => format!("q[{}]", self.rng.random_range(-4..8)),
            2 => format!("r[{}]", self.rng.random_range(-4..8)),
            3 => format!("bytes[{variable} & 63]"),
            4 => "s.one".to_owned(),
            5 => format!("s.two[{variable} & 3]"),
            _ => variable.to_owned(),
        }
    }

    fn statement(&mut self) {
        let (one, two) = (self.value(), self.value());
        let place = self.place();
        let operation = self.pick(&["+", "-", "^", "|", "&", "*"]);
        let variable = self.variable();
        match self.rng.random_range(0..14) {
            0 => self.line(&format!("{place} = ({one} {operation} {two}) >> ({variable} & 7);")),
            1 => self.line(&format!("{place} = {one} / ({two} | 1);")),
            2 => self.line(&format!("{place} += __builtin_popcountll({one}) + __builtin_bswap32({two});")),
            3 => self.line(&format!("{variable} = {variable} << 13 | {variable} >> 51;")),
            4 => self.line(&format!("x = x * 0.5 + (double)(int32_t)({one}); y += x;")),
            5 => self.line("memcpy(bytes + 64, bytes, 48);"),
            6 => self.line(&format!(
                "{variable} = ({{ uint64_t t; __builtin_add_overflow({one}, {two}, &t) ? t : ~t; }});"
            )),
            7 if self.depth < 3 => {
                let mask = self.rng.random_range(1..16);
                self.line(&format!("if (({one} {operation} {two}) & {mask}) {{"));
                self.nested();
                self.line("} else {");
                self.nested();
                self.line("}");
            }
            8 | 9 if self.depth < 3 && self.loops < 2 => {
                let i = ["i", "j"][self.loops];
                let count = self.rng.random_range(2..7);
                self.line(&format!("for (int {i} = 0; {i} < {count}; {i}++) {{"));
                self.loops += 1;
                self.line(&format!("\tp[{i}] {operation}= {variable} + q[{i}];"));
                self.nested();
                self.loops -= 1;
                self.line("}");
            }
            10 if self.depth < 3 => {
                self.line(&format!("switch ({one} & 7) {{"));
                for case in 0..6 {
                    self.line(&format!("case {case}:"));
                    self.nested();
                    self.line("\tbreak;");
                }
                self.line("}");
            }
            11 => {
                let helper = "HELPER";
                self.line(&format!("{variable} ^= {helper}({one}, p, (int)({two} & 7));"));
            }
            _ => self.line(&format!("{place} = {one} {operation} {two};")),
        }
    }

    fn nested(&mut self) {
        self.depth += 1;
        for _ in 0..self.rng.random_range(1..3) {
            self.statement();
        }
        self.depth -= 1;
    }
}
