//! Views that wait to be made: each user's in turn, one of a user at a time. Who asks for the same
//! while they wait gets the same.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use profiledb::view::Viewer;
use protocol::Selection;

use super::settings::Settings;
use super::token::Token;

/// A view that somebody waits for.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) token: Token,
    pub(super) uid: u32,
    pub(super) viewer: Viewer,
    pub(super) selection: Selection,
    /// Set when they do not wait any more.
    pub(super) stop: Arc<AtomicBool>,
}

/// A view to be made.
#[derive(Debug)]
pub(super) struct Batch {
    /// For whom, all of one user.
    pub(super) tokens: Vec<Token>,
    pub(super) uid: u32,
    pub(super) viewer: Viewer,
    pub(super) selection: Selection,
    /// Set when it is not needed any more.
    pub(super) stop: Arc<AtomicBool>,
}

/// What one user has in the queue.
#[derive(Debug, Default)]
struct Line {
    jobs: VecDeque<Job>,
    running: bool,
    /// Bytes of the user's views that are there.
    held: u64,
    /// When the next one may be begun.
    rested: Option<Instant>,
}

#[derive(Debug, Default)]
struct Lines {
    lines: HashMap<u32, Line>,
    /// Whose turn it is: everybody with jobs, once.
    turns: VecDeque<u32>,
    /// Flags of what is being made.
    running: Vec<Arc<AtomicBool>>,
    closed: bool,
}

/// How many times as long as a job took its user rests.
const REST: u32 = 4;

/// Users remembered only because they rest.
const REMEMBERED: usize = 1024;

/// Jobs of all users.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<Lines>,
    changed: Condvar,
    /// Bytes of views that one user may have at a time.
    most: u64,
}

/// The room that a view takes, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    queue: Arc<Queue>,
    uid: u32,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if let Some(line) = state.lines.get_mut(&self.uid) {
            line.held = line.held.saturating_sub(self.bytes);
        }
        state.tidy(self.uid, Instant::now());
        self.queue.changed.notify_all();
    }
}

impl Line {
    /// The next view to be made, with all who wait for the same one.
    fn take(&mut self) -> Option<Batch> {
        let first = self.jobs.pop_front()?;
        let Job {
            viewer, selection, ..
        } = &first;
        let is_same = |job: &Job| job.viewer == *viewer && job.selection == *selection;
        let (same, others) = self.jobs.drain(..).partition::<Vec<Job>, _>(is_same);
        self.jobs = others.into();
        let mut tokens = vec![first.token];
        tokens.extend(same.iter().map(|job| job.token));
        Some(Batch {
            // Of several, all may go before it is made; then it is made for nobody.
            stop: if same.is_empty() {
                first.stop
            } else {
                Arc::default()
            },
            tokens,
            uid: first.uid,
            viewer: first.viewer,
            selection: first.selection,
        })
    }
}

impl Lines {
    /// Forgets a user who has nothing here.
    fn tidy(&mut self, uid: u32, now: Instant) {
        let idle = |line: &Line| {
            line.jobs.is_empty()
                && !line.running
                && line.held == 0
                && line.rested.is_none_or(|at| at <= now)
        };
        if self.lines.get(&uid).is_some_and(idle) {
            self.lines.remove(&uid);
        }
    }

    /// The next job that may be begun, or when there may be one.
    fn next(&mut self, most: u64, now: Instant) -> Result<Batch, Option<Instant>> {
        let mut soonest = None;
        for _ in 0..self.turns.len() {
            let Some(uid) = self.turns.pop_front() else {
                break;
            };
            let Some(line) = self.lines.get_mut(&uid) else {
                continue;
            };
            line.jobs.retain(|job| !job.stop.load(Ordering::Relaxed));
            if line.jobs.is_empty() {
                self.tidy(uid, now);
                continue;
            }
            let rests = line.rested.filter(|at| *at > now);
            if line.running || line.held >= most || rests.is_some() {
                soonest = match (soonest, rests) {
                    (Some(one), Some(other)) => Some(std::cmp::min(one, other)),
                    (one, other) => one.or(other),
                };
                self.turns.push_back(uid);
                continue;
            }
            let Some(batch) = line.take() else {
                continue;
            };
            line.running = true;
            if !line.jobs.is_empty() {
                self.turns.push_back(uid);
            }
            self.running.push(Arc::clone(&batch.stop));
            return Ok(batch);
        }
        Err(soonest)
    }
}

impl Queue {
    pub(super) fn new(settings: &Settings) -> Queue {
        Queue {
            state: Mutex::new(Lines::default()),
            changed: Condvar::new(),
            most: settings.view_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, job: Job) {
        let mut state = self.lock();
        let uid = job.uid;
        let line = state.lines.entry(uid).or_default();
        line.jobs.push_back(job);
        if !state.turns.contains(&uid) {
            state.turns.push_back(uid);
        }
        self.changed.notify_one();
    }

    /// Waits for something to do; `None` when the queue is closed.
    pub(super) fn pop(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            state = match state.next(self.most, now) {
                Ok(batch) => return Some(batch),
                Err(None) => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Err(Some(at)) => {
                    let wait = at.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Ends a job that took `took` and left a view of so many bytes. An ordinary user's next may
    /// begin when [`REST`] times as much has passed: they keep a fifth of a processor busy at most.
    pub(super) fn done(self: &Arc<Self>, batch: &Batch, took: Duration, bytes: u64) -> Held {
        let now = Instant::now();
        let mut state = self.lock();
        state.running.retain(|stop| !Arc::ptr_eq(stop, &batch.stop));
        let line = state.lines.entry(batch.uid).or_default();
        line.running = false;
        line.held = line.held.saturating_add(bytes);
        line.rested = match batch.viewer {
            Viewer::Privileged => None,
            Viewer::User(_) => now.checked_add(took.saturating_mul(REST)),
        };
        if state.lines.len() > REMEMBERED {
            let uids: Vec<u32> = state.lines.keys().copied().collect();
            uids.into_iter().for_each(|uid| state.tidy(uid, now));
        }
        drop(state);
        self.changed.notify_all();
        Held {
            queue: Arc::clone(self),
            uid: batch.uid,
            bytes,
        }
    }

    /// Stops what is being made and gives out no more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for stop in &state.running {
            stop.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arc<Queue> {
        Arc::new(Queue::new(&Settings {
            clients: 10,
            clients_per_user: 10,
            requests_per_minute: 10,
            view_bytes: 1000,
            view_time: Duration::from_secs(1),
            group: None,
        }))
    }

    /// A job unlike all others.
    fn job(uid: u32, token: u64) -> Job {
        let mut selection = Selection::default();
        selection.pids.push(u32::try_from(token).expect("is small"));
        Job {
            token: Token(token),
            uid,
            viewer: Viewer::User(uid),
            selection,
            stop: Arc::default(),
        }
    }

    fn next(queue: &Queue, now: Instant) -> Option<Batch> {
        queue.lock().next(queue.most, now).ok()
    }

    /// Somebody who asks much is served in turn with somebody who asks little, and only one of
    /// their views is made at a time.
    #[test]
    fn turns() {
        let queue = queue();
        let now = Instant::now();
        for token in 0..5 {
            queue.push(job(1, token));
        }
        queue.push(job(2, 10));
        let first = next(&queue, now).expect("a job");
        assert_eq!(first.uid, 1);
        assert_eq!(next(&queue, now).map(|batch| batch.uid), Some(2));
        assert!(next(&queue, now).is_none());
        drop(queue.done(&first, Duration::ZERO, 10));
        let later = Instant::now();
        assert_eq!(
            next(&queue, later).map(|batch| batch.tokens),
            Some(vec![Token(1)])
        );
    }

    /// After a job that took long its user rests longer; others do not.
    #[test]
    fn rests() {
        let queue = queue();
        queue.push(job(1, 0));
        queue.push(job(1, 1));
        let first = next(&queue, Instant::now()).expect("a job");
        drop(queue.done(&first, Duration::from_secs(100), 10));
        let now = Instant::now();
        assert!(next(&queue, now).is_none());
        queue.push(job(2, 2));
        assert_eq!(next(&queue, now).map(|batch| batch.uid), Some(2));
        assert!(next(&queue, now + Duration::from_secs(390)).is_none());
        let later = now + Duration::from_secs(401);
        assert_eq!(
            next(&queue, later).map(|batch| batch.tokens),
            Some(vec![Token(1)])
        );
    }

    /// Who does not fetch their views gets no more of them.
    #[test]
    fn views_that_are_held() {
        let queue = queue();
        queue.push(job(1, 0));
        queue.push(job(1, 1));
        let first = next(&queue, Instant::now()).expect("a job");
        let held = queue.done(&first, Duration::ZERO, 1000);
        assert!(next(&queue, Instant::now()).is_none());
        drop(held);
        assert!(next(&queue, Instant::now()).is_some());
    }

    /// Who waits for the same view gets the same, if it is for the same eyes.
    #[test]
    fn the_same_view() {
        let queue = queue();
        let ask = |token, viewer| {
            queue.push(Job {
                token: Token(token),
                viewer,
                selection: Selection::default(),
                ..job(1, token)
            });
        };
        ask(0, Viewer::User(1));
        queue.push(job(1, 1));
        ask(2, Viewer::User(1));
        ask(3, Viewer::Privileged);
        ask(4, Viewer::User(1));
        let mut batches = Vec::new();
        while let Some(batch) = next(&queue, Instant::now()) {
            drop(queue.done(&batch, Duration::ZERO, 0));
            batches.push(batch.tokens.iter().map(|token| token.0).collect::<Vec<_>>());
        }
        assert_eq!(batches, [vec![0, 2, 4], vec![1], vec![3]]);
    }

    /// What nobody waits for is not made, and nothing is remembered of who has nothing.
    #[test]
    fn cancelled() {
        let queue = queue();
        let gone = job(1, 0);
        gone.stop.store(true, Ordering::Relaxed);
        queue.push(gone);
        assert!(next(&queue, Instant::now()).is_none());
        assert!(queue.lock().lines.is_empty());
        queue.push(job(1, 1));
        let only = next(&queue, Instant::now()).expect("a job");
        drop(queue.done(&only, Duration::ZERO, 10));
        assert!(queue.lock().lines.is_empty());
        queue.push(job(1, 2));
        let running = next(&queue, Instant::now()).expect("a job");
        queue.close();
        assert!(running.stop.load(Ordering::Relaxed));
        assert!(queue.pop().is_none());
    }
}
