//! Epochs that are in several files of a directory: a copy was left beside its original. Each is
//! read once.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::Input;
use crate::open;
use crate::profile::Doubled;
use crate::rows::Epoch;
use crate::tables;
use crate::tables::stored::EPOCH;

/// An input, and how far an epoch was saved there.
type Place = (usize, Option<i64>);

/// Has each epoch read in one file of those that were not named: in the one that has most of it,
/// the first of several.
pub(super) fn leave_out(inputs: &mut [Input]) -> Vec<Doubled> {
    let in_folders = inputs.iter().filter(|input| !input.named).count();
    if in_folders < 2 {
        return Vec::new();
    }
    let mut found: BTreeMap<(i64, String), Vec<Place>> = BTreeMap::new();
    for (index, input) in inputs.iter().enumerate() {
        if !input.named {
            // Whoever reads the rows hears of what cannot be read.
            for (id, epoch, saved) in epochs(&input.path).unwrap_or_default() {
                let places = found.entry((id, identity(&epoch))).or_default();
                places.push((index, saved));
            }
        }
    }
    let mut doubled = Vec::new();
    for ((id, _), places) in found {
        let most = places.iter().map(|(_, saved)| *saved).max();
        let best = places.iter().find(|(_, saved)| Some(*saved) == most);
        let Some(&(best, _)) = best else { continue };
        for (index, _) in places {
            if index == best {
                continue;
            }
            let read = inputs[best].path.clone();
            let left = &mut inputs[index];
            left.without.push(id);
            doubled.push(Doubled {
                id,
                read,
                left: left.path.clone(),
            });
        }
    }
    doubled
}

/// What no two epochs have in common that were collected apart: they began within a nanosecond on
/// one host.
fn identity(epoch: &Epoch) -> String {
    let Epoch {
        started,
        host,
        kernel,
        command,
        engine,
        clock,
        ..
    } = epoch;
    let seed = epoch.settings.seed;
    format!(
        "{:?}",
        (started, host, kernel, command, engine, clock, seed)
    )
}

/// The epochs of a file with their ids, and how far each was saved.
fn epochs(path: &Path) -> rusqlite::Result<Vec<(i64, Epoch, Option<i64>)>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    open::harden(&conn)?;
    let mut statement = conn.prepare(&EPOCH.select(tables::version(&conn)?))?;
    let rows = statement.query_map([], tables::read::<Epoch>)?;
    let mut of_flushes = conn.prepare("SELECT max(ended) FROM flush WHERE epoch = ?1")?;
    let saved = |row: rusqlite::Result<(i64, Epoch)>| {
        let (id, epoch) = row?;
        let saved = of_flushes.query_row([id], |row| row.get(0))?;
        Ok((id, epoch, saved))
    };
    rows.map(saved).collect()
}
