//! What was collected goes into a database that is there, and epochs follow each other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use anyhow::{Result, bail};
use profiledb::is_useless;

use super::{End, SAVING, Service};
use crate::output::{chain, count};
use crate::serve::epochs::Due;
use crate::session::Session;
use store::Saved;

impl Service {
    pub(super) fn begin_epoch(&mut self, session: &mut Session) -> Result<()> {
        let Some(sampling) = &self.sampling else {
            bail!("there is no sampling");
        };
        let mut epoch = sampling.choices.epoch(&sampling.wanted);
        "serve".clone_into(&mut epoch.command);
        session.store.open(self.epochs.begin(&epoch)?);
        self.epoch = Some(epoch);
        Ok(())
    }

    /// Takes note of why something cannot be saved, which is kept unless it is said to be lost.
    pub(super) fn cannot_save(&mut self, session: &Session, error: &anyhow::Error) {
        let kept = match session.store.is_failing() || !session.store.is_open() {
            true => "; it is kept in memory as far as there is room",
            false => "",
        };
        self.troubles.begin(SAVING, format!("{error:#}{kept}"));
    }

    /// Begins to save what was collected, in a file that is there.
    pub(super) fn begin_save(&mut self, session: &mut Session) -> Result<()> {
        let epoch = self.keep_epoch(session);
        let begun = session.begin_flush();
        epoch?;
        Ok(begun?)
    }

    /// Saves what was collected, and waits for that. A damaged database is replaced.
    /// Once the service is to end, it waits until its time is up.
    pub(super) fn save(&mut self, session: &mut Session) -> Result<()> {
        let (stop, ending) = (Arc::clone(&self.asked.stop), self.ending);
        let patient = move || match ending {
            Some(ending) => Instant::now() < ending.saves_until(),
            None => !stop.load(Ordering::Relaxed),
        };
        if let Some(saved) = session.store.wait(&patient) {
            // What it could not save is still to be saved.
            let _ = self.settle(session, saved);
        }
        if session.store.is_saving() {
            bail!(ending.map_or("it takes too long", |ending| ending.cause()));
        }
        let epoch = self.keep_epoch(session);
        let saved = session.flush(&patient);
        epoch?;
        match self.settle(session, saved) {
            Ok(()) if session.store.is_failing() => {
                let saved = session.flush(&patient);
                self.settle(session, saved)
            }
            settled => settled,
        }
    }

    /// Makes sure that there is a database to save to.
    fn keep_epoch(&mut self, session: &mut Session) -> Result<()> {
        if self.epochs.due() == Some(Due::Gone) {
            tracing::warn!("the running epoch's database is gone; a new one begins");
            session.store.abandon();
        }
        for (counter, count) in self.peers.take_counters() {
            session.collector.tables.count(counter, count);
        }
        if session.store.is_open() {
            return Ok(());
        }
        self.begin_epoch(session)
    }

    /// Takes note of what was saved. Where the database cannot be written to any more, another one
    /// begins, in which what is left is saved the next time.
    pub(super) fn settle(
        &mut self,
        session: &mut Session,
        saved: Result<Saved, store::Error>,
    ) -> Result<()> {
        let error = match saved {
            Ok(saved) => {
                self.figures.flushed(session, &saved);
                self.look_at_flush(session);
                return Ok(());
            }
            Err(error) => error,
        };
        match error {
            store::Error::Flush(damage) if is_useless(&damage) => {
                session.store.abandon();
                self.epochs.set_aside(damage);
                self.begin_epoch(session)
            }
            store::Error::Flush(other) => Err(other.into()),
            other => Err(other.into()),
        }
    }

    /// Ends the running epoch and begins another.
    pub(super) fn turn(&mut self, session: &mut Session) -> Result<()> {
        // Nobody waits for the disk; what goes wrong there, the next start mends.
        let _ = session.store.begin_end(true);
        self.begin_epoch(session)
    }

    /// The last flush of a collection, and the end of its epoch. Says whether all is saved.
    pub(super) fn finish(&mut self, session: &mut Session) -> bool {
        let saved = self.save(session);
        let all = saved.is_ok() && self.end == Some(End::Stop);
        self.asked.saved.store(all, Ordering::Relaxed);
        if let Err(error) = &saved {
            let unsaved = count(self.figures.unsaved(session), "sample");
            let cause = match (session.store.is_saving(), self.ending) {
                (true, Some(ending)) => ending.cause().to_owned(),
                _ => format!("{error:#}"),
            };
            tracing::error!("what came since the last flush is lost, {unsaved}: {cause}");
        }
        self.figures.restarted(session);
        let ending = session.store.begin_end(false);
        let ended = ending.map(|closed| match self.ending {
            Some(ending) => await_until(&closed, || ending.saves_until()),
            None => closed.recv().map_err(Into::into),
        });
        match ended {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(
                    "an epoch could not be closed; all that was flushed is in it: {}",
                    chain(&error)
                );
            }
            Some(Err(_)) => {
                let cause = self
                    .ending
                    .map_or("it takes too long", |ending| ending.cause());
                tracing::info!("{cause}: the epoch is left to the next start to be closed");
            }
        }
        saved.is_ok()
    }
}

/// Waits for something until a time that may be put off meanwhile.
fn await_until<T>(what: &Receiver<T>, until: impl Fn() -> Instant) -> Result<T, RecvTimeoutError> {
    loop {
        let left = until().saturating_duration_since(Instant::now());
        match what.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) if Instant::now() < until() => {}
            received => return received,
        }
    }
}
