//! Many readers, and bad ones.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use protocol::{Client, Control, Hello, Kinds, MAX_REPLY, Request, Selection, encode};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};

use crate::people::People;
use crate::reader::{Reader, frames};
use crate::service::{PEOPLE, Service};
use crate::{ALICE, BOB};

/// Readers at a time.
const CLIENTS: usize = 500;

/// A service that knows something of Alice and Bob.
fn service(access: &str) -> Result<Service> {
    let service = Service::start(access)?;
    let mut people = People::new(&service)?;
    let mut all = Vec::new();
    for (name, uid) in [("own-alice", ALICE), ("own-bob", BOB)] {
        let program = people.program(name, 0o755)?;
        all.push(people.start(&program, uid, &["burn=300"])?);
    }
    for person in &mut all {
        person.finish()?;
    }
    people.settle()?;
    drop(all);
    Ok(service)
}

pub(crate) const FIVE_HUNDRED: Test =
    test("500 readers at once are all served", five_hundred, PEOPLE);
/// As many connections at the same time, each with a request of its own: all get their views
/// whole, and so does somebody else meanwhile.
fn five_hundred() -> Result<()> {
    let service = service("")?;
    let start = Arc::new(Barrier::new(CLIENTS + 1));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let (start, socket) = (Arc::clone(&start), service.socket());
        clients.push(
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn(move || {
                    let client = Client::connect(&socket);
                    start.wait();
                    // Some ask for the same, as many would.
                    let only = u32::try_from(number % 10).unwrap_or(0);
                    let selection = Selection {
                        uids: vec![ALICE, only],
                        kinds: Kinds {
                            values: false,
                            ..Kinds::default()
                        },
                        ..Selection::default()
                    };
                    let mut view = Vec::new();
                    let received = client.and_then(|client| client.view(selection, &mut view));
                    received.map(|received| received.bytes == view.len() as u64)
                })?,
        );
    }
    start.wait();
    let bobs = Reader::user(BOB).profile(&service, Selection::default())?;
    ensure!(!bobs.cycles.is_empty(), "Bob sees nothing");
    for client in clients {
        let whole = client.join().map_err(|_| anyhow!("a client panicked"))??;
        ensure!(whole, "a view was not whole");
    }
    Ok(())
}

pub(crate) const BAD_COMPANY: Test = test(
    "slow, silent and malformed readers hinder nobody",
    bad_company,
    PEOPLE,
);
/// Connections on which nothing comes, or half a request; on which the answer is not fetched;
/// nonsense of all lengths; readers that go in the middle. Others are served meanwhile, the
/// collector writes, and whoever was bad is served when they are good again.
fn bad_company() -> Result<()> {
    // Too few connections for all of them.
    let mut service = service("clients = 300\nclients_per_user = 280\nrequests_per_minute = 1000")?;
    let alice = Reader::user(ALICE);
    let view = Request::View(Selection::default());
    let whole = frames(&view)?;
    let half = &whole[..whole.len() / 2];
    let long = [
        encode(&Hello::default(), MAX_REPLY)?,
        60_000_u32.to_le_bytes().to_vec(),
    ]
    .concat();
    let mut held: Vec<Child> = Vec::new();
    for bytes in [&[][..], half, &long, &whole, &[0; 100], &[0xff; 5]] {
        held.push(alice.hold(&service, 60, bytes)?);
    }
    for reader in [Reader::user(BOB), Reader::user(0)] {
        let profile = reader.profile(&service, Selection::default())?;
        ensure!(!profile.cycles.is_empty(), "{reader:?} sees nothing");
    }
    service.flush()?;

    // Readers of everything who go in the middle of it.
    let all = frames(&Request::View(Selection::default()))?;
    for _ in 0..50 {
        let mut stream = UnixStream::connect(service.socket())?;
        stream.write_all(&all)?;
        drop(stream);
    }
    let answer = Client::connect(&service.socket())?.control(Control::Status)?;
    ensure!(!answer.text.is_empty(), "no status");
    for mut child in held {
        drop(child.stdin.take());
        child.wait()?;
    }
    let profile = alice.profile(&service, Selection::default())?;
    ensure!(!profile.cycles.is_empty(), "Alice sees nothing");
    ensure!(service.is_alive(), service.journal());
    Ok(())
}

pub(crate) const TIRELESS: Test = test(
    "users who ask without end have nobody sampled less",
    tireless,
    PEOPLE,
);
/// Two users who ask as fast as they are answered: root is answered meanwhile, samples are taken
/// and saved at the same rate, and what the users cost is not among what sampling costs.
fn tireless() -> Result<()> {
    const ROUNDS: usize = 8;
    let service = service("requests_per_minute = 6000")?;
    let status = || -> Result<Value> {
        let answer = Client::connect(&service.socket())?.control(Control::Status)?;
        Ok(serde_json::from_str(&answer.json)?)
    };
    let before = status()?;
    let stop = AtomicBool::new(false);
    let mut after = before.clone();
    let asked = thread::scope(|scope| -> Result<usize> {
        let readers = [ALICE, BOB, ALICE, BOB].map(|user| {
            let (stop, service) = (&stop, &service);
            scope.spawn(move || -> Result<usize> {
                let mut answers = 0;
                while !stop.load(Ordering::Relaxed) {
                    for words in [&["status"][..], &["top"], &["top", "--by", "instruction"]] {
                        let output = service.report(Reader::user(user), words)?;
                        ensure!(output.status.success(), text(&output));
                        answers += 1;
                    }
                }
                Ok(answers)
            })
        });
        let mut rounds = || -> Result<()> {
            for _ in 0..ROUNDS {
                service.flush()?;
                after = status()?;
            }
            Ok(())
        };
        let ended = rounds();
        stop.store(true, Ordering::Relaxed);
        let mut asked = 0;
        for reader in readers {
            asked += reader.join().map_err(|_| anyhow!("a reader panicked"))??;
        }
        ended.map(|()| asked)
    })?;
    ensure!(asked > 0, "nothing was asked");
    let same = |pointer: &str| before.pointer(pointer) == after.pointer(pointer);
    ensure!(
        same("/sampling/period") && same("/overhead/lowered"),
        "{before} then {after}"
    );
    let samples = |status: &Value| status["samples"].as_u64();
    ensure!(
        after["lost"] == before["lost"] && samples(&after) > samples(&before),
        "{before} then {after}"
    );
    Ok(())
}
