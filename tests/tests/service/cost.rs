//! What the service costs, and what it does about that.

use std::process::Command;

use anyhow::{Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, Burner, Service, ensure_whole, query};

pub(crate) const LOWERED: Test = test(
    "the governor lowers the rate, and it is recorded",
    lowered,
    &[as_root],
);
/// A budget that no rate keeps has it begin at a lower rate, and lower that further. Each flush has
/// what was spent, what might have been, and the rate; weights follow the intervals.
fn lowered() -> Result<()> {
    let bench = Bench::new()?;
    let _burners = [Burner::start()?, Burner::start()?];
    let mut service =
        bench.start(&bench.configure("sampling.rate = 1000\ngovernor.budget_percent = 0.03")?)?;
    service.await_line("the rate was lowered")?;
    // Longer than it takes to find out that even that is too dear.
    service.await_flushes(20)?;
    agree(&bench, &mut service)?;
    service.stop()?;
    let database = &bench.databases()?[0];
    ensure_whole(database)?;
    let counter = |name: &str| {
        query::<i64>(
            database,
            &format!(
                "SELECT coalesce(sum(value), 0) FROM counter
                 WHERE kind = 'overhead' AND name = '{name}'"
            ),
        )
    };
    let starts = counter("starts_lowered")?;
    ensure!(starts == 1, "{starts} starts at a lower rate");
    let lowered = counter("rate_lowered")?;
    let handler = counter("handler_ns")?;
    ensure!(handler > 0, "the handler took no time");
    let spent = counter("collector_cpu_ns")? + counter("interrupts_ns")? + handler;
    let budget = counter("budget_ns")?;
    ensure!(
        lowered >= 1 && budget > 0 && spent > budget,
        "lowered {lowered} times, spent {spent} ns, budget {budget} ns"
    );
    let longest = query::<i64>(
        database,
        "SELECT max(value) FROM counter WHERE kind = 'overhead' AND name = 'period_sum'",
    )?;
    ensure!(
        longest > 4 * CONFIGURED,
        "the longest mean interval was {longest} ns"
    );
    // Where the mean was looked at, unless it changed in that flush or shortly before: samples are
    // looked at seconds after they were taken.
    let met = query::<f64>(
        database,
        "WITH of(flush, mean) AS (
           SELECT flush, value FROM counter AS period
           WHERE kind = 'overhead' AND name = 'period_sum' AND 1 =
             (SELECT value FROM counter
              WHERE flush = period.flush AND kind = 'overhead' AND name = 'looks')
           AND NOT EXISTS
             (SELECT * FROM counter WHERE flush BETWEEN period.flush - 3 AND period.flush
              AND name IN ('starts_lowered', 'rate_lowered', 'rate_raised')))
         SELECT 1.0 * sum(weight) / sum(samples * mean) FROM cycles JOIN of USING (flush)",
    )?;
    // Long intervals are seldom drawn anew, from half of the mean to one and a half of it.
    ensure!(
        (0.45..1.55).contains(&met),
        "intervals were {met} times as long as they were to be"
    );
    Ok(())
}

/// The mean interval of 1000 samples a second, ns.
const CONFIGURED: i64 = 1_000_000;

pub(crate) const WINDOWS: Test = test(
    "long windows, and what the handler takes for them",
    windows,
    &[as_root],
);
/// Windows are long unless configured otherwise, and what they cost in the handler is told in each
/// form of the status, beside window, rate, and why these are what they are.
fn windows() -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let mut service = bench.start(&bench.configure("sampling.rate = 200")?)?;
    let status = |form: &str| -> Result<String> {
        let output = bench.ctl(&["status", "--format", form])?;
        ensure!(output.status.success(), text(&output));
        Ok(String::from_utf8(output.stdout)?)
    };
    // The governor looks at what a sample takes every few seconds, and again after each change.
    let json = loop {
        let json: Value = serde_json::from_str(&status("json")?)?;
        if json["overhead"]["handler_ns"].is_u64() {
            break json;
        }
        service.await_flushes(1)?;
    };
    let (sampling, handler) = (&json["sampling"], &json["handler"]);
    ensure!(sampling["window"] == 256, "{json}");
    let rate = sampling["rate"].as_f64();
    ensure!(
        rate.is_some_and(|rate| rate > 0.0 && rate < 200.1),
        "{json}"
    );
    let is_lowered = sampling["period"] != sampling["configured_period"];
    let why = sampling["why_rate"].as_str().unwrap_or_default();
    ensure!((why == "as configured") != is_lowered, "{json}");
    let figure = |name: &str| handler[name].as_u64().filter(|figure| *figure > 0);
    let each = figure("ns").zip(figure("samples"));
    ensure!(
        each.map(|(ns, samples)| ns / samples) == figure("ns_per_sample"),
        "{json}"
    );
    for (form, part) in [
        ("text", "handler   "),
        ("text", "rate      "),
        ("text", "windows   of 256 instructions at most: "),
        ("prometheus", "vcpid_handler_seconds_total "),
        ("prometheus", "vcpid_handler_samples_total "),
        ("prometheus", "vcpid_window_instructions 256"),
        ("prometheus", "vcpid_rate "),
    ] {
        let said = status(form)?;
        ensure!(
            said.lines().any(|line| line.starts_with(part)),
            "{part}: {said}"
        );
    }
    service.stop()?;
    // So do reports.
    let database = &bench.databases()?[0];
    let report = bench.programs.report(database, &["status"])?;
    let each = report.pointer("/other/handler/handler_ns_per_sample");
    ensure!(each.and_then(Value::as_u64) > Some(0), "{report}");
    Ok(())
}

pub(crate) const READERS: Test = test("what readers cost is counted apart", readers, &[as_root]);
/// What readers cost is counted apart from what sampling costs, so that asking much has nobody
/// sampled less.
fn readers() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(1)?;
    for _ in 0..10 {
        let asked = Command::new(&bench.programs.vcpi)
            .args(["status", "-i"])
            .arg(bench.path("socket"))
            .output()?;
        ensure!(asked.status.success(), text(&asked));
    }
    // The governor looks at it every few seconds.
    let counted = (0..60).try_fold(0, |counted: i64, _| {
        if counted == 0 {
            service.await_flushes(1)?;
        }
        query::<i64>(
            &bench.databases()?[0],
            "SELECT coalesce(sum(value), 0) FROM counter WHERE name = 'readers_cpu_ns'",
        )
    })?;
    ensure!(counted > 0, "readers cost nothing");
    // The service's status tells as much, in each of its forms.
    let status = |form: &str| bench.ctl(&["status", "--format", form]);
    let json: Value = serde_json::from_slice(&status("json")?.stdout)?;
    let shown = json["overhead"]["readers_cpu_ns"].as_i64();
    ensure!(shown >= Some(counted), "{json}");
    for (form, part) in [
        ("text", "readers   "),
        ("prometheus", "vcpid_readers_cpu_seconds_total "),
    ] {
        let said = text(&status(form)?);
        ensure!(said.lines().any(|line| line.starts_with(part)), "{said}");
    }
    service.stop()?;
    Ok(())
}

/// Journal and status, as JSON and for a monitor, tell of the same changes of the rate.
fn agree(bench: &Bench, service: &mut Service) -> Result<()> {
    let mut differ = String::new();
    // There may be a change between two of them.
    for _ in 0..5 {
        let output = bench.ctl(&["status", "--format", "json"])?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let metrics = text(&bench.ctl(&["status", "--format", "prometheus"])?);
        let differing = CHANGES.iter().find(|(name, metric, line)| {
            let said = service.times_said(line);
            let sample = format!("vcpid_{metric} {said}");
            status["overhead"][*name].as_u64() != Some(said as u64)
                || !metrics.lines().any(|line| line == sample)
        });
        let Some((_, _, line)) = differing else {
            return Ok(());
        };
        differ = format!("{line:?}: {:?}, {status}, {metrics}", service.all_said());
        service.await_flushes(1)?;
    }
    bail!("{differ}")
}

/// What is told of changes of the rate: as JSON, for a monitor, in the journal.
const CHANGES: [(&str, &str, &str); 3] = [
    (
        "starts_lowered",
        "sampling_starts_lowered_total",
        "begins at a lower rate",
    ),
    ("lowered", "rate_lowered_total", "the rate was lowered"),
    ("raised", "rate_raised_total", "the rate was raised"),
];

pub(crate) const STARVED: Test = test(
    "samples that are lost for want of processor time are a trouble",
    starved,
    &[as_root],
);
/// A service that gets no processor time while many samples are taken takes fewer of them as soon
/// as it sees that, and says once that it loses them; its status shows that in all its forms until
/// it is over, and what it costs with the interrupts of which nothing arrived.
fn starved() -> Result<()> {
    let bench = Bench::new()?;
    let more = "sampling.rate = 10000\ngovernor.budget_percent = 100.0";
    let mut service = bench.start(&bench.configure(more)?)?;
    let trouble = "keeping what is sampled";
    let status = |form: &str| -> Result<String> {
        let output = bench.ctl(&["status", "--format", form])?;
        ensure!(output.status.success(), text(&output));
        Ok(String::from_utf8(output.stdout)?)
    };
    // From the second look on what is lost is judged, and what is spent is known.
    while status("prometheus")?
        .lines()
        .all(|line| !line.starts_with("vcpid_overhead_ratio "))
    {
        service.await_flushes(1)?;
    }
    service.signal(Signal::SIGSTOP)?;
    // More samples than there is room for, whatever else the machine does.
    let script = "i=0; while [ $i -lt 8000000 ]; do i=$((i+1)); done";
    let burned = Command::new("sh").args(["-c", script]).status();
    service.signal(Signal::SIGCONT)?;
    ensure!(burned?.success(), "nothing was burned");
    service.await_line("the rate was lowered to what can be taken")?;
    service.await_line(trouble)?;
    let of_monitor = status("prometheus")?;
    ensure!(
        of_monitor.contains(&format!("vcpid_trouble{{what=\"{trouble}\"}} 1")),
        "{of_monitor}"
    );
    let of_programs: Value = serde_json::from_str(&status("json")?)?;
    let lost = of_programs["lost_percent"].as_f64();
    ensure!(
        lost.is_some_and(|lost| (5.0..=100.0).contains(&lost)),
        "{of_programs}"
    );
    let of_people = status("text")?;
    ensure!(
        of_people.contains(&format!("trouble   {trouble}: ")),
        "{of_people}"
    );
    // A machine that is busy with other things may go on losing at such a rate.
    bench.configure("sampling.rate = 100")?;
    let reload = bench.ctl(&["reload"])?;
    ensure!(reload.status.success(), text(&reload));
    service.await_line("keeping what is sampled: works again")?;
    let after = status("text")?;
    ensure!(!after.contains(trouble), "{after}");
    let said = service.times_said("keeping what is sampled: many");
    ensure!(said == 1, "said {said} times: {:?}", service.said);
    service.stop()?;
    // All interrupts are in what it counted of its cost, those too of which no sample arrived.
    let database = &bench.databases()?[0];
    let counter = |kind: &str, name: &str| {
        query::<i64>(
            database,
            &format!(
                "SELECT coalesce(sum(value), 0) FROM counter
                 WHERE kind = '{kind}' AND name = '{name}'"
            ),
        )
    };
    let interrupts = counter("overhead", "interrupts")?;
    let lost = counter("lost", "samples_without_room")?
        + counter("lost", "values_of_samples_without_room")?
        + counter("lost", "ring_samples")?
        + counter("lost", "ring_records")?;
    ensure!(
        lost > 0 && interrupts > lost,
        "{interrupts} interrupts, {lost} lost"
    );
    Ok(())
}
