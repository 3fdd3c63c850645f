//! Making views: one worker does one after the other.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use profiledb::Directory;
use profiledb::rollup::Moment;
use profiledb::view::{Limits, ViewError, Viewer, write_view_with};
use protocol::{Digest, Refusal, Reply};
use sha2::{Digest as _, Sha256};

use super::failing::{self, Failing};
use super::identity::ids_are_the_kernels;
use super::outcome::{Finished, Made, Outcome, View};
use super::queue::{Batch, Queue};
use super::settings::Settings;
use crate::serve::newest::{self, Asking, NewestRows};
use machine::system::clock::wall_now;

/// How the names of views begin while they are being made; they have none afterwards.
const PREFIX: &str = ".view-";

/// How often a view is made again because databases were joined meanwhile.
const TRIES: u32 = 10;

/// Makes views.
pub(super) struct Worker {
    pub(super) queue: Arc<Queue>,
    pub(super) directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) failing: Arc<Failing>,
    pub(super) newest: Asking,
    pub(super) finished: Finished,
}

impl Worker {
    /// Works until the queue is closed.
    pub(super) fn run(self) {
        // Whoever asks shall not have what the service itself is given, and no less than a program
        // that reads for itself: a view that has to wait for all others is not made in time.
        if let Err(error) = sampler::ordinary_priority() {
            tracing::debug!(%error, "views are made with the service's own priority");
        }
        while let Some(batch) = self.queue.pop() {
            let begun = Instant::now();
            let mut waited = Duration::ZERO;
            let view = self.make_at_one_moment(&batch, begun, &mut waited);
            match &view {
                Ok(_) => self.failing.works(),
                Err(Reply::Refused { refusal, message }) if *refusal == Refusal::Failed => {
                    self.failing.failed(&self.directory, message);
                }
                Err(_) => {}
            }
            let bytes = view.as_ref().map_or(0, |view| view.bytes);
            let held = self
                .queue
                .done(&batch, begun.elapsed().saturating_sub(waited), bytes);
            let outcome = match view {
                Ok(view) => Outcome::View(Made::new(view, held)),
                Err(refusal) => Outcome::Reply(refusal),
            };
            for token in batch.tokens {
                self.finished.send(token, outcome.clone());
            }
        }
    }

    /// Makes a view, again if databases were joined meanwhile: such may be in it twice, or not at
    /// all. Says how long the service's loop was waited for: its user does not rest for that.
    fn make_at_one_moment(
        &self,
        job: &Batch,
        begun: Instant,
        waited: &mut Duration,
    ) -> Result<View, Reply> {
        let mut tries = 0;
        loop {
            let mut moment = Moment::default();
            // Where the directory cannot be read, no view can be made, either.
            let _ = moment.add(&self.directory);
            let view = self.make(job, begun, waited);
            if moment.is_the_same() || tries == TRIES {
                return view;
            }
            tries += 1;
        }
    }

    fn make(&self, job: &Batch, begun: Instant, waited: &mut Duration) -> Result<View, Reply> {
        if job.viewer != Viewer::Privileged && !ids_are_the_kernels() {
            let text = "the service runs in a user namespace, where it cannot tell whose is what";
            return Err(refusal(Refusal::Forbidden, text.to_owned()));
        }
        let limits = Limits {
            bytes: self.settings.view_bytes,
            until: begun + self.settings.view_time,
            stop: Arc::clone(&job.stop),
        };
        let failed = |error: &(dyn Error + 'static)| {
            // Once for all of them the journal hears of it from the service's loop.
            tracing::debug!(error, directory = %self.directory.display(), "a view cannot be made");
            refusal(Refusal::Failed, failing::words(error))
        };
        let asked = newest::whose(job.viewer, &job.selection, wall_now());
        // Before the files: what is saved meanwhile is in them, and found to be.
        let newest = match asked {
            Some(whose) => self.newest.ask(whose, self.settings.view_bytes, waited),
            None => Ok(NewestRows::Nothing),
        };
        let mut notes = Vec::new();
        let newest = match newest {
            Ok(NewestRows::Rows(rows)) => Some(rows),
            Ok(NewestRows::Nothing) => None,
            Ok(NewestRows::Late) => {
                notes.push("what is not saved yet: the service was busy for too long".to_owned());
                None
            }
            Err(error) => {
                tracing::debug!(%error, "what is not saved yet cannot be had");
                notes.push(format!("what is not saved yet: {error}"));
                None
            }
        };
        let sources = databases(&self.directory).map_err(|e| failed(&e))?;
        let place = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempfile_in(&self.directory)
            .map_err(|e| failed(&e))?;
        let left_out = write_view_with(
            &sources,
            newest.as_deref(),
            place.path(),
            job.viewer,
            &job.selection,
            &limits,
        );
        let left_out = left_out.map_err(|error| match error {
            ViewError::TooLarge { .. } => refusal(Refusal::TooLarge, error.to_string()),
            ViewError::TooSlow => refusal(Refusal::TooSlow, error.to_string()),
            _ => failed(&error),
        })?;
        notes.extend(left_out.iter().map(ToString::to_string));
        let aside = Directory::new(&self.directory);
        let aside = aside.and_then(|directory| directory.set_aside_before());
        notes.extend(aside.into_iter().flatten().map(|error| match job.viewer {
            Viewer::Privileged => error.to_string(),
            // What lies in the directory is not everybody's.
            Viewer::User(_) => error.without_place().to_string(),
        }));
        let file = place.into_file();
        let digested = digest(file);
        let (file, bytes, digest) = digested.map_err(|e| failed(&e))?;
        Ok(View {
            file,
            bytes,
            digest,
            notes,
        })
    }
}

fn refusal(refusal: Refusal, message: String) -> Reply {
    Reply::Refused { refusal, message }
}

/// The file again, at its beginning, with its size and digest.
fn digest(mut file: File) -> io::Result<(File, u64, Digest)> {
    file.rewind()?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; protocol::MAX_CHUNK];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        bytes += read as u64;
    }
    file.rewind()?;
    Ok((file, bytes, digest.finalize().into()))
}

/// The databases of the service, the oldest first. Only plain files: nobody but root can put
/// anything there, but what is a link does not come from us.
/// One that others were joined into stands for these.
fn databases(directory: &Path) -> Result<Vec<PathBuf>, profiledb::Error> {
    let mut paths = Moment::default().add(directory)?;
    paths.retain(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file()));
    Ok(paths)
}

/// Removes what a service that was killed has left of views.
pub(super) fn remove_leftovers(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
        {
            // What cannot be removed is not in the way.
            let _ = fs::remove_file(entry.path());
        }
    }
}
