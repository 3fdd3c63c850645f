//! A database written anew, in the newest layout.

mod unpack;

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::flush::{Flush, NewHotlist};
use crate::profile::Profile;
use crate::read::{Slices, Source};
use crate::tables::{self, Layout, stored};
use crate::writer::{PcRowId, Writer};
use crate::{Calls, Directions, Error, open};

pub use unpack::unpack;

/// Writes all that is in the database `from` to `to`, which does not exist yet, in the newest
/// layout. Estimates, counts and names are the same; of encodings of instructions those stay that
/// a writer of today would keep. What is packed already stays as it is packed.
///
/// # Errors
/// Whatever keeps `from` from being read in full or `to` from being written, and [`Error::Exists`]
/// where `to` is there; nothing is at `to` then.
pub fn convert(from: &Path, to: &Path) -> Result<(), Error> {
    finished(from, to, write_all)
}

/// Has `write` write a database under another name, and gives it its own when it is whole.
fn finished(
    from: &Path,
    to: &Path,
    write: fn(&Path, &Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let (from, to) = (open::absolute(from)?, open::absolute(to)?);
    if to.try_exists().map_err(|e| Error::io(&to, e))? {
        return Err(Error::Exists { path: to });
    }
    let mut partial = to.clone().into_os_string();
    partial.push(".converting");
    let partial = PathBuf::from(partial);
    // What another conversion did not live to end.
    remove(&partial);
    let done = write(&from, &partial)
        .and_then(|()| fs::rename(&partial, &to).map_err(|e| Error::io(&to, e)));
    if done.is_err() {
        remove(&partial);
    }
    done
}

/// Removes a database with its log. What cannot be removed shows when it is made.
fn remove(path: &Path) {
    for path in [open::wal_of(path), path.to_owned()] {
        let _ = fs::remove_file(path);
    }
}

fn write_all(from: &Path, to: &Path) -> Result<(), Error> {
    let source = open::for_reading(from)?;
    let failed = |e| Error::sqlite(from, e);
    let mut writer = Writer::bare(to)?;
    writer.all_or_nothing()?;
    // Which files it was made of is of no use beside them.
    copy_all(from, &source, &writer, &[Layout::Every, Layout::Packed])?;
    let slices = Slices::of(&source).map_err(failed)?;
    let mut rows = Source::open(from, &source)?;
    for flush in slices.flushes() {
        let (profile, place) = rows.flush(flush, &slices)?;
        writer.epoch = place.epoch;
        let mut into = Flush::resume(&mut writer, flush, place.time);
        write(&mut into, &profile, place.cycles_per_unit)?;
        into.save()?;
    }
    writer.commit()?;
    writer.close()
}

/// Copies the rows of all tables that these layouts have.
fn copy_all(
    from: &Path,
    source: &Connection,
    writer: &Writer,
    layouts: &[Layout],
) -> Result<(), Error> {
    let version = tables::version(source).map_err(|e| Error::sqlite(from, e))?;
    let tables = stored::ALL.iter();
    let tables = tables.filter(|table| layouts.contains(&table.layout) && table.is_in(version));
    for table in tables {
        copy(
            from,
            source,
            writer,
            (table.name, &table.whole_columns(version)),
        )?;
    }
    Ok(())
}

/// Copies the rows of a table as they are.
fn copy(
    from: &Path,
    source: &Connection,
    writer: &Writer,
    (table, columns): (&str, &[&str]),
) -> Result<(), Error> {
    let count = columns.len();
    let columns = columns.join(", ");
    let failed = |e| Error::sqlite(from, e);
    let not_written = |e| Error::sqlite(&writer.path, e);
    let mut read = source
        .prepare(&format!("SELECT {columns} FROM {table} NOT INDEXED"))
        .map_err(failed)?;
    let places = vec!["?"; count].join(", ");
    let mut write = writer
        .conn
        .prepare(&format!(
            "INSERT INTO {table} ({columns}) VALUES ({places})"
        ))
        .map_err(not_written)?;
    let mut rows = read.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        for column in 0..count {
            let value: Value = row.get(column).map_err(failed)?;
            write
                .raw_bind_parameter(column + 1, value)
                .map_err(not_written)?;
        }
        write.raw_execute().map_err(not_written)?;
    }
    Ok(())
}

/// Writes the rows of a profile of one flush. `units` are cycles in a unit of the epoch.
fn write(flush: &mut Flush<'_>, profile: &Profile, units: f64) -> Result<(), Error> {
    let mut images = Vec::with_capacity(profile.images.len());
    for image in &profile.images {
        images.push(flush.image(image)?);
    }
    let mut subjects = Vec::with_capacity(profile.subjects.len());
    for subject in &profile.subjects {
        subjects.push(flush.subject(subject)?);
    }
    let mut processes = Vec::with_capacity(profile.processes.len());
    for process in &profile.processes {
        processes.push(flush.process(process)?);
    }
    let mut pcs: Vec<PcRowId> = Vec::with_capacity(profile.pcs.len());
    for pc in &profile.pcs {
        pcs.push(flush.pc(images[pc.image], pc.address, pc.bytes.as_deref())?);
    }
    for row in &profile.cycles {
        let weight = (row.cycles / units).round() as u64;
        let caller = row.caller.map(|caller| pcs[caller]);
        let (process, subject) = (processes[row.process], subjects[row.subject]);
        flush.cycles(process, subject, pcs[row.pc], caller, row.samples, weight)?;
    }
    for row in &profile.hotlists {
        flush.hotlist(NewHotlist {
            process: processes[row.process],
            subject: subjects[row.subject],
            pc: pcs[row.pc],
            caller: row.caller.map(|caller| pcs[caller]),
            parameter: &row.parameter,
            reached: row.reached,
            unknown: row.unknown,
            windows: row.windows,
            even: row.even,
            list: row.list.estimates(),
        })?;
    }
    for row in &profile.branches {
        let seen = Directions {
            taken: row.taken,
            not_taken: row.not_taken,
            unknown: row.unknown,
            weights: row.weights,
            squares: row.squares,
        };
        flush.branch(
            processes[row.process],
            subjects[row.subject],
            pcs[row.pc],
            seen,
        )?;
    }
    for row in &profile.calls {
        let seen = Calls {
            times: row.calls,
            weight: row.weight,
            squares: row.squares,
        };
        let callee = row.callee.map(|callee| pcs[callee]);
        flush.call(
            processes[row.process],
            subjects[row.subject],
            pcs[row.site],
            callee,
            seen,
        )?;
    }
    Ok(())
}
