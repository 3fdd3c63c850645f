//! What was collected goes into a database that is there, and epochs follow each other.

use std::time::Instant;

use anyhow::{Result, bail};
use profiledb::is_useless;

use super::{SAVING, Service};
use crate::serve::epochs::Due;
use crate::session::Session;

impl Service {
    pub(super) fn begin_epoch(&mut self, session: &mut Session) -> Result<()> {
        let Some(sampling) = &self.sampling else {
            bail!("there is no sampling");
        };
        let mut epoch = sampling.choices.epoch(&sampling.args);
        "serve".clone_into(&mut epoch.command);
        session.store.open(self.epochs.begin(&epoch)?);
        Ok(())
    }

    pub(super) fn cannot_save(&mut self, error: &anyhow::Error) {
        let why = format!("{error:#}; it is kept in memory as far as there is room");
        self.troubles.begin(SAVING, why);
    }

    /// Saves what was collected, in a file that is there.
    pub(super) fn save(&mut self, session: &mut Session) -> Result<()> {
        if self.epochs.due() == Some(Due::Gone) {
            tracing::warn!("the running epoch's database is gone; a new one begins");
            session.store.abandon();
        }
        if !session.store.is_open()
            && let Err(error) = self.begin_epoch(session)
        {
            // Keeps what was collected, as far as there is room.
            let _ = session.flush();
            return Err(error);
        }
        let begun = Instant::now();
        for (name, count) in self.peers.take_counters() {
            session.collector.tables.count("peer", name, count);
        }
        let mut saved = session.flush();
        if let Err(error) = saved {
            match error.downcast::<profiledb::Error>() {
                Ok(damage) if is_useless(&damage) => {
                    session.store.abandon();
                    self.epochs.set_aside(damage);
                    self.begin_epoch(session)?;
                    saved = session.flush();
                }
                Ok(other) => saved = Err(other.into()),
                Err(other) => saved = Err(other),
            }
        }
        if saved.is_ok() {
            self.figures.flushed(session, begun.elapsed());
        }
        saved
    }

    /// Ends the running epoch and begins another.
    pub(super) fn turn(&mut self, session: &mut Session) -> Result<()> {
        if let Err(error) = session.store.end() {
            tracing::warn!("an epoch could not be closed; it is whole: {error:#}");
        }
        self.begin_epoch(session)
    }

    /// The last flush of a collection, and the end of its epoch. Says whether all is saved.
    pub(super) fn finish(&mut self, session: &mut Session) -> bool {
        let saved = self.save(session);
        if let Err(error) = &saved {
            tracing::error!(
                "{} samples since the last flush are lost: {error:#}",
                self.figures.unsaved(session)
            );
        }
        self.figures.restarted(session);
        if let Err(error) = session.store.end() {
            tracing::warn!("an epoch could not be closed; it is whole: {error:#}");
        }
        saved.is_ok()
    }
}
