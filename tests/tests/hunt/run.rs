//! Compiles a program, records it, and compares.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};
use rusqlite::{Connection, OpenFlags};
use vcpi_tests::programs::{Programs, root, target_dir};

use crate::checks;
use crate::judge::{Finding, Judge, Verdict};
use crate::kinds::Kind;
use crate::program::{Machine, Source, generate};
use crate::trace::Trace;
use vcpi_tests::rows::Rows;

/// Instructions of a window: few, and as many as usual.
const WINDOW: u32 = 16;
const LONG_WINDOW: u32 = 256;
/// Samples per second of processor time.
const RATE: u32 = 6000;
/// Seconds of processor time that each thread of a program runs for.
pub(crate) const SECONDS: f64 = 0.6;
/// In place of an engine: the program runs by itself, to see whether it always does the same.
pub(crate) const NONE: &str = "none";
/// Values that are recorded.
const CAPTURE: &str = "dest,ea,base,branch,target,args,ret,vector";

/// What is needed to run programs.
pub(crate) struct Range {
    pub(crate) machine: Machine,
    pub(crate) programs: Programs,
    pub(crate) engines: Vec<String>,
    /// Seconds of processor time that each thread of a program runs for.
    pub(crate) seconds: f64,
    /// A file that is locked while a program is recorded.
    pub(crate) lock: Option<PathBuf>,
}

/// What came of a program.
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// Where its source was kept, if it was.
    pub(crate) kept: Option<PathBuf>,
    pub(crate) about: String,
}

impl Range {
    /// Makes, records and judges one program.
    pub(crate) fn run(&self, kind: &Kind, seed: u64, keep: bool) -> Result<Outcome> {
        let folder = target_dir()?
            .join("hunt")
            .join(format!("{}-{seed}", kind.name));
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let source = if kind.related {
            Source::of_relations(seed)
        } else {
            generate(kind, seed, &self.machine)
        };
        // Every other program has long windows, for which the handler follows the thread's way.
        let window = if seed % 2 == 1 { LONG_WINDOW } else { WINDOW };
        let result = self.recorded(&folder, &source, window);
        let mut outcome = result.with_context(|| format!("see {}", folder.display()))?;
        outcome.about = source.about;
        if outcome.verdict.findings.is_empty() && !keep {
            fs::remove_dir_all(&folder)?;
        } else {
            outcome.kept = Some(folder);
        }
        Ok(outcome)
    }

    fn recorded(&self, folder: &Path, source: &Source, window: u32) -> Result<Outcome> {
        let program = compile(folder, source)?;
        let mut verdict = Verdict::default();
        let _lock = self.locked()?;
        for engine in &self.engines {
            let mut one = self.engine(folder, &program, (engine, window), source.related)?;
            for finding in &mut one.findings {
                finding.text = format!("{engine}: {}", finding.text);
            }
            verdict.add(&one);
        }
        Ok(Outcome {
            verdict,
            kept: None,
            about: String::new(),
        })
    }

    fn engine(
        &self,
        folder: &Path,
        program: &Path,
        (engine, window): (&str, u32),
        related: bool,
    ) -> Result<Verdict> {
        let (database, traces) = (folder.join(format!("{engine}.db")), folder.join(engine));
        vcpi_tests::programs::remove_database(&database)?;
        remove_traces(folder, engine)?;
        let output = if engine == NONE {
            Command::new(program)
                .arg("0.05")
                .arg(&traces)
                .stdin(Stdio::null())
                .output()?
        } else {
            Command::new(&self.programs.vcpid)
                .args(["record", "-q", "--engine", engine, "--capture", CAPTURE])
                .args(["--window", &window.to_string()])
                .args(["--rate", &RATE.to_string(), "--clock", "cpu-clock", "-o"])
                .arg(&database)
                .arg("--")
                .arg(program)
                .arg(self.seconds.to_string())
                .arg(&traces)
                .stdin(Stdio::null())
                .output()?
        };
        let meaning = match output.status.code() {
            Some(0) => None,
            Some(3) => Some("this machine lacks what the program needs"),
            Some(4) => Some("the program does not always do the same"),
            Some(5 | 6) => Some("a fault that was not foreseen"),
            Some(7) => Some("too many instructions to follow"),
            _ => Some("it failed"),
        };
        if let Some(meaning) = meaning {
            bail!("{meaning}: {}", said(&output));
        }
        if related {
            return related_verdict(engine, &database, program);
        }
        if engine == NONE {
            read_traces(folder, engine)?;
            return Ok(Verdict::default());
        }
        Self::judged_again(folder, engine)
    }

    /// What is to be said of a recording that is there.
    pub(crate) fn judged_again(folder: &Path, engine: &str) -> Result<Verdict> {
        let traces = read_traces(folder, engine)?;
        Judge {
            traces: &traces,
            program: &folder.join("program").canonicalize()?,
            // Programs are linked below; a copy of their code is where the kernel put it.
            copied: traces
                .values()
                .any(|trace| trace.marked.start > 0x1_0000_0000),
        }
        .judge(&folder.join(format!("{engine}.db")))
    }

    fn locked(&self) -> Result<Option<nix::fcntl::Flock<fs::File>>> {
        let recorded = self.engines.iter().any(|engine| engine != NONE);
        let Some(path) = self.lock.as_ref().filter(|_| recorded) else {
            return Ok(None);
        };
        let file = fs::File::options().append(true).create(true).open(path)?;
        let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive);
        let lock = lock.map_err(|(_, error)| error);
        Ok(Some(
            lock.with_context(|| format!("locking {}", path.display()))?,
        ))
    }
}

/// The verdict on a program that brings its own checks.
fn related_verdict(engine: &str, database: &Path, program: &Path) -> Result<Verdict> {
    if engine == NONE {
        return Ok(Verdict::default());
    }
    let rows = Rows::of(database)?;
    let database = Connection::open_with_flags(rows.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let checks = checks::of_image(program)?;
    let mut found = checks::Verdict::default();
    checks::judge(
        &database,
        checks::CodeIn::File(program),
        &checks,
        &mut found,
    )?;
    Ok(Verdict {
        values: found.values,
        reached: found.passed.0,
        unknown: found.passed.1,
        findings: found
            .wrong()
            .iter()
            .map(|text| Finding { text: text.clone() })
            .collect(),
        ..Verdict::default()
    })
}

/// The runtime and the generated files, linked at fixed addresses.
fn compile(folder: &Path, source: &Source) -> Result<PathBuf> {
    let (c, assembly) = (folder.join("program.c"), folder.join("program.s"));
    fs::write(&c, &source.c)?;
    fs::write(&assembly, &source.assembly)?;
    let fixtures = root().join("tests/fixtures/hunt");
    let object = folder.join("program.o");
    let gcc = |arguments: &mut Command| -> Result<()> {
        let output = arguments
            .stdin(Stdio::null())
            .output()
            .context("running gcc")?;
        if !output.status.success() {
            bail!("gcc failed: {}", said(&output));
        }
        Ok(())
    };
    gcc(Command::new("gcc")
        .args(["-g", "-c", "-w", "-fno-pie", "-fno-strict-aliasing", "-I"])
        .arg(&fixtures)
        .args(&source.options)
        .arg(&c)
        .arg("-o")
        .arg(&object))?;
    let program = folder.join("program");
    let parts: &[&str] = if source.related {
        &["relations.c"]
    } else {
        &["runtime.c", "trace.c"]
    };
    gcc(Command::new("gcc")
        .args([
            "-O2",
            "-g",
            "-pthread",
            "-no-pie",
            "-fno-pie",
            "-fno-stack-protector",
        ])
        .args(parts.iter().map(|part| fixtures.join(part)))
        .arg(&object)
        .arg(&assembly)
        .args(["-Wl,-z,noexecstack", "-o"])
        .arg(&program))?;
    program.canonicalize().context("the program's path")
}

fn said(output: &Output) -> String {
    format!(
        "{} {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr).trim_end()
    )
}

/// Files that the program wrote for an engine's run, with the process that each is of.
fn trace_files(folder: &Path, engine: &str) -> Result<Vec<(u32, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let pid = name
            .strip_prefix(engine)
            .and_then(|rest| rest.strip_prefix('.'));
        if let Some(pid) = pid.and_then(|pid| pid.parse().ok()) {
            files.push((pid, path));
        }
    }
    Ok(files)
}

fn remove_traces(folder: &Path, engine: &str) -> Result<()> {
    for (_, path) in trace_files(folder, engine)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

pub(crate) fn read_traces(folder: &Path, engine: &str) -> Result<HashMap<u32, Trace>> {
    let mut traces = HashMap::new();
    for (pid, path) in trace_files(folder, engine)? {
        let trace = Trace::read(&path)?;
        if trace.mismatches > 0 {
            bail!(
                "{} of {} calls gave another result",
                trace.mismatches,
                trace.calls
            );
        }
        traces.insert(pid, trace);
    }
    if traces.is_empty() {
        bail!("the program left no trace");
    }
    Ok(traces)
}
