//! Epochs and flushes of the files that are joined, and which rows these become.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Connection;

use super::Times;
use crate::Error;
use crate::rollup::period::Grain;
use crate::rollup::rolled::Rolled;
use crate::rows::Epoch;
use crate::tables::stored::{COUNTER, EPOCH, FLUSH, StoredCounter, StoredFlush};
use crate::tables::{self, Record};

/// An epoch of the new file.
struct Joined {
    /// Its settings are those of the last that it is made of.
    epoch: Epoch,
    /// Ids of those that it is made of, in their order.
    ids: Vec<i64>,
    is_cut_short: bool,
}

/// A flush of the new file.
struct Span {
    epoch: usize,
    /// Its id in the new file.
    id: i64,
    time: (i64, i64),
    replaced: i64,
    counters: HashMap<(String, String), u64>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Spans {
    list: Vec<Joined>,
    spans: Vec<Span>,
    /// By input and flush: the span, and the flush's own time.
    of: HashMap<(usize, i64), (usize, (i64, i64))>,
    /// The epoch of each new flush, by their ids.
    pub(super) epochs: HashMap<i64, i64>,
    times: Times,
    seconds: i64,
    rolled: [f64; 4],
}

impl Spans {
    /// Takes the epochs and flushes of an input.
    pub(super) fn read(
        &mut self,
        index: usize,
        path: &Path,
        conn: &Connection,
        grain: Grain,
    ) -> Result<(), Error> {
        let failed = |e| Error::sqlite(path, e);
        self.seconds = grain.seconds();
        let mut places = HashMap::new();
        let version = tables::version(conn).map_err(failed)?;
        let sql = format!("{} ORDER BY id", EPOCH.select(version));
        let mut statement = conn.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, epoch) = tables::read(row).map_err(failed)?;
            let epoch = Joined::of(id, epoch);
            let place = self.list.iter().position(|known| known.is_like(&epoch));
            let place = match place {
                Some(place) => {
                    if let Some(known) = self.list.get_mut(place) {
                        known.join(epoch);
                    }
                    place
                }
                None => {
                    self.list.push(epoch);
                    self.list.len() - 1
                }
            };
            places.insert(id, place);
        }
        let sql = format!("{} ORDER BY id", FLUSH.select(version));
        let mut statement = conn.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, flush) = tables::read::<StoredFlush>(row).map_err(failed)?;
            let (epoch, time) = (flush.epoch, (flush.started, flush.ended));
            let Some(&epoch) = places.get(&epoch) else {
                let what = format!("a row refers to epoch {epoch}, which is missing");
                return Err(Error::corrupt(path, what));
            };
            let span = self.span(epoch, grain, time, flush.replaced);
            self.of.insert((index, id), (span, time));
        }
        self.read_counters(index, path, conn)
    }

    fn span(&mut self, epoch: usize, grain: Grain, time: (i64, i64), replaced: i64) -> usize {
        let period = grain.period(time.1);
        let same = |span: &Span| span.epoch == epoch && grain.period(span.time.1) == period;
        if let Some(place) = self.spans.iter().position(same)
            && let Some(span) = self.spans.get_mut(place)
        {
            span.time = (span.time.0.min(time.0), span.time.1.max(time.1));
            span.replaced += replaced;
            return place;
        }
        self.spans.push(Span {
            epoch,
            id: self.spans.len() as i64 + 1,
            time,
            replaced,
            counters: HashMap::new(),
        });
        self.spans.len() - 1
    }

    fn read_counters(&mut self, index: usize, path: &Path, conn: &Connection) -> Result<(), Error> {
        let failed = |e| Error::sqlite(path, e);
        let version = tables::version(conn).map_err(failed)?;
        let mut statement = conn.prepare(&COUNTER.select(version)).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let StoredCounter {
                flush,
                kind,
                name,
                value,
            } = StoredCounter::read(row).map_err(failed)?;
            let key = (kind, name);
            let of = self.of.get(&(index, flush));
            let Some(span) = of.and_then(|(span, _)| self.spans.get_mut(*span)) else {
                let what = format!("a row refers to flush {flush}, which is missing");
                return Err(Error::corrupt(path, what));
            };
            let sum = span.counters.entry(key).or_insert(0);
            *sum = sum.saturating_add(value);
        }
        Ok(())
    }

    /// Writes the epochs and flushes.
    pub(super) fn write(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut rows = Vec::new();
        for epoch in &self.list {
            rows.push(epoch.write(conn)?);
        }
        for span in &self.spans {
            let epoch = rows.get(span.epoch).copied().unwrap_or_default();
            let flush = StoredFlush {
                epoch,
                started: span.time.0,
                ended: span.time.1,
                grain: self.seconds,
                replaced: span.replaced,
            };
            tables::insert_as(conn, Some(span.id), &flush)?;
            self.epochs.insert(span.id, epoch);
            self.times.insert(span.id, span.time);
        }
        Ok(())
    }

    /// The new row for a flush of an input, and the flush's own time.
    pub(super) fn of(&self, index: usize, flush: i64) -> Option<(i64, (i64, i64))> {
        let (span, time) = self.of.get(&(index, flush))?;
        Some((self.spans.get(*span)?.id, *time))
    }

    /// What a new flush covers.
    pub(super) fn time(&self, target: i64) -> (i64, i64) {
        self.times.get(&target).copied().unwrap_or_default()
    }

    /// Something that differs from file to file: what coins begin with.
    pub(super) fn seed(&self) -> u64 {
        let ended = self.spans.iter().map(|span| span.time.1).max();
        ended.unwrap_or_default().cast_unsigned()
    }

    /// Takes note of lists that were left out.
    pub(super) fn count(&mut self, rolled: &Rolled) {
        let more = [
            rolled.all.0 as f64,
            rolled.all.1,
            rolled.left_out.0 as f64,
            rolled.left_out.1,
        ];
        for (sum, more) in self.rolled.iter_mut().zip(more) {
            *sum += more;
        }
    }

    /// Writes the counters. What was left out of the whole file is with its last flush.
    pub(super) fn write_counters(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let names = [
            "rolled_lists",
            "rolled_events",
            "rolled_lists_left_out",
            "rolled_events_left_out",
        ];
        if let Some(last) = self.spans.last_mut() {
            for (name, count) in names.into_iter().zip(self.rolled) {
                let key = ("storage".to_owned(), name.to_owned());
                let sum = last.counters.entry(key).or_insert(0);
                *sum = sum.saturating_add(count as u64);
            }
        }
        for span in &self.spans {
            crate::rollup::add_counters(conn, span.id, &span.counters)?;
        }
        Ok(())
    }
}

impl Joined {
    fn of(id: i64, mut epoch: Epoch) -> Joined {
        epoch.ended = epoch.ended.or(Some(epoch.started));
        // Those that it was made of itself stay known.
        let mut ids = std::mem::take(&mut epoch.settings.joined);
        ids.retain(|known| *known != id);
        ids.push(id);
        Joined {
            is_cut_short: epoch.is_cut_short(),
            epoch,
            ids,
        }
    }

    /// Whether both are to be one: their numbers mean the same.
    fn is_like(&self, other: &Joined) -> bool {
        self.epoch.key() == other.epoch.key()
    }

    fn join(&mut self, other: Joined) {
        self.ids.extend(other.ids);
        self.epoch.started = self.epoch.started.min(other.epoch.started);
        self.epoch.ended = self.epoch.ended.max(other.epoch.ended);
        self.epoch.settings = other.epoch.settings;
        self.is_cut_short |= other.is_cut_short;
    }

    /// Its row. It has the id of the last that it is made of, unless another has it, and names all
    /// of them.
    fn write(&self, conn: &Connection) -> rusqlite::Result<i64> {
        let mut epoch = self.epoch.clone();
        epoch.settings.joined.clone_from(&self.ids);
        epoch.settings.cut_short = self.is_cut_short;
        let last = self.ids.last().copied();
        let is_taken = match last {
            Some(id) => tables::get::<Epoch>(conn, id)?.is_some(),
            None => true,
        };
        tables::insert_as(conn, last.filter(|_| !is_taken), &epoch)
    }
}
