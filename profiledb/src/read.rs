//! From the tables of files to a [`Profile`].
//!
//! Each table is gone through once, in the order in which it lies in the file and
//! without its indices: a damaged index cannot hide or repeat rows. The trees of a
//! hostile file may contain one page many times, so what is read in total is held
//! against the size of the file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row};

use crate::open::{self, wal_of};
use crate::profile::{BranchRow, CallRow, CyclesRow, Filter, Pc, Profile, SymbolRow};
use crate::rows::{Epoch, Image, ImageKind, Process, Subject};
use crate::{Error, MAX_INSTRUCTION, from_sql};

/// Reads all files that `paths` stand for.
pub(crate) fn load(paths: &[&Path], filter: &Filter) -> Result<Profile, Error> {
    let mut builder = Builder::default();
    for path in files(paths)? {
        let conn = open::for_reading(&path)?;
        let left = size(&path)?;
        let budget = Budget {
            left,
            lists: left.saturating_mul(64).saturating_add(64 << 20),
        };
        let file = File {
            path: &path,
            conn: &conn,
            filter,
            builder: &mut builder,
            budget,
        };
        file.read()?;
    }
    Ok(builder.finish())
}

/// The files themselves: directories replaced by their databases, doubles left out.
fn files(paths: &[&Path]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        let path = open::absolute(path)?;
        if !fs::metadata(&path)
            .map_err(|e| Error::io(&path, e))?
            .is_dir()
        {
            files.push(path);
            continue;
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&path).map_err(|e| Error::io(&path, e))? {
            let entry = entry.map_err(|e| Error::io(&path, e))?.path();
            if entry.extension().is_some_and(|extension| extension == "db") {
                found.push(entry);
            }
        }
        if found.is_empty() {
            return Err(Error::NoDatabase { path });
        }
        found.sort();
        files.extend(found);
    }
    let mut seen = HashSet::new();
    let mut distinct = Vec::new();
    for path in files {
        let metadata = fs::metadata(&path).map_err(|e| Error::io(&path, e))?;
        if seen.insert((metadata.dev(), metadata.ino())) {
            distinct.push(path);
        }
    }
    Ok(distinct)
}

/// Bytes of a database with its write-ahead log.
fn size(path: &Path) -> Result<u64, Error> {
    let main = fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    let wal = fs::metadata(wal_of(path)).map_or(0, |metadata| metadata.len());
    Ok(main.saturating_add(wal))
}

/// What may still be read of a file before it is known to contradict its size.
struct Budget {
    /// Bytes of the file: no row takes less than [`ROW`] of them, and text takes its own.
    left: u64,
    /// Bytes of memory for hotlists, whose room is stated and not filled.
    lists: u64,
}

/// The least that a row takes in a file: its place in the page, its length and types.
const ROW: u64 = 4;

/// The profile so far, and where its rows are.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    images: HashMap<(ImageKind, String, String), usize>,
    subjects: HashMap<Subject, usize>,
    pcs: HashMap<(usize, u64), usize>,
    symbols: BTreeMap<(usize, u64), (u64, String)>,
}

impl Builder {
    fn image(&mut self, image: &Image) -> usize {
        let key = (image.kind, image.identity.clone(), image.path.clone());
        let images = &mut self.profile.images;
        let index = *self
            .images
            .entry(key)
            .or_insert_with(|| push(images, image.clone()));
        if let Some(known) = images.get_mut(index)
            && known.build_id.is_none()
        {
            known.build_id.clone_from(&image.build_id);
        }
        index
    }

    fn subject(&mut self, subject: Subject) -> usize {
        let subjects = &mut self.profile.subjects;
        *self
            .subjects
            .entry(subject)
            .or_insert_with(|| push(subjects, subject))
    }

    fn pc(&mut self, image: usize, address: u64, bytes: &Option<Vec<u8>>) -> usize {
        let pcs = &mut self.profile.pcs;
        let index = *self.pcs.entry((image, address)).or_insert_with(|| {
            push(
                pcs,
                Pc {
                    image,
                    address,
                    bytes: None,
                },
            )
        });
        if let Some(known) = pcs.get_mut(index)
            && known.bytes.is_none()
        {
            known.bytes.clone_from(bytes);
        }
        index
    }

    fn finish(self) -> Profile {
        let mut profile = self.profile;
        profile.symbols = self
            .symbols
            .into_iter()
            .map(|((image, address), (size, name))| SymbolRow {
                image,
                address,
                size,
                name,
            })
            .collect();
        profile
    }
}

fn push<T>(rows: &mut Vec<T>, row: T) -> usize {
    rows.push(row);
    rows.len() - 1
}

/// A row that others refer to, and its place in the profile once one does.
struct Known<T> {
    row: T,
    index: Option<usize>,
}

type Table<T> = HashMap<i64, Known<T>>;

struct PcOfFile {
    image: i64,
    address: u64,
    bytes: Option<Vec<u8>>,
}

struct ProcessOfFile {
    epoch: i64,
    process: Process,
}

struct FlushOfFile {
    epoch: i64,
    ended: i64,
    taken: bool,
}

struct EpochOfFile {
    cycles_per_unit: f64,
    taken: bool,
}

/// What the rows of a file refer to.
#[derive(Default)]
pub(crate) struct Referred {
    epochs: HashMap<i64, EpochOfFile>,
    flushes: HashMap<i64, FlushOfFile>,
    images: Table<Image>,
    subjects: Table<Subject>,
    processes: Table<ProcessOfFile>,
    pcs: Table<PcOfFile>,
}

/// One file being read.
pub(crate) struct File<'a> {
    pub(crate) path: &'a Path,
    pub(crate) conn: &'a Connection,
    filter: &'a Filter,
    pub(crate) builder: &'a mut Builder,
    budget: Budget,
}

/// Where a row that passed the filter belongs.
pub(crate) struct Place {
    pub(crate) process: usize,
    pub(crate) subject: usize,
    pub(crate) pc: usize,
    pub(crate) other: Option<usize>,
    cycles_per_unit: f64,
    pub(crate) flush_ended: i64,
}

impl File<'_> {
    fn read(mut self) -> Result<(), Error> {
        let mut referred = Referred::default();
        self.read_epochs(&mut referred)?;
        self.read_images(&mut referred)?;
        self.read_subjects(&mut referred)?;
        self.read_processes(&mut referred)?;
        self.read_pcs(&mut referred)?;
        self.read_cycles(&mut referred)?;
        self.read_hotlists(&mut referred)?;
        self.read_branches(&mut referred)?;
        self.read_calls(&mut referred)?;
        self.read_counters(&referred)?;
        self.read_symbols(&referred)
    }

    /// Gives a query's rows to `take`, one by one.
    pub(crate) fn each(
        &mut self,
        sql: &str,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let mut statement = conn.prepare(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            self.charge_row()?;
            take(self, row)?;
        }
        Ok(())
    }

    pub(crate) fn charge_row(&mut self) -> Result<(), Error> {
        self.charge(ROW)
    }

    fn charge(&mut self, bytes: u64) -> Result<(), Error> {
        match self.budget.left.checked_sub(bytes) {
            Some(left) => {
                self.budget.left = left;
                Ok(())
            }
            None => Err(self.corrupt("it contains more than fits into its size")),
        }
    }

    /// Takes memory for a hotlist.
    pub(crate) fn charge_list(&mut self, bytes: u64) -> Result<(), Error> {
        match self.budget.lists.checked_sub(bytes) {
            Some(left) => {
                self.budget.lists = left;
                Ok(())
            }
            None => Err(self.corrupt("its hotlists have room for far more than they hold")),
        }
    }

    pub(crate) fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(self.path, detail)
    }

    fn dangling(&self, table: &str, id: i64) -> Error {
        self.corrupt(format!("a row refers to {table} {id}, which is missing"))
    }

    /// A column of a plain type.
    pub(crate) fn get<T: rusqlite::types::FromSql>(
        &self,
        row: &Row<'_>,
        column: usize,
    ) -> Result<T, Error> {
        row.get(column).map_err(|e| Error::sqlite(self.path, e))
    }

    /// A machine word or a count.
    pub(crate) fn word(&self, row: &Row<'_>, column: usize) -> Result<u64, Error> {
        self.get(row, column).map(from_sql)
    }

    pub(crate) fn text(&mut self, row: &Row<'_>, column: usize) -> Result<String, Error> {
        let text: String = self.get(row, column)?;
        self.charge(text.len() as u64)?;
        Ok(text)
    }

    fn read_epochs(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let mut epochs = Vec::new();
        let sql = "SELECT id, started, ended, host, kernel, command, engine, clock, unit,
                          cycles_per_unit, period, window, settings
                   FROM epoch NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| {
            let id: i64 = file.get(row, 0)?;
            let cycles_per_unit: f64 = file.get(row, 9)?;
            if !(cycles_per_unit.is_finite() && cycles_per_unit > 0.0) {
                return Err(
                    file.corrupt(format!("epoch {id} has {cycles_per_unit} cycles per unit"))
                );
            }
            let epoch = Epoch {
                started: file.get(row, 1)?,
                ended: file.get(row, 2)?,
                host: file.text(row, 3)?,
                kernel: file.text(row, 4)?,
                command: file.text(row, 5)?,
                engine: file.text(row, 6)?,
                clock: file.text(row, 7)?,
                unit: file.text(row, 8)?,
                cycles_per_unit,
                period: file.word(row, 10)?,
                window: file.get(row, 11)?,
                settings: file.text(row, 12)?,
            };
            let taken = file.filter.takes_epoch(id);
            referred.epochs.insert(
                id,
                EpochOfFile {
                    cycles_per_unit,
                    taken,
                },
            );
            epochs.push((id, epoch));
            Ok(())
        })?;

        let mut with_flushes = HashSet::new();
        self.each(
            "SELECT id, epoch, started, ended FROM flush NOT INDEXED ORDER BY id",
            |file, row| {
                let id: i64 = file.get(row, 0)?;
                let epoch: i64 = file.get(row, 1)?;
                let Some(EpochOfFile { taken, .. }) = referred.epochs.get(&epoch) else {
                    return Err(file.dangling("epoch", epoch));
                };
                let (started, ended): (i64, i64) = (file.get(row, 2)?, file.get(row, 3)?);
                let taken = *taken && file.filter.takes_time(started, ended);
                if taken {
                    with_flushes.insert(epoch);
                }
                referred.flushes.insert(
                    id,
                    FlushOfFile {
                        epoch,
                        ended,
                        taken,
                    },
                );
                Ok(())
            },
        )?;

        // Without times in the filter an epoch that has saved nothing yet is shown too.
        let timed = self.filter.is_timed();
        epochs.retain(|(id, _)| {
            self.filter.takes_epoch(*id) && (!timed || with_flushes.contains(id))
        });
        self.builder
            .profile
            .epochs
            .extend(epochs.into_iter().map(|(_, epoch)| epoch));
        Ok(())
    }

    fn read_images(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql = "SELECT id, kind, path, build_id, identity FROM image NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| {
            let id: i64 = file.get(row, 0)?;
            let kind = match file.text(row, 1)?.as_str() {
                "file" => ImageKind::File,
                "vdso" => ImageKind::Vdso,
                "kernel" => ImageKind::Kernel,
                "anon" => ImageKind::Anon,
                _ => return Err(file.corrupt(format!("image {id} is of no known kind"))),
            };
            let path = file.text(row, 2)?;
            let build_id: Option<String> = file.get(row, 3)?;
            file.charge(build_id.as_ref().map_or(0, |id| id.len() as u64))?;
            let identity = file.text(row, 4)?;
            let row = Image {
                kind,
                path,
                build_id,
                identity,
            };
            referred.images.insert(id, Known { row, index: None });
            Ok(())
        })
    }

    fn read_subjects(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql = "SELECT id, uid, gid, euid, egid, kernel FROM subject NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| {
            let subject = Subject {
                uid: file.get(row, 1)?,
                gid: file.get(row, 2)?,
                euid: file.get(row, 3)?,
                egid: file.get(row, 4)?,
                kernel: file.get(row, 5)?,
            };
            let known = Known {
                row: subject,
                index: None,
            };
            referred.subjects.insert(file.get(row, 0)?, known);
            Ok(())
        })
    }

    fn read_processes(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql =
            "SELECT id, epoch, pid, started, execs, comm FROM process NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| {
            let process = Process {
                pid: file.get(row, 2)?,
                started: file.word(row, 3)?,
                execs: file.get(row, 4)?,
                comm: file.text(row, 5)?,
            };
            let process = ProcessOfFile {
                epoch: file.get(row, 1)?,
                process,
            };
            referred.processes.insert(
                file.get(row, 0)?,
                Known {
                    row: process,
                    index: None,
                },
            );
            Ok(())
        })
    }

    fn read_pcs(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql = "SELECT id, image, address, bytes FROM pc NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| {
            let id: i64 = file.get(row, 0)?;
            let bytes: Option<Vec<u8>> = file.get(row, 3)?;
            if let Some(bytes) = &bytes {
                if !(1..=MAX_INSTRUCTION).contains(&bytes.len()) {
                    let detail = format!("pc {id} is an instruction of {} bytes", bytes.len());
                    return Err(file.corrupt(detail));
                }
                file.charge(bytes.len() as u64)?;
            }
            let pc = PcOfFile {
                image: file.get(row, 1)?,
                address: file.word(row, 2)?,
                bytes,
            };
            if !referred.images.contains_key(&pc.image) {
                return Err(file.dangling("image", pc.image));
            }
            referred.pcs.insert(
                id,
                Known {
                    row: pc,
                    index: None,
                },
            );
            Ok(())
        })
    }

    fn read_cycles(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql = "SELECT flush, process, subject, pc, caller, samples, weight
                   FROM cycles NOT INDEXED ORDER BY rowid";
        self.each(sql, |file, row| {
            let samples = file.word(row, 5)?;
            let weight = file.word(row, 6)?;
            if let Some(place) = file.place(referred, row, 0)? {
                let Place {
                    process,
                    subject,
                    pc,
                    other: caller,
                    cycles_per_unit,
                    ..
                } = place;
                let cycles = weight as f64 * cycles_per_unit;
                let row = CyclesRow {
                    process,
                    subject,
                    pc,
                    caller,
                    samples,
                    cycles,
                };
                file.builder.profile.cycles.push(row);
            }
            Ok(())
        })
    }

    fn read_branches(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql = "SELECT flush, process, subject, pc, NULL, taken, not_taken, unknown
                   FROM branch NOT INDEXED ORDER BY rowid";
        self.each(sql, |file, row| {
            let taken = file.word(row, 5)?;
            let not_taken = file.word(row, 6)?;
            let unknown = file.word(row, 7)?;
            if let Some(Place {
                process,
                subject,
                pc,
                ..
            }) = file.place(referred, row, 0)?
            {
                let row = BranchRow {
                    process,
                    subject,
                    pc,
                    taken,
                    not_taken,
                    unknown,
                };
                file.builder.profile.branches.push(row);
            }
            Ok(())
        })
    }

    fn read_calls(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let sql = "SELECT flush, process, subject, site, callee, calls
                   FROM call NOT INDEXED ORDER BY rowid";
        self.each(sql, |file, row| {
            let calls = file.word(row, 5)?;
            if let Some(place) = file.place(referred, row, 0)? {
                let Place {
                    process,
                    subject,
                    pc: site,
                    other: callee,
                    ..
                } = place;
                let row = CallRow {
                    process,
                    subject,
                    site,
                    callee,
                    calls,
                };
                file.builder.profile.calls.push(row);
            }
            Ok(())
        })
    }

    fn read_counters(&mut self, referred: &Referred) -> Result<(), Error> {
        let sql = "SELECT flush, kind, name, value FROM counter NOT INDEXED";
        self.each(sql, |file, row| {
            let flush: i64 = file.get(row, 0)?;
            let key = (file.text(row, 1)?, file.text(row, 2)?);
            let value = file.word(row, 3)?;
            let Some(FlushOfFile { taken, .. }) = referred.flushes.get(&flush) else {
                return Err(file.dangling("flush", flush));
            };
            if *taken {
                let sum = file.builder.profile.counters.entry(key).or_insert(0);
                *sum = sum.saturating_add(value);
            }
            Ok(())
        })
    }

    /// The names of images that rows have referred to.
    fn read_symbols(&mut self, referred: &Referred) -> Result<(), Error> {
        let sql = "SELECT image, address, size, name FROM symbol NOT INDEXED";
        self.each(sql, |file, row| {
            let image: i64 = file.get(row, 0)?;
            let address = file.word(row, 1)?;
            let size = file.word(row, 2)?;
            let name = file.text(row, 3)?;
            let Some(Known { index, .. }) = referred.images.get(&image) else {
                return Err(file.dangling("image", image));
            };
            if let Some(index) = *index {
                file.builder
                    .symbols
                    .entry((index, address))
                    .or_insert((size, name));
            }
            Ok(())
        })
    }

    /// Resolves flush, process, subject, PC and a second PC, in this order from column
    /// `first` on. `None`: the filter leaves the row out.
    pub(crate) fn place(
        &mut self,
        referred: &mut Referred,
        row: &Row<'_>,
        first: usize,
    ) -> Result<Option<Place>, Error> {
        let flush: i64 = self.get(row, first)?;
        let process: i64 = self.get(row, first + 1)?;
        let subject: i64 = self.get(row, first + 2)?;
        let pc: i64 = self.get(row, first + 3)?;
        let other: Option<i64> = self.get(row, first + 4)?;

        let Some(&FlushOfFile {
            epoch,
            ended,
            taken,
        }) = referred.flushes.get(&flush)
        else {
            return Err(self.dangling("flush", flush));
        };
        let Some(&EpochOfFile {
            cycles_per_unit, ..
        }) = referred.epochs.get(&epoch)
        else {
            return Err(self.dangling("epoch", epoch));
        };
        let Some(known_process) = referred.processes.get_mut(&process) else {
            return Err(self.dangling("process", process));
        };
        let Some(known_subject) = referred.subjects.get_mut(&subject) else {
            return Err(self.dangling("subject", subject));
        };
        if known_process.row.epoch != epoch {
            let detail = format!("a row of epoch {epoch} refers to process {process} of another");
            return Err(self.corrupt(detail));
        }
        for id in [Some(pc), other].into_iter().flatten() {
            if !referred.pcs.contains_key(&id) {
                return Err(self.dangling("pc", id));
            }
        }
        let image = referred
            .pcs
            .get(&pc)
            .and_then(|pc| referred.images.get(&pc.row.image));
        let wanted = taken
            && self.filter.takes_pid(known_process.row.process.pid)
            && self.filter.takes_subject(&known_subject.row)
            && image.is_some_and(|image| self.filter.takes_image(&image.row));
        if !wanted {
            return Ok(None);
        }

        let process = *known_process.index.get_or_insert_with(|| {
            push(
                &mut self.builder.profile.processes,
                known_process.row.process.clone(),
            )
        });
        let subject = *known_subject
            .index
            .get_or_insert_with(|| self.builder.subject(known_subject.row));
        let pc = self.pc_index(referred, pc)?;
        let other = other
            .map(|other| self.pc_index(referred, other))
            .transpose()?;
        Ok(Some(Place {
            process,
            subject,
            pc,
            other,
            cycles_per_unit,
            flush_ended: ended,
        }))
    }

    fn pc_index(&mut self, referred: &mut Referred, id: i64) -> Result<usize, Error> {
        let Some(pc) = referred.pcs.get_mut(&id) else {
            return Err(self.dangling("pc", id));
        };
        if let Some(index) = pc.index {
            return Ok(index);
        }
        let Some(image) = referred.images.get_mut(&pc.row.image) else {
            return Err(self.dangling("image", pc.row.image));
        };
        let image = *image
            .index
            .get_or_insert_with(|| self.builder.image(&image.row));
        let index = self.builder.pc(image, pc.row.address, &pc.row.bytes);
        pc.index = Some(index);
        Ok(index)
    }
}
