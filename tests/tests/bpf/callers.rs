//! Callers as `perf record --call-graph dwarf` finds them, next to ours.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use object::{Object, ObjectSegment};
use rusqlite::Connection;
use vcpi_tests::harness::test;
use vcpi_tests::needs::Missing;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, percent};
use crate::real::{self, Real};

/// Samples per second of processor time.
const RATE: u32 = 4000;
/// How far the two distributions of call sites may be apart, beyond what chance makes of as many
/// samples, in percent: this part of the samples would have to have other callers.
const APART: f64 = 4.0;
/// Of an image in which perf finds fewer callers, in percent, nothing can be compared.
const FOUND: f64 = 80.0;
/// Call sites with fewer samples in both together count as one, for each image.
const FEW: i64 = 20;
/// The longest call instruction.
const MAX_CALL: u64 = 9;
/// `perf` is known to die of itself after a recording now and then.
const ATTEMPTS: u32 = 3;

/// An address in an image.
type CodeIn = (String, u64);
/// Samples of an image under a caller; `None` if that was not found.
type Callers = HashMap<(String, Option<CodeIn>), i64>;

pub(crate) const AGAINST_PERF: Test = test(
    "callers are those that perf finds",
    against_perf,
    &[as_root, gcc],
);
/// The call sites of user samples are distributed as by perf's copies of the stack, unwound
/// afterwards. Both sample the same run: two runs of python3 alone can be further apart.
fn against_perf(bench: &Bench) -> Result<()> {
    let mut failures = Vec::new();
    let mut compared = 0;
    for real in real::all(bench)? {
        let Some((mut ours, mut theirs)) = by_both(bench, &real)? else {
            println!("{}: perf gave no callers", real.name);
            continue;
        };
        for image in not_found(&theirs) {
            println!("{}: perf does not find the callers of {image}", real.name);
            ours.retain(|(of, _), _| *of != image);
            theirs.retain(|(of, _), _| *of != image);
        }
        let apart = compare(real.name, &ours, &theirs);
        compared += 1;
        if apart > APART {
            failures.push(format!("{}: {apart:.1} % apart", real.name));
        }
    }
    if !failures.is_empty() {
        bail!(failures.join("; "));
    }
    if compared == 0 {
        bail!(Missing::new("needs a perf that works"));
    }
    Ok(())
}

/// Images of most of whose samples no caller was found.
fn not_found(callers: &Callers) -> Vec<String> {
    let mut images: HashMap<&str, (i64, i64)> = HashMap::new();
    for ((image, caller), n) in callers {
        let (found, all) = images.entry(image).or_default();
        *found += if caller.is_some() { *n } else { 0 };
        *all += n;
    }
    let few = images
        .into_iter()
        .filter(|(_, (found, all))| percent(*found, *all) < FOUND);
    few.map(|(image, _)| image.to_owned()).collect()
}

/// Callers of the user samples of a program in a recording: addresses of call instructions.
fn recorded_callers(database: &Connection, program: &str) -> Result<Callers> {
    let mut statement = database.prepare(
        "SELECT image.path, of.path, site.address, sum(samples) FROM cycles \
         JOIN subject ON subject.id = cycles.subject \
         JOIN process ON process.id = cycles.process \
         JOIN pc ON pc.id = cycles.pc JOIN image ON image.id = pc.image \
         LEFT JOIN pc AS site ON site.id = cycles.caller \
         LEFT JOIN image AS of ON of.id = site.image \
         WHERE NOT subject.kernel AND process.comm = ?1 GROUP BY 1, 2, 3",
    )?;
    let mut rows = statement.query([program])?;
    let mut callers = Callers::new();
    while let Some(row) = rows.next()? {
        let path: Option<String> = row.get(1)?;
        let address: Option<i64> = row.get(2)?;
        let site = path.zip(address.map(i64::cast_unsigned));
        *callers.entry((row.get(0)?, site)).or_default() += row.get::<_, i64>(3)?;
    }
    Ok(callers)
}

/// Callers in one run, as we find them and as perf does: perf's are return addresses, or the
/// bytes before them. `None` if it does not work.
fn by_both(bench: &Bench, real: &Real) -> Result<Option<(Callers, Callers)>> {
    let data = bench.path("perf.data");
    let database = format!("callers-{}.db", real.name);
    for _ in 0..ATTEMPTS {
        let record = bench.record("bpf", RATE, &database);
        let recorded = Command::new("perf")
            .args(["record", "-q", "--no-buildid", "--no-buildid-cache"])
            .args(["-e", "cpu-clock", "-F", &RATE.to_string()])
            .args(["--call-graph", "dwarf,8192", "-o"])
            .arg(&data)
            .arg("--")
            .arg(record.get_program())
            .args(record.get_args())
            .arg("--")
            .args(&real.command)
            .stdin(Stdio::null())
            .output();
        let Ok(recorded) = recorded else {
            return Ok(None);
        };
        let script = Command::new("perf")
            .args(["script", "--no-inline", "--comm", real.name])
            .args(["-F", "ip,sym,dso", "-i"])
            .arg(&data)
            .stdin(Stdio::null())
            .output()?;
        let theirs = of_script(&String::from_utf8_lossy(&script.stdout));
        if recorded.status.success() && script.status.success() && !theirs.is_empty() {
            let ours = recorded_callers(&bench.open(&database)?, real.name)?;
            return Ok(Some((ours, theirs)));
        }
    }
    Ok(None)
}

/// Reads what `perf script` prints: blocks of frames, the innermost first, each with its address
/// (in a file: the offset) and, in parentheses at the end, the file.
fn of_script(text: &str) -> Callers {
    let mut callers = Callers::new();
    let mut files = HashMap::new();
    for block in text.split("\n\n") {
        let mut frames = block.lines().filter_map(frame);
        match (frames.next(), frames.next()) {
            (None, _) => {}
            // The kernel was interrupted.
            (Some((leaf, _)), _) if leaf >> 63 != 0 => {}
            (Some((_, leaf)), None) => *callers.entry((leaf.to_owned(), None)).or_default() += 1,
            (Some((_, leaf)), Some((offset, path))) => {
                let segments = files
                    .entry(path)
                    .or_insert_with(|| segments(Path::new(path)));
                let mut segments = segments.iter();
                let site = segments.find_map(|((start, size), address)| {
                    let inside = offset.checked_sub(*start).filter(|at| at < size)?;
                    Some((path.to_owned(), address + inside))
                });
                *callers.entry((leaf.to_owned(), site)).or_default() += 1;
            }
        }
    }
    callers
}

/// `ADDRESS SYMBOL (FILE)`
fn frame(line: &str) -> Option<(u64, &str)> {
    let address = line.split_whitespace().next()?;
    let (_, path) = line.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    Some((u64::from_str_radix(address, 16).ok()?, path))
}

/// The segments of a file: where each lies in it, and at which address.
fn segments(path: &Path) -> Vec<((u64, u64), u64)> {
    let Ok(bytes) = fs::read(path) else {
        return Vec::new();
    };
    let Ok(file) = object::File::parse(bytes.as_slice()) else {
        return Vec::new();
    };
    let segments = file.segments();
    segments.map(|s| (s.file_range(), s.address())).collect()
}

/// Prints the most frequent call sites, and returns by how many percent the distributions are apart
/// (half the sum of all differences), less what is expected of two samplings of one distribution.
fn compare(name: &str, ours: &Callers, theirs: &Callers) -> f64 {
    let (n, m) = (ours.values().sum::<i64>(), theirs.values().sum::<i64>());
    let rows = side_by_side(ours, theirs);
    let (mut apart, mut chance) = (0.0, 0.0);
    for (_, count, same) in &rows {
        apart += (percent(*count, n) - percent(*same, m)).abs() / 2.0;
        let both = percent(count + same, n + m) / 100.0;
        let variance = both * (1.0 - both) * (1.0 / n as f64 + 1.0 / m as f64);
        chance += 100.0 * (variance * std::f64::consts::FRAC_2_PI).sqrt() / 2.0;
    }
    println!(
        "{name}: {n} user samples, {m} of perf, {} call sites: {apart:.1} % apart, {chance:.1} % by chance",
        rows.len()
    );
    for (site, count, same) in rows.iter().take(6) {
        let (ours, theirs) = (percent(*count, n), percent(*same, m));
        println!("    {site:36} {ours:5.1} %, by perf {theirs:5.1} %");
    }
    apart - chance
}

/// Call sites with their samples in both, the most frequent first.
fn side_by_side(ours: &Callers, theirs: &Callers) -> Vec<(String, i64, i64)> {
    let mut rest = theirs.clone();
    let mut rows = HashMap::new();
    let mut add = |image: &str, site: Option<&CodeIn>, count: i64, same: i64| {
        let name = match site {
            _ if count + same < FEW => format!("{}, few each", file_name(image)),
            Some((path, address)) => format!("{}+{address:#x}", file_name(path)),
            None => format!("{}, not known", file_name(image)),
        };
        let row: &mut (i64, i64) = rows.entry(name).or_default();
        row.0 += count;
        row.1 += same;
    };
    for ((image, site), count) in ours {
        let mut same = 0;
        rest.retain(|(of, place), n| {
            let found = of == image && is_return_of(site.as_ref(), place.as_ref());
            same += if found { *n } else { 0 };
            !found
        });
        add(image, site.as_ref(), *count, same);
    }
    for ((image, place), n) in &rest {
        add(image, place.as_ref(), 0, *n);
    }
    let rows = rows.into_iter().map(|(name, (a, b))| (name, a, b));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(_, count, same)| -count - same);
    rows
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.display().to_string()
}

/// Whether perf's place lies at or just before what a call at the site returns to.
fn is_return_of(site: Option<&CodeIn>, place: Option<&CodeIn>) -> bool {
    match (site, place) {
        (Some((path, site)), Some((of, at))) => {
            path == of && (site + 1..=site + MAX_CALL).contains(at)
        }
        (site, place) => site.is_none() && place.is_none(),
    }
}
