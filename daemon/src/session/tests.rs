//! What the loop takes at a time.

use std::sync::mpsc::sync_channel;

use super::*;
use crate::collector::Settings;

fn session() -> Session {
    let collector = Collector::new(Settings::small());
    Session::new(&[0], collector, Store::closed().unwrap())
}

/// However much waits to be taken, a piece of it is, and the rest goes on waiting there; all that
/// waits is told.
#[test]
fn pieces() {
    const EACH: usize = 1000;
    let (sender, batches) = sync_channel(64);
    let mut sent = 0;
    for _ in 0..64 {
        let batch = Batch {
            records: vec![Record::Throttle { time: 1 }; EACH],
            ..Batch::empty(0, 2)
        };
        sent += batch.memory_bytes() as u64;
        sender.send(batch).unwrap();
    }
    let mut session = session();
    assert_eq!(session.waiting_bytes(sent), sent);
    let (mut taken, mut more) = (0, true);
    while more {
        more = session.receive(&batches) == Received::APiece;
        let waiting = session.merge.len();
        assert!(waiting < PIECE + EACH, "{waiting} records at once");
        assert!(session.waiting_bytes(sent) >= sent - session.taken_bytes);
        while session.merge.pop().is_some() {
            taken += 1;
        }
    }
    assert_eq!((taken, session.taken_bytes), (64 * EACH, sent));
}
