//! Call stacks of a program whose paths are known, by both engines, next to `perf`, and in sums.
//!
//! Needs the release build of both programs, gcc, root for the engine `bpf`, and `perf` and python3
//! for two tests. Takes a minute.

mod perf;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use object::{Object, ObjectSymbol};
use profiledb::{Filter, Profile, StackEnd, StackRow};
use vcpi_tests::harness::{Test, one_at_a_time, run, test, text};
use vcpi_tests::needs::{as_root, bpf, gcc};
use vcpi_tests::programs::{Programs, root};

fn main() -> ExitCode {
    let tests = [
        BY_HANDLER,
        OF_STRIPPED,
        BY_RING,
        perf::OF_FIXTURE,
        perf::OF_INTERPRETER,
    ];
    run(&one_at_a_time(), tests).exit_code()
}

/// Samples a second.
const RATE: &str = "2000";
/// Rounds that the program makes.
const ROUNDS: &str = "60";
/// Callers that are looked for.
const CALLERS: &str = "64";

/// The program, and where it is recorded to.
struct Bench {
    folder: tempfile::TempDir,
    programs: Programs,
    program: PathBuf,
    /// Its functions by address: end and name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl Bench {
    /// The program, compiled.
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("stacks");
        let built = Command::new("gcc")
            .args(["-O2", "-fomit-frame-pointer", "-o"])
            .arg(&program)
            .arg(root().join("tests/fixtures/stacks.c"))
            .arg("-lpthread")
            .output()?;
        ensure!(built.status.success(), text(&built));
        let bytes = fs::read(&program)?;
        let file = object::File::parse(bytes.as_slice())?;
        let mut functions = BTreeMap::new();
        for symbol in file.symbols().filter(|symbol| symbol.size() > 0) {
            let (start, name) = (symbol.address(), symbol.name()?);
            functions.insert(start, (start + symbol.size(), name.to_owned()));
        }
        Ok(Self {
            folder,
            programs: Programs::find()?,
            program,
            functions,
        })
    }

    fn record(&self, engine: &str) -> Result<(Profile, Vec<Vec<String>>)> {
        let database = self.folder.path().join(format!("{engine}.db"));
        let output = Command::new(&self.programs.vcpid)
            .args(["record", "-q", "--engine", engine, "--rate", RATE])
            .args(["--window", "16", "--frames", CALLERS, "-o"])
            .arg(&database)
            .arg("--")
            .arg(&self.program)
            .arg(ROUNDS)
            .stdin(Stdio::null())
            .output()?;
        ensure!(output.status.success(), text(&output));
        let paths = String::from_utf8_lossy(&output.stdout);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        let paths = paths.lines().map(words).collect();
        let profile = Profile::load(&[database], &Filter::default())?;
        Ok((profile, paths))
    }

    /// The frames of a stack, the innermost first; `*` for those of other files, as one.
    fn frames(&self, profile: &Profile, row: &StackRow) -> Vec<String> {
        let mut frames: Vec<String> = Vec::new();
        for frame in profile.frames(row) {
            let pc = &profile.pcs[frame.pc];
            let path = Path::new(&profile.images[pc.image].path);
            let before = self.functions.range(..=pc.address).next_back();
            let name = match before {
                _ if path != self.program => "*",
                // It comes with the C library.
                Some((_, (_, name))) if name == "_start" => "*",
                Some((_, (end, name))) if pc.address < *end => name,
                _ => "?",
            };
            if name != "*" || frames.last().is_none_or(|last| last != "*") {
                frames.push(name.to_owned());
            }
        }
        frames
    }
}

/// Whether the frames of a stack are those of a path, as far as they go; and whether the stack ends
/// as it has to.
fn agrees(frames: &[String], end: StackEnd, path: &[String]) -> Result<bool> {
    let wrong = |what: &str| bail!("{what}: {frames:?}, {end:?}; the path is {path:?}");
    let (last, known) = path.split_last().context("a path without frames")?;
    let is_right = match last.as_str() {
        // A function that goes on calling itself.
        "..." => frames
            .iter()
            .skip(2)
            .all(|frame| Some(frame) == known.last()),
        // It was not called.
        "!" => frames.len() <= known.len(),
        _ => frames.len() <= path.len(),
    };
    let agree = frames
        .iter()
        .zip(known)
        .all(|(frame, known)| frame == known);
    if !(is_right && agree) {
        return wrong("a frame that cannot be");
    }
    if frames.len() > known.len() && last == "*" && frames.last().is_some_and(|at| at != "*") {
        return wrong("an outermost frame that cannot be");
    }
    if end.is_whole() && (last != "*" || frames.len() < path.len()) {
        return wrong("a stack that is not whole");
    }
    Ok(match last.as_str() {
        "..." => end == StackEnd::Depth,
        "!" => end == StackEnd::NoCall && frames.len() == known.len(),
        _ => end.is_whole(),
    })
}

/// Every stack with a known path has that path, or a part of it from the innermost frame on, and
/// most have all of it. Stacks stand for no more than all samples do.
fn compare(bench: &Bench, profile: &Profile, paths: &[Vec<String>]) -> Result<Found> {
    let mut found: Found = HashMap::new();
    for row in &profile.stacks {
        let frames = bench.frames(profile, row);
        let Some(path) = paths.iter().find(|path| path.first() == frames.first()) else {
            continue;
        };
        let as_far = agrees(&frames, row.end, path)?;
        let (right, all, ends) = found.entry(path[0].clone()).or_default();
        *all += row.samples;
        *right += if as_far { row.samples } else { 0 };
        *ends.entry(row.end).or_default() += row.samples;
    }
    for (leaf, (right, all, ends)) in &found {
        println!("{leaf}: {right} of {all} as far as can be; {ends:?}");
    }
    // Of each place of samples by itself.
    let mut cycles: HashMap<(usize, usize), (u64, f64)> = HashMap::new();
    for row in &profile.cycles {
        let sum = cycles.entry((row.subject, row.pc)).or_default();
        (sum.0, sum.1) = (sum.0 + row.samples, sum.1 + row.cycles);
    }
    for row in &profile.stacks {
        let pc = profile.stack_nodes[row.node].pc;
        let sum = cycles.entry((row.subject, pc)).or_default();
        let left = sum.0.checked_sub(row.samples);
        sum.0 = left.with_context(|| format!("more stacks than samples: {row:?}"))?;
        sum.1 -= row.cycles;
    }
    let (left, behind) = cycles.values().fold((0, 0.0_f64), |sum, left| {
        (sum.0 + left.0, sum.1.min(left.1))
    });
    println!("{left} samples have no stack");
    ensure!(behind > -1.0, "stacks have {behind} cycles more");
    Ok(found)
}

/// By the innermost function: samples whose stack is as long as it can be, all samples, and how
/// their stacks end.
type Found = HashMap<String, (u64, u64, BTreeMap<StackEnd, u64>)>;

/// Most stacks of each path are as long as they can be.
fn most(found: &Found, paths: &[Vec<String>], least: f64) -> Result<()> {
    for path in paths {
        let (right, all, _) = found.get(&path[0]).cloned().unwrap_or_default();
        let share = right as f64 / all.max(1) as f64;
        ensure!(all > 20 && share >= least, "{}: {right} of {all}", path[0]);
    }
    Ok(())
}

const BY_HANDLER: Test = test(
    "paths are those of the program",
    by_handler,
    &[as_root, gcc, bpf],
);
fn by_handler() -> Result<()> {
    let bench = Bench::new()?;
    let (profile, paths) = bench.record("bpf")?;
    most(&compare(&bench, &profile, &paths)?, &paths, 0.9)?;
    Ok(())
}

const OF_STRIPPED: Test = test(
    "paths are those of a stripped program",
    of_stripped,
    &[as_root, gcc, bpf],
);
fn of_stripped() -> Result<()> {
    let bench = Bench::new()?;
    let stripped = Command::new("strip").arg(&bench.program).output()?;
    ensure!(stripped.status.success(), text(&stripped));
    let (profile, paths) = bench.record("bpf")?;
    most(&compare(&bench, &profile, &paths)?, &paths, 0.9)?;
    Ok(())
}

const BY_RING: Test = test(
    "paths are those of the program, engine ring",
    by_ring,
    &[as_root, gcc],
);
/// The copy of the stack ends before that of the deepest calls does.
fn by_ring() -> Result<()> {
    let bench = Bench::new()?;
    let (profile, mut paths) = bench.record("ring")?;
    let found = compare(&bench, &profile, &paths)?;
    paths.retain(|path| path.last().is_some_and(|last| last != "..."));
    most(&found, &paths, 0.9)?;
    Ok(())
}
