//! A folder to work in, the programs under test, and fixtures compiled and recorded there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::sync::OnceLock;

use anyhow::{Result, bail};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};
use vcpi_tests::harness;
use vcpi_tests::needs::{Missing, Need};
use vcpi_tests::programs::{Programs, root};
use vcpi_tests::rows::Rows;
use vcpi_tests::variable;

/// Samples per second of processor time.
pub(crate) const RATE: u32 = 10_000;

/// Where the long run takes its number of samples from.
const SAMPLES: &str = "VCPI_TEST_SAMPLES";

/// Where tests of results that the processor shows take their seconds from.
const SECONDS: &str = "VCPI_TEST_SECONDS";

/// What makes the interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    CpuClock,
    Timer,
}

impl Clock {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CpuClock => "cpu-clock",
            Self::Timer => "timer",
        }
    }

    /// What a test with this clock needs.
    pub(crate) fn need(self) -> Need {
        match self {
            Self::CpuClock => cpu_clock,
            Self::Timer => timer,
        }
    }
}

/// A test of the engine.
pub(crate) type Test = harness::Test<fn(&Bench) -> Result<()>>;

/// The engine `bpf` with the software clock.
pub(crate) fn cpu_clock() -> Result<(), Missing> {
    static TRIED: OnceLock<Result<(), Missing>> = OnceLock::new();
    TRIED.get_or_init(|| engine_with(Clock::CpuClock)).clone()
}

/// The engine `bpf` with its own clock.
pub(crate) fn timer() -> Result<(), Missing> {
    static TRIED: OnceLock<Result<(), Missing>> = OnceLock::new();
    TRIED.get_or_init(|| engine_with(Clock::Timer)).clone()
}

fn engine_with(clock: Clock) -> Result<(), Missing> {
    let recorded = || -> Result<()> {
        let bench = Bench::new(clock)?;
        let mut record = bench.record("bpf", 1000, "probe");
        let record = record.args(["--", "true"]).stdout(Stdio::null());
        succeeded(&record.output()?)
    };
    recorded().map_err(|why| {
        let clock = clock.name();
        Missing(format!(
            "needs the engine bpf with the clock {clock}: {why:#}"
        ))
    })
}

/// A folder of its own, and the programs.
#[derive(Clone)]
pub(crate) struct Bench {
    folder: Rc<tempfile::TempDir>,
    pub(crate) programs: Programs,
    clock: Clock,
    /// Instructions of a window, if not as many as usual.
    window: Option<u32>,
}

impl Bench {
    pub(crate) fn new(clock: Clock) -> Result<Self> {
        Ok(Self {
            folder: Rc::new(tempfile::tempdir()?),
            programs: Programs::find()?,
            clock,
            window: None,
        })
    }

    /// The same with windows of so many instructions.
    pub(crate) fn with_window(self, instructions: u32) -> Self {
        Self {
            window: Some(instructions),
            ..self
        }
    }

    /// The same with another clock.
    pub(crate) fn at(&self, clock: Clock) -> Self {
        Self {
            clock,
            ..self.clone()
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a fixture.
    pub(crate) fn compile(&self, source: &str, name: &str, options: &[&str]) -> Result<PathBuf> {
        let program = self.path(name);
        let output = Command::new("gcc")
            .args(["-O2", "-g", "-pthread"])
            .arg("-o")
            .arg(&program)
            .arg(root().join("tests/fixtures/bpf").join(source))
            .args(options)
            .output()?;
        succeeded(&output)?;
        // As the kernel names the file.
        Ok(program.canonicalize()?)
    }

    /// `vcpid record`, into the database of this name.
    pub(crate) fn record(&self, engine: &str, rate: u32, database: &str) -> Command {
        let mut command = Command::new(&self.programs.vcpid);
        command
            .args(["record", "--clock", self.clock.name()])
            .args(["--engine", engine])
            .args(["--rate", &rate.to_string(), "-o"])
            .arg(self.path(database))
            .stdin(Stdio::null());
        if let Some(window) = self.window {
            command.args(["--window", &window.to_string()]);
        }
        command
    }

    /// Records a fixture with the engine `bpf`; returns what it printed.
    pub(crate) fn watch(
        &self,
        program: &Path,
        arguments: &[&str],
        database: &str,
    ) -> Result<String> {
        self.watch_with("bpf", program, arguments, database)
    }

    /// The same with another engine.
    pub(crate) fn watch_with(
        &self,
        engine: &str,
        program: &Path,
        arguments: &[&str],
        database: &str,
    ) -> Result<String> {
        let output = self
            .record(engine, RATE, database)
            .args([
                "--flush",
                "1",
                "--capture",
                "dest,load,ret,args,target",
                "--",
            ])
            .arg(program)
            .args(arguments)
            .output()?;
        succeeded(&output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn open(&self, database: &str) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let rows = Rows::of(&self.path(database))?;
        let connection = Connection::open_with_flags(rows.path(), flags)?;
        // The file goes when the rows do, and stays with whoever has it open.
        connection.execute_batch("SELECT 1 FROM epoch")?;
        Ok(connection)
    }
}

/// The single value that a query yields.
pub(crate) fn query<T: FromSql>(database: &Connection, sql: &str) -> Result<T> {
    Ok(database.query_row(sql, [], |row| row.get(0))?)
}

/// The sum of a counter over the whole recording.
pub(crate) fn counter(database: &Connection, kind: &str, name: &str) -> Result<i64> {
    let sql = "SELECT coalesce(sum(value), 0) FROM counter WHERE kind = ? AND name = ?";
    Ok(database.query_row(sql, [kind, name], |row| row.get(0))?)
}

/// Turns a failed run into an error with what the program said.
pub(crate) fn succeeded(output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("{}: {}", output.status, said.trim_end())
}

/// Samples that a test takes: this many, or what the environment asks for.
pub(crate) fn samples(usual: u32) -> Result<u32> {
    let asked = variable(SAMPLES)?;
    Ok(asked.unwrap_or(usual))
}

/// Processor time in which so many samples are taken, for a fixture's command line.
pub(crate) fn seconds(samples: u32) -> String {
    (f64::from(samples) / f64::from(RATE)).to_string()
}

/// Seconds that a fixture is to run while results are seen one by one, for its command line.
pub(crate) fn lasting(usual: u32) -> Result<String> {
    let asked: Option<u32> = variable(SECONDS)?;
    Ok(asked.unwrap_or(usual).to_string())
}

/// The share in percent; 0 of nothing.
pub(crate) fn percent(part: i64, whole: i64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
