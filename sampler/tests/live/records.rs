//! The records beside the samples: what a process did, and what was lost.

use libtest_mimic::{Failed, Trial};
use sampler::probe::Scope;
use sampler::{Batch, Clock, Config, MmapIdentity, Record, Target};

use crate::for_clocks;
use crate::programs::Waiting;
use crate::recording::{Recording, by_time, millisecond};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(for_clocks(
        "a_command_tells_its_life_in_order",
        Scope::Own,
        life,
    ));
    trials.extend(for_clocks(
        "what_nobody_drains_is_counted_as_lost",
        Scope::Own,
        lost,
    ));
    trials.extend(for_clocks(
        "a_gone_consumer_ends_the_readers",
        Scope::Own,
        gone,
    ));
    trials
}

/// No batch holds a record from before what an earlier batch of its CPU was drained to.
fn check_drained_to(batches: &[Batch]) -> Result<(), Failed> {
    for (index, batch) in batches.iter().enumerate() {
        for later in batches[index + 1..]
            .iter()
            .filter(|later| later.cpu == batch.cpu)
        {
            if later.drained_to < batch.drained_to {
                return Err(format!("drained back from {}", batch.drained_to).into());
            }
            let early = later
                .records
                .iter()
                .find(|record| record.time() < batch.drained_to);
            if let Some(record) = early {
                return Err(format!("{record:?} after {}", batch.drained_to).into());
            }
        }
    }
    Ok(())
}

/// A shell that runs a program in a child of its own: its exec, its mappings with build ids, the
/// fork, the child's exec and mappings, the child's exit and its own arrive in this order.
fn life(clock: Clock) -> Result<(), Failed> {
    let mut child = Waiting::shell("/bin/sh -c '/bin/ls /; true'")?;
    let shell = child.pid();
    let mut recording = Recording::start(Target::Command(shell), clock)?;
    child.go()?;
    let gone = |batches: &[Batch]| {
        let mut records = batches.iter().flat_map(|batch| &batch.records);
        records.any(|record| matches!(record, Record::Exit { pid, .. } if *pid == shell))
    };
    recording.until(gone)?;
    let (batches, _) = recording.stop()?;
    child.end()?;
    check_drained_to(&batches)?;

    let mut story = by_time(&batches)
        .into_iter()
        .filter(|r| !matches!(r, Record::Sample(_)));
    let mut expect = |what: &str, is: &dyn Fn(&Record) -> bool| {
        story
            .find(|record| is(record))
            .cloned()
            .ok_or_else(|| Failed::from(format!("no {what}")))
    };
    expect(
        "exec of the shell",
        &|record| matches!(record, Record::Comm { pid, name, exec: true, .. } if *pid == shell && name == "sh"),
    )?;
    let mapped = |program: &'static str, of| {
        move |record: &Record| match record {
            Record::Mmap(mmap) => {
                let path = mmap.path.to_string_lossy();
                mmap.pid == of && mmap.executable() && path.ends_with(program)
            }
            _ => false,
        }
    };
    let code = expect("mapping of the shell", &mapped("sh", shell))?;
    if let Record::Mmap(mmap) = &code
        && !matches!(mmap.identity, MmapIdentity::Inode { inode, .. } if inode != 0)
    {
        return Err(format!("no inode: {mmap:?}").into());
    }
    let fork = expect(
        "fork of the shell",
        &|record| matches!(record, Record::Fork { ppid, pid, .. } if *ppid == shell && pid != ppid),
    )?;
    let Record::Fork { pid: ls, .. } = fork else {
        return Err("no fork".into());
    };
    expect(
        "exec of ls",
        &|record| matches!(record, Record::Comm { pid, name, exec: true, .. } if *pid == ls && name == "ls"),
    )?;
    expect("mapping of ls", &mapped("ls", ls))?;
    expect(
        "exit of ls",
        &|record| matches!(record, Record::Exit { pid, .. } if *pid == ls),
    )?;
    expect(
        "exit of the shell",
        &|record| matches!(record, Record::Exit { pid, .. } if *pid == shell),
    )?;
    let data = batches.iter().flat_map(|batch| &batch.records).any(
        |record| matches!(record, Record::Mmap(mmap) if !mmap.executable() && mmap.writable()),
    );
    if data {
        Ok(())
    } else {
        Err("no writable mapping was told".into())
    }
}

/// While nobody receives, the rings run over, and the loss is counted, though the command has
/// ended and no later record can report it.
fn lost(clock: Clock) -> Result<(), Failed> {
    let mut child =
        Waiting::shell("/bin/sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'")?;
    let config = Config {
        ring_pages: 8,
        ..Config::new(Target::Command(child.pid()), clock, millisecond(clock) / 10)
    };
    // The channel holds 16 batches of a ring of 32 KiB each.
    let recording = Recording::with(&config)?;
    child.go()?;
    child.end()?;
    // `stop` compares the figures with what was received.
    let (batches, stats) = recording.stop()?;
    check_drained_to(&batches)?;
    if stats.lost == 0 {
        return Err(format!("nothing was lost: {stats:?}").into());
    }
    Ok(())
}

/// Readers whose consumer has gone end by themselves, and tell what they could not deliver.
fn gone(clock: Clock) -> Result<(), Failed> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let mut child = Waiting::busy(1)?;
    child.go()?;
    child.number()?;
    let target = Target::Processes(vec![child.pid()]);
    let running =
        sampler::Sampler::open(&Config::new(target, clock, millisecond(clock)))?.start(sender)?;
    receiver.recv()?;
    drop(receiver);
    let stats = running.stop();
    child.end()?;
    if stats.readers_failed > 0 {
        return Err(format!("{stats:?}").into());
    }
    Ok(())
}
