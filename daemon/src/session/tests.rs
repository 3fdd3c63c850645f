//! What the loop takes at a time.

use std::sync::mpsc::sync_channel;

use sampler::{Mmap, MmapIdentity, Mode, Pid, RawSample, Tid, UserRegisters};

use super::*;
use pipeline::collector::Settings;

fn session() -> Session {
    let collector = Collector::new(Settings::small());
    let store = Store::closed().unwrap();
    Session::new(&[0], collector, store, Duration::from_secs(4))
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
        let waiting = session.merge.waiting();
        assert!(waiting < PIECE + EACH, "{waiting} records at once");
        assert!(session.waiting_bytes(sent) >= sent - session.taken_bytes);
        while session.merge.pop().is_some() {
            taken += 1;
        }
    }
    assert_eq!((taken, session.taken_bytes), (64 * EACH, sent));
}

/// Somebody who wants nothing.
struct Idle;

impl Driver for Idle {
    fn look(&mut self, _: &mut Session) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self, _: &mut Session) {}

    fn saved(&mut self, _: &mut Session, _: Result<Saved, store::Error>) {}

    fn next_look(&self) -> Option<Instant> {
        None
    }

    fn interval(&self) -> Duration {
        Duration::MAX
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// A process that is not there.
const PID: Pid = Pid(4_000_001);

fn sample(time: u64, ip: u64) -> Record {
    Record::Sample(Box::new(RawSample {
        time,
        cpu: 0,
        pid: PID,
        tid: Tid(PID.0),
        period: 1000,
        ip: addresses::ProcessAddress(ip),
        mode: Mode::User,
        interrupted: None,
        user: UserRegisters::None,
        stack: Box::default(),
        capture: None,
    }))
}

/// A mapping of 4 KiB at 0x10000: of a file's code, or of data without a file.
fn mapped(time: u64, path: &str) -> Record {
    let is_file = !path.starts_with("//");
    Record::Mmap(Box::new(Mmap {
        time,
        pid: PID,
        tid: Tid(PID.0),
        address: 0x1_0000,
        len: 0x1000,
        offset: 0,
        identity: MmapIdentity::Inode {
            major: 0,
            minor: 0,
            inode: u64::from(is_file),
            generation: time,
        },
        prot: if is_file { 5 } else { 3 },
        flags: 2,
        path: std::path::Path::new(path).into(),
    }))
}

/// Samples wait for others of their place, but not for what changes what is mapped there: each is
/// counted where it was taken.
#[test]
fn samples_wait() {
    let start = |time| Record::Comm {
        time,
        pid: PID,
        tid: Tid(PID.0),
        name: "somebody".to_owned(),
        exec: true,
    };
    let mut session = session();
    let records = vec![
        start(1),
        mapped(2, "/one"),
        sample(3, 0x1_0008),
        sample(4, 0x1_0004),
        sample(5, 0x1_0008),
        mapped(6, "/two"),
        sample(7, 0x1_0008),
        start(8),
        sample(9, 0x1_0008),
    ];
    session.take(Batch {
        records,
        ..Batch::empty(0, 10)
    });
    session.hand_on(&mut Idle).unwrap();
    assert_eq!(session.handed, 9);
    assert_eq!(session.collector.waiting(), 1);
    session.run_waiting(&mut Idle).unwrap();
    let tables = &session.collector.tables;
    let counted = tables.cycles().map(|(_, cycles)| {
        let pc = tables.shared.pcs[cycles.pc.0 as usize];
        (pc.image.0, pc.address.0 & 0xf, cycles.samples)
    });
    let mut counted: Vec<_> = counted.collect();
    counted.sort_unstable();
    let one = counted[0].0;
    let expected = [(one, 4, 1), (one, 8, 2), (one + 1, 8, 1), (one + 2, 8, 1)];
    assert_eq!(counted, expected);
    assert_eq!(tables.lost().total(), 1, "the last has nothing mapped");
}

/// What waits is looked at first where a record changes what it sees, and for no others: data that
/// is mapped where there was none is as unknown as before.
#[test]
fn what_is_not_waited_for() {
    let mut session = session();
    let collector = &mut session.collector;
    let other = Pid(PID.0 + 1);
    let exit = |pid: Pid, tid| Record::Exit {
        time: 9,
        pid,
        ppid: Pid(1),
        tid: Tid(tid),
        ptid: Tid(1),
    };
    collector.record(mapped(2, "//anon"), None);
    assert!(!collector.precede(&exit(PID, PID.0)), "none waits");
    assert!(collector.put_off((sample(3, 0x1_0008), None)).is_none());
    assert_eq!(collector.waiting(), 1);
    assert!(collector.precede(&exit(PID, PID.0)));
    assert!(!collector.precede(&exit(PID, PID.0 + 7)), "a thread");
    assert!(!collector.precede(&exit(other, other.0)));
    assert!(!collector.precede(&mapped(4, "//anon")));
    assert!(collector.precede(&mapped(4, "/one")));
    collector.record(mapped(4, "/one"), None);
    assert!(collector.precede(&mapped(5, "//anon")));
    assert!(collector.put_off((exit(PID, PID.0), None)).is_some());
    collector.sort_waiting();
    assert!(collector.run_next() && !collector.run_next());
    assert_eq!((collector.waiting(), collector.waiting_bytes()), (0, 0));
}
