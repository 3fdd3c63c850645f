//! The clock `timer` next to the software clock, on a program of which it is known where its time
//! goes.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use object::{Object, ObjectSymbol};
use rusqlite::Connection;
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Clock, Test, percent, samples, seconds, timer};

/// Samples of each clock in an ordinary run, over all rounds.
const SAMPLES: u32 = 20_000;
/// Recordings by each clock, in turn with the other's.
const ROUNDS: u32 = 2;
/// The fixture's functions, with the true proportion of their times.
const PARTS: [(&str, f64); 3] = [("one_part", 1.0), ("two_parts", 2.0), ("five_parts", 5.0)];
/// How far shares may be from the true ones or from one another, in percent of the whole, beyond
/// what chance makes of them.
const APART: f64 = 2.0;
/// How far the kernel's shares may be apart: how long system calls take next to the program's own
/// work changes with what else the machine does from one run to the other.
const KERNEL_APART: f64 = 8.0;
/// How far the distributions over all instructions may be apart, likewise, beyond what two
/// recordings by one clock are apart: which instructions of a loop a processor waits at changes
/// with what its other thread does.
const INSTRUCTIONS_APART: f64 = 5.0;

/// Samples by where they were taken.
#[derive(Default)]
struct Taken {
    user: HashMap<u64, i64>,
    kernel: i64,
    /// Of the kernel, at no known PC.
    nowhere: i64,
}

impl Taken {
    fn new(bench: &Bench, program: &Path, clock: Clock, round: u32) -> Result<Self> {
        let database = format!("{}-{round}.db", clock.name());
        let time = seconds(samples(SAMPLES)? / ROUNDS);
        bench.at(clock).watch(program, &[&time], &database)?;
        let database = bench.open(&database)?;
        let of_kernel = |condition: &str| -> Result<i64> {
            let sql = format!(
                "SELECT coalesce(sum(samples), 0) FROM cycles \
                 JOIN subject ON subject.id = cycles.subject JOIN pc ON pc.id = cycles.pc \
                 JOIN image ON image.id = pc.image WHERE subject.kernel {condition}"
            );
            Ok(database.query_row(&sql, [], |row| row.get(0))?)
        };
        Ok(Self {
            user: user_samples(&database, program)?,
            kernel: of_kernel("")?,
            nowhere: of_kernel("AND image.kind != 'kernel'")?,
        })
    }

    /// Those of several recordings.
    fn sum(rounds: &[Self]) -> Self {
        let mut sum = Self::default();
        for round in rounds {
            for (pc, samples) in &round.user {
                *sum.user.entry(*pc).or_default() += samples;
            }
            sum.kernel += round.kernel;
            sum.nowhere += round.nowhere;
        }
        sum
    }

    fn of(&self, code: &Range<u64>) -> i64 {
        let inside = self.user.iter().filter(|(pc, _)| code.contains(pc));
        inside.map(|(_, samples)| samples).sum()
    }

    fn all(&self) -> i64 {
        self.user.values().sum::<i64>() + self.kernel
    }
}

/// Samples at each PC of the program itself.
fn user_samples(database: &Connection, program: &Path) -> Result<HashMap<u64, i64>> {
    let mut statement = database.prepare(
        "SELECT address, sum(samples) FROM cycles JOIN pc ON pc.id = cycles.pc \
         JOIN image ON image.id = pc.image WHERE path = ? GROUP BY 1",
    )?;
    let path = program.display().to_string();
    let rows = statement.query_map([path], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Where a function of the program lies.
fn code_of(program: &Path, name: &str) -> Result<Range<u64>> {
    let bytes = fs::read(program)?;
    let elf = object::File::parse(bytes.as_slice())?;
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name));
    let symbol = symbol.with_context(|| format!("no {name}"))?;
    Ok(symbol.address()..symbol.address() + symbol.size())
}

/// What chance makes of a share of so many samples, at most, in percent: five standard deviations.
fn chance(share: f64, samples: i64) -> f64 {
    500.0 * (share * (1.0 - share) / samples.max(1) as f64).sqrt()
}

pub(crate) const AGREE: Test = test(
    "both clocks see the same, and what is true",
    agree,
    &[as_root, gcc, timer],
);
/// By either clock each function has its true share, the kernel has about the same by both, and
/// within the functions the samples fall on the same instructions.
fn agree(bench: &Bench) -> Result<()> {
    let program = bench.compile("clocks.c", "clocks", &[])?;
    let mut failures = Vec::new();
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (taken, clock) in rounds.iter_mut().zip([Clock::CpuClock, Clock::Timer]) {
            taken.push(Taken::new(bench, &program, clock, round)?);
        }
    }
    let [by_clock, by_timer] = [&rounds[0], &rounds[1]].map(|rounds| Taken::sum(rounds));
    let whole: f64 = PARTS.iter().map(|(_, part)| part).sum();
    for (name, taken) in [("cpu-clock", &by_clock), ("timer", &by_timer)] {
        let mut counts = Vec::new();
        for (part, _) in PARTS {
            counts.push(taken.of(&code_of(&program, part)?));
        }
        let total = counts.iter().sum();
        for ((part, truth), count) in PARTS.into_iter().zip(counts) {
            let (truth, found) = (truth / whole, percent(count, total));
            println!(
                "{name:9} {part:10} {found:5.1} %, in truth {:5.1} %",
                100.0 * truth
            );
            if (found - 100.0 * truth).abs() > APART + chance(truth, total) {
                failures.push(format!("{part} has {found:.1} % by {name}"));
            }
        }
        let kernel = percent(taken.kernel, taken.all());
        let nowhere = percent(taken.nowhere, taken.all());
        println!("{name:9} kernel     {kernel:5.1} %, of it at no known PC {nowhere:.2} %");
    }
    let shares = [&by_clock, &by_timer].map(|taken| percent(taken.kernel, taken.all()));
    let fewer = by_clock.all().min(by_timer.all());
    if (shares[0] - shares[1]).abs() > KERNEL_APART + 2.0 * chance(shares[0] / 100.0, fewer) {
        failures.push(format!("the kernel has {shares:.1?} %"));
    }
    let of_one = rounds.map(|rounds| apart(&rounds[0].user, &rounds[1].user));
    let apart = apart(&by_clock.user, &by_timer.user);
    println!(
        "instructions: {apart:.1} % apart beyond chance; by one clock {:.1} and {:.1} %",
        of_one[0], of_one[1]
    );
    if apart > INSTRUCTIONS_APART + of_one[0].max(of_one[1]).max(0.0) {
        failures.push(format!("instructions are {apart:.1} % apart"));
    }
    ensure!(failures.is_empty(), failures.join("; "));
    Ok(())
}

/// By how many percent two distributions are apart (half the sum of all differences), less what is
/// expected of two samplings of one distribution.
fn apart(ours: &HashMap<u64, i64>, theirs: &HashMap<u64, i64>) -> f64 {
    let (n, m) = (ours.values().sum::<i64>(), theirs.values().sum::<i64>());
    let mut places: Vec<u64> = ours.keys().chain(theirs.keys()).copied().collect();
    places.sort_unstable();
    places.dedup();
    let count = |of: &HashMap<u64, i64>, place| of.get(place).copied().unwrap_or(0);
    let mut apart = 0.0;
    for place in &places {
        let (our, their) = (count(ours, place), count(theirs, place));
        let both = percent(our + their, n + m) / 100.0;
        let variance = both * (1.0 - both) * (1.0 / n as f64 + 1.0 / m as f64);
        let chance = 100.0 * (variance * std::f64::consts::FRAC_2_PI).sqrt();
        apart += ((percent(our, n) - percent(their, m)).abs() - chance) / 2.0;
    }
    apart
}
