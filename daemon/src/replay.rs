//! `vcpid replay`: a raw recording through the collector again.

use anyhow::{Context, Result};
use counters::Loss;
use profiledb::{Epoch, EpochSettings, KeyedBy, Writer};
use sampler::Pid;

use crate::output;
use crate::settings::args::{ContextArg, ReplayArgs};
use crate::settings::choices;
use machine::kernel::Kernel;
use machine::system::clock::wall_now;
use pipeline::collector::{Collector, Settings};
use pipeline::raw::{CollectorInput, Header, Reader, with_handlers};
use store::Store;

/// Runs a replay; returns the exit status.
pub(crate) fn run(args: &ReplayArgs) -> Result<u8> {
    let (mut reader, header) = Reader::open(&args.raw)?;
    let settings = settings(args, &header)?;
    let writer = Writer::create_epoch(&args.output, &epoch(&settings, &header))
        .context(output::CANNOT_WRITE)?;
    let mut store = Store::new(writer)?;
    let mut collector = Collector::new(settings);
    let kernel = Kernel::of_recording(header.kernel_text, header.kernel_build_id.as_deref());
    collector.replay(Pid(header.own_pid), kernel);
    let read = feed(&mut reader, &mut collector, &mut store);
    // What could be read before the damage is good, and is said not to be all: here, and to whoever
    // reads the database.
    if read.is_err() {
        collector.lost(Loss::RestOfADamagedRecording, 1);
    }
    store.flush(&mut collector, &|| true)?;
    store.end()?;
    if !args.quiet {
        eprintln!(
            "vcpid: {}; written to {}",
            output::collected(&collector.totals),
            args.output.display()
        );
    }
    read.with_context(|| {
        format!(
            "{}: what stands before that was replayed, the rest is missing",
            args.raw.display()
        )
    })?;
    Ok(0)
}

fn feed(reader: &mut Reader, collector: &mut Collector, store: &mut Store) -> Result<()> {
    let mut next = reader.next_entry()?;
    while let Some(entry) = next {
        // The answers come behind what asked for them.
        next = loop {
            match reader.next_entry()? {
                Some(CollectorInput::Answer(pid, answer)) => {
                    collector.loadmap.host.replay(pid, answer)
                }
                other => break other,
            }
        };
        match entry {
            CollectorInput::Record(record, evidence) => collector.record(record, evidence),
            CollectorInput::Handled(record, evidence, handlers) => {
                collector.record(with_handlers(record, handlers), evidence);
            }
            CollectorInput::Scan(pid, now) => {
                collector.loadmap.scan(pid, now, &mut collector.images)
            }
            CollectorInput::Written(file) => collector.written(&file),
            CollectorInput::Flush => {
                store.flush(collector, &|| true)?;
            }
            CollectorInput::Answer(..) | CollectorInput::End => {}
        }
        if collector.tables.is_full() {
            store.flush(collector, &|| true)?;
        }
    }
    Ok(())
}

fn settings(args: &ReplayArgs, header: &Header) -> Result<Settings> {
    let capture = match args.capture {
        Some(capture) => capture,
        None => header
            .capture
            .parse()
            .context("the recording's kinds of values")?,
    };
    let by_caller = args.context.map(|context| context == ContextArg::Caller);
    Ok(Settings {
        window: args.window.unwrap_or(header.window),
        capture,
        by_caller: by_caller.unwrap_or(header.by_caller),
        seed: header.seed,
        deny: Vec::new(),
        callers: args.frames,
        per_process: true,
        memory: args.memory as usize * (1 << 20),
        programs: choices::PROGRAMS,
        allow_secrets: header.allow_secrets,
        clock_offset: header.clock_offset,
        mean_interval: (header.clock != "timer").then_some(header.period),
        processor: header.processor.clone(),
    })
}

fn epoch(settings: &Settings, header: &Header) -> Epoch {
    let context = match settings.by_caller {
        true => KeyedBy::Caller,
        false => KeyedBy::None,
    };
    let more = EpochSettings {
        recorded_by: Some(header.version.clone()),
        replayed: Some(wall_now()),
        seed: Some(settings.seed),
        capture: Some(settings.capture.to_string()),
        context: Some(context),
        ..choices::of_this_version()
    };
    Epoch {
        started: header.started,
        ended: None,
        host: header.host.clone(),
        kernel: header.kernel.clone(),
        command: header.command.clone(),
        engine: header.engine.clone(),
        clock: header.clock.clone(),
        unit: header.unit.clone(),
        cycles_per_unit: header.cycles_per_unit,
        period: header.period,
        window: settings.window,
        settings: more,
    }
}
