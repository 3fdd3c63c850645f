//! Requests to the service itself: to its loop, and the answer back.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::{Answer, Refusal, Reply};

use super::control::Control;
use super::outcome::{Finished, Outcome};
use super::token::Token;
use crate::serve::status::Status;

/// Requests that wait for the one before to be answered.
const WAITING: usize = 16;

/// How long the loop may take to answer: a flush to a slow disk takes its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to say how it is. What it said last is younger than a second then, unless
/// it is kept waiting: by a slow disk mostly.
const STATUS_PATIENCE: Duration = Duration::from_millis(500);

/// What the loop said last of how it is, and when.
#[derive(Debug, Default)]
pub(crate) struct Latest(Mutex<Option<(Instant, Status)>>);

impl Latest {
    /// It says how it is.
    pub(crate) fn put(&self, status: Status) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some((Instant::now(), status));
    }

    fn answer(&self) -> Option<Answer> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, status) = latest.as_ref()?;
        Some(status.clone().answer(at.elapsed()))
    }
}

/// A request on its way.
pub(super) type Relayed = (Token, protocol::Control);

/// The ways to the loop: how it is can be said while it does what another asked for.
pub(super) struct Relays {
    pub(super) status: SyncSender<Relayed>,
    pub(super) others: SyncSender<Relayed>,
}

impl Relays {
    /// Says whether there was room for the request.
    pub(super) fn send(&self, token: Token, request: protocol::Control) -> bool {
        let relay = match request {
            protocol::Control::Status => &self.status,
            _ => &self.others,
        };
        relay.try_send((token, request)).is_ok()
    }
}

pub(super) fn channel() -> (SyncSender<Relayed>, Receiver<Relayed>) {
    sync_channel(WAITING)
}

/// Passes on one request after the other until the front is gone.
pub(super) fn run(
    requests: &Receiver<Relayed>,
    control: &SyncSender<Control>,
    latest: &Latest,
    out: &Finished,
) {
    for (token, request) in requests {
        out.send(token, Outcome::Reply(ask(request, control, latest)));
    }
}

fn ask(request: protocol::Control, control: &SyncSender<Control>, latest: &Latest) -> Reply {
    if request == protocol::Control::Status {
        let reply = pass_on(request, control, STATUS_PATIENCE);
        let waits = |refusal| matches!(refusal, Refusal::TooSlow | Refusal::Busy);
        let before = match &reply {
            Reply::Refused { refusal, .. } if waits(*refusal) => latest.answer(),
            _ => None,
        };
        return before.map_or(reply, |answer| Reply::Control(Ok(answer)));
    }
    pass_on(request, control, PATIENCE)
}

fn pass_on(request: protocol::Control, control: &SyncSender<Control>, patience: Duration) -> Reply {
    let refused = |refusal, message: &str| Reply::Refused {
        refusal,
        message: message.to_owned(),
    };
    let (reply, answer) = sync_channel(1);
    match control.try_send(Control { request, reply }) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => {
            return refused(Refusal::Busy, "the service has other requests to answer");
        }
        Err(TrySendError::Disconnected(_)) => {
            return refused(Refusal::Failed, "the service is ending");
        }
    }
    match answer.recv_timeout(patience) {
        Ok(answer) => Reply::Control(answer),
        Err(RecvTimeoutError::Timeout) => {
            refused(Refusal::TooSlow, "the service does not answer in time")
        }
        Err(RecvTimeoutError::Disconnected) => refused(Refusal::Failed, "the service is ending"),
    }
}
