//! The epochs of a profile: how far they reach, what became of them, and how they are listed.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use profiledb::rows::Epoch;
use profiledb::{Doubled, Extent, Profile};
use serde_json::{Value, json};

use crate::bundle;
use crate::render::{Align, MAX_WIDTH, Table, brief, count, rounded};
use crate::time;
use crate::view::as_float;

/// The bytes of a database that SQLite keeps for its locks, from the first on. Whoever has one in
/// WAL mode open, as collectors have, holds a lock among them (SQLite's file format, 1.4).
const LOCK_BYTES: (i64, i64) = (0x4000_0000, 512);

/// An epoch of a profile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'p> {
    /// Its settings.
    pub(crate) epoch: &'p Epoch,
    /// Where it is, and how far it reaches.
    pub(crate) extent: &'p Extent,
    /// How it ended.
    pub(crate) state: EpochEnd,
    /// The file it is in; `None`: the service keeps it.
    file: Option<&'p Path>,
}

/// How an epoch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochEnd {
    /// As it should.
    Ended,
    /// Its collector died.
    CutShort,
    /// It had not when it was copied.
    Copied,
    /// It has not.
    Running,
}

impl Shown<'_> {
    /// Whether its collector died.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.state == EpochEnd::CutShort
    }

    /// Whether it was copied while it ran.
    pub(crate) fn is_copied(&self) -> bool {
        self.state == EpochEnd::Copied
    }
}

impl EpochEnd {
    /// For programs.
    fn name(self) -> &'static str {
        match self {
            EpochEnd::Ended => "ended",
            EpochEnd::CutShort => "cut_short",
            EpochEnd::Copied => "copied",
            EpochEnd::Running => "running",
        }
    }
}

/// The epochs of a profile. With `served` it comes from a running service, whose last epoch is
/// the one that it writes; else a running collector shows in its file.
pub(crate) fn of(profile: &Profile, served: bool) -> Vec<Shown<'_>> {
    let both = profile.epochs.iter().zip(&profile.extents);
    both.map(|(epoch, extent)| {
        let runs = || extent.last && (served || is_open(&extent.path));
        let state = match epoch.ended {
            _ if epoch.is_cut_short() => EpochEnd::CutShort,
            _ if epoch.is_copied() => EpochEnd::Copied,
            Some(_) => EpochEnd::Ended,
            None if runs() => EpochEnd::Running,
            None => EpochEnd::CutShort,
        };
        Shown {
            epoch,
            extent,
            state,
            file: Some(extent.path.as_path()).filter(|_| !served),
        }
    })
    .collect()
}

/// When what was read was collected, in words: the flushes that were saved in a range of times
/// begin before it and end within.
pub(crate) fn reach(profile: &Profile) -> Option<String> {
    let extents = || profile.extents.iter();
    let began = extents().filter_map(|extent| extent.began).min()?;
    let saved = extents().filter_map(|extent| extent.saved).max()?;
    let (began, saved) = (time::local(began), time::local(saved));
    Some(format!(
        "what was saved in that time was collected from {began} to {saved}"
    ))
}

/// Whether the profile is that of somebody who sees no counters but how many samples are theirs.
pub(crate) fn are_withheld(profile: &Profile) -> bool {
    profile.epochs.iter().any(Epoch::is_withheld)
}

/// Whether another process has a database open, as its writer has (and another reader, for the
/// moment in which it reads). Nothing of this process may
/// have it open: closing the file here would take the locks of that from it.
pub(crate) fn is_open(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else {
        return false;
    };
    let (start, length) = LOCK_BYTES;
    let mut lock = libc::flock {
        // What nobody can have besides a lock of another.
        l_type: libc::F_WRLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    let asked = fcntl(file.as_fd(), FcntlArg::F_GETLK(&mut lock));
    asked.is_ok() && i32::from(lock.l_type) != libc::F_UNLCK
}

impl Shown<'_> {
    /// The last moment that is known of it, nanoseconds of the Unix epoch.
    fn end(&self) -> Option<i64> {
        self.epoch.ended.or(self.extent.saved)
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let Shown {
            epoch,
            extent,
            state,
            file,
        } = self;
        let seconds = epoch.ended.and_then(|ended| {
            let nanoseconds = u64::try_from(ended.checked_sub(epoch.started)?).ok()?;
            Some(rounded(as_float(nanoseconds) / 1e9, 3))
        });
        let command = Some(&epoch.command).filter(|_| !epoch.is_withheld());
        json!({
            "id": extent.id,
            "file": file,
            "started": time::utc(epoch.started),
            "ended": epoch.ended.map(time::utc),
            "saved": extent.saved.map(time::utc),
            "state": state.name(),
            "seconds": seconds,
            "samples": extent.samples,
            "host": epoch.host,
            "kernel": epoch.kernel,
            "command": command,
            "engine": epoch.engine,
            "clock": epoch.clock,
            "unit": epoch.unit,
            "period": epoch.period,
            "window": epoch.window,
        })
    }

    fn cells(&self) -> Vec<String> {
        let end = self.end().map(time::local);
        let end = match (self.state, end) {
            (EpochEnd::Running, _) => "still running".to_owned(),
            (EpochEnd::Copied, Some(end)) => format!("{end}, running when copied"),
            (EpochEnd::Copied, None) => "running when copied".to_owned(),
            (EpochEnd::CutShort, Some(end)) => format!("{end}, cut short"),
            (EpochEnd::CutShort, None) => "cut short".to_owned(),
            (EpochEnd::Ended, end) => end.unwrap_or_default(),
        };
        vec![
            self.extent.id.to_string(),
            time::local(self.epoch.started),
            end,
            count(self.extent.samples),
        ]
    }
}

/// The epochs as a table: which they are for `--epoch`, and when they were.
pub(crate) fn table(epochs: &[Shown<'_>]) -> Table {
    let mut columns = vec![
        ("epoch", Align::Right),
        ("from", Align::Left),
        ("to", Align::Left),
        ("samples", Align::Right),
    ];
    let has_command = epochs.iter().any(|shown| !shown.epoch.command.is_empty());
    let of_one_file = epochs.windows(2).all(|two| two[0].file == two[1].file);
    if has_command {
        columns.push(("command", Align::Left));
    }
    if !of_one_file {
        columns.push(("file", Align::Left));
    }
    let mut table = Table::new(&columns);
    for shown in epochs {
        let mut cells = shown.cells();
        if has_command {
            cells.push(brief(&shown.epoch.command, MAX_WIDTH));
        }
        if !of_one_file {
            let name = shown.file.and_then(Path::file_name).unwrap_or_default();
            cells.push(name.to_string_lossy().into_owned());
        }
        table.row(cells);
    }
    table
}

/// What a range of times cannot divide, where that is much.
pub(crate) fn added_up(profile: &Profile) -> Option<String> {
    let (from, to) = profile
        .cut
        .filter(|(from, to)| to.saturating_sub(*from) > time::MUCH)?;
    let (from, to) = (time::local(from), time::local(to));
    Some(format!(
        "what was collected from {from} to {to} has been added up: --since and --until take all \
         of it, as of its end, or nothing"
    ))
}

/// Which epochs are in two files: who left a copy there may think that both count.
pub(crate) fn doubled(profile: &Profile) -> impl Iterator<Item = String> {
    let mut files: BTreeMap<(&Path, &Path), Vec<String>> = BTreeMap::new();
    for Doubled { id, read, left } in &profile.doubled {
        let ids = files.entry((left, read)).or_default();
        ids.push(id.to_string());
    }
    files.into_iter().map(|((left, read), ids)| {
        let (left, read) = (bundle::named(left), bundle::named(read));
        format!(
            "epoch {} is in {} and in {}: it is read once, in the second",
            ids.join(", "),
            left.display(),
            read.display()
        )
    })
}
