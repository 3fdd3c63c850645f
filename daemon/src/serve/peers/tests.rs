//! Readers of the test's own user, over a real socket.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use counters::Counter;
use profiledb::{Epoch, Filter, Image, ImageKind, Process, Profile, Subject, Writer};
use protocol::{Answer, Client, ClientError, Hello, MAX_REPLY, Refusal, Request, Selection};
use tempfile::TempDir;

use super::*;
use crate::serve::newest;

/// A service's readers, and the channel in place of its loop.
struct Bench {
    folder: TempDir,
    peers: Peers,
    controls: Receiver<Control>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Settings)) -> Bench {
        let folder = TempDir::new().expect("a folder");
        let databases = folder.path().join("databases");
        std::fs::create_dir(&databases).expect("is made");
        database(&databases.join("a.db"));
        let listener = UnixListener::bind(folder.path().join("socket")).expect("listens");
        let mut settings = Settings {
            clients: 64,
            clients_per_user: 64,
            requests_per_minute: 1000,
            view_bytes: 1 << 20,
            view_time: Duration::from_secs(60),
            group: None,
        };
        change(&mut settings);
        let (control, controls) = sync_channel(1);
        let peers = Peers::start(listener, settings, databases, control, &newest::channel().0)
            .expect("starts");
        Bench {
            folder,
            peers,
            controls,
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.folder.path().join("socket")).expect("connects")
    }

    fn stream(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("socket")).expect("connects")
    }
}

fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Interrupts at one PC of this user, and at one of another.
fn database(path: &Path) {
    let epoch = Epoch {
        started: 1,
        ended: None,
        host: String::new(),
        kernel: String::new(),
        command: "serve".to_owned(),
        engine: "bpf".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 1.0,
        period: 1,
        window: 16,
        settings: profiledb::EpochSettings::default(),
    };
    let mut writer = Writer::create_epoch(path, &epoch).expect("creates");
    let mut flush = writer.begin(0, 1).expect("begins");
    for of in [uid(), uid() + 1] {
        let image = flush.image(&Image {
            kind: ImageKind::File,
            path: format!("/bin/of-{of}"),
            build_id: None,
            identity: of.to_string(),
        });
        let process = flush.process(&Process {
            pid: of,
            started: 1,
            execs: 0,
            comm: String::new(),
        });
        let subject = flush.subject(&Subject {
            uid: Some(of),
            euid: Some(of),
            suid: Some(of),
            dumpable: Some(true),
            capable: Some(false),
            ..Subject::default()
        });
        let pc = flush.pc(image.expect("is put"), 0x1000, None);
        let (process, subject) = (process.expect("is put"), subject.expect("is put"));
        let put = flush.cycles(process, subject, pc.expect("is put"), None, 1, 1);
        put.expect("is put");
    }
    flush.commit().expect("commits");
    writer.close().expect("closes");
}

fn profile(bytes: &[u8]) -> Profile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("writes");
    Profile::load(&[file.path().to_owned()], &Filter::default()).expect("loads")
}

/// A view arrives whole, holds what this user may see, and leaves no file behind.
#[test]
fn a_view() {
    let bench = Bench::new(|_| {});
    let mut bytes = Vec::new();
    let received = bench.client().view(Selection::default(), &mut bytes);
    assert_eq!(received.expect("arrives").bytes, bytes.len() as u64);
    let expected = if uid() == 0 { 2 } else { 1 };
    assert_eq!(profile(&bytes).images.len(), expected);
    let databases = bench.folder.path().join("databases");
    let names = std::fs::read_dir(databases).expect("reads");
    assert_eq!(
        names
            .flatten()
            .filter(|entry| entry.file_name() != "a.db")
            .count(),
        0
    );
}

/// What cannot be read is named in the answer, and the rest is there.
#[test]
fn a_damaged_database() {
    let bench = Bench::new(|_| {});
    let damaged = bench.folder.path().join("databases").join("b.db");
    std::fs::write(damaged, [b'x'; 5000]).expect("writes");
    let mut bytes = Vec::new();
    let received = bench
        .client()
        .view(Selection::default(), &mut bytes)
        .expect("arrives");
    assert_eq!(received.notes.len(), 1);
    assert!(received.notes[0].contains("b.db"), "{:?}", received.notes);
    assert!(!profile(&bytes).images.is_empty());
    // One that was moved aside is named as well.
    let aside = "2026-11-21T00-00-00-000017.db.damaged";
    let path = bench.folder.path().join("databases").join(aside);
    std::fs::write(path, [b'x'; 5000]).expect("writes");
    let received = bench
        .client()
        .view(Selection::default(), &mut Vec::new())
        .expect("arrives");
    assert_eq!(received.notes.len(), 2);
    assert!(received.notes[1].contains(aside), "{:?}", received.notes);
}

/// A view that would be too large, or takes too long, is refused as that.
#[test]
fn limits_of_views() {
    let refusal = |change: fn(&mut Settings)| {
        let bench = Bench::new(change);
        match bench.client().view(Selection::default(), &mut Vec::new()) {
            Err(ClientError::Refused { refusal, .. }) => refusal,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refusal(|settings| settings.view_bytes = 1),
        Refusal::TooLarge
    );
    let at_once = |settings: &mut Settings| settings.view_time = Duration::ZERO;
    assert_eq!(refusal(at_once), Refusal::TooSlow);
}

/// What is asked of the service reaches its loop, whose answer comes back; a loop that takes
/// nothing costs the reader nothing but the answer. Others than root and the group are refused
/// before that.
#[test]
fn controls() {
    let bench = Bench::new(|_| {});
    let socket = bench.folder.path().join("socket");
    let ask = || {
        let client = Client::connect(&socket).expect("connects");
        client.control(protocol::Control::Status)
    };
    if uid() != 0 {
        let refused = ask();
        let is_forbidden = matches!(
            &refused,
            Err(ClientError::Refused {
                refusal: Refusal::Forbidden,
                ..
            })
        );
        assert!(is_forbidden, "{refused:?}");
        return;
    }
    std::thread::scope(|scope| {
        let asked = scope.spawn(ask);
        let control = bench.controls.recv().expect("comes");
        assert_eq!(control.request, protocol::Control::Status);
        let answer = Answer {
            text: "well".to_owned(),
            json: "{}".to_owned(),
        };
        control
            .reply
            .try_send(Ok(answer.clone()))
            .expect("has room");
        assert_eq!(asked.join().expect("ends").expect("is answered"), answer);
    });
    std::thread::scope(|scope| {
        let asked = scope.spawn(ask);
        let control = bench.controls.recv().expect("comes");
        control
            .reply
            .try_send(Err("no".to_owned()))
            .expect("has room");
        let failed = asked.join().expect("ends");
        assert!(
            matches!(&failed, Err(ClientError::Failed(why)) if why == "no"),
            "{failed:?}"
        );
    });
    std::thread::scope(|scope| {
        let asked = scope.spawn(ask);
        // The loop is gone without an answer.
        drop(bench.controls.recv().expect("comes"));
        let refused = asked.join().expect("ends");
        assert!(
            matches!(refused, Err(ClientError::Refused { .. })),
            "{refused:?}"
        );
    });
}

/// Requests beyond a minute's number are refused, but those of root.
#[test]
fn requests_are_counted() {
    let bench = Bench::new(|settings| settings.requests_per_minute = 3);
    let served = (0..5).filter(|_| {
        let received = bench.client().view(Selection::default(), &mut Vec::new());
        match received {
            Ok(_) => true,
            Err(ClientError::Refused { refusal, .. }) => {
                assert_eq!(refusal, Refusal::Busy);
                false
            }
            Err(other) => panic!("{other}"),
        }
    });
    assert_eq!(served.count(), if uid() == 0 { 5 } else { 3 });
    let counted = bench.peers.take_counters();
    let connections = counted.iter().find(|(of, _)| *of == Counter::Connections);
    assert_eq!(connections, Some(&(Counter::Connections, 5)));
    assert!(
        bench
            .peers
            .take_counters()
            .iter()
            .all(|(_, count)| *count == 0)
    );
}

/// Where there is room for four, five that say nothing do not keep a sixth out.
#[test]
fn room_is_made() {
    let bench = Bench::new(|settings| settings.clients = 4);
    let silent: Vec<UnixStream> = (0..5).map(|_| bench.stream()).collect();
    let mut bytes = Vec::new();
    let received = bench.client().view(Selection::default(), &mut bytes);
    received.expect("arrives");
    drop(silent);
}

/// A reader that has said all it will say, and only listens, is answered.
#[test]
fn half_closed() {
    let bench = Bench::new(|_| {});
    let mut stream = bench.stream();
    let hello = protocol::encode(&Hello::default(), MAX_REPLY).expect("fits");
    let request = Request::View(Selection::default());
    let request = protocol::encode(&request, MAX_REPLY).expect("fits");
    // In parts, as they may come.
    for byte in [hello, request].concat() {
        stream.write_all(&[byte]).expect("writes");
    }
    stream.shutdown(std::net::Shutdown::Write).expect("ends");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("is answered");
    let mut decoder = protocol::Decoder::new(MAX_REPLY);
    decoder.push(&bytes);
    let mut last = None;
    while let Some(reply) = decoder.take::<protocol::Reply>().expect("decodes") {
        last = Some(reply);
    }
    assert!(
        matches!(last, Some(protocol::Reply::End { .. })),
        "{last:?}"
    );
}

/// At its end the service hangs up on whoever is there, at once.
#[test]
fn the_end() {
    let Bench {
        folder,
        peers,
        controls,
    } = Bench::new(|_| {});
    let mut streams: Vec<UnixStream> = (0..3)
        .map(|_| UnixStream::connect(folder.path().join("socket")).expect("connects"))
        .collect();
    drop(peers);
    for stream in &mut streams {
        // Connections that were not accepted are reset.
        let read = stream.read(&mut [0; 10]);
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    }
    assert!(controls.recv().is_err());
}
