//! What the loop takes at a time.

use std::sync::mpsc::sync_channel;

use super::*;
use crate::collector::Settings;

fn session() -> Session {
    let collector = Collector::new(Settings::small());
    Session::new(&[0], collector, Store::closed().unwrap())
}

fn batch(records: usize) -> Batch {
    Batch {
        cpu: 0,
        records: vec![Record::Throttle { time: 1 }; records],
        drained_to: 2,
        news: 0,
        malformed: 0,
        inherited: 0,
        intervals: Vec::new(),
        others_drained_to: Vec::new(),
    }
}

/// However much waits to be taken, a piece of it is, and the rest goes on waiting there; all that
/// waits is told.
#[test]
fn pieces() {
    const EACH: usize = 1000;
    let (sender, batches) = sync_channel(64);
    let mut sent = 0;
    for _ in 0..64 {
        let batch = batch(EACH);
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

/// Naps become longer where nothing is learned, up to two seconds, and short again when something is.
#[test]
fn naps() {
    let [least, _, most] = NAPS;
    let naps = std::iter::successors(Some(least), |nap| Some(next_nap(*nap, 100, 5)));
    assert_eq!(naps.take_while(|nap| *nap < most).count(), 6);
    assert_eq!(next_nap(most, 100, 5), most);
    assert_eq!(next_nap(most, 100, 6), least);
    assert_eq!(next_nap(most, 0, 0), most);
}

/// A nap is cut short where one record in eight is news, and more where every second is; not for less.
#[test]
fn news_shortens_naps() {
    let mut session = session();
    let [least, with_news, most] = NAPS;
    assert_eq!(session.shortened(most), most);
    let news = |news| Batch { news, ..batch(0) };
    session.take(batch(80));
    session.take(news(10));
    assert_eq!(session.shortened(most), most);
    session.take(news(1));
    assert_eq!(session.shortened(most), with_news);
    assert_eq!(session.shortened(least), least);
    session.take(news(30));
    assert_eq!(session.shortened(most), least);
}
