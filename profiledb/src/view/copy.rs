//! One database into the view: which of its rows, and as what.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use rusqlite::{Connection, Params, Row, Rows};
use selection::Selection;

use super::chunks::Elsewhere;
use super::refer::{FlushOfSource, ImageOfSource, PcOfSource, SubjectOfSource};
use super::target::Target;
use super::{Stop, Viewer};
use crate::tables::stored::{
    CHUNK, CODE, REGION, SYMBOL, StoredBranch, StoredCall, StoredCounter, StoredCycles,
    StoredHotlist, StoredPc, StoredSymbol, StoredTuple, TUPLE,
};
use crate::tables::{self, Counted, Record, References, Shown};
use crate::{Filter, from_sql};

/// One database on its way into the view.
pub(super) struct Copy<'a> {
    pub(super) path: &'a Path,
    pub(super) source: &'a Connection,
    pub(super) view: &'a mut Target,
    pub(super) viewer: Viewer,
    pub(super) selection: &'a Selection,
    /// What it says of whole rows.
    pub(super) filter: Rc<Filter>,
    /// It is what the last epoch of the sources before has not saved yet.
    pub(super) is_newest: bool,
    pub(super) flushes: HashMap<i64, FlushOfSource>,
    /// Epoch in the view, begin, end and grain of the roll-up that the time asked for ends within.
    pub(super) cut: Option<(i64, i64, i64, i64)>,
    pub(super) subjects: HashMap<i64, SubjectOfSource>,
    pub(super) images: HashMap<i64, ImageOfSource>,
    /// Images that the source has names for.
    pub(super) with_names: HashSet<i64>,
    /// `None`: all.
    pub(super) wanted_processes: Option<HashSet<i64>>,
    pub(super) processes: HashMap<i64, i64>,
    pub(super) pcs: HashMap<i64, PcOfSource>,
    /// Rows of the table `parameter` by those of the source.
    pub(super) parameters: HashMap<i64, i64>,
    /// Addresses of PCs that chunks of the view have, by the images of the source.
    pub(super) shown: HashMap<i64, HashSet<u64>>,
    /// By flush, image and access tag of the source.
    pub(super) elsewhere: BTreeMap<(i64, i64, i64), Elsewhere>,
    /// PCs that were just read.
    pub(super) read: [Option<(i64, StoredPc)>; 2],
}

/// The tuples of all lists, in the order of these.
struct Tuples<'s> {
    rows: Rows<'s>,
    /// One that was read already.
    next: Option<StoredTuple>,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        path: &'a Path,
        source: &'a Connection,
        view: &'a mut Target,
        viewer: Viewer,
        selection: &'a Selection,
    ) -> Self {
        Copy {
            path,
            source,
            view,
            viewer,
            selection,
            filter: Rc::new(Filter::from(selection)),
            is_newest: false,
            flushes: HashMap::new(),
            cut: None,
            subjects: HashMap::new(),
            images: HashMap::new(),
            with_names: HashSet::new(),
            wanted_processes: None,
            processes: HashMap::new(),
            pcs: HashMap::new(),
            parameters: HashMap::new(),
            shown: HashMap::new(),
            elsewhere: BTreeMap::new(),
            read: [None, None],
        }
    }

    /// It is what the last epoch of the sources before has not saved yet.
    pub(super) fn of_newest(mut self) -> Self {
        self.is_newest = true;
        self
    }

    pub(super) fn run(mut self) -> Result<(), Stop> {
        match self.is_newest {
            true => self.go_on()?,
            false => self.epochs()?,
        }
        if self.flushes.is_empty() {
            return Ok(());
        }
        self.read_subjects()?;
        self.read_pids()?;
        self.read_images()?;
        if self.viewer.is_privileged() && self.selection.kinds.is_none() {
            return self.outline();
        }
        self.each("SELECT DISTINCT image FROM symbol", [], |copy, row| {
            copy.with_names
                .insert(row.get(0).map_err(|e| copy.failed(e))?);
            Ok(())
        })?;
        let kinds = self.selection.kinds;
        if kinds.cycles {
            self.cycles()?;
        }
        if kinds.values {
            self.hotlists()?;
        }
        if kinds.branches {
            self.branches()?;
        }
        if kinds.calls {
            self.calls()?;
        }
        let version = self.version()?;
        if CHUNK.is_in(version) {
            self.chunks()?;
        }
        if kinds.values && REGION.is_in(version) {
            self.regions()?;
        }
        if kinds.counters {
            self.counters()?;
        }
        if CODE.is_in(version) {
            self.code()?;
        }
        self.symbols()
    }

    /// All images and names: what has to be known to ask for less than all rows.
    fn outline(&mut self) -> Result<(), Stop> {
        let images: Vec<i64> = self.images.keys().copied().collect();
        for image in images {
            self.put_image(image)?;
        }
        self.rows("", |copy, _, row: StoredSymbol| {
            let image = copy.put_image(row.image)?;
            copy.view.merge(&StoredSymbol { image, ..row })
        })
    }

    /// What a row refers to: as in the source, less what the viewer may not see. `None`: it is not
    /// for this view.
    fn judge(
        &mut self,
        row: &impl Counted,
        is_wanted: fn(PcOfSource, Option<PcOfSource>) -> bool,
    ) -> Result<Option<References>, Stop> {
        let of = row.references();
        let processes = self.wanted_processes.as_ref();
        if !self.subjects.contains_key(&of.subject)
            || !self.flushes.contains_key(&of.flush)
            || processes.is_some_and(|wanted| !wanted.contains(&of.process))
        {
            return Ok(None);
        }
        let at = self.pc(of.pc)?;
        let sees_kernel = self.viewer.is_privileged();
        if at.kernel && !sees_kernel {
            return Ok(None);
        }
        let seen = of.other.map(|id| self.pc(id)).transpose()?;
        let seen = seen.filter(|other| sees_kernel || !other.kernel);
        if !is_wanted(at, seen) {
            return Ok(None);
        }
        let other = of.other.filter(|_| seen.is_some());
        Ok(Some(References { other, ..of }))
    }

    /// Has a row refer to what it does in the view, where that is put if it is not there yet.
    /// Returns whether the row is for this view.
    fn place<R: Counted>(
        &mut self,
        row: &mut R,
        is_wanted: fn(PcOfSource, Option<PcOfSource>) -> bool,
    ) -> Result<bool, Stop> {
        const { assert!(matches!(R::TABLE.shown, Shown::Tagged)) };
        let Some(of) = self.judge(row, is_wanted)? else {
            return Ok(false);
        };
        row.refer(References {
            flush: self.put_flush(of.flush)?,
            process: self.put_process(of.process, of.flush)?,
            subject: self.put_subject(of.subject)?,
            pc: self.put_pc(of.pc)?,
            other: of.other.map(|id| self.put_pc(id)).transpose()?,
        });
        Ok(true)
    }

    fn cycles(&mut self) -> Result<(), Stop> {
        self.rows("ORDER BY rowid", |copy, _, mut row: StoredCycles| {
            let flush = row.flush;
            // Shares are of all of them, wherever they are.
            if !copy.place(&mut row, |at, _| at.of_wanted_image)? {
                return Ok(());
            }
            copy.count(flush, row.samples);
            copy.view.add(&row)
        })
    }

    fn hotlists(&mut self) -> Result<(), Stop> {
        // In the same order, so that one walk over the tuples is enough for all lists.
        let select = TUPLE.select(self.version()?);
        let mut tuples = self
            .source
            .prepare(&format!("{select} ORDER BY hotlist, rank"))
            .map_err(|e| self.failed(e))?;
        let mut tuples = Tuples {
            rows: tuples.query([]).map_err(|e| self.failed(e))?,
            next: None,
        };
        self.rows("ORDER BY id", |copy, id, mut row: StoredHotlist| {
            if !copy.place(&mut row, |at, _| at.wanted)? {
                return Ok(());
            }
            let new = copy.view.insert(&row)?;
            copy.tuples(&mut tuples, id, new)
        })
    }

    /// Copies the tuples of a list; those of lists before it are passed over.
    fn tuples(
        &mut self,
        tuples: &mut Tuples<'_>,
        of_source: i64,
        hotlist: i64,
    ) -> Result<(), Stop> {
        loop {
            let tuple = match tuples.next.take() {
                Some(tuple) => tuple,
                None => match tuples.rows.next().map_err(|e| self.failed(e))? {
                    None => return Ok(()),
                    Some(row) => {
                        self.view.look_at_limits()?;
                        StoredTuple::read(row).map_err(|e| self.failed(e))?
                    }
                },
            };
            if tuple.hotlist > of_source {
                tuples.next = Some(tuple);
                return Ok(());
            }
            if tuple.hotlist == of_source {
                self.view.add(&StoredTuple { hotlist, ..tuple })?;
            }
        }
    }

    fn branches(&mut self) -> Result<(), Stop> {
        self.rows(
            "ORDER BY rowid",
            |copy, _, mut row: StoredBranch| match copy.place(&mut row, |at, _| at.wanted)? {
                true => copy.view.add(&row),
                false => Ok(()),
            },
        )
    }

    fn calls(&mut self) -> Result<(), Stop> {
        self.rows("ORDER BY rowid", |copy, _, mut row: StoredCall| {
            // Who asks for a function asks who calls it as well.
            let is_wanted = copy.place(&mut row, |site, callee| {
                site.wanted || callee.is_some_and(|callee| callee.is_in_range)
            })?;
            match is_wanted {
                true => copy.view.add(&row),
                false => Ok(()),
            }
        })
    }

    /// Counts the interrupts that the view would show.
    fn count_samples(&mut self) -> Result<(), Stop> {
        self.rows("", |copy, _, row: StoredCycles| {
            if copy.judge(&row, |at, _| at.of_wanted_image)?.is_some() {
                copy.put_flush(row.flush)?;
                copy.count(row.flush, row.samples);
            }
            Ok(())
        })?;
        match CHUNK.is_in(self.version()?) {
            true => self.count_packed(),
            false => Ok(()),
        }
    }

    pub(super) fn count(&mut self, flush: i64, samples: u64) {
        if let Some(flush) = self.flushes.get_mut(&flush) {
            flush.samples = flush.samples.saturating_add(samples);
        }
    }

    fn counters(&mut self) -> Result<(), Stop> {
        if !self.viewer.is_privileged() {
            if !self.selection.kinds.cycles {
                self.count_samples()?;
            }
            for flush in self.flushes.values() {
                if let Some(id) = flush.id {
                    self.view.add(&StoredCounter {
                        flush: id,
                        kind: "run".to_owned(),
                        name: "samples".to_owned(),
                        value: flush.samples,
                    })?;
                }
            }
            return Ok(());
        }
        self.rows("ORDER BY flush", |copy, _, row: StoredCounter| {
            if !copy.flushes.contains_key(&row.flush) {
                return Ok(());
            }
            let flush = copy.put_flush(row.flush)?;
            copy.view.add(&StoredCounter { flush, ..row })
        })
    }

    /// The names of the functions around the PCs of the view.
    fn symbols(&mut self) -> Result<(), Stop> {
        for (id, image) in &mut self.images {
            if self.with_names.contains(id)
                && let Some(shown) = self.shown.get(id)
            {
                image.addresses.extend(shown);
            }
            image.addresses.sort_unstable();
        }
        // By address as it is stored: of one image all are on the same side of 0.
        let columns = "lead(address) OVER (PARTITION BY image ORDER BY address)";
        let select = SYMBOL.select_with(self.version()?, columns);
        self.each(&select, [], |copy, row| {
            let (_, symbol) = copy.record::<StoredSymbol>(row)?;
            let next = row.get(SYMBOL.columns.len() + 1);
            let next: Option<i64> = next.map_err(|e| copy.failed(e))?;
            let start = symbol.address;
            let end = match symbol.size {
                0 => next.map_or(u64::MAX, from_sql),
                size => start.saturating_add(size),
            };
            match copy.image_with_code(symbol.image, start, end) {
                Some(image) => copy.view.merge(&StoredSymbol { image, ..symbol }),
                None => Ok(()),
            }
        })
    }

    /// The image's id in the view if that has a PC between these addresses.
    fn image_with_code(&self, of_source: i64, start: u64, end: u64) -> Option<i64> {
        let image = self.images.get(&of_source)?;
        let first = image.addresses.partition_point(|address| *address < start);
        let address = image.addresses.get(first)?;
        image.id.filter(|_| *address < end)
    }

    /// Gives the rows of a query on the source to `take`, one by one.
    pub(super) fn each(
        &mut self,
        sql: &str,
        values: impl Params,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let source = self.source;
        let mut statement = source.prepare_cached(sql).map_err(|e| self.failed(e))?;
        let mut rows = statement.query(values).map_err(|e| self.failed(e))?;
        while let Some(row) = rows.next().map_err(|e| self.failed(e))? {
            self.view.look_at_limits()?;
            take(self, row)?;
        }
        Ok(())
    }

    /// Gives the rows of a table of the source with their ids to `take`, one by one; `more` stands
    /// behind the table in the statement.
    pub(super) fn rows<R: Record>(
        &mut self,
        more: &str,
        mut take: impl FnMut(&mut Self, i64, R) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        const { assert!(!matches!(R::TABLE.shown, Shown::Never)) };
        let sql = format!("{} NOT INDEXED {more}", R::TABLE.select(self.version()?));
        self.each(&sql, [], |copy, row| {
            let (id, row) = copy.record(row)?;
            take(copy, id, row)
        })
    }

    /// A row of a statement that begins with [`Table::select`](crate::tables::Table::select).
    pub(super) fn record<R: Record>(&self, row: &Row<'_>) -> Result<(i64, R), Stop> {
        tables::read(row).map_err(|e| self.failed(e))
    }

    /// The version of the source's schema.
    pub(super) fn version(&self) -> Result<i64, Stop> {
        tables::version(self.source).map_err(|e| self.failed(e))
    }
}
