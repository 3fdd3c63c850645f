//! The extension for `sqlite3`: its tables tell what reports tell of the same database.
//!
//! Needs the release builds of the programs and of the extension, and the program `sqlite3`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use hotlist::{Config, Estimates, Generator, Hotlist};
use libtest_mimic::Arguments;
use profiledb::{Epoch, Image, ImageKind, NewHotlist, Process, StackEnd, Subject, Writer};
use rusqlite::Connection;
use serde_json::Value;
use vcpi_tests::harness::{Test, run, test, text};
use vcpi_tests::needs::{Missing, program};
use vcpi_tests::programs::{Programs, extension};
use vcpi_tests::rows::Rows;

fn main() -> ExitCode {
    let tests = [
        LIST_TELLS,
        UNPACKED_TELLS,
        CONDITIONS,
        STACKS,
        ATTACHED,
        DAMAGED,
        FOREIGN,
        RECURSION,
        DANGLING,
    ];
    run(&Arguments::from_args(), tests).exit_code()
}

/// 2026-05-01 12:00 UTC, in nanoseconds.
const START: i64 = 1_777_636_800_000_000_000;
const MINUTE: i64 = 60_000_000_000;
/// Where the function begins, and how many instructions it has.
const BEGIN: u64 = 0x40_fff0;
const INSTRUCTIONS: u64 = 24;

/// The shell of SQLite.
fn sqlite3() -> Result<(), Missing> {
    let missing = |_| Missing::new("needs the program sqlite3");
    program("sqlite3", "--version").map_err(missing)
}

/// A database, and what asks it.
struct Bench {
    folder: tempfile::TempDir,
    programs: Programs,
    extension: PathBuf,
}

impl Bench {
    fn new() -> Result<Self> {
        let bench = Self {
            folder: tempfile::tempdir()?,
            programs: Programs::find()?,
            extension: extension()?,
        };
        write(&bench.database())?;
        Ok(bench)
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("some.db")
    }

    fn run(&self, database: &Path, sql: &str) -> Result<Output> {
        let mut load = self.extension.clone();
        load.set_extension("");
        let output = Command::new("sqlite3")
            .args(["-json", "-cmd"])
            .arg(format!(".load {}", load.display()))
            .arg(database)
            .arg(sql)
            .stdin(Stdio::null())
            .output()?;
        Ok(output)
    }

    /// The rows that `sqlite3` gives.
    fn ask(&self, sql: &str) -> Result<Vec<Value>> {
        let output = self.run(&self.database(), sql)?;
        ensure!(
            output.status.success() && output.stderr.is_empty(),
            "{sql}: {}",
            text(&output)
        );
        match output.stdout.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(serde_json::from_slice(&output.stdout)?),
        }
    }

    /// What it says when it fails.
    fn refusal(&self, database: &Path, sql: &str) -> Result<String> {
        let output = self.run(database, sql)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // A program that crashed has no exit code.
        ensure!(output.status.code() == Some(1), text(&output));
        Ok(said)
    }
}

/// Two flushes of a function that two buckets have a part of, in two images, for two users.
fn write(path: &Path) -> Result<()> {
    let epoch = Epoch {
        started: START,
        ended: None,
        host: "host".into(),
        kernel: "6.12.0".into(),
        command: "made up".into(),
        engine: "ring".into(),
        clock: "cpu-clock".into(),
        unit: "ns".into(),
        cycles_per_unit: 2.5,
        period: 100_000,
        window: 16,
        settings: profiledb::EpochSettings::default(),
    };
    let mut writer = Writer::create_epoch(path, &epoch)?;
    let mut coins = Generator::new(5);
    for number in 0..2 {
        let started = START + number * MINUTE;
        flush(&mut writer, started, &mut coins)?;
    }
    writer.end_epoch(START + 2 * MINUTE)?;
    writer.close()?;
    Ok(())
}

fn flush(writer: &mut Writer, started: i64, coins: &mut Generator) -> Result<()> {
    let mut flush = writer.begin(started, started + MINUTE)?;
    for (name, uid) in [("/no/such/one", 1000), ("/no/such/other", 1001)] {
        let image = flush.image(&Image {
            kind: ImageKind::File,
            path: name.into(),
            build_id: None,
            identity: name.into(),
        })?;
        flush.symbol(image, BEGIN, 4 * INSTRUCTIONS, "the_function")?;
        let process = flush.process(&Process {
            pid: uid,
            started: 7,
            execs: 0,
            comm: "made".into(),
        })?;
        let uid = Some(uid);
        let subject = flush.subject(&Subject {
            uid,
            gid: uid,
            euid: uid,
            egid: uid,
            suid: uid,
            dumpable: Some(true),
            capable: Some(false),
            kernel: false,
        })?;
        // add eax, 1
        let code: &[u8] = &[0x83, 0xc0, 1];
        let site = flush.pc(image, 0x40_0000, Some(code))?;
        for index in 0..INSTRUCTIONS {
            let pc = flush.pc(image, BEGIN + 4 * index, Some(code))?;
            let samples = 1 + coins.next_u64() % 9;
            let caller = (index % 2 == 0).then_some(site);
            flush.cycles(process, subject, pc, caller, samples, samples * 40_000)?;
            flush.branch(process, subject, pc, [samples, 2, 1])?;
            flush.call(process, subject, pc, Some(site), samples)?;
            let (frames, end) = ([pc, site], StackEnd::Whole);
            flush.stack(process, subject, &frames, end, 1, samples)?;
            for (parameter, caller) in [("rax", None), ("ea", None), ("rdx", caller)] {
                let mut list = Hotlist::new(&Config::default().precise());
                let known = coins.next_u64() % 60;
                for time in 0..known {
                    let value = coins.next_u64() % 12 * u64::from(time % 3 != 0);
                    list.update(value, started.unsigned_abs() + time, coins);
                }
                flush.hotlist(NewHotlist {
                    process,
                    subject,
                    pc,
                    caller,
                    parameter,
                    reached: (known + index) as f64,
                    unknown: index as f64,
                    windows: known,
                    even: None,
                    list: Estimates::from(&list),
                })?;
            }
        }
    }
    flush.commit()?;
    Ok(())
}

/// By image, address, parameter and value: how often.
type Tuples = BTreeMap<(String, u64, String, u64), f64>;

/// A word in hexadecimal digits.
fn word(value: &Value) -> Result<u64> {
    let text = value.as_str().unwrap_or_default();
    let digits = text.strip_prefix("0x").context("a word without 0x")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

const LIST_TELLS: Test = test("tuples are those that list tells", list_tells, &[sqlite3]);
/// Every value that `list` tells, and how often it came, is in `vcpi_values`, and none besides.
fn list_tells() -> Result<()> {
    let bench = Bench::new()?;
    let rows = bench.ask(
        "SELECT image, address, parameter, value, sum(estimate) AS events FROM vcpi_values
         GROUP BY image, address, parameter, value",
    )?;
    let mut asked = Tuples::new();
    for row in &rows {
        let numbers = [&row["address"], &row["value"]].map(Value::as_u64);
        let [Some(address), Some(value)] = numbers else {
            bail!("{row}");
        };
        let key = (
            string(&row["image"]),
            address,
            string(&row["parameter"]),
            value,
        );
        asked.insert(key, row["events"].as_f64().unwrap_or(f64::NAN));
    }
    let mut told = Tuples::new();
    let mut lists = BTreeMap::new();
    for image in ["/no/such/one", "/no/such/other"] {
        let words = ["list", "the_function", "--image", image];
        let report = bench.programs.report(&bench.database(), &words)?;
        for row in report.as_array().into_iter().flatten() {
            let address = word(&row["address"])?;
            for profile in row["profiles"].as_array().into_iter().flatten() {
                let parameter = string(&profile["parameter"]);
                let numbers = [&profile["reached"], &profile["unknown"]].map(Value::as_f64);
                lists.insert((string(&row["image"]), address, parameter.clone()), numbers);
                for value in profile["values"].as_array().into_iter().flatten() {
                    let key = (string(&row["image"]), address, parameter.clone());
                    let key = (key.0, key.1, key.2, word(&value["value"])?);
                    let events = value["estimate"].as_f64().unwrap_or(f64::NAN);
                    *told.entry(key).or_default() += events;
                }
            }
        }
    }
    ensure!(told.len() > 500, "{} values", told.len());
    ensure!(told == asked, "told {told:?}, asked {asked:?}");
    // Lists without any known value are told, too.
    let rows = bench.ask(
        "SELECT image, address, parameter, sum(reached) AS reached, sum(unknown) AS unknown
         FROM vcpi_lists GROUP BY image, address, parameter",
    )?;
    let mut asked = BTreeMap::new();
    for row in &rows {
        let address = row["address"].as_u64().unwrap_or_default();
        let numbers = [&row["reached"], &row["unknown"]].map(Value::as_f64);
        let key = (string(&row["image"]), address, string(&row["parameter"]));
        asked.insert(key, numbers);
    }
    ensure!(lists == asked, "told {lists:?}, asked {asked:?}");
    Ok(())
}

const UNPACKED_TELLS: Test = test(
    "sums are those of unpacked rows",
    unpacked_tells,
    &[sqlite3],
);
/// Counts, weights and lists add up to what `vcpi convert --unpack` writes row by row.
fn unpacked_tells() -> Result<()> {
    let bench = Bench::new()?;
    let rows = Rows::of(&bench.database())?;
    let unpacked = Connection::open(rows.path())?;
    for (packed, plain) in [
        (
            "SELECT sum(samples) + 3 * sum(weight) + 7 * count(caller) AS n FROM vcpi_cycles",
            "SELECT sum(samples) + 3 * sum(weight) + 7 * count(caller) FROM cycles",
        ),
        (
            "SELECT sum(taken) + 3 * sum(not_taken) + 7 * sum(unknown) AS n FROM vcpi_branches",
            "SELECT sum(taken) + 3 * sum(not_taken) + 7 * sum(unknown) FROM branch",
        ),
        (
            "SELECT sum(calls) + count(callee) AS n FROM vcpi_calls",
            "SELECT sum(calls) + count(callee) FROM call",
        ),
        (
            "SELECT count(*) + sum(reached) + sum(windows) AS n FROM vcpi_lists",
            "SELECT count(*) + sum(reached) + sum(windows) FROM hotlist",
        ),
        (
            "SELECT count(*) + sum(rank) + 3 * sum(value) AS n FROM vcpi_values",
            "SELECT count(*) + sum(rank) + 3 * sum(value) FROM tuple",
        ),
        (
            "SELECT count(*) + sum(length(bytes)) AS n FROM vcpi_code",
            "SELECT count(bytes) + sum(length(bytes)) FROM pc",
        ),
    ] {
        let asked = bench.ask(packed)?.pop().unwrap_or_default()["n"].as_f64();
        let expected: f64 = unpacked.query_row(plain, [], |row| row.get(0))?;
        ensure!(
            asked == Some(expected) && expected > 0.0,
            "{packed}: {asked:?}, not {expected}"
        );
    }
    Ok(())
}

const CONDITIONS: Test = test(
    "conditions leave out what they say, and no more",
    conditions,
    &[sqlite3],
);
/// What chunks are chosen by leaves the same rows as a condition that SQLite alone can check.
fn conditions() -> Result<()> {
    let bench = Bench::new()?;
    let middle = BEGIN + 4 * INSTRUCTIONS / 2;
    let end = START + MINUTE;
    for (chosen, checked) in [
        (
            format!("address >= {middle} AND address < {middle} + 16"),
            format!("+address >= {middle} AND +address < {middle} + 16"),
        ),
        (
            format!("address = {middle}"),
            format!("+address = {middle}"),
        ),
        (
            format!("address > {middle}"),
            format!("+address > {middle}"),
        ),
        (
            "image = '/no/such/one'".to_owned(),
            "+image = '/no/such/one'".to_owned(),
        ),
        (
            "image COLLATE NOCASE = '/NO/such/one'".to_owned(),
            "+image = '/no/such/one'".to_owned(),
        ),
        (
            format!("started >= {end} AND uid = 1001"),
            format!("+started >= {end} AND +uid = 1001"),
        ),
        (
            format!("uid = '1001' AND address <= {middle}"),
            format!("+uid = 1001 AND +address <= {middle}"),
        ),
        (
            "image IN (SELECT path FROM image WHERE id = 2)".to_owned(),
            "+image = (SELECT path FROM image WHERE id = 2)".to_owned(),
        ),
    ] {
        let mut found = Vec::new();
        for condition in [&chosen, &checked] {
            let sql = format!(
                "SELECT count(*) AS n, sum(estimate) AS e FROM vcpi_values WHERE {condition}"
            );
            found.push(bench.ask(&sql)?);
        }
        let count = found[0].first().and_then(|row| row["n"].as_u64());
        ensure!(
            found[0] == found[1] && count > Some(0),
            "{chosen}: {found:?}"
        );
    }
    Ok(())
}

const ATTACHED: Test = test(
    "an attached database is asked by its name",
    attached,
    &[sqlite3],
);
/// The argument of a table is the name of a database that is attached, and its own ids are told.
fn attached() -> Result<()> {
    let bench = Bench::new()?;
    let empty = bench.folder.path().join("other.db");
    let sql = format!(
        "ATTACH '{}' AS a; SELECT count(*) AS n, count(DISTINCT comm) AS c FROM vcpi_values('a')",
        bench.database().display()
    );
    let output = bench.run(&empty, &sql)?;
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let own = bench.ask("SELECT count(*) AS n, count(DISTINCT comm) AS c FROM vcpi_values")?;
    ensure!(rows == own, "{rows:?}, not {own:?}");
    let said = bench.refusal(&bench.database(), "SELECT * FROM vcpi_values('b')")?;
    ensure!(said.contains('b'), "{said}");
    Ok(())
}

const STACKS: Test = test("stacks are of samples, and have frames", stacks, &[sqlite3]);
/// Stacks of an instruction stand for no more than its samples do; each of their frames is a place
/// that JSON functions can ask for.
fn stacks() -> Result<()> {
    let bench = Bench::new()?;
    let more = bench.ask(
        "SELECT s.image, s.address, s.n, c.n FROM
             (SELECT image, address, sum(samples) AS n, sum(cycles) AS cycles
              FROM vcpi_stacks GROUP BY image, address) AS s
         LEFT JOIN
             (SELECT image, address, sum(samples) AS n, sum(cycles) AS cycles
              FROM vcpi_cycles GROUP BY image, address) AS c
         USING (image, address) WHERE c.n IS NULL OR s.n > c.n OR s.cycles > c.cycles",
    )?;
    ensure!(more.is_empty(), "{more:?}");
    let callers = bench.ask(
        "SELECT count(*) AS n, sum(frame.value ->> 1 = caller) AS calls,
                sum(depth = json_array_length(frames)) AS lengths,
                sum(ending = 'whole') AS whole, count(image.id) AS images
         FROM vcpi_stacks, json_each(frames) AS frame
         LEFT JOIN image ON image.id = frame.value ->> 0 WHERE frame.key = 1",
    )?;
    let all = callers[0]["n"].as_u64().unwrap_or_default();
    let same = ["calls", "lengths", "whole", "images"];
    let same = same
        .iter()
        .all(|name| callers[0][*name].as_u64() == Some(all));
    ensure!(all > 10 && same, "{callers:?}");
    Ok(())
}

const DAMAGED: Test = test("a damaged chunk is named", damaged, &[sqlite3]);
/// A byte that is wrong somewhere in a blob is an error that names the row, in each table.
fn damaged() -> Result<()> {
    let bench = Bench::new()?;
    let conn = Connection::open(bench.database())?;
    for (table, holder, kind) in [
        ("vcpi_values", "chunk", 2),
        ("vcpi_lists", "chunk", 3),
        ("vcpi_cycles", "chunk", 1),
        ("vcpi_branches", "chunk", 4),
        ("vcpi_calls", "chunk", 5),
        ("vcpi_stacks", "chunk", 6),
        ("vcpi_code", "code", 0),
    ] {
        let condition = match holder {
            "chunk" => format!("WHERE kind = {kind}"),
            _ => String::new(),
        };
        let sql = format!("SELECT id, data FROM {holder} {condition} ORDER BY id DESC LIMIT 1");
        let (id, data): (i64, Vec<u8>) =
            conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let update = format!("UPDATE {holder} SET data = ?1 WHERE id = ?2");
        for damage in [0, 3, data.len() / 2, data.len()] {
            let mut bad = data.clone();
            match bad.get_mut(damage) {
                Some(byte) => *byte ^= 0x55,
                None => bad.truncate(data.len() / 2),
            }
            conn.execute(&update, (bad, id))?;
            let said = bench.refusal(&bench.database(), &format!("SELECT * FROM {table}"))?;
            let name = format!("{holder} {id}: ");
            ensure!(said.contains(&name), "{table}: {said}");
        }
        conn.execute(&update, (data, id))?;
        bench.ask(&format!("SELECT count(*) FROM {table}"))?;
    }
    Ok(())
}

const FOREIGN: Test = test(
    "what is no database of ours is refused",
    foreign,
    &[sqlite3],
);
/// Databases of others, and those of a schema that has nothing packed or is not known, are refused.
fn foreign() -> Result<()> {
    let bench = Bench::new()?;
    let sql = "SELECT * FROM vcpi_values";
    let said = bench.refusal(&bench.folder.path().join("new.db"), sql)?;
    ensure!(said.contains("no vcpi database"), "{said}");
    for (version, expected) in [(3, "vcpi convert"), (99, "knows up to")] {
        let sql = format!("PRAGMA user_version = {version}; {sql}");
        let said = bench.refusal(&bench.database(), &sql)?;
        ensure!(said.contains(expected), "{said}");
    }
    Ok(())
}

const RECURSION: Test = test("a table that asks again is refused", recursion, &[sqlite3]);
/// A view in the place of a table does not let the extension ask itself without end.
fn recursion() -> Result<()> {
    let bench = Bench::new()?;
    let sql = "DROP TABLE chunk;
               CREATE VIEW chunk AS SELECT 1 AS id, 1 AS flush, 2 AS kind, 1 AS image, 0 AS bucket,
                   1 AS subject, x'00' AS data FROM vcpi_values;
               SELECT * FROM vcpi_values";
    let said = bench.refusal(&bench.database(), sql)?;
    ensure!(said.contains("asks this extension itself"), "{said}");
    Ok(())
}

const DANGLING: Test = test("a reference to nowhere is an error", dangling, &[sqlite3]);
/// A chunk of a flush that is not there, and a process that is not, are errors.
fn dangling() -> Result<()> {
    let bench = Bench::new()?;
    let said = bench.refusal(
        &bench.database(),
        "DELETE FROM process WHERE id = 1; SELECT comm FROM vcpi_values",
    )?;
    ensure!(said.contains("process 1, which is missing"), "{said}");
    let said = bench.refusal(
        &bench.database(),
        "PRAGMA foreign_keys = off; DELETE FROM flush; SELECT * FROM vcpi_values",
    )?;
    ensure!(
        said.contains("chunk ") && said.contains("missing"),
        "{said}"
    );
    Ok(())
}
