//! The vdso, and code of the 32-bit mode.

use std::process::Command;

use anyhow::{Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::Bench;
use crate::named::{has, listed, record};

pub(crate) const VDSO: Test = test(
    "the time functions of the vdso have names",
    vdso,
    &[as_root, gcc],
);
fn vdso() -> Result<()> {
    let bench = Bench::new()?;
    bench.compile(
        "p",
        "#include <time.h>\nint main(void) { struct timespec t;\n\
         for (int i = 0; i < 20000000; i++) clock_gettime(CLOCK_MONOTONIC, &t); return 0; }\n",
    )?;
    record(&bench, "./p")?;
    has(&bench, "__vdso_clock_gettime", 30.0)?;
    let known: i64 = bench.query(
        "SELECT count(*) FROM image WHERE kind = 'vdso' AND build_id = identity
         AND length(build_id) >= 16",
    )?;
    ensure!(known == 1, "{known} vdsos with a build id");
    Ok(())
}

/// A 64-bit program that goes to 32-bit code and back.
const BOTH: &str = "\
__asm__(\".text\\n.code32\\n.globl narrow\\n.type narrow,@function\\nnarrow:\\n\"
 \"mov $0x2b, %ecx\\n mov %ecx, %ds\\n mov $300000, %ecx\\n\"
 \"1: inc %eax\\n inc %eax\\n dec %ecx\\n jnz 1b\\n ljmp *back\\n\"
 \".size narrow, .-narrow\\n.code64\\n\");
struct far { unsigned to; unsigned short sel; } __attribute__((packed));
struct far there, back; extern char narrow[]; unsigned long sp;
static __attribute__((noinline)) void call(void) {
 __asm__ volatile(\"mov %%rsp, sp\\n mov $1f, %%eax\\n mov %%eax, back\\n movw $0x33, back+4\\n\"
  \"ljmp *there\\n1: mov sp, %%rsp\\n xor %%ecx, %%ecx\\n mov %%ecx, %%ds\\n\"
  ::: \"rax\", \"rcx\", \"memory\", \"cc\"); }
int main(void) { there.to = (unsigned)(unsigned long)narrow; there.sel = 0x23;
 for (int i = 0; i < 2000; i++) call(); return 0; }
";

/// A 32-bit program that needs no library.
const WHOLE: &str = "\
__attribute__((noinline)) unsigned of_32_bits(unsigned a, unsigned n) {
 for (unsigned i = 0; i < n; i++) { a = a * 3 + i; __asm__ volatile(\"inc %0\" : \"+r\"(a)); }
 return a; }
void _start(void) { unsigned r = 1; for (int i = 0; i < 9000; i++) r = of_32_bits(r, 100000);
 __asm__ volatile(\"int $0x80\" :: \"a\"(1), \"b\"(r == 42)); __builtin_unreachable(); }
";

pub(crate) const OF_32_BITS: Test = test(
    "32-bit code is named and listed as such, in processes of both kinds",
    of_32_bits,
    &[as_root, gcc],
);
fn of_32_bits() -> Result<()> {
    let bench = Bench::new()?;
    std::fs::write(bench.path("both.c"), BOTH)?;
    record(
        &bench,
        "gcc -O1 -no-pie -fno-pie -fcf-protection=none -mno-red-zone both.c -o both",
    )?;
    std::fs::remove_file(bench.path("db"))?;
    record(&bench, "./both")?;
    has(&bench, "narrow", 60.0)?;
    let rows = listed(&bench, "narrow")?;
    let texts: Vec<&str> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
    ensure!(texts.contains(&"inc eax"), "{texts:?}");
    std::fs::write(bench.path("whole.c"), WHOLE)?;
    let built = Command::new("gcc")
        .args(["-m32", "-O1", "-static", "-nostdlib", "-fno-pie", "-no-pie"])
        .args(["-ffreestanding", "-fcf-protection=none", "-o"])
        .args([bench.path("whole"), bench.path("whole.c")])
        .output()?;
    ensure!(built.status.success(), text(&built));
    std::fs::remove_file(bench.path("db"))?;
    record(&bench, "./whole")?;
    has(&bench, "of_32_bits", 80.0)?;
    let rows = listed(&bench, "of_32_bits")?;
    let texts: Vec<&str> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
    let plain = texts.iter().any(|text| text.starts_with("inc e"));
    ensure!(plain && texts.contains(&"mov eax,[esp+4]"), "{texts:?}");
    Ok(())
}
