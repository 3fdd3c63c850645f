//! Results of instructions that only the processor can do, from pairs of breakpoints.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Completion, Failed};

use crate::bench::{Bench, counter, succeeded};
use crate::checks::{self, Place, Verdict};

/// Pairs a second, at most.
const PAIRS: u32 = 500;
/// Of each kind of result so many are to be seen.
const LEAST: f64 = 20.0;

/// Without breakpoints windows know none of these results. Pairs bring all kinds of them, and
/// none is wrong; where a block was worked out, the processor made the same of it.
pub(crate) fn results(bench: &Bench) -> Result<Completion, Failed> {
    let program = bench.compile("bounced.c", "bounced", &[])?;
    let checks = checks::of_image(&program)?;
    for engine in ["bpf", "ring"] {
        let name = format!("bounced-{engine}.db");
        let output = bench
            .record(engine, 1_000, &name)
            .arg(format!("--bounce={PAIRS}"))
            .arg("--")
            .arg(&program)
            .arg("8")
            .output()?;
        succeeded(&output)?;
        let database = bench.open(&name)?;
        let count = |name| counter(&database, "pairs", name);
        let (seen, compared, disagreed) = (count("seen")?, count("compared")?, count("disagreed")?);
        println!("{engine}: {seen} pairs, {compared} compared, {disagreed} disagreed");
        let mut verdict = Verdict::default();
        checks::judge(&database, Place::File(&program), &checks, &mut verdict)?;
        verdict.settle(engine, LEAST * checks.len() as f64)?;
        if disagreed != 0 {
            return Err(format!("the processor disagrees {disagreed} times").into());
        }
        if compared == 0 {
            return Err("nothing was compared".into());
        }
        if engine == "bpf" && !verdict.unseen.is_empty() {
            return Err(format!("no pair of {:?}", verdict.unseen).into());
        }
    }
    Ok(Completion::Completed)
}

/// Collectors that are killed while their breakpoints are set.
const KILLED: u64 = 20;

/// A collector that is killed leaves no breakpoint, and no thread stopped: were two left of each,
/// the second one would have found no more of the four.
pub(crate) fn kills(bench: &Bench) -> Result<Completion, Failed> {
    let program = bench.compile("bounced.c", "bounced", &[])?;
    let mut target = Kept(Command::new(&program).arg("3600").spawn()?);
    let pid = target.0.id().to_string();
    let record = |name: &str, arguments: &[&str]| {
        let mut command = bench.record("bpf", 1_000, name);
        command
            .args(["--bounce=1000", "-p", &pid])
            .args(arguments)
            .stderr(Stdio::piped());
        command
    };
    for number in 0..KILLED {
        let mut collector = Kept(record(&format!("killed-{number}.db"), &[]).spawn()?);
        let said = collector.0.stderr.take().ok_or("no output")?;
        // The first line comes when sampling begins. How much later it is killed is to differ.
        BufReader::new(said).read_line(&mut String::new())?;
        std::thread::sleep(Duration::from_millis(100 + 37 * (number % 17)));
        collector.0.kill()?;
        collector.0.wait()?;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    if !matches!(state, Some('R' | 'S' | 'D')) {
        return Err(format!("the program is in state {state:?}").into());
    }
    let output = record("after.db", &["--duration", "5"]).output()?;
    succeeded(&output)?;
    let database = bench.open("after.db")?;
    let count = |name| counter(&database, "pairs", name);
    let (seen, lacking) = (count("seen")?, count("no_debug_register")?);
    println!("after {KILLED} kills: {seen} pairs, {lacking} without a debug register");
    if seen == 0 || lacking != 0 {
        return Err(format!("{seen} pairs, {lacking} without a debug register").into());
    }
    target.0.kill()?;
    Ok(Completion::Completed)
}

/// A child that does not outlive the test.
pub(crate) struct Kept(pub(crate) Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
