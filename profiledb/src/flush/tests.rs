use std::path::{Path, PathBuf};

use super::*;
use crate::{Epoch, Filter, Image, ImageKind, Process, Profile, Subject};
use counters::Counter;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn writer(path: &Path) -> Result<Writer, Error> {
    let epoch = Epoch {
        started: 0,
        ended: None,
        host: String::new(),
        kernel: String::new(),
        command: String::new(),
        engine: "ring".to_owned(),
        clock: "cycles".to_owned(),
        unit: "cycles".to_owned(),
        cycles_per_unit: 1.0,
        period: 1,
        window: 16,
        settings: crate::EpochSettings::default(),
    };
    Writer::create_epoch(path, &epoch)
}

fn image(path: &str) -> Image {
    Image {
        kind: ImageKind::File,
        path: path.to_owned(),
        build_id: None,
        identity: path.to_owned(),
    }
}

const SUBJECT: Subject = Subject {
    uid: None,
    gid: Some(1),
    euid: None,
    egid: Some(0),
    suid: None,
    dumpable: Some(false),
    capable: None,
    kernel: true,
};

/// Interrupts at `pcs` PCs of one image.
fn fill(flush: &mut Flush<'_>, pcs: u64) -> Result<(), Error> {
    let process = Process {
        pid: 1,
        started: 2,
        execs: 3,
        comm: "program".to_owned(),
    };
    let process = flush.process(&process)?;
    let subject = flush.subject(&SUBJECT)?;
    let image = flush.image(&image("/bin/program"))?;
    for number in 0..pcs {
        // Nothing to be packed tightly.
        let address = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        let pc = flush.pc(image, address, Some(&[0x90]))?;
        flush.cycles(process, subject, pc, None, 1, address)?;
    }
    flush.count(Counter::Samples, pcs)
}

fn load(path: &Path) -> Result<Profile, Error> {
    Profile::load(&[PathBuf::from(path)], &Filter::default())
}

/// A flush dropped without commit leaves nothing, its ids are refused from then on, and
/// the next flush stores anew what was lost.
#[test]
fn rolled_back() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = writer(&path)?;
    let mut flush = writer.begin(0, 1)?;
    fill(&mut flush, 10)?;
    let lost = flush.image(&image("/bin/lost"))?;
    drop(flush);

    let mut flush = writer.begin(1, 2)?;
    assert!(matches!(flush.pc(lost, 0, None), Err(Error::StaleId)));
    fill(&mut flush, 20)?;
    flush.commit()?;
    writer.close()?;
    let profile = load(&path)?;
    assert_eq!(
        (
            profile.cycles.len(),
            profile.pcs.len(),
            profile.images.len()
        ),
        (20, 20, 1)
    );
    assert_eq!(profile.subjects, [SUBJECT]);
    assert_eq!(profile.counters.values().copied().collect::<Vec<_>>(), [20]);
    Ok(())
}

/// Ids of a committed flush serve the next one; those of another writer are refused.
#[test]
fn ids_live_on() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut first = writer(&dir.path().join("1.db"))?;
    let mut second = writer(&dir.path().join("2.db"))?;
    let mut flush = first.begin(0, 1)?;
    let kept = flush.image(&image("/bin/kept"))?;
    flush.commit()?;
    let mut flush = first.begin(1, 2)?;
    flush.pc(kept, 1, None)?;
    flush.commit()?;
    let mut flush = second.begin(0, 1)?;
    flush.image(&image("/bin/other"))?;
    assert!(matches!(flush.pc(kept, 1, None), Err(Error::StaleId)));
    Ok(())
}

/// On a full disk a flush fails as a whole and says why; with space again the same data
/// is saved, and what was saved before is still there.
#[test]
fn disk_full() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = writer(&path)?;
    let mut flush = writer.begin(0, 1)?;
    fill(&mut flush, 10)?;
    flush.commit()?;
    let limit = |writer: &Writer, pages: i64| {
        writer
            .conn
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    };

    limit(&writer, 60)?;
    // Rows that wait for the end of the flush.
    let mut flush = writer.begin(1, 2)?;
    fill(&mut flush, 200_000)?;
    match flush.commit() {
        Err(Error::DiskFull { path: full }) => assert_eq!(full, path),
        other => return Err(format!("{other:?}").into()),
    }
    assert_eq!(load(&path)?.cycles.len(), 10);
    // Rows that are written at once.
    let mut flush = writer.begin(1, 2)?;
    let image = flush.image(&image("/bin/program"))?;
    let mut names = (0..50_000).map(|address| flush.symbol(image, address, 1, "a function"));
    match names.find(Result::is_err) {
        Some(Err(Error::DiskFull { path: full })) => assert_eq!(full, path),
        other => return Err(format!("{other:?}").into()),
    }
    let again = fill(&mut flush, 10);
    assert!(matches!(again, Err(Error::FlushFailed { .. })), "{again:?}");
    assert!(matches!(flush.commit(), Err(Error::FlushFailed { .. })));
    assert_eq!(load(&path)?.cycles.len(), 10);

    limit(&writer, 1 << 20)?;
    let mut flush = writer.begin(1, 2)?;
    fill(&mut flush, 50_000)?;
    flush.commit()?;
    writer.close()?;
    let profile = load(&path)?;
    assert_eq!((profile.cycles.len(), profile.pcs.len()), (50_010, 50_000));
    assert_eq!(
        profile.counters.values().copied().collect::<Vec<_>>(),
        [50_010]
    );
    Ok(())
}

/// A row that is refused for itself does not spoil the flush.
#[test]
fn refused_row() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = writer(&path)?;
    let mut flush = writer.begin(0, 1)?;
    let image = flush.image(&image("/bin/program"))?;
    for length in [0, 16, 1_000] {
        let refused = flush.pc(image, 0, Some(&vec![0x90; length]));
        assert!(matches!(refused, Err(Error::Invalid { .. })));
    }
    fill(&mut flush, 3)?;
    flush.commit()?;
    assert_eq!(load(&path)?.cycles.len(), 3);
    Ok(())
}
