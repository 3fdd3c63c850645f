//! Exports for optimisers: counts of code from directions, on a program whose counts are known.

mod program;

use std::collections::BTreeMap;
use std::process::Output;

use program::{BUILD_ID, Program, elf};

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The export that must come out.
fn exported(program: &Program, args: &[&str]) -> String {
    let output = program.run(args);
    assert!(output.status.success(), "{}", errors(&output));
    String::from_utf8(output.stdout).expect("exports are UTF-8")
}

/// The lines of a part of a profile for llvm-profgen, with their counts.
fn part<'t>(lines: &mut impl Iterator<Item = &'t str>) -> BTreeMap<String, f64> {
    let count = lines.next().expect("a number of lines");
    let count: usize = count.parse().expect("a number");
    let rows = lines.take(count).map(|line| {
        let (range, count) = line.split_once(':').expect("a count");
        (range.to_owned(), count.parse().expect("a number"))
    });
    rows.collect()
}

/// Counts follow from directions: a loop of a hundred turns, half of which skip a block, although
/// all samples are at one of its instructions.
#[test]
fn ranges_and_branches() {
    let program = Program::with_samples(10_000);
    let text = exported(&program, &["export", "profgen", "--image", "prog"]);
    let mut lines = text.lines();
    let (ranges, branches) = (part(&mut lines), part(&mut lines));
    assert_eq!(lines.next(), None);
    let names: Vec<&str> = ranges.keys().map(String::as_str).collect();
    let blocks = [
        "1000-1000",
        "1002-1008",
        "100a-100a",
        "100c-100e",
        "1010-1010",
        "1014-101b",
    ];
    assert_eq!(names, blocks);
    let turns = |range: &str| ranges[range] / ranges["1002-1008"];
    assert!((turns("100a-100a") - 0.5).abs() < 0.05, "{text}");
    assert!((turns("100c-100e") - 1.0).abs() < 0.05, "{text}");
    assert!(turns("1000-1000") < 0.05, "{text}");
    assert!(turns("1010-1010") < 0.05, "{text}");
    let names: Vec<&str> = branches.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["1008->100c", "100e->1002", "1014->1000", "1019->1000"]
    );
    // All instructions of a function together ran as often as it has samples.
    assert!(
        (ranges["1014-101b"] * 3.0 - 1_000_000.0).abs() < 10.0,
        "{text}"
    );
    assert_eq!(branches["1014->1000"], ranges["1014-101b"]);
}

/// BOLT gets the same branches, and the ways from a block to the next.
#[test]
fn branches_and_falls() {
    let program = Program::with_samples(10_000);
    let text = exported(&program, &["export", "bolt", "--image", "prog"]);
    let keys: Vec<String> = text
        .lines()
        .map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "B 1008 100c",
        "B 100e 1002",
        "B 1014 1000",
        "B 1019 1000",
        "F 1000 1002",
        "F 1002 100a",
        "F 100a 100c",
        "F 100c 1010",
    ];
    assert_eq!(keys, expected);
    let words = text.lines().map(|line| line.split(' ').count());
    assert!(words.eq([5, 5, 5, 5, 4, 4, 4, 4]), "{text}");
}

/// What an export rests on, and the next commands are said; and what BOLT would do with
/// relocations.
#[test]
fn said() {
    let program = Program::with_samples(3000);
    let output = program.run(&["export", "profgen", "--image", "prog", "-o", "out"]);
    assert!(output.status.success());
    assert!(output.stdout.is_empty() && program.path("out").is_file());
    let said = errors(&output);
    for part in [
        "3000 samples in 2 functions",
        "of 100 % of the branches that ran",
        "10 % of the samples are in functions with fewer than 20 directions",
        "build with: clang -O2 -fpseudo-probe-for-profiling -funique-internal-linkage-names ",
        "7000 samples more",
        "llvm-profgen --unsymbolized-profile=out --binary=prog --use-offset=0",
        "-mllvm -profile-summary-cutoff-hot=999000",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = errors(&program.run(&["export", "bolt", "--image", "prog"]));
    assert!(said.contains("-Wl,--emit-relocs"), "{said}");
    assert!(said.contains("perf2bolt prog --pa -p FILE"), "{said}");
}

/// Too few samples are refused with their number, unless they are asked for.
#[test]
fn few_samples() {
    let program = Program::with_samples(2400);
    let output = program.run(&["export", "profgen", "--image", "prog", "-o", "out"]);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(
        said.contains("2400 samples") && said.contains("2500 samples"),
        "{said}"
    );
    assert!(!program.path("out").exists());
    exported(&program, &["export", "profgen", "--image", "prog", "--few"]);
}

/// A program is known by its build id: where it was moved it is found, and another build under its
/// name is refused by the ids of both.
#[test]
fn builds() {
    let program = Program::with_samples(10_000);
    std::fs::rename(program.path("prog"), program.path("moved")).expect("moves");
    exported(&program, &["export", "profgen", "--image", "./moved"]);
    let mut other = BUILD_ID;
    other[7] ^= 0xff;
    std::fs::write(program.path("prog"), elf(&other)).expect("writes");
    let skeleton = ["--skeleton", "prog"];
    let kinds = ["profgen", "bolt", "propeller", "gcov", "proftext", "gopgo"];
    for kind in kinds {
        let words = ["export", kind, "--image", "./prog", "-o", "out"];
        let more = skeleton.get(..if kind == "proftext" { 2 } else { 0 });
        let output = program.run(&[&words[..], more.unwrap_or_default()].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = errors(&output);
        let both = said.contains("abcd0102030405f9") && said.contains("abcd010203040506");
        assert!(both, "{said}");
        assert!(!program.path("out").exists());
    }
}

/// Without a program, or without a file that is one, there is no export.
#[test]
fn no_program() {
    let program = Program::with_samples(10_000);
    let unnamed = program.run(&["export", "profgen"]);
    assert_eq!(unnamed.status.code(), Some(2), "{}", errors(&unnamed));
    std::fs::write(program.path("prog"), b"no program").expect("writes");
    let broken = program.run(&["export", "profgen", "--image", "prog"]);
    assert_eq!(broken.status.code(), Some(3), "{}", errors(&broken));
    let absent = program.run(&["export", "profgen", "--image", "./absent"]);
    assert_ne!(absent.status.code(), Some(0));
    assert!(absent.stdout.is_empty());
}

/// What an export cannot do without is named, with the flags that bring it, and nothing is written.
#[test]
fn wanting() {
    // More samples would not help.
    let program = Program::with_samples(100);
    std::fs::write(program.path("empty.ll"), "; nothing\n").expect("writes");
    std::fs::write(program.path("one.ll"), SKELETON).expect("writes");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["propeller"], 1, "clang -O2 -fbasic-block-address-map"),
        (&["gcov"], 1, "build it with -O2 -g, and record that"),
        (&["gcov", "--gcc", "16"], 2, "16"),
        (&["proftext"], 2, "--skeleton"),
        (
            &["proftext", "--skeleton", "empty.ll"],
            3,
            "-ir-dump-directory=FOLDER",
        ),
        (
            &["proftext", "--skeleton", "one.ll"],
            1,
            "-fdebug-info-for-profiling",
        ),
    ];
    for (words, status, why) in cases {
        let words = [&["export"], words, &["--image", "prog", "-o", "out"]].concat();
        let output = program.run(&words);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert!(!program.path("out").exists());
    }
}

/// A function as a compiler prints it that would instrument it.
const SKELETON: &str = "
@__profn_f = private constant [1 x i8] c\"f\"
define void @f() !dbg !1 {
  call void @llvm.instrprof.increment(ptr @__profn_f, i64 -5, i32 1, i32 0), !dbg !2
  ret void, !dbg !2
}
!1 = distinct !DISubprogram(name: \"f\")
!2 = !DILocation(line: 1, column: 1, scope: !1)
";

/// Go counts lines from where functions are declared: a program that does not tell is refused, and
/// nothing is written.
#[test]
fn go_without_first_lines() {
    let program = Program::of_go(10_000);
    let output = program.run(&["export", "gopgo", "--image", "prog", "-o", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("no function's first line is known"));
    assert!(!program.path("out").exists());
    let few = Program::of_go(100).run(&["export", "gopgo", "--image", "prog", "-o", "out"]);
    assert_eq!(few.status.code(), Some(1));
    assert!(
        errors(&few).contains("100 samples of it"),
        "{}",
        errors(&few)
    );
    let unnamed = program.run(&["export", "gopgo", "-o", "out"]);
    assert_eq!(unnamed.status.code(), Some(2), "{}", errors(&unnamed));
}

/// A program that the reader of an export would not take is refused with the kind that is for it.
#[test]
fn languages() {
    let go = Program::of_go(10_000);
    std::fs::write(go.path("one.ll"), SKELETON).expect("writes");
    let other = Program::with_samples(10_000);
    for (program, kind, said) in [
        (&go, &["profgen"][..], "vcpi export gopgo"),
        (&go, &["propeller"], "vcpi export gopgo"),
        (&go, &["gcov"], "vcpi export gopgo"),
        (
            &go,
            &["proftext", "--skeleton", "one.ll"],
            "vcpi export gopgo",
        ),
        (&other, &["gopgo"], "vcpi export profgen"),
    ] {
        let words = [&["export"], kind, &["--image", "prog", "-o", "out"]].concat();
        let output = program.run(&words);
        let errors = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{kind:?}: {errors}");
        assert!(errors.contains(said), "{kind:?}: {errors}");
        assert!(!program.path("out").exists());
    }
}
