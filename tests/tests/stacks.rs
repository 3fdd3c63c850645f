//! Call stacks of a program whose paths are known, by both engines, next to `perf`, and in sums.
//!
//! Needs the release build of both programs, gcc, root for the engine `bpf`, and `perf` for one
//! test. Takes half a minute.

mod common;
#[path = "common/trial.rs"]
mod trial;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Completion, Failed};
use object::{Object, ObjectSymbol};
use profiledb::{Filter, Profile, StackEnd, StackRow};
use vcpi_tests::programs::{Programs, root};

use common::{ensure, text};
use trial::{Test, TestResult, done, trials};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One at a time: their programs would take processor time from each other.
    arguments.test_threads.get_or_insert(1);
    let tests: [(&str, Test); 4] = [
        ("paths are those of the program", by_handler),
        ("paths are those of a stripped program", of_stripped),
        ("paths are those of the program, engine ring", by_ring),
        ("functions take the time that perf finds", against_perf),
    ];
    libtest_mimic::run(&arguments, trials(tests)).exit_code()
}

/// Samples a second.
const RATE: &str = "2000";
/// Rounds that the program makes.
const ROUNDS: &str = "60";
/// And those of two recordings that are compared: chance makes them differ.
const MORE_ROUNDS: &str = "150";
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

/// What is missing, or what there is to test with.
fn bench() -> Result<Result<Bench, String>, Failed> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(Err("needs root".to_owned()));
    }
    if Command::new("gcc").arg("--version").output().is_err() {
        return Ok(Err("needs gcc".to_owned()));
    }
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("stacks");
    let built = Command::new("gcc")
        .args(["-O2", "-fomit-frame-pointer", "-o"])
        .arg(&program)
        .arg(root().join("tests/fixtures/stacks.c"))
        .arg("-lpthread")
        .output()?;
    ensure(built.status.success(), || text(&built))?;
    let bytes = fs::read(&program)?;
    let file = object::File::parse(bytes.as_slice())?;
    let mut functions = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.size() > 0) {
        let (start, name) = (symbol.address(), symbol.name()?);
        functions.insert(start, (start + symbol.size(), name.to_owned()));
    }
    Ok(Ok(Bench {
        folder,
        programs: Programs::find()?,
        program,
        functions,
    }))
}

/// As [`bench`]; where something is missing the test is skipped.
macro_rules! bench {
    () => {
        match bench()? {
            Ok(bench) => bench,
            Err(missing) => return Ok(Completion::ignored_with(missing)),
        }
    };
}

impl Bench {
    fn record(&self, engine: &str) -> Result<(Profile, Vec<Vec<String>>), Failed> {
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
        ensure(output.status.success(), || text(&output))?;
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
fn agrees(frames: &[String], end: StackEnd, path: &[String]) -> Result<bool, String> {
    let wrong = |what: &str| Err(format!("{what}: {frames:?}, {end:?}; the path is {path:?}"));
    let (last, known) = path.split_last().ok_or("a path without frames")?;
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
fn compare(bench: &Bench, profile: &Profile, paths: &[Vec<String>]) -> Result<Found, Failed> {
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
        sum.0 = left.ok_or_else(|| format!("more stacks than samples: {row:?}"))?;
        sum.1 -= row.cycles;
    }
    let (left, behind) = cycles.values().fold((0, 0.0_f64), |sum, left| {
        (sum.0 + left.0, sum.1.min(left.1))
    });
    println!("{left} samples have no stack");
    ensure(behind > -1.0, || {
        format!("stacks have {behind} cycles more")
    })?;
    Ok(found)
}

/// By the innermost function: samples whose stack is as long as it can be, all samples, and how
/// their stacks end.
type Found = HashMap<String, (u64, u64, BTreeMap<StackEnd, u64>)>;

/// Most stacks of each path are as long as they can be.
fn most(found: &Found, paths: &[Vec<String>], least: f64) -> Result<(), Failed> {
    for path in paths {
        let (right, all, _) = found.get(&path[0]).cloned().unwrap_or_default();
        let share = right as f64 / all.max(1) as f64;
        ensure(all > 20 && share >= least, || {
            format!("{}: {right} of {all}", path[0])
        })?;
    }
    Ok(())
}

fn by_handler() -> TestResult {
    let bench = bench!();
    let (profile, paths) = bench.record("bpf")?;
    most(&compare(&bench, &profile, &paths)?, &paths, 0.9)?;
    done()
}

fn of_stripped() -> TestResult {
    let bench = bench!();
    let stripped = Command::new("strip").arg(&bench.program).output()?;
    ensure(stripped.status.success(), || text(&stripped))?;
    let (profile, paths) = bench.record("bpf")?;
    most(&compare(&bench, &profile, &paths)?, &paths, 0.9)?;
    done()
}

/// The copy of the stack ends before that of the deepest calls does.
fn by_ring() -> TestResult {
    let bench = bench!();
    let (profile, mut paths) = bench.record("ring")?;
    let found = compare(&bench, &profile, &paths)?;
    paths.retain(|path| path.last().is_some_and(|last| last != "..."));
    most(&found, &paths, 0.9)?;
    done()
}

/// The shares of the time that functions take with all that they call are those that perf finds by
/// copies of the stack, in a recording of the same run. Stacks that end before their outermost
/// frame in any case are left out of both: those of a signal's handler, and the deepest ones.
fn against_perf() -> TestResult {
    let bench = bench!();
    let data = bench.folder.path().join("perf.data");
    let database = bench.folder.path().join("with-perf.db");
    let recorded = Command::new("perf")
        .args(["record", "-q", "--no-buildid", "--no-buildid-cache"])
        .args([
            "-e",
            "cpu-clock:u",
            "-F",
            "999",
            "--call-graph",
            "dwarf,4096",
        ])
        .arg("-o")
        .arg(&data)
        .arg("--")
        .arg(&bench.programs.vcpid)
        .args(["record", "-q", "--engine", "bpf", "--rate", RATE])
        .args(["--window", "16", "--frames", CALLERS, "-o"])
        .arg(&database)
        .arg("--")
        .arg(&bench.program)
        .arg(MORE_ROUNDS)
        .stdin(Stdio::null())
        .output();
    let Ok(recorded) = recorded else {
        return Ok(Completion::ignored_with("needs perf"));
    };
    ensure(recorded.status.success(), || text(&recorded))?;
    let script = Command::new("perf")
        .args([
            "script",
            "--no-inline",
            "--comm",
            "stacks",
            "-F",
            "ip,sym,dso",
            "-i",
        ])
        .arg(&data)
        .stdin(Stdio::null())
        .output()?;
    let theirs = of_script(&String::from_utf8_lossy(&script.stdout));
    let profile = Profile::load(&[database], &Filter::default())?;
    let mut ours: HashMap<String, f64> = HashMap::new();
    for row in &profile.stacks {
        if profile.subjects[row.subject].kernel {
            continue;
        }
        count(&mut ours, &bench.frames(&profile, row), row.samples as f64);
    }
    let all = |shares: &HashMap<String, f64>| shares.values().sum::<f64>();
    if all(&theirs) < 100.0 {
        return Ok(Completion::ignored_with("needs a perf that works"));
    }
    let (n, m) = (all(&ours), all(&theirs));
    let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut overlap = 0.0;
    for name in names {
        let share = |of: &HashMap<String, f64>, all: f64| of.get(name).unwrap_or(&0.0) / all;
        let (a, b) = (share(&ours, n), share(&theirs, m));
        overlap += a.min(b);
        println!("{name:20} {:5.1} %, by perf {:5.1} %", 100.0 * a, 100.0 * b);
    }
    println!("{n} and {m} functions on stacks: overlap {overlap:.3}");
    ensure(overlap >= 0.95, || format!("an overlap of {overlap:.3}"))?;
    done()
}

/// Counts each function of a stack once.
fn count(shares: &mut HashMap<String, f64>, names: &[String], samples: f64) {
    let ends_early = |name: &String| name == "leaf_of_signal" || name == "leaf_of_depth";
    if names.first().is_some_and(ends_early) {
        return;
    }
    let is_own = |name: &&String| !["*", "?", "_start"].contains(&name.as_str());
    let mut names: Vec<String> = names.iter().filter(is_own).cloned().collect();
    names.sort();
    names.dedup();
    for name in names {
        *shares.entry(name).or_default() += samples;
    }
}

/// The functions of the program in what `perf script` prints: blocks of frames, the innermost one
/// first.
fn of_script(script: &str) -> HashMap<String, f64> {
    let mut shares = HashMap::new();
    for block in script.split("\n\n") {
        let names = block.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (_, name) = (words.next()?, words.next()?);
            line.contains("/stacks)").then(|| name.to_owned())
        });
        count(&mut shares, &names.collect::<Vec<_>>(), 1.0);
    }
    shares
}
