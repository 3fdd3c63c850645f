//! What is true of the values of an instruction, and whether a database agrees.
//!
//! The fixtures say it themselves: `fixtures/bpf/checks.h` explains how.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol};
use rusqlite::Connection;

/// What is demanded of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exact(u64),
    Tagged,
    TaggedOrZero,
    Tagged32,
    Tagged16,
}

impl Kind {
    fn new(number: u64, operand: u64) -> Option<Self> {
        Some(match number {
            0 | RETURNS => Self::Exact(operand),
            1 => Self::Tagged,
            2 => Self::TaggedOrZero,
            3 => Self::Tagged32,
            4 => Self::Tagged16,
            _ => return None,
        })
    }

    fn allows(self, value: u64) -> bool {
        // The upper half of so many bits is the complement of the lower half.
        let tagged = |bits: u32| {
            let half = bits / 2;
            let mask = (1 << half) - 1;
            value.checked_shr(bits).unwrap_or(0) == 0 && value >> half == !value & mask
        };
        match self {
            Self::Exact(operand) => value == operand,
            Self::Tagged => tagged(64),
            Self::TaggedOrZero => value == 0 || tagged(64),
            Self::Tagged32 => tagged(32),
            Self::Tagged16 => tagged(16),
        }
    }
}

/// The kind that is about what a function returns.
const RETURNS: u64 = 5;

/// What is demanded of the values at some addresses of an image.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    addresses: Range<u64>,
    kind: Kind,
    /// About the values that the functions there return; else about results.
    returns: bool,
    pub(crate) name: String,
}

impl Check {
    fn new(address: u64, size: u64, kind: u64, operand: u64, name: &str) -> Result<Self> {
        Ok(Self {
            addresses: address..address + size,
            kind: Kind::new(kind, operand).context("a check of an unknown kind")?,
            returns: kind == RETURNS,
            name: name.to_owned(),
        })
    }
}

/// The checks that a program or shared object brings.
pub(crate) fn of_image(path: &Path) -> Result<Vec<Check>> {
    let bytes = fs::read(path)?;
    let elf = object::File::parse(bytes.as_slice())?;
    let section = elf
        .section_by_name(".checks")
        .context("no section .checks")?;
    let mut rest = section.data()?;
    let mut checks = Vec::new();
    while let Some((head, text)) = rest.split_first_chunk::<24>() {
        let word = |at: usize| head[at..at + 8].iter().rev();
        let word = |at| word(at).fold(0, |word, byte| word << 8 | u64::from(*byte));
        let end = text.iter().position(|byte| *byte == 0);
        let end = end.context("a name without end")?;
        let mut symbols = elf.symbols();
        let function = symbols.find(|symbol| symbol.address() == word(0) && word(8) == RETURNS);
        let size = function.map_or(1, |function| function.size().max(1));
        let name = String::from_utf8_lossy(&text[..end]);
        checks.push(Check::new(word(0), size, word(8), word(16), &name)?);
        let length = (24 + end + 1).next_multiple_of(8);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(checks)
}

/// The checks that a program prints: in each line address, kind, operand and name.
pub(crate) fn printed(text: &str) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().context("a line with too few words");
        let address = word()?.trim_start_matches("0x");
        let address = u64::from_str_radix(address, 16)?;
        checks.push(Check::new(
            address,
            1,
            word()?.parse()?,
            word()?.parse()?,
            word()?,
        )?);
    }
    Ok(checks)
}

/// Where the checked instructions are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CodeIn<'a> {
    /// In the image of this file.
    File(&'a Path),
    /// In memory of no file.
    Anonymous,
}

/// What is of executions is kept apart, by this prefix of its parameter.
const OF_EXECUTIONS: &str = "x:";

/// What was found in a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Events whose value was checked. (Estimates where a profile has evicted values.)
    pub(crate) values: f64,
    /// A line for each check.
    lines: Vec<String>,
    wrong: Vec<String>,
    /// Of each check how often it was reached by the base of time, and how often the value was
    /// unknown.
    counts: Vec<(String, i64, i64)>,
    /// Checks about which there is no value.
    pub(crate) unseen: Vec<String>,
    /// Times that windows came by, and those without a value.
    pub(crate) passed: (i64, i64),
    /// The part of values that are known, by the name of the check.
    pub(crate) known: BTreeMap<String, f64>,
}

impl Verdict {
    /// How often a check of that name was reached by the base of time, and how often its value was
    /// unknown.
    pub(crate) fn counts(&self, name: &str) -> (i64, i64) {
        let of_name = self.counts.iter().filter(|(check, ..)| check == name);
        of_name.fold((0, 0), |(reached, unknown), (_, more, less)| {
            (reached + more, unknown + less)
        })
    }

    /// Prints what was checked; fails if anything was wrong, or there was little to check.
    pub(crate) fn settle(&self, title: &str, least: f64) -> Result<()> {
        println!("{title}: {:.0} values checked", self.values);
        for line in &self.lines {
            println!("    {line}");
        }
        if !self.wrong().is_empty() {
            bail!("wrong values: {}", self.wrong().join("; "));
        }
        if self.values < least {
            bail!("only {:.0} values to check", self.values);
        }
        Ok(())
    }

    /// What was wrong, a line for each value.
    pub(crate) fn wrong(&self) -> &[String] {
        &self.wrong
    }
}

/// Holds all profiles of the checked instructions to what is true of them.
pub(crate) fn judge(
    database: &Connection,
    place: CodeIn<'_>,
    checks: &[Check],
    verdict: &mut Verdict,
) -> Result<()> {
    for check in checks {
        let mut seen = Seen::default();
        for profile in profiles(database, place, check)? {
            seen.reached += profile.reached;
            seen.unknown += profile.unknown;
            if !profile.parameter.starts_with(OF_EXECUTIONS) {
                seen.by_time.0 += profile.reached;
                seen.by_time.1 += profile.unknown;
            }
            judge_profile(database, check, &profile, &mut seen)?;
        }
        verdict.values += seen.values;
        verdict.passed.0 += seen.reached;
        verdict.passed.1 += seen.unknown;
        verdict.lines.push(format!(
            "{:32} reached {:7}, unknown {:6}, checked {:7.0}",
            check.name, seen.reached, seen.unknown, seen.values
        ));
        let known = 1.0 - seen.unknown as f64 / (seen.reached as f64).max(1.0);
        verdict.known.insert(check.name.clone(), known);
        verdict.wrong.append(&mut seen.wrong);
        let name = check.name.clone();
        verdict.counts.push((name, seen.by_time.0, seen.by_time.1));
        if seen.values == 0.0 {
            verdict.unseen.push(check.name.clone());
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Seen {
    reached: i64,
    unknown: i64,
    by_time: (i64, i64),
    values: f64,
    wrong: Vec<String>,
}

/// A value profile of the database.
#[derive(Debug)]
struct StoredProfile {
    id: i64,
    parameter: String,
    reached: i64,
    unknown: i64,
    p: f64,
}

/// The profiles that a check is about: of registers written and memory loaded, or of returns.
fn profiles(database: &Connection, place: CodeIn<'_>, check: &Check) -> Result<Vec<StoredProfile>> {
    let mut statement = database.prepare(
        "SELECT hotlist.id, parameter, reached, unknown, p FROM hotlist \
         JOIN pc ON pc.id = hotlist.pc JOIN image ON image.id = pc.image \
         WHERE address >= ?1 AND address < ?2 AND CASE WHEN ?3 IS NULL THEN kind = 'anon' ELSE path = ?3 END",
    )?;
    let path = match place {
        CodeIn::File(path) => Some(path.display().to_string()),
        CodeIn::Anonymous => None,
    };
    let Range { start, end } = check.addresses;
    let rows = statement.query_map((start.cast_signed(), end.cast_signed(), path), |row| {
        Ok(StoredProfile {
            id: row.get(0)?,
            parameter: row.get(1)?,
            reached: row.get(2)?,
            unknown: row.get(3)?,
            p: row.get(4)?,
        })
    })?;
    let mut profiles = Vec::new();
    for profile in rows {
        let profile = profile?;
        let parameter = profile.parameter.as_str();
        let parameter = parameter.strip_prefix(OF_EXECUTIONS).unwrap_or(parameter);
        let of_return = parameter == "ret";
        let of_address = ["ea", "base", "taken", "target"].contains(&parameter);
        let argument = parameter.starts_with("arg");
        if check.returns == of_return && !of_address && !argument {
            profiles.push(profile);
        }
    }
    Ok(profiles)
}

fn judge_profile(
    database: &Connection,
    check: &Check,
    profile: &StoredProfile,
    seen: &mut Seen,
) -> Result<()> {
    let mut statement =
        database.prepare_cached("SELECT value, counted, certain FROM tuple WHERE hotlist = ?")?;
    let mut tuples = statement.query([profile.id])?;
    while let Some(tuple) = tuples.next()? {
        let value = tuple.get::<_, i64>(0)?.cast_unsigned();
        let events = tuple.get::<_, f64>(1)? / profile.p + tuple.get::<_, f64>(2)?;
        seen.values += events;
        if !check.kind.allows(value) {
            seen.wrong.push(format!(
                "{} ({} at {:#x}): {value:#x}, {events:.0} times",
                check.name, profile.parameter, check.addresses.start
            ));
        }
    }
    Ok(())
}
