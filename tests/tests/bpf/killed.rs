//! Collectors that are killed while breakpoints are set.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::bench::{Bench, counter, succeeded};

/// So many are killed.
const KILLED: u64 = 20;

/// What sets breakpoints, and where.
pub(crate) struct Watched<'a> {
    /// A fixture, and its arguments.
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a [&'a str],
    /// What `vcpid record` is to do.
    pub(crate) option: &'a str,
    /// Milliseconds after which there are breakpoints.
    pub(crate) begun: u64,
    /// The counter of what breakpoints saw: its group and name.
    pub(crate) seen: (&'a str, &'a str),
}

/// A collector that is killed leaves no breakpoint, and no thread stopped: were some left of each,
/// the last one would have found no more of the four.
pub(crate) fn leaves_nothing(bench: &Bench, watched: &Watched<'_>) -> Result<()> {
    let program = bench.compile(&format!("{}.c", watched.name), watched.name, &[])?;
    let mut target = Kept(Command::new(&program).args(watched.arguments).spawn()?);
    let pid = target.0.id().to_string();
    let record = |name: &str, arguments: &[&str]| {
        let mut command = bench.record("bpf", 1_000, name);
        command
            .args([watched.option, "-p", &pid])
            .args(arguments)
            .stderr(Stdio::piped());
        command
    };
    for number in 0..KILLED {
        let mut collector = Kept(record(&format!("killed-{number}.db"), &[]).spawn()?);
        let said = collector.0.stderr.take().context("no output")?;
        // The first line comes when sampling begins. How much later it is killed is to differ.
        BufReader::new(said).read_line(&mut String::new())?;
        std::thread::sleep(Duration::from_millis(watched.begun + 37 * (number % 17)));
        collector.0.kill()?;
        collector.0.wait()?;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    if !matches!(state, Some('R' | 'S' | 'D')) {
        bail!("the program is in state {state:?}");
    }
    let output = record("after.db", &["--duration", "5"]).output()?;
    succeeded(&output)?;
    let database = bench.open("after.db")?;
    let (group, name) = watched.seen;
    let count = |name| counter(&database, group, name);
    let (seen, lacking) = (count(name)?, count("no_debug_register")?);
    println!("    after {KILLED} kills: {seen} {name}, {lacking} without a debug register");
    if seen == 0 || lacking != 0 {
        bail!("{seen} {name}, {lacking} without a debug register");
    }
    target.0.kill()?;
    Ok(())
}

/// A child that does not outlive the test.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
