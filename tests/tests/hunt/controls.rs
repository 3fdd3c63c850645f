//! Whether the hunt would see a wrong value, and repeats itself.

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::gcc;
use vcpi_tests::rows::Rows;

use crate::kinds::{KINDS, Kind};
use crate::program::{Source, generate};
use crate::run::{Range, read_traces};
use crate::{Live, Request, machine};

/// The kind and the seed that are recorded.
const SEED: u64 = 1;

fn kind(name: &str) -> Result<&'static Kind> {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    kind.with_context(|| format!("no kind {name}"))
}

pub(crate) const PLANTED: Live = test("a changed value is found", planted, &[gcc]);
/// One value of a database is changed: there is one finding more than before. Else the hunt would
/// show nothing.
fn planted(range: &Range, _: &Request) -> Result<()> {
    let kind = kind("threads")?;
    let outcome = range.run(kind, SEED, true)?;
    let folder = outcome.kept.context("the folder of the program")?;
    for engine in &range.engines {
        let path = folder.join(format!("{engine}.db"));
        let before = Range::judged_again(&folder, engine)?.findings.len();
        let traces = read_traces(&folder, engine)?;
        let trace = traces.values().next().context("a trace")?;
        let marked = trace.marked.clone();
        // As rows, which can be changed one by one.
        std::fs::copy(Rows::of(&path)?.path(), &path)?;
        let database = Connection::open(&path)?;
        let changed = database.execute(
            "UPDATE tuple SET value = (value | 4660) - (value & 4660) WHERE (hotlist, rank) IN \
             (SELECT hotlist, rank FROM tuple JOIN hotlist ON hotlist.id = tuple.hotlist \
              JOIN pc ON pc.id = hotlist.pc JOIN image ON image.id = pc.image \
              WHERE path LIKE '%/program' AND parameter GLOB 'r*' AND parameter <> 'ret' \
              AND address >= ?1 AND address < ?2 LIMIT 1)",
            (marked.start.cast_signed(), marked.end.cast_signed()),
        )?;
        drop(database);
        ensure!(changed == 1, "{engine}: no value to change");
        let after = Range::judged_again(&folder, engine)?.findings.len();
        ensure!(
            after == before + 1,
            "{engine}: {before} findings before a value was changed, {after} after it"
        );
    }
    std::fs::remove_dir_all(&folder).context("removing the program")
}

pub(crate) const REPEATED: Test = test("a seed gives one program", repeated, &[]);
/// A seed gives the same text each time, and each seed another one. Else a finding could not be
/// repeated.
fn repeated() -> Result<()> {
    let machine = machine()?;
    let text = |kind: &Kind, seed| {
        let source = match kind.related {
            true => Source::of_relations(seed),
            false => generate(kind, seed, &machine),
        };
        (source.c, source.assembly, source.options)
    };
    for kind in KINDS {
        for seed in [1, 2, u64::MAX] {
            let one = text(kind, seed);
            ensure!(one == text(kind, seed), "{} {seed} varies", kind.name);
            let next = text(kind, seed.wrapping_add(1));
            ensure!(one != next, "{} {seed} is like the next", kind.name);
        }
    }
    Ok(())
}
