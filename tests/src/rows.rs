//! A database as a row for each count and value, to be asked with SQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};

use crate::programs::Programs;

/// The rows of a database, in a file of their own. It goes with this; who has it open keeps it.
pub struct Rows {
    path: PathBuf,
}

impl Rows {
    /// Those of a database, which may be being written to.
    ///
    /// # Errors
    /// It cannot be read, or `vcpi` is not built.
    pub fn of(database: &Path) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vcpi-rows-{}-{number}.db", process::id());
        let rows = Self {
            path: std::env::temp_dir().join(name),
        };
        let output = Command::new(&Programs::find()?.vcpi)
            .args(["convert", "--unpack"])
            .arg(database)
            .arg("-o")
            .arg(&rows.path)
            .stdin(Stdio::null())
            .output()
            .context("running vcpi convert")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}", database.display(), said.trim());
        }
        Ok(rows)
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // A file that stays in the folder for such files does no harm.
        let _ = fs::remove_file(&self.path);
    }
}
