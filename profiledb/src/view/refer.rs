//! What the rows of a source refer to: judged once, and put into the view when a row that
//! goes there refers to it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, named_params, params, params_from_iter};

use super::Stop;
use super::copy::Copy;
use super::target::{LastEpoch, Target};
use crate::chunk::{Kind, bucket_of};
use crate::rows::{Image, ImageKind, Subject};
use crate::{Error, MAX_INSTRUCTION, from_sql, open};

/// The settings that epochs have for those who may not know them: it tells a counter that is
/// withheld from one that is 0.
const WITHHELD: &str = r#"{"withheld":true}"#;

/// A flush of the source that was asked for.
pub(super) struct FlushOfSource {
    /// Its epoch in the view.
    epoch: i64,
    pub(super) started: i64,
    pub(super) ended: i64,
    grain: i64,
    replaced: i64,
    /// Its id in the view, once it is there.
    pub(super) id: Option<i64>,
    /// Interrupts that the view shows of it.
    pub(super) samples: u64,
}

/// An access tag that the viewer may see and asked for.
pub(super) struct SubjectOfSource {
    row: Subject,
    id: Option<i64>,
}

/// An image of the source.
pub(super) struct ImageOfSource {
    pub(super) row: Image,
    kind: String,
    /// Whether the filter takes it.
    pub(super) wanted: bool,
    /// All addresses are asked for, else those in the ranges.
    all: bool,
    ranges: Vec<(u64, u64)>,
    pub(super) id: Option<i64>,
    /// Addresses of its PCs in the view, where names may be needed for them.
    pub(super) addresses: Vec<u64>,
}

impl ImageOfSource {
    /// Its id in the view, where it is put if it is not there yet.
    pub(super) fn put(&mut self, view: &mut Target) -> Result<i64, Stop> {
        match self.id {
            Some(id) => Ok(id),
            None => Ok(*self.id.insert(view.image(&self.row, &self.kind)?)),
        }
    }

    /// Whether rows of a bucket may be asked for.
    pub(super) fn may_want(&self, kind: Kind, bucket: u64) -> bool {
        let overlaps = |(start, end): &(u64, u64)| {
            (bucket_of(kind, *start)..=bucket_of(kind, end.saturating_sub(1))).contains(&bucket)
        };
        self.wanted && (self.all || self.ranges.iter().any(overlaps))
    }

    /// Whether all of its addresses are asked for.
    pub(super) fn wants_all(&self) -> bool {
        self.wanted && self.all
    }

    /// Whether its address is asked for.
    pub(super) fn wants(&self, address: u64) -> bool {
        self.wanted && (self.all || self.is_in_range(address))
    }

    /// Whether it is asked for by its address.
    pub(super) fn is_in_range(&self, address: u64) -> bool {
        let in_range = |(start, end): &(u64, u64)| (*start..*end).contains(&address);
        self.wanted && self.ranges.iter().any(in_range)
    }
}

/// An instruction of the source.
#[derive(Clone, Copy)]
pub(super) struct PcOfSource {
    pub(super) kernel: bool,
    pub(super) wanted: bool,
    /// Whether its image is, whatever addresses are.
    pub(super) of_wanted_image: bool,
    /// Whether it is wanted for its address.
    pub(super) is_in_range: bool,
    id: Option<i64>,
}

/// An instruction's image, address and encoding.
pub(super) type PcRow = (i64, i64, Option<Vec<u8>>);

impl Copy<'_> {
    /// Puts the epochs into the view, and notes which flushes are wanted.
    pub(super) fn epochs(&mut self) -> Result<(), Stop> {
        let filter = Rc::clone(&self.filter);
        let mut epochs = Vec::new();
        let mut last = None;
        self.each(
            "SELECT id, started, ended, host, kernel, iif(:all, command, ''), engine, clock, unit,
                    cycles_per_unit, period, window,
                    CASE WHEN :all THEN settings
                         WHEN iif(json_valid(settings), json_extract(settings, '$.cut_short'), 0)
                         THEN json_set(:withheld, '$.cut_short', json('true'))
                         ELSE :withheld END
             FROM epoch NOT INDEXED ORDER BY id",
            named_params! { ":all": self.viewer.is_privileged(), ":withheld": WITHHELD },
            |copy, row| {
                let of_source: i64 = copy.get(row, 0)?;
                let id = copy.view.epoch_id(of_source);
                let mut columns = vec![Value::from(id)];
                for column in 1..13 {
                    columns.push(copy.get(row, column)?);
                }
                last = Some((of_source, id, columns.clone(), copy.get(row, 1)?));
                if filter.takes_epoch(id) {
                    epochs.push((of_source, id, columns));
                }
                Ok(())
            },
        )?;
        let ids: HashMap<i64, i64> = epochs.iter().map(|(old, new, _)| (*old, *new)).collect();
        let saved = self.read_flushes(&ids)?;
        if let Some((of_source, id, columns, started)) = last {
            self.view.last_epoch = Some(LastEpoch {
                id,
                is_there: false,
                columns,
                started,
                saved: saved.get(&of_source).copied(),
            });
        }
        let with_flushes: HashSet<i64> = self.flushes.values().map(|flush| flush.epoch).collect();
        for (_, id, columns) in epochs {
            if filter.is_timed() && !with_flushes.contains(&id) {
                continue;
            }
            self.put_epoch(id, columns)?;
        }
        self.put_cut(&with_flushes)
    }

    /// Puts the flush into the view that the time asked for ends within, without rows: so its
    /// reader knows that more of that time is not to be had.
    fn put_cut(&mut self, with_flushes: &HashSet<i64>) -> Result<(), Stop> {
        if let Some((epoch, started, ended, grain)) = self.cut.take()
            && with_flushes.contains(&epoch)
        {
            // What it was made of is nobody's matter who sees nothing of it.
            self.view.insert(
                "INSERT INTO flush (epoch, started, ended, grain, replaced)
                 VALUES (?1, ?2, ?3, ?4, 1)",
                params![epoch, started, ended, grain],
            )?;
        }
        Ok(())
    }

    fn put_epoch(&mut self, id: i64, columns: Vec<Value>) -> Result<(), Stop> {
        self.view.insert(
            "INSERT INTO epoch (id, started, ended, host, kernel, command, engine, clock,
                                unit, cycles_per_unit, period, window, settings)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            params_from_iter(columns),
        )?;
        if let Some(last) = self.view.last_epoch.as_mut().filter(|last| last.id == id) {
            last.is_there = true;
        }
        Ok(())
    }

    /// Goes on with the last epoch of the sources before: with the flushes that these lack.
    pub(super) fn go_on(&mut self) -> Result<(), Stop> {
        let mut own = None;
        self.each("SELECT id, started FROM epoch", [], |copy, row| {
            let (id, started): (i64, i64) = (copy.get(row, 0)?, copy.get(row, 1)?);
            own = Some((id, started));
            Ok(())
        })?;
        let last = self.view.last_epoch.as_ref();
        let (Some((of_source, started)), Some(last)) = (own, last) else {
            return Ok(());
        };
        let (id, saved) = (last.id, last.saved);
        if started != last.started || !self.filter.takes_epoch(id) {
            return Ok(());
        }
        self.read_flushes(&HashMap::from([(of_source, id)]))?;
        self.flushes
            .retain(|_, flush| saved.is_none_or(|saved| flush.started >= saved));
        let columns = self
            .view
            .last_epoch
            .as_ref()
            .filter(|last| !last.is_there)
            .map(|last| last.columns.clone());
        if let Some(columns) = columns.filter(|_| !self.flushes.is_empty()) {
            self.put_epoch(id, columns)?;
        }
        Ok(())
    }

    /// Notes the flushes of these epochs that are wanted, and says when the last of each epoch
    /// ended.
    fn read_flushes(&mut self, epochs: &HashMap<i64, i64>) -> Result<HashMap<i64, i64>, Stop> {
        let filter = Rc::clone(&self.filter);
        let mut saved: HashMap<i64, i64> = HashMap::new();
        let grain = match open::has_chunks(self.source).map_err(|e| self.failed(e))? {
            true => "grain, replaced",
            false => "0, 1",
        };
        let sql =
            format!("SELECT id, epoch, started, ended, {grain} FROM flush NOT INDEXED ORDER BY id");
        self.each(&sql, [], |copy, row| {
            let (id, epoch): (i64, i64) = (copy.get(row, 0)?, copy.get(row, 1)?);
            let (started, ended): (i64, i64) = (copy.get(row, 2)?, copy.get(row, 3)?);
            let last = saved.entry(epoch).or_insert(ended);
            *last = ended.max(*last);
            let grain: i64 = copy.get(row, 4)?;
            if let Some(&epoch) = epochs.get(&epoch)
                && filter.takes_time(ended)
            {
                let flush = FlushOfSource {
                    epoch,
                    started,
                    ended,
                    grain,
                    replaced: copy.get(row, 5)?,
                    id: None,
                    samples: 0,
                };
                copy.flushes.insert(id, flush);
            } else if let Some(&epoch) = epochs.get(&epoch)
                && grain > 0
                && filter.cuts(started, ended)
            {
                copy.cut = Some((epoch, started, ended, grain));
            }
            Ok(())
        })?;
        Ok(saved)
    }

    /// Notes the access tags whose rows go into the view.
    pub(super) fn read_subjects(&mut self) -> Result<(), Stop> {
        let filter = Rc::clone(&self.filter);
        self.each(
            "SELECT id, uid, gid, euid, egid, suid, dumpable, capable, kernel
             FROM subject NOT INDEXED",
            [],
            |copy, row| {
                let subject = Subject {
                    uid: copy.get(row, 1)?,
                    gid: copy.get(row, 2)?,
                    euid: copy.get(row, 3)?,
                    egid: copy.get(row, 4)?,
                    suid: copy.get(row, 5)?,
                    dumpable: copy.get(row, 6)?,
                    capable: copy.get(row, 7)?,
                    kernel: copy.get(row, 8)?,
                };
                if copy.viewer.may_see(&subject) && filter.takes_subject(&subject) {
                    let row_of_source = SubjectOfSource {
                        row: subject,
                        id: None,
                    };
                    copy.subjects.insert(copy.get(row, 0)?, row_of_source);
                }
                Ok(())
            },
        )
    }

    /// Notes the processes asked for, if not all are.
    pub(super) fn read_pids(&mut self) -> Result<(), Stop> {
        if self.filter.pids.is_empty() {
            return Ok(());
        }
        let mut wanted = HashSet::new();
        self.each(
            "SELECT id, pid FROM process NOT INDEXED",
            [],
            |copy, row| {
                if copy.filter.takes_pid(copy.get(row, 1)?) {
                    wanted.insert(copy.get(row, 0)?);
                }
                Ok(())
            },
        )?;
        self.wanted_processes = Some(wanted);
        Ok(())
    }

    pub(super) fn read_images(&mut self) -> Result<(), Stop> {
        let sql = "SELECT id, kind, path, build_id, identity FROM image NOT INDEXED";
        self.each(sql, [], |copy, row| {
            let id: i64 = copy.get(row, 0)?;
            let kind: String = copy.get(row, 1)?;
            let image = Image {
                kind: match kind.as_str() {
                    "file" => ImageKind::File,
                    "vdso" => ImageKind::Vdso,
                    "kernel" => ImageKind::Kernel,
                    "anon" => ImageKind::Anon,
                    _ => return Err(copy.corrupt(format!("image {id} is of no known kind"))),
                },
                path: copy.get(row, 2)?,
                build_id: copy.get(row, 3)?,
                identity: copy.get(row, 4)?,
            };
            let selection = copy.selection;
            let ranges: Vec<(u64, u64)> = selection
                .ranges
                .iter()
                .filter(|range| image.is_named(&range.image))
                .map(|range| (range.start, range.end))
                .collect();
            let image = ImageOfSource {
                wanted: copy.filter.takes_image(&image),
                all: selection.ranges.is_empty(),
                row: image,
                kind,
                ranges,
                id: None,
                addresses: Vec::new(),
            };
            copy.images.insert(id, image);
            Ok(())
        })
    }

    /// What is known of an instruction.
    pub(super) fn pc(&mut self, id: i64) -> Result<PcOfSource, Stop> {
        if let Some(pc) = self.pcs.get(&id) {
            return Ok(*pc);
        }
        let row = self.pc_row(id)?;
        let Some(image) = self.images.get(&row.0) else {
            return Err(self.dangling("image", row.0));
        };
        let address = from_sql(row.1);
        let is_in_range = image.is_in_range(address);
        let pc = PcOfSource {
            kernel: image.row.kind == ImageKind::Kernel,
            wanted: image.wants(address),
            of_wanted_image: image.wanted,
            is_in_range,
            id: None,
        };
        self.pcs.insert(id, pc);
        // It may be wanted in a moment: a row has two at most.
        self.read.swap(0, 1);
        self.read[0] = Some((id, row));
        Ok(pc)
    }

    fn pc_row(&self, id: i64) -> Result<PcRow, Stop> {
        let found = self
            .source
            .prepare_cached("SELECT image, address, bytes FROM pc WHERE id = ?1")
            .and_then(|mut statement| {
                let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                statement.query_row([id], row).optional()
            });
        match found.map_err(|e| self.failed(e))? {
            Some((_, _, Some(bytes))) if !(1..=MAX_INSTRUCTION).contains(&Vec::len(&bytes)) => {
                let detail = format!("pc {id} is an instruction of {} bytes", bytes.len());
                Err(self.corrupt(detail))
            }
            Some(row) => Ok(row),
            None => Err(self.dangling("pc", id)),
        }
    }

    /// The instruction's id in the view, where it is put if it is not there yet.
    pub(super) fn put_pc(&mut self, id: i64) -> Result<i64, Stop> {
        let pc = self.pc(id)?;
        if let Some(id) = pc.id {
            return Ok(id);
        }
        let is_it = |read: &&mut Option<(i64, PcRow)>| matches!(read, Some((of, _)) if *of == id);
        let (of_source, address, bytes) = match self.read.iter_mut().find(is_it) {
            Some(read) => match read.take() {
                Some((_, row)) => row,
                None => self.pc_row(id)?,
            },
            None => self.pc_row(id)?,
        };
        let image_id = self.put_image(of_source)?;
        let Some(image) = self.images.get_mut(&of_source) else {
            return Err(self.dangling("image", of_source));
        };
        if self.with_names.contains(&of_source) {
            image.addresses.push(from_sql(address));
        }
        let new = self.view.pc(image_id, address, bytes.as_deref())?;
        self.pcs.insert(
            id,
            PcOfSource {
                id: Some(new),
                ..pc
            },
        );
        Ok(new)
    }

    /// The image's id in the view, where it is put if it is not there yet.
    pub(super) fn put_image(&mut self, of_source: i64) -> Result<i64, Stop> {
        match self.images.get_mut(&of_source) {
            Some(image) => image.put(self.view),
            None => Err(self.dangling("image", of_source)),
        }
    }

    /// The flush's id in the view, where it is put if it is not there yet.
    pub(super) fn put_flush(&mut self, id: i64) -> Result<i64, Stop> {
        let Some(flush) = self.flushes.get_mut(&id) else {
            return Err(self.dangling("flush", id));
        };
        if let Some(id) = flush.id {
            return Ok(id);
        }
        let new = self.view.insert(
            "INSERT INTO flush (epoch, started, ended, grain, replaced)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                flush.epoch,
                flush.started,
                flush.ended,
                flush.grain,
                flush.replaced
            ],
        )?;
        flush.id = Some(new);
        Ok(new)
    }

    /// The access tag's id in the view, where it is put if it is not there yet.
    pub(super) fn put_subject(&mut self, id: i64) -> Result<i64, Stop> {
        let Some(subject) = self.subjects.get_mut(&id) else {
            return Err(self.dangling("subject", id));
        };
        match subject.id {
            Some(id) => Ok(id),
            None => Ok(*subject.id.insert(self.view.subject(&subject.row)?)),
        }
    }

    /// The process's id in the view, where it is put if it is not there yet.
    pub(super) fn put_process(&mut self, id: i64, flush: i64) -> Result<i64, Stop> {
        if let Some(id) = self.processes.get(&id) {
            return Ok(*id);
        }
        let found = self
            .source
            .prepare_cached("SELECT pid, started, execs, comm FROM process WHERE id = ?1")
            .and_then(|mut statement| {
                let row = |row: &Row<'_>| {
                    let columns: (i64, i64, i64, String) =
                        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
                    Ok(columns)
                };
                statement.query_row([id], row).optional()
            });
        let Some((pid, started, execs, comm)) = found.map_err(|e| self.failed(e))? else {
            return Err(self.dangling("process", id));
        };
        let Some(flush) = self.flushes.get(&flush) else {
            return Err(self.dangling("flush", flush));
        };
        let key = (flush.epoch, pid, started, execs);
        // What the collector has saved may have the process already.
        let known = match self.is_newest {
            true => self.view.process(key)?,
            false => None,
        };
        let new = match known {
            Some(id) => id,
            None => self.view.insert(
                "INSERT INTO process (epoch, pid, started, execs, comm)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![flush.epoch, pid, started, execs, comm],
            )?,
        };
        self.processes.insert(id, new);
        Ok(new)
    }

    pub(super) fn failed(&self, error: rusqlite::Error) -> Stop {
        Stop::Source(Error::sqlite(self.path, error))
    }

    pub(super) fn corrupt(&self, detail: String) -> Stop {
        Stop::Source(Error::corrupt(self.path, detail))
    }

    pub(super) fn dangling(&self, table: &str, id: i64) -> Stop {
        self.corrupt(format!("a row refers to {table} {id}, which is missing"))
    }
}
