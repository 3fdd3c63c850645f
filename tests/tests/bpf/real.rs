//! Programs that were not made for the test: how much is known of them, by either engine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use rusqlite::Connection;
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, counter, cpu_clock, percent, succeeded};

/// Samples per second of processor time.
const RATE: u32 = 10_000;
/// Bytes that are compressed.
const PACKED: usize = 3 << 20;
/// User samples whose call site must be known, in percent.
const CALLERS: f64 = 95.0;

/// A program and its arguments; the files that it reads are in the bench's folder.
pub(crate) struct Real {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
}

/// A second of processor time each on a fast machine; the compiler three, of which more is run
/// once.
pub(crate) fn all(bench: &Bench) -> Result<Vec<Real>> {
    let source = bench.path("source.c");
    fs::write(&source, c_source())?;
    // A program is not too easy to compress.
    let text = bench.path("text");
    let program = fs::read(&bench.programs.vcpid)?;
    fs::write(&text, &program[..program.len().min(PACKED)])?;
    let (source, text) = (source.display().to_string(), text.display().to_string());
    // Numbers as keys: the hashes of texts differ from run to run, and with them the time.
    let python = "words = {}\n\
                  for i in range(4000000):\n    key = i * 7919 % 5003\n    \
                  words[key] = words.get(key, 0) + len(str(key))\n\
                  print(sum(sorted(words.values(), key=lambda n: -n)[:9]))";
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2400000) \
               SELECT i * 7919 % 5003 AS k, count(*), sum(i) FROM n GROUP BY k ORDER BY 3 DESC LIMIT 3";
    // What comes first on the path may be a script that looks for the program.
    let system = "/usr/bin/python3";
    let python3 = if Path::new(system).exists() {
        system
    } else {
        "python3"
    };
    let real = |name, command: &[&str]| Real {
        name,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
    };
    Ok(vec![
        real("python3", &[python3, "-c", python]),
        real("xz", &["xz", "-6", "--threads=1", "--stdout", &text]),
        real("sqlite3", &["sqlite3", ":memory:", sql]),
        real("cc1", &["gcc", "-O2", "-S", "-o", "/dev/null", &source]),
    ])
}

/// Functions with loops, calls and tables, each a little different.
fn c_source() -> String {
    let mut text = String::from("static unsigned table[256];\n");
    for n in 0..210 {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "unsigned f{n}(const unsigned *p, unsigned n) {{\n\
             \tunsigned sum = {n}, i;\n\
             \tfor (i = 0; i < n; i++) {{\n\
             \t\tif (p[i] % {m} == 3) sum += table[p[i] & 255] * {n};\n\
             \t\telse if (p[i] > sum) table[i & 255] ^= sum << ({n} & 7);\n\
             \t\tswitch (p[i] & 7) {{ case 1: sum++; break; case 2: sum *= 3; break; case 5: sum ^= i; }}\n\
             \t}}\n\treturn sum;\n}}\n",
            m = n + 4
        );
    }
    text
}

/// How much of a recording is known.
struct Known {
    samples: i64,
    destinations: f64,
    loads: f64,
    callers: f64,
}

impl Known {
    fn of(database: &Connection) -> Result<Self> {
        let share = |part: &str, whole: &str| -> Result<f64> {
            let part = counter(database, "coverage", part)?;
            Ok(percent(part, counter(database, "coverage", whole)?))
        };
        Ok(Self {
            samples: counter(database, "run", "user_samples")?,
            destinations: share("destinations_known", "destinations_reached")?,
            loads: share("loads_captured", "loads_reached")?,
            callers: share("user_samples_with_caller", "user_samples")?,
        })
    }
}

pub(crate) const PROGRAMS: Test = test(
    "real programs: more is known than by the engine ring",
    programs,
    &[as_root, gcc, cpu_clock],
);
/// The share of known destinations is higher with the memory of the moment than without, in every
/// program, and nearly every user sample has its call site.
fn programs(bench: &Bench) -> Result<()> {
    println!("program   engine  user samples  destinations known  loads captured  callers known");
    let mut failures = Vec::new();
    for real in all(bench)? {
        let mut known = Vec::new();
        for engine in ["ring", "bpf"] {
            let database = format!("{}-{engine}.db", real.name);
            let mut record = bench.record(engine, RATE, &database);
            succeeded(&record.arg("--").args(&real.command).output()?)?;
            let of = Known::of(&bench.open(&database)?)?;
            println!(
                "{:8}  {engine:6}  {:12}  {:16.1} %  {:12.1} %  {:11.1} %",
                real.name, of.samples, of.destinations, of.loads, of.callers
            );
            known.push(of);
        }
        let [ring, bpf] = &known[..] else { continue };
        if bpf.destinations <= ring.destinations {
            failures.push(format!(
                "{}: no more is known by bpf than by ring",
                real.name
            ));
        }
        if bpf.callers < CALLERS {
            failures.push(format!("{}: callers of {:.1} %", real.name, bpf.callers));
        }
    }
    ensure!(failures.is_empty(), failures.join("; "));
    Ok(())
}
