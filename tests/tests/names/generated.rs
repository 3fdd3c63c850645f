//! Code that is made at run time.

use anyhow::{Result, ensure};
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::Bench;
use crate::named::{has, listed, record, share};

/// A program that makes three functions, and later the fourth where the first lay; `map` says how
/// the file that names them comes about.
fn maker(map: &str) -> String {
    format!(
        "#define _GNU_SOURCE\n#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n\
         #include <sys/stat.h>\n#include <unistd.h>\n\
         static unsigned char code[] = {{0x48,0x69,0xff,3,0,0,0, 0x48,0x83,0xc7,1, 0xff,0xce, 0x75,0xf1,\n\
         0x48,0x89,0xf8, 0xc3}};\n\
         int main(void) {{ char *m = mmap(0, 4096, 7, 34, -1, 0); char n[64], o[64];\n\
         for (int i = 0; i < 3; i++) memcpy(m + i * 64, code, sizeof code);\n\
         sprintf(n, \"/tmp/perf-%d.map\", getpid()); sprintf(o, \"/tmp/other-%d\", getpid());\n\
         unlink(n); {map}\n\
         fprintf(f, \"%lx %zx early_one\\n%lx %zx with two blanks\\n%lx %zx a(int, b<c>)\\n\",\n\
         (long)m, sizeof code, (long)m + 64, sizeof code, (long)m + 128, sizeof code); fflush(f);\n\
         unsigned long (*g[3])(unsigned long, unsigned) = {{(void *)m, (void *)(m + 64), (void *)(m + 128)}};\n\
         unsigned long r = 1; for (int i = 0; i < 6000; i++) r = g[i % 3](r, 100000);\n\
         m[10] = 5; fprintf(f, \"%lx %zx late_one\\n\", (long)m, sizeof code); fclose(f);\n\
         for (int i = 0; i < 14000; i++) r = g[0](r, 100000);\n\
         unlink(n); unlink(o); return r == 42; }}\n"
    )
}

pub(crate) const GENERATIONS: Test = test(
    "code made at run time has the names of its moment, and is listed",
    generations,
    &[as_root, gcc],
);
fn generations() -> Result<()> {
    let bench = Bench::new()?;
    bench.compile("p", &maker("FILE *f = fopen(n, \"w\");"))?;
    record(&bench, "./p")?;
    for name in ["early_one", "with two blanks", "a(int, b<c>)"] {
        has(&bench, name, 6.0)?;
    }
    has(&bench, "late_one", 25.0)?;
    // The two that lay at one address are apart, also in what their code was.
    for (name, added) in [("early_one", "add rdi,1"), ("late_one", "add rdi,5")] {
        let rows = listed(&bench, name)?;
        let found = rows.iter().any(|row| row["text"] == added);
        ensure!(found, "{name}: {rows:?}");
    }
    Ok(())
}

pub(crate) const NOT_THEIRS: Test = test(
    "a map of another's, or behind a link, names nothing",
    not_theirs,
    &[as_root, gcc],
);
fn not_theirs() -> Result<()> {
    for map in [
        "FILE *f = fopen(o, \"w\"); symlink(o, n);",
        "FILE *f = fopen(o, \"w\"); link(o, n);",
        "FILE *f = fopen(n, \"w\"); if (chown(n, 12345, 12345)) return 3;",
    ] {
        let bench = Bench::new()?;
        bench.compile("p", &maker(map))?;
        record(&bench, "./p")?;
        for name in ["early_one", "late_one"] {
            let found = share(&bench, name)?;
            ensure!(found == 0.0, "{map}: {name} has {found} %");
        }
        has(&bench, "[anon]", 60.0)?;
    }
    Ok(())
}

/// A program as [`maker`] has it, which tells of its functions in a jitdump.
const DUMPER: &str = r#"
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static unsigned char code[] = {0x48,0x69,0xff,3,0,0,0, 0x48,0x83,0xc7,1, 0xff,0xce, 0x75,0xf1,
    0x48,0x89,0xf8, 0xc3};
static FILE *f;
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void tell(char *at, const char *name, uint64_t index) {
    uint32_t head[2] = {0, 56 + strlen(name) + 1 + sizeof code};
    uint64_t time = now();
    uint32_t who[2] = {getpid(), getpid()};
    uint64_t place[4] = {(uint64_t)at, (uint64_t)at, sizeof code, index};
    fwrite(head, 8, 1, f); fwrite(&time, 8, 1, f); fwrite(who, 8, 1, f);
    fwrite(place, 32, 1, f); fwrite(name, strlen(name) + 1, 1, f); fwrite(at, sizeof code, 1, f);
    fflush(f);
}
int main(void) {
    char name[64];
    sprintf(name, "jit-%d.dump", getpid());
    f = fopen(name, "w+");
    uint32_t head[6] = {0x4a695444, 1, 40, EM_X86_64, 0, getpid()};
    uint64_t rest[2] = {now(), 0};
    fwrite(head, 24, 1, f); fwrite(rest, 16, 1, f); fflush(f);
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
    char *m = mmap(0, 4096, 7, 34, -1, 0);
    memcpy(m, code, sizeof code); memcpy(m + 64, code, sizeof code);
    tell(m, "dumped_early", 1); tell(m + 64, "other(int)", 2);
    unsigned long (*g)(unsigned long, unsigned) = (void *)m, (*h)(unsigned long, unsigned) = (void *)(m + 64);
    unsigned long r = 1;
    for (int i = 0; i < 6000; i++) r = i % 2 ? g(r, 100000) : h(r, 100000);
    m[10] = 5;
    tell(m, "dumped_late", 3);
    for (int i = 0; i < 6000; i++) r = g(r, 100000);
    return r == 42;
}
"#;

pub(crate) const DUMPED: Test = test(
    "code has the names and times that a jitdump tells",
    dumped,
    &[as_root, gcc],
);
fn dumped() -> Result<()> {
    let bench = Bench::new()?;
    bench.compile("p", DUMPER)?;
    record(&bench, "./p")?;
    for name in ["dumped_early", "other(int)"] {
        has(&bench, name, 15.0)?;
    }
    has(&bench, "dumped_late", 35.0)?;
    for (name, added) in [("dumped_early", "add rdi,1"), ("dumped_late", "add rdi,5")] {
        let rows = listed(&bench, name)?;
        let found = rows.iter().any(|row| row["text"] == added);
        ensure!(found, "{name}: {rows:?}");
    }
    Ok(())
}
