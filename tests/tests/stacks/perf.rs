//! Call stacks next to those of `perf`, which copies 64 KiB of the stack with each of its samples
//! and unwinds them afterwards with a library of its own. Both record the same run.
//!
//! Compared are two distributions of inclusive time, each made to sum up to 1: by function, and by
//! call (caller and callee). A stack counts for each of its functions and calls once. The overlap
//! is the sum of the smaller shares.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Bench;
use anyhow::{Result, bail, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{Missing, as_root, bpf, gcc, program};
use vcpi_tests::programs::{Programs, root};

/// Least overlap of both distributions.
const OVERLAP: f64 = 0.95;
/// Rounds of `fixtures/stacks.c`, and of `fixtures/stacks.py`: some seconds.
const ROUNDS: &str = "150";
const ROUNDS_OF_PYTHON: &str = "60";
/// Fewer stacks of perf than these say nothing.
const LEAST: f64 = 500.0;

/// Stacks, each with its functions from the innermost one on, and its weight.
type Stacks = Vec<(Vec<String>, f64)>;

/// `perf record` of user space, to be told what and how.
fn record_into(file: &Path) -> Command {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "--no-buildid", "--no-buildid-cache"])
        .args(["-e", "cpu-clock:u", "-o"])
        .arg(file)
        .stdin(Stdio::null());
    perf
}

/// A `perf` that may record.
fn perf() -> Result<(), Missing> {
    let tried = record_into(Path::new("/dev/null"))
        .args(["--", "true"])
        .output();
    match tried {
        Err(_) => Err(Missing::new("needs perf (Debian's linux-perf)")),
        Ok(tried) if !tried.status.success() => Err(Missing::new("needs a perf that may record")),
        Ok(_) => Ok(()),
    }
}

/// The interpreter.
fn python() -> Result<(), Missing> {
    program("python3", "--version")
}

/// A run that both recorded.
struct Run<'a> {
    programs: &'a Programs,
    folder: &'a Path,
    /// The name of its processes.
    comm: &'a str,
    /// The function that all is called from.
    outermost: &'a str,
    /// Stacks that begin there are left out.
    leaves_out: &'a [&'a str],
}

impl Run<'_> {
    fn database(&self) -> PathBuf {
        self.folder.join("with-perf.db")
    }

    /// Records a command with both.
    fn record(&self, command: &[&OsStr]) -> Result<()> {
        let recorded = record_into(&self.folder.join("perf.data"))
            .args(["-F", "999", "-m", "4096", "--call-graph", "dwarf,65528"])
            .arg("--")
            .arg(&self.programs.vcpid)
            .args(["record", "-q", "--engine", "bpf", "--rate", "2000"])
            .args(["--window", "16", "--frames", "127", "-o"])
            .arg(self.database())
            .arg("--")
            .args(command)
            .output()?;
        ensure!(recorded.status.success(), text(&recorded));
        Ok(())
    }

    fn of_perf(&self) -> Result<Stacks> {
        let script = Command::new("perf")
            .args(["script", "--no-inline", "--comm", self.comm])
            .args(["-F", "ip,sym", "-i"])
            .arg(self.folder.join("perf.data"))
            .stdin(Stdio::null())
            .output()?;
        let script = String::from_utf8_lossy(&script.stdout);
        let blocks = script.split("\n\n").map(|block| {
            let names = block.lines().filter_map(|line| {
                let mut words = line.split_whitespace();
                let (_, name) = (words.next()?, words.next()?);
                Some(name.to_owned())
            });
            (names.collect::<Vec<_>>(), 1.0)
        });
        Ok(self.kept(blocks))
    }

    /// What `vcpi` says to a command.
    fn told(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.programs.vcpi)
            .arg("-i")
            .arg(self.database())
            .args(words)
            .stdin(Stdio::null())
            .output()?;
        ensure!(output.status.success(), text(&output));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn of_folded(&self) -> Result<Stacks> {
        let folded = self.told(&["export", "folded"])?;
        let lines = folded.lines().filter_map(|line| {
            let (stack, weight) = line.rsplit_once(' ')?;
            let (comm, frames) = stack.split_once(';')?;
            // Inlined calls have no frame.
            let frames = frames.rsplit(';').filter(|name| !name.ends_with("_[i]"));
            let frames = frames.map(str::to_owned).collect();
            (comm == self.comm).then_some((frames, weight.parse().ok()?))
        });
        Ok(self.kept(lines))
    }

    fn of_tree(&self) -> Result<Stacks> {
        let tree = self.told(&["cg", self.outermost, "--tree", "--format", "json"])?;
        let stacks = stacks_of(&tree);
        Ok(self.kept(stacks.into_iter()))
    }

    /// Those of the outermost function, from there on inwards.
    fn kept(&self, stacks: impl Iterator<Item = (Vec<String>, f64)>) -> Stacks {
        let kept = stacks.filter_map(|(mut frames, weight)| {
            let last = frames.iter().rposition(|name| name == self.outermost)?;
            frames.truncate(last + 1);
            let is_kept = frames
                .first()
                .is_some_and(|name| !self.leaves_out.contains(&name.as_str()));
            is_kept.then_some((frames, weight))
        });
        kept.collect()
    }

    /// Compares what perf found with the tree of `vcpi cg` and with the export.
    fn compare(&self) -> Result<()> {
        let theirs = self.of_perf()?;
        if weight(&theirs) < LEAST {
            bail!(Missing(format!(
                "needs a perf that finds {}",
                self.outermost
            )));
        }
        for (name, ours) in [
            ("export folded", self.of_folded()?),
            ("cg --tree", self.of_tree()?),
        ] {
            let functions = overlap(&ours, &theirs, |frames| frames.to_vec());
            print_differences(&ours, &theirs);
            let calls = overlap(&ours, &theirs, |frames| {
                let calls = frames.windows(2);
                calls
                    .map(|call| (call[1].clone(), call[0].clone()))
                    .collect()
            });
            println!("{name}: functions {functions:.3}, calls {calls:.3}");
            ensure!(
                functions >= OVERLAP && calls >= OVERLAP,
                "{name}: overlap of functions {functions:.3}, of calls {calls:.3}"
            );
        }
        Ok(())
    }
}

/// The stacks of a tree, which is deeper than readers of JSON go: each node has its function and
/// its samples in lines of their own, indented by its depth.
fn stacks_of(tree: &str) -> Stacks {
    let mut stacks = Stacks::new();
    // From the outermost node to the one that was read last: indentation, function, own samples.
    let mut path: Vec<(usize, String, f64)> = Vec::new();
    let mut end = |path: &mut Vec<(usize, String, f64)>, indentation: usize| {
        while path.last().is_some_and(|(of, ..)| *of >= indentation) {
            let frames = path.iter().rev().map(|(_, name, _)| name.clone()).collect();
            let own = path.pop().map_or(0.0, |(.., own)| own);
            if own > 0.0 {
                stacks.push((frames, own));
            }
        }
    };
    for line in tree.lines() {
        let field = line.trim_start();
        let indentation = line.len() - field.len();
        if let Some(name) = field.strip_prefix("\"function\": \"") {
            end(&mut path, indentation);
            let name = name.trim_end_matches("\",");
            path.push((indentation, name.to_owned(), 0.0));
        } else if let Some(samples) = field.strip_prefix("\"samples\": ")
            && let Ok(samples) = samples.trim_end_matches(',').parse::<f64>()
            && let [rest @ .., (of, _, own)] = path.as_mut_slice()
            && *of == indentation
        {
            *own = samples;
            if let Some((.., above)) = rest.last_mut() {
                *above -= samples;
            }
        }
    }
    end(&mut path, 0);
    stacks
}

fn weight(stacks: &Stacks) -> f64 {
    stacks.iter().map(|(_, weight)| weight).sum()
}

/// Each key's share of the weight of all stacks that have it, summed over keys.
fn shares<K: Ord>(stacks: &Stacks, keys: impl Fn(&[String]) -> Vec<K>) -> BTreeMap<K, f64> {
    let mut shares = BTreeMap::new();
    for (frames, weight) in stacks {
        for key in keys(frames).into_iter().collect::<BTreeSet<K>>() {
            *shares.entry(key).or_default() += weight;
        }
    }
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= all);
    shares
}

fn overlap<K: Ord>(one: &Stacks, other: &Stacks, keys: impl Fn(&[String]) -> Vec<K>) -> f64 {
    let (one, other) = (shares(one, &keys), shares(other, &keys));
    let both = one.iter().filter_map(|(key, share)| {
        let other = other.get(key)?;
        Some(share.min(*other))
    });
    both.sum()
}

/// Prints the functions whose shares differ by a percent or more.
fn print_differences(ours: &Stacks, theirs: &Stacks) {
    let of = |stacks: &Stacks| shares(stacks, |frames: &[String]| frames.to_vec());
    let (ours, theirs) = (of(ours), of(theirs));
    for name in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        let share = |of: &BTreeMap<String, f64>| 100.0 * of.get(name).unwrap_or(&0.0);
        let (ours, theirs) = (share(&ours), share(&theirs));
        if (ours - theirs).abs() >= 1.0 {
            println!("{name}: {ours:.1} %, by perf {theirs:.1} %");
        }
    }
}

pub(crate) const OF_FIXTURE: Test = test(
    "functions and calls take the time that perf finds",
    of_fixture,
    &[as_root, gcc, bpf, perf],
);
/// Functions and calls of a program with known paths take the time that perf finds. What is called
/// by a signal's handler is left out: perf goes on to what was interrupted, which called nothing.
/// So is what `qsort` calls: without build ids, perf's stacks of it end in the C library.
fn of_fixture() -> Result<()> {
    let bench = Bench::new()?;
    let run = Run {
        programs: &bench.programs,
        folder: bench.folder.path(),
        comm: "stacks",
        outermost: "main",
        leaves_out: &["leaf_of_signal", "leaf_of_sort"],
    };
    run.record(&[bench.program.as_os_str(), ROUNDS.as_ref()])?;
    run.compare()
}

pub(crate) const OF_INTERPRETER: Test = test(
    "functions and calls of an interpreter take the time that perf finds",
    of_interpreter,
    &[as_root, gcc, bpf, python, perf],
);
/// So do those of an interpreter: deep stacks, most of them where no sample came before.
fn of_interpreter() -> Result<()> {
    let bench = Bench::new()?;
    // A launcher may stand in the path.
    let found = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()?;
    let python = PathBuf::from(String::from_utf8(found.stdout)?.trim());
    let name = python.file_name().unwrap_or_default().to_string_lossy();
    let run = Run {
        programs: &bench.programs,
        folder: bench.folder.path(),
        comm: &name[..name.len().min(15)],
        outermost: "Py_BytesMain",
        leaves_out: &[],
    };
    let script = root().join("tests/fixtures/stacks.py");
    let command = [
        python.as_os_str(),
        script.as_os_str(),
        ROUNDS_OF_PYTHON.as_ref(),
    ];
    run.record(&command)?;
    run.compare()
}
