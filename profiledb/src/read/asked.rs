//! Which chunks a question is about, by their index.

use rusqlite::{Row, params};

use super::file::File;
use super::referred::Referred;
use crate::chunk::{ChunkKind, bucket_of, code_bucket_of};
use crate::tables::stored::{CHUNK, CODE};
use crate::{Error, to_sql};

/// Rows with encodings that tell whether a file is what was profiled: each has those of 64 KiB of
/// code.
const SOME_CODE: usize = 16;

impl File<'_> {
    fn reads(&self, kind: ChunkKind) -> bool {
        match kind {
            ChunkKind::Cycles => self.kinds.cycles,
            ChunkKind::Values | ChunkKind::Keyed => self.kinds.values,
            ChunkKind::Branches => self.kinds.branches,
            ChunkKind::Calls => self.kinds.calls,
            ChunkKind::Stacks => self.kinds.stacks,
        }
    }

    /// The ids of the chunks that may have rows for the question, in their order; `None`: all may.
    pub(super) fn asked_chunks(&self, referred: &Referred) -> Result<Option<Vec<i64>>, Error> {
        let places = self.filter.places.as_ref();
        if places.is_none() && ChunkKind::ALL.iter().all(|kind| self.reads(*kind)) {
            return Ok(None);
        }
        let failed = |e| Error::sqlite(self.path, e);
        let of_kind = "SELECT id FROM chunk INDEXED BY chunk_place WHERE flush = ?1 AND kind = ?2";
        let of_place = format!("{of_kind} AND image = ?3 AND bucket BETWEEN ?4 AND ?5");
        let mut of_kind = self.conn.prepare(of_kind).map_err(failed)?;
        let mut of_place = self.conn.prepare(&of_place).map_err(failed)?;
        let mut ids: Vec<i64> = Vec::new();
        let taken = referred.flushes.iter().filter(|(_, flush)| flush.taken);
        for (flush, _) in taken {
            for kind in ChunkKind::ALL.into_iter().filter(|kind| self.reads(*kind)) {
                // Shares are of all cycles, and what is called is called from anywhere.
                // A call stack has frames anywhere.
                let of_all = matches!(
                    kind,
                    ChunkKind::Cycles | ChunkKind::Calls | ChunkKind::Stacks
                );
                if places.is_none() || of_all {
                    let found = of_kind
                        .query_map(params![flush, kind.number()], |row| row.get(0))
                        .map_err(failed)?;
                    for id in found {
                        ids.push(id.map_err(failed)?);
                    }
                    continue;
                }
                for (image, first, last) in self.buckets(referred, |at| bucket_of(kind, at)) {
                    let place = params![flush, kind.number(), image, first, last];
                    let found = of_place
                        .query_map(place, |row| row.get(0))
                        .map_err(failed)?;
                    for id in found {
                        ids.push(id.map_err(failed)?);
                    }
                }
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(ids))
    }

    /// The ids of the rows with encodings that the question needs; `None`: all may have some.
    ///
    /// Who asks where the time is needs encodings for one thing: they tell whether a file is what
    /// was profiled, where no build id does. Some from all over an image tell that as well as all.
    pub(super) fn asked_code(&self, referred: &Referred) -> Result<Option<Vec<i64>>, Error> {
        let buckets: Vec<(i64, i64, i64)> = match &self.filter.places {
            Some(_) => self.buckets(referred, code_bucket_of),
            // Of few images some is needed, and mostly of none.
            None if self.filter.leaves_code() => {
                let images = referred.images.iter();
                let images = images
                    .filter(|(_, image)| image.index.is_some() && self.needs_code(&image.row));
                images.map(|(id, _)| (*id, i64::MIN, i64::MAX)).collect()
            }
            None => return Ok(None),
        };
        let failed = |e| Error::sqlite(self.path, e);
        let sql = "SELECT id FROM code INDEXED BY code_place
                   WHERE image = ?1 AND bucket BETWEEN ?2 AND ?3";
        let mut statement = self.conn.prepare(sql).map_err(failed)?;
        let mut ids: Vec<i64> = Vec::new();
        for (image, first, last) in buckets {
            let found = statement
                .query_map(params![image, first, last], |row| row.get(0))
                .map_err(failed)?;
            let found: Vec<i64> = found.collect::<Result<_, _>>().map_err(failed)?;
            let is_for_that = self.filter.is_by_instruction() && !self.kinds.values;
            let step = match is_for_that {
                true => found.len().div_ceil(SOME_CODE).max(1),
                false => 1,
            };
            ids.extend(found.into_iter().step_by(step));
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(ids))
    }

    /// The image, first and last bucket of each range of places asked for.
    fn buckets(&self, referred: &Referred, of: impl Fn(u64) -> u64) -> Vec<(i64, i64, i64)> {
        let mut buckets = Vec::new();
        for (id, image) in &referred.images {
            let places = self.filter.places.as_ref();
            let ranges = places.map(|places| places.of(&image.row));
            for (start, end) in ranges.unwrap_or_default() {
                let (first, last) = (of(*start), of(end.saturating_sub(1)));
                buckets.push((*id, to_sql(first), to_sql(last)));
            }
        }
        buckets
    }

    /// Gives the chunks of all ids from `first` to `last` to `take`.
    pub(super) fn read_chunks_of(
        &mut self,
        first: i64,
        last: i64,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let select = CHUNK.select(self.version()?);
        let sql = format!("{select} NOT INDEXED WHERE id BETWEEN ?1 AND ?2 ORDER BY id");
        let mut statement = conn.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([first, last]).map_err(failed)?;
        for id in first..=last {
            let Some(row) = rows.next().map_err(failed)? else {
                return Err(self.dangling("chunk", id));
            };
            if self.get::<i64>(row, 0)? != id {
                return Err(self.dangling("chunk", id));
            }
            self.charge_row()?;
            take(self, row)?;
        }
        Ok(())
    }

    /// Gives the rows with encodings of these ids to `take`.
    pub(super) fn read_code_of(
        &mut self,
        ids: &[i64],
        take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let sql = format!("{} WHERE id = ?1", CODE.select(self.version()?));
        self.each_of("code", &sql, ids, take)
    }

    fn each_of(
        &mut self,
        table: &str,
        sql: &str,
        ids: &[i64],
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let mut statement = conn.prepare_cached(sql).map_err(failed)?;
        for id in ids {
            let mut rows = statement.query([id]).map_err(failed)?;
            let Some(row) = rows.next().map_err(failed)? else {
                return Err(self.dangling(table, *id));
            };
            self.charge_row()?;
            take(self, row)?;
        }
        Ok(())
    }
}
