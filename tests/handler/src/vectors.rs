//! The handler's way through instructions of vector registers and floating point: one by one beside
//! this processor, and through the C library's functions as this processor has them.

use std::collections::HashMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::host::compile;

/// Instructions that are drawn; the processor takes about a third of them.
const DRAWN: &str = "400000";
/// The first action of floating point, as `sampler/bpf/vector_table.h` numbers them.
const FLOAT: u32 = 96;
/// Fewer runs of a row of the table tell nothing.
const RUNS: u32 = 20;

/// What a program of this folder prints.
fn output(source: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<String> {
    let (_folder, program) = compile(source)?;
    let output = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {errors}", output.status);
    Ok(text)
}

/// The number behind a word of a line.
fn number(line: &str, word: &str) -> Result<u32> {
    let mut words = line.split(' ').skip_while(|this| *this != word);
    let number = words
        .nth(1)
        .with_context(|| format!("no {word} in {line}"))?;
    Ok(number.parse()?)
}

/// One instruction at a time, from registers, masks and memory of which the way knows all or a
/// part: what it holds for known afterwards, the processor has.
#[test]
fn instructions_as_the_processor_runs_them() {
    let text = output("vectors.c", &["11", DRAWN], &[]).unwrap();
    let wrong: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("wrong"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let sums = text.lines().last().unwrap();
    println!("{sums}");
    assert!(number(sums, "ran").unwrap() > 50_000, "{sums}");

    // Where all is known before, so it is after nearly every instruction of the table. Of the
    // numbers that are drawn many are none, or too small.
    let (mut known, mut low) = (0, Vec::new());
    for line in text.lines().filter(|line| line.starts_with("row")) {
        let action = number(line, "action").unwrap();
        let (ran, had) = (number(line, "ran").unwrap(), number(line, "known").unwrap());
        if action == 0 || ran < RUNS {
            continue;
        }
        known += 1;
        let least = if action >= FLOAT { 5 } else { 50 };
        if had * 100 < ran * least {
            low.push(line);
        }
    }
    println!("{known} rows");
    assert!(
        known > 120 && low.len() * 20 < known,
        "{known} rows, {low:#?}"
    );
}

/// Functions of the C library that search, compare, copy and calculate are followed to their return
/// with the right result, in each of the forms that it has for other processors than this one.
#[test]
fn functions_of_the_library() {
    let without = [
        "",
        "-AVX512F,-AVX512BW,-AVX512VL",
        "-RTM,-AVX512F,-AVX512BW,-AVX512VL",
        "-AVX512F,-AVX512BW,-AVX512VL,-AVX2,-AVX,-FMA,-FMA4,-AVX_Fast_Unaligned_Load",
    ];
    for without in without {
        let tunables = format!("glibc.cpu.hwcaps={without}");
        let text = output("library.c", &[], &[("GLIBC_TUNABLES", &tunables)]).unwrap();
        let mut rights = HashMap::new();
        for line in text.lines() {
            let name = line.split(' ').next().unwrap();
            assert_eq!(number(line, "wrong").unwrap(), 0, "{without}: {line}");
            let followed = number(line, "followed").unwrap().max(1);
            rights.insert(name, number(line, "right").unwrap() * 100 / followed);
        }
        println!("{without}: {rights:?}");
        for name in [
            "strlen", "strchr", "memchr", "memrchr", "memcmp", "memcpy", "memmove",
        ] {
            assert!(rights[name] > 75, "{name} without {without}: {rights:?}");
        }
        for name in ["exp", "log", "pow", "sqrt", "floor"] {
            assert!(rights[name] > 90, "{name} without {without}: {rights:?}");
        }
    }
}
