//! What a recording holds, asked of its tables: databases of other versions have the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use vcpi_tests::rows::Rows;

/// Counters of a recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// Counters by kind and name.
    counters: BTreeMap<(String, String), f64>,
    /// Calls of which an argument was known, the first of a window at each site.
    pub(super) calls: f64,
}

/// For each callee and call site that of its arguments which was known most often.
const CALLS: &str = "SELECT 'calls', 'known', coalesce(sum(k), 0) FROM (SELECT max(k) AS k FROM \
    (SELECT process, pc, caller, parameter, sum(reached - unknown) AS k FROM hotlist \
    WHERE parameter IN ('arg0', 'arg1', 'arg2', 'arg3', 'arg4', 'arg5') \
    GROUP BY process, pc, caller, parameter) GROUP BY process, pc, caller)";
const COUNTERS: &str = "SELECT kind, name, sum(value) FROM counter GROUP BY kind, name";

impl Counts {
    /// Reads a database.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(database: &Path) -> Result<Self> {
        let mut counts = Self::default();
        for row in rows(database, &format!("{COUNTERS} UNION ALL {CALLS}"))? {
            let [kind, name, value] = row.as_slice() else {
                bail!("the database answers something else than was asked");
            };
            let value: f64 = value.parse().context("a counter")?;
            if kind == "calls" {
                counts.calls = value;
            } else {
                let key = (kind.clone(), name.clone());
                counts.counters.insert(key, value);
            }
        }
        Ok(counts)
    }

    /// A counter; zero if it is not there.
    pub(super) fn get(&self, kind: &str, name: &str) -> f64 {
        let key = (kind.to_owned(), name.to_owned());
        self.counters.get(&key).copied().unwrap_or_default()
    }

    /// All counters of a kind, the largest first.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<(&str, f64)> {
        let of_kind = self.counters.iter().filter(|((of, _), _)| of == kind);
        let mut all: Vec<_> = of_kind.map(|((_, name), n)| (name.as_str(), *n)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    /// The sum of a kind.
    pub(super) fn sum(&self, kind: &str) -> f64 {
        self.of_kind(kind).iter().map(|(_, n)| n).sum()
    }
}

/// The rows of an answer, as text.
///
/// # Errors
/// If the database cannot be read.
pub(super) fn rows(database: &Path, query: &str) -> Result<Vec<Vec<String>>> {
    let unpacked = Rows::of(database)?;
    let output = Command::new("sqlite3")
        .args(["-readonly", "-separator", "\t"])
        .arg(unpacked.path())
        .arg(query)
        .stdin(Stdio::null())
        .output()
        .context("running sqlite3")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", database.display(), said.trim_end());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().map(cells).collect())
}
