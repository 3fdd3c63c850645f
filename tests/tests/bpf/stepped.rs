//! Threads that are traced and stepped (`--bounce=step`).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};
use vcpi_tests::variable;

use crate::bench::{Bench, Test, counter, cpu_clock, lasting, succeeded};
use crate::checks::{self, CodeIn, Verdict};
use crate::killed;

/// Threads a second that are stepped, at most.
const STOPS: u32 = 500;
/// Of each kind of result so many are to be seen.
const LEAST: f64 = 20.0;
/// Collectors that are killed, unless the environment asks for others.
const KILLED: u64 = 10;
/// How long what a killed collector leaves may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a recording says of its stops.
fn stops(bench: &Bench, name: &str, is_compared: bool) -> Result<()> {
    let database = bench.open(name)?;
    let count = |name| counter(&database, "steps", name);
    let (seen, stood) = (count("seen")?, count("stood_ns")?);
    let (instructions, compared) = (count("instructions")?, count("compared")?);
    let (disagreed, raced) = (count("disagreed")?, count("raced")?);
    println!(
        "    {name}: {seen} stops of {:.0} us each, {instructions} instructions, {compared} compared, \
         {disagreed} disagreed, {raced} raced, {} values",
        stood as f64 / 1000.0 / (seen as f64).max(1.0),
        count("values")?
    );
    let mut others = database.prepare(
        "SELECT name, sum(value) FROM counter WHERE kind = 'steps' GROUP BY name ORDER BY name",
    )?;
    let mut others = others.query([])?;
    while let Some(row) = others.next()? {
        println!(
            "        {} {}",
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?
        );
    }
    let mut texts = database.prepare("SELECT name FROM counter WHERE kind = 'disagreements'")?;
    let texts: Result<Vec<String>, _> = texts.query_map([], |row| row.get(0))?.collect();
    if disagreed != 0 {
        bail!("the processor disagrees {disagreed} times: {:?}", texts?);
    }
    if seen == 0 || is_compared && compared == 0 {
        bail!("{seen} stops, {compared} instructions compared");
    }
    Ok(())
}

/// Records a program of its own that checks itself, stepping its threads.
fn record(bench: &Bench, program: &Path, arguments: &[&str], name: &str) -> Result<()> {
    let output = bench
        .record("bpf", 1_000, name)
        .arg(format!("--bounce=step:{STOPS}"))
        .arg("--")
        .arg(program)
        .args(arguments)
        .output()?;
    succeeded(&output)?;
    print!("    {}", String::from_utf8_lossy(&output.stdout));
    // What becomes another program at once is not known by the time that it is looked at.
    stops(bench, name, !arguments.contains(&"exec"))
}

pub(crate) const RESULTS: Test = test(
    "results that steps show",
    results,
    &[as_root, gcc, cpu_clock],
);
/// Steps show results of each kind that no window knows: of system calls, atomic and serialising
/// instructions, approximations, x87, vectors. None is wrong, and whatever is worked out of the
/// same registers is the same.
fn results(bench: &Bench) -> Result<()> {
    let seconds = &*lasting(6)?;
    for (fixture, arguments) in [
        ("bounced", &[seconds][..]),
        ("stepped", &[seconds, "results"]),
    ] {
        let program = bench.compile(&format!("{fixture}.c"), fixture, &[])?;
        let checks = checks::of_image(&program)?;
        let name = format!("{fixture}-step.db");
        record(bench, &program, arguments, &name)?;
        let database = bench.open(&name)?;
        let mut verdict = Verdict::default();
        checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
        verdict.settle(fixture, LEAST * checks.len() as f64)?;
        // Where a thread is stopped is chance: most kinds are met, not all. Nor has every processor
        // the registers of AVX-512.
        let unseen = &verdict.unseen;
        if unseen.len() * 2 > checks.len() {
            bail!("no step of {unseen:?}");
        }
    }
    Ok(())
}

pub(crate) const STORM: Test = test(
    "programs that are stepped are right, in a storm of signals",
    storm,
    &[as_root, gcc, cpu_clock],
);
/// A program whose threads work out numbers and get numbered signals works out the same numbers
/// when it is stepped, and gets each signal once; a thread that blocks signals still does.
fn storm(bench: &Bench) -> Result<()> {
    let program = bench.compile("stepped.c", "stepped", &[])?;
    record(bench, &program, &["8", "storm"], "storm.db")?;
    Ok(())
}

pub(crate) const EXEC: Test = test(
    "programs that are stepped are right, from exec to exec",
    exec,
    &[as_root, gcc, cpu_clock],
);
/// A program that becomes itself again and again is what it was.
fn exec(bench: &Bench) -> Result<()> {
    let program = bench.compile("stepped.c", "stepped", &[])?;
    record(bench, &program, &["8", "exec"], "exec.db")?;
    Ok(())
}

pub(crate) const KILLS: Test = test(
    "collectors that are killed leave nobody stepped",
    kills,
    &[as_root, gcc, cpu_clock],
);
/// A collector that is killed leaves no thread stopped or traced, no process that steps, and the
/// program as it was.
fn kills(bench: &Bench) -> Result<()> {
    let kills = variable(killed::KILLS_VARIABLE)?;
    let kills = kills.unwrap_or(KILLED);
    let program = bench.compile("stepped.c", "stepped", &[])?;
    let mut target = Kept(Command::new(&program).args(["3600", "storm"]).spawn()?);
    let pid = target.0.id();
    for number in 0..kills {
        let mut collector = Kept(
            bench
                .record("bpf", 1_000, &format!("killed-{number}.db"))
                .arg(format!("--bounce=step:{STOPS}"))
                .args(["-p", &pid.to_string()])
                .stderr(Stdio::piped())
                .spawn()?,
        );
        let said = collector.0.stderr.take().context("no output")?;
        // The first line comes when sampling begins, the first stop half a second later. How much
        // later it is killed is to differ.
        let mut said = BufReader::new(said);
        said.read_line(&mut String::new())?;
        std::thread::sleep(Duration::from_millis(600 + 37 * (number % 17)));
        let steppers = children(collector.0.id())?;
        if steppers.is_empty() {
            bail!("no process steps");
        }
        collector.0.kill()?;
        collector.0.wait()?;
        let end = Instant::now() + PATIENCE;
        while steppers.iter().any(|pid| is_there(*pid)) {
            if Instant::now() > end {
                bail!("a process that steps is left");
            }
            std::thread::yield_now();
        }
        if let Some(status) = target.0.try_wait()? {
            bail!("the program has ended, after {number} kills: {status}");
        }
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let status = fs::read_to_string(task?.path().join("status"))?;
            let is = |name: &str, what: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.is_some_and(|line| line.trim().starts_with(what))
            };
            let runs = ["R", "S", "D"].iter().any(|state| is("State:", state));
            if !runs || !is("TracerPid:", "0") {
                bail!("after {number} kills: {status}");
            }
        }
    }
    println!("    {kills} collectors were killed");
    target.0.kill()?;
    Ok(())
}

/// A process that steps, as a recording has it.
struct Stepper(Kept);

impl Stepper {
    /// With the rights of this user, if it is not to be root.
    fn start(bench: &Bench, uid: Option<u32>) -> Result<Self> {
        let mut command = Command::new(&bench.programs.vcpid);
        command
            .arg("__step")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid);
        }
        Ok(Self(Kept(command.spawn()?)))
    }

    /// What it says of the only thread of a process: whether it was stopped, and the number of the
    /// reason if not.
    fn ask(&mut self, pid: u32) -> Result<(bool, u8)> {
        let number = |mut number: u32| {
            let mut bytes = Vec::new();
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
            bytes
        };
        let ask = [number(pid), number(pid)].concat();
        let (to, from) = (self.0.0.stdin.as_mut(), self.0.0.stdout.as_mut());
        let (to, from) = (to.context("no input")?, from.context("no output")?);
        to.write_all(&(ask.len() as u32).to_le_bytes())?;
        to.write_all(&ask)?;
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        let mut answer = vec![0; u32::from_le_bytes(len) as usize];
        from.read_exact(&mut answer)?;
        match *answer.as_slice() {
            [0, ..] => Ok((true, 0)),
            [1, reason, ..] => Ok((false, reason)),
            _ => bail!("no answer"),
        }
    }
}

/// Numbers of reasons why a thread is left alone.
const OWN: u8 = 0;
const TRACED: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const GONE: u8 = 3;
const WAITS: u8 = 4;
/// A user without any rights.
const NOBODY: u32 = 65_534;

pub(crate) const REFUSALS: Test = test(
    "threads that are not stepped",
    refusals,
    &[as_root, gcc, cpu_clock],
);
/// Left alone are: who asks, threads that wait, that others trace, that the user may not trace,
/// that have ended. Who has asked for all that can still have a thread stopped.
fn refusals(bench: &Bench) -> Result<()> {
    let start = |arguments: &[&str]| anyhow::Ok(Kept(Command::new("sh").args(arguments).spawn()?));
    let busy = start(&["-c", "while :; do :; done"])?;
    let traced = start(&["-c", "while :; do :; done"])?;
    let waiting = start(&["-c", "kill -STOP $$"])?;
    let mut ended = start(&["-c", "true"])?;
    ended.0.wait()?;
    let traced_pid = nix::unistd::Pid::from_raw(traced.0.id() as i32);
    nix::sys::ptrace::seize(traced_pid, nix::sys::ptrace::Options::empty())?;
    let stopped = nix::unistd::Pid::from_raw(waiting.0.id() as i32);
    nix::sys::wait::waitpid(stopped, Some(nix::sys::wait::WaitPidFlag::WUNTRACED))?;
    let mut stepper = Stepper::start(bench, None)?;
    for (pid, reason) in [
        (std::process::id(), OWN),
        (traced.0.id(), TRACED),
        (ended.0.id(), GONE),
        (waiting.0.id(), WAITS),
    ] {
        let answer = stepper.ask(pid)?;
        if answer != (false, reason) {
            bail!("{answer:?} for reason {reason}");
        }
    }
    let answer = Stepper::start(bench, Some(NOBODY))?.ask(busy.0.id())?;
    if answer != (false, NOT_ALLOWED) {
        bail!("nobody was told {answer:?}");
    }
    // Where processors are few it may have none for a while.
    let mut answers = (0..100).map(|_| stepper.ask(busy.0.id()));
    if !answers.any(|answer| matches!(answer, Ok((true, _)))) {
        bail!("a thread that runs was never stopped");
    }
    Ok(())
}

/// The processes that a process has started.
fn children(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for process in fs::read_dir("/proc")? {
        let name = process?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if stat(child).is_some_and(|(_, parent)| parent == pid) {
            children.push(child);
        }
    }
    Ok(children)
}

/// Whether a process is there that has not ended.
fn is_there(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The state of a process, and its parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
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
