//! What the service has not saved yet.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use profiledb::{Filter, Profile};
use protocol::{Kinds, Selection};
use vcpi_tests::harness::{Test, test};

use crate::people::{People, keys};
use crate::reader::Reader;
use crate::service::{PEOPLE, Service};
use crate::{ALICE, BOB};

/// How long samples may take to arrive.
const PATIENCE: Duration = Duration::from_secs(240);

/// When the last flush ended that is in a file.
fn saved(service: &Service) -> Result<Option<i64>> {
    let mut last = None;
    for entry in fs::read_dir(service.databases())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "db") {
            let profile = Profile::load(&[path], &Filter::default())?;
            let ended = profile.extents.iter().filter_map(|extent| extent.saved);
            last = last.max(ended.max());
        }
    }
    Ok(last)
}

pub(crate) const BEFORE_THE_FLUSH: Test = test(
    "readers see what no flush has saved, each what is theirs",
    before_the_flush,
    PEOPLE,
);
/// Readers see values that no flush has saved: ordinary ones their own alone.
fn before_the_flush() -> Result<()> {
    let service = Service::start("")?;
    let mut people = People::new(&service)?;
    let program = people.program("own-alice", 0o755)?;
    let alice = people.start(&program, ALICE, &["burn=2000"])?;
    let program = people.program("own-bob", 0o755)?;
    let bob = people.start(&program, BOB, &["burn=2000"])?;
    let both = [alice, bob];
    let readers = [
        (Reader::user(ALICE), &["own-alice"][..]),
        (Reader::user(BOB), &["own-bob"]),
        (Reader::user(0), &["own-alice", "own-bob"]),
        (Reader::user(BOB + 1), &[]),
    ];
    let deadline = Instant::now() + PATIENCE;
    for (reader, expected) in readers {
        loop {
            let profile = reader.profile(&service, Selection::default())?;
            // What was saved meanwhile does not count.
            let in_files = saved(&service)?;
            ensure!(profile.epochs.len() == 1, "{} epochs", profile.epochs.len());
            let found: Vec<&str> = keys(&profile, &both).into_iter().collect();
            let others = found.iter().any(|name| !expected.contains(name));
            ensure!(!others, "{found:?} for {}", reader.uid);
            let last = profile.extents.iter().filter_map(|one| one.saved).max();
            if found == expected && (expected.is_empty() || last > in_files) {
                break;
            }
            ensure!(
                Instant::now() < deadline,
                "{found:?} for {}: {}",
                reader.uid,
                service.journal()
            );
        }
    }
    counted(&service, deadline)
}

/// Who asks for counters alone is told of the samples that no flush has saved, too: root all that
/// was counted, others how many are theirs.
fn counted(service: &Service, deadline: Instant) -> Result<()> {
    let counters = Selection {
        kinds: Kinds {
            cycles: false,
            values: false,
            branches: false,
            calls: false,
            stacks: false,
            counters: true,
        },
        ..Selection::default()
    };
    for (reader, is_told_all) in [(Reader::user(0), true), (Reader::user(ALICE), false)] {
        loop {
            let profile = reader.profile(service, counters.clone())?;
            let in_files = saved(service)?;
            let last = profile.extents.iter().filter_map(|one| one.saved).max();
            let of = |name: &str| {
                let key = ("run".to_owned(), name.to_owned());
                profile.counters.get(&key).copied().unwrap_or(0)
            };
            if last > in_files && of("samples") > 0 && (of("windows") > 0) == is_told_all {
                break;
            }
            ensure!(
                is_told_all || profile.counters.len() <= 1,
                "{:?}",
                profile.counters
            );
            ensure!(
                Instant::now() < deadline,
                "{:?} for {}, saved {in_files:?}, told until {last:?}",
                profile.counters,
                reader.uid
            );
        }
    }
    Ok(())
}
