//! Programs whose file is not at its path any more, or never was.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::Bench;
use crate::named::{has, listed, printed, record, share, spinner};

/// Fails unless the listing of a function has instructions.
fn has_code(bench: &Bench, name: &str) -> Result<()> {
    let rows = listed(bench, name)?;
    let known = rows.iter().filter(|row| row["text"].is_string()).count();
    ensure!(known >= 3, "{name}: {known} of {}", rows.len());
    Ok(())
}

/// Compiles a program with options of its own.
fn compile(bench: &Bench, name: &str, source: &str, options: &[&str]) -> Result<()> {
    let code = bench.path(&format!("{name}.c"));
    fs::write(&code, source)?;
    let output = Command::new("gcc")
        .args(["-O1", "-o"])
        .arg(bench.path(name))
        .arg(&code)
        .args(options)
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(())
}

pub(crate) const GONE: Test = test(
    "a program that was deleted or replaced while it runs keeps its names",
    gone,
    &[as_root, gcc],
);
fn gone() -> Result<()> {
    for (name, script) in [
        ("deleted_one", "./p 9000 & sleep 0.2; rm p; wait"),
        (
            "renamed_over",
            "./p 9000 & sleep 0.1; cp /bin/true q; mv q p; wait",
        ),
        (
            "moved_away",
            "./p 9000 & sleep 0.15; mkdir d; mv p d/other; wait",
        ),
    ] {
        let bench = Bench::new()?;
        bench.compile("p", &spinner(name, 3))?;
        record(&bench, script)?;
        has(&bench, name, 80.0)?;
        has_code(&bench, name)?;
    }
    Ok(())
}

pub(crate) const OVERWRITTEN: Test = test(
    "two programs in one inode, one after the other, keep their names",
    overwritten,
    &[as_root, gcc],
);
fn overwritten() -> Result<()> {
    for options in [&["-Wl,--build-id=sha1"][..], &["-Wl,--build-id=none"]] {
        let bench = Bench::new()?;
        compile(&bench, "one", &spinner("ran_first", 3), options)?;
        let two = format!(
            "int pad(int x) {{ return x * 7; }}\n{}",
            spinner("ran_then", 5)
        );
        compile(&bench, "two", &two, options)?;
        record(
            &bench,
            "cat one > p; chmod +x p; ./p 6000; cat two > p; ./p 6000",
        )?;
        has(&bench, "ran_first", 35.0)?;
        has(&bench, "ran_then", 35.0)?;
        has_code(&bench, "ran_first")?;
        has_code(&bench, "ran_then")?;
    }
    Ok(())
}

pub(crate) const TAKE_TURNS: Test = test(
    "libraries that take turns in one inode, at one address, are not taken for each other",
    take_turns,
    &[as_root, gcc],
);
fn take_turns() -> Result<()> {
    const LIBRARIES: [(&str, u32); 2] = [("of_one", 0x11), ("of_other", 0x22)];
    // What a file is replaced by: another in its place, or under a number that became free.
    for copy in ["cat %s > now.so", "rm -f now.so; cp %s now.so"] {
        let bench = Bench::new()?;
        for (name, _) in LIBRARIES {
            let source = format!(
                "__attribute__((noinline)) unsigned long {name}(unsigned long a, long n) {{\n\
                 for (long i = 0; i < n; i++) a = a * 3 + i; return a; }}\n\
                 unsigned long enter(unsigned long a) {{ return {name}(a, 300) + 1; }}\n"
            );
            compile(&bench, name, &source, &["-shared", "-fPIC"])?;
        }
        let source = format!(
            "#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n\
             int main(void) {{ unsigned long r = 0;\n\
             for (int i = 0; i < 16; i++) {{ char c[99];\n\
             sprintf(c, \"{copy}\", i % 2 ? \"{}\" : \"{}\"); if (system(c)) return 1;\n\
             void *h = dlopen(\"./now.so\", RTLD_NOW); if (!h) return 2;\n\
             unsigned long (*f)(unsigned long) = dlsym(h, \"enter\");\n\
             for (clock_t end = clock() + CLOCKS_PER_SEC / (i % 2 ? 10 : 4); clock() < end;)\n\
             for (int j = 0; j < 99; j++) r += f(i % 2 ? {} : {});\n\
             dlclose(h); }} return r == 42; }}\n",
            LIBRARIES[1].0, LIBRARIES[0].0, LIBRARIES[1].1, LIBRARIES[0].1
        );
        compile(&bench, "p", &source, &["-O2"])?;
        record(&bench, "./p")?;
        // Lives of a quarter of a second are heard of in time, but for the busiest machine.
        has(&bench, LIBRARIES[0].0, 20.0)?;
        for (name, own) in LIBRARIES {
            for row in listed(&bench, name)? {
                for profile in row["profiles"].as_array().into_iter().flatten() {
                    let is_own = |of: &Value| of["value"] == format!("{own:#x}");
                    let values = profile["values"].as_array().cloned().unwrap_or_default();
                    let is_argument = profile["parameter"] == "arg0";
                    ensure!(!is_argument || values.iter().all(is_own), "{name}: {row}");
                }
            }
        }
    }
    Ok(())
}

pub(crate) const IN_MEMORY: Test = test(
    "a program run from memory has names, and no note",
    in_memory,
    &[as_root, gcc],
);
fn in_memory() -> Result<()> {
    let bench = Bench::new()?;
    bench.compile("p", &spinner("in_a_memfd", 3))?;
    bench.compile(
        "run",
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
         int main(int c, char **v) { static char b[1 << 20]; int f = open(v[1], O_RDONLY);\n\
         int m = memfd_create(\"x\", MFD_CLOEXEC); long n = read(f, b, sizeof b);\n\
         if (write(m, b, n) != n) return 1; fexecve(m, v + 1, environ); return 2; }\n",
    )?;
    record(&bench, "./run ./p 9000")?;
    has(&bench, "in_a_memfd", 80.0)?;
    has_code(&bench, "in_a_memfd")?;
    let shown = printed(&bench, &["top"])?;
    ensure!(!shown.contains("shown as addresses"), "{shown}");
    Ok(())
}

pub(crate) const BY_CONTENT: Test = test(
    "without a build id a program is known by its content, wherever it lies",
    by_content,
    &[as_root, gcc],
);
fn by_content() -> Result<()> {
    let bench = Bench::new()?;
    compile(
        &bench,
        "p",
        &spinner("without_id", 3),
        &["-Wl,--build-id=none"],
    )?;
    record(&bench, "./p 9000; mkdir d; cp p d/p; ./d/p 9000")?;
    has(&bench, "without_id", 70.0)?;
    let ids: i64 = bench.query(
        "SELECT count(DISTINCT identity) * 100 + count(*) FROM image
         WHERE path LIKE '%/p' AND identity LIKE 'content:%'",
    )?;
    ensure!(ids == 102, "{ids}");
    // Another program at its path is not taken for it.
    compile(
        &bench,
        "p",
        &spinner("another_one", 3),
        &["-Wl,--build-id=none"],
    )?;
    let shown = printed(&bench, &["top"])?;
    ensure!(!shown.contains("another_one"), "{shown}");
    Ok(())
}

pub(crate) const LARGE: Test = test(
    "a program of more than a gigabyte has names",
    large,
    &[as_root, gcc],
);
fn large() -> Result<()> {
    let bench = Bench::new()?;
    bench.compile("p", &spinner("in_large_file", 3))?;
    // A hole: the file is long, and takes no room.
    let file = fs::OpenOptions::new().write(true).open(bench.path("p"))?;
    file.set_len(1300 << 20)?;
    drop(file);
    record(&bench, "./p 6000")?;
    has(&bench, "in_large_file", 80.0)?;
    has_code(&bench, "in_large_file")?;
    Ok(())
}

/// A program that moves the page of a function to memory, and changes it there if `changes`.
fn mover(changes: bool) -> String {
    let change = if changes { "t[4000] ^= 1;" } else { "" };
    format!(
        "#define _GNU_SOURCE\n#include <string.h>\n#include <sys/mman.h>\n\
         __attribute__((noinline, aligned(4096))) unsigned long moved_one(unsigned long a, long n) {{\n\
         for (long i = 0; i < n; i++) a = a * 3 + i; return a; }}\n\
         __attribute__((noinline, aligned(4096))) void behind(void) {{ __asm__ volatile(\"\"); }}\n\
         int main(void) {{ char *s = (char *)moved_one, *t = mmap(0, 4096, 3, 34, -1, 0);\n\
         memcpy(t, s, 4096); {change}\n\
         if (mprotect(t, 4096, 5) || mremap(t, 4096, 4096, 3, s) == MAP_FAILED) return 1;\n\
         if (mprotect(s, 4096, 1) || mprotect(s, 4096, 5)) return 2;\n\
         unsigned long r = 1; for (int i = 0; i < 9000; i++) r = moved_one(r, 100000);\n\
         return r == 42; }}\n"
    )
}

pub(crate) const MOVED: Test = test(
    "text that was moved to memory keeps its names, and changed text does not",
    moved,
    &[as_root, gcc],
);
fn moved() -> Result<()> {
    let bench = Bench::new()?;
    bench.compile("p", &mover(false))?;
    record(&bench, "./p")?;
    has(&bench, "moved_one", 80.0)?;
    let bench = Bench::new()?;
    bench.compile("p", &mover(true))?;
    record(&bench, "./p")?;
    let found = share(&bench, "moved_one")?;
    ensure!(found < 20.0, "changed text has a name: {found} %");
    Ok(())
}
