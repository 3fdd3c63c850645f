//! A service on a machine where many programs want the processors.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, Burner, ensure_whole};

/// Other programs, for each processor: compilers keep a machine that busy.
const RIVALS: usize = 8;

/// Flushes that are looked at, one a second.
const FLUSHES: usize = 8;

pub(crate) const BESIDE_MANY: Test = test(
    "beside many busy programs few samples are lost",
    beside_many,
    &[as_root],
);
/// Beside many busy programs few samples are lost, requests are answered, and the end saves what
/// there is.
fn beside_many() -> Result<()> {
    let bench = Bench::new()?;
    let more = "sampling.rate = 4000\ngovernor.budget_percent = 100.0";
    let mut service = bench.start(&bench.configure(more)?)?;
    let processors = std::thread::available_parallelism()?.get();
    let rivals: Result<Vec<_>> = (0..processors * RIVALS).map(|_| Burner::start()).collect();
    let rivals = rivals?;
    // What the start leaves is not judged.
    service.await_flushes(2)?;
    let before = Taken::of(&bench)?;
    service.await_flushes(FLUSHES)?;
    let now = Taken::of(&bench)?;
    let (lost, of) = (now.lost - before.lost, now.samples - before.samples);
    ensure!(
        of > 1000 && lost * 20 <= of,
        "{lost} of {of} lost: {:?}",
        service.all_said()
    );
    service.stop()?;
    let said = service.all_said().join("\n");
    ensure!(said.contains("; written to "), "{said}");
    drop(rivals);
    ensure_whole(&bench.databases()?[0])?;
    Ok(())
}

/// What the status says of samples.
struct Taken {
    samples: i64,
    lost: i64,
}

impl Taken {
    fn of(bench: &Bench) -> Result<Self> {
        let output = bench.ctl(&["status", "--format", "json"])?;
        ensure!(output.status.success(), text(&output));
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| status[name].as_i64().context("no such number");
        Ok(Self {
            samples: number("samples")?,
            lost: number("lost")?,
        })
    }
}
