//! The thread that talks to all readers.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::{Refusal, Reply, Request};

use super::connection::{Connection, ConnectionStep};
use super::outcome::Outcome;
use super::queue::{Job, Queue};
use super::relay::Relays;
use super::settings::Settings;
use super::token::Token;
use super::users::{Counters, Users};

/// Connections accepted before those that are there get their turn again.
const ACCEPTED_AT_ONCE: usize = 64;
/// How long nothing is accepted after there was no room for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The longest wait for anything.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// All connections.
pub(super) struct Front {
    listener: UnixListener,
    settings: Settings,
    queue: Arc<Queue>,
    relays: Relays,
    counters: Arc<Counters>,
    connections: HashMap<Token, Connection>,
    users: Users,
    next: u64,
    /// Until when nothing is accepted.
    pause: Option<Instant>,
}

impl Front {
    pub(super) fn new(
        listener: UnixListener,
        settings: Settings,
        queue: Arc<Queue>,
        relays: Relays,
        counters: Arc<Counters>,
    ) -> Front {
        Front {
            listener,
            users: Users::new(settings.requests_per_minute),
            settings,
            queue,
            relays,
            counters,
            connections: HashMap::new(),
            next: 0,
            pause: None,
        }
    }

    /// Serves until `woken` ends.
    pub(super) fn run(
        mut self,
        woken: &UnixStream,
        completions: &Receiver<(Token, Outcome)>,
        listeners: &Receiver<UnixListener>,
    ) {
        loop {
            let now = Instant::now();
            self.expire(now);
            let (wakes, accepts, ready) = self.wait(woken, now);
            let now = Instant::now();
            if wakes && !drained(woken) {
                return;
            }
            for listener in listeners.try_iter() {
                // Who has connected already is not left behind.
                self.accept(now);
                self.listener = listener;
            }
            for (token, outcome) in completions.try_iter() {
                self.finish(token, outcome, now);
            }
            for (token, flags) in ready {
                self.attend(token, flags, now);
            }
            if accepts {
                self.accept(now);
            }
        }
    }

    /// Waits until something can be done: whether others have finished something, whether
    /// somebody connects, and who can be read from or written to.
    fn wait(&self, woken: &UnixStream, now: Instant) -> (bool, bool, Vec<(Token, PollFlags)>) {
        let deadlines = self.connections.values().map(Connection::deadline);
        let until = deadlines.chain(self.pause).min();
        let wait = until.map_or(LONGEST_WAIT, |at| {
            at.saturating_duration_since(now).min(LONGEST_WAIT)
        });
        // Rounded up, or it would be awake before the time and wait again for none.
        let wait = PollTimeout::try_from(wait + Duration::from_millis(1));
        let accepting = match self.pause {
            Some(_) => PollFlags::empty(),
            None => PollFlags::POLLIN,
        };
        let mut fds = vec![
            PollFd::new(woken.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), accepting),
        ];
        let mut tokens = Vec::with_capacity(self.connections.len());
        for (token, connection) in &self.connections {
            let mut flags = PollFlags::empty();
            let (reads, writes) = connection.wants();
            flags.set(PollFlags::POLLIN, reads);
            flags.set(PollFlags::POLLOUT, writes);
            fds.push(PollFd::new(connection.stream().as_fd(), flags));
            tokens.push(*token);
        }
        // An interrupted wait is one in which nothing happened.
        if poll(&mut fds, wait.unwrap_or(PollTimeout::ZERO)).is_err() {
            return (false, false, Vec::new());
        }
        let happened = |fd: Option<&PollFd<'_>>| {
            let flags = fd.and_then(PollFd::revents);
            flags.unwrap_or(PollFlags::empty())
        };
        let wakes = !happened(fds.first()).is_empty();
        let accepts = !happened(fds.get(1)).is_empty();
        let ready = tokens
            .into_iter()
            .zip(fds.get(2..).unwrap_or_default())
            .map(|(token, fd)| (token, happened(Some(fd))))
            .filter(|(_, flags)| !flags.is_empty());
        (wakes, accepts, ready.collect())
    }

    /// Looks after a connection on which something happened.
    fn attend(&mut self, token: Token, flags: PollFlags, now: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let (reads, writes) = connection.wants();
        let step = if reads {
            connection.read(now)
        } else if writes && flags.contains(PollFlags::POLLOUT) {
            connection.write(now)
        } else {
            // Only an end was waited for, or nothing can be written any more.
            ConnectionStep::Gone
        };
        self.act(token, step, now);
    }

    fn act(&mut self, token: Token, step: ConnectionStep, now: Instant) {
        match step {
            ConnectionStep::On => {}
            ConnectionStep::Asked(request) => self.ask(token, request, now),
            ConnectionStep::Refuse(refusal, message) => self.refuse(token, refusal, message, now),
            ConnectionStep::Done => self.close(token, true),
            ConnectionStep::Gone => self.close(token, false),
        }
    }

    fn ask(&mut self, token: Token, request: Request, now: Instant) {
        let Some(connection) = self.connections.get(&token) else {
            return;
        };
        let identity = connection.identity;
        if !self.users.may_ask(identity.uid, now) && identity.uid != 0 {
            let text = "too many requests in a short time; ask again later";
            return self.refuse(token, Refusal::Busy, text.to_owned(), now);
        }
        match request {
            Request::View(selection) => self.queue.push(Job {
                token,
                uid: identity.uid,
                viewer: identity.viewer(),
                selection,
                stop: Arc::clone(&connection.stop),
            }),
            Request::Control(request) if !identity.may(request) => {
                let text = match request {
                    protocol::Control::Status => "this is for root and the service's group",
                    _ => "this is for root",
                };
                self.refuse(token, Refusal::Forbidden, text.to_owned(), now);
            }
            Request::Control(request) => {
                if !self.relays.send(token, request) {
                    let text = "the service has other requests to answer";
                    self.refuse(token, Refusal::Busy, text.to_owned(), now);
                }
            }
        }
    }

    /// Begins to answer a request, if somebody still waits for it.
    fn finish(&mut self, token: Token, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Reply(Reply::Refused { refusal, message }) => {
                self.refuse(token, refusal, message, now);
            }
            Outcome::Reply(reply) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.reply(&reply, now);
                }
            }
            Outcome::View(view) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.send(view, now);
                }
            }
        }
    }

    fn refuse(&mut self, token: Token, refusal: Refusal, message: String, now: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let counters = &self.counters;
        let counter = match refusal {
            Refusal::Version(_) => &counters.refused_version,
            Refusal::Malformed => &counters.refused_malformed,
            Refusal::Forbidden => &counters.refused_forbidden,
            Refusal::Busy => &counters.refused_busy,
            Refusal::TooLarge => &counters.refused_too_large,
            Refusal::TooSlow => &counters.refused_too_slow,
            Refusal::Failed => &counters.refused_failed,
        };
        Counters::add(counter, 1);
        tracing::debug!(uid = connection.identity.uid, ?refusal, message, "refused");
        connection.reply(&Reply::Refused { refusal, message }, now);
    }

    /// Ends a connection; `done` if its last reply is sent.
    fn close(&mut self, token: Token, done: bool) {
        let Some(connection) = self.connections.remove(&token) else {
            return;
        };
        self.users.disconnected(connection.identity.uid);
        let counters = &self.counters;
        if !done {
            Counters::add(&counters.hung_up, 1);
        } else if connection.view_bytes > 0 {
            Counters::add(&counters.views, 1);
            Counters::add(&counters.view_bytes, connection.view_bytes);
        } else if connection.answered {
            Counters::add(&counters.controls, 1);
        }
    }

    fn expire(&mut self, now: Instant) {
        if self.pause.is_some_and(|until| now >= until) {
            self.pause = None;
        }
        let late: Vec<(Token, ConnectionStep)> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.deadline() <= now)
            .map(|(token, connection)| (*token, connection.expire()))
            .collect();
        for (token, step) in late {
            self.act(token, step, now);
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The reader was gone before it was there.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => {
                    // No descriptors, no memory: it will not be better at once.
                    Counters::add(&self.counters.accepts_failed, 1);
                    self.pause = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream, now: Instant) {
        let Ok(connection) = Connection::new(stream, self.settings.group, now) else {
            return Counters::add(&self.counters.accepts_failed, 1);
        };
        let uid = connection.identity.uid;
        let token = Token(self.next);
        self.next += 1;
        Counters::add(&self.counters.connections, 1);
        let has_room =
            self.users.connections(uid) < self.settings.clients_per_user && self.make_room(uid);
        self.users.connected(uid, now);
        self.connections.insert(token, connection);
        if !has_room {
            let text = "too many connections; ask again later";
            self.refuse(token, Refusal::Busy, text.to_owned(), now);
            // What does not fit into its buffer at once is not worth a place.
            if let Some(connection) = self.connections.get_mut(&token) {
                let done = matches!(connection.write(now), ConnectionStep::Done);
                self.close(token, done);
            }
        }
    }

    /// Makes sure that one more connection of `uid` has room, by hanging up on another if need
    /// be: one of who has more of them, else one that has not asked for anything yet.
    fn make_room(&mut self, uid: u32) -> bool {
        if self.connections.len() < self.settings.clients {
            return true;
        }
        let busiest = self.users.busiest();
        let of_busiest = busiest.filter(|(_, count)| *count > self.users.connections(uid) + 1);
        let oldest = |wanted: &dyn Fn(&Connection) -> bool| {
            let mut tokens: Vec<&Token> = self
                .connections
                .iter()
                .filter(|(_, connection)| wanted(connection))
                .map(|(token, _)| token)
                .collect();
            tokens.sort_unstable();
            tokens.first().map(|token| **token)
        };
        let idle = oldest(&|connection| {
            connection.is_idle()
                && of_busiest.is_none_or(|(busy, _)| connection.identity.uid == busy)
        });
        let victim = idle.or_else(|| {
            let (busy, _) = of_busiest?;
            oldest(&|connection| connection.identity.uid == busy)
        });
        let Some(victim) = victim else {
            return false;
        };
        Counters::add(&self.counters.refused_busy, 1);
        self.close(victim, false);
        true
    }
}

/// Reads what woke; `false` if it was the end.
fn drained(woken: &UnixStream) -> bool {
    let mut stream = woken;
    let mut buffer = [0; 256];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}
