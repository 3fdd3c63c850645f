//! A database against the traces of the processes that it is about.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OpenFlags};

use crate::trace::Trace;
use vcpi_tests::rows::Rows;

/// Values of one instruction that are shown with a finding, at most.
const SHOWN: usize = 4;

/// Something in a database that never was.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) text: String,
}

/// What came of the comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Events whose value was compared.
    pub(crate) values: f64,
    /// Times that windows came by, and those without a value.
    pub(crate) reached: i64,
    pub(crate) unknown: i64,
    /// Profiles that have evicted values.
    pub(crate) thinned: u64,
    /// Profiles whose parameter a trace does not tell.
    pub(crate) untold: u64,
    pub(crate) findings: Vec<Finding>,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.reached += other.reached;
        self.unknown += other.unknown;
        self.thinned += other.thinned;
        self.untold += other.untold;
        self.findings.extend_from_slice(&other.findings);
    }

    pub(crate) fn known(&self) -> f64 {
        100.0 - 100.0 * self.unknown as f64 / self.reached.max(1) as f64
    }
}

/// A value profile of the database.
struct StoredProfile {
    id: i64,
    pid: u32,
    address: u64,
    parameter: String,
    reached: i64,
    unknown: i64,
    p: f64,
}

/// A comparison.
pub(crate) struct Judge<'a> {
    pub(crate) traces: &'a HashMap<u32, Trace>,
    pub(crate) program: &'a Path,
    /// What to add to an address in an image that is not the program.
    pub(crate) copied: bool,
}

impl Judge<'_> {
    /// Holds everything about marked instructions to what can be.
    pub(crate) fn judge(&self, database: &Path) -> Result<Verdict> {
        let rows = Rows::of(database)?;
        let database = Connection::open_with_flags(rows.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut verdict = Verdict::default();
        self.profiles(&database, &mut verdict)?;
        self.branches(&database, &mut verdict)?;
        self.calls(&database, &mut verdict)?;
        Ok(verdict)
    }

    /// The address in the process, if it is of a marked instruction.
    fn marked(&self, pid: u32, kind: &str, path: &str, address: u64) -> Option<(&Trace, u64)> {
        let trace = self.traces.get(&pid)?;
        let own = Path::new(path) == self.program;
        let pc = match kind {
            "file" if own && !self.copied => address,
            // A copy in a file without a program's headers: the address is the offset.
            "file" if !own && self.copied && path.contains("memfd:hunt") => {
                trace.marked.start.wrapping_add(address)
            }
            "anon" => address,
            _ => return None,
        };
        trace.marked.contains(&pc).then_some((trace, pc))
    }

    fn profiles(&self, database: &Connection, verdict: &mut Verdict) -> Result<()> {
        let mut statement = database.prepare(
            "SELECT hotlist.id, pid, image.kind, path, address, parameter, reached, unknown, p \
             FROM hotlist JOIN pc ON pc.id = hotlist.pc JOIN image ON image.id = pc.image \
             JOIN process ON process.id = hotlist.process",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let pid = row.get(1)?;
            let (kind, path): (String, String) = (row.get(2)?, row.get(3)?);
            let address = row.get::<_, i64>(4)?.cast_unsigned();
            let Some((trace, pc)) = self.marked(pid, &kind, &path, address) else {
                continue;
            };
            let row = StoredProfile {
                id: row.get(0)?,
                pid,
                address: pc,
                parameter: without_base(row.get(5)?),
                reached: row.get(6)?,
                unknown: row.get(7)?,
                p: row.get(8)?,
            };
            Self::profile(database, trace, &row, verdict)?;
        }
        Ok(())
    }

    fn profile(
        database: &Connection,
        trace: &Trace,
        row: &StoredProfile,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let known = row.reached - row.unknown;
        let pc = row.address;
        let about = || format!("{pc:#x} `{}` {}", trace.shown(pc), row.parameter);
        let argument = row.parameter.contains("arg");
        let of_address = matches!(row.parameter.as_str(), "ea" | "base");
        let met = trace.met.contains_key(&pc);
        if !(trace.completed(pc) || met && of_address) {
            // An instruction that is met may fault: then it is reached and results in nothing.
            if known > 0 || !met {
                verdict.findings.push(Finding {
                    text: format!(
                        "{}: never executed, {} times reached, {known} with a value",
                        about(),
                        row.reached
                    ),
                });
            }
            return Ok(());
        }
        let Some(possible) = trace.possible(pc, &row.parameter) else {
            verdict.untold += 1;
            return Ok(());
        };
        if !argument {
            verdict.reached += row.reached;
            verdict.unknown += row.unknown;
        }
        if row.p < 1.0 {
            verdict.thinned += 1;
        }
        let mut statement = database
            .prepare_cached("SELECT value, counted, certain FROM tuple WHERE hotlist = ?")?;
        let mut tuples = statement.query([row.id])?;
        let (mut wrong, mut times) = (Vec::new(), 0.0);
        while let Some(tuple) = tuples.next()? {
            let value = tuple.get::<_, i64>(0)?.cast_unsigned();
            let events = tuple.get::<_, f64>(1)? / row.p + tuple.get::<_, f64>(2)?;
            verdict.values += events;
            if !possible.contains(&value) {
                times += events;
                wrong.push(format!("{value:#x}"));
            }
        }
        if !wrong.is_empty() {
            wrong.truncate(SHOWN);
            let can: Vec<String> = possible
                .iter()
                .take(SHOWN)
                .map(|v| format!("{v:#x}"))
                .collect();
            verdict.findings.push(Finding {
                text: format!(
                    "{}: {times:.0} of {known} values are impossible (pid {}): {}; possible: {}{}",
                    about(),
                    row.pid,
                    wrong.join(" "),
                    can.join(" "),
                    if possible.len() > SHOWN { " ..." } else { "" }
                ),
            });
        }
        Ok(())
    }

    fn branches(&self, database: &Connection, verdict: &mut Verdict) -> Result<()> {
        let mut statement = database.prepare(
            "SELECT pid, image.kind, path, address, taken, not_taken FROM branch \
             JOIN pc ON pc.id = branch.pc JOIN image ON image.id = pc.image \
             JOIN process ON process.id = branch.process",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, path): (String, String) = (row.get(1)?, row.get(2)?);
            let address = row.get::<_, i64>(3)?.cast_unsigned();
            let Some((trace, pc)) = self.marked(row.get(0)?, &kind, &path, address) else {
                continue;
            };
            let (taken, not_taken): (i64, i64) = (row.get(4)?, row.get(5)?);
            let (can_be, can_be_not) = trace.directions(pc);
            verdict.values += (taken + not_taken) as f64;
            for (count, possible, name) in [
                (taken, can_be, "taken"),
                (not_taken, can_be_not, "not taken"),
            ] {
                if count > 0 && !possible {
                    verdict.findings.push(Finding {
                        text: format!("{pc:#x} `{}`: {count} times {name}", trace.shown(pc)),
                    });
                }
            }
        }
        Ok(())
    }

    fn calls(&self, database: &Connection, verdict: &mut Verdict) -> Result<()> {
        let mut statement = database.prepare(
            "SELECT pid, i.kind, i.path, s.address, j.kind, j.path, c.address, calls FROM call \
             JOIN pc AS s ON s.id = call.site JOIN image AS i ON i.id = s.image \
             JOIN pc AS c ON c.id = call.callee JOIN image AS j ON j.id = c.image \
             JOIN process ON process.id = call.process",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let pid = row.get(0)?;
            let (kind, path): (String, String) = (row.get(1)?, row.get(2)?);
            let address = row.get::<_, i64>(3)?.cast_unsigned();
            let Some((trace, pc)) = self.marked(pid, &kind, &path, address) else {
                continue;
            };
            let (kind, path): (String, String) = (row.get(4)?, row.get(5)?);
            let address = row.get::<_, i64>(6)?.cast_unsigned();
            let Some((_, callee)) = self.marked(pid, &kind, &path, address) else {
                continue;
            };
            verdict.values += row.get::<_, f64>(7)?;
            if !trace.targets(pc).contains(&callee) {
                verdict.findings.push(Finding {
                    text: format!("{pc:#x} `{}` calls {callee:#x}", trace.shown(pc)),
                });
            }
        }
        Ok(())
    }
}

/// A parameter without the prefix that tells events of executions from those of time.
fn without_base(parameter: String) -> String {
    match parameter.strip_prefix("x:") {
        Some(rest) => rest.to_owned(),
        None => parameter,
    }
}
