//! Requests to the service itself: to its loop, and the answer back.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use protocol::{Refusal, Reply};

use super::Control;
use super::connection::Token;
use super::front::{Finished, Outcome};

/// Requests that wait for the one before to be answered.
const WAITING: usize = 16;

/// How long the loop may take to answer: a flush to a slow disk takes its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request on its way.
pub(super) type Relayed = (Token, protocol::Control);

pub(super) fn channel() -> (SyncSender<Relayed>, Receiver<Relayed>) {
    sync_channel(WAITING)
}

/// Passes on one request after the other until the front is gone.
pub(super) fn run(requests: &Receiver<Relayed>, control: &SyncSender<Control>, out: &Finished) {
    for (token, request) in requests {
        out.send(token, Outcome::Reply(ask(request, control)));
    }
}

fn ask(request: protocol::Control, control: &SyncSender<Control>) -> Reply {
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
    match answer.recv_timeout(PATIENCE) {
        Ok(answer) => Reply::Control(answer),
        Err(RecvTimeoutError::Timeout) => {
            refused(Refusal::TooSlow, "the service does not answer in time")
        }
        Err(RecvTimeoutError::Disconnected) => refused(Refusal::Failed, "the service is ending"),
    }
}
