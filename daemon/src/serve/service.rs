//! The service at work: drives the collection, and does what signals, readers and the time ask.

mod cost;
mod ending;
mod requests;
mod saving;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use counters::Loss;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use super::epochs::{Due, Epochs};
use super::governor::{self, Governor};
use super::journal::Troubles;
use super::losses::Losses;
use super::newest::Answering;
use super::notify::Manager;
use super::peers::{Control, Peers};
use super::rolling::Rolling;
use super::sampling::Sampling;
use super::socket::Socket;
use super::status::Figures;
use crate::output::chain;
use crate::session::{Driver, Session, TICK};
use crate::settings::args::VectorsArg;
use crate::settings::choices;
use crate::settings::config::Config;
use cost::{Mark, Taken};
use ending::{Ending, end_in_time};
use machine::system::procfs;
use pipeline::collector::{Collector, Settings};
use store::{Saved, Store};

/// How often the service looks at what changes seldom.
const SECOND: Duration = Duration::from_secs(1);
/// How long it waits before it tries to sample again.
const RETRY: Duration = Duration::from_secs(10);

/// How long the collector sleeps at most: no look of the governor falls into one as a whole.
const LONGEST_SLEEP: Duration = Duration::from_secs(4);

/// Names of troubles.
const SAMPLING: &str = "sampling";
const SAVING: &str = "saving what was collected";
const RETENTION: &str = "removing old epochs";
const BUDGET: &str = "keeping within the budget";
const ROLLING: &str = "rolling up what is past";
const READERS: &str = "answering readers";
const SOCKET: &str = "listening to readers";
const DIRECTORY: &str = "keeping others out of the databases";

/// Why a collection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The service ends.
    Stop,
    /// Another one begins at once.
    Anew,
}

/// What was asked for by signals; nothing is done in their handlers.
struct Asked {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    /// All that was collected is saved, and nothing more comes.
    saved: Arc<AtomicBool>,
}

impl Asked {
    fn register() -> Result<Self> {
        let saved = Arc::default();
        end_in_time(Arc::clone(&saved))?;
        let flag = |signals: &[i32]| -> Result<Arc<AtomicBool>> {
            let flag = Arc::new(AtomicBool::new(false));
            for &signal in signals {
                signal_hook::flag::register(signal, Arc::clone(&flag))
                    .context("cannot handle signals")?;
            }
            Ok(flag)
        };
        // A file larger than this process may write is an error to report, not a way to die.
        flag(&[SIGXFSZ])?;
        Ok(Self {
            stop: flag(&[SIGTERM, SIGINT])?,
            reload: flag(&[SIGHUP])?,
            saved,
        })
    }
}

/// The service.
pub(super) struct Service {
    path: PathBuf,
    config: Config,
    epochs: Epochs,
    /// `None` where the system allowed no thread for it.
    rolling: Option<Rolling>,
    socket: Socket,
    peers: Peers,
    requests: Receiver<Control>,
    newest: Answering,
    /// The running epoch as it began.
    epoch: Option<profiledb::Epoch>,
    asked: Asked,
    manager: Manager,
    troubles: Troubles,
    /// `None` while there is no sampling.
    sampling: Option<Sampling>,
    governor: Option<Governor>,
    /// The configured rate is tried.
    is_on_trial: bool,
    end: Option<End>,
    /// The end of the service, once it was asked for.
    ending: Option<Ending>,
    figures: Figures,
    losses: Losses,
    next_second: Instant,
    next_step: Instant,
    /// At the governor's last look.
    spent: Mark,
    /// When it was last seen whether samples find room.
    taken: Taken,
    /// The rate was lowered then, because they did not.
    is_relieved: bool,
    /// When the last flush had ended, or sampling began, and what flushes had cost by then.
    flushed: (Instant, Duration),
}

impl Service {
    pub(super) fn new(
        path: PathBuf,
        config: Config,
        epochs: Epochs,
        socket: Socket,
        peers: Peers,
        requests: Receiver<Control>,
        newest: Answering,
    ) -> Result<Self> {
        raise_open_files();
        let now = Instant::now();
        let rolling = Rolling::start(epochs.directory().clone(), config.database.limits());
        let rolling = rolling.map_err(|error| tracing::warn!("nothing is rolled up: {error:#}"));
        Ok(Self {
            path,
            config,
            epochs,
            rolling: rolling.ok(),
            socket,
            peers,
            requests,
            newest,
            epoch: None,
            asked: Asked::register()?,
            manager: Manager::new(),
            troubles: Troubles::default(),
            sampling: None,
            governor: None,
            is_on_trial: false,
            end: None,
            ending: None,
            figures: Figures::default(),
            losses: Losses::default(),
            next_second: now,
            next_step: now,
            spent: Mark::zero(now),
            taken: Taken::default(),
            is_relieved: false,
            flushed: (now, Duration::ZERO),
        })
    }

    /// Collects until it is told to end.
    ///
    /// # Errors
    /// If it cannot even begin, or cannot save what it has at the end.
    pub(super) fn run(&mut self) -> Result<()> {
        loop {
            let ended = self.collect();
            match (ended, self.end.take()) {
                (Err(error), Some(End::Stop)) => return Err(error),
                (Err(error), _) if self.figures.starts == 0 => return Err(error),
                (Err(error), _) => {
                    self.troubles.begin(SAMPLING, format!("{error:#}"));
                    self.wait();
                }
                (Ok(()), Some(End::Anew)) => {}
                (Ok(()), Some(End::Stop)) => {}
                (Ok(()), None) => {
                    self.troubles.begin(SAMPLING, "it ended by itself");
                    self.wait();
                }
            }
            if self.asked.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    /// One collection from its start to its end.
    fn collect(&mut self) -> Result<()> {
        let (mut sampling, batches) = Sampling::start(self.config.recording())?;
        let mut collector = Collector::new(self.settings(&sampling));
        if let Some(handler) = sampling.running.handler() {
            collector.tell(handler);
        }
        if sampling.running.setup().vectors {
            if sampling.wanted.vectors != VectorsArg::Off {
                collector.expect_vectors();
            }
        } else if let Some(why) = &sampling.running.setup().no_vectors {
            tracing::warn!("no vector registers: {why}");
        }
        let store = Store::closed()?;
        let mut sleep = LONGEST_SLEEP;
        if let Some(most) = choices::pairs(&sampling.wanted) {
            match choices::bounce(&mut sampling.running, most) {
                Ok(bounce) => {
                    sleep = choices::PAIRED_SLEEP;
                    collector.bounce(bounce);
                }
                Err(error) => tracing::warn!("no breakpoints: {error}"),
            }
        }
        match sampling.wanted.start_entries(&sampling.running) {
            Ok(Some(entries)) => {
                sleep = choices::PAIRED_SLEEP;
                collector.watch_entries(entries);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("no entries: {error}"),
        }
        let mut session = Session::new(&sampling.setup.cpus, collector, store, sleep);
        session.ignore_samples_before(sampling.begun);
        session.scan(procfs::all_pids());
        let unsaved = self.figures.take_unsaved();
        if unsaved > 0 {
            session.collector.lost(Loss::UnsavedSamples, unsaved);
        }
        self.govern(&sampling, &mut session);
        self.sampling = Some(sampling);
        if let Err(error) = self.begin_epoch(&mut session) {
            self.cannot_save(&session, &error);
        }
        if self.figures.starts == 0 {
            self.epochs.recover();
        }
        self.figures.starts += 1;
        self.troubles.end(SAMPLING);
        self.begin_looks(&session);
        // Whoever asks before the first second is over, or on a machine where that is long, is
        // told.
        self.peers.publish(self.figures(Some(&session)));
        self.manager.ready();
        session.collect(&batches, self)?;
        if let Some(sampling) = self.sampling.take() {
            self.figures.end_handler(sampling.handled());
            session.close_sampling(&sampling.running.stop());
        }
        if self.end == Some(End::Stop) {
            self.manager.stopping();
        }
        let saved = self.finish(&mut session);
        if self.end == Some(End::Stop) {
            let all = if saved {
                "written to"
            } else {
                "not all of it is in"
            };
            let directory = self.epochs.directory().path().display();
            tracing::info!("{}; {all} {directory}", self.figures.collected());
        }
        if self.end == Some(End::Stop) && !saved {
            bail!("not all that was collected is saved");
        }
        Ok(())
    }

    fn settings(&self, sampling: &Sampling) -> Settings {
        let deny = &self.config.sampling.deny;
        Settings {
            deny: deny.iter().map(|prefix| prefix.0.clone()).collect(),
            per_process: self.config.collection.per_process,
            programs: usize::try_from(self.config.collection.programs_mib.0 << 20)
                .unwrap_or(usize::MAX),
            ..sampling.choices.settings(&sampling.wanted)
        }
    }

    fn begin_looks(&mut self, session: &Session) {
        let now = Instant::now();
        self.spent = Mark::now(self.sampling.as_ref(), session, &self.peers);
        self.losses.restart();
        self.taken = Taken::default();
        self.flushed = (now, session.store.saving_time());
        let first = if self.is_on_trial {
            governor::TRIAL
        } else {
            governor::STEP
        };
        (self.next_second, self.next_step) = (now + SECOND, now + first);
    }

    /// Waits before sampling is tried again.
    fn wait(&mut self) {
        let until = Instant::now() + RETRY;
        while Instant::now() < until && !self.asked.stop.load(Ordering::Relaxed) {
            self.figures.idle += 1;
            self.manager.alive(self.figures.idle);
            self.newest.refuse();
            if let Ok(control) = self.requests.recv_timeout(TICK) {
                let answer = match control.request {
                    protocol::Control::Status => Ok(self.status(None)),
                    _ => Err("there is no sampling at present".to_owned()),
                };
                requests::reply(&control, answer);
            }
        }
    }

    fn stop_sampling(&mut self, end: End) {
        // What is to end does not begin anew.
        if self.end != Some(End::Stop) {
            self.end = Some(end);
        }
        if let Some(sampling) = &self.sampling {
            sampling.running.request_stop();
        }
    }

    /// What changes seldom.
    fn each_second(&mut self, session: &mut Session) {
        match self.peers.trouble() {
            Some(why) => self.troubles.begin(READERS, why),
            None => self.troubles.end(READERS),
        }
        self.look_at_room(session);
        self.look_at_roll_ups();
        self.peers.publish(self.figures(Some(session)));
        let outdated = self.sampling.as_mut().and_then(Sampling::outdated);
        if let Some(why) = outdated
            && self.end.is_none()
        {
            self.begin_anew(why);
        }
        // A day ends when it ends, not with the next flush.
        if self.epochs.due() == Some(Due::Time) && !session.store.is_saving() {
            self.flush(session);
        }
    }

    /// Sees whether readers still find the service, and nobody else its databases.
    fn look_at_places(&mut self) {
        let found = self.socket.look().and_then(|listener| match listener {
            Some(listener) => Ok(self.peers.listen(listener)?),
            None => Ok(()),
        });
        for (what, looked) in [(SOCKET, found), (DIRECTORY, self.epochs.look())] {
            match looked {
                Ok(()) => self.troubles.end(what),
                Err(error) => self.troubles.begin(what, format!("{error:#}")),
            }
        }
    }

    /// What follows a flush, however it went.
    fn conclude(&mut self, session: &Session, saved: Result<()>) {
        match saved {
            Ok(()) => self.troubles.end(SAVING),
            Err(error) => self.cannot_save(session, &error),
        }
        match self.epochs.enforce() {
            Ok(_) => self.troubles.end(RETENTION),
            Err(error) => self.troubles.begin(RETENTION, chain(&error)),
        }
        if let Some(why) = session.collector.has_grown_old().or_else(many_files) {
            self.begin_anew(why);
        }
        self.manager.status(&self.figures.line());
    }

    /// Tells the thread that rolls up what it may do, and sees whether it can.
    fn look_at_roll_ups(&mut self) {
        let Some(rolling) = &self.rolling else {
            return;
        };
        let budget = self.config.governor.budget_percent.0 / 100.0;
        let cpus = self.sampling.as_ref().map_or(1, |it| it.setup.cpus.len());
        rolling.tell(self.epochs.running(), budget, cpus);
        match rolling.trouble() {
            Some(why) => self
                .troubles
                .begin(ROLLING, format!("{why}; it is tried again")),
            None => self.troubles.end(ROLLING),
        }
    }

    fn begin_anew(&mut self, why: &str) {
        tracing::info!("{why}: sampling begins anew, in a new epoch");
        self.stop_sampling(End::Anew);
    }
}

impl Driver for Service {
    fn look(&mut self, session: &mut Session) -> Result<()> {
        if self.asked.stop.load(Ordering::Relaxed) && self.end != Some(End::Stop) {
            self.ending = Some(Ending::now());
            self.stop_sampling(End::Stop);
        }
        if self.asked.reload.swap(false, Ordering::Relaxed) {
            // It has been said.
            let _ = self.reload();
        }
        while let Ok(control) = self.requests.try_recv() {
            self.answer(&control, session);
        }
        self.newest.look(self.epoch.as_ref(), session);
        self.manager.alive(session.batches);
        let now = Instant::now();
        if now >= self.next_second {
            self.next_second = now + SECOND;
            self.each_second(session);
        }
        if now >= self.next_step {
            self.next_step = now + governor::STEP;
            if self.is_on_trial {
                self.end_trial(session);
            } else {
                self.look_at_cost(session);
            }
            self.look_at_losses(session);
            self.look_at_places();
        }
        Ok(())
    }

    fn flush(&mut self, session: &mut Session) {
        if let Err(error) = self.begin_save(session) {
            self.conclude(session, Err(error));
        }
    }

    fn saved(&mut self, session: &mut Session, saved: Result<Saved, store::Error>) {
        let settled = self
            .settle(session, saved)
            .and_then(|()| match self.epochs.due() {
                Some(Due::Time | Due::Size) => self.turn(session),
                // The next flush says so.
                Some(Due::Gone) | None => Ok(()),
            });
        self.conclude(session, settled);
    }

    fn next_look(&self) -> Option<Instant> {
        self.deadline()
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(self.config.collection.flush_seconds.0)
    }

    fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    fn deadline(&self) -> Option<Instant> {
        self.ending.map(|ending| ending.looks_until())
    }
}

/// Whether there may soon be no room for more open files: images and page tables have one each.
fn many_files() -> Option<&'static str> {
    let (most, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let open = u64::try_from(procfs::open_files()?).ok()?;
    (open > most / 4 * 3).then_some("most of the files that may be open are")
}

/// Lets this process have as many files open as it may allow itself.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
}
