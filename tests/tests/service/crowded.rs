//! A service on a machine that leaves it too little processor time.

use std::process::Command;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::bench::{Bench, Burner, ensure_whole};
use crate::common::{ensure, text};
use crate::{TestResult, done};

/// Programs that come before the service, for each processor.
const RIVALS: usize = 4;

/// Samples that are taken and find no room are taken no more within seconds, which is said: then
/// nearly all find room, requests are answered, and the end saves what there is.
pub(crate) fn governed() -> TestResult {
    let bench = Bench::new()?;
    let more = "sampling.rate = 20000\ngovernor.budget_percent = 100.0";
    let mut service = bench.start(&bench.configure(more)?)?;
    let processors = std::thread::available_parallelism()?.get();
    let rivals: Result<Vec<_>, Failed> = (0..processors * RIVALS)
        .map(|_| Burner::before_others())
        .collect();
    let rivals = rivals?;
    service.await_line("the rate was lowered to what can be taken")?;
    // However often it takes: each time is said, and none comes once there is room.
    let mut before = Taken::of(&bench)?;
    for look in 0.. {
        service.await_flushes(2)?;
        let now = Taken::of(&bench)?;
        let (lost, of) = (now.lost - before.lost, now.samples - before.samples);
        if lost * 20 <= of && of > 0 {
            break;
        }
        ensure(look < 30, || {
            format!("{lost} of {of} lost: {:?}", service.all_said())
        })?;
        before = now;
    }
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
        // The reader has to come before the rivals, too.
        let mut command = Command::new("nice");
        command.args(["-n", "-20"]).arg(&bench.programs.vcpid);
        command.args(["ctl", "status", "--format", "json", "--socket"]);
        let output = command.arg(bench.path("socket")).output()?;
        ensure(output.status.success(), || text(&output))?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| status[name].as_i64().ok_or("no such number");
        Ok(Self {
            samples: number("samples")?,
            lost: number("lost")?,
        })
    }
}
