//! What samples hold.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::sync_channel;

use libtest_mimic::{Failed, Trial};
use sampler::probe::{self, Scope};
use sampler::{
    Clock, Config, Engine, Mode, RawSample, Record, Sampler, Target, Tid, UserRegisters,
};

use crate::programs::{Waiting, numbers};
use crate::recording::{Recording, by_time, check, millisecond, samples};
use crate::{for_clocks, for_clocks_with_bpf};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(for_clocks(
        "registers_and_stack_are_the_childs",
        Scope::Own,
        child,
    ));
    trials.extend(for_clocks(
        "running_processes_with_their_threads",
        Scope::Own,
        processes,
    ));
    trials.extend(for_clocks(
        "system_wide_samples_user_and_kernel",
        Scope::System,
        system,
    ));
    trials.extend(for_clocks(
        "a_seed_draws_the_same_intervals",
        Scope::Own,
        seed,
    ));
    trials.extend(for_clocks(
        "periods_are_the_intervals_in_force",
        Scope::Own,
        periods,
    ));
    trials.extend(for_clocks("an_interrupt_has_a_cost", Scope::Own, cost));
    trials.extend(for_clocks(
        "an_interrupt_of_opened_events_has_a_cost",
        Scope::System,
        |clock| cost_of_opened(Engine::Ring, clock),
    ));
    trials.extend(for_clocks_with_bpf(
        "an_interrupt_of_opened_events_has_a_cost",
        |clock| cost_of_opened(Engine::Bpf, clock),
    ));
    trials
}

/// Whether a sample was taken in user code of the busy program's loop.
fn in_user_code(sample: &RawSample) -> bool {
    sample.mode == Mode::User
}

/// A busy child's samples carry a PC inside its code, registers that agree with each other, and
/// the bytes that the child knows to be on its stack.
fn child(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(1)?;
    let pid = child.pid();
    let mut recording = Recording::start(Target::Command(pid), clock)?;
    child.go()?;
    let address = child.number()?;
    recording.samples(100, in_user_code)?;
    let (batches, _) = recording.stop()?;
    child.end()?;

    let numbers: Vec<u8> = numbers()
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect();
    let mut code = Vec::new();
    let (mut inside, mut stacks) = (0, 0);
    for record in by_time(&batches) {
        match record {
            Record::Mmap(mmap) if mmap.executable() => {
                code.push(mmap.address..mmap.address.saturating_add(mmap.len));
            }
            Record::Sample(sample) if in_user_code(sample) => {
                check(sample.pid == pid, || {
                    format!("a sample of {}, not {pid}", sample.pid)
                })?;
                inside += usize::from(code.iter().any(|range| range.contains(&sample.ip.0)));
                let Some(registers) = sample.interrupted else {
                    return Err("a user sample without registers".into());
                };
                check(sample.user == UserRegisters::Long(registers), || {
                    format!("{sample:?}")
                })?;
                check(registers.pc() == sample.ip, || format!("{sample:?}"))?;
                check(registers.cs == 0x33, || format!("{sample:?}"))?;
                // Bit 1 of the flags is always set, and interrupts are on in user mode.
                check(registers.flags & 0x202 == 0x202, || format!("{sample:?}"))?;
                let Some(offset) = address.checked_sub(registers.sp()) else {
                    continue;
                };
                let offset = usize::try_from(offset)?;
                if let Some(copy) = sample.stack.get(offset..offset + numbers.len()) {
                    check(copy == numbers, || {
                        format!("another stack at {address:#x}: {copy:?}")
                    })?;
                    stacks += 1;
                }
            }
            _ => {}
        }
    }
    let all = samples(&batches)
        .filter(|sample| in_user_code(sample))
        .count();
    // The loop is all the child does but for its start.
    check(inside == all, || {
        format!("{inside} of {all} PCs in mapped code")
    })?;
    check(stacks >= 80, || {
        format!("only {stacks} of {all} stacks show the child's numbers")
    })
}

/// All threads of a process that was already running are sampled, beside another process.
fn processes(clock: Clock) -> Result<(), Failed> {
    let mut many = Waiting::busy(3)?;
    let mut one = Waiting::busy(1)?;
    for child in [&mut many, &mut one] {
        child.go()?;
    }
    for _ in 0..3 {
        many.number()?;
    }
    one.number()?;
    let pids = [many.pid(), one.pid()];
    let mut recording = Recording::start(Target::Processes(pids.to_vec()), clock)?;
    check(!recording.running().setup().threads_missed, || {
        "threads missed".to_owned()
    })?;
    let seen = |samples: &mut dyn Iterator<Item = &RawSample>| {
        let mut threads: BTreeMap<_, HashSet<Tid>> = BTreeMap::new();
        for sample in samples.filter(|sample| in_user_code(sample)) {
            threads.entry(sample.pid).or_default().insert(sample.tid);
        }
        pids.map(|pid| threads.get(&pid).map_or(0, HashSet::len))
    };
    recording.until(|batches| seen(&mut samples(batches)) == [3, 1])?;
    let (batches, _) = recording.stop()?;
    many.end()?;
    one.end()?;
    let stranger = samples(&batches).find(|sample| !pids.contains(&sample.pid));
    check(stranger.is_none(), || format!("{stranger:?}"))
}

/// System-wide there are samples of user code and of the kernel, on every CPU that works, and
/// none of idle time.
fn system(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(2)?;
    child.go()?;
    child.number()?;
    let pid = child.pid();
    let mut recording = Recording::start(Target::System, clock)?;
    let tids = recording.running().reader_tids();
    let cpus = recording.running().setup().cpus.clone();
    check(tids.len() == cpus.len(), || {
        format!("{tids:?} read {cpus:?}")
    })?;
    recording.samples(50, |sample| sample.pid == pid && sample.mode == Mode::User)?;
    // Reading files keeps the kernel busy.
    while !samples(&recording.batches).any(|sample| sample.mode == Mode::Kernel) {
        for _ in 0..1000 {
            std::fs::read("/proc/self/stat")?;
        }
        let received = recording.batches.len();
        recording.until(|batches| batches.len() > received)?;
    }
    let (batches, _) = recording.stop()?;
    child.end()?;
    for batch in &batches {
        check(cpus.contains(&batch.cpu), || {
            format!("a batch of CPU {}", batch.cpu)
        })?;
        let elsewhere = samples(std::slice::from_ref(batch)).find(|sample| sample.cpu != batch.cpu);
        check(elsewhere.is_none(), || {
            format!("{elsewhere:?} on {}", batch.cpu)
        })?;
    }
    for sample in samples(&batches).filter(|sample| sample.mode == Mode::Kernel) {
        // The kernel's half of the addresses, and its registers with it.
        check(sample.ip.0 >> 47 != 0, || format!("{sample:?}"))?;
        check(
            sample.interrupted.is_some_and(|of| of.pc() == sample.ip),
            || format!("{sample:?}"),
        )?;
    }
    // Hardware cycles are counted in the idle loop's code too.
    let idle = samples(&batches).find(|sample| sample.tid == Tid(0));
    check(clock == Clock::Cycles || idle.is_none(), || {
        format!("{idle:?}")
    })
}

/// Two runs with one seed draw the same intervals on each CPU as far as both go; a run with
/// another seed does not.
fn seed(clock: Clock) -> Result<(), Failed> {
    let drawn = |seed| -> Result<BTreeMap<u32, Vec<u64>>, Failed> {
        let mut child = Waiting::busy(2)?;
        child.go()?;
        child.number()?;
        let target = Target::Processes(vec![child.pid()]);
        let config = Config {
            seed,
            ..Config::new(target, clock, millisecond(clock))
        };
        let mut recording = Recording::with(&config)?;
        let setup = recording.running().setup().clone();
        recording.until(|batches| {
            let drawn: usize = batches.iter().map(|batch| batch.intervals.len()).sum();
            drawn >= setup.events + 20
        })?;
        let (batches, _) = recording.stop()?;
        child.end()?;
        let mut drawn: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for batch in batches {
            drawn.entry(batch.cpu).or_default().extend(batch.intervals);
        }
        Ok(drawn)
    };
    let (first, second, other) = (drawn(7)?, drawn(7)?, drawn(8)?);
    for (cpu, intervals) in &first {
        let again = second.get(cpu).ok_or("a CPU has gone")?;
        let common = intervals.len().min(again.len());
        check(intervals[..common] == again[..common], || {
            format!("{intervals:?}, {again:?}")
        })?;
        check(
            other.get(cpu).and_then(|of| of.first()) != intervals.first(),
            || "another seed draws the same".to_owned(),
        )?;
    }
    Ok(())
}

/// The period of a sample is an interval that was drawn for its CPU before it was taken, and
/// many different ones occur.
fn periods(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(1)?;
    child.go()?;
    child.number()?;
    // Not as a command: its threads would keep the interval they were made with.
    let mut recording = Recording::start(Target::Processes(vec![child.pid()]), clock)?;
    recording.samples(300, |_| true)?;
    let (batches, stats) = recording.stop()?;
    child.end()?;
    let mut drawn: BTreeMap<u32, HashSet<u64>> = BTreeMap::new();
    let mut used = HashSet::new();
    for batch in &batches {
        // What is drawn after the drain rules the next batch, but the first ones were drawn
        // before there was any.
        let before = drawn.entry(batch.cpu).or_default();
        if before.is_empty() {
            before.extend(&batch.intervals);
        }
        for sample in samples(std::slice::from_ref(batch)) {
            check(before.contains(&sample.period), || {
                format!("{} is none of {before:?}", sample.period)
            })?;
            used.insert(sample.period);
        }
        before.extend(&batch.intervals);
    }
    let redrawn = stats.intervals;
    check(used.len() >= 5, || {
        format!("{} intervals in use, {redrawn} drawn", used.len())
    })
}

/// Where a clock works its interrupts are found to cost something, and no millisecond.
fn cost(clock: Clock) -> Result<(), Failed> {
    let calibration = probe::calibrate();
    let cost = match clock {
        Clock::Cycles => &calibration.cycles,
        Clock::CpuClock | Clock::Timer => &calibration.cpu_clock,
    };
    let cost = cost.as_ref().map_err(ToString::to_string)?;
    println!("{calibration:?}");
    check(cost.as_micros() < 1000, || format!("{calibration:?}"))?;
    calibration.choice().map_err(|error| error.to_string())?;
    Ok(())
}

/// What an interrupt costs is found before sampling begins, which then takes the intervals that
/// were asked for.
fn cost_of_opened(engine: Engine, clock: Clock) -> Result<(), Failed> {
    let period = 20 * millisecond(clock);
    let config = Config {
        engine,
        ..Config::new(Target::System, clock, period)
    };
    let sampler = Sampler::open(&config)?;
    let cost = sampler.interrupt_cost()?;
    println!("{cost:?}");
    check(cost.as_micros() < 1000, || format!("{cost:?}"))?;
    let begun = sampler::clock_now();
    let (sender, batches) = sync_channel(64);
    let running = sampler.start(sender)?;
    let mut busy = Waiting::busy(2)?;
    busy.go()?;
    let records = batches.iter().flat_map(|batch| batch.unpacked().records);
    let samples = records.filter_map(|record| match record {
        Record::Sample(sample) if sample.time >= begun => Some(sample),
        _ => None,
    });
    let intervals: Vec<u64> = samples.take(20).map(|sample| sample.period).collect();
    drop(batches);
    running.stop();
    busy.kill()?;
    check(
        intervals
            .iter()
            .all(|interval| (period / 2..=period / 2 * 3).contains(interval)),
        || format!("{intervals:?}"),
    )
}
