//! From recordings to faster programs by the program's own commands: `vcpi pgo`, `vcpi hints`.

use std::fs::{File, FileTimes};
use std::process::Output;
use std::time::SystemTime;

use anyhow::{Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::gcc;
use vcpi_tests::programs::root;

use crate::exports::gcc_of_lines;
use crate::{FEW_ROUNDS, Recorded, found, languages, recorded, tools};

/// Rounds of `fixtures/optimised.c` that are recorded to build by: 2,500 samples are the least that
/// exports take.
const ROUNDS_OF_A_ROUTE: &str = "2000";
/// Rounds of `fixtures/special.c`: some seconds.
const ROUNDS: &str = "15000";

fn json(output: &Output) -> Result<Value> {
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(crate) const PGO: Test = test(
    "pgo takes the steps by itself, and the programs stay right",
    pgo,
    &[tools],
);
/// One command exports, has llvm-profgen read that, and builds; another one lays out anew. Both
/// print what they run, and what they build does the same as before.
fn pgo() -> Result<()> {
    let recorded = recorded()?;
    let source = root().join("tests/fixtures/optimised.c");
    let linker = found(&crate::tool("ld.lld")).unwrap_or_default();
    let build = format!(
        "$CC -O2 -fno-pie -no-pie --ld-path={} -o steps {}",
        linker.display(),
        source.display()
    );
    let words = [
        "pgo", "build", "-i", "opt.db", "--image", "./opt", "--", "sh", "-c", &build,
    ];
    let said = text(&recorded.vcpi(&words)?);
    for command in ["export profgen", "llvm-profgen-", "-fprofile-sample-use="] {
        let printed = |line: &str| line.starts_with("vcpi: $ ") && line.contains(command);
        ensure!(said.lines().any(printed), "{said}");
    }
    built_nothing(recorded)?;
    let words = ["pgo", "bolt", "-i", "opt.db", "./opt", "-o", "stepped"];
    recorded.vcpi(&words)?;
    for name in ["steps", "stepped"] {
        ensure!(
            recorded.result(name)? == recorded.result("opt")?,
            "{name} prints something else"
        );
    }
    let words = [
        "pgo", "compare", "--rounds", "5", "--format", "json", "./opt", "./steps", "--", FEW_ROUNDS,
    ];
    let trial = json(&recorded.vcpi(&words)?)?;
    ensure!(
        trial["same_output"] == true && trial["rounds"] == 5,
        "{trial}"
    );
    Ok(())
}

/// A build that runs no compiler has not used the profile, which is said, where file systems keep
/// times of access.
fn built_nothing(recorded: &Recorded) -> Result<()> {
    let words = [
        "pgo", "build", "-i", "opt.db", "--image", "./opt", "--", "true",
    ];
    let vcpi = &recorded.programs.vcpi;
    let output = recorded.command(vcpi).args(words).output()?;
    let file = recorded.path("opt.prof");
    let never = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    File::open(&file)?.set_times(never)?;
    std::fs::read(&file)?;
    let keeps_times = file.metadata()?.accessed()? > SystemTime::UNIX_EPOCH;
    let said = text(&output);
    ensure!(
        !keeps_times || output.status.code() == Some(5) && said.contains("no compiler read"),
        "{said}"
    );
    Ok(())
}

/// Builds by `vcpi pgo build --by`, records that, and builds again with the profile and more flags,
/// as the page has it. The program does the same, and is in `better`. What was printed last comes
/// back.
fn route(of: &Recorded, by: &str, flags: &str) -> Result<String> {
    let source = root().join("tests/fixtures/optimised.c");
    let build = |name: &str, profile: &[&str], flags: &str| {
        let line = format!("$CC -O2 {flags} -o {name} {}", source.display());
        let words = [
            &["pgo", "build", "--by", by],
            profile,
            &["--", "sh", "-c", &line],
        ];
        of.vcpi(&words.concat()).map(|output| text(&output))
    };
    build("opt", &[], "")?;
    of.vcpi(&[
        "pgo",
        "record",
        "-o",
        "opt.db",
        "--rate",
        "2000",
        "--",
        "./opt",
        ROUNDS_OF_A_ROUTE,
    ])?;
    let mut profile = vec!["-i", "opt.db", "--image", "./opt"];
    if by == "proftext" {
        let skeleton = ["--skeleton", "skeleton"];
        build("instrumented", &skeleton, "")?;
        profile.extend(skeleton);
    }
    let said = build("better", &profile, flags)?;
    let export = format!(" export {by} ");
    let is_printed = |line: &str| line.starts_with("vcpi: $ ") && line.contains(&export);
    ensure!(said.lines().any(is_printed), "{said}");
    ensure!(
        of.result("better")? == of.result("opt")?,
        "the program built by {by} prints something else"
    );
    Ok(said)
}

pub(crate) const BY_PROFTEXT: Test = test(
    "pgo builds by counters, whose skeleton it writes first",
    by_proftext,
    &[tools],
);
/// Counters as of an instrumented run, in three builds: the second one tells the skeleton.
fn by_proftext() -> Result<()> {
    let of = Recorded::empty()?;
    let said = route(&of, "proftext", "-Rpass=pgo-icall-prom")?;
    ensure!(said.contains("Promote indirect call to upwards"), "{said}");
    Ok(())
}

pub(crate) const BY_PROPELLER: Test =
    test("pgo builds by a layout of blocks", by_propeller, &[tools]);
/// The layout by blocks, with both of its files: code that did not run has a place of its own.
fn by_propeller() -> Result<()> {
    let of = Recorded::empty()?;
    let said = route(&of, "propeller", "")?;
    ensure!(said.contains(" --order\n"), "{said}");
    let symbols = text(&of.run("nm", &["better"])?);
    let is_apart = |line: &str| line.contains("scan") && line.ends_with(".cold");
    ensure!(symbols.lines().any(is_apart), "{symbols}");
    Ok(())
}

pub(crate) const BY_GCOV: Test = test("pgo builds by counts of lines", by_gcov, &[gcc_of_lines]);
/// Counts of lines, for the gcc that is there.
fn by_gcov() -> Result<()> {
    let of = Recorded::empty()?;
    let said = route(&of, "gcov", "-fopt-info-optimized")?;
    let is_promoted = |line: &str| line.contains("direct call") && line.contains("upwards");
    ensure!(said.lines().any(is_promoted), "{said}");
    Ok(())
}

pub(crate) const BY_CARGO: Test = test(
    "pgo builds a package by cargo, which strips programs",
    by_cargo,
    &[tools],
);
/// cargo builds a package for release, whose programs it strips unless it is told otherwise: the
/// profile has its lines, rustc calls directly what is mostly called through a trait, and the
/// program does the same.
fn by_cargo() -> Result<()> {
    let of = Recorded::empty()?;
    std::fs::create_dir(of.path("src"))?;
    let source = root().join("tests/fixtures/optimised.rs");
    std::fs::copy(source, of.path("src/main.rs"))?;
    let manifest = "[package]\nname = \"opt\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\
                    [profile.release]\ncodegen-units = 1\n[workspace]\n";
    std::fs::write(of.path("Cargo.toml"), manifest)?;
    let build = |profile: &[&str]| {
        let cargo = ["--", "cargo", "build", "--release", "--offline"];
        let mut command = of.command(&of.programs.vcpi);
        command
            .args([&["pgo", "build"], profile, &cargo].concat())
            .env_remove("CARGO_TARGET_DIR")
            .env("RUSTFLAGS", "-Cremark=pgo-icall-prom");
        let output = command.output()?;
        ensure!(output.status.success(), text(&output));
        anyhow::Ok(text(&output))
    };
    build(&[])?;
    std::fs::copy(of.path("target/release/opt"), of.path("opt"))?;
    of.record(languages::ROUNDS)?;
    let said = build(&["-i", "opt.db", "--image", "./opt"])?;
    ensure!(said.contains("romote indirect call"), "{said}");
    let better = of.result("target/release/opt")?;
    ensure!(
        better == of.result("opt")?,
        "the program prints something else"
    );
    Ok(())
}

pub(crate) const HINTS: Test = test(
    "hints begin with the divisor that nearly always is 7",
    hints,
    &[gcc],
);
/// The value that decides where the time goes comes first, with a saving that is predicted, and by
/// the name that the source has for it. What is as constant where no time goes is not listed.
fn hints() -> Result<()> {
    let of = Recorded::empty()?;
    let source = root()
        .join("tests/fixtures/special.c")
        .display()
        .to_string();
    let flags = ["-O2", "-g", "-Wl,--build-id", &source];
    of.run("gcc", &[&flags[..], &["-o", "plain"]].concat())?;
    of.run(
        "gcc",
        &[&flags[..], &["-o", "patched", "-DPATCHED"]].concat(),
    )?;
    let words = [
        "record", "-o", "hints.db", "--rate", "2000", "--", "./plain", ROUNDS,
    ];
    of.run(&of.programs.vcpid, &words)?;
    let hints = json(&of.vcpi(&["hints", "-i", "hints.db", "--format", "json"])?)?;
    let first = &hints[0];
    let kinds = ["divisor", "modulus"];
    let is_right = kinds.iter().any(|kind| first["kind"] == *kind)
        && first["function"] == "digits"
        && first["variable"] == "base"
        && first["value"] == "7"
        && first["share"].as_f64() >= Some(80.0)
        && first["predicted_percent"].as_f64() > Some(1.0);
    ensure!(is_right, "{hints}");
    let rows = hints.as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(rows.iter().all(|row| row["function"] != "rare"), "{hints}");
    let words = [
        "hints",
        "--verify",
        "./plain 300",
        "./patched 300",
        "--rounds",
        "5",
        "--format",
        "json",
    ];
    let trial = json(&of.vcpi(&words)?)?;
    ensure!(
        trial["same_output"] == true && trial["rounds"] == 5,
        "{trial}"
    );
    println!(
        "{}: {}",
        first["predicted_percent"], trial["saving_percent"]
    );
    Ok(())
}

pub(crate) const HELD: Test = test(
    "hints find a divisor that a loop only reads, and its patch compiles",
    held,
    &[gcc],
);
/// A divisor that a loop keeps in a register is found by what the loop reads, with its name; and
/// the patch is the statement in two cases, which compiles as it is and does the same.
fn held() -> Result<()> {
    let of = Recorded::empty()?;
    let source = std::fs::read_to_string(root().join("tests/fixtures/held.c"))?;
    let build = |name: &str, source: &str| -> Result<()> {
        let file = format!("{name}.c");
        std::fs::write(of.path(&file), source)?;
        let flags = ["-O2", "-g", "-Wl,--build-id", &file, "-o", name];
        of.run("gcc", &flags).map(|_| ())
    };
    build("held", &source)?;
    let words = [
        "record",
        "-o",
        "held.db",
        "--rate",
        "2000",
        "--capture",
        "dest,operands,ea,branch,target,args,ret",
        "--",
        "./held",
        "300000000",
        "7",
    ];
    of.run(&of.programs.vcpid, &words)?;
    let hints = json(&of.vcpi(&["hints", "-i", "held.db", "--format", "json"])?)?;
    let first = &hints[0];
    let is_right = first["kind"] == "divisor"
        && first["variable"] == "group"
        && first["value"] == "7"
        && first["source_text"] == "sum += number / group;";
    ensure!(is_right, "{hints}");
    let lines = first["patch"].as_array().map(Vec::as_slice);
    let lines = lines.unwrap_or_default().iter().filter_map(Value::as_str);
    let patch = lines.collect::<Vec<_>>().join("\n");
    build("patched", &source.replace("sum += number / group;", &patch))?;
    for divisor in ["7", "10"] {
        let result = |name: &str| -> Result<Vec<u8>> {
            Ok(of.run(of.path(name), &["100000", divisor])?.stdout)
        };
        ensure!(
            result("held")? == result("patched")?,
            "{patch} does something else with {divisor}"
        );
    }
    Ok(())
}
