//! Attempts to get more than one may see.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, ensure};
use profiledb::ImageKind;
use protocol::{
    Control, Hello, MAX_REPLY, Range, Refusal, Reply, Request, Selection, VERSION, encode,
};
use vcpi_tests::harness::{Test, test, text};

use crate::people::{People, Person};
use crate::reader::{Reader, frames, laid_open, profile_of, refusal_of, replies, view_of};
use crate::service::{PEOPLE, Service};
use crate::{ALICE, BOB};

/// One program of each user.
fn two(service: &Service) -> Result<[Person; 2]> {
    let mut people = People::new(service)?;
    let mut start = |name: &str, uid| {
        let program = people.program(name, 0o755)?;
        people.start(&program, uid, &["burn=500"])
    };
    let mut both = [start("own-alice", ALICE)?, start("own-bob", BOB)?];
    for person in &mut both {
        person.finish()?;
    }
    people.settle()?;
    people.until_known(&both.each_ref())?;
    Ok(both)
}

pub(crate) const REQUESTS: Test = test("forged requests get nothing more", requests, PEOPLE);
/// Selections name what others have, SQL, or files: each view holds at most what is the
/// reader's. Requests for the service itself, broken ones and second ones are refused.
fn requests() -> Result<()> {
    let mut service = Service::start("")?;
    let people = two(&service)?;
    let bob = Reader::user(BOB);
    let range = |image: &str| Range {
        image: image.to_owned(),
        start: 0,
        end: u64::MAX,
    };
    let image = |name: &str| Selection {
        images: vec![name.to_owned()],
        ..Selection::default()
    };
    let of_others = [
        Selection {
            uids: vec![0, ALICE],
            ..Selection::default()
        },
        Selection {
            pids: vec![1, service.pid()],
            ..Selection::default()
        },
        Selection {
            ranges: vec![range("[kernel]"), range("own-alice")],
            ..Selection::default()
        },
        image("own-alice"),
        image("[kernel]"),
        image("' OR 1=1; --"),
        image("own-bob'; ATTACH '/etc/shadow' AS s; --"),
        image("../../../../etc/shadow"),
        image("file:/etc/shadow?mode=rw"),
        image(service.databases().to_str().unwrap_or_default()),
        Selection {
            epochs: vec![i64::MIN, -1, 0, i64::MAX],
            ..Selection::default()
        },
        Selection {
            since: Some(i64::MAX),
            until: Some(i64::MIN),
            ..Selection::default()
        },
    ];
    for selection in of_others {
        let (view, bytes) = bob.view(&service, selection.clone())?;
        let mut rows = view.hotlists.len() + view.calls.len() + view.branches.len();
        // Who asks for a range has cycles of all that is theirs: shares are of these.
        if selection.ranges.is_empty() {
            rows += view.cycles.len();
        }
        ensure!(rows == 0, "{rows} rows for {selection:?}");
        ensure!(
            view.subjects.iter().all(|subject| subject.is_of(BOB)),
            "{:?} for {selection:?}",
            view.subjects
        );
        let key = people[0].key.to_be_bytes();
        ensure!(
            !bytes.windows(8).any(|window| window == key),
            "{selection:?}"
        );
    }
    let everything = Selection {
        uids: vec![0, ALICE, BOB],
        ..Selection::default()
    };
    let view = bob.profile(&service, everything)?;
    ensure!(!view.cycles.is_empty(), "Bob does not see what is his");
    ensure!(
        view.images
            .iter()
            .all(|image| image.kind != ImageKind::Kernel),
        "kernel code for Bob"
    );

    controls(&service)?;
    nonsense(&service)?;
    ensure!(service.is_alive(), service.journal());
    let view = Reader::user(0).profile(&service, Selection::default())?;
    ensure!(!view.cycles.is_empty(), "root sees nothing any more");
    Ok(())
}

/// The group may ask how the service is, root may change something, others nothing.
fn controls(service: &Service) -> Result<()> {
    let member = Reader {
        group: Some(crate::service::group()?),
        ..Reader::user(ALICE)
    };
    let ask = |reader: Reader, control| {
        let replies = reader.ask(service, &Request::Control(control))?;
        anyhow::Ok((refusal_of(&replies), replies))
    };
    for control in [Control::Flush, Control::Epoch, Control::Reload] {
        for reader in [Reader::user(BOB), member] {
            let (refusal, replies) = ask(reader, control)?;
            ensure!(
                refusal == Some(Refusal::Forbidden),
                "{control:?}: {replies:?}"
            );
        }
    }
    let (refusal, replies) = ask(Reader::user(BOB), Control::Status)?;
    ensure!(refusal == Some(Refusal::Forbidden), "{replies:?}");
    for reader in [member, Reader::user(0)] {
        let (_, replies) = ask(reader, Control::Status)?;
        let answered = matches!(replies.as_slice(), [Reply::Control(Ok(_))]);
        ensure!(answered, "{replies:?}");
    }
    Ok(())
}

/// What is no request is refused as that.
fn nonsense(service: &Service) -> Result<()> {
    let request = Request::View(Selection::default());
    let hello = |magic, version| encode(&Hello { magic, version }, MAX_REPLY);
    let body = encode(&request, MAX_REPLY)?;
    let twice = [frames(&request)?, body.clone()].concat();
    let newer = [hello(*b"vcpi", VERSION + 1)?, body.clone()].concat();
    let other = [hello(*b"http", VERSION)?, body].concat();
    let reply = encode(&Reply::End { digest: [0; 32] }, MAX_REPLY)?;
    let oversized = [hello(*b"vcpi", VERSION)?, u32::MAX.to_le_bytes().to_vec()].concat();
    let cases = [
        (twice, Refusal::Malformed),
        (newer, Refusal::Version(VERSION)),
        (other, Refusal::Malformed),
        (
            [hello(*b"vcpi", VERSION)?, reply].concat(),
            Refusal::Malformed,
        ),
        (oversized, Refusal::Malformed),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Refusal::Malformed),
        (vec![0xff; 1 << 20], Refusal::Malformed),
    ];
    for (bytes, expected) in cases {
        let replies = replies(&Reader::user(BOB).exchange(service, &bytes)?)?;
        ensure!(
            refusal_of(&replies) == Some(expected),
            "{replies:?} in place of {expected:?}"
        );
    }
    Ok(())
}

pub(crate) const HANDED_OVER: Test = test(
    "a connection shows what its maker may see, whoever holds it",
    handed_over,
    PEOPLE,
);
/// A connection that Bob made and root asks on shows what Bob may see: who could make a
/// privileged program ask for them would gain nothing.
fn handed_over() -> Result<()> {
    let service = Service::start("")?;
    let people = two(&service)?;
    let mut stream = Reader::user(BOB).connect_for_us(&service)?;
    stream.write_all(&frames(&Request::View(Selection::default()))?)?;
    stream.shutdown(Shutdown::Write)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let view = view_of(replies(&bytes)?)?;
    let bytes = laid_open(&view)?;
    let has = |key: u64| bytes.windows(8).any(|window| window == key.to_be_bytes());
    ensure!(has(people[1].key) && !has(people[0].key), "another's view");
    let profile = profile_of(&view)?;
    ensure!(
        profile.subjects.iter().all(|subject| subject.is_of(BOB)),
        "{:?}",
        profile.subjects
    );
    Ok(())
}

pub(crate) const FILES: Test = test("the databases are closed to all others", files, PEOPLE);
/// The databases are for root's eyes, whoever asks the file system for them.
fn files() -> Result<()> {
    let service = Service::start("")?;
    service.flush()?;
    let directory = service.databases();
    let mode = |path: &Path| anyhow::Ok(fs::metadata(path)?.permissions().mode() & 0o777);
    ensure!(mode(&directory)? & 0o007 == 0, "the directory is open");
    let member = Reader {
        group: Some(crate::service::group()?),
        ..Reader::user(ALICE)
    };
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        ensure!(mode(&path)? & 0o077 == 0, "{} is open", path.display());
        for reader in [Reader::user(ALICE), member] {
            let output = reader
                .command(&service.path("vcpi"))
                .arg("-i")
                .arg(&path)
                .arg("top")
                .output()?;
            ensure!(output.status.code() == Some(3), text(&output));
        }
    }
    Ok(())
}
