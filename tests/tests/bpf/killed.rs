//! Collectors that are killed while they use what could be left behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use vcpi_tests::variable;

use crate::bench::{Bench, counter, succeeded};

/// So many are killed, unless the environment asks for more.
const KILLED: u64 = 20;
pub(crate) const KILLS_VARIABLE: &str = "VCPI_TEST_KILLS";

/// A recording that is killed, and what shows that another one works as before.
pub(crate) struct Watched<'a> {
    /// A fixture, and its arguments.
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a [&'a str],
    /// What `vcpid record` is to do.
    pub(crate) option: &'a str,
    /// Milliseconds after which it is under way.
    pub(crate) begun: u64,
    /// The counter of what was seen: its group and name.
    pub(crate) seen: (&'a str, &'a str),
    /// The counter of that group that tells what others have left no room for.
    pub(crate) lacking: Option<&'a str>,
}

/// A collector that is killed leaves no thread stopped, none of its own, and no breakpoint: were
/// some left of each, the last one would have found no more of the four.
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
    let kills = variable(KILLS_VARIABLE)?.unwrap_or(KILLED);
    for number in 0..kills {
        let mut collector = Kept(record(&format!("killed-{number}.db"), &[]).spawn()?);
        let said = collector.0.stderr.take().context("no output")?;
        // The first line comes when sampling begins. How much later it is killed is to differ.
        BufReader::new(said).read_line(&mut String::new())?;
        std::thread::sleep(Duration::from_millis(watched.begun + 37 * (number % 17)));
        let own = format!("/proc/{}/task", collector.0.id());
        let wakers = names(&own)?.filter(|name| name.starts_with("waker/"));
        if watched.option.starts_with("--vectors") && wakers.count() == 0 {
            bail!("no thread brings vector registers");
        }
        collector.0.kill()?;
        collector.0.wait()?;
        if Path::new(&own).exists() {
            bail!("threads of a killed collector are left");
        }
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
    let (seen, lacking) = (count(name)?, watched.lacking.map_or(Ok(0), count)?);
    println!("    after {kills} kills: {seen} {name}, {lacking} lacked a debug register");
    if seen == 0 || lacking != 0 {
        bail!("{seen} {name}, {lacking} lacked a debug register");
    }
    target.0.kill()?;
    Ok(())
}

/// Names of a process's threads.
fn names(tasks: &str) -> Result<impl Iterator<Item = String>> {
    let names = std::fs::read_dir(tasks)?.filter_map(|task| {
        // One that has ended meanwhile has no name.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    Ok(names)
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
