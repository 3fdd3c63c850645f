//! The engine `bpf`.

use std::sync::mpsc::sync_channel;

use libtest_mimic::{Failed, Trial};
use sampler::{
    Batch, Clock, Config, Context, Denial, Engine, Mode, Outcome, ProcessKey, RawSample, Record,
    Sampler, Target, Tid, UserRegisters,
};

use crate::for_clocks_with_bpf;
use crate::programs::Waiting;
use crate::recording::{Recording, check, millisecond, samples};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(for_clocks_with_bpf("a_command_with_who_it_is", command));
    trials.extend(for_clocks_with_bpf("the_whole_machine", system));
    trials.extend(for_clocks_with_bpf(
        "no_cycle_is_lost_in_a_full_buffer",
        full,
    ));
    trials.extend(for_clocks_with_bpf(
        "what_is_denied_is_not_captured",
        denied,
    ));
    trials
}

fn config(target: Target, clock: Clock) -> Config {
    Config {
        engine: Engine::Bpf,
        ..Config::new(target, clock, millisecond(clock))
    }
}

/// A field of `/proc/PID/stat`, numbered from 1 as in proc(5).
fn stat(pid: u32, field: usize) -> Result<u64, Failed> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, after_name) = text.rsplit_once(')').ok_or("no name")?;
    let field = after_name.split_whitespace().nth(field - 3);
    Ok(field
        .ok_or("no such field")?
        .parse::<i64>()?
        .cast_unsigned())
}

/// Whether the way of a sample was followed.
fn is_followed(sample: &RawSample) -> bool {
    let capture = sample.capture.as_ref();
    capture.is_some_and(|of| matches!(of.outcome, Outcome::Followed { .. }))
}

/// A command's samples: nobody else's, its identity as /proc has it, the registers of its own PC,
/// the code that is in its memory there.
fn command(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(2)?;
    let pid = child.pid();
    let mut wanted = config(Target::Command(pid), clock);
    wanted.bpf.placement = true;
    let mut recording = Recording::with(&wanted)?;
    child.go()?;
    child.number()?;
    recording.samples(200, |sample| sample.mode == Mode::User)?;
    let start_ticks = stat(pid.0, 22)?;
    let (ppid, pgid, sid) = (stat(pid.0, 4)?, stat(pid.0, 5)?, stat(pid.0, 6)?);
    let (batches, _) = recording.stop()?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    let mut keys: Vec<ProcessKey> = Vec::new();
    for sample in samples(&batches) {
        check(sample.pid == pid, || format!("a sample of {}", sample.pid))?;
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let task = &capture.task;
        check((task.tgid, task.tid) == (pid, sample.tid), || {
            format!("{task:?} in {sample:?}")
        })?;
        // The kernel's clock ticks are hundredths of a second here as everywhere on x86.
        check(task.start_time / 10_000_000 == start_ticks, || {
            format!("{task:?}: not started at {start_ticks}")
        })?;
        let place = task.placement.ok_or("no placement")?;
        let near = [place.ppid.0, place.pgid, place.sid].map(u64::from);
        check(near == [ppid, pgid, sid], || {
            format!("{task:?}: not {ppid} {pgid} {sid}")
        })?;
        let own = nix::unistd::getuid().as_raw();
        check((task.uid, task.euid, task.suid) == (own, own, own), || {
            format!("{task:?}: not {own}")
        })?;
        keys.push(task.process());
        if sample.mode != Mode::User {
            continue;
        }
        check(task.context == Context::User && task.dumpable, || {
            format!("{task:?}")
        })?;
        let registers = sample.interrupted.ok_or("no registers")?;
        check(
            registers.pc() == sample.ip && sample.user == UserRegisters::Long(registers),
            || format!("{registers:x?}"),
        )?;
        check(is_followed(sample), || format!("{capture:?}"))?;
        let line = sample.ip.0 & !63;
        let code = capture.pieces().find(|(address, _)| *address == line);
        let (_, code) = code.ok_or("the code did not come")?;
        let mut there = vec![0; code.len()];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut there, line)?;
        check(code == there && there.len() == 64, || {
            format!("{code:x?} is not {there:x?}")
        })?;
    }
    keys.sort_unstable();
    keys.dedup();
    check(keys.len() == 1, || format!("{keys:?}"))?;
    let name = samples(&batches)
        .filter_map(|sample| sample.capture.as_ref())
        .map(|of| of.task.name().to_vec())
        .last();
    check(name.is_some_and(|name| name.starts_with(b"live")), || {
        "no name".to_owned()
    })?;
    child.end()
}

/// The whole machine but for the collector: user code and the kernel, with the registers of both,
/// and system calls by their numbers.
fn system(clock: Clock) -> Result<(), Failed> {
    let child = Waiting::shell("dd if=/dev/zero of=/dev/null bs=64k")?;
    let mut child = child;
    child.go()?;
    let pid = child.pid();
    let mut recording = Recording::with(&config(Target::System, clock))?;
    let is_reading = |sample: &RawSample| {
        sample.pid == pid
            && sample.mode == Mode::Kernel
            && matches!(sample.user, UserRegisters::Long(_))
    };
    recording.samples(100, is_reading)?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let counters = handler.counters()?;
    let tids = recording.running().reader_tids();
    check(tids.len() == 1, || format!("{tids:?} read the buffers"))?;
    // Of a CPU that has nothing to tell, too.
    let cpus = recording.running().setup().cpus.clone();
    let told_of = |batches: &[Batch], cpu: u32| {
        let others = batches.iter().flat_map(|batch| &batch.others_drained_to);
        let mut all = others
            .map(|(cpu, _)| *cpu)
            .chain(batches.iter().map(|batch| batch.cpu));
        all.any(|of| of == cpu)
    };
    let begun = recording.batches.len();
    recording.until(|batches| cpus.iter().all(|cpu| told_of(&batches[begun..], *cpu)))?;
    let (batches, _) = recording.stop()?;
    child.kill()?;
    let own = std::process::id();
    check(samples(&batches).all(|sample| sample.pid.0 != own), || {
        "the collector's own".to_owned()
    })?;
    check(
        counters.get(sampler::HandlerCounter::Samples) >= 100,
        || format!("{counters:?}"),
    )?;
    let idle = samples(&batches).find(|sample| sample.tid == Tid(0));
    check(clock == Clock::Cycles || idle.is_none(), || {
        format!("{idle:?}")
    })?;
    let mut calls = 0;
    for sample in samples(&batches).filter(|sample| is_reading(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let UserRegisters::Long(user) = sample.user else {
            continue;
        };
        let interrupted = sample.interrupted.ok_or("no registers")?;
        check(
            interrupted.pc() == sample.ip && sample.ip.0 >> 63 == 1 && user.ip >> 47 == 0,
            || format!("{sample:x?}"),
        )?;
        // read(0) or write(1), the latter with the device's descriptor and the block's size.
        if let Some(0 | 1) = capture.system_call {
            check(user.gpr[2] == 65_536, || format!("{user:x?}"))?;
            calls += 1;
        }
    }
    check(calls >= 50, || format!("only {calls} of read and write"))
}

/// While nobody receives, the buffer runs full: every sample that the handler took is delivered as
/// a sample or as cycles, and with the PCs of the child.
fn full(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(1)?;
    child.go()?;
    child.number()?;
    let pid = child.pid();
    let mut config = config(Target::Processes(vec![pid]), clock);
    config.bpf.buffer_bytes = 4096;
    let (sender, receiver) = sync_channel(0);
    let running = Sampler::open(&config)?.start(sender)?;
    let handler = running.handler().ok_or("no handler")?;
    while handler.counters()?.get(sampler::HandlerCounter::BufferFull) < 100 {
        std::thread::yield_now();
    }
    running.request_stop();
    let records: Vec<Record> = receiver
        .iter()
        .flat_map(|batch| batch.unpacked().records)
        .collect();
    let counters = handler.counters()?;
    let stats = running.stop();
    child.end()?;
    check(
        counters.get(sampler::HandlerCounter::CyclesLost) == 0,
        || format!("{counters:?}"),
    )?;
    check(stats.without_room >= 100 && stats.samples > 0, || {
        format!("{stats:?}")
    })?;
    check(
        stats.samples + stats.without_room == counters.get(sampler::HandlerCounter::Samples),
        || format!("{stats:?} of {counters:?}"),
    )?;
    for record in records {
        if let Record::Cycles(cycles) = record {
            check(cycles.process.tgid == pid.0 && cycles.weight > 0, || {
                format!("{cycles:?}")
            })?;
        }
    }
    Ok(())
}

/// After a denial a process's samples hold no memory, or no values at all; its cycles stay.
fn denied(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::busy(1)?;
    child.go()?;
    child.number()?;
    let mut recording = Recording::with(&config(Target::Processes(vec![child.pid()]), clock))?;
    let handler = recording.running().handler().ok_or("no handler")?;
    let in_user_code = |sample: &RawSample| sample.mode == Mode::User;
    recording.samples(10, in_user_code)?;
    let key = samples(&recording.batches)
        .find_map(|sample| Some(sample.capture.as_ref()?.task.process()))
        .ok_or("no capture")?;
    let outcome_is = |outcome| {
        move |sample: &RawSample| {
            let capture = sample.capture.as_ref();
            sample.mode == Mode::User && capture.is_some_and(|of| of.outcome == outcome)
        }
    };
    handler.deny(key, Denial::Memory)?;
    recording.samples(10, outcome_is(Outcome::MemoryDenied))?;
    handler.deny(key, Denial::Values)?;
    recording.samples(10, outcome_is(Outcome::ValuesDenied))?;
    handler.forget(key)?;
    let so_far = samples(&recording.batches).count();
    recording.until(|batches| {
        samples(batches)
            .skip(so_far + 10)
            .any(|sample| in_user_code(sample) && is_followed(sample))
    })?;
    let (batches, _) = recording.stop()?;
    child.end()?;
    for sample in samples(&batches).filter(|sample| in_user_code(sample)) {
        let capture = sample.capture.as_ref().ok_or("no capture")?;
        let (memory, values) = match capture.outcome {
            Outcome::Followed { .. } => (true, true),
            Outcome::MemoryDenied => (false, true),
            Outcome::ValuesDenied => (false, false),
            _ => return Err(format!("{capture:?}").into()),
        };
        let has_memory = capture.frames().len() > 0
            || capture.pieces().next().is_some()
            || capture.fs_base.is_some();
        check(memory || !has_memory, || format!("{capture:?}"))?;
        check(sample.interrupted.is_some() == values, || {
            format!("{sample:?}")
        })?;
        check(values || capture.code().is_empty(), || {
            format!("{capture:?}")
        })?;
        check(sample.period > 0 && sample.ip.0 != 0, || {
            format!("{sample:?}")
        })?;
    }
    Ok(())
}
