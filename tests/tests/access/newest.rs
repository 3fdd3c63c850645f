//! What the service has not saved yet.

use std::fs;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use profiledb::{Filter, Profile};
use protocol::Selection;

use crate::common::ensure;
use crate::people::People;
use crate::reader::Reader;
use crate::service::Service;
use crate::sight::keys;
use crate::{ALICE, BOB};

/// How long samples may take to arrive.
const PATIENCE: Duration = Duration::from_secs(240);

/// When the last flush ended that is in a file.
fn saved(service: &Service) -> Result<Option<i64>, Failed> {
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

/// Readers see values that no flush has saved: ordinary ones their own alone.
pub(crate) fn before_the_flush() -> Result<(), Failed> {
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
            let before = saved(&service)?;
            let (profile, _) = reader.view(&service, Selection::default())?;
            ensure(profile.epochs.len() == 1, || {
                format!("{} epochs", profile.epochs.len())
            })?;
            let found: Vec<&str> = keys(&profile, &both).into_iter().collect();
            let others = found.iter().any(|name| !expected.contains(name));
            ensure(!others, || format!("{found:?} for {}", reader.uid))?;
            let last = profile.extents.iter().filter_map(|one| one.saved).max();
            if found == expected && (expected.is_empty() || last > before) {
                break;
            }
            ensure(Instant::now() < deadline, || {
                format!("{found:?} for {}: {}", reader.uid, service.journal())
            })?;
        }
    }
    Ok(())
}
