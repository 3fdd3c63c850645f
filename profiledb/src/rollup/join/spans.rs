//! Epochs and flushes of the files that are joined, and which rows these become.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, named_params, params};

use super::Times;
use crate::rollup::bucket::Rolled;
use crate::rollup::period::Grain;
use crate::{Error, from_sql};

/// What must be the same for epochs to be one: what their numbers mean.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Likeness {
    texts: [String; 6],
    cycles_per_unit: u64,
    numbers: [i64; 2],
}

/// An epoch of the new file.
struct Epoch {
    likeness: Likeness,
    /// Ids of those that it is made of, in their order.
    ids: Vec<i64>,
    started: i64,
    ended: i64,
    cycles_per_unit: f64,
    settings: String,
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
    list: Vec<Epoch>,
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
        let mut statement = conn
            .prepare(
                "SELECT id, host, kernel, command, engine, clock, unit, cycles_per_unit, period,
                        window, started, coalesce(ended, started), settings,
                        coalesce(iif(json_valid(settings), settings ->> '$.cut_short', 0), 0)
                 FROM epoch ORDER BY id",
            )
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let epoch = epoch(row).map_err(failed)?;
            let id = epoch.ids.first().copied().unwrap_or_default();
            let place = self.list.iter().position(|e| e.likeness == epoch.likeness);
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
        let mut statement = conn
            .prepare("SELECT id, epoch, started, ended, replaced FROM flush ORDER BY id")
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let get = |column| row.get::<_, i64>(column).map_err(failed);
            let (id, epoch, time) = (get(0)?, get(1)?, (get(2)?, get(3)?));
            let Some(&epoch) = places.get(&epoch) else {
                let what = format!("a row refers to epoch {epoch}, which is missing");
                return Err(Error::corrupt(path, what));
            };
            let span = self.span(epoch, grain, time, get(4)?);
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
        let mut statement = conn
            .prepare("SELECT flush, kind, name, value FROM counter")
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let flush: i64 = row.get(0).map_err(failed)?;
            let key = (row.get(1).map_err(failed)?, row.get(2).map_err(failed)?);
            let value = from_sql(row.get(3).map_err(failed)?);
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
            conn.execute(
                "INSERT INTO flush (id, epoch, started, ended, grain, replaced)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    span.id,
                    epoch,
                    span.time.0,
                    span.time.1,
                    self.seconds,
                    span.replaced
                ],
            )?;
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

fn epoch(row: &rusqlite::Row<'_>) -> rusqlite::Result<Epoch> {
    let cycles_per_unit: f64 = row.get(7)?;
    let mut texts = <[String; 6]>::default();
    for (column, text) in (1..).zip(&mut texts) {
        *text = row.get(column)?;
    }
    Ok(Epoch {
        likeness: Likeness {
            texts,
            cycles_per_unit: cycles_per_unit.to_bits(),
            numbers: [row.get(8)?, row.get(9)?],
        },
        ids: vec![row.get(0)?],
        started: row.get(10)?,
        ended: row.get(11)?,
        cycles_per_unit,
        settings: row.get(12)?,
        is_cut_short: row.get(13)?,
    })
}

impl Epoch {
    fn join(&mut self, other: Epoch) {
        self.ids.extend(other.ids);
        self.started = self.started.min(other.started);
        self.ended = self.ended.max(other.ended);
        self.settings = other.settings;
        self.is_cut_short |= other.is_cut_short;
    }

    /// Its row. It has the id of the last that it is made of, and names all of them.
    fn write(&self, conn: &Connection) -> rusqlite::Result<i64> {
        let Likeness { texts, numbers, .. } = &self.likeness;
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        conn.execute(
            "INSERT INTO epoch (id, started, ended, host, kernel, command, engine, clock, unit,
                                cycles_per_unit, period, window, settings)
             VALUES (iif(EXISTS (SELECT 1 FROM epoch WHERE id = :id), NULL, :id),
                     :started, :ended, :host, :kernel, :command, :engine, :clock, :unit,
                     :cycles_per_unit, :period, :window,
                     iif(json_valid(:settings),
                         json_set(:settings, '$.joined', json(:ids)), :settings))",
            named_params! {
                ":id": self.ids.last(),
                ":started": self.started,
                ":ended": self.ended,
                ":host": texts[0],
                ":kernel": texts[1],
                ":command": texts[2],
                ":engine": texts[3],
                ":clock": texts[4],
                ":unit": texts[5],
                ":cycles_per_unit": self.cycles_per_unit,
                ":period": numbers[0],
                ":window": numbers[1],
                ":settings": self.settings,
                ":ids": format!("[{}]", ids.join(",")),
            },
        )?;
        let row = conn.last_insert_rowid();
        if self.is_cut_short {
            conn.execute(
                "UPDATE epoch SET settings = iif(json_valid(settings),
                     json_set(settings, '$.cut_short', json('true')), settings) WHERE id = ?1",
                [row],
            )?;
        }
        Ok(row)
    }
}
