//! Many short-lived processes: to what their samples are attributed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use object::{Object, ObjectSegment, SegmentFlags, elf};
use rusqlite::Connection;
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, counter, cpu_clock, percent, query, succeeded};

/// Files that are compiled.
const FILES: u32 = 200;
/// Samples per second of processor time.
const RATE: u32 = 4000;
/// User samples that may lie in nothing known, in percent.
const UNATTRIBUTED: f64 = 1.0;

/// What was sampled of one program in one image.
struct SampledImage {
    process: i64,
    comm: String,
    image: PathBuf,
    lowest: u64,
    highest: u64,
    samples: i64,
}

pub(crate) const MANY_FILES: Test = test(
    "a compile of many files is attributed to what ran",
    many_files,
    &[as_root, gcc, cpu_clock],
);
/// `make -j2` of many small files: every address lies in its image's code, no program has samples
/// in another program's image, and next to nothing is unattributed.
fn many_files(bench: &Bench) -> Result<()> {
    let makefile = write_files(bench)?;
    let mut record = bench.record("bpf", RATE, "make.db");
    record.args(["--", "make", "-s", "-j2", "-f"]).arg(makefile);
    succeeded(&record.stdout(Stdio::null()).output()?)?;
    let database = bench.open("make.db")?;
    let mut images = HashMap::new();
    let mut wrong = Vec::new();
    let mut own_image: HashMap<i64, PathBuf> = HashMap::new();
    let rows = rows(&database)?;
    for row in &rows {
        let image = images
            .entry(row.image.clone())
            .or_insert_with(|| Image::read(&row.image));
        let Some(image) = image else {
            wrong.push(format!("{} cannot be read", row.image.display()));
            continue;
        };
        if !image.holds(row.lowest) || !image.holds(row.highest) {
            wrong.push(format!(
                "{} outside the code of {}",
                row.comm,
                row.image.display()
            ));
        }
        if image.program {
            let before = own_image.entry(row.process).or_insert(row.image.clone());
            if *before != row.image || !is_program(&row.comm, &row.image) {
                wrong.push(format!(
                    "{} of {} in {}",
                    row.samples,
                    row.comm,
                    row.image.display()
                ));
            }
        }
    }
    say(&database, &rows)?;
    wrong.sort();
    wrong.dedup();
    if !wrong.is_empty() {
        bail!("wrongly attributed: {}", wrong.join("; "));
    }
    let unattributed = unattributed(&database)?;
    if unattributed >= UNATTRIBUTED {
        bail!("{unattributed:.2} % of the user samples unattributed");
    }
    Ok(())
}

fn say(database: &Connection, rows: &[SampledImage]) -> Result<()> {
    let processes: i64 = query(database, "SELECT count(*) FROM process")?;
    let samples: i64 = rows.iter().map(|row| row.samples).sum();
    println!(
        "{processes} processes, {samples} samples in {} pairs of program and image, \
         {:.2} % of the user samples unattributed, {} windows of processes that were gone",
        rows.len(),
        unattributed(database)?,
        counter(database, "lost", "windows_of_gone_processes")?
    );
    Ok(())
}

fn unattributed(database: &Connection) -> Result<f64> {
    let unmapped = counter(database, "lost", "unmapped_pc_samples")?;
    Ok(percent(unmapped, counter(database, "run", "user_samples")?))
}

/// Writes the files and the makefile.
fn write_files(bench: &Bench) -> Result<PathBuf> {
    let folder = bench.path("files");
    fs::create_dir(&folder)?;
    let mut objects = String::new();
    for n in 0..FILES {
        let source = format!(
            "int f{n}(const int *p, int n) {{ int s = {n}; while (n--) s += p[n] * {n}; return s; }}\n"
        );
        fs::write(folder.join(format!("f{n}.c")), source)?;
        write!(objects, " {}/f{n}.o", folder.display())?;
    }
    let makefile = folder.join("makefile");
    fs::write(
        &makefile,
        format!("all:{objects}\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n"),
    )?;
    Ok(makefile)
}

fn rows(database: &Connection) -> Result<Vec<SampledImage>> {
    let mut statement = database.prepare(
        "SELECT process.id, comm, path, min(address), max(address), sum(samples) FROM cycles \
         JOIN pc ON pc.id = cycles.pc JOIN image ON image.id = pc.image \
         JOIN process ON process.id = cycles.process WHERE image.kind = 'file' \
         GROUP BY process.id, image.id",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(SampledImage {
            process: row.get(0)?,
            comm: row.get(1)?,
            image: row.get::<_, String>(2)?.into(),
            lowest: row.get::<_, i64>(3)?.cast_unsigned(),
            highest: row.get::<_, i64>(4)?.cast_unsigned(),
            samples: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What of a file tells whether samples may lie in it.
struct Image {
    /// Address ranges of executable segments.
    code: Vec<(u64, u64)>,
    /// A program: it names an interpreter that loads it.
    program: bool,
}

impl Image {
    fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(bytes.as_slice()).ok()?;
        let executable = |flags| match flags {
            SegmentFlags::Elf { p_flags, .. } => p_flags.0 & elf::PF_X.0 != 0,
            _ => false,
        };
        let code = file
            .segments()
            .filter(|segment| executable(segment.flags()))
            .map(|segment| (segment.address(), segment.address() + segment.size()))
            .collect();
        // A library may have an interpreter, too; none has a name like a program's.
        let library = path.to_string_lossy().contains(".so");
        Some(Self {
            code,
            program: !library,
        })
    }

    fn holds(&self, address: u64) -> bool {
        let mut code = self.code.iter();
        code.any(|(start, end)| (*start..*end).contains(&address))
    }
}

/// Whether a process of this name executes this file.
fn is_program(comm: &str, image: &Path) -> bool {
    let found = Command::new("gcc")
        .arg(format!("-print-prog-name={comm}"))
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let in_path = std::env::var_os("PATH").and_then(|path| {
        let mut folders = std::env::split_paths(&path);
        folders.find_map(|folder| folder.join(comm).canonicalize().ok())
    });
    let of_gcc = found
        .ok()
        .and_then(|path| Path::new(&path).canonicalize().ok());
    [in_path, of_gcc]
        .into_iter()
        .flatten()
        .any(|path| path == image)
}
