//! Exports for optimisers, of a recording of `fixtures/optimised.c`: counts against exact ones, and
//! what the tools make of them.
//!
//! Needs the release build of both programs, the engine `bpf`, the tools of LLVM in one version,
//! and valgrind, whose simulator counts exactly.

mod contexts;
mod counts;
mod exports;
mod languages;
mod sites;
mod stale;
mod steps;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Result, ensure};
use counts::Counts;
use libtest_mimic::Arguments;
use vcpi_tests::exact::Exact;
use vcpi_tests::harness::{Shared, Test, run, test, text};
use vcpi_tests::needs::Missing;
use vcpi_tests::programs::{Programs, root};

/// The version of LLVM's tools that the tests know.
const VERSION: &str = "22";
/// What the program is compiled with, so that its profile can be used.
const FLAGS: &[&str] = &[
    "-O2",
    "-g1",
    "-fdebug-info-for-profiling",
    "-funique-internal-linkage-names",
    "-fno-pie",
    "-no-pie",
    "-Wl,--emit-relocs",
    "-Wl,--build-id",
];
/// Rounds of the program that are recorded: some seconds.
const ROUNDS: &str = "2500";
/// Rounds that are counted exactly, and whose results are compared.
const FEW_ROUNDS: &str = "20";

/// Least overlap with exact counts inside functions, in percent, and least distance from what
/// samples alone give.
const OVERLAP: f64 = 88.0;
const BETTER: f64 = 20.0;
/// Greatest mean error of a branch's probability, in percent.
const ERROR: f64 = 4.0;

fn main() -> ExitCode {
    let tests = [
        RIGHT_COUNTS,
        SAMPLE_USE,
        contexts::CONTEXTS,
        contexts::NO_SOURCE,
        BOLT,
        OTHER_BUILD,
        steps::PGO,
        steps::BY_PROFTEXT,
        steps::BY_PROPELLER,
        steps::BY_GCOV,
        steps::BY_CARGO,
        steps::HINTS,
        steps::HELD,
        languages::CPP,
        languages::RUST,
        exports::COUNTERS,
        exports::COPIES,
        exports::OTHER_SKELETON,
        exports::PROPELLER,
        exports::GCOV,
        exports::INLINED,
        stale::OLDER,
        sites::OF_ALL_KINDS,
        sites::AMONG_OTHERS,
    ];
    run(&Arguments::from_args(), tests).exit_code()
}

/// A folder with the program `opt` and its recording `opt.db`.
struct Recorded {
    folder: PathBuf,
    /// The same, where it goes with this.
    _temporary: Option<tempfile::TempDir>,
    programs: Programs,
}

impl Recorded {
    /// A folder with nothing in it.
    fn empty() -> Result<Recorded> {
        let temporary = tempfile::tempdir()?;
        Ok(Recorded {
            folder: temporary.path().to_path_buf(),
            _temporary: Some(temporary),
            programs: Programs::find()?,
        })
    }

    /// The same, for what lives as long as the program, so that nothing removes its folder: the
    /// next run begins with that.
    fn shared() -> Result<Recorded> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("optimisers");
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(Recorded {
            folder,
            _temporary: None,
            programs: Programs::find()?,
        })
    }

    /// Records the program `opt`, which does so many rounds.
    fn record(&self, rounds: &str) -> Result<()> {
        let words = [
            "record", "-o", "opt.db", "--rate", "2000", "--", "./opt", rounds,
        ];
        self.run(&self.programs.vcpid, &words)?;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Exports to a file, and says what `vcpi` said.
    fn export(&self, kind: &str, image: &str, file: &str) -> Result<Output> {
        let mut command = self.command(&self.programs.vcpi);
        command.args(["export", kind, "-i", "opt.db", "--image", image, "-o", file]);
        Ok(command.output()?)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed.
    fn run(&self, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Result<Output> {
        let output = self.command(&program).args(args).output()?;
        let name = program.as_ref().display();
        ensure!(
            output.status.success(),
            "{name} {args:?}: {}",
            text(&output)
        );
        Ok(output)
    }

    /// Runs a program of the project, which must succeed.
    fn vcpi(&self, args: &[&str]) -> Result<Output> {
        self.run(&self.programs.vcpi, args)
    }

    /// Has llvm-profgen read an export of the program `opt`.
    fn symbolize(&self, raw: &str, profile: &str) -> Result<String> {
        let words = [
            &format!("--unsymbolized-profile={raw}"),
            "--binary=opt",
            "--use-offset=0",
            "--format=text",
            &format!("--output={profile}"),
        ];
        self.run(tool("llvm-profgen"), &words)?;
        Ok(std::fs::read_to_string(self.path(profile))?)
    }

    /// Compiles the fixture, with more flags, to a program of this name.
    fn compile(&self, more: &[&str], name: &str) -> Result<Output> {
        let source = root().join("tests/fixtures/optimised.c");
        self.compile_file(&source, more, name)
    }

    /// Compiles a file in the same way.
    fn compile_file(&self, source: &Path, more: &[&str], name: &str) -> Result<Output> {
        let linker = format!(
            "--ld-path={}",
            found(&tool("ld.lld")).unwrap_or_default().display()
        );
        let source = source.display().to_string();
        let words = [FLAGS, &[&linker, "-o", name, &source], more].concat();
        self.run(tool("clang"), &words)
    }

    /// What a program prints after a few rounds.
    fn result(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self.run(self.path(name), &[FEW_ROUNDS])?.stdout)
    }
}

/// The recording, which all tests share.
fn recorded() -> Result<&'static Recorded> {
    static RECORDED: Shared<Recorded> = Shared::new();
    RECORDED.get(record)
}

fn record() -> Result<Recorded> {
    let recorded = Recorded::shared()?;
    recorded.compile(&[], "opt")?;
    recorded.record(ROUNDS)?;
    Ok(recorded)
}

fn tool(name: &str) -> String {
    format!("{name}-{VERSION}")
}

/// Where a program is.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// The tools of LLVM, and the simulator that counts exactly.
fn tools() -> Result<(), Missing> {
    let tools = [
        "clang",
        "ld.lld",
        "llvm-profgen",
        "llvm-profdata",
        "llvm-symbolizer",
        "llvm-objcopy",
        "perf2bolt",
        "llvm-bolt",
    ];
    let mut names: Vec<String> = tools.into_iter().map(tool).collect();
    names.push("valgrind".to_owned());
    let missing = names.into_iter().find(|name| found(name).is_none());
    missing.map_or(Ok(()), |name| Err(Missing(format!("there is no {name}"))))
}

const RIGHT_COUNTS: Test = test(
    "counts by flow are nearer to the truth than samples are",
    right_counts,
    &[tools],
);
/// Inside functions, counts that are computed from directions overlap far more with the exact ones
/// than samples do.
fn right_counts() -> Result<()> {
    let recorded = recorded()?;
    let output = recorded.export("profgen", "./opt", "opt.raw")?;
    ensure!(output.status.success(), text(&output));
    // The simulator does not read this compiler's debug information.
    recorded.run(tool("llvm-objcopy"), &["--strip-debug", "opt", "counted"])?;
    let words = [
        "--tool=callgrind",
        "--dump-instr=yes",
        "--collect-jumps=yes",
        "--compress-pos=no",
        "--compress-strings=no",
        "--callgrind-out-file=exact",
        "./counted",
        FEW_ROUNDS,
    ];
    recorded.run("valgrind", &words)?;
    let mut exact = Exact::default();
    let read = exact.add(&recorded.path("exact"));
    read?;
    let counts = Counts {
        file: recorded.path("opt"),
        raw: std::fs::read_to_string(recorded.path("opt.raw"))?,
        samples: counts::samples(&recorded.programs, &recorded.path("opt.db"))?,
        exact: counts::of_program(&exact.executed, "counted"),
        taken: counts::of_program(&exact.taken, "counted"),
    };
    let (flow, samples) = counts.overlaps()?;
    let error = counts.error_of_directions()?;
    let figures = format!(
        "overlap inside functions: {flow:.1} % by flow, {samples:.1} % by samples; error of \
         directions: {error:.1} %"
    );
    println!("{figures}");
    ensure!(
        flow >= OVERLAP && flow - samples >= BETTER && error <= ERROR,
        "{figures}"
    );
    Ok(())
}

const SAMPLE_USE: Test = test(
    "clang takes the profile, promotes calls, and the program stays right",
    sample_use,
    &[tools],
);
/// The compiler reads what llvm-profgen makes of the export, and calls directly what is mostly
/// called through a pointer.
fn sample_use() -> Result<()> {
    let recorded = recorded()?;
    let output = recorded.export("profgen", "./opt", "use.raw")?;
    ensure!(output.status.success(), text(&output));
    let profile = recorded.symbolize("use.raw", "use.prof")?;
    for name in ["run", "scan", "sink"] {
        let named = |line: &str| line.starts_with("_ZL") && line.contains(name);
        ensure!(profile.lines().any(named), "no {name} in {profile}");
    }
    let remarks = ["-fprofile-sample-use=use.prof", "-Rpass=pgo-icall-prom"];
    let said = text(&recorded.compile(&remarks, "better")?);
    for name in ["doubled", "upwards"] {
        let promoted = |line: &str| line.contains("Promote indirect call") && line.contains(name);
        ensure!(said.lines().any(promoted), "{name} is not promoted: {said}");
    }
    ensure!(
        recorded.result("better")? == recorded.result("opt")?,
        "the program that was compiled with the profile prints something else"
    );
    Ok(())
}

const BOLT: Test = test(
    "bolt takes the profile, and the program stays right",
    bolt,
    &[tools],
);
/// BOLT finds no branch of the export out of place, and what it lays out anew does the same.
fn bolt() -> Result<()> {
    let recorded = recorded()?;
    let output = recorded.export("bolt", "./opt", "opt.bolt")?;
    ensure!(output.status.success(), text(&output));
    let words = ["opt", "--pa", "-p", "opt.bolt", "-o", "opt.fdata"];
    let said = text(&recorded.run(tool("perf2bolt"), &words)?);
    for right in [
        "traces mismatching disassembled function contents: 0 ",
        "out of range traces involving unknown regions: 0 ",
    ] {
        ensure!(said.contains(right), "{said}");
    }
    let words = [
        "opt",
        "-o",
        "laid",
        "-data",
        "opt.fdata",
        "-reorder-blocks=ext-tsp",
    ];
    recorded.run(tool("llvm-bolt"), &words)?;
    ensure!(
        recorded.result("laid")? == recorded.result("opt")?,
        "the program that BOLT wrote prints something else"
    );
    Ok(())
}

const OTHER_BUILD: Test = test(
    "another build of the program is refused",
    other_build,
    &[tools],
);
/// A profile is of one build: another one under the program's name gets none.
fn other_build() -> Result<()> {
    let recorded = recorded()?;
    std::fs::create_dir_all(recorded.path("other"))?;
    recorded.compile(&["-DOTHER", "-O1"], "other/opt")?;
    let output = recorded.export("profgen", "other/opt", "other.raw")?;
    let refused =
        output.status.code() == Some(1) && !Path::new(&recorded.path("other.raw")).exists();
    ensure!(
        refused && text(&output).contains("the profile has build"),
        text(&output)
    );
    Ok(())
}
