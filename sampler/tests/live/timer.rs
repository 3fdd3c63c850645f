//! What only the clock `timer` has to show: its own intervals, and that it finds what it
//! interrupted.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use sampler::{Clock, Config, Engine, Mode, Pid, RawSample, Registers, Target};

use crate::programs::Waiting;
use crate::recording::{Recording, check, samples};
use crate::with_timer;

/// Mean interval in nanoseconds.
const MEAN: u64 = 100_000;

/// Samples of a test.
const SAMPLES: usize = 10_000;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name, test: fn(Clock) -> Result<(), Failed>| {
        Trial::ignorable_test(format!("bpf::{name}"), move || with_timer(test))
    };
    vec![
        trial("the_timer_draws_every_interval_anew", intervals),
        trial("the_intervals_of_the_timer_add_up_to_the_time", weights),
        trial("the_timer_takes_another_mean", another_mean),
        trial(
            "no_register_is_another_moments_under_signals_and_a_tracer",
            registers,
        ),
    ]
}

fn config(pids: Vec<Pid>) -> Config {
    Config {
        engine: Engine::Bpf,
        ..Config::new(Target::Processes(pids), Clock::Timer, MEAN)
    }
}

/// A busy process under this clock: its samples.
fn busy() -> Result<Vec<RawSample>, Failed> {
    let mut child = Waiting::busy(1)?;
    child.go()?;
    child.number()?;
    let mut recording = Recording::with(&config(vec![child.pid()]))?;
    recording.samples(SAMPLES, |_| true)?;
    let (batches, _) = recording.stop()?;
    child.end()?;
    Ok(samples(&batches).cloned().collect())
}

/// Intervals lie within half and one and a half of the mean, fall equally often into each tenth of
/// that, average to it, and are no few numbers over and over.
fn intervals(_: Clock) -> Result<(), Failed> {
    let mut periods: Vec<u64> = busy()?.iter().map(|sample| sample.period).collect();
    let count = periods.len();
    let mut tenths = [0_usize; 10];
    for period in &periods {
        let range = MEAN / 2..MEAN + MEAN / 2;
        check(range.contains(period), || format!("{period}"))?;
        tenths[((period - MEAN / 2) * 10 / MEAN) as usize] += 1;
    }
    // Five standard deviations of a count.
    let expected = count as f64 / 10.0;
    let far = 5.0 * (expected * 0.9).sqrt();
    let uniform = |tenth: &usize| (*tenth as f64 - expected).abs() < far;
    check(tenths.iter().all(uniform), || format!("{tenths:?}"))?;
    let mean = periods.iter().sum::<u64>() as f64 / count as f64;
    // Five of a mean of uniform numbers.
    let far = 5.0 * MEAN as f64 / (12.0 * count as f64).sqrt();
    check((mean - MEAN as f64).abs() < far, || format!("mean {mean}"))?;
    periods.sort_unstable();
    periods.dedup();
    check(periods.len() * 10 > count * 9, || {
        format!("{} distinct of {count}", periods.len())
    })
}

/// Where two samples of a process follow one another without a gap, the second's interval is the
/// time between them: what a sample weighs is what went by. Over many of them, that is: each
/// callback comes a little late.
fn weights(_: Clock) -> Result<(), Failed> {
    let samples = busy()?;
    let (mut weight, mut time) = (0, 0);
    for pair in samples.windows(2) {
        let [first, second] = pair else { continue };
        let between = second.time.saturating_sub(first.time);
        // Others ran between, or the machine did: these are not its intervals.
        if first.cpu == second.cpu && between < 2 * second.period {
            weight += second.period;
            time += between;
        }
    }
    println!("intervals of {weight} ns in {time} ns");
    check(weight > MEAN * SAMPLES as u64 / 4, || {
        format!("only {weight} ns without gaps")
    })?;
    let ratio = weight as f64 / time as f64;
    check((0.95..1.05).contains(&ratio), || format!("{ratio}"))
}

/// A new mean holds for every interval but the one that runs.
fn another_mean(_: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(1)?;
    child.go()?;
    child.number()?;
    let mut recording = Recording::with(&config(vec![child.pid()]))?;
    recording.samples(100, |_| true)?;
    recording.running().set_period(8 * MEAN)?;
    let is_long = |sample: &RawSample| (4 * MEAN..12 * MEAN).contains(&sample.period);
    recording.samples(100, is_long)?;
    let (batches, _) = recording.stop()?;
    child.end()?;
    for cpu in samples(&batches)
        .map(|sample| sample.cpu)
        .max()
        .iter()
        .flat_map(|last| 0..=*last)
    {
        let of_cpu = samples(&batches).filter(|sample| sample.cpu == cpu);
        let short_again = of_cpu
            .skip_while(|sample| !is_long(sample))
            .find(|sample| !is_long(sample));
        check(short_again.is_none(), || format!("{short_again:?}"))?;
    }
    Ok(())
}

/// The registers of a sample in the loop, by what it does: all are the first one plus their number.
fn belong_together(registers: &Registers) -> bool {
    const RCX: usize = 1;
    let numbers = registers.gpr.iter().zip(0_u64..).enumerate();
    numbers
        .filter(|(index, _)| ![RCX, Registers::RSP].contains(index))
        .all(|(_, (word, number))| *word == registers.gpr[0].wrapping_add(number))
}

/// Signals interrupt the loop, and a tracer lets the saved registers lie during every system call:
/// no sample of user code has registers that were not those of its PC.
fn registers(_: Clock) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("tagged");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/tagged.c");
    let compiled = Command::new("gcc")
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(source)
        .status()?;
    check(compiled.success(), || "it does not compile".to_owned())?;
    let mut child = Waiting::shell(&format!("'{}'", program.display()))?;
    child.go()?;
    let code = child.number()?..child.number()?;
    let mut pid = || -> Result<Pid, Failed> { Ok(Pid(child.number()?.try_into()?)) };
    let pids = vec![pid()?, pid()?];
    let mut recording = Recording::with(&config(pids))?;
    let is_in_loop = |sample: &RawSample| sample.mode == Mode::User && code.contains(&sample.ip.0);
    recording.samples(SAMPLES, is_in_loop)?;
    let (batches, _) = recording.stop()?;
    child.kill()?;
    let kernel = |sample: &RawSample| sample.mode == Mode::Kernel;
    let seen = samples(&batches).filter(|sample| kernel(sample)).count();
    for sample in samples(&batches).filter(|sample| is_in_loop(sample)) {
        let registers = sample.interrupted.ok_or("no registers")?;
        check(
            belong_together(&registers) && registers.pc() == sample.ip,
            || format!("{registers:x?}"),
        )?;
    }
    check(seen > SAMPLES / 100, || format!("{seen} of the kernel"))?;
    for sample in samples(&batches).filter(|sample| kernel(sample)) {
        let Some(registers) = sample.interrupted else {
            check(sample.ip.0 == 0, || format!("{sample:x?}"))?;
            continue;
        };
        check(
            registers.pc() == sample.ip && sample.ip.0 >> 63 == 1,
            || format!("{registers:x?}"),
        )?;
    }
    Ok(())
}
