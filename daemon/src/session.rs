//! The loop of a collection: batches in, tables out, whoever drives it.

// Over 500 lines: the loop of a collection is told as a whole.

pub(crate) mod sleep;

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Result;
use counters::{Counter, Loss};
use profiledb::Subject;
use sampler::{Batch, Pid, Record};

use crate::session::sleep::Sleep;
use consumers::events::lost::Lost;
use consumers::tables::Wanted;
use machine::system::clock::BothClocks;
use pipeline::collector::Collector;
use pipeline::merge::Merge;
use pipeline::raw::CollectorInput;
use store::flush::Snapshot;
use store::{Saved, Store};

/// Bytes of records that may wait for the collector: some 20,000 samples. A flush of several
/// seconds loses nothing at the usual rates.
const QUEUED_BYTES: usize = 50 << 20;
/// Of a sample that brings much.
const SAMPLE_BYTES: usize = 2560;
/// Batches of which there is room for at least so many.
const FEWEST_BATCHES: usize = 64;

/// The most bytes of a batch when its reader wakes up for so many samples.
pub(crate) fn batch_bytes(samples: u32) -> usize {
    let usual = SAMPLE_BYTES.saturating_mul(samples.max(1) as usize);
    usual.min(QUEUED_BYTES / FEWEST_BATCHES)
}

/// Batches that may wait for the collector, when each has no more than so many bytes.
pub(crate) fn queue(batch_bytes: usize) -> usize {
    QUEUED_BYTES / batch_bytes
}

/// Records that are taken at once where many wait. What is left goes on waiting where room is
/// bounded, so that no more than this, and the batches of one round, waits in a second place.
/// So many are worth to wake up for, too: the more samples are looked at together, the more of them
/// are of one place.
const PIECE: usize = 16384;
/// The same in bytes: a sample of a long window brings some 4 KiB.
const PIECE_BYTES: usize = 32 << 20;

/// Pages of each CPU's ring: 4 MiB hold some 1,700 samples with their stack copies. Users without
/// privilege get what their allowance of locked memory permits.
pub(crate) const RING_PAGES: u32 = 1024;
/// How often the loop looks at what no batch announces: signals, a command, the time.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// After so many records it is seen whether it must be over.
const LOOK_RECORDS: u32 = 32;
/// How often images are looked at for changes of their file, at most.
const CHORES: Duration = Duration::from_secs(1);
/// How often names of generated code are looked for; before samples are looked at, for which only
/// what was looked at since they were taken counts, also in between, but no more often than that.
const NAMES: Duration = Duration::from_millis(100);
const NAMES_AT_LEAST: Duration = Duration::from_millis(5);

/// What a collection is for: `record` and the service drive it differently.
pub(crate) trait Driver {
    /// Looks at what no batch announces. Called every [`TICK`], or when the loop has slept.
    ///
    /// # Errors
    /// What makes it senseless to go on.
    fn look(&mut self, session: &mut Session) -> Result<()>;

    /// Begins to save what was collected. Called after each interval, and when the tables are
    /// full, unless something is being saved.
    fn flush(&mut self, session: &mut Session);

    /// What became of that.
    fn saved(&mut self, session: &mut Session, saved: Result<Saved, store::Error>);

    /// When it has to look next, if that is known.
    fn next_look(&self) -> Option<Instant>;

    /// The time between two flushes.
    fn interval(&self) -> Duration;

    /// Whether it is ending: then nothing is waited for.
    fn is_ending(&self) -> bool;

    /// When it must be over, once it is ending: what was not looked at until then is lost.
    fn deadline(&self) -> Option<Instant>;
}

/// A running collection.
pub(crate) struct Session {
    merge: Merge,
    pub(crate) collector: Collector,
    pub(crate) store: Store,
    cpus: usize,
    /// When the driver looks next.
    next_look: Instant,
    /// When names of generated code were looked for last.
    names_looked: Option<Instant>,
    /// Batches taken so far.
    pub(crate) batches: u64,
    /// Interrupts that they tell of, those included of which nothing else arrived.
    pub(crate) interrupts: u64,
    /// Bytes of the batches that were taken.
    taken_bytes: u64,
    sleep: Sleep,
    /// Records handed on since it began, and the processes that had been met then.
    handed: u32,
    met: u64,
    /// Samples from before are ignored.
    since: u64,
    /// Whether somebody wants what waits to be looked at.
    catching_up: CatchingUp,
}

/// Whether what waits is to be looked at before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CatchingUp {
    #[default]
    No,
    Asked,
    Done,
}

impl Session {
    /// A collection from these CPUs, which sleeps so long at most ([`Sleep`]).
    pub(crate) fn new(
        cpus: &[u32],
        collector: Collector,
        store: Store,
        longest_sleep: Duration,
    ) -> Self {
        Self {
            merge: Merge::new(cpus),
            collector,
            store,
            cpus: cpus.len(),
            next_look: Instant::now(),
            names_looked: None,
            batches: 0,
            interrupts: 0,
            taken_bytes: 0,
            sleep: Sleep::new(longest_sleep),
            handed: 0,
            met: 0,
            since: 0,
            catching_up: CatchingUp::No,
        }
    }

    /// Reads processes that run already. Their records come since before, so nothing is missed
    /// between.
    pub(crate) fn scan(&mut self, pids: impl IntoIterator<Item = Pid>) {
        for pid in pids {
            let now = sampler::clock_now();
            let collector = &mut self.collector;
            collector.loadmap.scan(pid, now, &mut collector.images);
            self.collector.note(&CollectorInput::Scan(pid, now));
        }
    }

    /// Takes batches until no more can come.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn collect(
        &mut self,
        batches: &Receiver<Batch>,
        driver: &mut impl Driver,
    ) -> Result<()> {
        let mut flushed = Instant::now();
        let mut next_chores = Instant::now() + CHORES;
        let mut next_names = Instant::now();
        // Without captures the pages of a sample are looked at as soon as it comes.
        let sleeps = self.collector.has_handler();
        let mut more = false;
        loop {
            // What is being saved is waited for.
            let flush_at = (!self.store.is_saving()).then(|| flushed + driver.interval());
            let pauses = sleeps && !driver.is_ending();
            let hurries = self.catching_up == CatchingUp::Asked;
            if pauses && !more && !hurries {
                self.sleep.pause([flush_at, driver.next_look()]);
            }
            let received = match pauses {
                true => self.receive(batches),
                false => self.await_batches(batches),
            };
            let had_more = std::mem::replace(&mut more, received == Received::APiece);
            // After one piece there is the next one already.
            self.collector.set_behind(pauses && had_more && more);
            let rested = hurries || self.sleep.is_over() || is_over(flush_at);
            let woken = Instant::now();
            self.hand_on(driver)?;
            if woken >= next_names {
                next_names = woken + NAMES;
                self.look_at_names(Duration::ZERO);
                self.collector.look_at_generated_code();
            }
            if !pauses || more || rested || received == Received::Last {
                // What windows see of a file is to be what it was when they were taken.
                if woken >= next_chores {
                    next_chores = woken + CHORES;
                    self.collector.look_at_images();
                }
                self.run_waiting(driver)?;
                self.collector.bounce_back(false);
                self.collector.take_steps(false);
                self.collector.take_entries(false);
                let met = self.collector.met();
                let learned = met - std::mem::replace(&mut self.met, met);
                let handed = std::mem::take(&mut self.handed);
                self.sleep = self.sleep.next(woken, handed, learned);
                if let Some(age) = self.collector.ask_again() {
                    self.sleep.shorten(age);
                }
                if hurries {
                    (self.catching_up, self.next_look) = (CatchingUp::Done, woken);
                }
            }
            if received == Received::Last {
                break;
            }
            let now = Instant::now();
            if driver.deadline().is_some_and(|deadline| now >= deadline) {
                self.discard(batches);
                return Ok(());
            }
            self.look(driver, now)?;
            if let Some(saved) = self.store.ended() {
                driver.saved(self, saved);
            }
            // The tables may have been full.
            if is_over(flush_at) && !self.store.is_saving() {
                flushed = now;
                driver.flush(self);
            }
        }
        self.merge.finish_all();
        self.hand_on(driver)?;
        self.run_waiting(driver)?;
        self.collector.bounce_back(true);
        self.collector.take_steps(true);
        self.collector.take_entries(true);
        Ok(())
    }

    /// Has what waits looked at in the next round; then it has caught up until it is asked whether
    /// it has.
    pub(crate) fn catch_up(&mut self) {
        self.catching_up = CatchingUp::Asked;
    }

    pub(crate) fn has_caught_up(&mut self) -> bool {
        let has = self.catching_up == CatchingUp::Done;
        if has {
            self.catching_up = CatchingUp::No;
        }
        has
    }

    /// What was collected since the last flush of owners whose access tags pass the test.
    pub(crate) fn running(
        &mut self,
        wanted: Wanted,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> Snapshot {
        self.store.running(&mut self.collector, wanted, is_wanted)
    }

    /// All losses of this collection so far.
    pub(crate) fn losses(&self) -> Lost {
        let mut losses = self.store.losses().clone();
        losses.add(self.collector.tables.lost());
        losses
    }

    /// Bytes of records that wait, when the readers have sent so many: for others, or to be taken.
    pub(crate) fn waiting_bytes(&self, sent: u64) -> u64 {
        let held = self.merge.bytes() + self.collector.waiting_bytes();
        held as u64 + sent.saturating_sub(self.taken_bytes)
    }

    fn look(&mut self, driver: &mut impl Driver, now: Instant) -> Result<()> {
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + TICK;
        driver.look(self)
    }

    /// Samples that were taken before this time are nobody's: by their clock, in nanoseconds.
    pub(crate) fn ignore_samples_before(&mut self, time: u64) {
        self.since = time;
    }

    /// Takes batches that have come, until a piece of records waits here. What looks at the
    /// processes of samples must not be late, so that is done at every look; the collector may go
    /// on sleeping.
    fn receive(&mut self, batches: &Receiver<Batch>) -> Received {
        let before = self.taken_bytes;
        loop {
            match batches.try_recv() {
                Ok(batch) => self.take(batch),
                Err(TryRecvError::Empty) => return Received::AllThereIs,
                Err(TryRecvError::Disconnected) => return Received::Last,
            }
            // One was received in any case: what waits may wait for its CPU.
            let taken = usize::try_from(self.taken_bytes - before).unwrap_or(usize::MAX);
            if self.is_a_piece(self.merge.waiting(), taken) {
                return Received::APiece;
            }
        }
    }

    /// Whether what waits for the collector, and so many records of so many bytes, are a piece.
    fn is_a_piece(&self, records: usize, bytes: usize) -> bool {
        self.collector.waiting() + records >= PIECE
            || self.collector.waiting_bytes().saturating_add(bytes) >= PIECE_BYTES
    }

    /// The same once there is one, or it has taken a while.
    fn await_batches(&mut self, batches: &Receiver<Batch>) -> Received {
        match batches.recv_timeout(TICK) {
            Ok(batch) => {
                self.take(batch);
                self.receive(batches)
            }
            Err(RecvTimeoutError::Timeout) => Received::AllThereIs,
            Err(RecvTimeoutError::Disconnected) => Received::Last,
        }
    }

    fn take(&mut self, mut batch: Batch) {
        self.batches += 1;
        self.sleep.took(batch.records.len() as u64, batch.urgent);
        self.taken_bytes += batch.memory_bytes() as u64;
        batch.records.retain(|record| match record {
            Record::Sample(_) | Record::Packed(_) | Record::Cycles(_) => {
                record.time() >= self.since
            }
            _ => true,
        });
        let now = BothClocks::now();
        for record in &mut batch.records {
            if let Record::Mmap(mmap) = record {
                self.collector.identify(mmap, &now);
            }
        }
        let of = |record: &Record| interrupts(record) + lost_interrupts(record);
        self.interrupts += batch.records.iter().map(of).sum::<u64>();
        let tables = &mut self.collector.tables;
        tables.count(Counter::Redraws, batch.intervals.len() as u64);
        tables.count(Counter::InheritedSamples, batch.inherited);
        self.collector.lost(Loss::MalformedRecords, batch.malformed);
        self.merge.push(batch);
    }

    /// Hands on what is complete, until it must be over: what tells of processes and their mappings
    /// is taken, since the files of short-lived ones are soon gone, and samples go on waiting. On a
    /// starved machine this takes a while, in which the driver goes on looking.
    fn hand_on(&mut self, driver: &mut impl Driver) -> Result<()> {
        while let Some(merged) = self.merge.pop() {
            if let Some((record, evidence)) = self.collector.put_off(merged) {
                if self.collector.precede(&record) {
                    self.run_waiting(driver)?;
                }
                self.collector
                    .record(record, evidence.map(|evidence| *evidence));
                self.make_room(driver)?;
            } else if self.is_a_piece(0, 0) {
                self.run_waiting(driver)?;
            }
            self.handed = self.handed.saturating_add(1);
            if self.handed.is_multiple_of(LOOK_RECORDS) && self.must_end(driver)? {
                break;
            }
        }
        Ok(())
    }

    /// Looks at the samples that wait, until it must be over.
    fn run_waiting(&mut self, driver: &mut impl Driver) -> Result<()> {
        if self.collector.waiting() > 0 {
            self.look_at_names(NAMES_AT_LEAST);
        }
        self.collector.sort_waiting();
        let mut run = 0_u32;
        while self.collector.run_next() {
            self.make_room(driver)?;
            run += 1;
            if run.is_multiple_of(LOOK_RECORDS) && self.must_end(driver)? {
                break;
            }
        }
        Ok(())
    }

    /// Looks for names of generated code, unless it did so of late.
    fn look_at_names(&mut self, late: Duration) {
        let now = Instant::now();
        if self.names_looked.is_none_or(|at| now >= at + late) {
            self.names_looked = Some(now);
            self.collector.look_at_generated();
        }
    }

    /// Begins to save the tables if they are full. While others are being saved, that is waited
    /// for: what comes meanwhile has room in the kernel. A failed flush is tried again at the next
    /// interval only: a full disk stays full.
    fn make_room(&mut self, driver: &mut impl Driver) -> Result<()> {
        if self.collector.tables.is_full() && !self.store.is_failing() {
            self.await_saved(driver)?;
            if !self.store.is_saving() && !self.store.is_failing() {
                driver.flush(self);
            }
        }
        Ok(())
    }

    /// Whether it must be over; if not, the driver looks, if it is time to.
    fn must_end(&mut self, driver: &mut impl Driver) -> Result<bool> {
        let now = Instant::now();
        if driver.deadline().is_some_and(|deadline| now >= deadline) {
            return Ok(true);
        }
        self.look(driver, now)?;
        Ok(false)
    }

    /// Waits for what is being saved, which takes long on a slow disk: the driver goes on looking.
    fn await_saved(&mut self, driver: &mut impl Driver) -> Result<()> {
        while self.store.is_saving() {
            if let Some(saved) = self.store.ended() {
                driver.saved(self, saved);
                continue;
            }
            let now = Instant::now();
            if driver.deadline().is_some_and(|deadline| now >= deadline) {
                break;
            }
            self.look(driver, now)?;
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// Counts what is left as lost.
    fn discard(&mut self, batches: &Receiver<Batch>) {
        for batch in batches {
            self.take(batch);
        }
        self.merge.finish_all();
        let mut left = self.collector.waiting() as u64;
        while let Some((record, _)) = self.merge.pop() {
            left += interrupts(&record);
        }
        self.collector.lost(Loss::SamplesAtTheEnd, left);
    }

    /// Counts what no batch could tell.
    pub(crate) fn close_sampling(&mut self, stats: &sampler::Stats) {
        self.collector
            .lost(Loss::ReadersFailed, stats.readers_failed);
        self.collector
            .lost(Loss::UndeliveredRecords, stats.undelivered);
        if let Some(counted) = stats.counted {
            self.count_unsampled(counted, stats.lost + stats.lost_samples);
        }
        let tables = &mut self.collector.tables;
        tables.count(Counter::RedrawsFailed, stats.redraws_failed);
        tables.count(Counter::DrainsDisplaced, stats.displaced);
    }

    /// Counts what the events counted and no sample stands for. Each task begins with a whole
    /// interval: one that ends before that is over has no sample, and of every other the rest of
    /// its last interval is missing. Samples that were lost are told of already.
    fn count_unsampled(&mut self, counted: u64, lost: u64) {
        let totals = &mut self.collector.totals;
        let Some(mean) = totals.weight.checked_div(totals.samples) else {
            return;
        };
        let told = totals.weight.saturating_add(lost.saturating_mul(mean));
        let unsampled = counted.saturating_sub(told) / mean.max(1);
        totals.unsampled = unsampled;
        self.collector.lost(Loss::SamplesOfShortTasks, unsampled);
    }

    /// Begins to save what was collected; nothing is being saved.
    ///
    /// # Errors
    /// There is no database; what was collected is kept.
    pub(crate) fn begin_flush(&mut self) -> Result<(), store::Error> {
        self.note_flush();
        self.store.begin(&mut self.collector)
    }

    /// Saves what was collected, and waits for that as long as `patient` says.
    ///
    /// # Errors
    /// Those of the database; what could not be saved is kept for the next time.
    pub(crate) fn flush(&mut self, patient: &dyn Fn() -> bool) -> Result<Saved, store::Error> {
        self.note_flush();
        self.store.flush(&mut self.collector, patient)
    }

    fn note_flush(&mut self) {
        self.collector.note(&CollectorInput::Flush);
        self.store.count_unsaved(&mut self.collector);
        self.store.measure(&mut self.collector.tables, self.cpus);
    }
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    AllThereIs,
    /// There may be more.
    APiece,
    /// No more can come.
    Last,
}

/// Whether this moment has come.
fn is_over(moment: Option<Instant>) -> bool {
    moment.is_some_and(|moment| Instant::now() >= moment)
}

/// How many interrupts a record tells of.
fn interrupts(record: &Record) -> u64 {
    match record {
        Record::Packed(packed) if !packed.is_sample() => 0,
        Record::Sample(_) | Record::Packed(_) => 1,
        Record::Cycles(cycles) => cycles.samples,
        _ => 0,
    }
}

/// Of how many more it says that nothing of them arrived.
fn lost_interrupts(record: &Record) -> u64 {
    match record {
        Record::Lost { count, .. } | Record::LostSamples { count, .. } => *count,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
