//! Code that is made at run time.

use crate::bench::Bench;
use crate::common::ensure;
use crate::named::{has, listed, record, share};
use crate::{TestResult, done};

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

pub(crate) fn generations() -> TestResult {
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
        ensure(found, || format!("{name}: {rows:?}"))?;
    }
    done()
}

pub(crate) fn not_theirs() -> TestResult {
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
            ensure(found == 0.0, || format!("{map}: {name} has {found} %"))?;
        }
        has(&bench, "[anon]", 60.0)?;
    }
    done()
}
