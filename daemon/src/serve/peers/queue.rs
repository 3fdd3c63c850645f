//! Views that wait to be made: each user's in turn, one of a user at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use profiledb::view::{Selection, Viewer};

use super::Settings;
use super::connection::Token;

/// A view to be made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) token: Token,
    pub(super) uid: u32,
    pub(super) viewer: Viewer,
    pub(super) selection: Selection,
    /// Set when nobody waits for it any more.
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
struct State {
    lines: HashMap<u32, Line>,
    /// Whose turn it is: everybody with jobs, once.
    turns: VecDeque<u32>,
    /// Flags of what is being made.
    running: Vec<Arc<AtomicBool>>,
    closed: bool,
}

/// Users remembered only because they rest.
const REMEMBERED: usize = 1024;

/// Jobs of all users.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
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

impl State {
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
    fn next(&mut self, most: u64, now: Instant) -> Result<Job, Option<Instant>> {
        let mut soonest = None;
        for _ in 0..self.turns.len() {
            let Some(uid) = self.turns.pop_front() else {
                break;
            };
            let Some(line) = self.lines.get_mut(&uid) else {
                continue;
            };
            while line
                .jobs
                .front()
                .is_some_and(|job| job.stop.load(Ordering::Relaxed))
            {
                line.jobs.pop_front();
            }
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
            let Some(job) = line.jobs.pop_front() else {
                continue;
            };
            line.running = true;
            if !line.jobs.is_empty() {
                self.turns.push_back(uid);
            }
            self.running.push(Arc::clone(&job.stop));
            return Ok(job);
        }
        Err(soonest)
    }
}

impl Queue {
    pub(super) fn new(settings: &Settings) -> Queue {
        Queue {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            most: settings.view_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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

    /// Waits for a job; `None` when the queue is closed.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            state = match state.next(self.most, now) {
                Ok(job) => return Some(job),
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

    /// Ends a job that took `took` and left a view of so many bytes. The user's next may begin
    /// when as much time has passed again: one user keeps half a processor busy at most.
    pub(super) fn done(self: &Arc<Self>, job: &Job, took: Duration, bytes: u64) -> Held {
        let now = Instant::now();
        let mut state = self.lock();
        state.running.retain(|stop| !Arc::ptr_eq(stop, &job.stop));
        let line = state.lines.entry(job.uid).or_default();
        line.running = false;
        line.held = line.held.saturating_add(bytes);
        line.rested = now.checked_add(took);
        if state.lines.len() > REMEMBERED {
            let uids: Vec<u32> = state.lines.keys().copied().collect();
            uids.into_iter().for_each(|uid| state.tidy(uid, now));
        }
        drop(state);
        self.changed.notify_all();
        Held {
            queue: Arc::clone(self),
            uid: job.uid,
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

    fn job(uid: u32, token: u64) -> Job {
        Job {
            token: Token(token),
            uid,
            viewer: Viewer::User(uid),
            selection: Selection::default(),
            stop: Arc::default(),
        }
    }

    fn next(queue: &Queue, now: Instant) -> Option<Job> {
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
        assert_eq!(next(&queue, now).map(|job| job.uid), Some(2));
        assert!(next(&queue, now).is_none());
        drop(queue.done(&first, Duration::ZERO, 10));
        let later = Instant::now();
        assert_eq!(next(&queue, later).map(|job| job.token), Some(Token(1)));
    }

    /// After a job that took long its user rests as long; others do not.
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
        assert_eq!(next(&queue, now).map(|job| job.uid), Some(2));
        let later = now + Duration::from_secs(101);
        assert_eq!(next(&queue, later).map(|job| job.token), Some(Token(1)));
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
