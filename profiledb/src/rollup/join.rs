//! Closed files joined into one of days or weeks.
//!
//! The new file gets the name of the last input once it is whole and on the disk. The others'
//! names are in it, so that nobody takes one that is still there for more than was joined.

mod find;
mod spans;

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hotlist::Generator;
use rusqlite::Connection;

use super::bucket::{Bucket, ChunkRefusal};
use super::budget::Spending;
use super::ids::Ids;
use super::period::Grain;
use super::rolled::RolledChunk;
use super::target::{Mapped, MetIds, Target};
use super::{Identity, MOST_VALUES, PIECE, SAMPLE};
use crate::chunk::{ChunkKind, ChunkPlace, decode_code, encode_code};
use crate::tables;
use crate::tables::stored::{StoredChunk, StoredCode, StoredJoined};
use crate::{Directory, Error, from_sql, open};
pub(super) use find::find;
use spans::Spans;

/// What is behind the name of a file that is being made.
const ROLLING: &str = ".rolling";

/// A file that is joined with others.
struct Input {
    path: PathBuf,
    identity: Identity,
    modified: SystemTime,
    conn: Connection,
    known: MetIds,
}

/// A chunk of an input: which input, its id, its bytes.
type At = (usize, i64, u64);

/// What is at one place: image and bucket in the new file.
type Of<T> = (i64, i64, Vec<T>);

/// A file that is being made.
pub(super) struct Join {
    grain: Grain,
    target: Option<Target>,
    inputs: Vec<Input>,
    spans: Spans,
    /// What is left to do, the last first.
    left: Vec<Of<At>>,
    code: Vec<Of<(usize, i64)>>,
    spending: Spending,
    seen: u64,
    coins: Generator,
    /// Where it is made, and whether it is to stay there.
    temporary: PathBuf,
}

impl Join {
    /// Begins to join these files, oldest first.
    fn begin(paths: &[PathBuf], grain: Grain, budget: u64) -> Result<Self, Error> {
        let Some(last) = paths.last() else {
            let what = "no file to roll up".to_owned();
            return Err(Error::Invalid { what });
        };
        let mut inputs = Vec::new();
        for path in paths {
            let metadata = fs::metadata(path).map_err(|e| Error::io(path, e))?;
            inputs.push(Input {
                path: path.clone(),
                identity: Identity::of(path)?,
                modified: metadata.modified().map_err(|e| Error::io(path, e))?,
                conn: open::for_reading(path)?,
                known: MetIds::default(),
            });
        }
        let mut temporary = last.clone().into_os_string();
        temporary.push(ROLLING);
        let temporary = PathBuf::from(temporary);
        let target = Target::create(&temporary)?;
        let mut join = Self {
            grain,
            target: None,
            inputs,
            spans: Spans::default(),
            left: Vec::new(),
            code: Vec::new(),
            spending: Spending::new(0, 0),
            seen: 0,
            coins: Generator::new(0),
            temporary,
        };
        let conn = &target.conn;
        conn.execute_batch("BEGIN").map_err(|e| target.failed(e))?;
        for (index, input) in join.inputs.iter().enumerate() {
            join.spans.read(index, &input.path, &input.conn, grain)?;
        }
        join.spans.write(conn).map_err(|e| target.failed(e))?;
        join.target = Some(target);
        join.list()?;
        let all = join.left.iter().flat_map(|(.., chunks)| chunks);
        join.spending = Spending::new(budget, all.map(|(.., bytes)| bytes).sum());
        join.coins = Generator::new(join.spans.seed());
        join.sample()?;
        Ok(join)
    }

    /// Lists what there is to do.
    fn list(&mut self) -> Result<(), Error> {
        let (mut chunks, mut code) = (Vec::new(), Vec::new());
        for index in 0..self.inputs.len() {
            let sql = "SELECT image, bucket, id, length(data) FROM chunk";
            let of_input = self.rows(index, sql)?;
            let sql = "SELECT image, bucket, id, 0 FROM code";
            let codes = self.rows(index, sql)?;
            for (rows, is_code) in [(of_input, false), (codes, true)] {
                for (image, bucket, id, bytes) in rows {
                    let image = self.mapped(index, |ids| ids.image(image))?;
                    match is_code {
                        true => code.push((image, bucket, (index, id))),
                        false => chunks.push((image, bucket, (index, id, bytes))),
                    }
                }
            }
        }
        self.left = in_places(chunks);
        self.code = in_places(code);
        Ok(())
    }

    fn rows(&self, index: usize, sql: &str) -> Result<Vec<(i64, i64, i64, u64)>, Error> {
        let Some(input) = self.inputs.get(index) else {
            return Ok(Vec::new());
        };
        let failed = |e| Error::sqlite(&input.path, e);
        let mut statement = input.conn.prepare(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| {
            let bytes = from_sql(row.get(3)?).saturating_add(super::ROW as u64);
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, bytes))
        });
        rows.map_err(failed)?
            .collect::<rusqlite::Result<_>>()
            .map_err(failed)
    }

    /// Does something with the ids of an input.
    fn mapped<T>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Mapped<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (Some(input), Some(target)) = (self.inputs.get_mut(index), &self.target) else {
            let what = "a roll-up without a file".to_owned();
            return Err(Error::Invalid { what });
        };
        work(&mut Mapped {
            target: &target.conn,
            input: &input.conn,
            paths: (&target.path, &input.path),
            known: &mut input.known,
            epochs: &self.spans.epochs,
        })
    }

    fn sample(&mut self) -> Result<(), Error> {
        let every = (self.left.len() / SAMPLE).max(1);
        for index in (every / 2..self.left.len()).step_by(every) {
            let Some((_, bucket, chunks)) = self.left.get(index).cloned() else {
                break;
            };
            let sum = self.gather(bucket, &chunks)?;
            sum.measure(&mut self.spending, &mut self.coins);
            self.seen += chunks.iter().map(|(.., bytes)| bytes).sum::<u64>();
        }
        Ok(())
    }

    fn gather(&mut self, bucket: i64, chunks: &[At]) -> Result<Bucket, Error> {
        let mut sum = Bucket::new(MOST_VALUES);
        for &(index, id, _) in chunks {
            let mut coins = self.coins.clone();
            let (path, read) = {
                let Some(input) = self.inputs.get(index) else {
                    continue;
                };
                let failed = |e| Error::sqlite(&input.path, e);
                let read = tables::get(&input.conn, id).map_err(failed)?;
                (input.path.clone(), read)
            };
            let read: Option<StoredChunk<Vec<u8>>> = read;
            let missing = || Error::corrupt(&path, format!("chunk {id} is missing"));
            let StoredChunk {
                flush,
                kind,
                subject,
                data,
                ..
            } = read.ok_or_else(missing)?;
            let bad = |what: &str| Error::corrupt(&path, format!("chunk {id}: {what}"));
            let kind = ChunkKind::of(kind).ok_or_else(|| bad("it is of no known kind"))?;
            let of = self.spans.of(index, flush);
            let (target, time) = of.ok_or_else(|| bad("it refers to a flush that is missing"))?;
            let added = self.mapped(index, |ids| {
                let chunk = RolledChunk {
                    kind,
                    subject: ids.subject(subject)?,
                    target,
                    place: ChunkPlace {
                        bucket: from_sql(bucket),
                        time,
                    },
                    data,
                };
                Ok(sum.add(&chunk, ids, &mut coins))
            })?;
            self.coins = coins;
            added.map_err(|refusal| match refusal {
                ChunkRefusal::Bad(what) => bad(&what.to_string()),
                ChunkRefusal::Ids(error) => error,
            })?;
        }
        Ok(sum)
    }

    /// Rolls up a piece; whether that was the last.
    pub(super) fn piece(&mut self) -> Result<bool, Error> {
        let mut input = 0;
        while input < PIECE {
            let Some((image, bucket, chunks)) = self.left.pop() else {
                let Some((image, bucket, code)) = self.code.pop() else {
                    return Ok(true);
                };
                self.write_code(image, bucket, &code)?;
                input += PIECE / 32;
                continue;
            };
            let sum = self.gather(bucket, &chunks)?;
            let bytes: u64 = chunks.iter().map(|(.., bytes)| bytes).sum();
            let tau = self.spending.threshold(self.seen);
            let spans = &self.spans;
            let time = |target| spans.time(target);
            let Some(target) = &self.target else {
                return Ok(true);
            };
            let asked_alone = super::asked_alone(&target.conn).map_err(|e| target.failed(e))?;
            let bucket = from_sql(bucket);
            let rolled = sum.finish(bucket, time, tau, &asked_alone, &mut self.coins);
            self.spending.took(bytes, &rolled);
            let written = super::insert(&target.conn, image, bucket, &rolled.chunks);
            written.map_err(|e| target.failed(e))?;
            self.spans.count(&rolled);
            input += bytes;
        }
        Ok(self.left.is_empty() && self.code.is_empty())
    }

    /// The encodings of a bucket, each once.
    fn write_code(&self, image: i64, bucket: i64, code: &[(usize, i64)]) -> Result<(), Error> {
        let mut all = std::collections::BTreeMap::new();
        for &(index, id) in code {
            let Some(input) = self.inputs.get(index) else {
                continue;
            };
            let failed = |e| Error::sqlite(&input.path, e);
            let code = tables::get(&input.conn, id).map_err(failed)?;
            let code: Option<StoredCode<Vec<u8>>> = code;
            let missing = || Error::corrupt(&input.path, format!("code {id} is missing"));
            let data = code.ok_or_else(missing)?.data;
            let rows = decode_code(from_sql(bucket), &data)
                .map_err(|bad| Error::corrupt(&input.path, format!("code {id}: {bad}")))?;
            for (address, bytes) in rows {
                all.entry(address).or_insert(bytes);
            }
        }
        let rows: Vec<(u64, Vec<u8>)> = all.into_iter().collect();
        let Some(target) = self.target.as_ref().filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        let row = StoredCode {
            image,
            bucket: from_sql(bucket),
            data: encode_code(&rows),
        };
        let written = tables::insert(&target.conn, &row);
        written.map(drop).map_err(|e| target.failed(e))
    }

    /// Puts the file in the place of its inputs.
    pub(super) fn finish(mut self, directory: &Directory) -> Result<String, Error> {
        let Some(target) = self.target.take() else {
            return Ok(String::new());
        };
        let Some(last) = self.inputs.last() else {
            return Ok(String::new());
        };
        let (place, modified) = (last.path.clone(), self.modified());
        let others: Vec<PathBuf> = self.inputs.iter().map(|input| input.path.clone()).collect();
        let others: Vec<PathBuf> = others.into_iter().filter(|path| *path != place).collect();
        let ended = self
            .spans
            .write_counters(&target.conn)
            .and_then(|()| name_joined(&target.conn, &others))
            .and_then(|()| target.conn.execute_batch("COMMIT"));
        ended.map_err(|e| target.failed(e))?;
        let closed = target.conn.close();
        closed.map_err(|(_, e)| Error::sqlite(&target.path, e))?;
        let failed = |e| Error::io(&self.temporary, e);
        let file = File::options()
            .write(true)
            .open(&self.temporary)
            .map_err(failed)?;
        // What is old by its inputs is old.
        file.set_times(FileTimes::new().set_modified(modified))
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        for input in &self.inputs {
            // Somebody removed it, or put another there: what was read is of another time.
            if Identity::of(&input.path)? != input.identity {
                let what = "a file that is rolled up was replaced".to_owned();
                return Err(Error::Invalid { what });
            }
        }
        let count = self.inputs.len();
        // Nobody who looks at them now is disturbed: they stay for as long as they are open.
        self.inputs.clear();
        fs::rename(&self.temporary, &place).map_err(|e| Error::io(&place, e))?;
        sync(directory.path())?;
        for path in &others {
            directory.remove(path)?;
        }
        let bytes = fs::metadata(&place).map_or(0, |metadata| metadata.len());
        Ok(format!(
            "{}: {count} files rolled up to a {}, {:.1} MiB",
            place.display(),
            self.grain.name(),
            bytes as f64 / f64::from(1 << 20),
        ))
    }

    fn modified(&self) -> SystemTime {
        let times = self.inputs.iter().map(|input| input.modified);
        times.max().unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        // It is not there any more where it was finished.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// In the order of places, the last first.
fn in_places<T: Ord + Clone>(mut rows: Vec<(i64, i64, T)>) -> Vec<Of<T>> {
    rows.sort_unstable();
    let places = rows.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    let mut places: Vec<Of<T>> = places
        .filter_map(|rows| {
            let (image, bucket, _) = rows.first()?;
            Some((
                *image,
                *bucket,
                rows.iter().map(|row| row.2.clone()).collect(),
            ))
        })
        .collect();
    places.reverse();
    places
}

fn name_joined(conn: &Connection, others: &[PathBuf]) -> rusqlite::Result<()> {
    for path in others {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            let name = name.to_owned();
            tables::merge(conn, &StoredJoined { name })?;
        }
    }
    Ok(())
}

fn sync(directory: &Path) -> Result<(), Error> {
    let file = File::open(directory).and_then(|file| file.sync_all());
    file.map_err(|e| Error::io(directory, e))
}

/// Removes what a roll-up left that did not come to its end: files that were being made, and those
/// that had been joined.
pub(super) fn clean(directory: &Directory) -> Result<(), Error> {
    let failed = |e| Error::io(directory.path(), e);
    for entry in fs::read_dir(directory.path()).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.ends_with(&format!(".db{ROLLING}"))) {
            fs::remove_file(&path).map_err(|e| Error::io(&path, e))?;
        }
    }
    for file in directory.list()?.iter().filter(|file| !file.aside) {
        // Whoever reads it finds out what is the matter with it.
        let Ok(conn) = open::for_reading(&file.path) else {
            continue;
        };
        for name in open::joined(&file.path, &conn)? {
            let path = directory.path().join(&name);
            if Path::new(&name).file_name() == Some(std::ffi::OsStr::new(&name)) && path.exists() {
                directory.remove(&path)?;
            }
        }
    }
    Ok(())
}

/// Times of what is joined, by its new row.
type Times = HashMap<i64, (i64, i64)>;
