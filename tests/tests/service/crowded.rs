//! A service on a machine where many programs want the processors.

use libtest_mimic::Failed;
use serde_json::Value;

use crate::bench::{Bench, Burner, ensure_whole};
use crate::common::{ensure, text};
use crate::{TestResult, done};

/// Other programs, for each processor: compilers keep a machine that busy.
const RIVALS: usize = 8;

/// Flushes that are looked at, one a second.
const FLUSHES: usize = 8;

/// Beside many busy programs few samples are lost, requests are answered, and the end saves what
/// there is.
pub(crate) fn beside_many() -> TestResult {
    let bench = Bench::new()?;
    let more = "sampling.rate = 4000\ngovernor.budget_percent = 100.0";
    let mut service = bench.start(&bench.configure(more)?)?;
    let processors = std::thread::available_parallelism()?.get();
    let rivals: Result<Vec<_>, Failed> =
        (0..processors * RIVALS).map(|_| Burner::start()).collect();
    let rivals = rivals?;
    // What the start leaves is not judged.
    service.await_flushes(2)?;
    let before = Taken::of(&bench)?;
    service.await_flushes(FLUSHES)?;
    let now = Taken::of(&bench)?;
    let (lost, of) = (now.lost - before.lost, now.samples - before.samples);
    ensure(of > 1000 && lost * 20 <= of, || {
        format!("{lost} of {of} lost: {:?}", service.all_said())
    })?;
    service.stop()?;
    let said = service.all_said().join("\n");
    ensure(said.contains("; written to "), || said.clone())?;
    drop(rivals);
    ensure_whole(&bench.databases()?[0])?;
    done()
}

/// What the status says of samples.
struct Taken {
    samples: i64,
    lost: i64,
}

impl Taken {
    fn of(bench: &Bench) -> Result<Self, Failed> {
        let output = bench.ctl(&["status", "--format", "json"])?;
        ensure(output.status.success(), || text(&output))?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| status[name].as_i64().ok_or("no such number");
        Ok(Self {
            samples: number("samples")?,
            lost: number("lost")?,
        })
    }
}
