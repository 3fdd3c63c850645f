//! Readers: who asks over the socket, and what they are given.
//!
//! One thread (`front`) talks to all readers and never waits for any of them; others make
//! views (`views`) and pass requests on to the service's own loop (`relay`). None of them
//! touches the collector: they read its databases, and their only way to it is a bounded
//! channel of [`Control`]s, into which they put what fits.
//!
//! Who asks is what the kernel says of the connection (`identity`), and everything is
//! counted per user (`users`): one who takes all that is to be had takes it from
//! themselves. Everything has an end: waiting for a request, its turn, the making of its
//! view, the sending of it.

mod connection;
mod control;
mod failing;
mod front;
mod identity;
mod outcome;
mod queue;
mod relay;
mod settings;
mod token;
mod users;
mod views;

use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub(crate) use control::Control;
use failing::Failing;
use front::Front;
use outcome::Finished;
use queue::Queue;
use relay::{Latest, Relays};
pub(crate) use settings::Settings;

use super::newest::Asking;
use super::status::Status;
use machine::system::threads::Threads;

/// Views that are made at a time.
const WORKERS: usize = 2;

/// Descriptors that the rest of the service may need.
const OTHER_DESCRIPTORS: u64 = 4096;

/// The readers' side of the service; dropped, it hangs up on all of them.
#[derive(Debug)]
pub(crate) struct Peers {
    queue: Arc<Queue>,
    counters: Arc<users::Counters>,
    /// Whatever arrives or ends here wakes the front.
    wake: UnixStream,
    listeners: Sender<UnixListener>,
    latest: Arc<Latest>,
    directory: PathBuf,
    failing: Arc<Failing>,
    threads: Threads,
    running: Vec<JoinHandle<()>>,
}

impl Peers {
    /// Serves readers that connect to `listener` from the databases in `directory`, and from what
    /// `newest` has of what is in none of them yet. What they
    /// ask of the service itself goes to `control`, which is never waited for: where it is
    /// full, they are told to come again.
    ///
    /// # Errors
    /// If the threads cannot be started, or the listener not be set up.
    pub(crate) fn start(
        listener: UnixListener,
        mut settings: Settings,
        directory: PathBuf,
        control: SyncSender<Control>,
        newest: &Asking,
    ) -> io::Result<Peers> {
        settings.clients = room_for(settings.clients);
        listener.set_nonblocking(true)?;
        views::remove_leftovers(&directory);
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (finished, completions) = channel();
        let (listeners, other_listeners) = channel();
        let queue = Arc::new(Queue::new(&settings));
        let counters = Arc::new(users::Counters::default());
        let mut peers = Peers {
            queue: Arc::clone(&queue),
            counters: Arc::clone(&counters),
            wake: wake.try_clone()?,
            listeners,
            latest: Arc::default(),
            directory: directory.clone(),
            failing: Arc::default(),
            threads: Threads::default(),
            running: Vec::new(),
        };
        for _ in 0..WORKERS {
            let worker = views::Worker {
                queue: Arc::clone(&queue),
                directory: directory.clone(),
                settings: settings.clone(),
                failing: Arc::clone(&peers.failing),
                newest: newest.clone(),
                finished: Finished::new(finished.clone(), wake.try_clone()?),
            };
            peers.spawn("vcpid-view", move || worker.run())?;
        }
        let finished = Finished::new(finished, wake);
        let (status, asked) = relay::channel();
        let (others, other) = relay::channel();
        for relayed in [asked, other] {
            let (control, finished) = (control.clone(), finished.try_clone()?);
            let latest = Arc::clone(&peers.latest);
            peers.spawn("vcpid-relay", move || {
                relay::run(&relayed, &control, &latest, &finished);
            })?;
        }
        drop((control, finished));
        let relays = Relays { status, others };
        let front = Front::new(listener, settings, queue, relays, counters);
        peers.spawn("vcpid-peers", move || {
            front.run(&woken, &completions, &other_listeners);
        })?;
        Ok(peers)
    }

    /// Has readers know how the service is, for when it is kept waiting.
    pub(crate) fn publish(&self, status: Status) {
        self.latest.put(status);
    }

    /// Why readers cannot be answered at present, if that is so.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.failing.look(&self.directory)
    }

    /// Readers come to this listener from now on, and no more to the one before.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub(crate) fn listen(&self, listener: UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        if self.listeners.send(listener).is_ok() {
            // A full stream wakes as well.
            let _ = (&self.wake).write(&[0]);
        }
        Ok(())
    }

    /// What readers did since the last time, for the database's counters of the kind `peer`.
    pub(crate) fn take_counters(&self) -> Vec<(counters::Counter, u64)> {
        self.counters.take()
    }

    /// Processor time that readers have cost so far; nothing where the kernel does not tell.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.threads.cpu_time()
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.running.push(self.threads.spawn(name, body)?);
        Ok(())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // The workers end at the closed queue, the front at the end of its wake-up stream, and
        // the relay when the front is gone.
        self.queue.close();
        let _ = self.wake.shutdown(std::net::Shutdown::Both);
        for thread in self.running.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// As many of these connections as the process may have descriptors for, each with the file
/// of its view; the limit is raised as far as it may be.
fn room_for(clients: usize) -> usize {
    let wanted = u64::try_from(clients)
        .unwrap_or(u64::MAX)
        .saturating_mul(2)
        .saturating_add(OTHER_DESCRIPTORS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return clients;
    };
    let raised = wanted.min(hard).max(soft);
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, raised, hard) {
        Ok(()) => raised,
        Err(_) => soft,
    };
    // Where there is little, half of it is for readers.
    let spare = limit.saturating_sub(OTHER_DESCRIPTORS).max(limit / 2) / 2;
    clients
        .min(usize::try_from(spare).unwrap_or(usize::MAX))
        .max(1)
}

#[cfg(test)]
mod tests;
