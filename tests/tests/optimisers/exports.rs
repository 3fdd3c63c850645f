//! Exports with places of the source or numbers of blocks: for an instrumented build's readers, for
//! Propeller's, and for GCC.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::Missing;
use vcpi_tests::programs::root;

use crate::{FEW_ROUNDS, Recorded, found, tool, tools};

/// Rounds of `fixtures/optimised.c`, and of `fixtures/copied.c`: some seconds.
const ROUNDS: &str = "2500";
const ROUNDS_OF_COPIES: &str = "300000";

/// Least overlap of counters with those of an instrumented run inside functions, in percent.
const OVERLAP: f64 = 88.0;

fn fixture(name: &str) -> String {
    let path = root().join("tests/fixtures").join(name);
    path.display().to_string()
}

fn linker() -> String {
    let linker = found(&tool("ld.lld")).unwrap_or_default();
    format!("--ld-path={}", linker.display())
}

fn same(of: &Recorded, one: &str, other: &str) -> Result<()> {
    ensure!(
        of.result(one)? == of.result(other)?,
        "{one} prints something else than {other}"
    );
    Ok(())
}

/// The counters of a profile, by function and hash.
fn counters_of(of: &Recorded, profile: &str) -> Result<BTreeMap<String, Vec<f64>>> {
    let words = ["merge", "--text", "-o", "text", profile];
    of.run(tool("llvm-profdata"), &words)?;
    let text = std::fs::read_to_string(of.path("text"))?;
    let records = text.split("\n\n").filter_map(|record| {
        let mut lines = record.lines().filter(|line| !line.starts_with(['#', ':']));
        let name = format!("{} {}", lines.next()?, lines.next()?);
        let number: usize = lines.next()?.parse().ok()?;
        let counters = lines.take(number).map(|line| line.parse::<f64>().ok());
        Some((name, counters.collect::<Option<_>>()?))
    });
    Ok(records.collect())
}

/// The overlap of counters inside functions, in percent. A function weighs what it ran.
fn overlap(exact: &BTreeMap<String, Vec<f64>>, found: &BTreeMap<String, Vec<f64>>) -> f64 {
    let sum = |counters: &[f64]| counters.iter().sum::<f64>();
    let all: f64 = exact.values().map(|counters| sum(counters)).sum();
    let shared = exact.iter().filter_map(|(name, exact)| {
        let found = found.get(name).filter(|found| sum(found) > 0.0)?;
        let parts = exact.iter().zip(found);
        let parts = parts.map(|(one, other)| (one / sum(exact)).min(other / sum(found)));
        Some(sum(exact) / all * parts.sum::<f64>())
    });
    100.0 * shared.sum::<f64>()
}

/// Builds a program, records it, exports counters for what the compiler would instrument, and
/// builds with them: what the compiler says is promoted, and the overlap with the counters of an
/// instrumented run.
fn instrumented(source: &str, rounds: &str, promoted: &[&str]) -> Result<()> {
    let of = Recorded::empty()?;
    let source = fixture(source);
    let linker = linker();
    let flags = [
        "-O2",
        "-g1",
        "-fdebug-info-for-profiling",
        "-fno-pie",
        "-no-pie",
        "-Wl,--build-id",
        "-mllvm",
        "-pgo-instr-select=false",
        &linker,
    ];
    let compile = |name: &str, more: &[&str]| {
        let words = [&flags[..], &["-o", name, &source], more].concat();
        of.run(tool("clang"), &words)
    };
    compile("opt", &[])?;
    of.record(rounds)?;
    let dump = [
        "-fprofile-generate",
        "-mllvm",
        "-print-after=pgo-instr-gen,ctx-instr-gen",
        "-mllvm",
        "-ir-dump-directory=skeleton",
    ];
    compile("exact", &dump)?;
    let words = [
        "export",
        "proftext",
        "-i",
        "opt.db",
        "--image",
        "./opt",
        "--skeleton",
        "skeleton",
        "-o",
        "opt.proftext",
    ];
    let said = text(&of.vcpi(&words)?);
    let profdata = tool("llvm-profdata");
    of.run(&profdata, &["merge", "-o", "ours", "opt.proftext"])?;
    let remarks = [
        "-fprofile-use=ours",
        "-Rpass=pgo-icall-prom|pgo-memop-opt",
        "-Werror=profile-instr-out-of-date",
    ];
    let remarks = text(&compile("better", &remarks)?);
    for promoted in promoted {
        ensure!(
            remarks.lines().any(|line| line.contains(promoted)),
            "no {promoted}: {remarks}\n{said}"
        );
    }
    same(&of, "better", "opt")?;
    let mut exact = of.command(of.path("exact"));
    exact.env("LLVM_PROFILE_FILE", "exact.profraw");
    let output = exact.arg(FEW_ROUNDS).output()?;
    ensure!(output.status.success(), text(&output));
    of.run(&profdata, &["merge", "-o", "theirs", "exact.profraw"])?;
    let told = text(&of.run(&profdata, &["overlap", "theirs", "ours"])?);
    let inside = overlap(&counters_of(&of, "theirs")?, &counters_of(&of, "ours")?);
    println!("{said}{told}overlap inside functions: {inside:.1} %");
    ensure!(
        inside >= OVERLAP,
        "overlap inside functions: {inside:.1} %: {told}{said}"
    );
    Ok(())
}

pub(crate) const COUNTERS: Test = test(
    "counters for instrumented builds' readers overlap with those of an instrumented run",
    counters,
    &[tools],
);
/// Counters of code that was recorded are nearly those of an instrumented run, and the compiler
/// promotes what is mostly called.
fn counters() -> Result<()> {
    let promoted = [
        "Promote indirect call to upwards",
        "Promote indirect call to doubled",
    ];
    instrumented("optimised.c", ROUNDS, &promoted)
}

pub(crate) const COPIES: Test = test(
    "clang makes special cases of sizes of copies that were seen",
    copies,
    &[tools],
);
/// Sizes of copies and targets of calls reach the compiler by their places: it makes a special case
/// of the size, and a direct call.
fn copies() -> Result<()> {
    let promoted = ["optimized memcpy", "Promote indirect call to often"];
    instrumented("copied.c", ROUNDS_OF_COPIES, &promoted)
}

pub(crate) const OTHER_SKELETON: Test = test(
    "skeletons of something else are refused",
    other_skeleton,
    &[tools],
);
/// A skeleton without functions, or of another program, is refused, and no file is left.
fn other_skeleton() -> Result<()> {
    let of = Recorded::empty()?;
    let flags = ["-O2", "-g1", "-Wl,--build-id", "-o", "opt"];
    let source = fixture("copied.c");
    of.run(tool("clang"), &[&flags[..], &[&source]].concat())?;
    of.record("20000")?;
    std::fs::create_dir(of.path("empty"))?;
    let other = "define void @other() !dbg !1 {\n  call void @llvm.instrprof.increment(ptr \
                 @__profn_other, i64 7, i32 1, i32 0), !dbg !2\n  ret void, !dbg !2\n}\n\
                 @__profn_other = private constant [5 x i8] c\"other\"\n\
                 !1 = distinct !DISubprogram(name: \"other\")\n\
                 !2 = !DILocation(line: 1, column: 1, scope: !1)\n";
    std::fs::write(of.path("other.ll"), other)?;
    for (skeleton, status, why) in [
        ("empty", 3, "there is no instrumented function in it"),
        ("absent", 3, "No such file"),
        ("other.ll", 1, "none of its functions that ran is in"),
    ] {
        let mut command = of.command(&of.programs.vcpi);
        command.args([
            "export", "proftext", "-i", "opt.db", "--image", "./opt", "--few",
        ]);
        let output = command
            .args(["--skeleton", skeleton, "-o", "out"])
            .output()?;
        let refused = output.status.code() == Some(status) && !of.path("out").exists();
        ensure!(
            refused && text(&output).contains(why),
            "{skeleton}: {}",
            text(&output)
        );
    }
    Ok(())
}

pub(crate) const PROPELLER: Test = test(
    "clang and lld take the layout by blocks, and the program stays right",
    propeller,
    &[tools],
);
/// clang takes the list of blocks and lld the order of functions: what did not run goes behind all
/// that did, and the program stays right.
fn propeller() -> Result<()> {
    let of = Recorded::empty()?;
    let source = fixture("optimised.c");
    let linker = linker();
    let compile = |name: &str, more: &[&str]| {
        let flags = [
            "-O2",
            "-g1",
            "-funique-internal-linkage-names",
            "-Wl,--build-id",
            &linker,
        ];
        let words = [&flags[..], &["-o", name, &source], more].concat();
        of.run(tool("clang"), &words)
    };
    compile("opt", &["-fbasic-block-address-map"])?;
    of.record(ROUNDS)?;
    let export = |more: &[&str]| {
        let words = ["export", "propeller", "-i", "opt.db", "--image", "./opt"];
        of.vcpi(&[&words[..], more].concat())
    };
    let said = text(&export(&["-o", "list"])?);
    ensure!(said.contains("are laid out anew"), "{said}");
    export(&["--order", "-o", "order"])?;
    let list = std::fs::read_to_string(of.path("list"))?;
    // With names that differ between files clang mangles those of C, too.
    let of_scan = list
        .lines()
        .skip_while(|line| !line.starts_with("f _ZL4scan"));
    let of_scan = of_scan.take(2).collect::<Vec<_>>().join(" ");
    ensure!(
        list.starts_with("v1\n") && of_scan.contains(" c 0 "),
        "{list}"
    );
    let words = [
        "-fbasic-block-sections=list=list",
        "-Wl,--symbol-ordering-file=order",
        "-Werror",
    ];
    let built = compile("laid", &words)?;
    println!("{said}{}", text(&built));
    same(&of, "laid", "opt")?;
    let symbols = text(&of.run("nm", &["-n", "laid"])?);
    let place = |name: &str| {
        symbols.lines().position(|line| {
            let symbol = line.rsplit(' ').next().unwrap_or_default();
            symbol.starts_with("_ZL4scan") && symbol.ends_with(".cold") == (name == "cold")
        })
    };
    let (hot, cold) = (place("hot"), place("cold"));
    ensure!(hot.is_some() && cold > hot, "{symbols}");
    // Without the section there is nothing to export.
    compile("opt", &[])?;
    of.record("200")?;
    let mut command = of.command(&of.programs.vcpi);
    let words = [
        "export",
        "propeller",
        "-i",
        "opt.db",
        "--image",
        "./opt",
        "--few",
    ];
    let output = command.args(words).args(["-o", "none"]).output()?;
    let refused = output.status.code() == Some(1) && !of.path("none").exists();
    ensure!(
        refused && text(&output).contains("-fbasic-block-address-map"),
        text(&output)
    );
    Ok(())
}

pub(crate) const GCOV: Test = test(
    "gcc takes the counts of lines, promotes calls, and the program stays right",
    gcov,
    &[gcc_of_lines],
);
/// GCC takes the counts of lines, and calls directly what is mostly called; the program stays
/// right.
fn gcov() -> Result<()> {
    let of = Recorded::empty()?;
    let source = fixture("optimised.c");
    let [said, remarks] = built_again(&of, &source, ROUNDS, "-fopt-info-optimized")?;
    ensure!(said.contains("lines are known of"), "{said}");
    let promoted = |line: &str| line.contains("direct call") && line.contains("upwards");
    ensure!(remarks.lines().any(promoted), "{remarks}");
    println!("{said}");
    same(&of, "better", "opt")?;
    // Lines are told by debug information alone.
    of.run("gcc", &["-O2", "-Wl,--build-id", "-o", "opt", &source])?;
    of.record("200")?;
    let mut command = of.command(&of.programs.vcpi);
    let words = [
        "export", "gcov", "-i", "opt.db", "--image", "./opt", "--few",
    ];
    let output = command.args(words).args(["-o", "none"]).output()?;
    let refused = output.status.code() == Some(1) && !of.path("none").exists();
    ensure!(
        refused && text(&output).contains("no line of its source"),
        text(&output)
    );
    Ok(())
}

pub(crate) const INLINED: Test = test(
    "gcc inlines again what it had inlined where that is hot",
    inlined,
    &[gcc_of_lines],
);
/// GCC inlines again what it had inlined several calls deep, where that is hot. It knows of a call
/// that it does not inline before it looks at counts only what is counted at the call itself.
fn inlined() -> Result<()> {
    let of = Recorded::empty()?;
    let source = fixture("inlined.c");
    let code = std::fs::read_to_string(&source)?;
    let hot = code.lines().position(|line| line.trim() == "put(out, c);");
    let hot = format!("inlined.c:{}:", hot.context("no hot call")? + 1);
    // Without the option by which GCC inlines several calls deep before it looks at counts.
    let [_, remarks] = built_again(&of, &source, "700000", "-fopt-info-inline-optimized")?;
    let is_hot = |line: &str| line.contains(&hot) && line.contains("put_line");
    ensure!(remarks.lines().any(is_hot), "{remarks}");
    same(&of, "better", "opt")
}

/// Has GCC build a program, records it, and has GCC build it again with its counts of lines: what
/// the export said, and what the compiler did.
fn built_again(of: &Recorded, source: &str, rounds: &str, remarks: &str) -> Result<[String; 2]> {
    let compile = |name: &str, more: &[&str]| {
        let words = ["-O2", "-g", "-Wl,--build-id", "-o", name, source];
        of.run("gcc", &[&words, more].concat())
    };
    compile("opt", &[])?;
    of.record(rounds)?;
    let version = gcc_version()?;
    let words = [
        "export", "gcov", "-i", "opt.db", "--image", "./opt", "--gcc", &version, "-o", "opt.afdo",
    ];
    let said = text(&of.vcpi(&words)?);
    let better = compile("better", &["-fauto-profile=opt.afdo", remarks])?;
    Ok([said, text(&better)])
}

/// A GCC that is known to take counts of lines.
pub(crate) fn gcc_of_lines() -> Result<(), Missing> {
    gcc_version().map(drop)
}

/// The major version of GCC, if it is one that is known.
fn gcc_version() -> Result<String, Missing> {
    let output = std::process::Command::new("gcc")
        .arg("-dumpversion")
        .output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    let major = version.trim().split('.').next().unwrap_or_default();
    match ["12", "13", "14"].contains(&major) {
        true => Ok(major.to_owned()),
        false => Err(Missing::new("there is no gcc of version 12 to 14")),
    }
}
