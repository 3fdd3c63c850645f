//! `cargo xtask demo`: what the profiler finds, first in a program whose values
//! are known exactly, then in a program of this machine that nobody changed.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use vcpi_tests::fixture;
use vcpi_tests::programs::{Programs, remove_database, target_dir};
use vcpi_tests::shares::{Comparison, table};

use crate::process::{progress, shown};
use crate::setup::{self, Need};
use crate::test::build;

/// Where real data is on every machine.
pub(crate) const REAL_DATA: &[&str] = &["/usr/include", "/usr/share", "/usr/lib", "/usr/bin"];
/// Bytes of real data for the real program: more than it reads in [`SECONDS`].
const DATA_BYTES: u64 = 256 << 20;
/// How long the real program is profiled.
const SECONDS: u32 = 10;
/// Samples per second for it: ten seconds are short.
const RATE: &str = "4000";
/// Columns shown of a report.
const COLUMNS: usize = 150;

/// Sets up, builds, profiles both programs, and prints the reports.
pub(crate) fn run() -> Result<()> {
    setup::run(Need::Demo)?;
    build()?;
    let programs = Programs::find()?;
    let folder = target_dir()?.join("demo");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;

    title("1. A program whose values are known exactly (tests/fixtures/shares.c)");
    let comparisons = known_values(&programs, &folder)?;
    title("2. A program of this machine, unmodified: xz, compressing real data");
    real_program(&programs, &folder)?;

    // The verdict comes last, where it is not overlooked.
    let wrong: Vec<String> = comparisons
        .iter()
        .filter_map(|comparison| comparison.verdict().err())
        .collect();
    if !wrong.is_empty() {
        bail!(
            "the fixture's shares are not as they should be:\n  {}",
            wrong.join("\n  ")
        );
    }
    println!(
        "\nBoth databases are kept: {0}/fixture.db, {0}/xz.db. To look further:\n  \
         {1} list FUNCTION -i {0}/xz.db",
        relative(&folder),
        relative(&programs.vcpi)
    );
    Ok(())
}

fn known_values(programs: &Programs, folder: &Path) -> Result<Vec<Comparison>> {
    let settings = fixture::DEFAULT;
    let mut command = Command::new(&programs.vcpid);
    command.args(fixture::record_args(
        &folder.join("shares"),
        &folder.join("fixture.db"),
        settings,
    ));
    command_line(&command);
    let comparisons = fixture::profile(programs, folder, settings)?;
    println!(
        "\nEven-tempered functions: they take the same time whatever the value, so the share of\n\
         the windows that see a value estimates the share of the executions that have it.\n"
    );
    print!("{}", table(&comparisons, true));
    println!(
        "\nBiased functions: here the value decides how long the processor stays. Each value that\n\
         was recorded is right, but the shares are those of windows, not of executions: windows\n\
         begin where interrupts fall, and interrupts fall where time is spent.\n\
         - At the end, and at the join, most windows began inside the slow part, so executions\n  \
           are weighed by their time, and the slow value is above its true share.\n\
         - At the call, and at the branch, that time is not spent yet. But a processor works\n  \
           ahead: what it has begun of the code to come has a say in where an interrupt stops it.\n  \
           (The even-tempered functions stand behind a fence that prevents this.)\n"
    );
    print!("{}", table(&comparisons, false));
    Ok(comparisons)
}

fn real_program(programs: &Programs, folder: &Path) -> Result<()> {
    let data = folder.join("data");
    progress("gathering data to compress");
    gather(REAL_DATA, &data, DATA_BYTES)?;
    let database = folder.join("xz.db");
    remove_database(&database)?;
    let mut record = Command::new(&programs.vcpid);
    record
        .args(["record", "-o"])
        .arg(&database)
        .args([
            "-d",
            &SECONDS.to_string(),
            "--rate",
            RATE,
            "--",
            "xz",
            "-T1",
            "-c",
        ])
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command_line(&record);
    let status = record.status().context("running vcpid")?;
    let _ = std::fs::remove_file(&data);
    // 143: xz was still at work after ten seconds and was told to end.
    if !matches!(status.code(), Some(0 | 143)) {
        bail!("vcpid record failed ({status}); its message is above");
    }

    let top = programs.report(&database, &["top"])?;
    let hottest = top[0]["key"]
        .as_str()
        .context("vcpi top has no first row")?
        .to_owned();
    show(programs, &database, &["top"], |text| first_lines(text, 12))?;
    let listing = programs.report(&database, &["list", &hottest])?;
    let address = hottest_address(&listing).unwrap_or_default();
    show(programs, &database, &["list", &hottest], |text| {
        around(text, &address, 40)
    })?;
    show(programs, &database, &["args"], |text| first_lines(text, 20))?;
    show(programs, &database, &["branches"], |text| {
        first_lines(text, 16)
    })?;
    show(programs, &database, &["status"], |text| {
        first_lines(text, 60)
    })
}

/// The address of the instruction with the most cycles in a listing.
pub(crate) fn hottest_address(listing: &Value) -> Option<String> {
    let hottest = listing
        .as_array()?
        .iter()
        .max_by_key(|row| row["cycles"].as_u64())?;
    hottest["address"].as_str().map(str::to_owned)
}

/// Prints a report, trimmed by `trim`, under the command that made it.
pub(crate) fn show(
    programs: &Programs,
    database: &Path,
    args: &[&str],
    trim: impl Fn(&str) -> String,
) -> Result<()> {
    let mut command = Command::new(&programs.vcpi);
    command
        .args(args)
        .arg("-i")
        .arg(database)
        .stdin(Stdio::null());
    command_line(&command);
    let output = command.output().context("running vcpi")?;
    // Exit code 1 is "nothing matched", which it says itself.
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!(
            "vcpi failed: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    let text = if output.status.success() {
        &output.stdout
    } else {
        &output.stderr
    };
    print!("{}", trim(&String::from_utf8_lossy(text)));
    Ok(())
}

/// The first `count` lines.
pub(crate) fn first_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    excerpt(&lines, 0..count)
}

/// The heading of a listing (to its first empty line and the titles of its
/// columns), and `count` lines around the one of the instruction at `address`.
pub(crate) fn around(text: &str, address: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let heading = lines
        .iter()
        .position(|line| line.is_empty())
        .map_or(0, |empty| empty + 2);
    let (heading, lines) = lines.split_at(heading.min(lines.len()));
    let is_there = |line: &&str| line.split_whitespace().any(|word| word == address);
    let middle = lines.iter().position(is_there).unwrap_or(0);
    let start = middle.saturating_sub(count / 2);
    excerpt(heading, 0..heading.len()) + &excerpt(lines, start..start + count)
}

/// The lines of `range`, none longer than [`COLUMNS`]; says what is left out.
fn excerpt(lines: &[&str], range: Range<usize>) -> String {
    let left_out = |count: usize| match count {
        0 => String::new(),
        1 => "[1 line]\n".to_owned(),
        _ => format!("[{count} lines]\n"),
    };
    let mut short = left_out(range.start.min(lines.len()));
    for line in lines.iter().skip(range.start).take(range.len()) {
        match line.char_indices().nth(COLUMNS) {
            Some((end, _)) => short.extend([line.get(..end).unwrap_or(line), "...\n"]),
            None => short.extend([*line, "\n"]),
        }
    }
    short + &left_out(lines.len().saturating_sub(range.end))
}

/// Writes the contents of regular files under `folders` one after the other
/// into `output`, up to `limit` bytes. What cannot be read is passed over.
pub(crate) fn gather(folders: &[&str], output: &Path, limit: u64) -> Result<()> {
    let mut out = File::create(output).with_context(|| format!("creating {}", output.display()))?;
    let mut left = limit;
    let mut folders: Vec<PathBuf> = folders.iter().rev().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            // Of the entry itself: symbolic links are not followed.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let Ok(file) = File::open(entry.path()) else {
                    continue;
                };
                let copied = std::io::copy(&mut file.take(left), &mut out)
                    .with_context(|| format!("writing {}", output.display()))?;
                left = left.saturating_sub(copied);
                if left == 0 {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn title(text: &str) {
    println!("\n{text}\n{}", "=".repeat(text.chars().count()));
    let _ = std::io::stdout().flush();
}

/// Prints the command as one would type it in the project's folder.
pub(crate) fn command_line(command: &Command) {
    let program = relative(Path::new(command.get_program()));
    let mut short = Command::new("x");
    short.args(command.get_args().map(|word| relative(Path::new(word))));
    println!("\n$ {program}{}", shown(&short).trim_start_matches('x'));
    let _ = std::io::stdout().flush();
}

/// The path as seen from the project's folder.
fn relative(path: &Path) -> String {
    let root = vcpi_tests::programs::root();
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A long report is cut, and says how much is missing.
    #[test]
    fn trimming() {
        assert_eq!(first_lines("a\nb\nc\n", 2), "a\nb\n[1 line]\n");
        assert_eq!(first_lines("a\n", 2), "a\n");
        let long = "ä".repeat(COLUMNS + 1);
        assert_eq!(
            first_lines(&long, 1),
            format!("{}...\n", "ä".repeat(COLUMNS))
        );
    }

    /// Of a listing its heading stays, and what is around its hottest instruction.
    #[test]
    fn listing_around_its_hottest_instruction() {
        let listing = json!([{"address": "0x1", "cycles": 3}, {"address": "0x3", "cycles": 7}]);
        let address = hottest_address(&listing).unwrap();
        let text = "f\n\ncycles\n3 0x1\n0 0x2\n7 0x3\n0 0x30\n0 0x5\n";
        assert_eq!(
            around(text, &address, 2),
            "f\n\ncycles\n[1 line]\n0 0x2\n7 0x3\n[2 lines]\n"
        );
        assert_eq!(around("f\n", "0x3", 2), "f\n");
        assert_eq!(hottest_address(&json!([])), None);
    }

    /// Gathered data ends exactly at its limit, whatever lies in the folders.
    #[test]
    fn gathering() {
        let folder = std::env::temp_dir().join(format!("vcpi-gather-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in/sub")).unwrap();
        std::fs::write(folder.join("in/b"), "bbb").unwrap();
        std::fs::write(folder.join("in/sub/c"), "ccc").unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("in/a")).unwrap();
        let input = folder.join("in");
        let out = folder.join("out");
        gather(&[input.to_str().unwrap(), "/nowhere"], &out, 5).unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "bbbcc");
        gather(&[input.to_str().unwrap()], &out, 100).unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "bbbccc");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
