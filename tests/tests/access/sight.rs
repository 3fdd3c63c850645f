//! What each reader sees of what ran.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Result, ensure};
use profiledb::{ImageKind, Profile};
use protocol::Selection;
use vcpi_tests::harness::{Test, test, text};

use crate::people::{People, Person, keys};
use crate::reader::Reader;
use crate::service::{PEOPLE, Service};
use crate::{ALICE, BOB};

/// Somebody who has nothing to do with anything.
const STRANGER: u32 = 64_003;

/// Programs that run under all sorts of credentials.
fn everybody(service: &Service) -> Result<Vec<Person>> {
    let mut people = People::new(service)?;
    let to_alice = format!("uids={ALICE},{ALICE},{ALICE}");
    let to_alice_but_saved = format!("uids={ALICE},{ALICE},0");
    let plain = |name: &str, people: &People<'_>| people.program(name, 0o755);
    let mut all = Vec::new();
    let mut add = |person: Result<Person>| -> Result<()> {
        all.push(person?);
        Ok(())
    };

    let program = plain("own-alice", &people)?;
    add(people.start(&program, ALICE, &["burn=600"]))?;
    let program = plain("own-bob", &people)?;
    add(people.start(&program, BOB, &["burn=600"]))?;
    let program = plain("own-root", &people)?;
    add(people.start(&program, 0, &["burn=600"]))?;
    // Calls the kernel all the time, which is not hers.
    let program = plain("calls-alice", &people)?;
    add(people.start(&program, ALICE, &["burn=600", "system=600"]))?;
    // A set-uid helper, as it is, and as it would be if it took no care of its memory.
    let program = people.program("setuid-root", 0o4755)?;
    add(people.start(&program, ALICE, &["burn=400"]))?;
    let program = people.program("setuid-root-dumpable", 0o4755)?;
    add(people.start(&program, ALICE, &["dumpable=1", "burn=600"]))?;
    // Hers really, Bob's effectively: nobody's but root's.
    let program = people.program_of("setuid-bob", 0o4755, BOB)?;
    add(people.start(&program, ALICE, &["dumpable=1", "burn=600"]))?;
    // Daemons that gave up being root: as the kernel leaves them, and with a way back.
    let program = plain("dropped", &people)?;
    add(people.start(&program, 0, &[&to_alice, "burn=400"]))?;
    let program = plain("dropped-saved", &people)?;
    add(people.start(
        &program,
        0,
        &[&to_alice_but_saved, "dumpable=1", "burn=600"],
    ))?;
    // One that has nothing to hide any more, and says so: she might attach a debugger.
    let program = plain("dropped-open", &people)?;
    add(people.start(&program, 0, &[&to_alice, "dumpable=1", "burn=600"]))?;
    // More than an ordinary process may.
    let program = plain("capable", &people)?;
    let output = Command::new("setcap")
        .arg("cap_net_raw+ep")
        .arg(&program)
        .output()?;
    ensure!(output.status.success(), text(&output));
    add(people.start(&program, ALICE, &["dumpable=1", "burn=600"]))?;
    // A program that she may run and not read.
    let program = people.program("unreadable", 0o711)?;
    add(people.start(&program, ALICE, &["burn=400"]))?;
    // One that keeps its memory to itself.
    let program = plain("undumpable", &people)?;
    add(people.start(&program, ALICE, &["dumpable=0", "burn=400"]))?;
    // Hers until it becomes another program in the middle.
    let program = plain("before-exec", &people)?;
    let next = people.program("after-exec", 0o4755)?;
    let next = next.to_string_lossy().into_owned();
    let steps = ["burn=600", "exec", &next, "dumpable=1", "burn=400"];
    add(people.start(&program, ALICE, &steps))?;
    for person in &mut all {
        person.finish()?;
    }
    people.settle()?;
    let with_values = all.iter();
    let with_values = with_values.filter(|person| WITH_VALUES.contains(&person.name.as_str()));
    people.until_known(&with_values.collect::<Vec<_>>())?;
    Ok(all)
}

/// What Alice is to see, by the names of the programs.
const OF_ALICE: [&str; 4] = ["before-exec", "calls-alice", "dropped-open", "own-alice"];

/// Whose values are captured. (A program that becomes another one may be too short for that.)
const WITH_VALUES: [&str; 9] = [
    "calls-alice",
    "capable",
    "dropped-open",
    "dropped-saved",
    "own-alice",
    "own-bob",
    "own-root",
    "setuid-bob",
    "setuid-root-dumpable",
];

/// All of them.
const OF_ALL: [&str; 15] = [
    "after-exec",
    "before-exec",
    "calls-alice",
    "capable",
    "dropped",
    "dropped-open",
    "dropped-saved",
    "own-alice",
    "own-bob",
    "own-root",
    "setuid-bob",
    "setuid-root",
    "setuid-root-dumpable",
    "undumpable",
    "unreadable",
];

/// It keeps its memory to itself from its first steps on. Before these it is hers: an interrupt may
/// fall there, or into the loader, whose window goes on there. It has hundreds behind them.
const CLOSES: &str = "undumpable";

/// Samples in a program of that name, or called from it.
fn samples(profile: &Profile, name: &str) -> u64 {
    let is_of = |pc: usize| {
        let image = profile
            .pcs
            .get(pc)
            .and_then(|pc| profile.images.get(pc.image));
        image.is_some_and(|image| image.path.rsplit('/').next() == Some(name))
    };
    let rows = profile.cycles.iter();
    rows.filter(|row| is_of(row.pc) || row.caller.is_some_and(is_of))
        .map(|row| row.samples)
        .sum()
}

/// How often a value is in the list that has it most often.
fn most_often(profile: &Profile, value: u64) -> f64 {
    let tuples = profile.hotlists.iter().flat_map(|row| row.list.tuples());
    let of_value = tuples.filter(|tuple| tuple.value == value);
    of_value.map(|tuple| tuple.estimate).fold(0.0, f64::max)
}

/// The programs of the test that a profile has code of.
fn programs(profile: &Profile, service: &Service) -> BTreeSet<String> {
    let folder = service.path("");
    let of_ours = |path: &str| Some(path.strip_prefix(folder.to_str()?)?.to_owned());
    let paths = profile.images.iter().map(|image| image.path.as_str());
    paths
        .filter_map(of_ours)
        .filter(|name| OF_ALL.contains(&name.as_str()))
        .collect()
}

fn same(
    found: &BTreeSet<impl AsRef<str> + std::fmt::Debug>,
    expected: &[&str],
    what: &str,
) -> Result<()> {
    let is_same = found.iter().map(AsRef::as_ref).eq(expected.iter().copied());
    ensure!(is_same, "{what}: {found:?} in place of {expected:?}");
    Ok(())
}

pub(crate) const EACH_THEIR_OWN: Test = test(
    "each user sees what was theirs alone",
    each_their_own,
    PEOPLE,
);
/// A user sees the programs whose credentials were altogether theirs, while they were, and
/// nothing of the kernel; root and the group see all.
fn each_their_own() -> Result<()> {
    let service = Service::start("")?;
    let people = everybody(&service)?;

    for reader in [
        Reader::user(0),
        Reader {
            group: Some(crate::service::group()?),
            ..Reader::user(STRANGER)
        },
        Reader {
            gid: crate::service::group()?,
            ..Reader::user(STRANGER)
        },
    ] {
        let all = reader.profile(&service, Selection::default())?;
        same(&programs(&all, &service), &OF_ALL, "all")?;
        let of_kernel = all
            .subjects
            .iter()
            .any(|subject| subject.kernel && subject.uid == Some(ALICE));
        ensure!(of_kernel, "nothing was sampled in the kernel for Alice");
        ensure!(all.counters.len() > 20, "{:?}", all.counters);
        let mut found = keys(&all, &people);
        found.remove("before-exec");
        let closes = people.iter().find(|person| person.name == CLOSES);
        if closes.is_some_and(|person| most_often(&all, person.key) <= 1.0) {
            found.remove(CLOSES);
        }
        same(&found, &WITH_VALUES, "keys in all")?;
    }

    for (uid, expected) in [(ALICE, &OF_ALICE[..]), (BOB, &["own-bob"]), (STRANGER, &[])] {
        let (own, bytes) = Reader::user(uid).view(&service, Selection::default())?;
        let mut seen = programs(&own, &service);
        let is_early = uid == ALICE && samples(&own, CLOSES) <= 1 && seen.remove(CLOSES);
        same(&seen, expected, "own")?;
        let others: Vec<&str> = keys(&own, &people)
            .into_iter()
            .filter(|name| !expected.contains(name))
            .collect();
        ensure!(others.is_empty(), "keys of {others:?} for {uid}");
        for subject in &own.subjects {
            ensure!(subject.is_of(uid), "{subject:?} for {uid}");
        }
        let of_kernel = own
            .images
            .iter()
            .any(|image| image.kind == ImageKind::Kernel);
        ensure!(!of_kernel, "kernel code for {uid}");
        let counters: Vec<&str> = own.counters.keys().map(|(_, name)| name.as_str()).collect();
        ensure!(
            counters.iter().all(|name| *name == "samples"),
            "{counters:?}"
        );
        // Not even names of others, nor a trace of their keys.
        for person in &people {
            let name = format!("/{}", person.name);
            let visible = expected.contains(&person.name.as_str());
            let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
            // Some names are the beginnings of others.
            let is_named = bytes
                .windows(name.len() + 1)
                .any(|window| window.starts_with(name.as_bytes()) && !window.ends_with(b"-"));
            let is_named = is_named && !(is_early && person.name == CLOSES);
            let is_there = is_named || (!visible && has(&person.key.to_be_bytes()));
            ensure!(is_there == visible, "{} for {uid}: {is_there}", person.name);
        }
    }
    reports(&service)
}

pub(crate) const OF_RING: Test = test(
    "samples of the engine ring are for the privileged",
    of_ring,
    PEOPLE,
);
/// With the engine `ring` nobody knows whose a process was at the moment of a sample: users do
/// not see even what was theirs.
fn of_ring() -> Result<()> {
    let service = Service::start_with("ring", "")?;
    let mut people = People::new(&service)?;
    let program = people.program("own-alice", 0o755)?;
    let mut alice = people.start(&program, ALICE, &["burn=400"])?;
    alice.finish()?;
    people.settle()?;
    let all = Reader::user(0).profile(&service, Selection::default())?;
    same(&programs(&all, &service), &["own-alice"], "all")?;
    let own = Reader::user(ALICE).profile(&service, Selection::default())?;
    same(&programs(&own, &service), &[], "own")
}

/// The reports that users get are those of their views.
fn reports(service: &Service) -> Result<()> {
    let words = ["top", "--by", "image", "--format", "json"];
    for (uid, expected) in [(0, &OF_ALL[..]), (ALICE, &OF_ALICE), (BOB, &["own-bob"])] {
        let output = service.report(Reader::user(uid), &words)?;
        ensure!(output.status.success(), text(&output));
        let report = String::from_utf8_lossy(&output.stdout);
        let named = |name: &&str| report.contains(&format!("/{name}\""));
        let found: BTreeSet<&str> = OF_ALL.iter().copied().filter(named).collect();
        same(&found, expected, "top")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(said.contains("reading the service at"), "{said}");
    }
    counters(service)?;
    // Nothing, or the reader's own run of the report.
    let nobody = service.report(Reader::user(STRANGER), &words)?;
    let report = String::from_utf8_lossy(&nobody.stdout);
    let named = |name: &&str| report.contains(&format!("/{name}\""));
    let is_own = !OF_ALL.iter().any(named);
    ensure!(
        matches!(nobody.status.code(), Some(0 | 1)) && is_own,
        text(&nobody)
    );
    Ok(())
}

/// What is counted for the whole machine is no number to an ordinary user, not even 0; how many
/// samples are theirs is.
fn counters(service: &Service) -> Result<()> {
    let words = ["status", "--format", "json"];
    for (uid, sees_all) in [(0, true), (ALICE, false), (BOB, false)] {
        let output = service.report(Reader::user(uid), &words)?;
        ensure!(output.status.success(), text(&output));
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        for path in ["/windows", "/lost", "/stops", "/overhead/cpu_percent"] {
            let is_shown = status.pointer(path).map(|value| !value.is_null());
            ensure!(is_shown == Some(sees_all), "{path} for {uid}: {status}");
        }
        let epoch = &status["epochs"][0];
        ensure!(
            status["samples"].as_u64() > Some(0) && epoch["samples"] == status["samples"],
            "samples for {uid}: {status}"
        );
        ensure!(
            epoch["id"] == 1 && epoch["state"] == "running",
            "the epoch for {uid}: {epoch}"
        );
    }
    Ok(())
}
