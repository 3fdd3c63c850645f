//! What the tests share: a folder of their own, and the programs on it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use vcpi_tests::harness::text;
use vcpi_tests::programs::Programs;
use vcpi_tests::rows::Rows;

/// Lines that burn about this much processor time in a shell-free way.
pub(crate) const BURN: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// A folder of its own, and the programs.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) programs: Programs,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let programs = Programs::find()?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            programs,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A recording into this database; what it is about is sampled a thousand times a second,
    /// however dear that is here, unless it is said otherwise.
    pub(crate) fn record(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.vcpid);
        command.args(["record", "--clock", "cpu-clock", "-o"]);
        command.arg(self.path("db"));
        if !args.contains(&"--rate") && !args.contains(&"--period") {
            command.args(["--rate", "1000"]);
        }
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn status(&self) -> Result<Value> {
        self.programs.report(&self.path("db"), &["status"])
    }

    pub(crate) fn query<T: rusqlite::types::FromSql>(&self, sql: &str) -> Result<T> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let rows = Rows::of(&self.path("db"))?;
        let connection = Connection::open_with_flags(rows.path(), flags)?;
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Compiles a C program.
    pub(crate) fn compile(&self, name: &str, source: &str) -> Result<PathBuf> {
        let (code, program) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&code, source)?;
        let output = Command::new("gcc")
            .args(["-O1", "-g", "-o"])
            .arg(&program)
            .arg(&code)
            .output()?;
        ensure!(output.status.success(), text(&output));
        Ok(program)
    }
}
